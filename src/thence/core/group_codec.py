"""Packets of a changing group as bytes, and the building blocks of the state that a joiner gets.

    packet = version (1 byte) kind (1 byte) names body crc32 (4 bytes, little endian, of all before it)
    names  = count, then each: length, bytes           every name of the packet, once
    body   = as the table below says; a name is its place in `names`

Names travel because indices differ; spelling each once per packet keeps a dot at two or three bytes. Kinds go
on from those of `core.codec`, with room between them. As there, nothing is believed before it is checked, and
whatever no correct peer sends is a `PeerError`.
"""

from collections.abc import Callable
from typing import Final
from zlib import crc32

from thence.core.errors import PeerError
from thence.core.groups import (
    CARRY,
    Data,
    Farewell,
    GroupPacket,
    JoinRequest,
    Named,
    Notice,
    Offer,
    Piece,
    Place,
    Receipt,
    Running,
)
from thence.core.varint import Reader, put

VERSION: Final = 1
DATA, RECEIPT, JOIN_REQUEST, OFFER, PIECE, NOTICE, FAREWELL = range(32, 39)
MAX_NAME: Final = 255
MAX_ADDRESS: Final = 1024
MAX_SEQ: Final = 1 << 43


class Writer:
    """Gathers names and body."""

    __slots__ = ("_names", "body")

    def __init__(self) -> None:
        self._names: dict[str, int] = {}
        self.body = bytearray()

    def number(self, value: int) -> None:
        put(self.body, value)

    def name(self, name: str) -> None:
        put(self.body, self._names.setdefault(name, len(self._names)))

    def names(self, names: tuple[str, ...] | list[str]) -> None:
        put(self.body, len(names))
        for name in names:
            self.name(name)

    def data(self, data: bytes) -> None:
        put(self.body, len(data))
        self.body += data

    def text(self, text: str) -> None:
        self.data(text.encode())

    def texts(self, texts: dict[str, str]) -> None:
        put(self.body, len(texts))
        for name, text in texts.items():
            self.name(name)
            self.text(text)

    def counts(self, counts: dict[str, int]) -> None:
        put(self.body, len(counts))
        for name, count in counts.items():
            self.name(name)
            put(self.body, count)

    def places(self, places: tuple[Place, ...] | list[Place]) -> None:
        put(self.body, len(places))
        for name, seq in places:
            self.name(name)
            put(self.body, seq)

    def message(self, message: Named) -> None:
        self.name(message.origin)
        put(self.body, message.seq)
        self.places(message.context)
        self.data(message.payload)

    def bytes(self) -> bytes:
        head = bytearray()
        put(head, len(self._names))
        for name in self._names:
            encoded = name.encode()
            put(head, len(encoded))
            head += encoded
        return bytes(head + self.body)


