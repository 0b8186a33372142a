"""Nothing that a peer can send on an edge tree raises anything but what costs it its link, neither at once
nor when the node reads its log again."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from support.edges import Grove
from support.lies import NUMBERS, LyingMember
from support.schedules_edge import LINE

from thence.core.edge import (
    EdgeAttach,
    EdgeBeat,
    EdgeBody,
    EdgeBye,
    EdgeDown,
    EdgeDrop,
    EdgeHome,
    EdgeInvite,
    EdgeInvited,
    EdgeItem,
    EdgeNames,
    EdgeOpened,
    EdgePacket,
    EdgePiece,
    EdgePlaces,
    EdgeRefused,
    EdgeRehome,
    EdgeReset,
    EdgeRun,
    EdgeState,
    EdgeStatus,
    EdgeUp,
    EdgeWant,
)
from thence.core.edge_codec import pieces_of
from thence.core.errors import PeerError
from thence.core.runs import run_payload
from thence.replica.edge import EdgeMachine
from thence.replica.edge_parts import addressed
from thence.sim.edge import SimEdgeProgram
from thence.spread.edge_tree import EdgeStream

MEMBERS = {"g": ["c", "x"], "h": ["b", "c"]}
NAMES = ("r", "a", "b", "c", "x", "b~2", "c~3", "y", "b~x", "~", "a b", "", "ä" * 9, "n" * 300)
GROUPS = ("g", "h", "i", "", "a b", "n" * 300)
PLACES = ("at a", "", "127.0.0.1:1", "nowhere", "[::1]:x")


class EdgeLiar:
    """Well-formed packets with anything in them, in the sessions that there are."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def number(self) -> int:
        return self.random.choice(NUMBERS)

    def near(self, true: int) -> int:
        """What a correct peer would say, or something else."""
        return true if self.random.random() < 0.9 else self.number()

    def name(self) -> str:
        return self.random.choice(NAMES)

    def some(self, one: Callable[[], Any], most: int = 4) -> tuple[Any, ...]:
        return tuple([one() for _ in range(self.random.randrange(most))])

    def group(self) -> str:
        return self.random.choice(GROUPS)

    def count(self) -> tuple[str, str, int]:
        return self.name(), self.group(), self.number()

    def payload(self) -> bytes:
        return self.random.choice(
            (b"", b"x", run_payload([b"1", b"2"]), run_payload([b""] * 9)[:-1], b"\0" * 9)
        )

    def body(self, known: int) -> EdgeBody:
        """`known`: how many names the session has."""
        random = self.random

        def index() -> int:
            return random.randrange(known + 2)

        kinds: tuple[Callable[[], EdgeBody], ...] = (
            lambda: EdgeItem(index(), index(), self.number(), self.number(), self.payload()),
            lambda: EdgeRun(index(), index(), self.number(), self.number(), self.payload()),
            lambda: EdgeNames(self.some(self.name)),
            lambda: EdgeNames(self.some(self.group)),
            lambda: EdgeStatus(
                self.some(self.name), self.some(self.number), self.some(self.number), self.number(),
                self.number(),
            ),
            lambda: EdgeBeat(self.number()),
            lambda: EdgeWant(self.number(), self.some(self.group), random.random() < 0.5),
            lambda: EdgeState(
                self.number(), self.some(self.group), self.some(self.count), self.some(self.payload)
            ),
            lambda: EdgeState(self.near(1), ("g",), self.some(self.count), (b"[]",)),
            lambda: EdgeInvite(self.name(), self.number()),
            lambda: EdgeDrop(self.some(self.group)),
            lambda: EdgeRehome(self.name()),
            lambda: EdgeHome(self.name()),
            lambda: EdgePlaces(self.some(lambda: random.choice((self.name(), random.choice(PLACES))), 5)),
            lambda: EdgePiece(self.number(), self.payload()),
        )  # fmt: skip
        return random.choice(kinds)()

    def bodies(self, stream: EdgeStream) -> tuple[EdgeBody, ...]:
        found = self.some(lambda: self.body(len(stream.heard_names)))
        if found and self.random.random() < 0.1:
            return tuple(pieces_of(found[0], 7))
        return found

    def packet(self, node: EdgeMachine, peer: str) -> EdgePacket:
        random, tree = self.random, node.tree
        streams: list[tuple[type[EdgeUp | EdgeDown], EdgeStream]] = [
            (EdgeUp, child) for child in tree.children.values() if child.peer == peer
        ]
        if tree.parent is not None and tree.parent.peer == peer:
            streams.append((EdgeDown, tree.parent))
        if streams and random.random() < 0.8:
            kind, stream = random.choice(streams)
            return kind(self.near(stream.session), self.near(stream.got + 1), self.bodies(stream))
        target = tree.target
        session = self.number() if target is None else self.near(target[1])
        kinds: tuple[Callable[[], EdgePacket], ...] = (
            lambda: EdgeAttach(
                random.choice((peer, f"{peer}~2", self.name())), random.choice((node.me, "", self.name())),
                self.number(), self.number(), self.some(self.group), self.some(self.count),
                self.some(self.count), self.some(self.name), random.choice(PLACES), random.choice(("", "a")),
            ),
            lambda: EdgeAttach(
                peer, node.me, self.number(), self.near(0), ("g",), (), (), self.some(self.name), f"at {peer}"
            ),
            lambda: EdgeOpened(
                random.choice((peer, self.name())), session, self.number(), self.some(self.count),
                random.random() < 0.5, self.some(self.name), random.choice(("r", "", self.name())),
            ),
            lambda: EdgeRefused(session),
            lambda: EdgeReset(self.number(), random.random() < 0.5),
            lambda: EdgeInvited(self.name(), self.number()),
            lambda: EdgeBye(self.number()),
        )  # fmt: skip
        return random.choice(kinds)()


