"""Nothing that a peer can send over a tree, or by gossip, raises anything but what costs it its link; nor
does it make a node hold without end what waits for its causes."""

from io import BytesIO
from random import Random
from typing import Any

import pytest
from support.conformance_trees_live import SECOND, Process, made_run
from support.traces import read

from thence.check.oracle import judge
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
    Rumour,
    Shared,
    Shuffle,
    ShuffleReply,
    StatePiece,
    Sync,
    Tree,
)
from thence.replica import tree_order
from thence.replica.open_tree import OpenTree
from thence.replica.tree_order import HELD_BYTES, HELD_MOST, Clocked
from thence.sim.overlay_scenarios import configure
from thence.spread.gossip import GossipSettings

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


class GossipLiar(Liar):
    """Its messages have clocks, near those of a young group mostly, and it tells rumours."""

    def __init__(self, seed: int, entries: int) -> None:
        super().__init__(seed)
        self.entries = entries

    def message(self) -> Message:
        plain = super().message()
        most = self.random.choice((3, 20, 300, 1 << 40))
        stamp = tuple([self.random.randrange(most) for _ in range(self.entries)])
        stamp = stamp[1:] if self.random.random() < 0.05 else stamp
        return Message(plain.dot, stamp, plain.payload)

    def packet(self) -> Packet:
        told = self.random.random()
        if told < 0.2:
            return self.message()
        if told < 0.3:
            low = self.random.randbytes(self.entries)
            return Rumour(self.message().dot, low, self.random.randrange(1 << 32), b"x")
        if told < 0.4:
            return Sync(0, self.messages(), self.random.random() < 0.8)
        if told < 0.42:
            return Shared(self.random.randrange(4), 1)
        return super().packet()


def wired(machine: OpenTree, packet: Packet) -> Packet | None:
    """As it comes out of a frame; None: it does not."""
    try:
        return machine.decode(machine.encode(packet))
    except (PeerError, ValueError, IndexError, OverflowError):
        return None


def hears(node: Process, liar: Liar, steps: int = 150) -> int:
    now, sent, machine = 0, 0, node.one
    for _ in range(steps):
        now += liar.random.choice((0, 1_000, 700_000))
        if liar.random.random() < 0.1 and machine.refuses is None:
            machine.broadcast([b"own"], now)
        packet = wired(machine, liar.packet())
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
            machine.encode(post)
        machine.tidy(now)
    return sent


@pytest.mark.parametrize("seed", range(40))
def test_a_node_over_a_tree_survives_whatever_peers_say(seed: int) -> None:
    assert hears(Process(OpenTree), Liar(seed)) > 60


GOSSIP: dict[str, Any] = {"spread": "gossip", "order": "probabilistic", "entries": 3, "keys": 1}


@pytest.mark.parametrize("seed", range(40))
def test_a_node_that_gossips_survives_whatever_peers_say(seed: int) -> None:
    assert hears(Process(OpenTree, **GOSSIP), GossipLiar(seed, 3), 300) > 120


CLOCKED_TREE: dict[str, Any] = {**GOSSIP, "spread": "sync-tree"}


@pytest.mark.parametrize("seed", range(40))
def test_a_node_over_a_tree_with_clocks_holds_nothing_whatever_peers_say(seed: int) -> None:
    node = Process(OpenTree, **CLOCKED_TREE)
    assert hears(node, GossipLiar(seed, 3), 300) > 120
    assert node.one.replica.order.waiting == 0


@pytest.mark.parametrize("wrapped", [False, True], ids=["as it comes", "in a piece"])
def test_over_a_tree_what_comes_before_its_causes_costs_the_link_and_nothing_else(wrapped: bool) -> None:
    """No correct peer sends it: a stream tells whatever a message follows from before it. It would wait for
    ever, since a stream brings nothing again."""
    node = Process(OpenTree, **CLOCKED_TREE)
    machine = node.one
    node.linked()
    sender, other = (Clocked(3, 1, 10, ["a", "b", "c"]) for _ in range(2))
    other.become(2)
    first = sender.tag([b"first"])
    other.took(first)
    answer = other.tag([b"answer"])
    machine.receive("a", Naming(2, ("c",)), 0)

    def told(*messages: Message) -> None:
        if wrapped:
            machine.receive("a", Sync(1, messages, True), 0)
        else:
            for message in messages:
                machine.receive("a", message, 0)

    machine.receive("a", Graft(1, (0, 0)), 0)
    machine.receive("a", Sync(1, (), True), 0)  # from here on its messages count
    for lies in ((answer,), (lie(0),), (first, lie(0, 2), answer)):
        with pytest.raises(PeerError, match="before what it follows from"):
            told(*lies if wrapped else lies[-1:])
        assert machine.replica.order.waiting == 0
        assert not any(machine.overlay.streams.clock), "nothing of it counts"
    told(first, answer)
    machine.take(9, 0)
    assert machine.delivered() == {"a": 1, "c": 1}


