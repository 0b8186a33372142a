"""Tallies of all parts put together, and the frames that people ask for.

A summary has a row for each measure and what it is taken by: the whole run, a member, a link, a bin of
sending times, or a mark. The functions below it choose from it; each gives a frame of a fixed schema.
"""

from collections.abc import Iterator
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from thence.pipeline.frames import arrow_function
from thence.pipeline.metrics.tally import quantiles

By = Literal["run", "member", "link", "bin"]
Measure = Literal["delivery", "broadcast", "held", "stability", "entries"]

KEYS: Final = ("run", "group", "measure", "by", "node", "origin", "start_us")
_SCOPE: Final = [StructField("run", StringType()), StructField("group", StringType())]
_NUMBERS: Final = [
    StructField("count", LongType()),
    StructField("mean", DoubleType()),
    *(StructField(name, LongType()) for name in ("p50", "p90", "p99", "max")),
]
_TEXTS: Final = {name: StructField(name, StringType()) for name in ("measure", "by", "node", "origin")}
_START: Final = StructField("start_us", LongType())

SUMMARY: Final = StructType([*_SCOPE, *_TEXTS.values(), _START, *_NUMBERS])
DISTRIBUTION: Final[dict[str, StructType]] = {
    "run": StructType([*_SCOPE, *_NUMBERS]),
    "member": StructType([*_SCOPE, _TEXTS["node"], *_NUMBERS]),
    "link": StructType([*_SCOPE, _TEXTS["origin"], _TEXTS["node"], *_NUMBERS]),
    "bin": StructType([*_SCOPE, _START, *_NUMBERS]),
}
"""By what a measure is taken. Times are microseconds; `origin` sent to `node`."""
COUNTS: Final = StructType(
    [
        *_SCOPE,
        _TEXTS["node"],
        *(StructField(n, LongType()) for n in ("sends", "deliveries", "stables", "holds", "duplicates")),
    ]
)
CHANGES: Final = StructType(
    [
        *_SCOPE,
        *(StructField(name, StringType()) for name in ("change", "node", "about")),
        *(StructField(name, LongType()) for name in ("at_us", "took_us")),
    ]
)
HEALS: Final = StructType(
    [*_SCOPE, *(StructField(name, LongType()) for name in ("at_us", "late_deliveries", "took_us"))]
)
MERGED: Final = "struct<count bigint, mean double, p50 bigint, p90 bigint, p99 bigint, max bigint>"
SPANS: Final = StructType([*_SCOPE, *(StructField(name, LongType()) for name in ("from_us", "until_us"))])


def summarised(tallies: DataFrame) -> DataFrame:
    """One row for each measure and what it is taken by, of the tallies of all parts."""
    each = tallies.where("`by` in ('run', 'member', 'bin')").groupBy(*map(_quoted, KEYS))
    merge = arrow_function(_merged, MERGED)("count", "total", "max", "payload")
    spread = each.agg(merge.alias("merged")).select(*map(_quoted, KEYS), "merged.*")
    whole = tallies.where("`by` = 'link'").select(
        *map(_quoted, KEYS), "count", (F.col("total") / F.col("count")).alias("mean"),
        "p50", "p90", "p99", "max",
    )  # fmt: skip
    return _as(spread.unionByName(whole).unionByName(_marks(tallies)).unionByName(_spans(tallies)), SUMMARY)


def _merged(batches: Iterator[tuple[pa.Array, ...]]) -> Any:
    number, total, most = 0, 0, 0
    payloads: list[Any] = []
    for count, sums, tops, payload in batches:
        number += pc.sum(count).as_py()
        total += pc.sum(sums).as_py()
        most = max(most, pc.max(tops).as_py())
        payloads += [memoryview(binary.as_buffer()) for binary in payload if binary.as_buffer().size]
    if not payloads:
        return {"count": number}
    ranks = dict(zip(("p50", "p90", "p99"), quantiles(payloads), strict=True))
    return {"count": number, "mean": total / number, **ranks, "max": most}


def _quoted(name: str) -> Column:
    return F.col(f"`{name}`")


def _null(*names: str) -> list[Column]:
    return [F.lit(None).alias(name) for name in names]


def _marks(tallies: DataFrame) -> DataFrame:
    """Each part tells of its own messages: the first row after a mark is that of all, and so is the last."""
    marks = tallies.where("`by` = 'mark'").groupBy(*map(_quoted, KEYS))
    first = F.min(F.when(F.col("total") >= 0, F.col("total")))
    took = F.when(F.col("measure") == "heal", F.max("total")).otherwise(first).alias("max")
    return marks.agg(F.sum("count").alias("count"), took).select(
        *map(_quoted, KEYS), "count", *_null("mean", "p50", "p90", "p99"), "max"
    )


def _spans(tallies: DataFrame) -> DataFrame:
    spans = tallies.where("`by` = 'span'").groupBy("run", "group", "measure", "by", "node", "origin")
    return spans.agg(F.min("start_us").alias("start_us"), F.max("max").alias("max")).select(
        *map(_quoted, KEYS), F.lit(0).alias("count"), *_null("mean", "p50", "p90", "p99"), "max"
    )


def _as(frame: DataFrame, schema: StructType) -> DataFrame:
    """Columns, names and types of a schema, and nothing else."""
    return frame.select(*[_quoted(field.name).cast(field.dataType).alias(field.name) for field in schema])


def distribution(summary: DataFrame, measure: Measure, by: By = "run") -> DataFrame:
    """How a measure is spread: over the run, by member (where it was delivered), by link, over time.

    `delivery`: from the send to each delivery. `broadcast`: to the last delivery at a member that was there
    at the send. `held`: from the arrival before its causes to the delivery. `stability`: from the send to
    each member's knowing it stable. `entries`: how many messages the context of a send names.
    """
    return _as(summary.where((F.col("measure") == measure) & (_quoted("by") == by)), DISTRIBUTION[by])


def counts(summary: DataFrame) -> DataFrame:
    """Of each member: what it sent, delivered, called stable; what arrived too early, and what twice."""
    kinds = ["sends", "deliveries", "stables", "holds", "duplicates"]
    told = summary.where((_quoted("by") == "member") & F.col("measure").isin(kinds))
    each = [
        F.sum(F.when(F.col("measure") == kind, F.col("count")).otherwise(0)).alias(kind) for kind in kinds
    ]
    return _as(told.groupBy("run", "group", "node").agg(*each), COUNTS)


def changes(summary: DataFrame) -> DataFrame:
    """Of each change of the membership how long it took to show, null if it did not.

    `join`, `restart`: from a state (an `install` row), or a return from disk, to the node's next delivery.
    `evict`: from a node's going on without `about` to the next message that it knows stable.
    """
    told = summary.where((_quoted("by") == "mark") & (F.col("measure") != "heal"))
    named = {"measure": "change", "origin": "about", "start_us": "at_us", "max": "took_us"}
    return _as(told.withColumnsRenamed(named), CHANGES)


def convergence(summary: DataFrame) -> DataFrame:
    """After each `heal` row how long it took until the last message from before it was delivered."""
    told = summary.where("`by` = 'mark' and measure = 'heal'")
    named = {"start_us": "at_us", "count": "late_deliveries", "max": "took_us"}
    return _as(told.withColumnsRenamed(named), HEALS)


def spans(summary: DataFrame) -> DataFrame:
    """The first and the last time of a run."""
    told = summary.where("`by` = 'span'").withColumnsRenamed({"start_us": "from_us", "max": "until_us"})
    return _as(told, SPANS)
