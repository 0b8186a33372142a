"""What bytes on the wire must pass: everything comes back as it went, small, and lies are found out.

Checks of packets are functions of the `Codec` class, those of integers of the module that writes them.
"""

from collections.abc import Callable
from random import Random
from typing import Any
from zlib import crc32

from thence.core.codec import Codec
from thence.core.dots import pack
from thence.core.errors import PeerError
from thence.core.machine import Ack, Batch, Packet, Phantom
from thence.core.message import Message

CodecCheck = Callable[[type[Codec]], None]
VarintCheck = Callable[[Any], None]

SIZE = 200


def facts(packet: Packet) -> object:
    """All that a packet says, for comparing."""
    if isinstance(packet, Message):
        return (packet.dot, packet.context, packet.payload, packet.dest)
    if isinstance(packet, Ack):
        return ("ack", packet.received, packet.early)
    if isinstance(packet, Phantom):
        return ("phantom", packet.context, packet.asks)
    assert isinstance(packet, Batch), "the others have a kit of their own"
    return ("batch", [facts(message) for message in packet.messages])


def sealed(body: bytes) -> bytes:
    """With the right checksum."""
    return body + crc32(body).to_bytes(4, "little")


GOOD = Codec(SIZE, stamps_are_dots=True).encode(
    Message(pack(3, 7), (pack(1, 5), pack(3, 6)), b"payload", (1, 2))
)

LIES = {
    "empty": b"",
    "too short": b"\x01",
    "nothing but a checksum": sealed(b""),
    "a version and a checksum": sealed(b"\x01"),
    "checksum": GOOD[:-1] + bytes([GOOD[-1] ^ 1]),
    "another version": sealed(b"\x02" + GOOD[1:-4]),
    "unknown kind": sealed(b"\x01\x09"),
    "leftover bytes": sealed(GOOD[:-4] + b"\x00"),
    "cut short": sealed(GOOD[:-6]),
    "no such member": sealed(b"\x01\x00" + b"\xc8\x01" + b"\x01\x00\x00\x00"),
    "counter zero": sealed(b"\x01\x00\x03\x00\x00\x00\x00"),
    "counter too large": sealed(b"\x01\x00\x03\xff\xff\xff\xff\xff\xff\xff\x7f\x00\x00\x00"),
    "context names the message itself": sealed(b"\x01\x00\x03\x07\x02\x03\x00\x00\x00"),
    "context with counter zero": sealed(b"\x01\x00\x03\x01\x02\x01\x01\x00\x00"),
    "context names a stranger": sealed(b"\x01\x00\x03\x07\x02\xc8\x01\x00\x00\x00"),
    "context longer than the group": sealed(b"\x01\x00\x03\x07\xa0\x06\x00\x00"),
    "bitmap that names more than it says": sealed(b"\x01\x00\x03\x07\x03\x01\x07\x00\x00\x00\x00"),
    "bitmap that names fewer than it says": sealed(b"\x01\x00\x03\x07\x07\x01\x01\x00\x00\x00\x00"),
    "bitmap that names a stranger": sealed(
        b"\x01\x00\x03\x07\x03\x1a" + b"\x00" * 25 + b"\x01\x00\x00\x00\x00"
    ),
    "packed counters wider than any counter": sealed(
        b"\x01\x00\x03\x07\x03\x01\x01\x00\x40" + b"\x00" * 8 + b"\x00\x00"
    ),
    "bits behind the packed counters": sealed(b"\x01\x00\x03\x07\x03\x01\x01\x00\x01\x80\x00\x00"),
    "addressed to a stranger": sealed(b"\x01\x00\x03\x07\x00\x01\xc8\x01\x00"),
    "addressed to more than there are": sealed(b"\x01\x00\x03\x07\x00\xc9\x01" + b"\x00" * 202),
    "integer padded with zeros": sealed(b"\x01\x00\x83\x00\x07\x00\x00\x00"),
    "endless integer": sealed(b"\x01\x00" + b"\xff" * 12),
    "payload longer than the packet": sealed(b"\x01\x00\x03\x07\x00\x00\x7f"),
    "batch of nothing that claims millions": sealed(b"\x01\x03\xff\xff\xff\x7f"),
    "batch with a message too short": sealed(b"\x01\x03\x01\x06\x03\x07\x00\x00\x00\x00"),
    "batch with a message inside a message": sealed(
        b"\x01\x03\x02\x0b\x03\x07\x00\x00\x00\x05\x03\x08\x00\x00\x00"
    ),
    "batch with a message too long": sealed(b"\x01\x03\x01\x05\x03\x07\x00\x00"),
    "ack for another group": sealed(b"\x01\x01\x02\x00\x00\x00"),
    "ack with an early stranger": sealed(b"\x01\x01\xc8\x01" + b"\x00" * 200 + b"\x01\xc8\x01\x01"),
    "ack with an early nothing": sealed(b"\x01\x01\xc8\x01" + b"\x00" * 200 + b"\x01\x01\x00"),
    "ack with millions that came early": sealed(b"\x01\x01\xc8\x01" + b"\x00" * 200 + b"\xff\xff\xff\x7f"),
    "ack below nothing": sealed(b"\x01\x01\xc8\x01\x01" + b"\x00" * 200),
    "phantom that neither asks nor tells": sealed(b"\x01\x02\x02\x00"),
}
"""What no correct peer of a group of `SIZE` sends, where stamps are dots."""

