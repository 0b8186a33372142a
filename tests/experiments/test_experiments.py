"""Integration: an experiment from sweep to page, on Spark. Sizes are tiny; what is measured is not judged."""

import csv
import json
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from thence.core.errors import UsageError
from thence.experiments import prob, tcb
from thence.experiments.documented import TCB
from thence.experiments.probe import allocated, probed
from thence.experiments.run import QUICK, run
from thence.order.engines import ENGINES
from thence.sim.run import Run
from thence.sim.settings import SimSettings

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def quiet(what: str, done: int, of: int) -> None:
    """Progress is not shown."""


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcb, "QUICK_SIZES", (4,))


def test_an_experiment_leaves_tables_figures_and_one_page(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(spark, "tcb-3", True, out, "thence experiment run tcb-3", quiet).fine
    page = (out / "index.html").read_text(encoding="utf-8")
    assert "4 runs" in page
    assert "0 violations, 0 incomplete, 0 failed" in page
    assert page.count("<figure>") == 8
    drawn = page.split("<script>")[0]
    assert not re.search("<(script|img|link|iframe) ", drawn), "the page must hold everything itself"
    for form in ("png", "svg"):
        assert len(list((out / "figures").glob(f"*.{form}"))) == 8
    with (out / "points.csv").open(encoding="utf-8") as file:
        points = list(csv.DictReader(file))
    assert {(point["order"], point["stability"]) for point in points} == {
        (order, stability) for order in ("graph", "vector") for stability in ("True", "False")
    }
    graph = next(point for point in points if point["order"] == "graph" and point["stability"] == "True")
    assert 0 < float(graph["entries"]) < 4
    assert float(graph["memory_words"]) > 0
    assert float(graph["stability_us"]) > 0
    with (out / "beside.csv").open(encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == len(TCB["tcb-3"])


def test_an_experiment_without_traces(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clocks alone: errors are counted as they happen, and are what is measured."""
    monkeypatch.setattr(prob, "QUICK_SIZES", (20,))
    monkeypatch.setattr(prob, "QUICK_RECEPTIONS", 5_000)
    ran = run(spark, prob.KEYS, True, tmp_path / "out", "thence experiment run prob-keys", quiet)
    assert ran.fine
    assert not ran.judged
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert f"{prob.QUICK_SEEDS * len(prob.COUNTS)} runs" in page
    assert page.count("<figure>") == 1
    assert QUICK in page
    with (tmp_path / "out" / "points.csv").open(encoding="utf-8") as file:
        points = [point["keys"] for point in csv.DictReader(file)]
    assert points == [str(keys) for keys in prob.COUNTS for _ in range(prob.QUICK_SEEDS)]


def test_an_experiment_goes_on_where_it_stopped(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(spark, "tcb-3", True, out, "", quiet)
    results = sorted((out / "points").glob("*.json"))
    kept = json.loads(results[0].read_text())
    results[0].write_text(json.dumps({**kept, "entries": 4321.0}))
    results[1].unlink()
    assert run(spark, "tcb-3", True, out, "", quiet).fine
    assert json.loads(results[0].read_text())["entries"] == 4321.0, "a point that was there is not run again"
    assert results[1].exists()


def test_a_violation_fails_the_experiment(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The traces are what is judged, not the engines' word."""
    out = tmp_path / "out"
    run(spark, "tcb-3", True, out, "", quiet)
    forged = {"node": "n0", "pos": 10**6, "kind": "deliver", "origin": "n1", "seq": 999}
    line = json.dumps({**forged, "run": "graph-4-constantwork-plain"}) + "\n"
    (out / "traces" / "forged.jsonl").write_text(line)
    assert not run(spark, "tcb-3", True, out, "", quiet).fine
    assert "1 violations" in (out / "index.html").read_text(encoding="utf-8")


def test_folders_of_others_are_left_alone(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("")
    with pytest.raises(UsageError, match="a folder of its own"):
        run(spark, "tcb-3", True, tmp_path, "", quiet)
    (tmp_path / "mine.txt").unlink()
    (tmp_path / "experiment.json").write_text('{"experiment": "tcb-1", "quick": true}')
    with pytest.raises(UsageError, match="tcb-1"):
        run(spark, "tcb-3", True, tmp_path, "", quiet)
    (tmp_path / "experiment.json").write_text("{")
    with pytest.raises(UsageError, match="damaged"):
        run(spark, "tcb-3", True, tmp_path, "", quiet)


@pytest.mark.parametrize("name", TCB)
def test_points_are_those_of_the_document(name: str) -> None:
    points = tcb.points(name, quick=False)
    assert {point.size for point in points} == {4, 8, 16, 32, 64, 128}
    assert len({point.name for point in points}) == len(points), "points need names of their own"
    assert {point.order for point in points} == {"graph", "vector-e2e" if name == "tcb-1" else "vector"}
    for entry in TCB[name]:
        assert any(
            (p.order, p.stability, p.load, p.size) == (entry.order, entry.stability, entry.load, 128)
            for p in points
        ), f"nothing stands beside {entry}"


@pytest.mark.parametrize("order", ["graph", "vector", "vector-e2e"])
def test_a_probed_engine_behaves_as_the_one_inside(order: str) -> None:
    from io import BytesIO

    settings = SimSettings(nodes=4, messages=20, order=order, interval_ms=5)
    plain, probe = BytesIO(), BytesIO()
    Run(settings, plain)()
    engine, notes = probed(ENGINES[order], [0, 1], 60)
    Run(settings, probe, engine=engine)()
    assert probe.getvalue() == plain.getvalue()
    assert len(notes.entries) == 40
    assert notes.summary()["delivery_us"] > 0


def test_allocated_counts_shared_objects_once() -> None:
    shared = ("a long string that is shared",) * 3
    assert allocated([shared, shared]) < 2 * allocated([shared])
    assert allocated([[shared]]) > allocated([shared])
