"""Snapshot files: the application's state, opaque, with the clock of what went into it.

    snapshot = magic (8 bytes) version (2) reserved (2) length (4, of the head) head
               size (8, of the data) data crc32 (4, of all before it)
    head     = covers, count, then per member: name (length, bytes) counter          (varints)

A snapshot is written under a temporary name, synced, and renamed; it counts from the moment that a record
in the log refers to it. So a file that a crash left behind, whole or in part, is never mistaken for the
state of the node. The clock is spelled with names: a snapshot can be read without its log.
"""

from contextlib import suppress
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

from thence.core.errors import PeerError, StorageError
from thence.core.storage import DamageError, Files
from thence.core.varint import Reader, put
from thence.oplog.record import CRC, WORD
from thence.oplog.segment import SNAPSHOT, TEMPORARY, file_name

MAGIC: Final = b"thenceSN"
VERSION: Final = 1
PREFIX: Final = Struct("<8sHHI")


class Snapshot(NamedTuple):
    position: int
    """Of the record that refers to it."""
    covers: int
    """The state reflects every record up to this position; replay what comes after."""
    clock: tuple[tuple[str, int], ...]
    data: bytes


def encode_snapshot(covers: int, clock: tuple[tuple[str, int], ...], data: bytes) -> bytes:
    head = bytearray()
    put(head, covers)
    put(head, len(clock))
    for name, seq in clock:
        encoded = name.encode()
        put(head, len(encoded))
        head += encoded
        put(head, seq)
    out = b"".join((PREFIX.pack(MAGIC, VERSION, 0, len(head)), head, WORD.pack(len(data)), data))
    return out + CRC.pack(crc32(out))


def write_snapshot(files: Files, position: int, encoded: bytes) -> None:
    """Bring the file into being, whole and durable, or not at all."""
    name = file_name(position, SNAPSHOT)
    temporary = name + TEMPORARY
    if temporary in files.names():
        files.remove(temporary)
    try:
        files.write(temporary, 0, encoded)
        files.sync(temporary)
        files.rename(temporary, name)
        files.sync_folder()
    except StorageError:
        # Half a snapshot is of no use, and may be what fills the disk.
        with suppress(StorageError):
            if temporary in files.names():
                files.remove(temporary)
        raise


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
