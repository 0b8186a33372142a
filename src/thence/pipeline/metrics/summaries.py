"""The frames that people ask for, chosen from a summary.

A summary has a row for each measure and what it is taken by: the whole run, a member, a link, a bin of
sending times, or a mark. The functions below it choose from it; each gives a frame of a fixed schema.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from thence.core.errors import UsageError

By = Literal["run", "member", "link", "bin"]
Measure = Literal["delivery", "broadcast", "held", "stability", "entries"]

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
    [*_SCOPE, *(StructField(name, StringType()) for name in ("kind", "node")), _NUMBERS[0]]
)
CHANGES: Final = StructType(
    [
        *_SCOPE,
        *(StructField(name, StringType()) for name in ("change", "node", "about")),
        *(StructField(name, LongType()) for name in ("at_us", "took_us")),
    ]
)
CATCH_UPS: Final = StructType(
    [
        *_SCOPE,
        *(StructField(name, StringType()) for name in ("change", "node")),
        *(StructField(name, LongType()) for name in ("at_us", "late_deliveries", "took_us")),
    ]
)
HEALS: Final = StructType(
    [*_SCOPE, *(StructField(name, LongType()) for name in ("at_us", "late_deliveries", "took_us"))]
)
SPANS: Final = StructType([*_SCOPE, *(StructField(name, LongType()) for name in ("from_us", "until_us"))])


def _quoted(name: str) -> Column:
    return F.col(f"`{name}`")


def _as(frame: DataFrame, schema: StructType) -> DataFrame:
    """Columns, names and types of a schema, and nothing else."""
    return frame.select(*[_quoted(field.name).cast(field.dataType).alias(field.name) for field in schema])


class SummaryChoice(NamedTuple):
    """What to choose from a summary, and under which names."""

    schema: StructType
    by: str
    measures: Sequence[str]
    renamed: Mapping[str, str] = MappingProxyType({})
    """From the summary's names."""

    def frame(self, summary: DataFrame) -> DataFrame:
        chosen = summary.where((_quoted("by") == self.by) & F.col("measure").isin(*self.measures))
        return _as(chosen.withColumnsRenamed(dict(self.renamed)), self.schema)

    def table(self, summary: pa.Table) -> pa.Table:
        """The same of a summary that was collected."""
        is_one = pc.is_in(summary["measure"], pa.array(self.measures, pa.string()))
        chosen = summary.filter(pc.and_(pc.equal(summary["by"], self.by), is_one))
        names = [self.renamed.get(name, name) for name in chosen.column_names]
        return chosen.rename_columns(names).select(self.schema.names)


KINDS: Final = ("sends", "deliveries", "stables", "holds", "duplicates")
VIEWS: Final[Mapping[str, SummaryChoice]] = {
    **{
        f"{measure}_by_{by}": SummaryChoice(DISTRIBUTION[by], by, (measure,))
        for measure, ways in {
            "delivery": ("run", "member", "link", "bin"),
            "broadcast": ("run", "bin"),
            "stability": ("run", "member", "bin"),
            "held": ("run", "member"),
            "entries": ("run",),
        }.items()
        for by in ways
    },
    "counts": SummaryChoice(COUNTS, "member", KINDS, {"measure": "kind"}),
    "changes": SummaryChoice(
        CHANGES, "mark", ("join", "restart", "evict"),
        {"measure": "change", "origin": "about", "start_us": "at_us", "max": "took_us"},
    ),
    "catch_up": SummaryChoice(
        CATCH_UPS, "mark", ("catch up",),
        {"origin": "change", "start_us": "at_us", "count": "late_deliveries", "max": "took_us"},
    ),
    "convergence": SummaryChoice(
        HEALS, "mark", ("heal",), {"start_us": "at_us", "count": "late_deliveries", "max": "took_us"}
    ),
    "spans": SummaryChoice(SPANS, "span", ("time",), {"start_us": "from_us", "max": "until_us"}),
}  # fmt: skip
"""Every table of a summary, by name."""


def distribution(summary: DataFrame, measure: Measure, by: By = "run") -> DataFrame:
    """How a measure is spread: over the run, by member (where it was delivered), by link, over time.

    `delivery`: from the send to each delivery. `broadcast`: to the last delivery at a member that was there
    at the send. `held`: from the arrival before its causes to the delivery. `stability`: from the send to
    each member's knowing it stable. `entries`: how many messages the context of a send names.
    """
    view = VIEWS.get(f"{measure}_by_{by}")
    if view is None:
        raise UsageError(f"{measure} is not taken by {by}")
    return view.frame(summary)


def counts(summary: DataFrame) -> DataFrame:
    """Of each member: what it sent, delivered, called stable; what arrived too early, and what twice."""
    return VIEWS["counts"].frame(summary)


def changes(summary: DataFrame) -> DataFrame:
    """Of each change of the membership how long it took to show, null if it did not.

    `join`, `restart`: from a state (an `install` row), or a return from disk, to the node's next delivery.
    `evict`: from a node's going on without `about` to the next message that it knows stable.
    """
    return VIEWS["changes"].frame(summary)


def catch_up(summary: DataFrame) -> DataFrame:
    """After each `install` and `restart` row: how many messages from before it the node delivered then, and
    how long the last of them took. It includes what was on its way in any case."""
    return VIEWS["catch_up"].frame(summary)


def convergence(summary: DataFrame) -> DataFrame:
    """After each `heal` row how long it took until the last message from before it was delivered."""
    return VIEWS["convergence"].frame(summary)


def spans(summary: DataFrame) -> DataFrame:
    """The first and the last time of a run."""
    return VIEWS["spans"].frame(summary)
