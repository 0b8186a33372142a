"""What simulated processes write for metrics: bytes, and how long states took to come."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from thence.pipeline.files import trace_files
from thence.sim.edge_run import simulate_edge
from thence.sim.groups_run import simulate_group
from thence.sim.groups_weather import draw_all
from thence.sim.overlay import OverlayRun
from thence.sim.overlay_durable import DurableOverlayRun
from thence.sim.overlay_scenarios import configure
from thence.sim.zones_run import simulate_zones


def rows(folder: Path) -> list[dict[str, Any]]:
    return [row for file in trace_files(folder) for row in pq.read_table(file.path).to_pylist()]


def metrics(told: list[dict[str, Any]], name: str) -> dict[str, int]:
    return {row["node"]: row["seq"] for row in told if (row["kind"], row["origin"]) == ("metric", name)}


@pytest.mark.parametrize("scenario", ["membership", "closed", "tree"])
def test_processes_of_a_group_tell_what_they_sent(tmp_path: Path, scenario: str) -> None:
    outcome = simulate_group(scenario, {"seed": 3}, tmp_path / "trace")
    told = rows(tmp_path / "trace")
    sent, got = metrics(told, "sent_bytes_total"), metrics(told, "delivered_bytes_total")
    assert len(sent) == len(got) == outcome.processes
    assert 0 < sum(got.values()) < sum(sent.values())


def test_bytes_are_counted_where_packets_travel_as_they_are(tmp_path: Path) -> None:
    seed = next(seed for seed in range(1, 50) if not draw_all(seed).air.wire)
    simulate_group("membership", {"seed": seed}, tmp_path / "trace")
    assert sum(metrics(rows(tmp_path / "trace"), "sent_bytes_total").values()) > 0


def test_each_installed_state_says_how_long_it_took(tmp_path: Path) -> None:
    simulate_group("membership", {"seed": 3}, tmp_path / "trace")
    told = rows(tmp_path / "trace")
    kinds = Counter(row["kind"] for row in told)
    took = [row for row in told if row["kind"] == "synced"]
    assert len(took) == kinds["install"] > 0
    assert all(row["seq"] >= 0 and row["origin"] != row["node"] for row in took)
    assert sum(metrics(told, "state_bytes_total").values()) > 0


def test_states_of_an_edge_tree_say_how_long_they_took_and_what_they_cost(tmp_path: Path) -> None:
    """The root aside, a node is a member of a group from a state on: its own, or of all groups anew."""
    simulate_edge({"seed": 2}, tmp_path / "trace")
    told = rows(tmp_path / "trace")
    took = [row for row in told if row["kind"] == "synced"]
    assert took
    assert any(row["seq"] > 0 for row in took)
    assert all(row["seq"] >= 0 and row["origin"] != row["node"] for row in took)
    states, sent = metrics(told, "state_bytes_total"), metrics(told, "sent_bytes_total")
    assert 0 < sum(states.values()) < sum(sent.values())


@pytest.mark.parametrize(
    ("scenario", "make"), [("tree-storm", OverlayRun), ("live-storm", DurableOverlayRun)]
)
def test_states_of_trees_that_forget_say_what_they_cost(
    tmp_path: Path, scenario: str, make: type[OverlayRun]
) -> None:
    for seed in range(20):
        path = tmp_path / f"{seed}.parquet"
        with path.open("wb") as sink:
            outcome = make(configure(scenario, spread="eco-sync-tree", seed=seed), sink)()
        states = metrics(rows(path), "state_bytes_total")
        assert (sum(states.values()) > 0) == (outcome.installs > 0)
        if outcome.installs:
            return
    raise AssertionError("no storm needs a state")


def test_zones_and_edge_trees_tell_what_they_sent(tmp_path: Path) -> None:
    simulate_zones({"seed": 2}, tmp_path / "zones")
    simulate_edge({"seed": 2}, tmp_path / "edge")
    for name in ("zones", "edge"):
        assert sum(metrics(rows(tmp_path / name), "sent_bytes_total").values()) > 0


def test_trees_tell_what_they_sent(tmp_path: Path) -> None:
    with (tmp_path / "run.parquet").open("wb") as sink:
        OverlayRun(configure("steady", nodes=5, messages=5), sink)()
    told = rows(tmp_path / "run.parquet")
    sent, got = metrics(told, "sent_bytes_total"), metrics(told, "delivered_bytes_total")
    assert 0 < sum(got.values()) < sum(sent.values())
