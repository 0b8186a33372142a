"""Experiments over edge trees, tiny: each has points, figures and a table; what is measured is not judged."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from thence.experiments import edge
from thence.experiments.run import EXPERIMENTS, _csv, points_of
from thence.sim.edge_steady import EdgeLoad, SteadyTree


@pytest.mark.parametrize("name", sorted(edge.EXPERIMENTS))
def test_points_figures_and_a_table(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert name in EXPERIMENTS
    names = [point.name for point in points_of(name, quick=False)]
    assert len(set(names)) == len(names)
    assert max(int(each.split("-")[0]) for each in names) == 2000
    monkeypatch.setattr(edge, "QUICK_SIZES", (5, 9))
    points = points_of(name, quick=True)
    assert isinstance(points[-1], edge.Point)
    results = [edge.run_tree(points[-1], tmp_path)]
    assert results[0]["complete"], results[0]["why"]
    assert len(edge.draw(name, results)) == len(edge.CURVES[name])
    html, rows = edge.beside(name, results)
    assert rows[0]["point"] in html


def test_a_message_is_seen_between_its_publisher_its_members_and_the_root_alone() -> None:
    measured = SteadyTree(EdgeLoad(nodes=20, delta=2, span_us=1_000_000))()
    assert measured["complete"], measured["why"]
    assert measured["extra"] == 0
    assert measured["seen"] < 0.6
    assert measured["head_bytes"] < 28


def test_the_documents_own_scheme_stands_beside_the_tree(tmp_path: Path) -> None:
    load = EdgeLoad(nodes=15, delta=1, span_us=1_000_000, paths=True)
    points = [edge.Point(edge.METADATA, load), edge.Point(edge.METADATA, replace(load, paths=False))]
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
