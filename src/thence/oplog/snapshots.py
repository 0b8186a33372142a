"""Snapshot files: the application's state, opaque, with the clock of what went into it.

    snapshot = magic (8 bytes) version (2) reserved (2) length (4, of the head) head
               size (8, of the data) data crc32 (4, of all before it)
    head     = covers, count, then per member: name (length, bytes) counter          (varints)

It counts from the moment that a record in the log refers to it, and that is written when the file and its
name are durable. So a file that a crash left behind, whole or in part, is never mistaken for the state of the
node. The clock is spelled with names: a snapshot can be read without its log.
"""

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

from thence.core.errors import PeerError, StorageError
from thence.core.storage import DamageError, Files
from thence.core.varint import Reader, put
from thence.oplog.policy import DiskSync
from thence.oplog.record import CRC, WORD
from thence.oplog.segment import SNAPSHOT, file_name

MAGIC: Final = b"thenceSN"
VERSION: Final = 1
PREFIX: Final = Struct("<8sHHI")
PIECE_BYTES: Final = 1 << 16
"""Of a part, where that is longer: what one write ends with."""


class Snapshot(NamedTuple):
    position: int
    """That its file bears."""
    covers: int
    """The state reflects every record up to this position; replay what comes after."""
    clock: tuple[tuple[str, int], ...]
    data: bytes


def _head(covers: int, clock: tuple[tuple[str, int], ...], size: int) -> bytes:
    head = bytearray()
    put(head, covers)
    put(head, len(clock))
    for name, seq in clock:
        encoded = name.encode()
        put(head, len(encoded))
        head += encoded
        put(head, seq)
    return b"".join((PREFIX.pack(MAGIC, VERSION, 0, len(head)), head, WORD.pack(size)))


def _cut(part: bytes) -> list[bytes] | list[memoryview]:
    """The part is kept until the last of it is not."""
    if len(part) <= PIECE_BYTES:
        return [part]
    whole = memoryview(part)
    return [whole[at : at + PIECE_BYTES] for at in range(0, len(part), PIECE_BYTES)]


class Draft:
    """A snapshot that is being written: a part is written, then synced, then the next.

    | state | is left by |
    | --- | --- |
    | written to | `write`, until so much was written that it is to be synced |
    | waits | the end of that sync: written to; after the last one the log refers to it |
    | referred to | the end of a sync of the log: done |
    """

    __slots__ = (
        "_crc", "_files", "_rest", "_serial", "at", "clock", "covers", "file", "name", "ref", "synced",
        "waits",
    )  # fmt: skip

    def __init__(
        self, files: Files, position: int, serial: int, covers: int, clock: tuple[int, ...], names: list[str],
        parts: Sequence[bytes],
    ) -> None:  # fmt: skip
        """`serial`: none is written under the same again."""
        self._files = files
        self.file = position
        self.name = file_name(position, SNAPSHOT)
        self._serial = serial
        self.covers = covers
        self.clock = clock
        named = tuple(zip(names, clock, strict=False))
        head = _head(covers, named, sum(map(len, parts)))
        self._rest = deque([head, *[piece for part in parts for piece in _cut(part)]])
        self._crc = 0
        self.at = 0
        self.synced = 0
        """Bytes that are written, and those that are durable."""
        self.waits: DiskSync | None = None
        self.ref = 0
        """Position of the record that refers to it."""

    def write(self, most: int) -> None:
        """About so many bytes more."""
        some, size, rest = list[bytes | memoryview](), 0, self._rest
        while rest and size < most:
            some.append(rest.popleft())
            size += len(some[-1])
        for part in some:
            self._crc = crc32(part, self._crc)
        if not rest:
            some.append(CRC.pack(self._crc))
        data = b"".join(some)
        if not self.at and self.name in self._files.names():
            self._files.remove(self.name)
        self._files.write(self.name, self.at, data)
        self.at += len(data)

    @property
    def whole(self) -> bool:
        return not self._rest

    def sync(self) -> DiskSync:
        """What was written is to be synced; it waits for that."""
        self.waits = DiskSync(self.name, self.at, -self._serial, self.whole)
        return self.waits

    def give_up(self) -> None:
        """Half a snapshot is of no use, and may be what fills the disk."""
        with suppress(StorageError):
            if self.name in self._files.names():
                self._files.remove(self.name)


def read_snapshot(files: Files, position: int) -> Snapshot:
    name = file_name(position, SNAPSHOT)

    def damaged(what: str, offset: int = 0) -> DamageError:
        return DamageError(what, file=name, offset=offset, affected="the state in this snapshot")

    if name not in files.names():
        raise damaged("the file is missing")
    data = files.read(name, 0, files.size(name))
    end = len(data) - CRC.size
    if end < PREFIX.size + WORD.size:
        raise damaged("the file is cut short")
    magic, version, _, length = PREFIX.unpack_from(data)
    if magic != MAGIC:
        raise damaged("this is no snapshot")
    if version != VERSION:
        raise damaged(f"a snapshot of version {version}; this is version {VERSION}", 8)
    if crc32(memoryview(data)[:end]) != CRC.unpack_from(data, end)[0]:
        raise damaged("the checksum does not match")
    body_at = PREFIX.size + length
    if body_at + WORD.size > end or WORD.unpack_from(data, body_at)[0] != end - body_at - WORD.size:
        raise damaged("the lengths do not add up", 12)
    reader = Reader(data, PREFIX.size, body_at)
    try:
        covers = reader.take()
        clock = tuple(
            [(reader.take_bytes(reader.take()).decode(), reader.take()) for _ in range(reader.take())]
        )
    except (PeerError, UnicodeDecodeError) as error:
        raise damaged(f"the head cannot be read ({error})", PREFIX.size) from error
    if reader.at != body_at:
        raise damaged("the head has bytes left over", reader.at)
    return Snapshot(position, covers, clock, data[body_at + WORD.size : end])
