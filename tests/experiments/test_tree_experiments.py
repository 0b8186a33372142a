"""Integration: the tree experiments from sweep to page, on Spark. Sizes are tiny."""

import csv
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from thence.experiments import tree, tree_figures
from thence.experiments.run import EXPERIMENTS, run

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def quiet(what: str, done: int, of: int) -> None:
    """Progress is not shown."""


def test_a_tree_experiment_leaves_tables_figures_and_one_page(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "QUICK_SIZES", (8,))
    monkeypatch.setattr(tree, "THEIRS", ("sync-tree", "flood"))
    out = tmp_path / "out"
    assert run(spark, "tree-massive-join", True, out, "", quiet).fine
    page = (out / "index.html").read_text(encoding="utf-8")
    assert "0 violations, 0 incomplete, 0 failed" in page
    assert page.count("<figure>") == len(tree_figures.FIGURES["tree-massive-join"])
    with (out / "points.csv").open(encoding="utf-8") as file:
        points = {point["spread"]: point for point in csv.DictReader(file)}
    assert set(points) == {"sync-tree", "flood"}
    assert 0 < float(points["flood"]["latency_s"]) <= float(points["sync-tree"]["latency_s"]) < 1
    assert float(points["sync-tree"]["bytes_per_perfect"]) < 1.3 < float(points["flood"]["bytes_per_perfect"])
    assert 0 < float(points["sync-tree"]["settled_s"]) < 10


def test_a_point_tells_when_nodes_came_and_that_they_synchronised(tmp_path: Path) -> None:
    """What the figures over time are drawn from."""
    point = tree.TreePoint("tree-massive-join", "sync-tree", 10, 20, payload_bytes=64)
    result = tree.measure(point, tmp_path / "trace")
    assert result["complete"], result["why"]
    assert result["marks"] == [10.0]
    joined, before = result["series"][10], result["series"][8]
    assert joined["syncs"] >= 3
    assert joined["sync_s"] > 0
    assert before["syncs"] == before["sync_s"] == before["duplicates"] == 0


def test_a_flood_does_not_press_the_trees_to_the_ground() -> None:
    """Scales: logarithmic where spreads differ much, and from zero where they do not."""
    latency = tree_figures.TreeFigure("", "latency_s", "")
    scale, axis = tree_figures._vertical(latency, [{"latency_s": value} for value in (0.2, 0.3, 9.0)])
    assert scale.to_dict()["type"] == "symlog"
    assert {0.2, 1.0, 5.0} < set(axis.to_dict()["values"])
    scale, _ = tree_figures._vertical(latency, [{"latency_s": value} for value in (0.0, 0.2, 0.3)])
    assert scale.to_dict() == {"type": "linear", "zero": True}


def test_a_figure_is_drawn_at_the_size_that_was_varied() -> None:
    results = [
        {"spread": "flood", "size": size, "probability": p, "payload_bytes": 1024, "latency_s": p * size}
        for size, p in ((50, 1.0), (100, 1.0), (200, 1.0), (100, 0.3))
    ]
    by_load = tree_figures.TreeFigure("", "latency_s", "", "probability")
    assert sorted(row["latency_s"] for row in tree_figures._rows(by_load, results)) == [30.0, 100.0]
    by_size = tree_figures.TreeFigure("", "latency_s", "")
    assert sorted(row["latency_s"] for row in tree_figures._rows(by_size, results)) == [50.0, 100.0, 200.0]


def test_every_tree_experiment_has_points_figures_and_the_documents_values() -> None:
    for name in tree.SCENARIO:
        assert name in EXPERIMENTS
        assert tree_figures.FIGURES[name]
        assert name in tree_figures.DOCUMENTED
        for quick in (True, False):
            names = [point.name for point in tree.points(name, quick)]
            assert len(names) == len(set(names)) >= 4


def test_the_documents_value_stands_beside_ours() -> None:
    result = {
        "spread": "sync-tree", "size": 200, "probability": 1.0, "payload_bytes": 1024, "settled_s": 7.5,
        "healed_s": 1.5,
    }  # fmt: skip
    html, rows = tree_figures.beside("tree-massive-join", [result])
    assert [(row["document"], row["ours"]) for row in rows] == [("125 s", "1.5 s"), ("125 s", "7.5 s")]
    assert "125 s" in html
