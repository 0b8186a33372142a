"""Format: packets of overlays as bytes, and what a receiver refuses."""

import json
from pathlib import Path
from random import Random
from types import NoneType
from zlib import crc32

import pytest

from thence.core.codec import Codec
from thence.core.codec_overlay import FIRST, KINDS
from thence.core.dots import pack
from thence.core.errors import PeerError
from thence.core.groups import Fragment, FragmentReceipt
from thence.core.message import Message
from thence.core.overlay import (
    LEAVING,
    REPLACED,
    Accept,
    Announce,
    Disconnect,
    ForwardJoin,
    Graft,
    Join,
    More,
    Naming,
    Neighbour,
    OverlayPacket,
    Ping,
    Places,
    Pong,
    Prune,
    Pull,
    Refuse,
    Resync,
    Rumour,
    Shared,
    Shuffle,
    ShuffleReply,
    StatePiece,
    Sync,
    Tree,
)

SIZE = 300
CLOCK = (0, 7, 0, 1 << 30) + (0,) * (SIZE - 4)
FULL = tuple(range(1, SIZE + 1))

PACKETS: list[OverlayPacket] = [
    Join(), ForwardJoin(299, 6), Neighbour(True), Neighbour(False), Accept(), Refuse(),
    Disconnect(REPLACED, 4), Disconnect(LEAVING, 0), Shuffle(3, 2, (1, 2, 200)), Shuffle(3, 0, ()),
    ShuffleReply((9,)), Tree(0, 1), Announce(299, 1 << 40), Graft(1, CLOCK), Graft(9, FULL), Prune(2),
    Resync(), Sync(0, (), True), Sync(70, (), False), More(), Pull((0,) * SIZE),
    StatePiece(1, CLOCK, 0, 1, b""),
    Ping(1 << 50), Pong(0), Tree(7 << 20 | 299, 3), StatePiece(300, FULL, 2, 3, b"state"),
    Naming(0, ()), Naming(300, ("a", "ä~2")), Places(((0, "a", "127.0.0.1:1"), (300, "b", ""))), Places(()),
    Shared(100, 4), Rumour(pack(299, 1 << 40), bytes(range(100)), (1 << 32) - 1, b"x"),
    Rumour(pack(0, 1), b"", 0, b""), Fragment(0, 1 << 20, 1 << 26, b"some"), FragmentReceipt(0, 1 << 40),
]  # fmt: skip


def sealed(kind: int, body: bytes) -> bytes:
    out = bytes((1, kind)) + body
    return out + crc32(out).to_bytes(4, "little")


@pytest.mark.parametrize("packet", PACKETS, ids=str)
def test_a_packet_comes_back_as_it_was(packet: OverlayPacket) -> None:
    codec = Codec(SIZE, stamps_are_dots=True)
    again = codec.decode(codec.encode(packet))
    assert again == packet
    assert type(again) is type(packet)


def test_every_kind_is_tried() -> None:
    assert {type(packet) for packet in PACKETS} == set(KINDS) - {NoneType}


def test_messages_of_a_synchronisation_come_back_in_order() -> None:
    codec = Codec(SIZE, stamps_are_dots=True)
    sent = Sync(3, (Message(pack(7, 2), (), b"x"), Message(pack(2, 9), (pack(7, 2),), b"")), False)
    again = codec.decode(codec.encode(sent))
    assert isinstance(again, Sync)
    assert not again.last
    assert [(m.dot, m.context, m.payload) for m in again.messages] == [
        (m.dot, m.context, m.payload) for m in sent.messages
    ]


def test_a_clock_costs_nothing_for_members_that_have_sent_nothing() -> None:
    codec = Codec(SIZE, stamps_are_dots=True)
    assert len(codec.encode(Pull((0,) * SIZE))) == 7
    assert len(codec.encode(Pull(CLOCK))) < 16


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (FIRST + len(KINDS), b""),
        (FIRST + KINDS.index(Join), b"\0"),
        (FIRST + KINDS.index(ForwardJoin), bytes((1, 65))),
        (FIRST + KINDS.index(ForwardJoin), bytes((0xFF, 0x7F, 1))),
        (FIRST + KINDS.index(Neighbour), b"\2"),
        (FIRST + KINDS.index(Disconnect), b"\2\0"),
        (FIRST + KINDS.index(Tree), b"\0\0"),
        (FIRST + KINDS.index(Graft), b"\0\0"),
        (FIRST + KINDS.index(Pull), b"\1\0"),
        (FIRST + KINDS.index(Pull), bytes((0xAD, 0x02)) + b"\1" * 301),
        (FIRST + KINDS.index(Shuffle), bytes((0, 1, 9, 1))),
        (FIRST + KINDS.index(Sync), b"\0\5\0"),
        (FIRST + KINDS.index(StatePiece), b"\0\0\1\1\0"),
        (FIRST + KINDS.index(NoneType), b""),
        (FIRST + KINDS.index(Naming), b"\0\2\1a"),
        (FIRST + KINDS.index(Naming), b"\0\1\1\xff"),
        (FIRST + KINDS.index(Naming), b"\0\1\x80\2" + b"a" * 256),
        (FIRST + KINDS.index(Places), b"\1\0\1a"),
    ],
)
def test_what_no_correct_peer_sends_is_refused(kind: int, body: bytes) -> None:
    with pytest.raises(PeerError):
        Codec(SIZE, stamps_are_dots=True).decode(sealed(kind, body))


def test_noise_raises_nothing_but_peer_errors() -> None:
    random = Random(1)
    codec = Codec(SIZE, stamps_are_dots=True)
    for _ in range(20_000):
        body = random.randbytes(random.randrange(12))
        try:
            codec.decode(sealed(FIRST + random.randrange(len(KINDS) + 1), body))
        except PeerError:
            continue


GOLDEN = Path(__file__).parent / "golden" / "overlay_v1.json"


def test_packets_are_what_they_were() -> None:
    """Nodes of two versions speak to each other: a byte that changes needs another kind or version."""
    small = Codec(4, stamps_are_dots=True)
    message = Message(pack(1, 2), (pack(0, 3),), b"payload")
    packets: list[OverlayPacket] = [
        Join(), ForwardJoin(3, 6), Neighbour(True), Accept(), Refuse(), Disconnect(REPLACED, 2),
        Shuffle(3, 2, (1, 2)), ShuffleReply((1,)), Tree(0, 17), Announce(0, 17), Graft(3, (1, 0, 2, 0)),
        Prune(4), Resync(), Sync(3, (message,), True), More(), Pull((1, 0, 2, 0)),
        StatePiece(3, (1, 0, 2, 0), 0, 2, b"state"), Ping(1 << 40), Pong(7), Naming(2, ("c", "d~2")),
        Places(((0, "a", "127.0.0.1:1"), (3, "ä", ""))), Shared(100, 4),
        Rumour(pack(1, 2), b"\x01\xff", 7, b"payload"), Fragment(0, 7, 20, b"some"), FragmentReceipt(0, 300),
    ]  # fmt: skip
    assert {type(packet) for packet in packets} == set(KINDS) - {NoneType}, "a kind without a golden packet"
    said = {type(packet).__name__: small.encode(packet).hex() for packet in packets}
    assert said == json.loads(GOLDEN.read_text())
