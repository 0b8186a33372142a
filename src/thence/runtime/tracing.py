"""Traces of live nodes: a file for each boot, and its completion after a crash.

The rows of a step are written after its log append and before anything of it leaves the node. A process that
is killed in between leaves a log that knows more than the trace, so at the next start the rest is read from
the log and written first, before the `restart` row. That is possible because a trace lacks nothing but its
end: sends are in the order of their counters, deliveries in the order of the log, and the log says how they
lie between each other (an own message follows everything that was marked as taken before it). So the last
`send` and the last `deliver` row tell what is missing. They are looked for no further back than in the last
file with a `restart` row: everything before it was complete then, or forgotten by the log.

Two things are up to the node: the first row of a boot (`start` or `restart`) is written before its first
step, and segments of the log are collected only when the rows of what was taken from them are written.
"""

import os
import re
from collections import deque
from collections.abc import Iterator
from errno import EDQUOT, ENOSPC
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

import msgspec

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK, newest_of, pack
from thence.core.errors import InvariantError, StorageError, TraceError, UsageError
from thence.core.storage import DiskError
from thence.oplog.log import OpLog
from thence.oplog.reading import OutOfReachError
from thence.oplog.record import BOOT_BITS, Boot, Note, SnapshotRef, Stored, Taken
from thence.oplog.state import covers
from thence.replica.durable import REGAINED, REGAINING
from thence.runtime.descriptors import NONE_LEFT
from thence.runtime.oserrors import failed
from thence.trace.lines import Lines
from thence.trace.recorder import DELIVER, INSTALL, SEND

BLOCK_BYTES: Final = 1 << 16
"""Read from the end of a trace at once. What is looked for is almost always in the first of them."""

ROWS_PER_WRITE: Final = 4096
"""Bounds the memory of a completion where a node was run without a trace for long."""

BEGINNINGS: Final = ("start", "restart")

NEVER: Final = 1 << 63
"""A position after all others."""

Row = tuple[int, int, tuple[int, ...] | None]
"""Kind, dot, and the context where it is recorded."""


def file_stem(node: str) -> str:
    """The node's name as files bear it. Readers of traces pass over names that begin with `_` or `.`."""
    stem = quote(node, safe="")
    return f"%{ord(stem[0]):02X}{stem[1:]}" if stem[0] in "_." else stem


def file_name(node: str, boot: int) -> str:
    return f"{file_stem(node)}-{boot}.jsonl"


class LiveTrace:
    """The file of one node and boot. What could not be written is kept and goes first the next time, so that
    a line is never torn in the middle of a file; how long to go on like that is the node's to decide."""

    __slots__ = ("_rest", "descriptor", "path")

    def __init__(self, folder: Path, node: str, boot: int) -> None:
        self.path: Final = folder / file_name(node, boot)
        self._rest = b""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
            self.descriptor = os.open(self.path, flags, 0o644)
        except FileExistsError as error:
            if folder.is_dir():
                what = f"{self.path} is there already: {node} needs a trace folder without a trace of another"
                raise UsageError(f"{what} node or data folder of that name") from error
            raise UsageError(f"{folder} is not a folder") from error
        except OSError as error:
            if error.errno in NONE_LEFT:
                raise failed(error, str(self.path)) from error
            raise UsageError(f"cannot write a trace to {self.path}: {error.strerror}") from error

    @property
    def waiting(self) -> int:
        """Bytes that could not be written yet."""
        return len(self._rest)

    def write(self, data: bytes) -> None:
        """Whole lines, in one write if the system takes them so."""
        rest = self._rest + data if self._rest else data
        try:
            while rest:
                rest = rest[os.write(self.descriptor, rest) :]
        except OSError as error:
            full = error.errno in (ENOSPC, EDQUOT)
            raise DiskError(error.strerror or str(error), file=str(self.path), full=full) from error
        finally:
            self._rest = rest

    def close(self) -> None:
        """What waits is tried once more."""
        if self.descriptor < 0:
            return
        try:
            self.write(b"")
        finally:
            os.close(self.descriptor)
            self.descriptor = -1


Rows = list[tuple[LiveTrace, bytes]]
"""Of one step, and where they belong."""


class Earlier(NamedTuple):
    """What the files of a node's earlier boots say."""

    since_boot: int
    """The last boot that wrote its `start` or `restart` row, which stands for everything before it. If none
    did, the oldest one with a file."""
    sent: int
    """Counter of the last `send` row since then; 0: none."""
    delivered: tuple[str, int] | None
    """The message of the last `deliver` row since then."""


class Line(msgspec.Struct):
    kind: str
    origin: str | None = None
    seq: int | None = None


def earlier_rows(folder: Path, node: str, boot: int) -> Earlier | None:
    """From the files of boots before this one; None: there are none, so that nothing can be missing."""
    own = re.compile(re.escape(file_stem(node)) + r"-([0-9]+)\.jsonl")
    try:
        found = [(int(match[1]), path) for path in folder.iterdir() if (match := own.fullmatch(path.name))]
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"cannot read the trace folder {folder}: {error.strerror}") from error
    files = sorted([(number, path) for number, path in found if number < boot])
    if not files:
        return None
    begun = [place for place, (_, path) in enumerate(files) if _begins(path)]
    files = files[begun[-1] if begun else 0 :]
    send, deliver = _last(files, "send"), _last(files, "deliver")
    return Earlier(
        files[0][0],
        (send.seq or 0) if send else 0,
        (deliver.origin or "", deliver.seq or 0) if deliver else None,
    )


