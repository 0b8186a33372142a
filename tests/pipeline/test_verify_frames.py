"""The steps on Spark, each with frames made by hand."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.testing import assertDataFrameEqual

from thence.pipeline import frames
from thence.pipeline.files import Split, TraceFile, cut, trace_files
from thence.pipeline.locate import Suspect
from thence.pipeline.pack import COMMON, WHOLE
from thence.pipeline.plan import Share

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

PIECE = frames.PIECE.removeprefix("array<struct<").removesuffix(">>")


def pieces(spark: SparkSession, *told: dict[str, Any]) -> DataFrame:
    rows = [{**frames.NO_PIECE, "payload": bytearray(), **one} for one in told]
    return spark.createDataFrame(rows, PIECE)


def found(spark: SparkSession, *told: dict[str, Any]) -> DataFrame:
    blank = {
        "run": "r", "group": "", "shard": 0, "block": 0, "what": "example", "verdict": "order", "node": "n",
        "pos": 1, "message": "m:1", "number": 0, "detail": "", "payload": bytearray(),
    }  # fmt: skip
    return spark.createDataFrame([{**blank, **one} for one in told], frames.FOUND)


def test_survey_counts_a_row_once(spark: SparkSession) -> None:
    """What is common repeats rows of the buckets; nodes count once, however many pieces they are in."""
    given = pieces(
        spark,
        {"run": "r", "bucket": 0, "events": 5, "sends": 2, "nodes": ["a"]},
        {"run": "r", "bucket": 0, "events": 4, "sends": 1, "nodes": ["a"], "others": ["link"]},
        {"run": "r", "bucket": 3, "events": 2, "sends": 1, "nodes": ["b"], "restarts": 1},
        {"run": "r", "bucket": COMMON, "events": 4, "sends": 4, "nodes": ["a", "b"], "restarts": 1},
        {"run": "r", "bucket": WHOLE, "events": 1, "nodes": ["c"]},
        {"torn": 1}, {"error": "z: line 2"}, {"error": "a: line 9"},
    )  # fmt: skip
    told = frames.survey(given)
    expected = spark.createDataFrame(
        [("", "", 0, 0, 0, 0, [], 1, "a: line 9", []),
         ("r", "", 12, 4, 4, 1, [(0, 9), (3, 2)], 0, None, ["link"])],
        "run string, `group` string, events bigint, sends bigint, columns bigint, restarts bigint, "
        "buckets array<struct<bucket int, events bigint>>, torn bigint, error string, others array<string>",
    )  # fmt: skip
    assertDataFrameEqual(told.withColumn("buckets", F.array_sort("buckets")), expected)


def test_findings_are_told_in_columns(spark: SparkSession) -> None:
    given = found(
        spark,
        {"message": "a:b:7", "detail": '{"missing": "c:1"}'},
        {"verdict": "lost", "pos": -1},
        {"what": "count", "number": 2}, {"what": "run"},
    )  # fmt: skip
    expected = spark.createDataFrame(
        [("r", "", "order", "n", 1, "a:b", 7, {"missing": "c:1"}), ("r", "", "lost", "n", None, "m", 1, {})],
        "run string, `group` string, verdict string, node string, pos bigint, origin string, seq bigint, "
        "detail map<string, string>",
    )
    assertDataFrameEqual(frames.told(given), expected)


def test_the_first_ones_are_by_node_position_and_counter(spark: SparkSession) -> None:
    given = found(
        spark,
        {"node": "b", "pos": 1}, {"node": "a", "pos": 2}, {"node": "a", "pos": 1, "message": "m:10"},
        {"node": "a", "pos": 1, "message": "m:9"}, {"what": "count", "number": 4}, {"what": "marks"},
        {"what": "holding"}, {"what": "pasts"}, {"what": "same"},
    )  # fmt: skip
    told = frames.first_ones(given, 3).select("what", "node", "pos", "message")
    expected = [("count", "n", 1, "m:1"), ("example", "a", 1, "m:9"), ("example", "a", 1, "m:10"),
                ("example", "a", 2, "m:1")]  # fmt: skip
    assertDataFrameEqual(told, spark.createDataFrame(expected, told.schema))


def test_what_parts_settle_between_them_is_no_finding(spark: SparkSession) -> None:
    kinds = ("run", "count", "example", "twice", "circle", "marks", "holding", "pasts", "same")
    told = frames.unmarked(found(spark, *({"what": kind} for kind in kinds))).select("what")
    assertDataFrameEqual(told, spark.createDataFrame([(kind,) for kind in kinds[:5]], "what string"))


def test_what_has_to_be_settled_is_told_from_what_says_that_nothing_is(spark: SparkSession) -> None:
    given = found(
        spark, {"what": "marks", "verdict": "order"}, {"what": "holding", "number": 2, "verdict": "lost"},
        {"what": "holding", "number": 0}, {"what": "run"}, {"what": "count", "number": 3},
    )  # fmt: skip
    told = frames.unsettled(given).select("what", "verdict")
    expected = [("marks", "order"), ("holding", "lost")]
    assertDataFrameEqual(told, spark.createDataFrame(expected, "what string, verdict string"))


def test_pasts_know_their_round(spark: SparkSession) -> None:
    given = found(
        spark, {"what": "pasts", "block": 2, "payload": bytearray(b"x")}, {"what": "run"},
        {"what": "same", "payload": bytearray(b"y")},
    )  # fmt: skip
    expected = [("r", "", 2, -4, bytearray(b"x")), ("r", "", 0, -4, bytearray(b"y"))]
    schema = "run string, `group` string, block int, bucket int, payload binary"
    assertDataFrameEqual(frames.pasts_in(given, -4), spark.createDataFrame(expected, schema))


LINES = [
    {"node": "a", "pos": 1, "kind": "send", "origin": "a", "seq": 1},
    {"node": "a", "pos": 2, "kind": "send", "origin": "a", "seq": 2},
    {"node": "b", "pos": 1, "kind": "deliver", "origin": "a", "seq": 2},
    {"node": "c", "pos": 1, "kind": "deliver", "origin": "a", "seq": 1},
    {"node": "c", "pos": 2, "kind": "deliver", "origin": "a", "seq": 1},
    {"node": "c", "pos": 3, "kind": "hold", "origin": "a", "seq": 2},
]
"""b gets the second message without the first; c gets the first one twice, and never the second."""


@pytest.fixture(scope="module")
def splits(tmp_path_factory: pytest.TempPathFactory) -> list[list[Split]]:
    folder = tmp_path_factory.mktemp("lines")
    (folder / "x.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LINES))
    return [cut(trace_files(folder))]


def test_files_become_pieces(spark: SparkSession, splits: list[list[Split]]) -> None:
    told = frames.packed(spark, splits, 1).select("run", "bucket", "events", "sends", "nodes", "others")
    expected = [("", WHOLE, 6, 2, ["a", "b", "c"], ["hold"])]
    schema = "run string, bucket int, events bigint, sends bigint, nodes array<string>, others array<string>"
    assertDataFrameEqual(told, spark.createDataFrame(expected, schema))


FOUND = [
    ("count", "duplicate", "", -1, "", 1), ("example", "duplicate", "c", 2, "a:1", 0),
    ("count", "lost", "", -1, "", 2), ("example", "lost", "b", -1, "a:1", 0),
    ("example", "lost", "c", -1, "a:2", 0), ("count", "order", "", -1, "", 1),
    ("example", "order", "b", 1, "a:2", 0),
]  # fmt: skip


@pytest.mark.parametrize("shards", [1, 2])
def test_pieces_become_findings(
    spark: SparkSession, splits: list[list[Split]], monkeypatch: pytest.MonkeyPatch, shards: int
) -> None:
    """Whole, and in two shards of which each says what its nodes hold."""
    monkeypatch.setattr("thence.pipeline.pack.BUCKETED_ROWS", 1)
    pieces = frames.packed(spark, splits, 2 if shards > 1 else 1)
    shares = [
        Share("", "", 0, 1, shard, shard, shards, (shard,) if shards > 1 else ()) for shard in range(shards)
    ]
    pasts = frames.told_pasts(spark, pieces, shares, 2) if shards > 1 else None
    found = frames.judged(spark, pieces, shares, 10, 2, pasts)
    if shards > 1:
        found = frames.unmarked(found).unionByName(frames.settled(found, 10))
    told = found.where("what != 'run'").select("what", "verdict", "node", "pos", "message", "number")
    schema = "what string, verdict string, node string, pos bigint, message string, number bigint"
    assertDataFrameEqual(told, spark.createDataFrame(FOUND, schema))


def test_clues_name_the_rows_of_a_suspect(spark: SparkSession, splits: list[list[Split]]) -> None:
    told = frames.clues(spark, splits, Suspect("", "", "c", 2)).select("task", "pos", "place")
    [(task, pos, place)] = [tuple(row) for row in told.collect()]
    assert (task, pos) == (0, 0)
    assert place.endswith("x.jsonl line 5")


def test_files_are_cut_in_tasks(spark: SparkSession, splits: list[list[Split]]) -> None:
    [[split]] = splits
    told = frames.cut_up(spark, [[TraceFile(Path(split.path), ())]], 1 << 20, 1 << 20, False).collect()
    assert [(row["task"], row["error"]) for row in told] == [(0, None)]
    assert msgspec.msgpack.decode(told[0]["splits"], type=list[Split]) == [split]
    gone = frames.cut_up(spark, [[TraceFile(Path(split.path).with_name("x.parquet"), ())]], 1, 1, False)
    with pytest.raises(PySparkException, match=r"x\.parquet"):
        gone.collect()
