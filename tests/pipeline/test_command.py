"""Integration: `thence verify` as people and scripts meet it."""

import json
from pathlib import Path

import pytest
from pipeline.layouts import write_jsonl
from pyspark.sql import SparkSession
from support.run_text import rows

from thence.cli.main import main

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
                    "order": 1, "duplicate": 0, "unsent": 0, "gap": 0, "lost": 0, "unstable": 0, "tag": 0,
                },
                "examples": [{"kind": "order", "node": "b", "pos": 0, "message": "a:2", "missing": "a:1"}],
            }
        ],
    }  # fmt: skip
    assert out.err == ""


def test_a_table_for_people(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_jsonl(tmp_path / "x.jsonl", FINE)
    assert main(["verify", str(tmp_path)]) == 0
    assert "deliveries" in capsys.readouterr().out
    write_jsonl(tmp_path / "x.jsonl", LATE)
    assert main(["verify", str(tmp_path)]) == 1
    assert "order: a:2 at node b at 0 (missing a:1)" in capsys.readouterr().out


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
