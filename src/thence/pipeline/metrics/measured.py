"""All metrics of a trace in files: what `thence metrics` prints, writes and draws.

What a trace does not tell is left out with the reason, run by run. Nothing is guessed.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from thence.core.errors import TraceError
from thence.pipeline import files
from thence.pipeline.metrics import BIN_US, frames, nodes, summaries

Row = dict[str, Any]

OF_ROWS: Final[dict[str, tuple[tuple[str, ...], Callable[[DataFrame], DataFrame]]]] = {
    "levels": (("metric",), nodes.levels),
    "totals": (("metric",), nodes.totals),
    "samples": (("metric",), nodes.samples),
    "synchronisations": (("sync", "synced"), nodes.synchronisations),
    "stabilisation": (("eager", "lazy", "sync", "unlink"), nodes.stabilisation),
    "evictions": (("evict",), nodes.evictions),
}
"""Of rows about nodes and links, each with the kinds without which there is nothing to tell."""


class Distribution(msgspec.Struct, frozen=True):
    """Times in microseconds; `entries` are counted."""

    count: int
    mean: float
    p50: int
    p90: int
    p99: int
    max: int


class RunMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """One run and group. Tables that are not here are in the folder of `--out`."""

    run: str
    group: str
    nodes: int
    sends: int
    deliveries: int
    stables: int
    holds: int
    duplicates: int
    from_us: int | None
    until_us: int | None
    distributions: dict[str, Distribution]
    levels: dict[str, Row]
    totals: dict[str, int]
    bytes_per_delivery: float | None
    metadata_per_delivery: float | None
    """What was sent for a delivery besides what the program gets: tags, repetitions, receipts."""
    synchronisations: Row | None
    stabilisation: list[Row]
    changes: list[Row]
    catch_up: list[Row]
    """After each change that brought a node back or in: messages from before that it got, and the last."""
    evictions: list[Row]
    convergence: list[Row]
    left_out: dict[str, str]
    """What the trace does not tell, and why."""
    doubts: dict[str, int]
    """Rows that had to be left out: by why, how many."""


class Measured(msgspec.Struct, frozen=True):
    torn: int
    runs: list[RunMetrics]

    def to_json(self) -> str:
        return msgspec.json.encode(self).decode()


class Tables(msgspec.Struct, frozen=True):
    """Every table of a trace, by name, and the report that is made of them."""

    tables: dict[str, pa.Table]
    report: Measured


def measure(
    spark: SparkSession,
    path: str | Path,
    *,
    bin_us: int = BIN_US,
    split_bytes: int = files.SPLIT_BYTES,
    split_rows: int = files.SPLIT_ROWS,
) -> Tables:
    """The metrics of a trace. Raises TraceError for a row that cannot be read."""
    read, parts = frames.read_pieces(spark, path, split_bytes, split_rows)
    pieces = read.persist()
    try:
        told = frames.told_rows(pieces)
        if told.error is not None:
            raise TraceError(told.error)
        summary = frames.summarised(pieces, parts, bin_us).toArrow()
    finally:
        pieces.unpersist()
    tables = _tables(spark, summary, told.rows)
    return Tables(tables, Measured(told.torn, _runs(tables, summary)))


def _tables(spark: SparkSession, summary: pa.Table, rows: pa.Table) -> dict[str, pa.Table]:
    tables = {name: view.table(summary) for name, view in summaries.VIEWS.items()}
    kinds = set(rows["kind"].unique().to_pylist())
    for name, (needed, work) in OF_ROWS.items():
        if kinds.intersection(needed):
            tables[name] = work(spark.createDataFrame(rows)).toArrow()
    return tables


def _runs(tables: dict[str, pa.Table], summary: pa.Table) -> list[RunMetrics]:
    listed = {
        name: table.to_pylist() for name, table in tables.items() if not name.endswith(("_link", "_bin"))
    }
    scopes = sorted({(row["run"], row["group"]) for rows in listed.values() for row in rows})
    doubted = pc.and_(pc.equal(summary["by"], "run"), pc.is_null(summary["p50"]))
    doubts = summary.filter(doubted).to_pylist()
    return [
        _run(scope, {name: _of(rows, scope) for name, rows in listed.items()}, _of(doubts, scope))
        for scope in scopes
    ]


def _of(rows: list[Row], scope: tuple[str, str]) -> list[Row]:
    chosen = [row for row in rows if (row["run"], row["group"]) == scope]
    return [{key: value for key, value in row.items() if key not in ("run", "group")} for row in chosen]


def _run(scope: tuple[str, str], tables: dict[str, list[Row]], doubts: list[Row]) -> RunMetrics:
    counts = tables["counts"]
    summed = {kind: sum(row["count"] for row in counts if row["kind"] == kind) for kind in summaries.KINDS}
    span = tables["spans"][0] if tables["spans"] else {"from_us": None, "until_us": None}
    distributions = {
        name.removesuffix("_by_run"): Distribution(**rows[0])
        for name, rows in tables.items()
        if name.endswith("_by_run") and rows
    }
    totals = {row["name"]: row["value"] for row in tables.get("totals", ())}
    sent, got = totals.get("sent_bytes_total"), totals.get("delivered_bytes_total")
    return RunMetrics(
        run=scope[0],
        group=scope[1],
        nodes=len({row["node"] for row in counts}),
        **summed,
        **span,
        distributions=distributions,
        levels={
            row["name"]: {k: v for k, v in row.items() if k != "name"} for row in tables.get("levels", ())
        },
        totals=totals,
        bytes_per_delivery=_each(sent, summed["deliveries"]),
        metadata_per_delivery=_each(
            None if sent is None or got is None else sent - got, summed["deliveries"]
        ),
        synchronisations=_synchronisations(tables.get("synchronisations", [])),
        stabilisation=_in_time(tables.get("stabilisation", [])),
        changes=_in_time(tables["changes"]),
        catch_up=_in_time(tables["catch_up"]),
        evictions=_in_time(tables.get("evictions", [])),
        convergence=_in_time(tables["convergence"]),
        left_out=_left_out(tables, distributions, summed, span["from_us"] is not None),
        doubts={row["measure"]: row["count"] for row in doubts},
    )


def _each(total: int | None, deliveries: int) -> float | None:
    return total / deliveries if total and deliveries else None


def _in_time(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row["at_us"] is None, row["at_us"] or 0, str(row)))


def _synchronisations(rows: list[Row]) -> Row | None:
    if not rows:
        return None
    took = sorted(row["took_us"] for row in rows if row["took_us"] is not None)
    mean = sum(took) / len(took) if took else None
    return {"count": len(rows), "over": len(took), "mean": mean, "max": took[-1] if took else None}


UNTIMED: Final = "no row has a time (`at_us`)"
LINKS: Final = (
    "no rows about links (`lazy`, `sync`, `eager`, `unlink`): nodes over a tree without tags write them"
)
SYNCHRONISATIONS: Final = (
    "no `sync` rows (of trees without tags), nor `synced` ones (of groups that members join, of edge trees)"
)
NO_SAMPLES: Final = "no `metric` rows of that name: live nodes write them with `trace_every_us`"
NO_METADATA: Final = (
    "no `metric` rows `sent_bytes_total` and `delivered_bytes_total`: the simulator writes both, live nodes "
    "with `trace_every_us`"
)


def _left_out(
    tables: dict[str, list[Row]], distributions: dict[str, Distribution], counts: dict[str, int], timed: bool
) -> dict[str, str]:
    left: dict[str, str] = {}
    why = {
        "delivery": "no `deliver` row of a message whose `send` row has a time",
        "broadcast": "no `deliver` row at a node that was there when the message was sent",
        "stability": "no `stable` rows",
        "held": "no `hold` rows: nothing waited for its causes, or the nodes do not tell",
    }
    left |= {name: reason if timed else UNTIMED for name, reason in why.items() if name not in distributions}
    if "entries" not in distributions:
        left["entries"] = "no `send` row has `deps`: contexts were not recorded"
    if not counts["duplicates"]:
        left["duplicates"] = "no `duplicate` rows: nothing arrived twice, or the nodes do not tell"
    named = {row["name"] for row in (*tables.get("levels", ()), *tables.get("totals", ()))}
    for metric, name in (("memory", "memory_bytes"), ("disk", "disk_bytes"), ("bytes", "sent_bytes_total")):
        if name not in named:
            left[metric] = NO_SAMPLES
    if not {"sent_bytes_total", "delivered_bytes_total"} <= named:
        left["metadata"] = NO_METADATA
    if not tables.get("synchronisations"):
        left["synchronisations"] = SYNCHRONISATIONS
    if not tables.get("stabilisation"):
        left["stabilisation"] = LINKS
    if not tables["changes"] and not tables.get("evictions"):
        left["changes"] = "no `install`, `restart` or `evict` rows with a time"
    if not tables["convergence"]:
        left["convergence"] = "no `heal` rows"
    return left
