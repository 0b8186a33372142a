"""What streams promise, whatever is built on them: `STREAM_CHECKS`, functions of the class `Streams`.

And what trees promise beyond that: `TREE_CHECKS`, functions of a maker of trees.
"""

from random import Random
from typing import Any

from support.grove import Grove, Make
from thence.core.dots import pack
from thence.core.errors import PeerError
from thence.core.history import History
from thence.core.machine import SpreadEffect, Transmit
from thence.core.message import Message
from thence.core.overlay import Announce, Graft, More, Prune, Resync, Sync, Tree
from thence.sim.overlay_history import MemoryHistory
from thence.spread.stream_link import StreamSettings

SECOND = 1_000_000


def puppets(streams: Any, branch_at_once: bool = True, settings: StreamSettings | None = None) -> Make:
    """Nodes over `streams` whose links a test makes branches or not; or that all are, as in a flood."""

    class Puppet(streams):  # type: ignore[misc]
        __slots__ = ()

        def _appeared(self, peer: int, effects: list[SpreadEffect], now: int) -> None:
            if branch_at_once:
                self._begin(peer, effects, now)

        def begin(self, peer: int, now: int) -> list[SpreadEffect]:
            effects: list[SpreadEffect] = []
            if peer in self._links:
                self._begin(peer, effects, now)
            return self._planned(effects, now)  # type: ignore[no-any-return]

        def prune(self, peer: int, now: int) -> list[SpreadEffect]:
            effects: list[SpreadEffect] = []
            if peer in self._links and self._links[peer].branch:
                self._prune(peer, effects, now)
            return self._planned(effects, now)  # type: ignore[no-any-return]

    def make(me: int, size: int, history: History) -> Puppet:
        return Puppet(me, size, history, settings)

    return make


def _ring(size: int) -> list[tuple[int, int]]:
    return [(node, (node + 1) % size) for node in range(size)]


def circles(streams: Any) -> None:
    """Section 3.5: also while branches form circles, everything comes once and in causal order."""
    for seed in range(6):
        random = Random(seed)
        grove = Grove(puppets(streams), 6)
        edges = [*_ring(6), (0, 3), (1, 4)]
        for a, b in edges:
            grove.latency[a, b] = grove.latency[b, a] = random.randrange(1_000, 90_000)
        grove.connect(edges)
        for _ in range(150):
            grove.run(random.randrange(30_000))
            grove.send(random.randrange(6))
        grove.run(5 * SECOND)
        grove.all_have_everything()


def weather(streams: Any) -> None:
    """Links come and go while messages are under way."""
    for seed in range(12):
        random = Random(seed)
        grove = Grove(puppets(streams), 5)
        edges = [*_ring(5), (0, 2)]
        there = dict.fromkeys(edges, True)
        grove.connect(edges)
        for _ in range(250):
            grove.run(random.randrange(25_000))
            grove.send(random.randrange(5))
            edge = random.choice(edges)
            if random.random() < 0.2:
                grove.down(*edge) if there[edge] else grove.up(*edge)
                there[edge] = not there[edge]
        grove.connect([edge for edge, is_up in there.items() if not is_up])
        grove.run(10 * SECOND)
        grove.all_have_everything()


def found_again(streams: Any) -> None:
    """Erratum 5: a link is lost with what was under way; one end has not noticed when it is back. The other
    one begins anew, and both must be heard."""
    for noticed in (0, 1):
        grove = Grove(puppets(streams, branch_at_once=False), 2)
        grove.up(0, 1)
        grove._act(0, grove.nodes[0].begin(1, grove.now))
        grove.run(SECOND)
        for _ in range(3):
            grove.send(0)
            grove.send(1)
            grove.run(2_000)
            grove.lost_by(noticed, 1 - noticed)
            grove.send(1 - noticed)
            grove.run(5_000)
            grove.up(0, 1)
            grove.run(50_000)
            grove._act(noticed, grove.nodes[noticed].begin(1 - noticed, grove.now))
            grove.run(SECOND)
        grove.send(0)
        grove.send(1)
        grove.run(SECOND)
        grove.all_have_everything()


