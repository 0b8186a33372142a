"""Packets of an edge tree as bytes: all kinds come back, garbage is refused, a header never grows."""

from random import Random

import pytest

from thence.core.edge import (
    EdgeAttach,
    EdgeBeat,
    EdgeBye,
    EdgeDown,
    EdgeDrop,
    EdgeInvite,
    EdgeInvited,
    EdgeItem,
    EdgeNames,
    EdgeOpened,
    EdgePacket,
    EdgePiece,
    EdgeRefused,
    EdgeRehome,
    EdgeReset,
    EdgeRun,
    EdgeState,
    EdgeStatus,
    EdgeUp,
    EdgeWant,
)
from thence.core.edge_codec import decode, encode
from thence.core.errors import PeerError
from thence.core.runs import run_payload

ITEM = EdgeItem(3, 1, 70, 2, b"payload")
PACKETS: list[EdgePacket] = [
    EdgeUp(1, 1, (EdgeNames(("a", "g")), ITEM, EdgeBeat(4), EdgeWant(9, ("g",), True), EdgeDrop(("h",)))),
    EdgeUp(2, 300, (EdgeRehome("b~2"),)),
    EdgeUp(2, 301, (EdgeRun(3, 1, 70, 2, run_payload([b"one", b"two"])),)),
    EdgeDown(1, 2, (EdgeStatus(("p", "q"), (3, -1), (2, 1), 0, -1), ITEM, EdgeInvite("x", 7))),
    EdgeDown(1, 3, (EdgeState(9, ("g",), (("a", "g", 5),), (b"state",)),)),
    EdgeAttach("c", "p", 4, 2, ("g",), (("a", "g", 5),), (("a", "h", 6),), ("p", "q")),
    EdgeOpened("p", 4, 1, (("a", "g", 5),), True, ("p",)),
    EdgeUp(2, 302, (EdgePiece(3, b"part"),)),
    EdgeRefused(1),
    EdgeReset(1, True),
    EdgeInvited("p", 3),
    EdgeBye(8),
]


@pytest.mark.parametrize("packet", PACKETS, ids=lambda packet: type(packet).__name__)
def test_a_packet_comes_back_as_it_was(packet: EdgePacket) -> None:
    assert decode(encode(packet)) == packet


def test_garbage_is_the_peers_fault() -> None:
    random = Random(1)
    for packet in PACKETS:
        data = bytearray(encode(packet))
        for _ in range(200):
            worse = bytearray(data)
            worse[random.randrange(len(worse))] ^= 1 << random.randrange(8)
            with pytest.raises(PeerError):
                decode(bytes(worse[: random.randrange(len(worse) + 1)]))


def test_bodies_that_make_no_sense_are_refused() -> None:
    run = EdgeRun(*ITEM)
    for item in (
        *(ITEM._replace(number=0), ITEM._replace(back=0), ITEM._replace(back=71)),
        run._replace(back=0), run._replace(back=71),
    ):  # fmt: skip
        with pytest.raises(PeerError):
            decode(encode(EdgeUp(1, 1, (item,))))


@pytest.mark.parametrize("name", ["a b", "a\n", "\x00"])
def test_names_that_no_log_would_take_are_refused(name: str) -> None:
    with pytest.raises(PeerError):
        decode(encode(EdgeUp(1, 1, (EdgeNames((name,)),))))


@pytest.mark.parametrize("nodes", [2, 10_000, 1 << 20])
@pytest.mark.parametrize("groups", [1, 10_000, 1 << 20])
@pytest.mark.parametrize("number", [1, 1 << 20, 1 << 42])
def test_the_header_of_a_message_has_28_bytes_at_most(nodes: int, groups: int, number: int) -> None:
    """Alone in its packet, without payload, its length and the checksum. δ and the past are not in it."""
    item = EdgeItem(nodes - 1, groups - 1, number, min(number, 1 << 20), b"")
    packet = EdgeUp((1 << 28) - 1, (1 << 28) - 1, (item,))
    assert len(encode(packet)) - 4 - 1 <= 28
