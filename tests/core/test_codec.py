"""Format: packets as bytes. Round trips, sizes, and nothing but PeerError for garbage."""

from random import Random
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thence.core.codec import Codec
from thence.core.dots import pack
from thence.core.errors import PeerError
from thence.core.machine import Ack, Batch, Packet, Phantom
from thence.core.message import Message

SIZE = 200
DOTS = Codec(SIZE, stamps_are_dots=True)
COUNTERS = Codec(SIZE, stamps_are_dots=False)

members = st.integers(0, SIZE - 1)
seqs = st.one_of(st.integers(1, 300), st.integers(1, 2**43 - 1))
payloads = st.binary(max_size=40)


@st.composite
def dot_messages(draw: st.DrawFn) -> Message:
    origin, seq = draw(members), draw(seqs)
    others = draw(st.dictionaries(members, seqs, max_size=60))
    others.pop(origin, None)
    context = tuple(sorted(pack(member, other) for member, other in others.items()))
    if seq > 1 and draw(st.booleans()):
        context = tuple(sorted((*context, pack(origin, seq - 1))))
    dest = tuple(draw(st.lists(members, max_size=5)))
    return Message(pack(origin, seq), context, draw(payloads), dest)


@st.composite
def counter_messages(draw: st.DrawFn) -> Message:
    size = draw(st.integers(1, 20))
    origin, seq = draw(st.integers(0, size - 1)), draw(seqs)
    vector = draw(st.lists(st.integers(0, 2**43 - 1), min_size=size, max_size=size))
    vector[origin] = seq
    return Message(pack(origin, seq), tuple(vector), draw(payloads))


def facts(packet: Packet) -> object:
    if isinstance(packet, Message):
        return (packet.dot, packet.context, packet.payload, packet.dest)
    if isinstance(packet, Ack):
        return ("ack", packet.received, packet.early)
    if isinstance(packet, Phantom):
        return ("phantom", packet.context, packet.asks)
    return ("batch", [facts(message) for message in packet.messages])


@settings(derandomize=True, deadline=None)
@given(st.lists(dot_messages(), max_size=5))
def test_dots_come_back_as_they_went(messages: list[Message]) -> None:
    packets: list[Packet] = [*messages, Batch(tuple(messages))]
    packets += [Phantom(message.context, True) for message in messages]
    for packet in packets:
        assert facts(DOTS.decode(DOTS.encode(packet))) == facts(packet)


@settings(derandomize=True, deadline=None)
@given(counter_messages())
def test_vectors_come_back_as_they_went(message: Message) -> None:
    for packet in (message, Batch((message, message)), Phantom(message.context, False)):
        assert facts(COUNTERS.decode(COUNTERS.encode(packet))) == facts(packet)


@settings(derandomize=True, deadline=None)
@given(st.lists(st.integers(0, 10**6), min_size=SIZE, max_size=SIZE), st.lists(st.tuples(members, seqs)))
def test_acks_come_back_as_they_went(received: list[int], early: list[tuple[int, int]]) -> None:
    ack = Ack(tuple(received), tuple(pack(member, seq) for member, seq in early))
    assert facts(DOTS.decode(DOTS.encode(ack))) == facts(ack)


def test_a_dot_costs_two_bytes_and_many_cost_less() -> None:
    def stamp(members: range) -> int:
        context = tuple(sorted(pack(member, 10**6 + member % 50) for member in members))
        without = len(DOTS.encode(Message(pack(199, 10**6), (), b"")))
        return len(DOTS.encode(Message(pack(199, 10**6), context, b""))) - without

    assert stamp(range(0, 200, 40)) == 10
    assert stamp(range(100)) <= 100 + 100 // 8 + 4


def sealed(body: bytes) -> bytes:
    return body + crc32(body).to_bytes(4, "little")


GOOD = DOTS.encode(Message(pack(3, 7), (pack(1, 5), pack(3, 6)), b"payload"))

LIES = {
    "empty": b"",
    "too short": b"\x01",
    "checksum": GOOD[:-1] + bytes([GOOD[-1] ^ 1]),
    "another version": sealed(b"\x02" + GOOD[1:-4]),
    "unknown kind": sealed(b"\x01\x09"),
    "leftover bytes": sealed(GOOD[:-4] + b"\x00"),
    "cut short": sealed(GOOD[:-6]),
    "no such member": sealed(b"\x01\x00" + b"\xc8\x01" + b"\x01\x00\x00\x00"),
    "counter zero": sealed(b"\x01\x00\x03\x00\x00\x00\x00"),
    "context names the message itself": sealed(b"\x01\x00\x03\x07\x02\x03\x00\x00\x00"),
    "context with counter zero": sealed(b"\x01\x00\x03\x01\x02\x01\x01\x00\x00"),
    "context longer than the group": sealed(b"\x01\x00\x03\x07\xa0\x06\x00\x00"),
    "bitmap with another count": sealed(b"\x01\x00\x03\x07\x07\x01\x01\x00\x00\x00\x00\x00"),
    "integer padded with zeros": sealed(b"\x01\x00\x83\x00\x07\x00\x00\x00"),
    "endless integer": sealed(b"\x01\x00" + b"\xff" * 12),
    "payload longer than the packet": sealed(b"\x01\x00\x03\x07\x00\x00\x7f"),
    "batch of nothing that claims millions": sealed(b"\x01\x03\xff\xff\xff\x7f"),
    "ack for another group": sealed(b"\x01\x01\x02\x00\x00\x00"),
    "phantom that neither asks nor tells": sealed(b"\x01\x02\x02\x00"),
}


@pytest.mark.parametrize("lie", LIES)
def test_lies_are_the_peers_error(lie: str) -> None:
    with pytest.raises(PeerError):
        DOTS.decode(LIES[lie])


def test_a_vector_that_does_not_count_its_message_is_a_lie() -> None:
    with pytest.raises(PeerError):
        COUNTERS.decode(COUNTERS.encode(Message(pack(1, 5), (3, 4), b"")))


@pytest.mark.parametrize("codec", [DOTS, COUNTERS], ids=["dots", "counters"])
def test_garbage_never_raises_anything_else(codec: Codec) -> None:
    """Random bytes with a right checksum, and good packets with a few bytes changed."""
    random = Random(1)
    for _ in range(3000):
        body = bytes([1, random.randrange(5)]) + random.randbytes(random.randrange(30))
        if random.random() < 0.5:
            changed = bytearray(GOOD[:-4])
            changed[random.randrange(1, len(changed))] = random.randrange(256)
            body = bytes(changed)
        try:
            packet = codec.decode(sealed(body))
        except PeerError:
            continue
        assert facts(codec.decode(codec.encode(packet))) == facts(packet)