class Crowd:
    """b, which gossips with a, who lies, and with others."""

    def __init__(self, **gossip: Any) -> None:
        self.node = Process(OpenTree, **GOSSIP, gossip=GossipSettings(**gossip))
        self.machine = self.node.one
        self.node.linked()
        self.names = ["a", "b"]

    @property
    def held(self) -> int:
        return self.machine.replica.order.waiting

    def member(self) -> int:
        """a has heard of one more."""
        self.names.append(f"m{len(self.names)}")
        self.machine.receive("a", Naming(len(self.names) - 1, (self.names[-1],)), 0)
        return len(self.names) - 1

    def told(self, *messages: Message) -> list[Any]:
        self.machine.receive("a", Sync(0, messages, True), 0)
        self.machine.take(9, 0)
        return self.node.step()


def lie(member: int, seq: int = 1, size: int = 1) -> Message:
    """It waits for what was never sent."""
    return Message(pack(member, seq), (1000 + seq,) * 3, b"x" * size)


def test_what_a_liar_makes_a_node_hold_is_bounded_and_the_oldest_gives_way() -> None:
    crowd = Crowd()
    streams = crowd.machine.overlay.gossip
    assert streams is not None
    for turn in range(30):
        member = crowd.member() if turn % 3 else 0  # one that there is, and others that it has made up
        crowd.told(*[lie(member, turn * 100 + seq) for seq in range(1, 101)])
        assert crowd.held <= HELD_MOST
        beyond = sum(streams.clock) + len(streams._early)
        assert beyond == crowd.held, "what is let go is asked for again"
    assert crowd.held == HELD_MOST
    assert streams.has(pack(len(crowd.names) - 1, 2901 + 50))
    assert not streams.has(pack(0, 1))


def test_what_is_held_is_bounded_in_bytes() -> None:
    crowd = Crowd()
    for seq in range(1, 40):
        crowd.told(lie(0, seq, 1 << 20))
        assert crowd.machine.replica.order.waiting == min(seq, HELD_BYTES >> 20)


def test_a_crowded_node_takes_what_it_can_release_and_passes_nothing_else_on() -> None:
    crowd = Crowd()
    crowd.machine.link_up("c", 0)
    for packet in (Places(((0, "c", "at c"),)), Neighbour(True), Naming(0, ("c",))):
        crowd.machine.receive("c", packet, 0)
    crowd.node.step()
    member = crowd.member()
    assert any(isinstance(post, Rumour) for post in crowd.told(lie(member, 1)))
    crowd.told(*[lie(member, seq) for seq in range(2, HELD_MOST + 1)])
    assert crowd.held == HELD_MOST
    assert not any(isinstance(post, Rumour) for post in crowd.told(lie(member, HELD_MOST + 1)))
    one = Clocked(3, 1, 10, ["a"])
    right = one.tag([b"right"])
    assert any(isinstance(post, Rumour) for post in crowd.told(right))
    assert crowd.machine.delivered() == {"a": 1}
    assert crowd.held == HELD_MOST


@pytest.mark.parametrize("room", [0, 2])
@pytest.mark.parametrize("seed", range(4))
def test_nodes_that_hold_nothing_or_little_get_everything(
    seed: int, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer tells messages in the order of its sender's log: none has to wait."""
    monkeypatch.setattr(tree_order, "HELD_MOST", room)
    settings = configure(
        "tree-storm", spread="gossip", order="probabilistic", payload_bytes=8, seed=seed, entries=2, keys=1,
        interval_ms=50.0,
    )  # fmt: skip
    sink = BytesIO()
    run = made_run(settings, sink, "always", {})
    run.patience_us = 15 * SECOND
    outcome = run()
    assert outcome.complete, outcome.why
    sink.seek(0)
    [verdict] = judge(read(sink))
    assert not {kind for kind, count in verdict.violations.items() if count} - {"order"}
