"""What nodes of a tree promise when they are made like live ones: `OVERLAY_CHECKS`, functions of the class
`Overlay`; `TREE_NODE_CHECKS`, of the module `replica.tree`; `ECO_NODE_CHECKS`, of the class `EcoReplica`;
`DURABLE_TREE_CHECKS`, of the class `SyncTree`, and `DURABLE_ECO_CHECKS`, of the class `EcoSyncTree`: the same
storms as in memory, over logs on bad disks."""

from collections.abc import Iterable
from io import BytesIO
from random import Random
from typing import Any

from support.traces import read
from thence.check.oracle import judge
from thence.core.codec import Codec
from thence.core.dots import pack
from thence.core.history import History
from thence.core.machine import Close, Connect, Transmit
from thence.core.message import Message
from thence.core.overlay import Accept, Graft, Neighbour, Pull, Refuse, StatePiece, Sync, Tree
from thence.core.states import States
from thence.core.storage import ForgottenError
from thence.members.hyparview import HyParView
from thence.oplog.log import OpLog
from thence.oplog.policy import Sync as SyncFile
from thence.oplog.settings import Settings as LogSettings
from thence.replica.eco import LogStates
from thence.replica.overlay import Overlay
from thence.replica.tree import StepHistory
from thence.sim.disk import Disk
from thence.sim.overlay_durable import DurableOverlayRun
from thence.sim.overlay_history import MemoryHistory
from thence.sim.overlay_scenarios import configure
from thence.sim.overlay_store import RegisterKeeper
from thence.spread.eco_sync_tree import EcoSyncTree
from thence.spread.overlays import OverlayKind
from thence.spread.streams import StreamSettings
from thence.spread.sync_tree import SyncTree, TreeSettings
from thence.trace.recorder import NoRecorder

SECOND = 1_000_000


def judged(run: DurableOverlayRun, sink: BytesIO) -> list[Any]:
    run.patience_us = 25 * SECOND
    outcome = run()
    sink.seek(0)
    events = read(sink)
    for verdict in judge(events):
        for name, number in verdict.violations.items():
            assert not number, f"{name}: {number}"
    assert outcome.complete, f"incomplete: {outcome.why}"
    return events


def storms(seeds: Iterable[int], spread: str, **parts: Any) -> None:
    for seed in seeds:
        sink = BytesIO()
        settings = configure("tree-storm", spread=spread, seed=seed)
        judged(DurableOverlayRun(settings, sink, **parts), sink)


def forgetful(seeds: Iterable[int], spread: str, **parts: Any) -> None:
    for seed in seeds:
        settings = configure("tree-storm", spread=spread, seed=seed)
        run = DurableOverlayRun(settings, policy="no", **parts)
        run.patience_us = 40 * SECOND
        outcome = run()
        assert outcome.complete, f"incomplete: {outcome.why}"


# Overlays


def made(overlay: Any, me: int = 1, size: int = 4) -> Any:
    others = [peer for peer in range(size) if peer != me]
    tree = SyncTree(me, size, MemoryHistory(size))
    one = overlay(me, HyParView(me, Random(1), others), tree, Random(2))
    one.resume(0)
    one.wishes.clear()
    return one


def closing(overlay: Any) -> None:
    """What still comes over a link that is about to be closed counts for nothing."""
    one = made(overlay)
    one.members._asked[3] = (Neighbour(False), SECOND)
    one.up(3, 0)
    one.receive(3, Refuse(), 0)
    assert Close(3) in one.wishes, "links: it is not closed"
    one.receive(3, Accept(), 1)
    assert 3 not in one.members.active, "closed: a neighbour over a link that is closed"


def strangers(overlay: Any) -> None:
    """A stream's packet of somebody who is no neighbour any more is passed over."""
    one = made(overlay)
    one.up(2, 0)
    assert one.receive(2, Tree(0, 1), 0) == [], "closed: it was not from a neighbour"