class Parser:
    """The other direction, believing nothing."""

    __slots__ = ("_names", "_reader")

    def __init__(self, data: bytes, at: int, end: int) -> None:
        self._reader = Reader(data, at, end)
        self._names = [self._take_name() for _ in range(self.count())]

    def _take_name(self) -> str:
        size = self._reader.take()
        if not 0 < size <= MAX_NAME:
            raise PeerError(f"a name of {size} bytes")
        try:
            name = self._reader.take_bytes(size).decode()
        except UnicodeDecodeError:
            raise PeerError("a name that is no text") from None
        if any(letter.isspace() for letter in name):
            raise PeerError("a name with white space")
        process, mark, number = name.partition("~")
        if not process or (mark and not (number.isascii() and number.isdigit() and len(number) < 20)):
            raise PeerError(f"no incarnation is called {name!r}")
        return name

    def number(self) -> int:
        return self._reader.take()

    def count(self) -> int:
        count = self._reader.take()
        if count > self._reader.end - self._reader.at:
            raise PeerError(f"{count} things in {self._reader.end - self._reader.at} bytes")
        return count

    def name(self) -> str:
        place = self._reader.take()
        if place >= len(self._names):
            raise PeerError(f"name {place} of {len(self._names)}")
        return self._names[place]

    def names(self) -> tuple[str, ...]:
        return tuple([self.name() for _ in range(self.count())])

    def data(self) -> bytes:
        return self._reader.take_bytes(self._reader.take())

    def text(self) -> str:
        data = self.data()
        if len(data) > MAX_ADDRESS:
            raise PeerError(f"an address of {len(data)} bytes")
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise PeerError("an address that is no text") from None

    def texts(self) -> dict[str, str]:
        return {self.name(): self.text() for _ in range(self.count())}

    def seq(self) -> int:
        seq = self._reader.take()
        if not 0 < seq < MAX_SEQ:
            raise PeerError(f"a counter of {seq}")
        return seq

    def counts(self) -> dict[str, int]:
        return {self.name(): self._reader.take() for _ in range(self.count())}

    def places(self) -> tuple[Place, ...]:
        return tuple([(self.name(), self.seq()) for _ in range(self.count())])

    def message(self) -> Named:
        message = Named(self.name(), self.seq(), self.places(), self.data())
        if not message.payload or message.payload[0] > CARRY:
            raise PeerError("a message of an unknown kind")
        if any(name == message.origin and seq >= message.seq for name, seq in message.context):
            raise PeerError("a message that follows from itself")
        return message

    def end(self) -> None:
        if self._reader.at != self._reader.end:
            raise PeerError(f"{self._reader.end - self._reader.at} bytes too many")


def _put_running(writer: Writer, running: Running) -> None:
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


def _optional(writer: Writer, name: str) -> None:
    writer.names([name] if name else [])


def _take_optional(parser: Parser) -> str:
    names = parser.names()
    if len(names) > 1:
        raise PeerError("several names where one is due")
    return names[0] if names else ""


def encode(packet: GroupPacket) -> bytes:
    writer = Writer()
    if isinstance(packet, Data):
        kind = DATA
        writer.names([packet.source, packet.target])
        writer.number(len(packet.messages))
        for message in packet.messages:
            writer.message(message)
    elif isinstance(packet, Receipt):
        kind = RECEIPT
        writer.name(packet.source)
        writer.counts(packet.counts)
        writer.names(packet.suspects)
        writer.names(packet.unheard)
        _put_running(writer, packet.running)
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
    elif isinstance(packet, Piece):
        kind = PIECE
        writer.names([packet.contact, packet.joiner])
        for number in (packet.transfer, packet.offset, packet.total):
            writer.number(number)
        writer.data(packet.data)
    elif isinstance(packet, Offer):
        kind = OFFER
        writer.names(packet)
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
    return JoinRequest(joiner, contact, rank, running, transfer, have, parser.text())


def _piece(parser: Parser) -> Piece:
    contact, joiner = _pair(parser)
    piece = Piece(contact, joiner, parser.number(), parser.number(), parser.number(), parser.data())
    if piece.offset + len(piece.data) > piece.total:
        raise PeerError("a piece that is longer than the whole")
    return piece


def _receipt(parser: Parser) -> Receipt:
    source, counts = parser.name(), parser.counts()
    return Receipt(source, counts, parser.names(), parser.names(), _take_running(parser))


def _notice(parser: Parser) -> Notice:
    source, target = _pair(parser)
    final = parser.number()
    return Notice(source, target, parser.names(), final)


TAKE: dict[int, Callable[[Parser], GroupPacket]] = {
    DATA: _data,
    RECEIPT: _receipt,
    JOIN_REQUEST: _join_request,
    OFFER: lambda parser: Offer(*_pair(parser)),
    PIECE: _piece,
    NOTICE: _notice,
    FAREWELL: lambda parser: Farewell(*_pair(parser), parser.number()),
}


def decode(data: bytes) -> GroupPacket:
    """A checked packet, or `PeerError`."""
    end = len(data) - 4
    if end < 2:
        raise PeerError(f"a packet of {len(data)} bytes")
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