def wired(node: EdgeMachine, packet: EdgePacket) -> EdgePacket | None:
    """As it comes out of a frame; None: it does not."""
    try:
        data = node.encode(packet)
    except (ValueError, OverflowError):
        return None
    try:
        return node.decode(data)
    except PeerError:
        return None


def hears(grove: Grove, name: str, liar: EdgeLiar, steps: int = 150) -> int:
    """One node of the grove, without the others, and what two neighbours and a guest say to it."""
    random, node, now, heard = liar.random, grove.node(name), grove.world.now, 0
    peers = sorted({"y", "a", "c", "r"} - {name})
    for peer in peers:
        node.link_up(peer, now)
    for _ in range(steps):
        now += random.choice((0, 1_000, 90_000, 500_000))
        if random.random() < 0.1 and node.refuses is None:
            node.broadcast([addressed("g", b"own")], now)
        peer = random.choice(peers)
        packet = wired(node, liar.packet(node, peer))
        if packet is None:
            continue
        heard += 1
        try:
            node.receive(peer, packet, now)
        except PeerError:  # its link is cut, and it comes again
            node.link_down(peer, now)
            node.link_up(peer, now)
        node.wake(now)
        node.take(9, now)
        node.commit(now)
        posts, _, _ = node.output()
        for _, post in posts:
            node.encode(post)
        if random.random() < 0.05:
            node.tidy(now)
            node.commit(now)
    return heard


@pytest.mark.parametrize("seed", range(60))
def test_a_node_of_an_edge_tree_survives_whatever_peers_say(seed: int) -> None:
    grove = Grove(LINE, 1 + seed % 2, MEMBERS)
    grove.send("x", "g")
    grove.send("c", "h")
    grove.run(200)
    name = ("b", "a", "c", "r")[seed % 4]
    assert hears(grove, name, EdgeLiar(Random(seed))) > 60
    grove.crash(name)
    grove.world.boot(name)
    assert grove.node(name).me == name


def betrayed(seed: int) -> tuple[Grove, LyingMember]:
    random = Random(seed)
    grove = Grove(LINE, 1 + seed % 2, MEMBERS)
    liar = ("a", "b", "c", "r")[seed % 4]
    traitor = LyingMember(grove.world, liar, random, (*NAMES, *GROUPS))
    honest = sorted(LINE.keys() - {liar})
    for _ in range(60):
        what, name = random.random(), random.choice(sorted(LINE))
        if what < 0.7:
            grove.send(name, random.choice(("g", "h")))
        elif what < 0.75:
            grove.world.crash(name)
            grove.world.boot(name)
        elif what < 0.8 and name != "r":
            grove.world.join(name, "h")
        grove.run(random.randrange(300))
    assert all(grove.world.processes[name].node is not None for name in honest)
    return grove, traitor


@pytest.mark.parametrize("seed", range(40))
def test_a_node_that_lies_breaks_no_other(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it says is believed or costs it its link: nothing is promised of what the others deliver then."""
    monkeypatch.setattr(SimEdgeProgram, "checks", False)
    grove, traitor = betrayed(seed)
    assert traitor.lies > 0
    for name in LINE:
        grove.world.crash(name)
    for name in LINE:
        grove.world.boot(name)
        assert grove.node(name).log is not None
