"""Trials with a topology: what is drawn can happen, and real gateways die for good under load."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.live_history import read

from thence.check import judge
from thence.cli.main import main
from thence.lab.chaos.crash_points import PROGRAM
from thence.lab.chaos.plan import FOR_S, Act, draw_setup
from thence.lab.chaos.quiescence import await_none, complaints
from thence.lab.chaos.zones import (
    LiveZonesStorm,
    account_at_rest,
    account_of_zones,
    draw_zones_plan,
    near_links,
)
from thence.local.cluster import Cluster
from thence.local.node import as_arguments
from thence.local.zones_file import open_zones_layout
from thence.runtime.status import LoadStatus, LogStatus, Status, ZonesStatus
from thence.runtime.zones import read_zones

EXAMPLE = Path(__file__).parents[2] / "examples" / "zones.toml"
ZONES = """
[zones]
office = ["a"]
plant = ["c"]
[routers]
r1 = ["office", "plant"]
r2 = ["office", "plant"]
"""
SEEDS = range(40)


def test_what_is_drawn_can_happen_and_each_separator_keeps_a_gateway() -> None:
    topology = read_zones(EXAMPLE)
    near, seen = near_links(topology), set()
    for seed in SEEDS:
        acts = draw_zones_plan(seed, topology, 40.0)
        assert acts == draw_zones_plan(seed, topology, 40.0)
        seen |= {act.kind for act in acts}
        assert all((min(link), max(link)) in near for act in acts for link in act.links)
        assert all(act.links or act.nodes for act in acts)
        dead = [name for act in acts if act.kind == "kill for good" for name in act.nodes]
        assert len(dead) == len({*dead}) == 2
        assert not {"r1", "r2"} <= {*dead}
        assert not {"s1", "s2"} <= {*dead}
    assert seen == {*FOR_S, "kill for good"}
    assert "for good" in str(Act(1.0, 1.0, "kill for good", nodes=("r1",)))


def test_where_no_gateway_has_another_none_dies(tmp_path: Path) -> None:
    (tmp_path / "zones.toml").write_text(ZONES.replace('r2 = ["office", "plant"]', ""))
    topology = read_zones(tmp_path / "zones.toml")
    for seed in SEEDS:
        assert all(act.kind != "kill for good" for act in draw_zones_plan(seed, topology, 40.0))


LOG = LogStatus(bytes=1, head=0, tail=1, durable=1, sync="no")


def status(load: LoadStatus | None = None, **zones: object) -> Status:
    told = ZonesStatus(zones=["office"], **zones)  # type: ignore[arg-type]
    return Status(
        name="a", cluster="x", pid=1, uptime_s=1.0, state="running", boot=1, members=[], sent=1, delivered=1,
        inbox=0, held=0, unstable=0, oldest_unstable_s=None, holding_stability_back=[], log=LOG, load=load,
        zones=told,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("told", "says"),
    [
        (status(), ""),
        (status(gone=["r1"]), "goes on without r1, not without"),
        (status(flushing=["r1"]), "others may have more of r1"),
        (status(silent=["c"]), "c did not greet it"),
        (status(exposed=True), "that no other process has"),
        (status(forwards=3), "3 to be forwarded"),
        (status(LoadStatus(running=False, sent=1, seconds=1, rate=1, failed="no")), "its load failed: no"),
    ],
)
def test_what_is_wrong_with_zones_is_told(told: Status, says: str) -> None:
    assert (says in account_at_rest(told, set())) if says else account_at_rest(told, set()) == ""


def test_a_gateway_that_died_must_be_gone_everywhere() -> None:
    assert account_of_zones(status(), {"r1"}) == "goes on without none, not without r1"
    assert account_of_zones(status(gone=["r1"]), {"r1"}) == ""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    (tmp_path / "zones.toml").write_text(ZONES)
    flags = {"profile": "local", "allow_faults": True, "trace": tmp_path / "trace", "zones.suspect_us": 0}
    layout = open_zones_layout(tmp_path / "data", tmp_path / "zones.toml")
    made = Cluster(layout, program=PROGRAM, flags=as_arguments(flags))
    yield made
    made.stop(hurry=lambda: True)


ACTS = [
    Act(0.2, 1.0, "kill", nodes=("c",)),
    Act(0.3, 0.8, "kill in step", nodes=("r2",), point="after the commit"),
    Act(1.0, 2.0, "isolate", nodes=("a",), links=(("a", "r1"), ("a", "r2"))),
    Act(2.5, 2.5, "kill for good", nodes=("r1",)),
    Act(3.0, 3.5, "kill", nodes=("r2",)),
]


def test_a_gateway_dies_for_good_under_load_and_may_not_come_back(cluster: Cluster, tmp_path: Path) -> None:
    topology = read_zones(tmp_path / "zones.toml")
    setup = replace(draw_setup(0, 4), rates=(20.0,) * 4)
    storm = LiveZonesStorm(cluster, setup, ACTS, lambda _: None, topology, evicts=True)
    storm.start()
    while not storm.dead:  # it waits until nothing else is wrong
        storm.run(5.0)
    storm.calm()
    await_none(lambda: storm.accounts(account_at_rest), 90.0, lambda _: None)
    assert storm.dead == ["r1"]
    storm.come_back()
    assert set(cluster.stop("a", "c", "r2", grace_s=20).values()) == {0}
    assert complaints(cluster) == []
    [verdict] = judge(read(tmp_path / "trace"))
    assert verdict.ok, verdict
    assert verdict.deliveries > 10


def test_a_round_with_a_topology_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "zones.toml").write_text(ZONES)
    given = ["--topology", str(tmp_path / "zones.toml"), "--out", str(tmp_path / "out")]
    code = main(["chaos", *given, "--minutes", "0.1", "--seed", "2", "--engine", "local"])
    said = capsys.readouterr().out
    assert code == 0, said
    assert "no violation of any kind" in said
    assert "nothing is kept or held back" in said


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--topology", "none.toml"], "cannot read the topology none.toml"),
        (["--topology", str(EXAMPLE), "--spread", "tree"], "--topology says who there is"),
        (["--topology", str(EXAMPLE), "--changing"], "--topology says who there is"),
        (["--topology", str(EXAMPLE), "--netem"], "without --netem"),
        (["--spread", "zones"], "--spread is mesh or tree"),
    ],
)
def test_what_cannot_be_done_with_a_topology_is_said(
    given: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["chaos", *given]) == 2
    assert said in capsys.readouterr().err