def gap(streams: Any) -> None:
    """Erratum 1: a message that is not the next one is not dropped in silence; nor is what comes after it let
    through before the gap is filled, although it is the next one of its own origin."""
    grove = Grove(puppets(streams), 4)
    grove.connect([(0, 1), (1, 2), (2, 3)])
    grove.run(SECOND)
    doomed = [True]

    def lose(one: int, other: int, packet: object) -> bool:
        return doomed[0] and (one, other) == (1, 2) and isinstance(packet, Message)

    grove.lose = lose
    grove.send(0)
    grove.run(50_000)
    doomed[0] = False
    grove.send(0)
    grove.run(12_000)
    grove.send(1)  # arrives at node 2 right behind the gap, and follows from what is missing there
    grove.run(5 * SECOND)
    grove.all_have_everything()
    for node in (0, 3):
        grove.send(node)
    grove.run(SECOND)
    grove.all_have_everything()


def crossing(streams: Any) -> None:
    """Grafts and prunes cross each other; in the end both ends agree, and a branch works both ways."""
    for seed in range(60):
        random = Random(seed)
        grove = Grove(puppets(streams, branch_at_once=False), 2)
        grove.up(0, 1)
        for _ in range(random.randrange(1, 12)):
            node = random.randrange(2)
            change = grove.nodes[node].begin if random.random() < 0.6 else grove.nodes[node].prune
            grove._act(node, change(1 - node, grove.now))
            if random.random() < 0.5:
                grove.send(random.randrange(2))
            grove.run(random.choice((0, 0, 3_000, 10_000, 25_000)))
        grove.run(5 * SECOND)
        assert len(grove.branches()) in (0, 2), f"agree: {grove.branches()}"
        assert grove.live() == grove.branches(), f"agree: {grove.live()} of {grove.branches()}"
        grove._act(0, grove.nodes[0].begin(1, grove.now))
        grove.run(5 * SECOND)
        grove.send(0)
        grove.send(1)
        grove.run(SECOND)
        grove.all_have_everything()
        grove._act(1, grove.nodes[1].prune(0, grove.now))
        grove.run(SECOND)
        assert grove.branches() == set(), "agree: one end goes on"


def pieces(streams: Any) -> None:
    """A long past travels in pieces, no more of them under way than the window says."""
    settings = StreamSettings(piece_bytes=200, window=3)
    grove = Grove(puppets(streams, settings=settings), 3)
    for _ in range(300):
        grove.send(0)
    grove.up(0, 1)
    for _ in range(40):
        grove.run(20_000)
        grove.send(0)
    grove.run(30 * SECOND)
    grove.send(1)
    grove.up(1, 2)
    grove.run(60 * SECOND)
    grove.all_have_everything()
    under_way, most = 0, 0
    for _, one, other, packet in grove.sent:
        if isinstance(packet, Sync) and (one, other) == (0, 1):
            size = sum(len(message.payload) + 16 for message in packet.messages)
            assert size <= 200 + 200, f"window: a piece of {size} bytes"
            under_way += not packet.last
            most = max(most, under_way)
        elif isinstance(packet, More) and (one, other) == (1, 0):
            under_way -= 1
    assert 2 <= most <= 3, f"window: {most} pieces under way"


def choked(streams: Any) -> None:
    """A neighbour that takes no more is sent nothing until there is room, and then what came meanwhile, in
    order; what all have by then may be gone from the log."""
    grove = Grove(puppets(streams), 3)
    grove.connect([(0, 1), (1, 2)])
    grove.run(SECOND)
    for _ in range(5):
        grove.send(0)
    grove.run(SECOND)
    grove.nodes[1].hold(2)
    before = len(grove.sent)
    for _ in range(20):
        grove.send(0)
        grove.run(20_000)
    meanwhile = [packet for _, one, other, packet in grove.sent[before:] if (one, other) == (1, 2)]
    assert not [packet for packet in meanwhile if isinstance(packet, Message)], "window: it is sent more"
    grove.release(1, 2)
    grove.run(SECOND)
    grove.send(0)
    grove.run(SECOND)
    grove.all_have_everything()
    assert not grove.duplicates, f"thrift: {grove.duplicates} messages were sent again"
    grove.nodes[1].hold(2)
    grove.send(0)
    grove.run(SECOND)
    grove.up(0, 2)  # another way
    grove.run(5 * SECOND)
    grove.histories[1].collect(grove.now + 1, grove.histories[1].vector)
    grove.release(1, 2)
    grove.run(SECOND)
    grove.send(0)
    grove.run(5 * SECOND)
    grove.all_have_everything()
    assert (1, 2) in grove.live(), "idle: a branch that carries nothing"


