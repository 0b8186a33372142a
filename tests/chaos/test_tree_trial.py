"""Integration: real processes over a tree, killed in the middle of a step, cut off and cut in two."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.live_history import read

from thence.check import judge
from thence.lab.chaos.crash_points import PROGRAM
from thence.lab.chaos.open_trees import OpenStorm
from thence.lab.chaos.plan import Act, draw_setup
from thence.lab.chaos.quiescence import await_rest, complaints, lacking
from thence.lab.chaos.storm import Storm
from thence.local.cluster import Cluster
from thence.local.layout import open_layout
from thence.local.node import as_arguments
from thence.trace.schema import FORGIVEN

HALVES = (("a", "c"), ("a", "d"), ("b", "c"), ("b", "d"))
ACTS = [
    Act(0.2, 1.0, "kill", nodes=("a",)),
    Act(0.4, 0.9, "kill in step", nodes=("c",), point="in the middle of the rows"),
    Act(1.2, 2.6, "split", nodes=("a", "b"), links=HALVES),
    Act(1.6, 2.0, "kill in step", nodes=("d",), point="after the commit"),
    Act(2.8, 3.4, "isolate", nodes=("b",), links=(("a", "b"), ("b", "c"), ("b", "d"))),
]


COMING = [
    Act(0.2, 1.0, "kill", nodes=("a",)),
    Act(0.4, 1.4, "leave", nodes=("b",)),
    Act(0.6, 1.2, "kill in step", nodes=("c",), point="in the middle of the rows"),
    Act(1.6, 2.6, "lose disk", nodes=("d",)),
    Act(2.0, 3.0, "split", nodes=("a", "b"), links=HALVES),
    Act(3.2, 3.4, "kill all", nodes=("a", "b", "c", "d")),
]


@pytest.fixture
def cluster(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    setup = draw_setup(0, 4, request.param)
    flags = {"profile": "local", "allow_faults": True, "trace": tmp_path / "trace", **setup.flags()}
    made = Cluster(open_layout(tmp_path / "data", 4), program=PROGRAM, flags=as_arguments(flags))
    yield made
    made.stop(hurry=lambda: True)


@pytest.mark.parametrize("cluster", ["tree", "eco-sync-tree"], indirect=True)
def test_a_tree_of_processes_comes_through_and_its_trace_is_right(
    cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    spread = request.node.callspec.params["cluster"]
    storm = Storm(cluster, draw_setup(0, 4, spread), ACTS, lambda _: None)
    storm.start()
    storm.run(4.0)
    storm.calm()
    await_rest(cluster, 60.0, lambda _: None)
    assert set(cluster.stop(grace_s=20).values()) == {0}
    assert complaints(cluster) == []
    [verdict] = judge(read(tmp_path / "trace"))
    assert verdict.sends > 10
    assert not any(verdict.violations.values()), verdict


@pytest.mark.parametrize("spread", ["tree", "eco-sync-tree-centre"])
def test_members_come_and_go_without_any_consent(tmp_path: Path, spread: str) -> None:
    setup = replace(draw_setup(0, 4, "tree"), order="none", spread=spread)
    flags = {"profile": "local", "allow_faults": True, "trace": tmp_path / "trace", **setup.flags()}
    layout = open_layout(tmp_path / "data", 4, changing=True)
    cluster = Cluster(layout, program=PROGRAM, flags=as_arguments(flags))
    try:
        storm = OpenStorm(cluster, setup, COMING, lambda _: None)
        storm.start()
        storm.run(4.0)
        storm.calm()
        await_rest(cluster, 60.0, lambda _: None)
        for name in cluster.names:  # a newcomer is known by what it sends: on a busy machine nothing yet
            cluster.control(name).broadcast(b"here")
        await_rest(cluster, 60.0, lambda _: None)
        names = {name: set(cluster.control(name).status().clock) for name in cluster.names}
        assert set(cluster.stop(grace_s=20).values()) == {0}
    finally:
        cluster.stop(hurry=lambda: True)
    assert complaints(cluster) == []
    assert "b~2" in names["a"], "it had left"
    assert any(len(name) > 5 and name.startswith("d~") for name in names["a"]), "it had lost its disk"
    [verdict] = judge(read(tmp_path / "trace"))
    assert verdict.sends > 10
    assert not any(verdict.violations[kind] for kind in FORGIVEN), verdict


def test_logs_that_differ_are_told_of() -> None:
    assert lacking({"a": {"a": 3, "b": 1}, "b": {"a": 3, "b": 1}}) == {}
    assert lacking({"a": {"a": 3, "b": 1}, "b": {"a": 1}}) == {"b": "lacks 3 messages"}
