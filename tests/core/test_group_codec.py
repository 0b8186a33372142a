"""Format: packets of a changing group as bytes. Round trips, and nothing but PeerError for garbage."""

from contextlib import suppress
from random import Random
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from thence.core.errors import PeerError
from thence.core.group_codec import DATA, FAREWELL, VERSION, decode, encode
from thence.core.groups import (
    CARRY,
    NOBODY_YET,
    Data,
    Extent,
    Farewell,
    Flow,
    GroupPacket,
    JoinRequest,
    NamedMessage,
    Notice,
    Offer,
    Piece,
    Receipt,
    Running,
    incarnation,
    number_of,
    process_of,
)

members = st.builds(incarnation, st.sampled_from(["a", "b", "näme", "10.0.0.1:7"]), st.integers(1, 2**40))
seqs = st.integers(1, 2**43 - 1)
optional = st.one_of(st.just(""), members)
running = st.builds(Running, members.map(process_of), optional, optional, st.integers(0, 2**40))
names = st.lists(members, max_size=5).map(tuple)
spans = st.builds(
    lambda process, low, more: (process, low, low + more),
    members.map(process_of),
    st.integers(1, 2**40),
    st.integers(0, 9),
)


extents = st.builds(
    Extent,
    st.dictionaries(members, st.integers(0, 2**43), max_size=6),
    st.lists(spans, max_size=3).map(tuple),
    st.lists(st.tuples(members, seqs), max_size=5).map(tuple),
)


@st.composite
def messages(draw: st.DrawFn) -> NamedMessage:
    origin, seq = draw(members), draw(seqs)
    context = draw(st.dictionaries(members, seqs, max_size=6))
    context.pop(origin, None)
    payload = bytes([draw(st.integers(0, CARRY))]) + draw(st.binary(max_size=20))
    return NamedMessage(origin, seq, tuple(sorted(context.items())), payload)


packets: st.SearchStrategy[GroupPacket] = st.one_of(
    st.builds(Data, members, members, st.lists(messages(), max_size=4).map(tuple)),
    st.builds(
        Receipt,
        members,
        st.dictionaries(members, st.integers(0, 2**43), max_size=6),
        names,
        names,
        running,
        optional,
        st.integers(0, 2**40),
        names,
        st.lists(spans, max_size=3).map(tuple),
        st.integers(0, 2**60),
        optional,
    ),
    st.builds(
        JoinRequest,
        members,
        optional,
        st.tuples(st.integers(0, 2), st.integers(-99, 0), optional, optional),
        running,
        st.integers(0, 2**56),
        st.integers(0, 2**40),
        st.text(max_size=9),
        st.integers(0, 2**40),
        st.none() | extents,
    ),
    st.builds(Offer, members, members),
    st.builds(
        lambda c, j, t, o, d: Piece(c, j, t, o, o + len(d), d), members, members, seqs, seqs, st.binary()
    ),
    st.builds(Notice, members, members, names, st.integers(0, 2**43)),
    st.builds(Farewell, members, members, st.integers(0, 2**43)),
)


flows = st.builds(
    Flow, seqs, st.integers(0, 2**20), names, st.lists(st.binary(max_size=300), max_size=4).map(tuple)
)


@settings(derandomize=True, deadline=None)
@given(flows, st.integers(0, 2**30))
def test_what_flows_comes_back_as_it_went_and_never_in_part(flow: Flow, cut: int) -> None:
    """Messages bring their own checksums; the rest has one."""
    data = encode(flow)
    assert decode(data) == flow
    head = len(encode(replace(flow, bodies=())))
    spoilt = bytearray(data)
    spoilt[2 + cut % (head - 2)] ^= 1
    with pytest.raises(PeerError):
        decode(bytes(spoilt))
    with suppress(PeerError):
        assert decode(data[: cut % len(data)]) == replace(
            flow,
            bodies=flow.bodies[: len(decode(data[: cut % len(data)]).bodies)],  # type: ignore[union-attr]
        )


@settings(derandomize=True, deadline=None)
@given(packets)
def test_packets_come_back_as_they_went(packet: GroupPacket) -> None:
    assert decode(encode(packet)) == packet


@settings(derandomize=True, deadline=None)
@given(packets, st.randoms(use_true_random=False))
def test_a_packet_that_was_changed_is_refused(packet: GroupPacket, random: Random) -> None:
    data = bytearray(encode(packet))
    data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    with pytest.raises(PeerError):
        decode(bytes(data))


@settings(derandomize=True, deadline=None)
@given(packets, st.integers(0, 200), st.binary(max_size=3))
def test_a_sealed_packet_that_makes_no_sense_is_a_peers_error(
    packet: GroupPacket, at: int, junk: bytes
) -> None:
    """The checksum is right: the sender meant this."""
    data = encode(packet)[:-4]
    at = min(2 + at, len(data))
    sealed = data[:at] + junk + data[at + len(junk) :]
    with suppress(PeerError):
        decode(sealed + crc32(sealed).to_bytes(4, "little"))


def sealed(kind: int, body: bytes) -> bytes:
    data = bytes((VERSION, kind)) + body
    return data + crc32(data).to_bytes(4, "little")


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (99, b"\x00"),
        (FAREWELL, b"\x01\x01a\x01\x00\x00"),  # one name where two are due
        (FAREWELL, b"\x01\x01a\x02\x00\x01\x00"),  # a name that is not in the table
        (FAREWELL, b"\x01\x00\x02\x00\x00\x00"),  # an empty name
        (FAREWELL, b"\x01\x02a \x02\x00\x00\x00"),  # white space
        (FAREWELL, b"\x01\x02~2\x02\x00\x00\x00"),  # an incarnation without a process
        (FAREWELL, b"\x01\x03a~x\x02\x00\x00\x00"),  # no number
        (FAREWELL, b"\x01\x01a\x02\x00\x00\x00\x00"),  # a byte too many
        (DATA, b"\x01\x01a\x02\x00\x00\x01\x00\x00\x00\x01\x00"),  # a counter of zero
        (DATA, b"\x01\x01a\x02\x00\x00\x01\x00\x01\x00\x01\x09"),  # a message of an unknown kind
        (DATA, b"\x01\x01a\x02\x00\x00\x01\x00\x02\x01\x00\x02\x01\x00"),  # follows from itself
        (DATA, b"\x01\x01a\x02\x00\x00\x7f"),  # more messages than bytes
    ],
)
def test_lies_are_refused(kind: int, body: bytes) -> None:
    with pytest.raises(PeerError):
        decode(sealed(kind, body))


def test_the_first_incarnation_is_named_like_its_process() -> None:
    assert [incarnation("b", number) for number in (1, 2, 10)] == ["b", "b~2", "b~10"]
    assert [(process_of(name), number_of(name)) for name in ("b", "b~2")] == [("b", 1), ("b", 2)]
    assert NOBODY_YET > (1, -1, "a", "a") > (0, -1, "z", "z") > (0, -2, "z", "z")