VECTOR_LIES = {
    "a vector that does not count its message": b"\x01\x00\x01\x05\x02\x03\x01\x00\x00",
    "a vector that ends before its message": b"\x01\x00\x01\x05\x01\x00\x00\x00",
    "no vector at all": b"\x01\x00\x01\x05\x00\x00\x00",
    "a counter below nothing": b"\x01\x00\x01\x05\x02\x0b\x00\x00\x00",
    "a vector longer than two of the group": b"\x01\x00\x01\x05\x91\x03" + b"\x00" * 403,
}
"""The same where stamps are vectors; checksums are still to be added."""

ENTRIES = 4
"""Of a clock that members share."""

CLOCK_LIES = {
    "a clock with an entry too few": b"\x01\x00\x01\x05\x07\x00\x00\x00\x00",
    "a clock with an entry too many": b"\x01\x00\x01\x05\x0b\x00\x00\x00\x00",
    "a plain clock with an entry too many": b"\x01\x00\x01\x05\x0a" + b"\x00" * 7,
    "a clock of more entries than there is memory": b"\x01\x00\x01\x05" + b"\xff" * 8 + b"\x7f" + b"\x00" * 4,
    "a packed entry below nothing": b"\x01\x00\x01\x05\x09\x0b\x00\x00\x00",
    "a plain entry below nothing": b"\x01\x00\x01\x05\x08\x00\x00\x0b\x00\x00\x00",
    "an entry beyond any counter": b"\x01\x00\x01\x05\x09\x00\x2b" + b"\xff" * 21 + b"\x0f\x00\x00",
    "entries wider than any counter": b"\x01\x00\x01\x05\x09\x00\x40" + b"\x00" * 34,
    "bits behind the entries": b"\x01\x00\x01\x05\x09\x00\x01\x10\x00\x00",
    "a clock that ends too early": b"\x01\x00\x01\x05\x09\x00\x10\x00\x00",
    "a phantom with an entry too few": b"\x01\x02\x00\x07\x00\x00",
}
"""The same where stamps are clocks of `ENTRIES`."""


def messages(seed: int, dots: bool) -> list[Message]:
    """Few origins and many, close counters and far ones."""
    rng = Random(seed)
    made = []
    for _ in range(60):
        origin, seq = rng.randrange(SIZE), rng.choice((1, 2, 300, 2**43 - 1))
        near = [max(1, min(2**43 - 1, seq + rng.randint(-70, 70))) for _ in range(SIZE)]
        if dots:
            others = rng.sample([m for m in range(SIZE) if m != origin], rng.choice((0, 1, 3, 60, SIZE - 1)))
            context = tuple(sorted(pack(member, near[member]) for member in others))
        else:
            near[origin] = seq
            context = tuple(near)
        dest = tuple(rng.sample(range(SIZE), rng.choice((0, 2))))
        made.append(Message(pack(origin, seq), context, rng.randbytes(rng.choice((0, 5, 200))), dest))
    return made


def check_round_trips(make: type[Codec]) -> None:
    for dots in (True, False):
        codec = make(SIZE, dots)
        sent = messages(1, dots)
        packets: list[Packet] = [*sent, Batch(tuple(sent[:7])), Batch(())]
        packets += [Phantom(message.context, asks) for message in sent for asks in (False, True)]
        packets.append(Ack(tuple(range(SIZE)), ()))
        packets.append(Ack((0,) * SIZE, (pack(3, 9), pack(3, 11), pack(SIZE - 1, 1))))
        for packet in packets:
            assert facts(codec.decode(codec.encode(packet))) == facts(packet), f"changed: {facts(packet)}"
    check_clocks(make)


