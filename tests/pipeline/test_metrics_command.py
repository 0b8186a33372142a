"""Integration: `thence metrics` on traces in files, as table, JSON and folder."""

import json
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest
from pipeline.layouts import scatter, write_jsonl
from pyspark.sql import SparkSession
from support.changing import Changing, one_waits
from support.metrics_model import models, random_trace
from support.open_nodes import run as run_story

from thence.cli.main import main
from thence.core.errors import TraceError
from thence.pipeline.metrics.measured import measure
from thence.trace.schema import Event

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def test_files_of_all_kinds_are_measured_as_one_trace(spark: SparkSession, tmp_path: Path) -> None:
    events = random_trace(Random(7), 500)
    scatter(Random(7), tmp_path, events, files=5)
    found = measure(spark, tmp_path, bin_us=1000, split_bytes=2000, split_rows=50)
    assert [run.run for run in found.report.runs] == ["", "r"]
    for run in found.report.runs:
        expected = models(events, 1000)[run.run].distributions()["delivery", "run", "", "", 0]
        ours = run.distributions["delivery"]
        assert (ours.count, ours.max, ours.mean) == (expected["count"], expected["max"], expected["mean"])
        assert ours.p99 == pytest.approx(expected["p99"], rel=2**-19)


def test_what_a_trace_does_not_tell_is_left_out_with_the_reason(spark: SparkSession, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "x.jsonl", [Event(node="a", pos=0, kind="send", origin="a", seq=1)])
    [run] = measure(spark, tmp_path).report.runs
    assert run.distributions == {}
    assert run.left_out["delivery"] == "no row has a time (`at_us`)"
    assert run.left_out["memory"].startswith("no `metric` rows")
    assert run.doubts == {"untimed": 1}
    assert (run.from_us, run.bytes_per_delivery, run.synchronisations) == (None, None, None)


def test_a_live_group_tells_how_long_messages_were_held(spark: SparkSession, tmp_path: Path) -> None:
    trace = tmp_path / "trace"

    async def story() -> None:
        await one_waits(Changing(tmp_path, "abc"), trace)

    run_story(story)
    [run] = measure(spark, trace).report.runs
    assert run.distributions["held"].count >= 1
    assert "held" not in run.left_out


def test_a_row_that_cannot_be_read_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"node": "a", "pos": 0, "kind": "deliver", "at_us": 5}\n')
    with pytest.raises(TraceError, match=r"x\.jsonl: line 1: no origin"):
        measure(spark, tmp_path)


def lines(path: Path) -> None:
    rows = [
        Event(node="a", pos=0, kind="send", origin="a", seq=1, at_us=1000),
        Event(node="b", pos=0, kind="deliver", origin="a", seq=1, at_us=3500),
        Event(node="a", pos=1, kind="metric", origin="sent_bytes_total", seq=70, at_us=4000),
        Event(node="a", pos=2, kind="metric", origin="memory_bytes", seq=4096, at_us=4000),
        Event(node="b", pos=1, kind="evict", origin="c", seq=0, at_us=4000),
        Event(node="b", pos=2, kind="heal", at_us=2000),
    ]
    write_jsonl(path, rows)


@pytest.mark.usefixtures("spark")
def test_the_command_prints_tables_or_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines(tmp_path / "x.jsonl")
    assert main(["metrics", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "2 nodes, 1 sends, 1 deliveries" in text
    assert "send to delivery" in text
    assert "2.5 ms" in text
    assert "bytes sent per delivery: 70.0" in text
    assert "evicted c: at 1 nodes" in text
    assert "evict of c at b: no stable message since" in text
    assert "heal: 1 late deliveries, the last after 1.5 ms" in text
    assert "stability: not told (no `stable` rows)" in text
    assert main(["metrics", str(tmp_path), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["torn"] == 0
    assert report["runs"][0]["distributions"]["delivery"]["p50"] == 2500
    assert report["runs"][0]["levels"]["memory_bytes"] == {
        "nodes": 1,
        "samples": 1,
        "mean": 4096.0,
        "max": 4096,
    }


@pytest.mark.usefixtures("spark")
def test_the_command_leaves_every_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines(tmp_path / "x.jsonl")
    out = tmp_path / "out"
    assert main(["metrics", str(tmp_path / "x.jsonl"), "--out", str(out)]) == 0
    capsys.readouterr()
    table = pq.read_table(out / "tables" / "delivery_by_link.parquet").to_pylist()
    assert [(row["origin"], row["node"], row["p50"]) for row in table] == [("a", "b", 2500)]


@pytest.mark.usefixtures("spark")
def test_nothing_to_measure_and_no_trace_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_jsonl(tmp_path / "x.jsonl", [Event(node="a", pos=0, kind="receive")])
    assert main(["metrics", str(tmp_path)]) != 0
    assert "holds nothing to measure" in capsys.readouterr().err
    assert main(["metrics", str(tmp_path / "nowhere")]) != 0
    assert "no such file" in capsys.readouterr().err
