"""What views and trees that forget promise, in whole runs: `VIEW_CHECKS`, functions of the class `HyParView`;
`ECO_CHECKS`, functions of the class `EcoSyncTree`; `KEEPER_CHECKS`, functions of the class `Keeper`."""

from collections.abc import Iterable
from io import BytesIO
from random import Random
from typing import Any

from support.grove import Grove
from support.traces import read
from thence.check.oracle import judge
from thence.core.history import History
from thence.core.machine import Transmit
from thence.core.overlay import Neighbour, Refuse, ShuffleReply, StatePiece, Sync
from thence.core.states import States
from thence.members.views import Connect, ViewSettings
from thence.sim.faults import Cut, Pause, apart
from thence.sim.overlay import OverlayRun
from thence.sim.overlay_history import MemoryHistory
from thence.sim.overlay_plan import Arrive, Depart, Happening, OverlayPlan
from thence.sim.overlay_scenarios import OVERLAY_SCENARIOS, configure
from thence.sim.overlay_settings import OverlaySettings
from thence.sim.registry import Scenario
from thence.spread.overlays import OverlayKind, overlay
from thence.spread.stream_link import StreamSettings
from thence.spread.sync_tree import TreeSettings

SECOND = 1_000_000


def judged(run: OverlayRun, sink: BytesIO) -> None:
    run.patience_us = 25 * SECOND
    outcome = run()
    sink.seek(0)
    for verdict in judge(read(sink)):
        for name, number in verdict.violations.items():
            assert not number, f"{name}: {number}"
    assert outcome.complete, f"incomplete: {outcome.why}"


def run_planned(
    settings: OverlaySettings, happenings: Iterable[Happening], size: int, **parts: Any
) -> OverlayRun:
    """Nodes that arrive one after the other, then these happenings; with parts in the place of our own."""
    listed = tuple(happenings)

    def plan(settings: OverlaySettings, random: Random) -> OverlayPlan:
        arrivals = tuple(Arrive(node * 50_000, node) for node in range(settings.nodes))
        return OverlayPlan(size, (*arrivals, *listed), settings.sending_us, settings.until_us)

    OVERLAY_SCENARIOS["hand-made"] = Scenario("hand-made", "", {}, plan)
    try:
        sink = BytesIO()
        run = OverlayRun(settings, sink, **parts)
    finally:
        del OVERLAY_SCENARIOS["hand-made"]
    judged(run, sink)
    return run


def by_hand(**given: object) -> OverlaySettings:
    return OverlaySettings(scenario="hand-made", **given)  # type: ignore[arg-type]


def storms(seeds: Iterable[int], spread: str, **parts: Any) -> None:
    for seed in seeds:
        sink = BytesIO()
        judged(OverlayRun(configure("tree-storm", spread=spread, seed=seed), sink, **parts), sink)


# Views


def connects(views: Any) -> None:
    for nodes in (6, 40):
        run = OverlayRun(configure("steady", nodes=nodes, messages=0, spread="flood"), views=views)
        run()
        links = {node: here.members.active for node, here in run.world.nodes.items()}
        assert all(len(peers) <= 5 for peers in links.values()), "size: too many neighbours"
        one_way = {(node, peer) for node, peers in links.items() for peer in peers if node not in links[peer]}
        run.world.run(run.world.now + SECOND)  # news takes its time
        assert not [
            (node, peer)
            for node, peer in one_way
            if peer in run.world.nodes[node].members.active
            and node not in run.world.nodes[peer].members.active
        ], "one-way: a link"
        found, ahead = set[int](), [0]
        while ahead:
            node = ahead.pop()
            if node not in found:
                found.add(node)
                ahead.extend(links[node])
        assert len(found) == nodes, f"apart: {len(found)} of {nodes}"
        if nodes == 40:
            full = sum(len(peers) == 5 for peers in links.values())
            assert full >= 32, f"size: only {full} views are full"


def _looks_for(machine: Any, peer: int, until: int) -> bool:
    now = 0
    while now < until:
        if Connect(peer) in machine.wake(now):
            return True
        now += 50_000
    return False


def vanished(views: Any) -> None:
    """A neighbour that vanished is looked for, and urgently, however full the view is by then."""
    machine = views(0, Random(1), (), ViewSettings(active=1))
    machine.up(4, 0)
    machine.receive(4, Neighbour(False), 0)
    machine.down(4, 10)
    machine.up(5, 20)
    machine.receive(5, Neighbour(False), 20)
    assert machine.active == (5,)
    assert _looks_for(machine, 4, 5 * SECOND), "lost: not looked for"
    asks = [effect.packet for effect in machine.up(4, 5 * SECOND) if isinstance(effect, Transmit)]
    assert asks == [Neighbour(True)], "refused: not urgent"


