"""Figures from the trace of the live part: how long deliveries took, and how many there were.

The nodes ran on one machine, so the times in their traces can be compared. A latency counts from the send
row to the deliver row and is shown at the time of sending: what was sent at the beginning of a cut waited
longest.
"""

import io
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from thence.cli.tour.live import Story
from thence.cli.tour.samples import lag_of
from thence.core.groups import process_of
from thence.experiments.timeline import Point

BIN_S: Final = 0.25
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
        whole = data[: data.rfind(b"\n") + 1]  # whoever was killed may have left half a line
        if whole:
            tables.append(pj.read_json(io.BytesIO(whole), parse_options=parse))
    return pa.concat_tables(tables)


def latencies(rows: pa.Table, story: Story) -> list[Point]:
    """Median and 99th percentile of each bin of sending times, by whether the link had trouble."""
    delivered = rows.filter(pc.equal(rows["kind"], "deliver"))
    sent = rows.filter(pc.equal(rows["kind"], "send")).select(["origin", "seq", "at_us"])
    both = delivered.join(sent, ["origin", "seq"], join_type="inner", right_suffix="_sent")
    sent_us = both["at_us_sent"].to_numpy()
    took_ms = np.maximum(both["at_us"].to_numpy() - sent_us, 1) / 1000
    bins = ((sent_us - story.begun_us) / 1e6 // BIN_S).astype(int)
    kind_of = _kinds(both, story)
    found = []
    for kind in np.unique(kind_of):
        for number in np.unique(bins[kind_of == kind]):
            here = took_ms[(kind_of == kind) & (bins == number)]
            median, high = np.percentile(here, (50, 99))
            found.append(Point(float(number * BIN_S), str(kind), float(median), float(high)))
    return found


def _kinds(both: pa.Table, story: Story) -> "np.ndarray[tuple[int], np.dtype[np.str_]]":
    def with_(name: str) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
        ends = pc.or_(pc.equal(both["node"], name), pc.equal(both["origin"], name))
        return np.asarray(ends.to_numpy(zero_copy_only=False))

    names = kinds(story)
    return np.where(with_(story.lonely), names[0], np.where(with_(story.victim), names[1], names[2]))


def kinds(story: Story) -> tuple[str, str, str]:
    return f"to and from {story.lonely}", f"to and from {story.victim}", "among the others"


def rates(rows: pa.Table, story: Story) -> list[Point]:
    """Deliveries a second of each process, bin by bin; bins without any are there, with 0."""
    delivered = rows.filter(pc.equal(rows["kind"], "deliver"))
    bins = ((delivered["at_us"].to_numpy() - story.begun_us) / 1e6 // BIN_S).astype(int)
    nodes = np.array([process_of(name) for name in delivered["node"].to_pylist()])
    last = int(bins.max(initial=0))
    return [
        Point(number * BIN_S, str(node), float(count / BIN_S))
        for node in np.unique(nodes)
        for number, count in enumerate(np.bincount(np.maximum(bins[nodes == node], 0), minlength=last + 1))
    ]


def lags(story: Story) -> list[Point]:
    """Of each member, look by look: the most that another node has for it, whether it runs or not."""
    names = sorted({one.name for sample in story.samples for one in sample.seen})
    return [
        Point((sample.at_us - story.begun_us) / 1e6, name, lag_of(name, sample.statuses))
        for sample in story.samples
        for name in names
    ]


def unstable(story: Story) -> list[Point]:
    return [
        Point((sample.at_us - story.begun_us) / 1e6, name, status.unstable)
        for sample in story.samples
        for name, status in sample.statuses.items()
    ]
