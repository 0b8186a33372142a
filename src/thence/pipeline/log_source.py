"""Operation logs as rows: what nodes keep in their data folders, read without touching it.

A log is a folder with segments (`oplog/record.py` and `oplog/segment.py` have the formats), one per node or
one per incarnation. Each segment names its members in its header, so segments are read independently. What
a node is writing at this moment, or was when it was killed, is left out: the end of the last segment alone
may be bad, and only as a write that was cut short.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from thence.core.codec import Codec
from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK
from thence.core.errors import PeerError, TraceError, UsageError
from thence.core.message import Message
from thence.core.runs import span_of_payload
from thence.core.storage import DamageError
from thence.oplog.record import (
    OVERHEAD,
    Boot,
    MemberRecord,
    Note,
    Record,
    SnapshotRef,
    StableRecord,
    Stored,
    Synced,
    Taken,
)
from thence.oplog.recovery import is_torn
from thence.oplog.segment import LOG, position_of, read_header, scan, understand
from thence.pipeline.files import refused

DOTS: Final = "array<struct<origin: string, seq: bigint>>"
SCHEMA: Final = (
    "log string, segment string, byte bigint, pos bigint, kind string, origin string, seq bigint, "
    f"deps {DOTS}, dest array<string>, payload binary, frontier {DOTS}, number bigint, data binary"
)
STAMPS: Final = ("dots", "counters")
BATCH_ROWS: Final = 1 << 14
SPACING: Final = 1 << 20  # of an index, which nothing here asks for
KINDS: Final = {
    Stored: "message", MemberRecord: "member", StableRecord: "stable", Taken: "taken", Boot: "boot",
    SnapshotRef: "snapshot", Note: "note", Synced: "synced",
}  # fmt: skip

Row = dict[str, Any]


class LogSegment(NamedTuple):
    """`log`: its folder below the path that was asked for."""

    folder: str
    log: str
    name: str
    is_last: bool


class Segments(InputPartition):
    """What one task reads."""

    def __init__(self, segment: LogSegment) -> None:
        super().__init__(None)
        self.segment = segment


class ReadingFolder:
    """`core.storage.ReadableFiles` over a folder."""

    __slots__ = ("_folder",)

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def names(self) -> list[str]:
        return sorted(os.listdir(self._folder))

    def size(self, name: str) -> int:
        return os.stat(os.path.join(self._folder, name)).st_size

    def read(self, name: str, offset: int, count: int) -> bytes:
        with open(os.path.join(self._folder, name), "rb") as file:
            file.seek(offset)
            return file.read(count)


def segments(path: Path) -> list[LogSegment]:
    """All segments at or below a path, log by log."""
    if not path.is_dir():
        raise TraceError(f"{path}: no such folder")

    def fail(error: OSError) -> None:
        raise refused(error.filename, error) from error

    found = []
    for folder, below, names in os.walk(path, onerror=fail):
        below.sort()
        mine = sorted(name for name in names if position_of(name, LOG) is not None)
        log = os.path.relpath(folder, path)
        found += [LogSegment(folder, log, name, name == mine[-1]) for name in mine]
    if not found:
        raise TraceError(f"{path}: holds no operation log")
    return found


class LogReader(DataSourceReader):
    """The records of all logs below a path; a task for each segment."""

    def __init__(self, path: Path, schema: StructType, stamps: str) -> None:
        if stamps not in STAMPS:
            raise UsageError(f"stamps is {stamps!r}; it can be 'dots' or 'counters'")
        self._path = path
        self._schema = schema
        self._stamps = stamps

    def partitions(self) -> list[InputPartition]:
        return [Segments(segment) for segment in segments(self._path)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Segments)
        schema = to_arrow_schema(self._schema, timezone="UTC")
        rows: list[Row] = []
        for row in records(partition.segment, self._stamps):
            rows.append(row)
            if len(rows) == BATCH_ROWS:
                yield pa.RecordBatch.from_pylist(rows, schema=schema)
                rows = []
        yield pa.RecordBatch.from_pylist(rows, schema=schema)


def records(which: LogSegment, stamps: str = "dots") -> Iterator[Row]:
    """The rows of one segment."""
    files = ReadingFolder(which.folder)
    where = {"log": which.log, "segment": which.name}
    try:
        segment, state = read_header(files, which.name, SPACING)
        end = files.size(which.name)
        try:
            for position, offset, kind, body in scan(files, segment, segment.body_at, end, segment.first - 1):
                record = understand(segment, position, offset, kind, body)
                if isinstance(record, MemberRecord):
                    state.names.append(record.name)
                yield {**where, "byte": offset, "pos": position, **_row(record, state.names, stamps)}
                segment.size = offset + len(body) + OVERHEAD
        except DamageError:
            if not which.is_last or not is_torn(files, segment, end, power_lost=True):
                raise
    except DamageError as damage:
        raise TraceError(f"{which.folder}: {damage}") from damage
    except OSError as error:
        raise refused(os.path.join(which.folder, which.name), error) from error


def _row(record: Record, names: list[str], stamps: str) -> Row:
    row: Row = {"kind": KINDS[type(record)]}
    if isinstance(record, Stored):
        row |= {"origin": names[record.dot & ORIGIN_MASK], "seq": record.dot >> ORIGIN_BITS}
        row |= _message(record, names, stamps)
    elif isinstance(record, MemberRecord):
        row |= {"origin": record.name, "seq": record.number}
    elif isinstance(record, StableRecord):
        row["frontier"] = [{"origin": names[origin], "seq": seq} for origin, seq in record.changed]
    elif isinstance(record, SnapshotRef):
        clock = zip(names, record.clock, strict=False)
        row |= {"number": record.covers, "frontier": [{"origin": n, "seq": seq} for n, seq in clock if seq]}
    elif isinstance(record, Boot):
        row |= {"number": record.incarnation, "data": record.machine}
    elif isinstance(record, Note):
        row |= {"number": record.key, "data": record.data}
    else:
        row["number"] = record.upto if isinstance(record, Taken) else record.offset
    return row


def _message(stored: Stored, names: list[str], stamps: str) -> Row:
    """A message as it was encoded; its bytes if that was done in another way."""
    as_dots = stamps == "dots"
    try:
        size, run_span = (ORIGIN_MASK + 1, span_of_payload) if as_dots else (len(names), None)
        message = Codec(size, as_dots, run_span=run_span).decode(stored.data)
        if not isinstance(message, Message) or message.dot != stored.dot:
            return {"data": stored.data}
        if as_dots:
            context = [(dot & ORIGIN_MASK, dot >> ORIGIN_BITS) for dot in message.context]
        else:
            own = message.dot & ORIGIN_MASK  # a vector counts the message itself, a tag does not name it
            counts = [(origin, seq - (origin == own)) for origin, seq in enumerate(message.context)]
            context = [(origin, seq) for origin, seq in counts if seq]
        return {
            "deps": [{"origin": names[origin], "seq": seq} for origin, seq in context],
            "dest": [names[member] for member in message.dest],
            "payload": message.payload,
        }
    except (PeerError, IndexError):
        return {"data": stored.data}
