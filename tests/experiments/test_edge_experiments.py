"""Experiments over edge trees, tiny: each has points, figures and a table; what is measured is not judged."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from thence.experiments import edge
from thence.experiments.run import EXPERIMENTS, _csv, points_of
from thence.sim.edge_clique import SteadyClique
from thence.sim.edge_paths_steady import SteadyPaths
from thence.sim.edge_steady import CHANGES, EdgeLoad, SteadyTree


@pytest.mark.parametrize("name", sorted(edge.EXPERIMENTS))
def test_points_figures_and_a_table(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert name in EXPERIMENTS
    names = [point.name for point in points_of(name, quick=False)]
    assert len(set(names)) == len(names)
    assert max(int(each.split("-")[0]) for each in names) == 2000
    monkeypatch.setattr(edge, "QUICK_SIZES", (5, 9))
    points = points_of(name, quick=True)
    assert isinstance(points[-1], edge.EdgePoint)
    results = [edge.run_tree(points[-1], tmp_path)]
    assert results[0]["complete"], results[0]["why"]
    assert len(edge.draw(name, results)) == len(edge.CURVES[name])
    html, rows = edge.beside(name, results)
    assert rows[0]["point"] in html
    assert html.count(edge.SAID[name]) == 1, "the same words for each point"
    for curve in edge.CURVES[name]:
        assert curve.label in " ".join(rows[0]), "a figure without its unit"


def test_a_message_is_seen_between_its_publisher_its_members_and_the_root_alone() -> None:
    measured = SteadyTree(EdgeLoad(nodes=20, delta=2, span_us=1_000_000))()
    assert measured["complete"], measured["why"]
    assert measured["extra"] == 0
    assert measured["seen"] < 0.6
    assert measured["head_bytes"] < 28


def test_the_documents_own_scheme_stands_beside_the_tree(tmp_path: Path) -> None:
    load = EdgeLoad(nodes=15, delta=1, span_us=1_000_000, paths=True)
    points = [edge.EdgePoint(edge.METADATA, load), edge.EdgePoint(edge.METADATA, replace(load, paths=False))]
    ours, theirs = [edge.run_tree(point, tmp_path) for point in reversed(points)]
    assert theirs["complete"], theirs["why"]
    assert theirs["deliveries"] == ours["deliveries"] > 0
    assert theirs["head_bytes"] > 10
    assert len(edge.draw(edge.METADATA, [ours, theirs])) == len(edge.CURVES[edge.METADATA])
    _csv(tmp_path / "points.csv", [theirs, ours])
    with (tmp_path / "points.csv").open(encoding="utf-8", newline="") as file:
        first, second = csv.DictReader(file)
    assert (first["paths"], first["seen"], second["paths"]) == ("True", "", "False")
    assert second["seen"]


def test_a_chain_that_dies_is_passed_by() -> None:
    measured = SteadyTree(EdgeLoad(nodes=30, delta=2, kills=2, deep=True, span_us=2_000_000))()
    assert measured["complete"], measured["why"]
    assert measured["repairs"] > 0


@pytest.mark.parametrize("besides", edge.BASELINES)
def test_baselines_deliver_the_same_messages(besides: dict[str, bool], tmp_path: Path) -> None:
    load = EdgeLoad(nodes=15, delta=1, span_us=1_000_000)
    tree = edge.run_tree(edge.EdgePoint(edge.LATENCY, load), tmp_path)
    other = edge.run_tree(edge.EdgePoint(edge.LATENCY, replace(load, **besides)), tmp_path)
    assert other["complete"], other["why"]
    assert other["messages"] == tree["messages"]
    assert other["deliveries"] == tree["deliveries"] > 0
    assert other["head_bytes"] >= 10


def test_a_clique_shows_each_message_to_all_with_a_counter_for_each() -> None:
    measured = SteadyClique(EdgeLoad(nodes=30, delta=1, span_us=1_000_000, clique=True))()
    assert measured["head_bytes"] == 4 * 30
    assert measured["items"] == 29 * measured["messages"]
    assert measured["delay_ms"] > 10


@pytest.mark.parametrize("suspect_ms", [500, 2000])
def test_where_only_silence_tells_the_time_until_it_is_suspected_counts(suspect_ms: int) -> None:
    load = EdgeLoad(
        nodes=30, delta=2, kills=2, deep=True, silent=True, suspect_us=suspect_ms * 1000, span_us=8_000_000
    )
    measured = SteadyTree(load)()
    assert measured["complete"], measured["why"]
    assert suspect_ms - suspect_ms * 2 / 7 < measured["gap_ms"] < 2 * suspect_ms + 400


def test_groups_and_the_tree_change_under_load() -> None:
    load = EdgeLoad(nodes=30, delta=2, joins=5, leaves=5, newcomers=5, departures=5, span_us=2_000_000)
    measured = SteadyTree(load)()
    assert measured["complete"], measured["why"]
    assert measured["changes"] == 20
    assert measured["errors"] == 0
    for kind in CHANGES:
        assert 0 < measured[f"{kind}_rtt"] < 200


@pytest.mark.parametrize("delta", edge.DELTAS)
def test_newcomers_leave_alone_nodes_whose_leaves_are_measured(delta: int) -> None:
    load = EdgeLoad(
        nodes=15, delta=delta, joins=20, leaves=10, newcomers=10, departures=10, span_us=2_000_000
    )
    measured = SteadyTree(load)()
    assert measured["complete"], measured["why"]


@pytest.mark.parametrize("barriers", [True, False])
def test_the_documents_own_scheme_waits_for_silence_to_be_suspected(barriers: bool) -> None:
    load = EdgeLoad(
        nodes=30, delta=1, kills=3, deep=True, silent=True, suspect_us=1_000_000, span_us=8_000_000,
        paths=True, barriers=barriers,
    )  # fmt: skip
    measured = SteadyPaths(load)()
    assert measured["complete"], measured["why"]
    assert 700 < measured["delay_max_ms"] < 8_000
    assert (measured["errors"] == 0) == barriers
    calm = SteadyPaths(replace(load, kills=0))()
    assert calm["delay_max_ms"] < 700
