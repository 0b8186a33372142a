"""Reading a simulator's trace back into events, for the oracle."""

from io import BytesIO
from pathlib import Path

import pyarrow.parquet as pq

from thence.sim.run import Outcome, Run
from thence.sim.settings import SimSettings
from thence.trace.schema import Dot, Event


def read(source: Path | BytesIO) -> list[Event]:
    """All rows of one Parquet file."""
    rows = pq.read_table(source).to_pylist()
    return [
        Event(
            run=row["run"],
            node=row["node"],
            pos=row["pos"],
            kind=row["kind"],
            origin=row["origin"],
            seq=row["seq"],
            at_us=row["at_us"],
            deps=None if row["deps"] is None else [Dot(**dep) for dep in row["deps"]],
            dest=row.get("dest"),
        )
        for row in rows
    ]


def simulated(settings: SimSettings) -> tuple[Outcome, list[Event]]:
    """Run in memory: what came of it, and the trace."""
    sink = BytesIO()
    outcome = Run(settings, sink)()
    sink.seek(0)
    return outcome, read(sink)
