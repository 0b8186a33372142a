"""Sweeps: what is finished is not run again, what fails is told and leaves the rest alone."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from thence.cli.experiment import about
from thence.cli.main import main
from thence.core.errors import UsageError
from thence.experiments import tcb
from thence.experiments.run import run, run_point
from thence.experiments.sweep import Estimate, Failure, Measure, Point, Sweep, finished


def number(name: str, cost: int = 1) -> Point:
    """Of a type that Spark's workers know."""
    return SimpleNamespace(name=name, cost=cost, seed=7)


def fails() -> Measure:
    """Made here, since Spark's workers do not know this module."""

    def measure(point: Any, trace: Path) -> dict[str, Any]:
        raise ValueError("out of luck")

    return measure


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_a_point_that_fails_is_told_and_run_again(spark: SparkSession, tmp_path: Path) -> None:
    def square(point: Any, trace: Path) -> dict[str, Any]:
        trace.mkdir(parents=True)
        (trace / "rows").write_text("half a trace")
        if (trace.parent.parent / "broken").exists() and point.name == "3":
            raise RuntimeError("no threes today")
        return {"name": point.name, "square": int(point.name) ** 2}

    (tmp_path / "broken").touch()
    sweep = Sweep([number(str(k)) for k in range(5)], tmp_path, square)
    sweep.run(spark)
    assert [result["square"] for result in sweep.results()] == [0, 1, 4, 16]
    [failure] = sweep.failures()
    assert failure[:3] == ("3", 7, "RuntimeError: no threes today")
    assert 'raise RuntimeError("no threes today")' in failure.where
    assert not (tmp_path / "traces" / "3").exists(), "half a trace cannot be judged"
    assert sorted(finished(tmp_path)) == ["0", "1", "2", "3", "4"]
    (tmp_path / "broken").unlink()
    (tmp_path / "points" / "1.json").write_text(json.dumps({"name": "1", "square": -1}))
    sweep.run(spark)
    assert [result["square"] for result in sweep.results()] == [0, -1, 4, 9, 16], "what is finished stays"
    assert sweep.failures() == []


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_an_experiment_shows_what_failed_and_how_to_repeat_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tcb, "QUICK_SIZES", (4,))
    out = tmp_path / "out"
    victim = "graph-4-constantwork-plain"

    def measure(point: Any, trace: Path) -> dict[str, Any]:
        if point.name == victim:
            raise ValueError("out of luck")
        return tcb.measure(point, trace)

    monkeypatch.setattr("thence.experiments.run._measure", measure)
    ran = run(spark, "tcb-3", True, out, "thence experiment run tcb-3", lambda *_: None)
    assert not ran.fine
    assert ran.failures == [Failure(victim, 1, "ValueError: out of luck", ran.failures[0].where)]
    page = (out / "index.html").read_text(encoding="utf-8")
    assert "3 runs" in page
    assert "1 failed" in page
    assert f"thence experiment run tcb-3 --point {victim}" in page


def test_a_point_alone_tells_its_result_and_raises_what_goes_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tcb, "QUICK_SIZES", (4,))
    point = ["--quick", "--out", str(tmp_path), "--point", "graph-4-constantwork-plain"]
    assert main(["experiment", "run", "tcb-3", *point]) == 0
    assert json.loads(capsys.readouterr().out)["complete"]
    with pytest.raises(UsageError, match="tcb-3 has no point 'x'; there is graph-4-constantwork-plain, "):
        run_point("tcb-3", True, tmp_path, "x")
    monkeypatch.setattr("thence.experiments.run._measure", fails())
    with pytest.raises(ValueError, match="out of luck"):
        run_point("tcb-3", True, tmp_path, "graph-4-constantwork-plain")


def test_an_estimate_goes_by_what_was_finished_since_the_beginning() -> None:
    estimate = Estimate([number("a", 100), number("b", 20), number("c", 40)], ["a"], now_s=10.0)
    assert estimate.left_s(["a"], 20.0) is None
    assert estimate.left_s(["a", "b"], 20.0) == 20.0
    assert estimate.left_s(["a", "b", "c"], 30.0) == 0.0


@pytest.mark.parametrize(
    ("left_s", "words"),
    [(None, ""), (1.0, ", about 5 s left"), (62.0, ", about 60 s left"), (200.0, ", about 3 min left")],
)
def test_estimates_are_told_in_words(left_s: float | None, words: str) -> None:
    assert about(left_s) == words
