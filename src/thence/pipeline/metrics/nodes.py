"""Metrics of nodes and links: from the few rows that tell of them, in Spark SQL.

Every function takes events (docs/TRACES.md), all or those of the kinds that it needs, and gives a frame of a
fixed schema.
"""

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from thence.pipeline.frames import arrow_function
from thence.pipeline.metrics.summaries import _as
from thence.pipeline.metrics.trees import LIFE, LINKS, stabilisations

_SCOPE: Final = [StructField("run", StringType()), StructField("group", StringType())]


def _texts(*names: str) -> list[StructField]:
    return [StructField(name, StringType()) for name in names]


def _longs(*names: str) -> list[StructField]:
    return [StructField(name, LongType()) for name in names]


SAMPLES: Final = StructType([*_SCOPE, *_texts("node", "name"), *_longs("at_us", "value")])
TOTALS: Final = StructType([*_SCOPE, *_texts("name"), *_longs("value")])
SYNCHRONISATIONS: Final = StructType(
    [*_SCOPE, *_texts("node", "neighbour", "became"), *_longs("at_us", "took_us")]
)
STABILISATIONS: Final = StructType([*_SCOPE, *_longs("at_us", "nodes", "healed_us", "settled_us", "changes")])
LEVELS: Final = StructType(
    [*_SCOPE, *_texts("name"), *_longs("nodes", "samples"), StructField("mean", DoubleType()), *_longs("max")]
)
EVICTIONS: Final = StructType([*_SCOPE, *_texts("member"), *_longs("at_us", "survivors", "took_us")])

STABILISATION: Final = (
    "array<struct<at_us bigint, nodes bigint, healed_us bigint, settled_us bigint, changes bigint>>"
)


def _scoped(events: DataFrame) -> DataFrame:
    """Runs and groups that are not named have the empty name."""
    for name in ("run", "group"):
        there = F.col(f"`{name}`") if name in events.columns else F.lit(None)
        events = events.withColumn(name, F.coalesce(there.cast("string"), F.lit("")))
    return events


def samples(events: DataFrame) -> DataFrame:
    """What nodes say of themselves now and then: `metric` rows, whose origin is a name and seq a value."""
    told = _scoped(events).where("kind = 'metric' and origin is not null and seq is not null")
    return _as(told.withColumnsRenamed({"origin": "name", "seq": "value"}), SAMPLES)


def totals(events: DataFrame) -> DataFrame:
    """Of every counter (its name ends with `_total`) what all nodes together have counted.

    A node that starts again counts from 0: a value below the one before is all that was counted since. A sum
    that does not fit into 64 bits is left out.
    """
    told = _scoped(events).where("kind = 'metric' and endswith(origin, '_total') and seq is not null")
    own = Window.partitionBy("run", "group", "node", "origin").orderBy("pos")
    before = F.lag("seq").over(own)
    counted = F.when(before.isNull() | (F.col("seq") < before), F.col("seq")).otherwise(F.col("seq") - before)
    summed = told.withColumn("counted", counted).groupBy("run", "group", F.col("origin").alias("name"))
    return _as(summed.agg(F.try_sum("counted").alias("value")).where("value is not null"), TOTALS)


def synchronisations(events: DataFrame) -> DataFrame:
    """Of a tree: each `sync` row, until the next row about the same neighbour; null: not over at the end. Of
    a group or an edge tree: each `synced` row, whose state took `seq` microseconds to come from the member
    that it names."""
    told = _scoped(events).where(F.col("kind").isin(*LINKS))
    link = Window.partitionBy("run", "group", "node", "origin").orderBy("pos")
    ended = told.withColumn("became", F.lead("kind").over(link)).withColumn(
        "took_us", F.lead("at_us").over(link) - F.col("at_us")
    )
    installed = _scoped(events).where("kind = 'synced' and at_us is not null and seq is not null")
    installed = installed.withColumns(
        {"became": F.lit("installed"), "took_us": F.col("seq"), "at_us": F.col("at_us") - F.col("seq")}
    )
    both = ended.where("kind = 'sync'").unionByName(installed)
    return _as(both.withColumnRenamed("origin", "neighbour"), SYNCHRONISATIONS)


def stabilisation(events: DataFrame) -> DataFrame:
    """Of a tree: after nodes came or went, how long until its branches were one tree again (`healed_us`), and
    until the last time that they became one before the next such moment (`settled_us`); null: not by then."""
    told = _scoped(events).where(F.col("kind").isin(*LINKS, *LIFE) & F.col("at_us").isNotNull())
    work = arrow_function(_stabilised, STABILISATION)
    found = told.groupBy("run", "group").agg(work("node", "pos", "kind", "origin", "at_us").alias("found"))
    return _as(found.select("run", "group", F.inline("found")), STABILISATIONS)


def _stabilised(batches: Iterator[tuple[pa.Array, ...]]) -> Any:
    rows = [row for batch in batches for row in zip(*(column.to_pylist() for column in batch), strict=True)]
    return [found._asdict() for found in stabilisations(rows)]


def evictions(events: DataFrame) -> DataFrame:
    """Of each evicted member: from the first `evict` row to the last, and at how many nodes."""
    told = _scoped(events).where("kind = 'evict'").groupBy("run", "group", F.col("origin").alias("member"))
    found = told.agg(
        F.min("at_us").alias("at_us"),
        F.countDistinct("node").alias("survivors"),
        (F.max("at_us") - F.min("at_us")).alias("took_us"),
    )
    return _as(found, EVICTIONS)


def levels(events: DataFrame) -> DataFrame:
    """Of every level (a `metric` that is no counter): its samples, their mean and the highest."""
    told = samples(events).where("not endswith(name, '_total')").groupBy("run", "group", "name")
    found = told.agg(
        F.countDistinct("node").alias("nodes"),
        F.count("value").alias("samples"),
        F.avg("value").alias("mean"),
        F.max("value").alias("max"),
    )
    return _as(found, LEVELS)
