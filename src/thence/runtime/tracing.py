"""Files of the traces of live nodes: lines, in whole, one file for each incarnation and boot."""

import os
from collections.abc import Iterator
from errno import EDQUOT, ENOSPC
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec

from thence.core.errors import StorageError, TraceError, UsageError
from thence.core.storage import DiskError
from thence.runtime.descriptors import NONE_LEFT
from thence.runtime.oserrors import failed
from thence.trace.schema import Dot

BLOCK_BYTES: Final = 1 << 16
"""Read from the end of a trace at once. What is looked for is almost always in the first of them."""


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


class Line(msgspec.Struct):
    kind: str
    origin: str | None = None
    seq: int | None = None
    channel: str | None = None
    key: int = 0
    """Of a row about a channel alone."""
    deps: msgspec.Raw = msgspec.Raw(b"null")
    """As it stands there: of most rows nothing in it is looked at."""

    @property
    def frontier(self) -> tuple[tuple[str, int], ...]:
        dots = msgspec.json.decode(self.deps, type=list[Dot] | None) or ()
        return tuple([(dot.origin, dot.seq) for dot in dots])


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