def one_at_a_time(streams: Any) -> None:
    """Section 3.3.3: a node does not let two neighbours send it the same past."""
    grove = Grove(puppets(streams), 5)
    grove.connect([(0, 1), (1, 2), (2, 3)])
    grove.run(SECOND)
    for _ in range(50):
        grove.send(0)
    grove.run(SECOND)
    before = grove.duplicates
    grove.connect([(4, 0), (4, 1), (4, 2), (4, 3)])
    grove.run(SECOND)
    assert {peer for node, peer in grove.live() if node == 4} == {0, 1, 2, 3}, "late: a node still waits"
    grove.all_have_everything()
    assert grove.duplicates == before, f"thrift: {grove.duplicates - before} messages came twice"


def mute_neighbour(streams: Any) -> None:
    """A neighbour that should send its past and does not is not waited for for ever."""
    grove = Grove(puppets(streams), 3)
    for _ in range(5):
        grove.send(1)
        grove.send(2)
    grove.lose = lambda one, _other, _packet: one == 1
    grove.connect([(0, 1), (0, 2)])
    grove.run(10 * SECOND)
    assert grove.histories[0].vector[2] == 5, "lost: waits for the one that is silent"


def sent_back(streams: Any) -> None:
    """A message is not sent to whom it came from, nor to whom had it when it asked."""
    grove = Grove(puppets(streams), 3)
    grove.connect([(0, 1), (1, 2)])
    grove.run(SECOND)
    for _ in range(10):
        grove.send(0)
        grove.run(100_000)
    assert grove.duplicates == 0, f"thrift: {grove.duplicates} messages came twice"
    grove.all_have_everything()


def resync(streams: Any) -> None:
    """Who is told that a stream has a gap asks for it again, and hears nothing before that is answered."""
    grove = Grove(puppets(streams), 2)
    grove.up(0, 1)
    grove.run(SECOND)
    grove.sent.clear()
    grove._act(1, grove.nodes[1].receive(0, Resync(), grove.now))
    assert any(isinstance(packet, Graft) for _, one, _, packet in grove.sent if one == 1), (
        "lost: not asked again"
    )
    stray = Message(pack(0, 1), (), b"0,0")
    assert grove._act(1, grove.nodes[1].receive(0, stray, grove.now)) == 0, "order: heard before the answer"
    grove.run(SECOND)
    grove.send(0)
    grove.send(1)
    grove.run(SECOND)
    grove.all_have_everything()


def garbage(streams: Any) -> None:
    """What no correct neighbour sends raises before anything of it has taken effect."""
    grove = Grove(puppets(streams), 3)
    grove.up(0, 1)
    grove.run(SECOND)
    node = grove.nodes[0]
    before = node.clock
    fine = Message(pack(1, 1), (), b"0,0,0")
    for packet in (
        Message(pack(0, 1), (), b""),
        Message(pack(3, 1), (), b""),
        Sync(1, (fine, Message(pack(0, 7), (), b"")), True),
        Announce(0, 1) if not hasattr(node, "root") else Message(pack(0, 1), (), b""),
    ):
        try:
            node.receive(1, packet, grove.now)
        except PeerError:
            assert node.clock == before, "garbage: something took effect"
            continue
        raise AssertionError("garbage: taken")
    try:
        node.receive(2, More(), grove.now)
    except PeerError:
        return
    raise AssertionError("garbage: from one who is no neighbour")


def halves(streams: Any) -> None:
    """A run of which a part was here is no correct node's: nothing of it counts. One that is ahead is a
    gap."""

    def run(last: int, count: int) -> Message:
        return Message(pack(2, last), (), b"", (), count)

    def heard() -> Any:
        one = puppets(streams)(0, 3, MemoryHistory(3))
        one.up(1, 0)
        one.receive(1, Sync(1, (), True), 0)
        return one

    one = heard()
    assert one.receive(1, run(3, 3), 0), "lost: a run"
    assert one.clock[2] == 3, f"lost: the clock counts {one.clock[2]} of 3"
    try:
        one.receive(1, run(5, 4), 0)
    except PeerError:
        assert one.clock[2] == 3, "twice: a part of a run"
    else:
        raise AssertionError("twice: a part of a run")
    one = heard()
    found = one.receive(1, Sync(1, (run(3, 3), run(5, 4)), True), 0)
    assert one.clock[2] == 3, "twice: a part of a run, in one piece"
    assert len([effect for effect in found if isinstance(effect, Message)]) == 1, "twice: a part of a run"
    one = heard()
    found = one.receive(1, run(5, 3), 0)
    assert one.clock[2] == 0, "order: a run that is ahead"
    assert any(isinstance(effect.packet, Graft) for effect in found), "lost: nothing is asked for"


