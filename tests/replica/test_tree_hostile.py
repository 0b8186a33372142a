"""Nothing that a peer can send over a tree raises anything but what costs it its link."""

from random import Random
from typing import Any

import pytest
from support.conformance_trees_live import alone

from thence.core.codec import Codec
from thence.core.dots import pack
from thence.core.errors import PeerError
from thence.core.machine import Ack, Batch, Packet, Phantom
from thence.core.message import Message
from thence.core.overlay import (
    Accept,
    Announce,
    Disconnect,
    ForwardJoin,
    Graft,
    Join,
    More,
    Neighbour,
    Ping,
    Pong,
    Prune,
    Pull,
    Refuse,
    Resync,
    Shuffle,
    ShuffleReply,
    StatePiece,
    Sync,
    Tree,
)
from thence.core.storage import ForgottenError
from thence.replica import tree

SIZE = 3
NUMBERS = (0, 1, 2, 3, 7, 1 << 32, (1 << 32) + 9, (1 << 43) - 1)


class Liar:
    """Well-formed packets with anything in them."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def number(self) -> int:
        return self.random.choice(NUMBERS)

    def node(self) -> int:
        return self.random.randrange(SIZE)

    def clock(self) -> tuple[int, ...]:
        return tuple([self.number() for _ in range(SIZE)])

    def dots(self) -> tuple[int, ...]:
        return tuple(
            sorted({pack(self.node(), max(1, self.number())) for _ in range(self.random.randrange(3))})
        )

    def message(self) -> Message:
        dot = pack(self.node(), self.random.choice((1, 2, 3, max(1, self.number()))))
        return Message(dot, self.dots(), b"x" * self.random.randrange(3))

    def messages(self) -> tuple[Message, ...]:
        return tuple([self.message() for _ in range(self.random.randrange(4))])

    def packet(self) -> Packet:
        nodes = tuple([self.node() for _ in range(self.random.randrange(3))])
        kinds = (
            lambda: Join(),
            lambda: ForwardJoin(self.node(), self.random.randrange(6)),
            lambda: Neighbour(self.random.random() < 0.5),
            lambda: Accept(),
            lambda: Refuse(),
            lambda: Disconnect(self.random.randrange(2), self.node()),
            lambda: Shuffle(self.node(), self.random.randrange(6), nodes),
            lambda: ShuffleReply(nodes),
            lambda: Tree(self.number(), self.number()),
            lambda: Announce(self.number(), self.number()),
            lambda: Graft(self.number(), self.clock()),
            lambda: Graft(1, (0, self.number(), self.number())),
            lambda: Prune(self.number()),
            lambda: Resync(),
            lambda: Sync(
                self.random.choice((0, 1, self.number())), self.messages(), self.random.random() < 0.5
            ),
            lambda: More(),
            lambda: Ping(self.number()),
            lambda: Pong(self.number()),
            lambda: Pull(self.clock()),
            lambda: StatePiece(1, self.clock(), self.random.randrange(3), self.random.randrange(3), b"state"),
            lambda: Ack(self.clock(), ()),
            lambda: Batch(self.messages()),
            lambda: Phantom(self.dots(), True),
            self.message,
        )
        return self.random.choice(kinds)()


def wired(packet: Packet) -> Packet | None:
    """As it comes out of a frame; None: it does not."""
    codec = Codec(SIZE, True)
    try:
        return codec.decode(codec.encode(packet))
    except (PeerError, ValueError, IndexError, OverflowError):
        return None


def hears(replica: Any, seed: int, steps: int = 120) -> int:
    liar, now, sent = Liar(seed), 0, 0
    for _ in range(steps):
        now += liar.random.choice((0, 1_000, 700_000))
        if liar.random.random() < 0.1:
            replica.submit(b"own", now)
            replica.commit(now)
            replica.flush(now)
        packet = wired(liar.packet())
        if packet is None:
            continue
        peer = liar.random.choice((1, 2))
        sent += 1
        try:
            replica.receive(peer, packet, now)
        except (PeerError, ForgottenError):  # its link is cut, and it comes again
            replica.down(peer, now)
            replica.up(peer, now)
            replica.receive(peer, Neighbour(True), now)
        replica.wake(now)
        replica.commit(now)
    return sent


@pytest.mark.parametrize("seed", range(40))
def test_a_node_over_a_tree_survives_whatever_peers_say(seed: int) -> None:
    assert hears(alone(tree), seed) > 60
