"""Frames: whatever way the bytes are cut into reads, the same frames come out; limits hold."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thence.core.errors import InvariantError, PeerError
from thence.runtime.frames import HEAD, PING, Framer, join, link_frame, take_frame

PACKETS = st.lists(st.binary(max_size=40).map(lambda body: b"\x01\x00" + body), max_size=20)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:stop] for start, stop in pairwise(edges)]


@given(PACKETS, st.lists(st.integers(0, 1 << 20), max_size=30))
def test_reads_may_end_anywhere(packets: list[bytes], places: list[int]) -> None:
    framer = Framer()
    got = [packet for read in cut(join(packets), places) for packet in framer.feed(read)]
    assert got == packets
    assert framer.kept_bytes == 0


def test_byte_by_byte_is_the_same_as_all_at_once() -> None:
    packets = [b"\x01\x00" + bytes([n]) * n for n in range(50)]
    framer = Framer()
    got = [packet for byte in join(packets) for packet in framer.feed(bytes([byte]))]
    assert got == packets


def test_a_read_is_handed_over_as_one_list_of_bytes() -> None:
    packets = [b"\x01\x00a", b"\x01\x7fb"]
    got = Framer().feed(join(packets))
    assert got == packets
    assert all(type(packet) is bytes for packet in got)


def test_frames_of_the_link_are_kept_apart() -> None:
    framer = Framer()
    ping = link_frame(PING)
    data = join([ping, b"\x01\x00", ping])
    assert framer.feed(data[:3]) == []
    assert framer.feed(data[3:]) == [b"\x01\x00"]
    assert framer.own == [ping, ping]


@pytest.mark.parametrize("length", [0, 1, 101, 0xFFFFFFFF])
@pytest.mark.parametrize("pieces", [1, 2])
def test_a_length_that_is_not_allowed_ends_the_stream_at_once(length: int, pieces: int) -> None:
    """The announcement alone is enough: nothing is waited for or allocated."""
    head = length.to_bytes(4, "little")
    framer = Framer(most=100)
    if pieces == 2:
        framer.feed(head[:1])
    with pytest.raises(PeerError, match="frame of"):
        framer.feed(head[1:] if pieces == 2 else head)


def test_the_longest_frame_allowed_comes_through() -> None:
    packet = bytes(2) + bytes(98)
    data = join([packet])
    framer = Framer(most=100)
    assert framer.feed(data[:50]) == []
    assert framer.feed(data[50:]) == [packet]


def test_what_is_kept_is_what_has_arrived_and_not_what_is_announced() -> None:
    framer = Framer()
    framer.feed((16 << 20).to_bytes(4, "little") + b"\x01\x00")
    assert framer.kept_bytes == HEAD + 2


def test_a_long_frame_leaves_no_memory_behind() -> None:
    framer = Framer()
    data = join([bytes(1 << 20)])
    framer.feed(data[:-1])
    assert framer.feed(data[-1:] + b"\x05") == [bytes(1 << 20)]
    assert framer.kept_bytes == 1


def test_our_own_frame_that_is_too_long_is_our_own_bug() -> None:
    with pytest.raises(InvariantError):
        join([bytes(10), bytes(101)], most=100)
    assert len(join([bytes(60), bytes(60)], most=100)) == 128


def test_a_handshake_takes_one_frame_at_a_time() -> None:
    buffer = bytearray(join([b"\x01\x80a", b"\x01\x81b"]) + b"\x09")
    assert take_frame(buffer, 100) == b"\x01\x80a"
    assert take_frame(buffer, 100) == b"\x01\x81b"
    assert take_frame(buffer, 100) is None
    assert buffer == b"\x09"


def test_a_handshake_has_a_limit_of_its_own() -> None:
    with pytest.raises(PeerError, match="limit"):
        take_frame(bytearray((101).to_bytes(4, "little")), 100)