def check_clocks(make: type[Codec]) -> None:
    """Clocks that are young, old, or have entries far ahead, at both ends of what a counter may be."""
    rng = Random(2)
    for entries in (1, 4, 100):
        codec = make(SIZE, False, entries=entries)
        for base, spread in ((0, 0), (0, 1), (1, 40), (1000, 900), (2**43 - 1, 300), (2**42, 2**42 - 1)):
            stamp = [min(max(0, base + rng.randint(-spread, spread)), 2**43 - 1) for _ in range(entries)]
            for outlier in (stamp[0], 2**43 - 1):
                stamp[0] = outlier
                sent = Message(pack(7, rng.randint(1, base + 1)), tuple(stamp), b"x")
                for packet in (sent, Batch((sent, sent)), Phantom(sent.context, False)):
                    assert facts(codec.decode(codec.encode(packet))) == facts(packet), (
                        f"changed: {facts(packet)}"
                    )


def check_sizes(make: type[Codec]) -> None:
    """A dot near the message's own counter costs two bytes, or a little more than one in a crowd; a
    counter of a vector one."""
    codec = make(SIZE, True)

    def stamp(members: range) -> int:
        context = tuple(sorted(pack(member, 10**6 + member % 50) for member in members))
        bare = len(codec.encode(Message(pack(199, 10**6), (), b"")))
        return len(codec.encode(Message(pack(199, 10**6), context, b""))) - bare

    assert stamp(range(0, 200, 40)) == 10, f"size: {stamp(range(0, 200, 40))} bytes for five dots"
    assert stamp(range(100)) <= 6 * 100 // 8 + 100 // 8 + 6, f"size: {stamp(range(100))} bytes for a hundred"
    vector = Message(pack(1, 10**6), tuple([10**6] * SIZE), b"")
    size = len(make(SIZE, False).encode(vector))
    assert size <= SIZE + 20, f"size: {size} bytes for a vector"
    clocks = make(SIZE, False, entries=100)
    near = tuple(10**6 + entry % 32 for entry in range(100))
    size = len(clocks.encode(Message(pack(1, 10**6), near, b"")))
    assert size <= 5 * 100 // 8 + 20, f"size: {size} bytes for a clock"
    size = len(clocks.encode(Message(pack(1, 10**6), (10**9, *near[1:]), b"")))
    assert size <= 100 + 24, f"size: {size} bytes for a clock with an entry far ahead"


def check_lies(make: type[Codec]) -> None:
    lies = [(what, make(SIZE, True), data) for what, data in LIES.items()]
    lies += [(what, make(SIZE, False), sealed(data)) for what, data in VECTOR_LIES.items()]
    lies += [(what, make(SIZE, False, entries=ENTRIES), sealed(data)) for what, data in CLOCK_LIES.items()]
    for what, codec, data in lies:
        try:
            codec.decode(data)
        except PeerError:
            continue
        raise AssertionError(f"garbage: {what}, and it was believed")


CODEC_CHECKS: dict[str, CodecCheck] = {
    "round trips": check_round_trips,
    "sizes": check_sizes,
    "lies": check_lies,
}

NUMBERS = sorted({sign * (2**power + more) for power in range(63) for more in (-1, 0, 1) for sign in (1, -1)})


def check_integers(module: Any) -> None:
    """Every integer comes back, in as few bytes as it needs."""
    for number in NUMBERS:
        out = bytearray()
        module.put_signed(out, number)
        folded = 2 * abs(number) - (number < 0)
        assert len(out) == max(1, -(-folded.bit_length() // 7)), f"size: {len(out)} bytes for {number}"
        reader = module.Reader(bytes(out), 0, len(out))
        assert reader.take_signed() == number, f"changed: {number}"
        assert reader.at == len(out), "changed: not all was read"


def check_ends(module: Any) -> None:
    """Nothing is read past the end that was given, whatever lies behind it."""
    cases: list[tuple[bytes, Callable[[Any], object]]] = [
        (b"", lambda reader: reader.take()),
        (b"\x80", lambda reader: reader.take()),
        (b"\x05\x05", lambda reader: reader.take_bytes(3)),
    ]
    for data, read in cases:
        reader = module.Reader(data + b"\x01\x01\x01\x01", 0, len(data))
        try:
            read(reader)
        except PeerError:
            continue
        raise AssertionError("garbage: read past the end")
    reader = module.Reader(b"\x05\x06\x07", 0, 3)
    assert (reader.take_bytes(2), reader.at, reader.take()) == (b"\x05\x06", 2, 7), "changed: bytes"


def check_integer_lies(module: Any) -> None:
    for what, data in {
        "padded with zeros": b"\x83\x00",
        "too long": b"\xff" * 11 + b"\x01",
        "more than 64 bits": b"\xff" * 9 + b"\x7f",
    }.items():
        try:
            module.Reader(data, 0, len(data)).take()
        except PeerError:
            continue
        raise AssertionError(f"garbage: an integer that is {what}")


VARINT_CHECKS: dict[str, VarintCheck] = {
    "integers": check_integers,
    "ends": check_ends,
    "lies": check_integer_lies,
}
