"""Segments: the files that a log is cut into, so that its beginning can be thrown away whole.

    segment = header record*
    header  = magic (8 bytes) version (2) reserved (2) length (4, of the body) body crc32 (4)
    body    = first (8) created (8) state

`first` is the position after the last record of the segment before; the file is named after it. The state
(names, vector, marks; `state.py`) is that of the log before the first record here: it makes each segment a
beginning, and the vector in it tells from the header alone whether a peer needs anything earlier.

The header is synced before the first record is written after it. Its checksum is the seed of those of the
records.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final
from zlib import crc32

from thence.core.storage import DamageError, ReadableFiles
from thence.oplog.index import Index
from thence.oplog.record import BOOT, CRC, HEAD, OVERHEAD, WORD, Record, decode
from thence.oplog.state import ReplayedState

MAGIC: Final = b"thenceLG"
VERSION: Final = 1
PREFIX: Final = Struct("<8sHHI")
FIXED: Final = Struct("<QQ")

CHUNK_BYTES: Final = 256 << 10
"""What a scan reads at once: large enough to make the call cheap, small enough to start soon."""

LOG, INDEX, SNAPSHOT, TEMPORARY = ".log", ".index", ".snapshot", ".temporary"


def file_name(position: int, suffix: str) -> str:
    return f"{position:016x}{suffix}"


def position_of(name: str, suffix: str) -> int | None:
    """The position that a file is named after, if it is one of this kind."""
    stem = name.removesuffix(suffix)
    if stem == name or len(stem) != 16 or stem.strip("0123456789abcdef"):
        return None
    return int(stem, 16)


class Segment:
    """A segment and what is known of it without reading it again."""

    __slots__ = (
        "before",
        "body_at",
        "crc",
        "created_us",
        "first",
        "gone",
        "index",
        "last",
        "marked",
        "name",
        "seed",
        "size",
        "start",
        "synced",
    )

    def __init__(
        self, first: int, created_us: int, state: ReplayedState, seed: int, body_at: int, index: Index
    ) -> None:
        self.name: Final = file_name(first, LOG)
        self.first: Final = first
        self.created_us: Final = created_us
        self.start: Final = tuple(state.vector)
        """The log's vector before the first record here."""
        self.before: Final = state.last_message
        """Position of the last message before this segment. Marks may stand between."""
        self.seed: Final = seed
        self.body_at: Final = body_at
        self.index = index
        self.size = body_at
        self.last = first - 1
        """Position of the last record, or of the last one before."""
        self.crc = 0
        """Of all bytes so far."""
        self.synced = body_at
        self.marked = body_at
        """Up to where a mark in the segment says that it was synced."""
        self.gone = False


def encode_header(first: int, created_us: int, state: ReplayedState) -> bytes:
    body = FIXED.pack(first, created_us) + state.encode()
    out = PREFIX.pack(MAGIC, VERSION, 0, len(body)) + body
    return out + CRC.pack(crc32(out))


def new_segment(header: bytes, first: int, created_us: int, state: ReplayedState, spacing: int) -> Segment:
    seed = CRC.unpack_from(header, len(header) - CRC.size)[0]
    segment = Segment(first, created_us, state, seed, len(header), Index(spacing))
    segment.crc = crc32(header)
    return segment


def read_header(files: ReadableFiles, name: str, spacing: int) -> tuple[Segment, ReplayedState]:
    """A segment as far as its header tells, and the state before it."""
    size = files.size(name)
    affected = "all records of this file"

    def damaged(what: str, offset: int = 0) -> DamageError:
        return DamageError(what, file=name, offset=offset, affected=affected)

    prefix = files.read(name, 0, PREFIX.size)
    if len(prefix) < PREFIX.size:
        raise damaged("the header is cut short")
    magic, version, _, length = PREFIX.unpack(prefix)
    if magic != MAGIC:
        raise damaged("this is no log")
    if version != VERSION:
        raise damaged(f"a log of version {version}; this is version {VERSION}", 8)
    end = PREFIX.size + length
    if length < FIXED.size or end + CRC.size > size:
        raise damaged("the header is cut short", 12)
    header = files.read(name, 0, end + CRC.size)
    if crc32(header[:end]) != CRC.unpack_from(header, end)[0]:
        raise damaged("the header's checksum does not match")
    first, created_us = FIXED.unpack_from(header, PREFIX.size)
    if file_name(first, LOG) != name:
        raise damaged(f"the header belongs to {file_name(first, LOG)}")
    try:
        state = ReplayedState.decode(header[PREFIX.size + FIXED.size : end])
    except ValueError as error:
        raise damaged(str(error), PREFIX.size + FIXED.size) from error
    segment = new_segment(header, first, created_us, state, spacing)
    return segment, state


def scan(
    files: ReadableFiles, segment: Segment, offset: int, end: int, position: int
) -> Iterator[tuple[int, int, int, bytes]]:
    """(position, offset, kind, body) of each record from `offset` to `end`, checksums verified; `position`
    is that of the record before. A bad record raises `DamageError` with its offset."""
    name, seed = segment.name, segment.seed
    window, base = b"", offset
    while offset < end:
        at = offset - base
        if len(window) - at < OVERHEAD:
            window, base, at = files.read(name, offset, min(CHUNK_BYTES, end - offset)), offset, 0
            if len(window) < OVERHEAD:
                raise _bad("a record is cut short", segment, offset, position)
        length, kind = HEAD.unpack_from(window, at)
        if length > end - offset - OVERHEAD:
            raise _bad("a record is cut short", segment, offset, position)
        stop = at + HEAD.size + length
        if stop + CRC.size > len(window):
            count = min(max(CHUNK_BYTES, length + OVERHEAD), end - offset)
            window, base, at = files.read(name, offset, count), offset, 0
            stop = HEAD.size + length
            if stop + CRC.size > len(window):
                raise _bad("the file has become shorter", segment, offset, position)
        record = window[at:stop]
        if crc32(record, seed ^ offset) != CRC.unpack_from(window, stop)[0]:
            raise _bad("a record's checksum does not match", segment, offset, position)
        if kind == BOOT and length >= WORD.size:
            position = WORD.unpack_from(record, HEAD.size)[0]
        else:
            position += 1
        yield position, offset, kind, record[HEAD.size :]
        offset += length + OVERHEAD


def _bad(what: str, segment: Segment, offset: int, position: int) -> DamageError:
    affected = f"records after position {position} in this file"
    return DamageError(what, file=segment.name, offset=offset, affected=affected)


def understand(segment: Segment, position: int, offset: int, kind: int, body: bytes) -> Record:
    try:
        return decode(position, kind, body)
    except ValueError as error:
        raise _bad(str(error), segment, offset, position - 1) from error
