"""Nothing that a peer can send over a tree raises anything but what costs it its link."""

from random import Random

import pytest
from support.conformance_trees_live import Process

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
    Naming,
    Neighbour,
    Ping,
    Places,
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
from thence.replica.open_tree import OpenTree
from thence.replica.tree import CODEC

SIZE = 3
WHERE = ("", "127.0.0.1:1", "nowhere", "[::1]:x")
NUMBERS = (0, 1, 2, 3, 7, 1 << 32, (1 << 32) + 9, (1 << 43) - 1)


class Liar:
    """Well-formed packets with anything in them."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def number(self) -> int:
        return self.random.choice(NUMBERS)

    def node(self) -> int:
        return self.random.randrange(SIZE)

    def name(self) -> str:
        return self.random.choice(("a", "b", "c", "c~2", "b~2", "b~x", "~", "a b", "", "ä" * 9))

    def clock(self) -> tuple[int, ...]:
        return tuple([self.number() for _ in range(SIZE)])

    def dots(self) -> tuple[int, ...]:
        return tuple(
            sorted({pack(self.node(), max(1, self.number())) for _ in range(self.random.randrange(3))})
        )

    def message(self) -> Message:
        dot = pack(self.node(), self.random.choice((1, 2, 3, max(1, self.number()))))
        context = self.dots() if self.random.random() < 0.1 else ()
        return Message(dot, context, b"x" * self.random.randrange(3))

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
            lambda: Naming(self.node(), tuple([self.name() for _ in nodes])),
            lambda: Places(tuple([(node, self.name(), self.random.choice(WHERE)) for node in nodes])),
            lambda: Ack(self.clock(), ()),
            lambda: Batch(self.messages()),
            lambda: Phantom(self.dots(), True),
            self.message,
        )
        return self.random.choice(kinds)()


def wired(packet: Packet) -> Packet | None:
    """As it comes out of a frame; None: it does not."""
    try:
        return CODEC.decode(CODEC.encode(packet))
    except (PeerError, ValueError, IndexError, OverflowError):
        return None


def hears(node: Process, seed: int, steps: int = 150) -> int:
    liar, now, sent, machine = Liar(seed), 0, 0, node.one
    for _ in range(steps):
        now += liar.random.choice((0, 1_000, 700_000))
        if liar.random.random() < 0.1 and machine.refuses is None:
            machine.broadcast([b"own"], now)
        packet = wired(liar.packet())
        if packet is None:
            continue
        sent += 1
        try:
            machine.receive("a", packet, now)
        except PeerError:  # its link is cut, and it comes again
            machine.link_down("a", now)
            node.linked()
        machine.wake(now)
        machine.take(9, now)
        for post in node.step():
            CODEC.encode(post)
        machine.tidy(now)
    return sent


@pytest.mark.parametrize("seed", range(40))
def test_a_node_over_a_tree_survives_whatever_peers_say(seed: int) -> None:
    assert hears(Process(OpenTree), seed) > 60