def seeks(overlay: Any) -> None:
    """A root looks for those that are smaller; one that follows another does not."""
    one = made(overlay)
    for now in range(0, 20 * SECOND, SECOND // 2):
        one.members._asked.clear()
        one.members._lost.clear()
        one.wishes.clear()
        one.members._contacts = ()
        one.wake(now)
        if Connect(0) in one.wishes:
            break
    else:
        raise AssertionError("seek: nobody is looked for")
    one = made(overlay, me=2)
    one.up(0, 0)
    one.receive(0, Neighbour(True), 0)
    one.streams._root = 0
    one.members._contacts = ()
    one.wishes.clear()
    for now in range(0, 20 * SECOND, SECOND // 2):
        one.streams._had_at = now
        one.wake(now)
    assert not one.wishes, "thrift: looks for what is there"


def asks_all(overlay: Any) -> None:
    """A node that may have forgotten asks everybody."""
    one = made(overlay)
    one.regain()
    one.resume(0)
    one.wake(0)
    assert {wish.peer for wish in one.wishes} == {0, 2, 3}, "lost: somebody is not asked"
    for peer in (0, 2, 3):
        asked = [effect.packet for effect in one.up(peer, 1) if isinstance(effect, Transmit)]
        assert any(isinstance(packet, Pull) for packet in asked), "lost: nothing is asked for"
        assert one.recovering, "early: not everybody has answered"
        one.receive(peer, Sync(0, (), False), 2)
        assert one.recovering, "early: that was not all"
        one.receive(peer, Sync(0, (), True), 2)
    assert not one.recovering, "waiting: for nobody"


def overlay_storms(overlay: Any) -> None:
    storms(range(3), "sync-tree", overlays=overlay)


def overlay_forgets(overlay: Any) -> None:
    forgetful((43, 65, 70, 76), "sync-tree", overlays=overlay)


OVERLAY_CHECKS = {
    "closing": closing, "strangers": strangers, "seeks": seeks, "asks all": asks_all,
    "storms": overlay_storms, "forgets": overlay_forgets,
}  # fmt: skip


# Replicas over trees


def tree_storms(module: Any) -> None:
    storms(range(5), "sync-tree", replica=module.TreeReplica, histories=module.StepHistory)


def tree_forgets(module: Any) -> None:
    forgetful((43, 65, 70, 76), "sync-tree", replica=module.TreeReplica)


def _log(size: int) -> OpLog:
    log = OpLog.open(Disk(Random(1)), LogSettings(), 0)
    log.boot(1, b"machine", 0)
    for node in range(size):
        log.member(f"n{node}")
    log.sync(0)
    return log


def alone(module: Any, me: int = 0, size: int = 3) -> Any:
    """One node over a disk of its own, with 1 and 2 as neighbours; it is committed only when the check says
    so, as by a driver that reads several packets at once."""
    log = _log(size)
    history = module.StepHistory(log, Codec(size, True))
    overlay = Overlay(me, HyParView(me, Random(1), ()), SyncTree(me, size, history), Random(2))
    replica = module.TreeReplica(me, size, overlay, NoRecorder(), log, history, 0)
    replica.start(0)
    replica.resume(0)
    for peer in (1, 2):
        replica.up(peer, 0)
        replica.receive(peer, Neighbour(True), 0)
    return replica


def middle(module: Any) -> None:
    """A stream that begins in the middle of a step has what the step brought before it."""
    replica = alone(module)
    replica.receive(1, Graft(1, (0, 0, 0)), 0)
    replica.receive(1, Sync(1, (), True), 0)
    replica.commit(0)
    replica.receive(1, Message(pack(1, 1), (), b"x"), 0)
    effects = replica.receive(2, Graft(1, (0, 0, 0)), 0)
    sent = [
        message.dot
        for effect in effects
        if isinstance(effect, Transmit) and isinstance(effect.packet, Sync)
        for message in effect.packet.messages
    ]
    assert sent == [pack(1, 1)], "lost: what the step had brought"


def old_copy(module: Any) -> None:
    """Somebody who knows more of this node than its log does: it must not count on, and need not stop."""
    bodies = Message(pack(0, 1), (), b"x")
    for packet in (Graft(1, (1, 0, 0)), Sync(1, (bodies,), True), bodies):
        replica = alone(module)
        try:
            replica.receive(1, packet, 0)
        except ForgottenError:
            continue
        raise AssertionError(f"copy: a {type(packet).__name__} is passed over")


TREE_NODE_CHECKS = {
    "storms": tree_storms, "forgets": tree_forgets, "middle": middle, "old copy": old_copy,
}  # fmt: skip


def eco_storms(replica: Any) -> None:
    storms([*range(8), 42], "eco-sync-tree", eco_replica=replica)


def state_in_a_step(replica: Any) -> None:
    """A message and, in the same step, a state: the application has both, and so has the snapshot."""
    log = _log(3)
    history, states, keeper = StepHistory(log, Codec(3, True)), LogStates(), RegisterKeeper(3)
    tree = EcoSyncTree(0, 3, history, states)
    overlay = Overlay(0, HyParView(0, Random(1), ()), tree, Random(2))
    one = replica(0, 3, overlay, NoRecorder(), log, history, states, keeper, SECOND, 0)
    one.start(0)
    one.resume(0)
    one.up(1, 0)
    one.receive(1, Neighbour(True), 0)
    one.receive(1, Graft(1, (0, 0, 0)), 0)
    one.receive(1, Sync(1, (), True), 0)
    one.commit(0)
    one.receive(1, Message(pack(1, 1), (), b"x"), 0)
    theirs = RegisterKeeper(3)
    for seq in range(1, 6):
        theirs.apply(Message(pack(2, seq), (), b"y"))
    one.receive(1, StatePiece(1, (0, 0, 5), 0, 1, theirs.encode()), 0)
    assert keeper.app.clock == (0, 1, 5), f"state: {keeper.app.clock}"
    kept = one.newest_state()
    assert kept == ((0, 1, 5), keeper.encode()), "state: the snapshot is another"
    assert one.commit(0) is not None
    assert log.taken == log.tail or not one.inbox, "twice: something is still to be delivered"


def owing(replica: Any) -> None:
    """Under `always`, whatever is written in the middle of a step is synced as well."""
    disk = Disk(Random(1))
    log = OpLog.open(disk, LogSettings(sync="always"), 0)
    log.boot(1, b"machine", 0)
    for name in ("n0", "n1"):
        log.member(name)
    log.sync(0)
    history, states = StepHistory(log, Codec(2, True)), LogStates()
    overlay = Overlay(0, HyParView(0, Random(1), ()), EcoSyncTree(0, 2, history, states), Random(2))
    one = replica(0, 2, overlay, NoRecorder(), log, history, states, RegisterKeeper(2), SECOND, 0)
    one.resume(0)

    def sync(effects: Iterable[Any]) -> None:
        asked = [effect for effect in effects if isinstance(effect, SyncFile)]
        while asked:
            disk.sync(asked[0].file)
            more = log.synced(asked.pop(0), 0)
            asked += [effect for effect in more if isinstance(effect, SyncFile)]

    def publish(payload: bytes, now: int) -> None:
        one.submit(payload, now)
        sync(one.commit(now))
        one.flush(now)

    publish(b"x", 0)
    log.note(9, b"something of the step")
    one.collect(SECOND)
    for payload in (b"z", b"zz"):
        publish(payload, 2 * SECOND)
        sync(one.commit(2 * SECOND))
    assert log.durable == log.tail, "owed: something is not on the disk"


def state_twice(replica: Any) -> None:
    """A state that was taken over counts after a restart: what it stands in for is not taken again."""
    log = _log(2)
    state = RegisterKeeper(2)
    state.apply(Message(pack(1, 1), (), b"x"))
    log.snapshot(log.tail, (0, 1), state.encode(), 0)
    history, states, keeper = StepHistory(log, Codec(2, True)), LogStates(), RegisterKeeper(2)
    tree = EcoSyncTree(0, 2, history, states)
    overlay = Overlay(0, HyParView(0, Random(1), ()), tree, Random(2))
    replica(0, 2, overlay, NoRecorder(), log, history, states, keeper, SECOND, 0)
    assert tree.clock == (0, 1), f"counted: {tree.clock}"
    assert keeper.app.clock == (0, 1), "state: not the one from before"


ECO_NODE_CHECKS = {"storms": eco_storms, "in a step": state_in_a_step, "counted": state_twice, "owing": owing}


# Protocols, over logs


def _kind(tree: Any, eco: bool) -> OverlayKind:
    def make(me: int, size: int, history: History, random: Random, states: States) -> Any:
        settings = TreeSettings(streams=StreamSettings(piece_bytes=200, window=2))
        return tree(me, size, history, states, settings) if eco else tree(me, size, history, settings)

    return OverlayKind("eco-sync-tree" if eco else "sync-tree", make, tree=True, eco=eco)


def durable_trees(tree: Any) -> None:
    storms(range(5), "sync-tree", kind=_kind(tree, eco=False))


def durable_eco(tree: Any) -> None:
    storms(range(5), "eco-sync-tree", kind=_kind(tree, eco=True))


DURABLE_TREE_CHECKS = {"durable storms": durable_trees}
DURABLE_ECO_CHECKS = {"durable storms": durable_eco}
