"""Records: what the log remembers, one at a time, each with its own checksum.

    record = length (4 bytes, of the body) kind (1 byte) body crc32 (4 bytes)      all little endian

The checksum covers length, kind and body and starts from the segment's seed combined with the record's
offset. So a record is valid in one place only: bytes that were moved, left over from another file, or
smuggled in as a payload do not pass for records. Recovery leans on this when it has to tell a
write that was cut short from damage further up.

Kinds are bytes that are rare in text and in small integers; a search for the next record after a damaged
one then stops less often in vain.

Positions number the records of a log for ever: boot count above, record number below. They are not
stored. A record's position is its predecessor's plus one, except that a `Boot` names its own and starts a
new stretch above everything that any earlier boot can have handed out, whether or not it survived.
"""

from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

from thence.core.dots import ORIGIN_BITS
from thence.core.errors import PeerError, UsageError
from thence.core.varint import Reader, put

MEMBER, MESSAGE, STABLE, TAKEN, BOOT, SNAPSHOT, NOTE, SYNCED = range(0xD1, 0xD9)
KIND_BYTES: Final = rb"[\xd1-\xd8]"

BOOT_BITS: Final = 40
"""A trillion records per boot; 2^23 boots before a position needs more than 63 bits."""

MAX_BODY: Final = 64 << 20
"""No record is longer: a length that claims more is damage, and must not be allocated to find out."""

HEAD: Final = Struct("<IB")
MESSAGE_HEAD: Final = Struct("<IBQ")
CRC: Final = Struct("<I")
WORD: Final = Struct("<Q")
OVERHEAD: Final = HEAD.size + CRC.size
DOT_BYTES: Final = 8


class MemberRecord(NamedTuple):
    """From here on dots whose origin is `number` belong to `name`."""

    number: int
    name: str


class Stored(NamedTuple):
    """A message that was delivered here, own or foreign, as its appender had encoded it."""

    position: int
    dot: int
    data: bytes


class StableRecord(NamedTuple):
    """Counters up to which messages have become stable, of those origins where that has changed."""

    changed: tuple[tuple[int, int], ...]


class Taken(NamedTuple):
    """The application needs nothing at or below this position again."""

    upto: int


class Boot(NamedTuple):
    """The log was opened for writing. `machine` tells boots of the machine apart."""

    position: int
    incarnation: int
    machine: bytes


class SnapshotRef(NamedTuple):
    """A snapshot file counts from here on. It stands for everything up to position `covers`. Where `clock`
    is above what the log had, a state was installed."""

    covers: int
    clock: tuple[int, ...]
    file: int = 0
    """The position that the file bears; 0: that of this record."""


class Note(NamedTuple):
    """Something to remember, by key; the newest counts."""

    key: int
    data: bytes


class Synced(NamedTuple):
    """All bytes of this segment before `offset` were synced before this was written: if one of them is
    bad, that is damage and no torn write."""

    offset: int


Mark = MemberRecord | StableRecord | Taken | Boot | SnapshotRef | Note | Synced
Record = Stored | Mark


def put_message(out: bytearray, offset: int, seed: int, dot: int, data: bytes) -> None:
    """A message record that will stand at `offset`; apart from the others because it must be fast."""
    head = MESSAGE_HEAD.pack(len(data) + DOT_BYTES, MESSAGE, dot)
    out += head
    out += data
    out += CRC.pack(crc32(data, crc32(head, seed ^ offset)))


def put_mark(out: bytearray, offset: int, seed: int, mark: Mark) -> None:
    kind, body = _body(mark)
    if len(body) > MAX_BODY:
        raise UsageError(f"a record of {len(body)} bytes; the longest is {MAX_BODY}")
    record = HEAD.pack(len(body), kind) + body
    out += record
    out += CRC.pack(crc32(record, seed ^ offset))


def _body(mark: Mark) -> tuple[int, bytes]:
    if isinstance(mark, Synced):
        return SYNCED, WORD.pack(mark.offset)
    if isinstance(mark, Boot):
        return BOOT, WORD.pack(mark.position) + WORD.pack(mark.incarnation) + mark.machine
    out = bytearray()
    if isinstance(mark, MemberRecord):
        put(out, mark.number)
        return MEMBER, bytes(out) + mark.name.encode()
    if isinstance(mark, StableRecord):
        put(out, len(mark.changed))
        for origin, seq in mark.changed:
            put(out, origin)
            put(out, seq)
        return STABLE, bytes(out)
    if isinstance(mark, Taken):
        put(out, mark.upto)
        return TAKEN, bytes(out)
    if isinstance(mark, SnapshotRef):
        put(out, mark.covers)
        put(out, len(mark.clock))
        for seq in mark.clock:
            put(out, seq)
        if mark.file:
            put(out, mark.file)
        return SNAPSHOT, bytes(out)
    put(out, mark.key)
    return NOTE, bytes(out) + mark.data


def decode(position: int, kind: int, body: bytes) -> Record:
    """A record whose checksum was right. If it makes no sense all the same, `ValueError`."""
    if kind == MESSAGE:
        if len(body) < DOT_BYTES:
            raise ValueError("a message without a dot")
        dot = WORD.unpack_from(body)[0]
        if dot >> ORIGIN_BITS == 0:
            raise ValueError("a message whose counter is 0")
        return Stored(position, dot, body[DOT_BYTES:])
    if kind == BOOT:
        if len(body) < 16:
            raise ValueError("a boot mark that is too short")
        return Boot(position, WORD.unpack_from(body, 8)[0], body[16:])
    if kind == SYNCED:
        if len(body) != WORD.size:
            raise ValueError("a sync mark of the wrong length")
        return Synced(WORD.unpack(body)[0])
    try:
        return _decode_mark(kind, body)
    except PeerError as error:
        raise ValueError(f"a mark that cannot be read ({error})") from error


def _decode_mark(kind: int, body: bytes) -> Mark:
    reader = Reader(body, 0, len(body))
    mark: Mark
    if kind == MEMBER:
        return MemberRecord(reader.take(), reader.take_bytes(len(body) - reader.at).decode())
    if kind == NOTE:
        return Note(reader.take(), reader.take_bytes(len(body) - reader.at))
    if kind == STABLE:
        mark = StableRecord(tuple([(reader.take(), reader.take()) for _ in range(reader.take())]))
    elif kind == TAKEN:
        mark = Taken(reader.take())
    elif kind == SNAPSHOT:
        covers = reader.take()
        mark = SnapshotRef(covers, tuple([reader.take() for _ in range(reader.take())]))
        if reader.at != len(body):
            mark = mark._replace(file=reader.take())
    else:
        raise ValueError(f"a record of the unknown kind {kind}")
    if reader.at != len(body):
        raise ValueError("a mark with bytes left over")
    return mark
