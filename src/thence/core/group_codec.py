"""Packets of a changing group as bytes.

    packet = version (1 byte) kind (1 byte) names body crc32 (4 bytes, little endian, of all before it)
    names  = count, then each: length, bytes           every name of the packet, once
    body   = as the table below says; a name is its place in `names`

Names travel because indices differ; spelling each once per packet keeps a dot at two or three bytes. Kinds go
on from those of `core.codec`, with room between them. As there, nothing is believed before it is checked, and
whatever no correct peer sends is a `PeerError`.

What flows over a session link names no incarnation twice, and is not copied more often than it must be:

    flow   = version kind stream first names crc32 (of all before it), then each message with its length

    fragment = version kind stream offset total crc32 (of all before it), then bytes of one message

A message is a packet of `core.codec`, as it was written to the sender's log; it brings its own checksum.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Final
from zlib import crc32

from thence.core.errors import PeerError
from thence.core.group_words import Parser, WordWriter, take_name
from thence.core.groups import (
    Data,
    Extent,
    Farewell,
    Flow,
    Fragment,
    FragmentReceipt,
    GroupPacket,
    JoinRequest,
    Lineage,
    Notice,
    Offer,
    Passed,
    Piece,
    Receipt,
    Running,
)
from thence.core.varint import Reader, put, take_long

VERSION: Final = 1
DATA, RECEIPT, JOIN_REQUEST, OFFER, PIECE, NOTICE, FAREWELL, FLOW, LINEAGE, PASSED = range(32, 42)
FRAGMENT, FRAGMENT_RECEIPT = 42, 43

_SMALL: Final = tuple([bytes((size,)) for size in range(0x80)])
"""Lengths of one byte."""


def _put_running(writer: WordWriter, running: Running) -> None:
    writer.name(running.process)
    writer.number(bool(running.member) | bool(running.attempt) << 1)
    for name in (running.member, running.attempt):
        if name:
            writer.name(name)
    writer.number(running.highest)


def _take_running(parser: Parser) -> Running:
    process, there = parser.name(), parser.number()
    member = parser.name() if there & 1 else ""
    return Running(process, member, parser.name() if there & 2 else "", parser.number())


def _optional(writer: WordWriter, name: str) -> None:
    writer.names([name] if name else [])


def _take_optional(parser: Parser) -> str:
    names = parser.names()
    if len(names) > 1:
        raise PeerError("several names where one is due")
    return names[0] if names else ""


def put_extent(writer: WordWriter, extent: Extent) -> None:
    writer.counts(extent.counts)
    writer.spans(extent.past)
    writer.places(extent.carried)


def take_extent(parser: Parser) -> Extent:
    return Extent(parser.counts(), parser.spans(), parser.places())


def _flow_head(stream: int, first: int, names: tuple[str, ...]) -> bytes:
    """Of a flow, all before its messages."""
    out = bytearray((VERSION, FLOW))
    put(out, stream)
    put(out, first)
    put(out, len(names))
    for name in names:
        encoded = name.encode()
        put(out, len(encoded))
        out += encoded
    out += crc32(out).to_bytes(4, "little")
    return bytes(out)


@lru_cache(maxsize=512)
def _usual_head(stream: int, first: int) -> bytes:
    """Of all flows of a link but the first, which names members."""
    return _flow_head(stream, first, ())


def _put_flow(flow: Flow) -> bytes:
    names, bodies = flow.names, flow.bodies
    head = _flow_head(flow.stream, flow.first, names) if names else _usual_head(flow.stream, flow.first)
    if len(bodies) == 1 and len(bodies[0]) < 0x80:
        return head + _SMALL[len(bodies[0])] + bodies[0]
    parts = [head]
    for body in bodies:
        size = len(body)
        if size < 0x80:
            parts.append(_SMALL[size])
        elif size < 0x4000:
            parts.append(bytes((size & 0x7F | 0x80, size >> 7)))
        else:
            out = bytearray()
            put(out, size)
            parts.append(bytes(out))
        parts.append(body)
    return b"".join(parts)


def _take_flow(data: bytes) -> Flow:
    """What `_take_any_flow` makes of it, in a third of the time where it brings no names."""
    try:
        stream, at = data[2], 3
        if stream > 0x7F:
            stream, at = take_long(data, at, stream)
        first = data[at]
        at += 1
        if first > 0x7F:
            first, at = take_long(data, at, first)
        if data[at]:
            return _take_any_flow(data)
        head = _usual_head(stream, first)
        if not data.startswith(head):
            return _take_any_flow(data)
        at, end, bodies = len(head), len(data), []
        while at < end:
            size = data[at]
            at += 1
            if size > 0x7F:
                size, at = take_long(data, at, size)
            bodies.append(data[at : at + size])
            at += size
    except IndexError:
        raise PeerError("a packet ends too early") from None
    if at != end:
        raise PeerError("a packet ends too early")
    return Flow(stream, first, (), tuple(bodies))


def _take_any_flow(data: bytes) -> Flow:
    reader = Reader(data, 2, len(data))
    stream, first, count = reader.take(), reader.take(), reader.take()
    if count > reader.end - reader.at:
        raise PeerError(f"{count} names in {reader.end - reader.at} bytes")
    names = tuple([take_name(reader) for _ in range(count)])
    if crc32(data[: reader.at]) != int.from_bytes(reader.take_bytes(4), "little"):
        raise PeerError("a packet whose checksum does not match")
    bodies = []
    while reader.at < reader.end:
        bodies.append(reader.take_bytes(reader.take()))
    return Flow(stream, first, names, tuple(bodies))


def _put_fragment(fragment: Fragment) -> bytes:
    out = bytearray((VERSION, FRAGMENT))
    for number in (fragment.stream, fragment.offset, fragment.total):
        put(out, number)
    out += crc32(out).to_bytes(4, "little")
    return b"".join((out, fragment.data))


def _take_fragment(data: bytes) -> Fragment:
    reader = Reader(data, 2, len(data))
    stream, offset, total = reader.take(), reader.take(), reader.take()
    if crc32(data[: reader.at]) != int.from_bytes(reader.take_bytes(4), "little"):
        raise PeerError("a packet whose checksum does not match")
    return Fragment(stream, offset, total, reader.take_bytes(reader.end - reader.at))


def _put_receipt(writer: WordWriter, receipt: Receipt) -> None:
    writer.name(receipt.source)
    writer.counts(receipt.counts)
    writer.names(receipt.suspects)
    writer.names(receipt.unheard)
    _put_running(writer, receipt.running)
    _optional(writer, receipt.target)
    writer.number(receipt.stream)
    writer.names(receipt.wants)
    writer.spans(receipt.past)


def encode(packet: GroupPacket) -> bytes:
    if isinstance(packet, Flow):
        return _put_flow(packet)
    if isinstance(packet, Fragment):
        return _put_fragment(packet)
    writer = WordWriter()
    if isinstance(packet, Data):
        kind = DATA
        writer.names([packet.source, packet.target])
        writer.number(len(packet.messages))
        for message in packet.messages:
            writer.message(message)
    elif isinstance(packet, Receipt):
        kind = RECEIPT
        _put_receipt(writer, packet)
        if packet.number or packet.via:
            writer.number(packet.number)
            if packet.via:
                writer.name(packet.via)
    elif isinstance(packet, Passed):
        kind = PASSED
        writer.number(len(packet.receipts))
        for receipt in packet.receipts:
            _put_receipt(writer, receipt)
            writer.number(receipt.number)
    elif isinstance(packet, JoinRequest):
        kind = JOIN_REQUEST
        writer.name(packet.joiner)
        _optional(writer, packet.contact)
        grade, size, least, own = packet.rank
        writer.number(grade)
        writer.number(-size)
        _optional(writer, least)
        _optional(writer, own)
        _put_running(writer, packet.running)
        writer.number(packet.transfer)
        writer.number(packet.have)
        writer.text(packet.address)
        writer.number(packet.since)
        if packet.extent is not None:
            put_extent(writer, packet.extent)
    elif isinstance(packet, Piece):
        kind = PIECE
        writer.names([packet.contact, packet.joiner])
        for number in (packet.transfer, packet.offset, packet.total):
            writer.number(number)
        writer.data(packet.data)
    elif isinstance(packet, FragmentReceipt):
        kind = FRAGMENT_RECEIPT
        writer.number(packet.stream)
        writer.number(packet.came)
    elif isinstance(packet, Offer):
        kind = OFFER
        writer.names(packet)
    elif isinstance(packet, Lineage):
        kind = LINEAGE
        writer.name(packet.source)
        writer.counts(packet.counts)
        writer.starts(packet.starts)
        _optional(writer, packet.target)
        writer.counts(packet.yours)
    else:
        kind = NOTICE if isinstance(packet, Notice) else FAREWELL
        writer.names([packet.source, packet.target])
        writer.number(packet.final)
        if isinstance(packet, Notice):
            writer.names(packet.members)
    out = bytearray((VERSION, kind)) + writer.bytes()
    out += crc32(out).to_bytes(4, "little")
    return bytes(out)


def _data(parser: Parser) -> Data:
    source, target = _pair(parser)
    return Data(source, target, tuple([parser.message() for _ in range(parser.count())]))


def _pair(parser: Parser) -> tuple[str, str]:
    names = parser.names()
    if len(names) != 2:
        raise PeerError(f"{len(names)} names where two are due")
    return names[0], names[1]


def _join_request(parser: Parser) -> JoinRequest:
    joiner, contact = parser.name(), _take_optional(parser)
    rank = (parser.number(), -parser.number(), _take_optional(parser), _take_optional(parser))
    running, transfer, have = _take_running(parser), parser.number(), parser.number()
    address, since = parser.text(), parser.number()
    extent = None if parser.done else take_extent(parser)
    return JoinRequest(joiner, contact, rank, running, transfer, have, address, since, extent)


def _piece(parser: Parser) -> Piece:
    contact, joiner = _pair(parser)
    piece = Piece(contact, joiner, parser.number(), parser.number(), parser.number(), parser.data())
    if piece.offset + len(piece.data) > piece.total:
        raise PeerError("a piece that is longer than the whole")
    return piece


def _receipt(parser: Parser) -> Receipt:
    source, counts = parser.name(), parser.counts()
    suspects, unheard, running = parser.names(), parser.names(), _take_running(parser)
    target, stream = _take_optional(parser), parser.number()
    wants, past = parser.names(), parser.spans()
    return Receipt(source, counts, suspects, unheard, running, target, stream, wants, past)


def _numbered(parser: Parser) -> Receipt:
    receipt = _receipt(parser)
    return receipt._replace(number=0 if parser.done else parser.number())


def _direct(parser: Parser) -> Receipt:
    receipt = _numbered(parser)
    return receipt if parser.done else receipt._replace(via=parser.name())


def _passed(parser: Parser) -> Passed:
    return Passed(tuple([_numbered(parser) for _ in range(parser.count())]))


def _lineage(parser: Parser) -> Lineage:
    source, counts, starts = parser.name(), parser.counts(), parser.starts()
    return Lineage(source, counts, starts, _take_optional(parser), parser.counts())


def _notice(parser: Parser) -> Notice:
    source, target = _pair(parser)
    final = parser.number()
    return Notice(source, target, parser.names(), final)


TAKE: dict[int, Callable[[Parser], GroupPacket]] = {
    DATA: _data,
    RECEIPT: _direct,
    PASSED: _passed,
    JOIN_REQUEST: _join_request,
    OFFER: lambda parser: Offer(*_pair(parser)),
    PIECE: _piece,
    NOTICE: _notice,
    FAREWELL: lambda parser: Farewell(*_pair(parser), parser.number()),
    LINEAGE: _lineage,
    FRAGMENT_RECEIPT: lambda parser: FragmentReceipt(parser.number(), parser.number()),
}


def decode(data: bytes) -> GroupPacket:
    """A checked packet, or `PeerError`."""
    end = len(data) - 4
    if end < 2:
        raise PeerError(f"a packet of {len(data)} bytes")
    if data[0] == VERSION and data[1] == FLOW:
        return _take_flow(data)
    if data[0] == VERSION and data[1] == FRAGMENT:
        return _take_fragment(data)
    if crc32(memoryview(data)[:end]) != int.from_bytes(data[end:], "little"):
        raise PeerError("a packet whose checksum does not match")
    if data[0] != VERSION:
        raise PeerError(f"a packet of protocol version {data[0]}; this is version {VERSION}")
    take = TAKE.get(data[1])
    if take is None:
        raise PeerError(f"a packet of kind {data[1]}")
    parser = Parser(data, 2, end)
    packet = take(parser)
    parser.end()
    return packet
