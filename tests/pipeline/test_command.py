"""Integration: `thence verify` as people and scripts meet it."""

import json
from pathlib import Path

import pytest
from pipeline.layouts import write_jsonl
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PythonException
from pyspark.sql import SparkSession
from support.run_text import rows

from thence.cli.main import main
from thence.core.errors import UsageError

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

FINE = [*rows("a", "send a:1"), *rows("b", "deliver a:1")]
LATE = [*rows("a", "send a:1", "send a:2"), *rows("b", "deliver a:2", "deliver a:1")]


@pytest.mark.usefixtures("spark")
def test_json_is_one_object_of_the_promised_shape(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_jsonl(tmp_path / "x.jsonl", LATE)
    assert main(["verify", str(tmp_path), "--json"]) == 1
    out = capsys.readouterr()
    assert json.loads(out.out) == {
        "ok": False,
        "torn": 0,
        "runs": [
            {
                "run": "", "group": "", "nodes": 2, "sends": 2, "deliveries": 2, "stables": 0,
                "violations": {
                    "order": 1, "duplicate": 0, "unsent": 0, "gap": 0, "lost": 0, "program": 1, "unstable": 0,
                    "tag": 0,
                },
                "examples": [
                    {"kind": "order", "node": "b", "pos": 0, "message": "a:2", "missing": "a:1"},
                    {
                        "kind": "program", "node": "b", "pos": 1,
                        "message": "a:1", "operation": "a:1", "held": "a:2",
                    },
                ],
            }
        ],
    }  # fmt: skip
    assert out.err == ""
    documented = ["order", "duplicate", "unsent", "gap", "lost", "program", "unstable", "tag"]
    assert list(json.loads(out.out)["runs"][0]["violations"]) == documented


def test_a_table_for_people(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_jsonl(tmp_path / "x.jsonl", FINE)
    assert main(["verify", str(tmp_path)]) == 0
    assert "deliveries" in capsys.readouterr().out
    write_jsonl(tmp_path / "x.jsonl", LATE)
    assert main(["verify", str(tmp_path)]) == 1
    told = capsys.readouterr().out
    assert "order: a:2 at node b at 0 (missing a:1)" in told
    assert "program: a:1 at node b at 1 (operation a:1, held a:2)" in told
    assert "lost program unstable" in " ".join(told.split())


def test_errors_are_one_line_on_standard_error(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.jsonl").write_text("{}\n")
    assert main(["verify", str(tmp_path), "--json"]) == 2
    out = capsys.readouterr()
    assert out.out == ""
    assert out.err.count("\n") == 1
    assert "x.jsonl: line 1: " in out.err
    assert main(["verify", str(tmp_path / "missing"), "--json"]) == 2


def test_nothing_to_judge_is_no_good_news(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_jsonl(tmp_path / "x.jsonl", rows("a", "link"))
    for flags in ([], ["--json"], ["--open"]):
        assert main(["verify", str(tmp_path), *flags]) == 2
        out = capsys.readouterr()
        assert out.out == ""
        assert out.err == f"thence: {tmp_path}: holds nothing to judge (no row of a kind that counts)\n"


@pytest.mark.parametrize(
    "error",
    [
        PythonException("a worker was killed\n  at java.lang.Thread"),
        Py4JNetworkError("Answer from Java side is empty"),
        MemoryError("no room for a matrix"),
        OSError(28, "No space left on device"),
    ],
)
def test_a_failure_of_spark_or_the_machine_is_told_apart_from_the_trace(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    write_jsonl(tmp_path / "x.jsonl", FINE)
    monkeypatch.setattr("thence.pipeline.session.session", lambda _: None)
    monkeypatch.setattr("thence.pipeline.verify.verify", fail)
    assert main(["verify", str(tmp_path), "--json"]) == 3
    out = capsys.readouterr()
    assert out.out == ""
    assert out.err.count("\n") == 1
    assert str(error).splitlines()[0] in out.err


def test_spark_that_does_not_start_is_no_fault_of_the_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_java(_: object) -> None:
        raise UsageError("no Java 17 or newer")

    write_jsonl(tmp_path / "x.jsonl", FINE)
    monkeypatch.setattr("thence.pipeline.session.session", no_java)
    assert main(["verify", str(tmp_path)]) == 3
    assert capsys.readouterr().err == "thence: no Java 17 or newer\n"
