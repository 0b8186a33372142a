"""`thence bench membership`: that real nodes come and go, that it tells what it should, and leaves nothing
behind. The figures are no promise; those of the simulator are the same on every machine."""

import json
from pathlib import Path

import pytest

from thence.cli.main import main
from thence.lab.bench import membership_sim
from thence.lab.bench.membership import bare_transfer_s

UNITS = {
    "membership.join.1MB": "ms",
    "membership.join.1MB.caught-up": "ms",
    "membership.join.1MB.bytes": "bytes",
    "membership.churn.eighth.load": "messages/s",
    "membership.churn.eighth.rate": "joins/s",
    "membership.churn.eighth.throughput": "messages/s",
    "membership.churn.eighth.cpu": "us",
    "membership.churn.eighth.busy": "cores",
    "membership.churn.eighth.join": "ms",
    "membership.churn.eighth.leave": "ms",
    "membership.evict": "round trips",
    "membership.grow.8": "ms",
    "membership.change.8": "ms",
    "membership.change.8.packets": "packets",
    "membership.change.8.join": "round trips",
    "membership.tree.8": "ms",
    "membership.tree.8.packets": "packets",
}


def test_bench_membership_measures_joins_and_leaves_of_real_nodes_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert main(["bench", "membership", "--quick", "--json"]) == 0
    figures = {figure["name"]: figure for figure in json.loads(capsys.readouterr().out)}
    assert {name: figure["unit"] for name, figure in figures.items()} == UNITS
    for figure in ("rate", "join", "leave"):
        figures.pop(
            f"membership.churn.eighth.{figure}"
        )  # within half a second perhaps no process gets in, or out
    assert all(figure["value"] > 0 for figure in figures.values())
    moved = figures["membership.join.1MB.bytes"]
    assert moved["ratio"] > 1, "the state has travelled"
    caught_up = figures["membership.join.1MB.caught-up"]
    assert caught_up["value"] >= caught_up["baseline"], "no joiner has caught up before it is in"
    assert list(tmp_path.iterdir()) == []


def test_an_eviction_costs_no_more_round_trips_than_a_few_messages_take_to_become_stable() -> None:
    first = next(figure for figure in membership_sim.bench(8) if not isinstance(figure, str))
    assert first.name == "membership.evict"
    assert first.baseline is not None
    assert 1 <= first.value <= 3 * first.baseline


def test_a_joiner_may_send_two_round_trips_after_it_has_asked_however_large_the_group() -> None:
    assert membership_sim.Grown(3).join_trips == membership_sim.Grown(12).join_trips == 2


def test_the_bare_transfer_moves_everything() -> None:
    assert bare_transfer_s(0) > 0
    assert bare_transfer_s(3_000_000) > 0