def _begins(path: Path) -> bool:
    """Did this boot get so far as to say that it begins? Only rows that complete the trace come before."""
    try:
        with path.open("rb") as file:
            for line in file:
                if b'start"' in line and line.endswith(b"\n") and read_line(path, line).kind in BEGINNINGS:
                    return True
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error
    return False


def _last(files: list[tuple[int, Path]], kind: str) -> Line | None:
    """The last row of a kind. It is looked for among bytes: only a line that may be it is decoded."""
    needle = f'"{kind}"'.encode()
    for _, path in reversed(files):
        for line in lines_backwards(path):
            if needle in line and (row := read_line(path, line)).kind == kind:
                return row
    return None


def read_line(path: Path, line: bytes) -> Line:
    try:
        return msgspec.json.decode(line, type=Line)
    except msgspec.MsgspecError as error:
        raise TraceError(f"{path}: a line that no node wrote: {line[:80]!r}") from error


def lines_backwards(path: Path) -> Iterator[bytes]:
    """The whole lines of a file, the last one first; what stands after the last newline was torn."""
    try:
        with path.open("rb") as file:
            at = file.seek(0, os.SEEK_END)
            pending = b""
            torn = True
            while at:
                size = min(BLOCK_BYTES, at)
                at -= size
                file.seek(at)
                first, *lines = (file.read(size) + pending).split(b"\n")
                pending = first
                if torn and lines:
                    lines.pop()
                    torn = False
                yield from reversed(lines)
            if pending and not torn:
                yield pending
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error


def missing_rows(log: OpLog, me: int, earlier: Earlier) -> Iterator[Row]:
    """What the log says happened since that boot and the earlier files do not, in order."""
    waiting: deque[Stored] = deque()
    upto = _position_of_last_delivery(log, earlier)
    traced_from = earlier.since_boot << BOOT_BITS
    sent = earlier.sent
    regaining = False  # own messages come from others, and are taken like theirs
    held = list(log.start)
    for position, record in log.records(log.head):
        if isinstance(record, Boot):
            regaining = False
        elif isinstance(record, Note) and record.key in (REGAINING, REGAINED):
            regaining = record.key == REGAINING
        elif isinstance(record, SnapshotRef):
            # Told once more where the trace has it: nobody holds more by that.
            if position > traced_from and not covers(held, record.clock):
                yield INSTALL, 0, newest_of(record.clock)
        elif isinstance(record, Stored):
            held += [0] * ((record.dot & ORIGIN_MASK) + 1 - len(held))
            held[record.dot & ORIGIN_MASK] = record.dot >> ORIGIN_BITS
            if regaining or record.dot & ORIGIN_MASK != me:
                waiting.append(record._replace(data=b""))
            elif position > traced_from and (seq := record.dot >> ORIGIN_BITS) > sent:
                if sent and seq != sent + 1:
                    raise UsageError(_out_of_reach(log.names[me], sent + 1, seq - 1))
                sent = seq
                yield SEND, record.dot, None
        elif isinstance(record, Taken):
            while waiting and waiting[0].position <= record.upto:
                taken = waiting.popleft()
                if position > traced_from and taken.position > upto:
                    yield DELIVER, taken.dot, None


def _position_of_last_delivery(log: OpLog, earlier: Earlier) -> int:
    """Where the log holds the message that the trace last told of as delivered; everything foreign up to
    there was delivered before it. 0 where that was collected."""
    if earlier.delivered is None:
        return 0
    name, seq = earlier.delivered
    if name not in log.names:
        return NEVER  # the log has forgotten even the member; its `restart` row will tell of that
    origin = log.names.index(name)
    before = list(log.vector)
    if seq > before[origin]:
        return NEVER
    before[origin] = seq - 1
    try:
        found = next(log.missing(before))
    except OutOfReachError:
        return 0
    if found.dot != pack(origin, seq):
        raise InvariantError(f"the log holds {found.dot:#x} in the place of {name}:{seq}")
    return found.position


def _out_of_reach(name: str, first: int, last: int) -> str:
    which = f"{name}:{first}" + (f" to {name}:{last}" if last > first else "")
    return (
        f"the trace lacks {which}, which the log no longer holds (was the node run without a trace?): "
        "give it a new trace folder"
    )


def complete(trace: LiveTrace, lines: Lines, rows: Iterator[Row], now: int) -> int:
    """Write down what was missing; how many rows that were."""
    count = 0
    for kind, dot, deps in rows:
        if deps is None:
            lines.record(kind, dot, now)
        else:
            lines.record_deps(kind, dot, deps, now)
        count += 1
        if len(lines) >= ROWS_PER_WRITE:
            trace.write(lines.take_bytes())
    trace.write(lines.take_bytes())
    return count