def large_past(streams: Any) -> None:
    """A large message counts as what it is as large as: of several, one is under way at a time; and behind
    them there is room for as many small ones as ever."""
    history = MemoryHistory(2)
    settings = StreamSettings(piece_bytes=100, window=4)
    one = puppets(streams, settings=settings)(0, 2, history)
    for seq, size in enumerate([80] * 3 + [1000] * 5 + [80] * 8, 1):
        message = Message(pack(0, seq), (), bytes(size))
        history.append(message, 0)
        one.broadcast(message, 0)
    one.up(1, 0)
    under_way, most, came = list[int](), 0, 0

    def sent(effects: Any) -> None:
        for effect in effects:
            if isinstance(effect, Transmit) and isinstance(effect.packet, Sync):
                under_way.append(sum(len(message.payload) for message in effect.packet.messages))

    sent(one.receive(1, Graft(1, (0, 0)), 0))
    last = 0
    while under_way:
        most = max(most, sum(under_way))
        came += 1
        if came > 8:
            last = max(last, len(under_way))
        del under_way[0]
        sent(one.receive(1, More(), 0))
    assert came == 16, f"lost: {came} pieces of 16"
    assert most <= 4 * 100 + 1000, f"window: {most} bytes are under way"
    assert last == 4, f"slow: {last} pieces at a time"


STREAM_CHECKS = {
    "halves": halves, "large past": large_past,
    "circles": circles, "weather": weather, "found again": found_again, "gap": gap, "crossing": crossing,
    "pieces": pieces, "one at a time": one_at_a_time, "mute neighbour": mute_neighbour,
    "sent back": sent_back, "resync": resync, "garbage": garbage, "choked": choked,
}  # fmt: skip


# Trees


def _grown(make: Make, size: int, edges: list[tuple[int, int]], **latency: int) -> Grove:
    grove = Grove(make, size, **latency)
    grove.connect(edges)
    grove.run(5 * SECOND)
    assert grove.is_tree(), f"tree: {sorted(grove.live())}"
    return grove


LADDER = [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (2, 4), (3, 4), (3, 5), (4, 5)]


def grows(make: Make) -> None:
    """Section 3.3.2: branches come to form one tree, and then each message goes to each node once."""
    for seed in range(5):
        random = Random(seed)
        edges = [(random.randrange(node), node) for node in range(1, 12)]
        edges += [tuple(sorted(random.sample(range(12), 2))) for _ in range(12)]  # type: ignore[misc]
        grove = _grown(make, 12, sorted(set(edges)))
        for node in range(12):
            grove.send(node)
        grove.run(SECOND)
        grove.all_have_everything()
        assert grove.duplicates == 0, "thrift: a settled tree sends something twice"


def shortest(make: Make) -> None:
    """The tree follows the quickest ways from the root, and moves when a new link offers one; whether the
    graft gets there before the next beat or after it."""
    for across in (40_000, 60_000, 75_000):
        grove = Grove(make, 3)
        for pair, latency in (((0, 1), 10_000), ((1, 2), across), ((0, 2), 150_000)):
            grove.latency[pair] = grove.latency[pair[::-1]] = latency
        grove.connect([(0, 2), (0, 1)])
        grove.run(3 * SECOND)
        assert (0, 2) in grove.live(), "tree: no way at all"
        grove.up(1, 2)
        grove.run(3 * SECOND)
        assert (1, 2) in grove.live(), "slow: the long way is kept"
        assert grove.is_tree(), "tree: both ways are kept"
        grove.sent.clear()
        grove.run(5 * SECOND)
        assert not any(isinstance(packet, Graft | Prune) for _, _, _, packet in grove.sent), (
            "restless: to and fro"
        )


def prompt(make: Make) -> None:
    """However little quicker a way is: three beats tell. The same when a way that was known becomes quicker
    because a node above has found another."""
    grove = Grove(make, 3)
    for pair, latency in (((0, 1), 10_000), ((1, 2), 60_000), ((0, 2), 77_000)):
        grove.latency[pair] = grove.latency[pair[::-1]] = latency
    grove.connect([(0, 2), (0, 1)])
    grove.run(3 * SECOND)
    grove.up(1, 2)
    grove.run(700_000)
    assert grove.nodes[2].parent == 1, "slow: seven milliseconds are not believed"
    grove = Grove(make, 4)
    for pair, latency in (((0, 1), 150_000), ((1, 2), 10_000), ((0, 2), 97_000), ((0, 3), 10_000)):
        grove.latency[pair] = grove.latency[pair[::-1]] = latency
    grove.latency[1, 3] = grove.latency[3, 1] = 70_000
    grove.connect([(0, 1), (0, 2), (0, 3), (1, 2)])
    grove.run(3 * SECOND)
    assert grove.nodes[1].parent == 2, "slow: the long way is kept"
    grove.up(1, 3)
    grove.run(1_400_000)
    assert grove.nodes[1].parent == 3, "slow: the new way is not taken"
    assert grove.nodes[2].parent == 1, "slow: what was measured long ago counts"


