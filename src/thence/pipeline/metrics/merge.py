"""Tallies of all parts put together: one row for each measure and what it is taken by.

A link is whole in one part; everything else is in several. What belongs together is sent to one task (its
*bucket*), which puts distributions together from their counts.
"""

from collections.abc import Sequence
from typing import Any, Final
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc

from thence.pipeline.metrics.tally import CATCH_UP, Tally, quantiles

KEYS: Final = ("run", "group", "measure", "by", "node", "origin", "start_us")
TALLIES: Final = pa.schema(
    [
        *((name, pa.string()) for name in KEYS[:-1]),
        *((name, pa.int64()) for name in ("start_us", "count")),
        ("total", pa.float64()),  # exact up to 2**53; sums of many times may be larger
        *((name, pa.int64()) for name in ("p50", "p90", "p99", "max")),
        ("payload", pa.binary()),
    ]
)
SUMMARY: Final = pa.schema(
    [
        *((name, pa.string()) for name in KEYS[:-1]),
        ("start_us", pa.int64()),
        ("count", pa.int64()),
        ("mean", pa.float64()),
        *((name, pa.int64()) for name in ("p50", "p90", "p99", "max")),
    ]
)

UNTIL_LAST: Final = ("heal", CATCH_UP)
"""Marks that ask for the last row after them; of the others it is the first."""

Key = tuple[str, str, str, str, str, str, int]
Row = dict[str, Any]


def buckets_of(run: str, group: str, tallies: Sequence[Tally], buckets: int) -> list[pa.Table]:
    """The tallies of one part of a run, by bucket."""
    dealt: list[list[tuple[Any, ...]]] = [[] for _ in range(buckets)]
    for row in tallies:
        # A run's span is known only when all parts are there: its beginning is no part of its name.
        start = 0 if row.by == "span" else row.start_us
        key = f"{run} {group} {row.measure} {row.by} {row.node} {row.origin} {start}"
        dealt[crc32(key.encode()) % buckets].append((run, group, *row))
    return [_table(rows) for rows in dealt]


def _table(rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [[] for _ in TALLIES]
    arrays = [pa.array(values, kind.type) for values, kind in zip(columns, TALLIES, strict=True)]
    return pa.table(arrays, schema=TALLIES)


def merged(tables: Sequence[pa.Table]) -> pa.Table:
    """The summary of what came to one bucket."""
    rows = pa.concat_tables(tables)
    whole = pc.equal(rows["by"], "link")
    links = rows.filter(whole)
    mean = pc.divide(links["total"], links["count"].cast(pa.float64()))
    links = links.append_column("mean", mean).select(SUMMARY.names)
    apart: dict[Key, list[Row]] = {}
    for row in rows.filter(pc.invert(whole)).to_pylist():
        key = *[row[name] for name in KEYS[:-1]], 0 if row["by"] == "span" else row["start_us"]
        apart.setdefault(key, []).append(row)
    found = [
        dict(zip(KEYS, key, strict=True)) | _together(key[3], key[2], apart[key]) for key in sorted(apart)
    ]
    return pa.concat_tables([links, pa.Table.from_pylist(found, schema=SUMMARY)])


def _together(by: str, measure: str, rows: list[Row]) -> Row:
    count = sum(row["count"] for row in rows)
    if by == "span":
        return {
            "count": 0,
            "start_us": min(row["start_us"] for row in rows),
            "max": max(row["max"] for row in rows),
        }
    if by == "mark":
        took = [int(row["total"]) for row in rows if row["total"] >= 0]
        first_or_last = max if measure in UNTIL_LAST else min
        return {"count": count, "max": first_or_last(took) if took else None}
    payloads = [row["payload"] for row in rows if row["payload"]]
    if not payloads:
        return {"count": count}
    ranks = dict(zip(("p50", "p90", "p99"), quantiles(payloads), strict=True))
    total, most = sum(row["total"] for row in rows), max(row["max"] for row in rows)
    return {"count": count, "mean": total / count, **ranks, "max": most}
