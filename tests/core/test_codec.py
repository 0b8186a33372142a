"""Format: packets as bytes. Round trips, sizes, and nothing but PeerError for garbage."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.conformance_codec import (
    CLOCK_LIES,
    CODEC_CHECKS,
    ENTRIES,
    GOOD,
    LIES,
    SIZE,
    VARINT_CHECKS,
    VECTOR_LIES,
    facts,
    sealed,
)

from thence.core import varint
from thence.core.codec import Codec
from thence.core.dots import pack
from thence.core.errors import PeerError
from thence.core.machine import Ack, Batch, Packet, Phantom
from thence.core.message import Message

DOTS = Codec(SIZE, stamps_are_dots=True)
COUNTERS = Codec(SIZE, stamps_are_dots=False)
CLOCKS = Codec(SIZE, stamps_are_dots=False, entries=ENTRIES)

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
@given(members, seqs, st.lists(st.integers(0, 2**43 - 1), min_size=ENTRIES, max_size=ENTRIES), payloads)
def test_clocks_come_back_as_they_went(origin: int, seq: int, clock: list[int], payload: bytes) -> None:
    message = Message(pack(origin, seq), tuple(clock), payload)
    for packet in (message, Batch((message, message)), Phantom(message.context, False)):
        assert facts(CLOCKS.decode(CLOCKS.encode(packet))) == facts(packet)


@settings(derandomize=True, deadline=None)
@given(st.lists(st.integers(0, 10**6), min_size=SIZE, max_size=SIZE), st.lists(st.tuples(members, seqs)))
def test_acks_come_back_as_they_went(received: list[int], early: list[tuple[int, int]]) -> None:
    ack = Ack(tuple(received), tuple(pack(member, seq) for member, seq in early))
    assert facts(DOTS.decode(DOTS.encode(ack))) == facts(ack)


@pytest.mark.parametrize("lie", LIES)
def test_lies_are_the_peers_error(lie: str) -> None:
    with pytest.raises(PeerError):
        DOTS.decode(LIES[lie])


@pytest.mark.parametrize("lie", VECTOR_LIES)
def test_lies_about_vectors_are_the_peers_error(lie: str) -> None:
    with pytest.raises(PeerError):
        COUNTERS.decode(sealed(VECTOR_LIES[lie]))


@pytest.mark.parametrize("lie", CLOCK_LIES)
def test_lies_about_clocks_are_the_peers_error(lie: str) -> None:
    with pytest.raises(PeerError):
        CLOCKS.decode(sealed(CLOCK_LIES[lie]))


@pytest.mark.parametrize("check", CODEC_CHECKS)
def test_codec_conforms(check: str) -> None:
    CODEC_CHECKS[check](Codec)


@pytest.mark.parametrize("check", VARINT_CHECKS)
def test_integers_conform(check: str) -> None:
    VARINT_CHECKS[check](varint)


@pytest.mark.parametrize("codec", [DOTS, COUNTERS, CLOCKS], ids=["dots", "counters", "clocks"])
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
