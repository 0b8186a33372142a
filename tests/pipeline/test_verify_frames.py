"""The steps on Spark, each with frames made by hand."""

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.testing import assertDataFrameEqual

from thence.pipeline import frames
from thence.pipeline.pack import COMMON, WHOLE

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
        {"what": "holding"}, {"what": "pasts"},
    )  # fmt: skip
    told = frames.first_ones(given, 3).select("what", "node", "pos", "message")
    expected = [("count", "n", 1, "m:1"), ("example", "a", 1, "m:9"), ("example", "a", 1, "m:10"),
                ("example", "a", 2, "m:1")]  # fmt: skip
    assertDataFrameEqual(told, spark.createDataFrame(expected, told.schema))


def test_what_parts_settle_between_them_is_no_finding(spark: SparkSession) -> None:
    kinds = ("run", "count", "example", "twice", "circle", "marks", "holding", "pasts")
    told = frames.unmarked(found(spark, *({"what": kind} for kind in kinds))).select("what")
    assertDataFrameEqual(told, spark.createDataFrame([(kind,) for kind in kinds[:5]], "what string"))


def test_pasts_know_their_round(spark: SparkSession) -> None:
    given = found(spark, {"what": "pasts", "block": 2, "payload": bytearray(b"x")}, {"what": "run"})
    expected = [("r", "", 2, -4, bytearray(b"x"))]
    schema = "run string, `group` string, block int, bucket int, payload binary"
    assertDataFrameEqual(frames.pasts_in(given, -4), spark.createDataFrame(expected, schema))