def unreached(views: Any) -> None:
    """So is a contact that could not be reached."""
    machine = views(0, Random(1), (7,), ViewSettings(active=1))
    machine.start(0)
    machine.down(7, 10)
    machine.up(8, 20)
    machine.receive(8, Neighbour(True), 20)
    assert machine.active == (8,)
    assert _looks_for(machine, 7, 10 * SECOND), "lost: not looked for"


def alone(views: Any) -> None:
    """A node that is alone goes on trying."""
    machine = views(0, Random(1), (7,), ViewSettings())
    machine.start(0)
    machine.down(7, 10)
    tries, now = 0, 10
    while now < 120 * SECOND:
        if Connect(7) in machine.wake(now):
            tries += 1
            machine.down(7, now + 10)
        now += 50_000
    assert tries >= 10, f"lost: tried {tries} times"


def _asks(machine: Any, now: int, names: Iterable[int], before: Iterable[Any] = ()) -> list[tuple[int, bool]]:
    """Whom it asks to be a neighbour when it hears of these names, and how urgently: all refuse until
    it is urgent."""
    machine.receive(1, ShuffleReply(tuple(names)), now)
    asked: list[tuple[int, bool]] = []
    effects = [*before, *machine.wake(now)]
    while wanted := [effect.peer for effect in effects if isinstance(effect, Connect)]:
        effects = []
        for peer in wanted:
            sent = machine.up(peer, now)
            urgent = any(isinstance(one, Transmit) and one.packet == Neighbour(True) for one in sent)
            asked.append((peer, urgent))
            if urgent:
                return asked
            effects += [*sent, *machine.receive(peer, Refuse(), now)]
    return asked


def content(views: Any) -> None:
    """One free place is left to those who need a neighbour when many had no room; two are not, and a node
    that loses a neighbour begins to look again."""
    machine = views(0, Random(1), (), ViewSettings(active=3))
    for peer in (1, 2):
        machine.up(peer, 0)
        machine.receive(peer, Neighbour(False), 0)
    assert len(_asks(machine, SECOND, range(10, 17))) >= 5, "size: gives up too soon"
    _asks(machine, 20 * SECOND, range(20, 30))
    for later in range(4):
        found = _asks(machine, (40 + 20 * later) * SECOND, range(30 + 10 * later, 40 + 10 * later))
        assert not found, f"restless: {len(found)} more are asked"
    found = _asks(machine, 200 * SECOND, range(70, 95), machine.down(2, 200 * SECOND))
    assert len(found) >= 8, "size: does not look for a second neighbour"
    assert len(found) <= 12, f"size: asks {len(found)} that have no room, one after the other"
    refused = {peer for peer, urgent in found if not urgent}
    assert found[-1][0] in refused, "size: does not ask to be put between two others"
    assert found[-1][1], "size: does not ask to be put between two others"


