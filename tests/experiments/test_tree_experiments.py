"""Integration: the tree experiments from sweep to page, on Spark. Sizes are tiny."""

import csv
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from thence.experiments import tree, tree_page
from thence.experiments.run import EXPERIMENTS, run

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def quiet(what: str, done: int, of: int) -> None:
    """Nobody watches."""


def test_a_tree_experiment_leaves_tables_figures_and_one_page(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "QUICK_SIZES", (8,))
    monkeypatch.setattr(tree, "ALL", ("sync-tree", "flood"))
    out = tmp_path / "out"
    assert run(spark, "tree-massive-join", True, out, "", quiet)
    page = (out / "index.html").read_text()
    assert "0 violations, 0 incomplete" in page
    assert page.count("data:image/png;base64,") == len(tree_page.FIGURES["tree-massive-join"])
    with (out / "points.csv").open() as file:
        points = {point["spread"]: point for point in csv.DictReader(file)}
    assert set(points) == {"sync-tree", "flood"}
    assert 0 < float(points["flood"]["latency_s"]) <= float(points["sync-tree"]["latency_s"]) < 1
    assert float(points["sync-tree"]["bytes_per_perfect"]) < 1.3 < float(points["flood"]["bytes_per_perfect"])
    assert 0 < float(points["sync-tree"]["settled_s"]) < 10


def test_every_tree_experiment_has_points_figures_and_the_documents_values() -> None:
    for name in tree.SCENARIO:
        assert name in EXPERIMENTS
        assert tree_page.FIGURES[name]
        assert name in tree_page.DOCUMENTED
        for quick in (True, False):
            names = [point.name for point in tree.points(name, quick)]
            assert len(names) == len(set(names)) >= 4


def test_the_documents_value_stands_beside_ours() -> None:
    result = {
        "spread": "sync-tree", "size": 200, "probability": 1.0, "payload_bytes": 1024, "settled_s": 7.5,
        "healed_s": 1.5,
    }  # fmt: skip
    html, rows = tree_page.beside("tree-massive-join", [result])
    assert [(row["document"], row["ours"]) for row in rows] == [("125 s", "1.5 s"), ("125 s", "7.5 s")]
    assert "125 s" in html