def one_root(make: Make) -> None:
    """Only the smallest goes on beating."""
    grove = _grown(make, 6, LADDER)
    grove.sent.clear()
    grove.run(2 * SECOND)
    roots = {packet.root for _, _, _, packet in grove.sent if isinstance(packet, Tree)}
    assert roots == {0}, f"roots: {roots}"
    assert not any(isinstance(packet, Graft | Prune) for _, _, _, packet in grove.sent), (
        "restless: for nothing"
    )


def orphan(make: Make) -> None:
    """A lost parent is replaced at once: a message sent right after it is there in round trips."""
    for node in range(1, 6):
        grove = _grown(make, 6, LADDER)
        parent = grove.nodes[node].parent
        grove.down(node, parent)
        grove.send(0)
        grove.send(node)
        grove.run(250_000)
        assert grove.histories[node].vector[0] == 1, "late: cut off"
        assert grove.histories[0].vector[node] == 1, "late: not heard"
        grove.run(3 * SECOND)
        assert grove.is_tree(), "tree: not again"


def at_once(make: Make) -> None:
    """The same right after a beat, when the next one is far: nothing waits for the clock."""
    grove = _grown(make, 6, LADDER)
    node = grove.nodes[3]
    while grove.now - node._had_at > 1_000:
        grove.run(1_000)
    grove.down(3, node.parent)
    grove.send(0)
    grove.run(70_000)
    assert grove.histories[3].vector[0] == 1, "late: it waits for the next beat"


def root_gone(make: Make) -> None:
    """Without a beat for a while, another node beats."""
    grove = _grown(make, 6, LADDER)
    grove.down(0, 1)
    grove.down(0, 2)
    for node in range(1, 6):
        grove.send(node)
    grove.run(2 * SECOND)
    ends = {grove.histories[node].vector[1:] for node in range(1, 6)}
    assert ends == {(1,) * 5}, f"lost: {ends}"
    assert {grove.nodes[node].root for node in range(1, 6)} == {1}, "roots: not the smallest"
    grove.up(0, 5)
    grove.run(3 * SECOND)
    assert grove.is_tree(), "tree: not one with the root that is back"
    grove.all_have_everything()


def next_announcer(make: Make) -> None:
    """Erratum 4: if the one that announced does not answer, the next one is tried."""
    grove = Grove(make, 4)
    grove.latency[1, 3] = 5_000
    grove.connect([(0, 1), (0, 2), (0, 3)])
    grove.run(3 * SECOND)
    grove.lose = lambda one, other, packet: (one, other) == (1, 3) and not isinstance(packet, Announce)
    grove.connect([(1, 3), (2, 3)])
    grove.run(300_000)
    grove.down(0, 3)
    grove.run(200_000)
    grove.send(0)
    grove.run(8 * SECOND)
    assert grove.histories[3].vector[0] == 1, "lost: only one announcer is tried"


def bounded(make: Make) -> None:
    """Erratum 4: what is remembered of beats does not grow."""
    grove = _grown(make, 6, LADDER)

    def size() -> int:
        node = grove.nodes[3]
        return sum(
            len(value)
            for cls in type(node).__mro__
            for slot in getattr(cls, "__slots__", ())
            if isinstance(value := getattr(node, slot, None), dict | list | set)
        )

    before = size()
    grove.run(60 * SECOND)
    assert size() <= before, "memory: it grows with time"


def late_beat(make: Make) -> None:
    """Another root's beats do not put off the search for a smaller one that was announced."""
    grove = _grown(make, 4, [(0, 1), (1, 2), (2, 3)])
    grove.down(0, 1)
    grove.run(3 * SECOND)
    grove.up(0, 3)
    grove.run(3 * SECOND)
    assert grove.is_tree(), "tree: the smaller root is not followed"
    grove.send(0)
    grove.run(SECOND)
    grove.all_have_everything()


TREE_CHECKS = {
    "grows": grows, "shortest": shortest, "prompt": prompt, "one root": one_root, "orphan": orphan,
    "at once": at_once, "root gone": root_gone, "next announcer": next_announcer, "bounded": bounded,
    "late beat": late_beat,
}  # fmt: skip
