"""Packets as bytes: versioned, checksummed, compact, and never believed before they are checked.

    packet  = version (1 byte) kind (1 byte) body crc32 (4 bytes, little endian, of all before it)
    message = origin seq stamp dest payload      (payload: length, bytes)
    stamp   = dots | counters | clock | hop      (which one is the codec's, agreed on beforehand)
    batch   = count, then each message with its length in front

All integers are varints; stamps are told of in `codec_stamps`. A member is its index in the group, which both
ends know. Where messages carry nothing, so that a context is the byte 0, a run (`core.runs`) has the byte 1
there: a bitmap of no dots, which nothing else is written as. Where messages are addressed, a run is a packet
of a kind of its own.

Decoding goes from unverified bytes to checked packets. Anything that no correct peer sends (a wrong
checksum, leftover bytes, a member that is not there, a counter of zero, a context that names the message
itself) raises `PeerError`; no partial packet ever gets out.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final
from zlib import crc32

from thence.core.codec_hops import put_hop, take_hop
from thence.core.codec_overlay import FIRST, KIND_OF, put_body, take_body
from thence.core.codec_stamps import (
    put_clock,
    put_counters,
    put_dots,
    put_dots_list,
    take_clock,
    take_counters,
    take_dots,
    take_dots_list,
)
from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK, STEP, pack
from thence.core.errors import PeerError
from thence.core.machine import Ack, Batch, Packet, Phantom
from thence.core.message import Message
from thence.core.varint import MAX_SEQ, Reader, checked_counter, checked_member, put, take_long

VERSION: Final = 1
MESSAGE, ACK, PHANTOM, BATCH = range(4)
ADDRESSED_RUN: Final = 5
FEW: Final = 8
"""Dots of a context, as most messages have them."""
RESIDUE: Final = 0x2144DF1C
"""The CRC-32 of any bytes with their own CRC-32, least significant byte first, behind them."""

_RUN: Final = b"\x01"
"""In the place of a context: the payload is a run."""


@lru_cache(maxsize=4096)
def _stamp(context: tuple[int, ...], length: int) -> bytes:
    """Of a message to all, what stands between its counter and its payload, which has so many bytes.
    `context`: its dots less its counter, so that those of most messages are the same."""
    out = bytearray()
    put_dots(out, context, 0)
    out.append(0)
    put(out, length)
    return bytes(out)


@lru_cache(maxsize=1024)
def _start(origin: int) -> bytes:
    """Of a message, all before its counter."""
    return bytes((VERSION, MESSAGE)) + _varint(origin)


def _varint(value: int) -> bytes:
    out = bytearray()
    put(out, value)
    return bytes(out)


@lru_cache(maxsize=4096)
def _only_dot(stamp: bytes) -> tuple[int, int] | None:
    """Of four bytes that stand between the counter of a message and the length of its payload: the member
    of its only dot, and by how much its counter is above that of the message. None: they say something
    else."""
    if len(stamp) < 4 or stamp[0] != 2 or stamp[1] > 0x7F or stamp[2] > 0x7F or stamp[3]:
        return None
    folded = stamp[2]
    return stamp[1], -(folded + 1 >> 1) if folded & 1 else folded >> 1


def _head(message: Message) -> bytes:
    """What `Codec._put_head` writes for nearly all messages, those whose context has few dots, without a call
    for each integer."""
    dot = message.dot
    origin, seq = dot & ORIGIN_MASK, dot >> ORIGIN_BITS
    if 0x4000 <= seq < 0x200000:  # most counters have three bytes
        counter = bytes((seq & 0x7F | 0x80, seq >> 7 & 0x7F | 0x80, seq >> 14))
    else:
        counter = _varint(seq)
    base, context = dot ^ origin, message.context
    less = (context[0] - base,) if len(context) == 1 else tuple([dot - base for dot in context])
    return _start(origin) + counter + _stamp(less, len(message.payload))


def _is_run(message: Message) -> bool:
    return message.before + STEP != message.dot


Span = Callable[[bytes], int]
PutStamp = Callable[[bytearray, tuple[int, ...], int], None]
TakeStamp = Callable[[Reader, int, int], tuple[int, ...]]


class Codec:
    """Both directions, for a group of `size` and the stamps of one engine. `hops`: messages are addressed,
    their stamps are those of a hop, acknowledgements name hops, phantoms the newest hop of each sender.
    `entries`: stamps are clocks of so many entries, which members share."""

    __slots__ = (
        "_dots", "_hops", "_put_stamp", "_run_span", "_size", "_span", "_stamp_size", "_take_stamp",
        "_vectors",
    )  # fmt: skip

    def __init__(
        self,
        size: int,
        stamps_are_dots: bool,
        hops: bool = False,
        span: Span | None = None,
        entries: int = 0,
        run_span: Span | None = None,
    ) -> None:
        """`span`: how many operations a payload holds; None: one. `PeerError`: it is no payload. `run_span`:
        the same of the payload of a run, where messages carry nothing or are addressed, and say it of
        themselves."""
        self._size = size
        self._span = span
        self._run_span = run_span
        self._dots = stamps_are_dots
        self._hops = hops
        self._vectors = not (hops or entries or stamps_are_dots)
        self._put_stamp: PutStamp = put_dots
        self._take_stamp: TakeStamp = take_dots
        if hops:
            self._put_stamp, self._take_stamp = put_hop, take_hop
        elif entries:
            self._put_stamp, self._take_stamp = put_clock, take_clock
        elif not stamps_are_dots:
            self._put_stamp, self._take_stamp = put_counters, take_counters
        self._stamp_size = entries or size

    def encode(self, packet: Packet) -> bytes:
        if isinstance(packet, Message):
            return packet.wire if packet.wire is not None else self.encode_message(packet)
        out = bytearray((VERSION, MESSAGE))
        if isinstance(packet, Batch):
            out[1] = BATCH
            self._put_messages(out, packet.messages)
        elif isinstance(packet, Ack):
            out[1] = ACK
            put_counters(out, packet.received, 0)
            put_dots_list(out, packet.early)
        elif isinstance(packet, tuple):
            out[1] = KIND_OF[type(packet)]
            put_body(out, packet, self._put_messages)
        else:
            out[1] = PHANTOM
            put(out, packet.asks)
            (put_dots if self._hops else self._put_stamp)(out, packet.context, 0)
        out += crc32(out).to_bytes(4, "little")
        return bytes(out)

    def encode_message(self, message: Message) -> bytes:
        """A message that has not been encoded yet."""
        marked = self._run_span is not None and _is_run(message)
        kind = ADDRESSED_RUN if marked and self._hops else MESSAGE
        if self._dots and len(message.context) <= FEW and not message.dest and not marked:
            head = _head(message)
        else:
            out = bytearray((VERSION, kind))
            self._put_head(out, message)
            head = bytes(out)
        payload = message.payload
        check = crc32(payload, crc32(head)).to_bytes(4, "little")
        message.wire = wire = b"".join((head, payload, check))
        return wire

    def _put_messages(self, out: bytearray, messages: Sequence[Message]) -> None:
        put(out, len(messages))
        for message in messages:
            body = bytearray()
            self.put_message(body, message)
            put(out, len(body))
            out += body

    def put_message(self, out: bytearray, message: Message) -> None:
        self._put_head(out, message)
        out += message.payload

    def _put_head(self, out: bytearray, message: Message) -> None:
        """All of it but the payload."""
        seq = message.dot >> ORIGIN_BITS
        put(out, message.dot & ORIGIN_MASK)
        put(out, seq)
        if self._run_span is not None and not self._hops and _is_run(message):
            out += _RUN
        else:
            self._put_stamp(out, message.context, seq)
        put(out, len(message.dest))
        for member in message.dest:
            put(out, member)
        put(out, len(message.payload))

    def decode(self, data: bytes) -> Packet:
        """A checked packet, or `PeerError`."""
        end = len(data) - 4
        if end < 2:
            raise PeerError(f"a packet of {len(data)} bytes")
        if crc32(data) != RESIDUE:
            raise PeerError("a packet whose checksum does not match")
        if data[0] != VERSION:
            raise PeerError(f"a packet of protocol version {data[0]}; this is version {VERSION}")
        if self._dots and data[1] == MESSAGE:
            message = self._quickly(data, end)
            if message is not None:
                return message
        reader = Reader(data, 2, end)
        packet = self._body(data[1], reader)
        if reader.at != end:
            raise PeerError(f"{end - reader.at} bytes too many in a packet")
        if isinstance(packet, Message):
            packet.wire = data
        return packet

    def _quickly(self, data: bytes, end: int) -> Message | None:
        """What `_take_message` makes of nearly all messages, in half the time: without calls for integers of
        one byte. None: it is one of the others."""
        try:
            origin, at = data[2], 3
            if origin > 0x7F:
                origin, at = take_long(data, at, origin)
            seq = data[at]
            at += 1
            if seq > 0x7F:
                if data[at] > 0x7F and 0 < data[at + 1] < 0x80:  # three bytes, as most have
                    seq = seq & 0x7F | (data[at] & 0x7F) << 7 | data[at + 1] << 14
                    at += 2
                else:
                    seq, at = take_long(data, at, seq)
            if (only := _only_dot(data[at : at + 4])) is not None:
                member = only[0]
                counter = seq + only[1]
                if counter < 1 or counter >= MAX_SEQ or (member == origin and counter >= seq):
                    return None
                context: tuple[int, ...] = (counter << ORIGIN_BITS | member,)
                at += 3
            else:
                head = data[at]
                at += 1
                if head & 1 or head > 0x7F:
                    return None
                dots, member = [], -1
                for _ in range(head >> 1):
                    gap, folded = data[at], data[at + 1]
                    at += 2
                    if gap > 0x7F:
                        return None
                    if folded > 0x7F:
                        folded, at = take_long(data, at, folded)
                    member += gap + 1
                    counter = seq - (folded + 1 >> 1) if folded & 1 else seq + (folded >> 1)
                    if counter < 1 or counter >= MAX_SEQ or (member == origin and counter >= seq):
                        return None
                    dots.append(counter << ORIGIN_BITS | member)
                context = tuple(sorted(dots))
            if data[at]:
                return None
            length = data[at + 1]
            at += 2
            if length > 0x7F:
                length, at = take_long(data, at, length)
        except IndexError:
            return None
        if at + length != end or origin >= self._size or member >= self._size or not 0 < seq < MAX_SEQ:
            return None
        payload = data[at:end]
        span = 1 if self._span is None else self._span(payload)
        if span != 1:
            checked_span(span, seq)
        message = Message(seq << ORIGIN_BITS | origin, context, payload, (), span)
        message.wire = data
        return message

    def _body(self, kind: int, reader: Reader) -> Packet:
        if kind == MESSAGE:
            return self._take_message(reader)
        if kind == ADDRESSED_RUN and self._hops and self._run_span is not None:
            return self._take_message(reader, addressed_run=True)
        if kind == BATCH:
            return Batch(self._take_messages(reader))
        if kind == ACK:
            received = take_counters(reader, 0, self._size)
            if len(received) != (0 if self._hops else self._size):
                raise PeerError(f"an acknowledgement for {len(received)} members of {self._size}")
            return Ack(received, take_dots_list(reader, self._size))
        if kind == PHANTOM:
            asks = reader.take()
            if asks > 1:
                raise PeerError("a phantom that neither asks nor tells")
            take = take_dots if self._hops else self._take_stamp
            return Phantom(take(reader, 0, self._stamp_size), asks == 1)
        if kind >= FIRST:
            return take_body(kind, reader, self._size, self._take_messages)
        raise PeerError(f"a packet of kind {kind}")

    def _take_messages(self, reader: Reader) -> tuple[Message, ...]:
        count = reader.take()
        if count > reader.end - reader.at:
            raise PeerError(f"{count} messages in {reader.end - reader.at} bytes")
        messages = []
        for _ in range(count):
            length = reader.take()
            if length > reader.end - reader.at:
                raise PeerError("a packet ends too early")
            inner = Reader(reader.data, reader.at, reader.at + length)
            messages.append(self._take_message(inner))
            if inner.at != inner.end:
                raise PeerError(f"{inner.end - inner.at} bytes too many in a message")
            reader.at = inner.at
        return tuple(messages)

    def _take_message(self, reader: Reader, addressed_run: bool = False) -> Message:
        origin = checked_member(reader.take(), self._size)
        seq = checked_counter(reader.take())
        dot = pack(origin, seq)
        marked = (
            self._run_span is not None and not self._hops and reader.data[reader.at : reader.at + 1] == _RUN
        )
        context = () if marked else self._take_stamp(reader, seq, self._stamp_size)
        reader.at += marked
        if self._dots:
            for p in context:
                if p & ORIGIN_MASK == origin and p >= dot:
                    raise PeerError("a message that follows from itself")
        elif self._vectors and (origin >= len(context) or context[origin] != seq):
            raise PeerError("a message whose vector does not count it")
        count = reader.take()
        if count > self._size:
            raise PeerError(f"a message to {count} members of {self._size}")
        dest = tuple([checked_member(reader.take(), self._size) for _ in range(count)])
        payload = reader.take_bytes(reader.take())
        span_of = self._run_span if marked or addressed_run else self._span
        span = 1 if span_of is None else checked_span(span_of(payload), seq)
        if (marked or addressed_run) and span == 1:
            raise PeerError("a run of one operation")
        return Message(dot, context, payload, dest, span)


def checked_span(span: int, seq: int) -> int:
    if not 1 <= span <= seq:
        raise PeerError(f"message {seq} holds {span} operations")
    return span
