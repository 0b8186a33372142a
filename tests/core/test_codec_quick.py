"""Differential: the quick ways to decode and encode messages and flows against the thorough ones."""

from binascii import crc32

from hypothesis import given, settings
from hypothesis import strategies as st

from thence.core import group_codec
from thence.core.codec import Codec
from thence.core.dots import pack
from thence.core.errors import PeerError
from thence.core.groups import Flow
from thence.core.message import Message
from thence.core.varint import MAX_SEQ, Reader

SIZE = 200
CODEC = Codec(SIZE, stamps_are_dots=True)


def thorough(data: bytes) -> tuple[int, tuple[int, ...], bytes, tuple[int, ...]] | None:
    reader = Reader(data, 2, len(data) - 4)
    try:
        message = CODEC._take_message(reader)
    except PeerError:
        return None
    if reader.at != reader.end:
        return None
    return message.dot, message.context, message.payload, message.dest


def quick(data: bytes) -> tuple[int, tuple[int, ...], bytes, tuple[int, ...]] | None:
    try:
        message = CODEC.decode(data)
    except PeerError:
        return None
    assert isinstance(message, Message)
    return message.dot, message.context, message.payload, message.dest


def packet(body: bytes) -> bytes:
    whole = b"\x01\x00" + body
    return whole + crc32(whole).to_bytes(4, "little")


@settings(max_examples=500)
@given(st.binary(max_size=40))
def test_any_bytes_mean_the_same_either_way(body: bytes) -> None:
    data = packet(body)
    assert quick(data) == thorough(data)


counters = st.one_of(st.integers(1, 200), st.integers(1, MAX_SEQ - 1))


@settings(max_examples=500)
@given(
    st.integers(0, SIZE - 1),
    counters,
    st.dictionaries(st.integers(0, SIZE - 1), counters, max_size=80),
    st.binary(max_size=300),
    st.lists(st.integers(0, SIZE - 1), max_size=3),
    st.lists(st.tuples(st.integers(0, 500), st.integers(0, 255)), max_size=2),
)
def test_messages_and_broken_messages_mean_the_same_either_way(
    origin: int,
    seq: int,
    context: dict[int, int],
    payload: bytes,
    dest: list[int],
    breaks: list[tuple[int, int]],
) -> None:
    dots = tuple(sorted([pack(member, counter) for member, counter in context.items() if member != origin]))
    body = bytearray()
    CODEC.put_message(body, Message(pack(origin, seq), dots, payload, tuple(dest)))
    if not breaks:
        assert quick(packet(bytes(body))) == (pack(origin, seq), dots, payload, tuple(dest))
    for at, byte in breaks:
        body[at % len(body)] = byte
    data = packet(bytes(body))
    assert quick(data) == thorough(data)


@settings(max_examples=500)
@given(
    st.integers(0, SIZE - 1),
    counters,
    st.dictionaries(st.integers(0, SIZE - 1), counters, max_size=4),
    st.binary(max_size=300),
    st.lists(st.integers(0, SIZE - 1), max_size=1),
)
def test_a_message_has_the_same_bytes_either_way(
    origin: int, seq: int, context: dict[int, int], payload: bytes, dest: list[int]
) -> None:
    dots = tuple(sorted([pack(member, counter) for member, counter in context.items()]))
    message, body = Message(pack(origin, seq), dots, payload, tuple(dest)), bytearray()
    CODEC.put_message(body, message)
    assert CODEC.encode(message) == packet(bytes(body)) == message.wire


numbers = st.one_of(st.integers(0, 300), st.integers(0, 1 << 40))


@settings(max_examples=300)
@given(
    numbers,
    numbers,
    st.lists(st.sampled_from(["a", "b~2", "a-longer-name"]), max_size=2),
    st.lists(st.one_of(st.binary(max_size=300), st.integers(100, 20_000).map(bytes)), max_size=3),
    st.lists(st.tuples(st.integers(0, 500), st.integers(0, 255)), max_size=2),
    st.integers(0, 20),
)
def test_a_flow_means_the_same_either_way(
    stream: int, first: int, names: list[str], bodies: list[bytes], breaks: list[tuple[int, int]], cut: int
) -> None:
    flow = Flow(stream, first, tuple(names), tuple(bodies))
    data = bytearray(group_codec.encode(flow))
    assert group_codec._take_any_flow(bytes(data)) == flow
    for at, byte in breaks:
        data[2 + at % (len(data) - 2)] = byte
    broken = bytes(data[: len(data) - cut if cut < len(data) - 8 else None])
    try:
        thoroughly = group_codec._take_any_flow(broken)
    except PeerError:
        thoroughly = None
    try:
        assert group_codec._take_flow(broken) == thoroughly
    except PeerError:
        assert thoroughly is None
