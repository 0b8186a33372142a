"""Figures from the trace of the live part: how long deliveries took, and how many there were.

The nodes ran on one machine, so the times in their traces can be compared. A latency counts from the send
row to the deliver row and is shown at the time of sending: what was sent at the beginning of a cut waited
longest.
"""

import io
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from thence.core.groups import process_of
from thence.lab.tour.live import Story
from thence.lab.tour.samples import lag_of
from thence.pages.timeline import TimelinePoint

BIN_S: Final = 0.25
BIN_US: Final = 250_000
SCHEMA: Final = pa.schema(
    [(name, pa.string()) for name in ("node", "kind", "origin")]
    + [("seq", pa.int64()), ("at_us", pa.int64())]
)


def read(trace: Path) -> pa.Table:
    """All rows of the trace, without what the figures do not need."""
    parse = pj.ParseOptions(explicit_schema=SCHEMA, unexpected_field_behavior="ignore")
    tables = []
    for path in sorted(trace.glob("*.jsonl")):
        data = path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]  # a killed node may have left half a line
        if whole:
            tables.append(pj.read_json(io.BytesIO(whole), parse_options=parse))
    return pa.concat_tables(tables)


def latencies(spark: Any, rows: pa.Table, story: Story) -> list[TimelinePoint]:
    """Median and 99th percentile of each bin of sending times, by whether the link had trouble: a run each,
    for the pipeline."""
    from thence.pipeline import metrics

    delivered = rows.filter(pc.equal(rows["kind"], "deliver"))
    sent = rows.filter(pc.equal(rows["kind"], "send"))
    parts = []
    for kind, chosen in zip(kinds(story), _of_kinds(delivered, story), strict=True):
        part = pa.concat_tables([sent, delivered.filter(chosen)])
        part = part.append_column("run", pa.array([kind] * part.num_rows, pa.string()))
        parts.append(part.append_column("pos", pa.array(range(part.num_rows), pa.int64())))
    # In one chunk: Spark 4.3 reads no further than an empty one.
    events = spark.createDataFrame(pa.concat_tables(parts).combine_chunks())
    ahead_us = story.begun_us % BIN_US  # so that a bin begins with the load
    binned = metrics.summary(events.withColumn("at_us", events["at_us"] - ahead_us), bin_us=BIN_US)
    found = metrics.distribution(binned, "delivery", by="bin").collect()
    zero_us = story.begun_us - ahead_us
    return sorted(
        TimelinePoint(
            (row["start_us"] - zero_us) / 1e6, row["run"], max(row["p50"], 1) / 1e3, max(row["p99"], 1) / 1e3
        )
        for row in found
    )


def _of_kinds(delivered: pa.Table, story: Story) -> tuple[pa.Array, pa.Array, pa.Array]:
    def with_(name: str) -> pa.Array:
        return pc.or_(pc.equal(delivered["node"], name), pc.equal(delivered["origin"], name))

    lonely, victim = with_(story.lonely), with_(story.victim)
    first = pc.and_not(victim, lonely)
    return lonely, first, pc.invert(pc.or_(lonely, victim))


def kinds(story: Story) -> tuple[str, str, str]:
    return f"to and from {story.lonely}", f"to and from {story.victim}", "among the others"


def rates(rows: pa.Table, story: Story) -> list[TimelinePoint]:
    """Deliveries a second of each process, bin by bin; bins without any are there, with 0."""
    delivered = rows.filter(pc.equal(rows["kind"], "deliver"))
    bins = ((delivered["at_us"].to_numpy() - story.begun_us) / 1e6 // BIN_S).astype(int)
    nodes = np.array([process_of(name) for name in delivered["node"].to_pylist()])
    last = int(bins.max(initial=0))
    return [
        TimelinePoint(number * BIN_S, str(node), float(count / BIN_S))
        for node in np.unique(nodes)
        for number, count in enumerate(np.bincount(np.maximum(bins[nodes == node], 0), minlength=last + 1))
    ]


def lags(story: Story) -> list[TimelinePoint]:
    """Of each member, look by look: the most that another node has for it, whether it runs or not."""
    names = sorted({one.name for sample in story.samples for one in sample.seen})
    return [
        TimelinePoint((sample.at_us - story.begun_us) / 1e6, name, lag_of(name, sample.statuses))
        for sample in story.samples
        for name in names
    ]


def unstable(story: Story) -> list[TimelinePoint]:
    return [
        TimelinePoint((sample.at_us - story.begun_us) / 1e6, name, status.unstable)
        for sample in story.samples
        for name, status in sample.statuses.items()
    ]