def halves(views: Any) -> None:
    """Two halves of a healed partition always merge, also in groups of three or four."""
    for nodes in (3, 4, 9):
        cut = Cut(10 * SECOND, 60 * SECOND, apart(range(nodes // 2), range(nodes // 2, nodes)))
        settings = by_hand(nodes=nodes, messages=20, interval_ms=3000.0, payload_bytes=8, spread="flood")
        run_planned(settings, [cut], nodes, views=views)


def sleeper(views: Any) -> None:
    """A node that slept for long always comes back."""
    settings = by_hand(nodes=8, messages=20, payload_bytes=8, spread="flood")
    run_planned(settings, [Pause(10 * SECOND, 60 * SECOND, 2)], 8, views=views)


def born_apart(views: Any) -> None:
    """Two newcomers that can reach each other only, and later find the others."""
    cut = Cut(8 * SECOND, 40 * SECOND, apart(range(4), (4, 5)))
    settings = by_hand(nodes=4, messages=40, payload_bytes=8, spread="flood")
    run_planned(settings, [cut, Arrive(9 * SECOND, 4), Arrive(10 * SECOND, 5)], 6, views=views)


def killed(views: Any) -> None:
    """A third of the nodes are killed: the others' views fill up again, at once."""
    gone = [Depart(15 * SECOND, node) for node in range(1, 30, 3)]
    settings = by_hand(nodes=30, messages=3, interval_ms=4000.0, payload_bytes=8, spread="flood")
    run = run_planned(settings, gone, 30, views=views)
    full = sum(len(here.members.active) == 5 for here in run.world.nodes.values())
    assert full >= 15, f"size: only {full} of 20 views are full again"


def view_storms(views: Any) -> None:
    storms([*range(6), 26, 33, 46, 281], "flood", views=views)


VIEW_CHECKS = {
    "connects": connects, "vanished": vanished, "unreached": unreached, "alone": alone, "content": content,
    "halves": halves, "sleeper": sleeper, "born apart": born_apart, "killed": killed, "storms": view_storms,
}  # fmt: skip


# Trees that forget


def _eco(tree: Any) -> OverlayKind:
    def make(me: int, size: int, history: History, random: Random, states: States) -> Any:
        return tree(me, size, history, states)

    return OverlayKind("eco-sync-tree", make, tree=True, eco=True)


def eco_storms(tree: Any) -> None:
    storms(range(25), "eco-sync-tree", kind=_eco(tree))


def burst(tree: Any) -> None:
    """Newcomers behind newcomers, while messages go on and logs forget after two seconds."""
    joins = [Arrive(25 * SECOND + 2000 * k, 6 + k) for k in range(12)]
    settings = by_hand(nodes=6, messages=60, ttl_ms=2000.0, interval_ms=300.0, spread="eco-sync-tree")
    run_planned(settings, joins, 18, kind=_eco(tree))


def large(tree: Any) -> None:
    """A state of several pieces, more of them than the window."""
    settings = by_hand(
        nodes=20, messages=40, ttl_ms=2000.0, interval_ms=200.0, payload_bytes=60_000, spread="eco-sync-tree"
    )
    run_planned(settings, [Arrive(15 * SECOND, 20)], 21, kind=_eco(tree))


def long_apart(tree: Any) -> None:
    cut = Cut(10 * SECOND, 40 * SECOND, apart(range(4), range(4, 9)))
    settings = by_hand(nodes=9, messages=50, ttl_ms=3000.0, payload_bytes=8, spread="eco-sync-tree")
    run_planned(settings, [cut], 9, kind=_eco(tree))


class _Whole:
    """States that always cover the whole log."""

    def __init__(self, history: MemoryHistory) -> None:
        self._history = history

    def newest(self) -> tuple[tuple[int, ...], bytes]:
        return self._history.vector, b"state" * 1000

    def install(self, clock: tuple[int, ...], state: bytes, now: int) -> None:
        assert state == b"state" * 1000, "state: not whole"
        self._history.install(clock)


def behind(tree: Any) -> None:
    """Erratum 3: a node takes over a state while another one listens to it, who gets what was in it too."""
    settings = TreeSettings(streams=StreamSettings(piece_bytes=512, window=2))
    grove = Grove(lambda me, size, history: tree(me, size, history, _Whole(history), settings), 4)
    for _ in range(30):
        grove.send(0)
    grove.histories[0].collect(grove.now + 1, grove.histories[0].vector)
    grove.connect([(1, 2), (2, 3)])
    grove.run(SECOND)
    grove.send(3)
    grove.run(SECOND)
    grove.up(0, 1)
    for _ in range(20):
        grove.run(15_000)
        grove.send(0)
        grove.send(1)
    grove.run(5 * SECOND)
    grove.all_have_everything()
    assert grove.is_tree(), "tree: not one"


def welcome(tree: Any) -> None:
    """Alg. 3.5, line 21: who is new gets a state, if there is one, although the log still holds everything;
    but not one that holds nothing new to it."""
    grove = Grove(lambda me, size, history: tree(me, size, history, _Whole(history)), 2)
    for _ in range(30):
        grove.send(0)
    grove.send(1)
    grove.up(0, 1)
    grove.run(2 * SECOND)
    grove.send(0)
    grove.run(SECOND)
    grove.all_have_everything()
    read = sum(
        len(packet.messages) for _, _, to, packet in grove.sent if to == 1 and isinstance(packet, Sync)
    )
    assert not read, f"slow: a newcomer reads {read} messages"

    grove = Grove(lambda me, size, history: tree(me, size, history, _Whole(history)), 2)
    grove.send(1)
    for _ in range(2):
        grove.up(0, 1)
        grove.run(2 * SECOND)
    grove.all_have_everything()
    states = [packet for _, _, to, packet in grove.sent if to == 1 and isinstance(packet, StatePiece)]
    assert not states, "idle: a state of its own messages"


ECO_CHECKS = {
    "storms": eco_storms, "burst": burst, "large": large, "long apart": long_apart, "behind": behind,
    "welcome": welcome,
}  # fmt: skip


def keeper_storms(keeper: Any) -> None:
    storms(range(25), "eco-sync-tree", keeper=keeper)


def keeper_long_apart(keeper: Any) -> None:
    cut = Cut(10 * SECOND, 40 * SECOND, apart(range(4), range(4, 9)))
    settings = by_hand(nodes=9, messages=50, ttl_ms=3000.0, payload_bytes=8, spread="eco-sync-tree")
    run_planned(settings, [cut], 9, keeper=keeper)


KEEPER_CHECKS = {"storms": keeper_storms, "long apart": keeper_long_apart}


def tree_storms(make: Any) -> None:
    """Of a SYNC tree, in whole runs."""

    def build(me: int, size: int, history: History, random: Random, states: States) -> Any:
        return make(me, size, history)

    kind = OverlayKind("sync-tree", build, tree=True)
    storms([*range(20), 304], overlay("sync-tree").name, kind=kind)
