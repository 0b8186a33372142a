"""Packets of an edge tree as bytes.

    packet = version (1 byte) kind (1 byte) fields crc32 (4 bytes, little endian, of all before it)
    body   = kind (1 byte) fields

Fields stand in the order of the packet's class, each as its letter in `FIELDS` says. Nothing is believed
before it is checked; whatever no correct peer sends is a `PeerError`.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final
from zlib import crc32

from thence.core import edge
from thence.core.edge import Count, EdgeBody, EdgeItem, EdgePacket, EdgePiece, EdgeRun
from thence.core.errors import PeerError
from thence.core.varint import MAX_SEQ, Reader, put

VERSION: Final = 1
FIRST_KIND: Final = 64
NAME_BYTES_MAX: Final = 1024

PACKETS: Final[tuple[tuple[type[Any], str], ...]] = (
    (edge.EdgeUp, "iiB"),
    (edge.EdgeDown, "iiB"),
    (edge.EdgeAttach, "ssiiSCCSss"),
    (edge.EdgeOpened, "siiCfSs"),
    (edge.EdgeRefused, "i"),
    (edge.EdgeReset, "if"),
    (edge.EdgeInvited, "si"),
    (edge.EdgeBye, "i"),
)
BODIES: Final[tuple[tuple[type[Any], str], ...]] = (
    (edge.EdgeItem, "iiiib"),
    (edge.EdgeNames, "S"),
    (edge.EdgeStatus, "SIIoo"),
    (edge.EdgeBeat, "i"),
    (edge.EdgeWant, "iSf"),
    (edge.EdgeState, "iSCD"),
    (edge.EdgeInvite, "si"),
    (edge.EdgeDrop, "S"),
    (edge.EdgeRehome, "s"),
    (edge.EdgePlaces, "S"),
    (edge.EdgeHome, "s"),
    (edge.EdgeRun, "iiiib"),
    (edge.EdgePiece, "ib"),
)
FIELDS: Final = dict((*PACKETS, *BODIES))
"""i: a number; o: one that may be -1; f: a flag; s: a name; b: bytes; S, I, C, D, B: several names, numbers
that may be -1, counts, bytes, bodies."""
KIND_OF: Final = {kind: FIRST_KIND + at for at, (kind, _) in enumerate(PACKETS)}
BODY_OF: Final = {kind: at for at, (kind, _) in enumerate(BODIES)}


def put_name(out: bytearray, name: str) -> None:
    data = name.encode()
    put(out, len(data))
    out += data


def put_data(out: bytearray, data: bytes) -> None:
    put(out, len(data))
    out += data


def put_offset(out: bytearray, number: int) -> None:
    put(out, number + 1)


def put_flag(out: bytearray, flag: bool) -> None:
    out.append(flag)


def put_counts(out: bytearray, counts: tuple[Count, ...]) -> None:
    put(out, len(counts))
    for origin, group, number in counts:
        put_name(out, origin)
        put_name(out, group)
        put(out, number)


def put_body(out: bytearray, body: EdgeBody) -> None:
    out.append(BODY_OF[type(body)])
    put_fields(out, body)


def _each(one: Callable[[bytearray, Any], None]) -> Callable[[bytearray, Any], None]:
    def put_all(out: bytearray, values: tuple[Any, ...]) -> None:
        put(out, len(values))
        for value in values:
            one(out, value)

    return put_all


def put_fields(out: bytearray, what: Any, fields: str = "") -> None:
    """The fields of a packet, or whatever else these letters stand for."""
    for letter, value in zip(fields or FIELDS[type(what)], what, strict=True):
        PUT[letter](out, value)


PUT: Final[dict[str, Callable[[bytearray, Any], None]]] = {
    "i": put, "o": put_offset, "f": put_flag, "s": put_name, "b": put_data, "S": _each(put_name),
    "I": _each(put_offset), "C": put_counts, "D": _each(put_data), "B": _each(put_body),
}  # fmt: skip


def encode(packet: EdgePacket) -> bytes:
    return framed(packet, KIND_OF[type(packet)], FIELDS[type(packet)])


def framed(packet: Any, kind: int, fields: str) -> bytes:
    out = bytearray((VERSION, kind))
    put_fields(out, packet, fields)
    out += crc32(out).to_bytes(4, "little")
    return bytes(out)


def take_flag(reader: Reader) -> bool:
    flag = reader.take()
    if flag > 1:
        raise PeerError(f"a flag of {flag}")
    return bool(flag)


def take_name(reader: Reader) -> str:
    length = reader.take()
    if length > NAME_BYTES_MAX:
        raise PeerError(f"a name of {length} bytes")
    try:
        name = reader.take_bytes(length).decode()
    except UnicodeDecodeError as error:
        raise PeerError("a name that is no text") from error
    if not name.isprintable() or " " in name:
        raise PeerError(f"{name!r} is no name")
    return name


def take_data(reader: Reader) -> bytes:
    return bytes(reader.take_bytes(reader.take()))


def take_count(reader: Reader) -> int:
    count = reader.take()
    if count > reader.end - reader.at:
        raise PeerError("more than a packet can hold")
    return count


def take_counts(reader: Reader) -> tuple[Count, ...]:
    return tuple([(take_name(reader), take_name(reader), reader.take()) for _ in range(take_count(reader))])


def take_body(reader: Reader) -> EdgeBody:
    kind = reader.take()
    if kind >= len(BODIES):
        raise PeerError(f"a body of kind {kind}")
    body: EdgeBody = take_fields(reader, *BODIES[kind])
    if isinstance(body, EdgeItem | EdgeRun) and not 0 < body.back <= body.number < MAX_SEQ:
        raise PeerError(f"number {body.number}, {body.back} after the one before it")
    return body


def pieces_of(body: EdgeBody, most: int) -> Iterator[EdgePiece]:
    """A body as several, of so many bytes each."""
    out = bytearray()
    put_body(out, body)
    for at in range(0, len(out), most):
        yield EdgePiece(max(0, len(out) - at - most), bytes(out[at : at + most]))


def whole_body(data: bytes) -> EdgeBody:
    """What its pieces make together; `PeerError`: nothing."""
    reader = Reader(data, 0, len(data))
    body = take_body(reader)
    if reader.at != reader.end or isinstance(body, EdgePiece):
        raise PeerError("pieces that make no body")
    return body


def _all(one: Callable[[Reader], Any]) -> Callable[[Reader], tuple[Any, ...]]:
    return lambda reader: tuple([one(reader) for _ in range(take_count(reader))])


def take_fields(reader: Reader, kind: type[Any], fields: str) -> Any:
    return kind(*[TAKE[letter](reader) for letter in fields])


def take_offset(reader: Reader) -> int:
    return reader.take() - 1


TAKE: Final[dict[str, Callable[[Reader], Any]]] = {
    "i": Reader.take, "o": take_offset, "f": take_flag, "s": take_name, "b": take_data, "S": _all(take_name),
    "I": _all(take_offset), "C": take_counts, "D": _all(take_data), "B": _all(take_body),
}  # fmt: skip


def decode(data: bytes) -> EdgePacket:
    """A checked packet, or `PeerError`."""
    packet: EdgePacket = unframed(data, FIRST_KIND, PACKETS)
    return packet


def unframed(data: bytes, first: int, packets: Sequence[tuple[type[Any], str]]) -> Any:
    """A packet of one of these kinds, whose numbers begin with `first`."""
    end = len(data) - 4
    if end < 2:
        raise PeerError(f"a packet of {len(data)} bytes")
    if crc32(memoryview(data)[:end]) != int.from_bytes(data[end:], "little"):
        raise PeerError("a packet whose checksum does not match")
    if data[0] != VERSION:
        raise PeerError(f"a packet of protocol version {data[0]}; this is version {VERSION}")
    if not 0 <= data[1] - first < len(packets):
        raise PeerError(f"a packet of kind {data[1]}")
    reader = Reader(data, 2, end)
    packet = take_fields(reader, *packets[data[1] - first])
    if reader.at != end:
        raise PeerError("a packet with bytes left over")
    return packet
