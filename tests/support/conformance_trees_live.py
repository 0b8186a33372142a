"""What nodes of a tree promise when they are made like live ones: `OVERLAY_CHECKS`, functions of the class
`Overlay`; `TREE_NODE_CHECKS`, of the module `replica.tree`; `OPEN_TREE_CHECKS`, of the class `OpenTree`;
`TONGUE_CHECKS`, of the class `Tongue`; `ECO_NODE_CHECKS`, of the class `EcoReplica`; `DURABLE_TREE_CHECKS`,
of the class `SyncTree`, and `DURABLE_ECO_CHECKS`, of the class `EcoSyncTree`: the same storms as in memory,
over logs on bad disks."""

from collections.abc import Iterable
from dataclasses import replace
from io import BytesIO
from random import Random
from typing import Any

from support.traces import read
from support.trees_by_hand import Two
from thence.check.oracle import judge
from thence.core.dots import pack
from thence.core.errors import PeerError
from thence.core.history import History
from thence.core.machine import Close, Connect, Packet, Transmit
from thence.core.message import Message
from thence.core.overlay import (
    Accept,
    Graft,
    Join,
    Naming,
    Neighbour,
    Places,
    Refuse,
    ShuffleReply,
    StatePiece,
    Sync,
    Tree,
)
from thence.core.states import States
from thence.members.hyparview import HyParView
from thence.oplog.log import OpLog
from thence.oplog.policy import DiskSync as SyncFile
from thence.oplog.settings import LogSettings as LogSettings
from thence.replica.eco import LogStates
from thence.replica.group.surroundings import Applied, Closed, Operation
from thence.replica.live_tree import LiveSettings, open_tree
from thence.replica.overlay import Overlay
from thence.replica.tree_names import Processes
from thence.sim.disk import Disk
from thence.sim.overlay_durable import DurableOverlayRun
from thence.sim.overlay_history import MemoryHistory
from thence.sim.overlay_program import RegisterProgram
from thence.sim.overlay_scenarios import configure
from thence.spread.eco_sync_tree import EcoSyncTree
from thence.spread.overlays import OverlayKind
from thence.spread.stream_link import StreamSettings
from thence.spread.sync_tree import SyncTree, TreeSettings

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


def made_run(settings: Any, sink: BytesIO | None, policy: Any, parts: dict[str, Any]) -> DurableOverlayRun:
    kind, runs = parts.pop("kind", None), parts.pop("runs", False)
    live = replace(LiveSettings(), **parts)
    parts.update({"kind": kind, "runs": runs} if kind else {"runs": runs})
    return DurableOverlayRun(settings, sink, kind=kind, policy=policy, parts=live, runs=runs)


def storms(seeds: Iterable[int], spread: str, **parts: Any) -> None:
    for seed in seeds:
        sink = BytesIO()
        settings = configure("tree-storm", spread=spread, seed=seed)
        judged(made_run(settings, sink, "always", parts), sink)


def forgetful(seeds: Iterable[int], spread: str, **parts: Any) -> None:
    for seed in seeds:
        settings = configure("tree-storm", spread=spread, seed=seed)
        run = made_run(settings, None, "no", parts)
        run.patience_us = 40 * SECOND
        outcome = run()
        assert outcome.complete, f"incomplete: {outcome.why}"


# Overlays


def made(overlay: Any, me: int = 1, size: int = 4) -> Any:
    others = [peer for peer in range(size) if peer != me]
    one = overlay(HyParView(me, Random(1), others), SyncTree(me, size, MemoryHistory(size)))
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
    """A stream's packet of a former neighbour is passed over."""
    one = made(overlay)
    one.up(2, 0)
    assert one.receive(2, Tree(0, 1), 0) == [], "closed: it was not from a neighbour"


def wished(overlay: Any) -> None:
    """What is closed and wanted again in one step is two things."""
    one = made(overlay)
    one.wishes[:] = [Close(1), Connect(1), Connect(2), Connect(3), Close(3)]
    asked = [one.wished() for _ in range(3)]
    assert asked == [({1: False, 2: True, 3: False}, True), ({1: True}, False), ({}, False)], (
        f"wished: {asked}"
    )


def overlay_storms(overlay: Any) -> None:
    storms(range(3), "sync-tree", overlays=overlay)


OVERLAY_CHECKS = {
    "closing": closing, "strangers": strangers, "wished": wished, "storms": overlay_storms,
}  # fmt: skip


# Replicas over trees


def tree_storms(module: Any) -> None:
    storms(range(5), "sync-tree", replica=module.TreeReplica, histories=module.StepHistory)


def tree_forgets(module: Any) -> None:
    forgetful((0, 43, 65, 70, 76), "sync-tree", replica=module.TreeReplica, histories=module.StepHistory)


def _log(names: Iterable[str] = ("n0", "n1", "n2"), disk: Disk | None = None, sync: Any = "no") -> OpLog:
    log = OpLog.open(disk or Disk(Random(1)), LogSettings(sync=sync), 0)
    log.boot(1, b"machine", 0)
    for name in names:
        log.member(name)
    log.sync(0)
    return log


class Sole:
    """One replica over a disk of its own, as n0, with 1 and 2 as neighbours; it is committed only when the
    check says so, as by a driver that reads several packets at once."""

    def __init__(self, module: Any, replica: Any = None, log: OpLog | None = None) -> None:
        self.log = log or _log()
        self.program = RegisterProgram(holds=replica is not None)
        history, names, states = module.StepHistory(self.log), list(self.log.names), LogStates()
        self.tree = (
            EcoSyncTree(0, len(names), history, states)
            if replica is not None
            else SyncTree(0, len(names), history)
        )
        self.overlay = Overlay(HyParView(0, Random(1), ()), self.tree)
        parts = (0, names, self.overlay, Closed(), self.log, history, self.program, "n{}".format)
        self.replica = module.TreeReplica(*parts) if replica is None else replica(*parts, states, SECOND, 0)
        self.replica.start(True, 0)
        for peer in (1, 2):
            self.replica.route(self.overlay.up(peer, 0), 0)
            self.receive(peer, Neighbour(True))

    def receive(self, peer: int, packet: Packet) -> list[Any]:
        return self.replica.route(self.overlay.receive(peer, packet, 0), 0)  # type: ignore[no-any-return]

    def listens(self, peer: int) -> None:
        self.receive(peer, Graft(1, (0, 0, 0)))
        self.receive(peer, Sync(1, (), True))
        self.replica.commit(0)


def middle(module: Any) -> None:
    """A stream that begins in the middle of a step has what the step brought before it."""
    one = Sole(module)
    one.listens(1)
    one.receive(1, Message(pack(1, 1), (), b"x"))
    effects = one.receive(2, Graft(1, (0, 0, 0)))
    sent = [
        message.dot
        for effect in effects
        if isinstance(effect, Transmit) and isinstance(effect.packet, Sync)
        for message in effect.packet.messages
    ]
    assert sent == [pack(1, 1)], "lost: what the step had brought"


def renamed(module: Any) -> None:
    """What was sent under a former name needs not be taken; what comes back of it is taken like any other."""
    one = Sole(module)
    log = one.log
    one.listens(1)
    for payload in (b"first", b"second"):
        one.replica.submit([payload], 0)
    one.replica.commit(0)
    one.replica._names.append("n0~2")
    one.replica.admit()
    one.replica.become(log.member("n0~2"), Closed(), 0, ends=False)
    one.receive(1, Message(pack(0, 3), (), b"forgotten"))
    one.replica.submit([b"mine"], 0)
    one.replica.commit(0)
    history, names = module.StepHistory(log), list(log.names)
    tree = SyncTree(3, len(names), history)
    overlay = Overlay(HyParView(0, Random(1), ()), tree)
    program = RegisterProgram(holds=False)
    back = module.TreeReplica(3, names, overlay, Closed(), log, history, program, "n{}".format)
    waiting = [(message.dot, message.payload) for message in back.inbox]
    assert waiting == [(pack(0, 3), b"forgotten")], f"twice: or lost, {waiting}"
    assert (tree.clock, back.sent) == ((3, 0, 0, 1), 1), "counted: not what was sent"


TREE_NODE_CHECKS = {
    "storms": tree_storms, "forgets": tree_forgets, "middle": middle, "renamed": renamed,
}  # fmt: skip


# The machine


class Process:
    """A machine with a log, as b of a tree where a is its contact."""

    def __init__(self, machine: Any, log: OpLog | None = None, contact: bool = True, **live: Any) -> None:
        self.log = log or _log(())
        self.numbers = 0
        self.one = open_tree(
            "b", "at b", {"a": "at a"} if contact else {}, self.log,
            LiveSettings(machine=machine, **live),
            RegisterProgram(holds=False), lambda _: Closed(), self._number, 0,
        )  # fmt: skip
        self.log.sync(0)
        self.one.start(log is None, 0)
        self.posts: list[Any] = []
        self.step()

    def _number(self) -> int:
        self.numbers += 1
        return self.numbers if self.numbers == 1 else 40 + self.numbers

    def step(self) -> list[Any]:
        self.one.commit(0)
        posts, _, _ = self.one.output()
        self.posts = [packet for _, packet in posts]
        return self.posts

    def linked(self) -> None:
        """To a, which is its neighbour and has told its names."""
        self.one.link_up("a", 0)
        for packet in (Places(((0, "a", "at a"),)), Accept(), Naming(0, ("a", "b"))):
            self.one.receive("a", packet, 0)
        self.step()


def enters(machine: Any) -> None:
    """A newcomer asks its contact, says who it is first, and names members before it counts them."""
    one = Process(machine)
    one.one.link_up("a", 0)
    assert one.step() == [Places(((0, "b", "at b"),)), Join()], f"entry: {one.posts}"
    for packet in (Places(((0, "a", "at a"),)), Accept(), Naming(0, ("a",)), Graft(1, (7,))):
        one.one.receive("a", packet, 0)
    kinds = [type(packet) for packet in one.step() if isinstance(packet, Naming | Graft | Sync)]
    assert kinds[0] is Naming, f"names: {kinds}"
    assert Graft in kinds, "sync: nothing is asked for"
    one.one.receive("a", Sync(1, (Message(pack(0, 1), (), b"x"),), True), 0)
    one.step()
    assert one.one.counts == {"b": 0, "a": 1}, f"counted: {one.one.counts}"
    assert not any(isinstance(packet, Naming) for packet in one.posts), "names: told twice"


def waits(machine: Any) -> None:
    """Broadcasts wait for a first neighbour to say what it has, for a moment; where no node is known, not."""
    one = Process(machine)
    debts = [one.one.in_debt]
    one.linked()
    one.one.receive("a", Graft(1, (0, 0)), 0)
    debts.append(one.one.in_debt)
    assert debts[0], "early: no neighbour was heard"
    assert not debts[1], "late: a neighbour was heard"
    one = Process(machine)
    one.one.wake(one.one.wake_at)
    one.one.wake(3 * SECOND)
    assert not one.one.in_debt, "late: no neighbour comes"
    assert not Process(machine, contact=False).one.in_debt, "late: there is no neighbour"


def put_back(machine: Any) -> None:
    """A process that hears of messages which it does not know to have sent goes on under another name, once;
    if it has sent some itself since it was started, it must not send more until the peer takes it back."""
    bodies = Message(pack(1, 5), (), b"x")
    for packet in (Graft(1, (0, 5)), Sync(0, (bodies,), True), bodies):
        one = Process(machine)
        one.linked()
        one.one.receive("a", packet, 0)
        assert one.one.me == "b~42", f"name: {one.one.me} after a {type(packet).__name__}"
        one.one.receive("a", Naming(2, ("b~42",)), 0)
        try:
            one.one.receive("a", Graft(2, (0, 5, 9)), 0)
        except PeerError:
            [(place, _)] = one.one.broadcast([b"mine"], 0)
            assert place == ("b~42", 1), f"dot: {place}"
            continue
        raise AssertionError("lies: it is renamed again and again")
    one = Process(machine)
    one.linked()
    one.one.broadcast([b"mine"], 0)
    for packet, heard in (
        (Graft(1, (0, 5)), False),
        (Graft(1, (0, 1 << 40)), False),
        (Graft(1, (0, 1)), True),
    ):
        try:
            one.one.receive("a", packet, 0)
            assert heard, "dot: it is used twice"
        except PeerError:
            assert not heard, "deaf: to a peer that says nothing wrong"
        assert one.one.me == "b", "name: what it sent is another's now"
        assert heard is (one.one.refuses is None), "dot: it would be used twice"


def same_name(machine: Any) -> None:
    """A restart goes on as the incarnation that wrote the log, whatever others of that process are known."""
    one = Process(machine)
    one.linked()
    one.one.receive("a", Graft(1, (0, 5)), 0)
    one.one.receive("a", Naming(2, ("b~999999999", "b~7")), 0)
    one.one.receive("a", Graft(2, (0, 5, 1, 1)), 0)
    one.step()
    again = Process(machine, one.log)
    assert again.one.me == "b~42", f"name: {again.one.me}"


def lying(machine: Any) -> None:
    """What no correct peer says."""
    for packet in (
        Naming(3, ("c",)), Naming(2, ("",)), Naming(2, ("a b",)), Places(((0, "c", "at c"),)),
        Places(((4, "a", "at c"),)), Graft(1, (0, 0, 1)), Message(pack(7, 1), (), b""),
        Message(pack(0, 1), (pack(1, 1),), b""), ShuffleReply((9,)), Message(pack(0, 1), (), b"", (1,)),
    ):  # fmt: skip
        one = Process(machine)
        one.linked()
        try:
            one.one.receive("a", packet, 0)
        except PeerError:
            continue
        raise AssertionError(f"lies: {packet} is believed")


def hearsay(machine: Any) -> None:
    """Where a process is, it knows best."""
    one = Process(machine)
    one.linked()
    one.one.receive("a", Places(((3, "c", "at c"), (4, "b", "elsewhere"))), 0)
    one.one.receive("a", Places(((3, "c", "elsewhere"),)), 0)
    where = {name: one.one.processes.address(one.one.processes.add(name)) for name in "abc"}
    assert where == {"a": "at a", "b": "at b", "c": "at c"}, f"hearsay: {where}"


def turn(machine: Any) -> None:
    """What is sent in one turn is one message."""
    two = Two(machine=machine)
    two.settle()
    two.say(two.a, b"1", b"2", b"3")
    two.settle()
    records = len(list(two.b.log.since(two.b.log.head)))
    assert records == 1, f"split: {records} messages"
    assert len(two.b.program.had) == 3, "lost: an operation"


LARGE = bytes(range(256)) * 20


def large_operations(machine: Any) -> None:
    """One that is larger than a packet comes whole, and what was sent behind it after it. A window of its
    fragments is under way, and little waits in memory."""
    two = Two(machine=machine, packet_bytes=200, window_bytes=400)
    two.settle()
    for payload in (LARGE, b"behind"):  # in one step
        two.a.machine.broadcast([payload], two.now)
    two.a.step(two.now)
    under_way = len(two.a.out)
    assert under_way <= 6, f"window: {under_way} packets"
    more = [b"%d" % number for number in range(20)]
    for payload in more:
        two.say(two.a, payload)
    [index] = two.a.machine._channels
    waiting = len(two.a.machine._channels.get(index)._waiting)  # type: ignore[union-attr]
    assert waiting <= 2, f"memory: {waiting} messages wait"
    two.settle()
    had = [payload for _, payload, _ in two.b.program.had]
    assert had == [LARGE, b"behind", *more], f"lost: or in another order, {len(had)} of {len(more) + 2}"


def cut_off(machine: Any) -> None:
    """What came of a large operation is forgotten with its link; it comes again."""
    two = Two(machine=machine, packet_bytes=200, window_bytes=400)
    two.settle()
    two.say(two.a, LARGE)
    for _ in range(9):
        two.pass_on(two.a, 1)
        two.pass_on(two.b)
    two.unlink()
    two.link()
    two.settle()
    assert [payload for _, payload, _ in two.b.program.had] == [LARGE], "lost: or not as it was"


def machine_runs(machine: Any) -> None:
    storms(range(200, 203), "sync-tree", runs=True, machine=machine)


def machine_storms(machine: Any) -> None:
    storms(range(3), "sync-tree", machine=machine)


def held_back(machine: Any) -> None:
    """A step waits for its sync. That it wanted a link closed leaves when there is another one already; that
    it wanted one closed and made anew is two things."""
    one = Process(machine)
    one.linked()
    assert one.one.linked("a"), "held: it has no link"
    one.one.overlay.wishes[:] = [Close(1), Connect(1)]
    wanted = [one.one.output()[1] for _ in range(3)]
    assert wanted == [{"a": None}, {"a": "at a"}, None], f"held: {wanted}"
    assert not one.one.linked("a"), "held: it is still of use"
    one.one.link_up("a", 1)
    assert one.one.linked("a"), "held: the new one goes with the old one"


def machine_forgets(machine: Any) -> None:
    forgetful((0, 12, 43, 65), "sync-tree", machine=machine)


OPEN_TREE_CHECKS = {
    "enters": enters, "waits": waits, "put back": put_back, "same name": same_name, "lying": lying,
    "hearsay": hearsay, "turn": turn, "large": large_operations, "cut off": cut_off, "runs": machine_runs,
    "held back": held_back, "storms": machine_storms, "forgets": machine_forgets,
}  # fmt: skip


def other_integers(tongue: Any) -> None:
    """Packets come in the receiver's integers, whatever they were in; of names that count nothing none."""
    known = ["y", "z", "x"]

    def member(name: str) -> int:
        if name not in known:
            known.append(name)
        return known.index(name)

    one = tongue(member)
    one.learn_names(Naming(0, ("x", "y", "idle", "new")))
    assert one.understood(Graft(1, (7, 9)), known) == Graft(1, (9, 0, 7)), "clock: of others"
    plain = one.understood(Sync(1, (Message(pack(1, 3), (), b"p"),), True), known).messages[0]
    assert (plain.dot, plain.payload) == (pack(0, 3), b"p"), "dot: another's"
    assert one.understood(Graft(1, (0, 0, 0, 5)), known) == Graft(1, (0, 0, 0, 5)), (
        "clock: of one that is new"
    )
    assert known == ["y", "z", "x", "new"], "names: known without a message"
    one.learn_place(5, 1)
    assert one.understood(ShuffleReply((5,)), known) == ShuffleReply((1,)), "node: another"


def told_once(tongue: Any) -> None:
    """What was told over a link is not told again; what was forgotten is."""
    one, names, processes = tongue(len), ["x"], Processes("me", "here")
    for name in ("p", "q"):
        processes.add(name, f"at {name}")
    assert [*one.before(Graft(1, (1,)), names, processes)] == [Naming(0, ("x",))], "names: not told"
    names.append("y")
    assert [*one.before(Graft(1, (1,)), names, processes)] == [Naming(1, ("y",))], "names: not the new one"
    assert not [*one.before(Tree(1, 1), names, processes)], "thrift: nothing is needed"
    assert [*one.before(ShuffleReply((1,)), names, processes)] == [Places(((1, "p", "at p"),))], "places"
    assert not [*one.before(ShuffleReply((1,)), names, processes)], "thrift: told twice"
    processes.keep((2,))
    one.forget(processes)
    assert processes.add("r", "at r") == 1, "indices: they are used again"
    assert [*one.before(ShuffleReply((1,)), names, processes)] == [Places(((1, "r", "at r"),))], "places"


TONGUE_CHECKS = {"integers": other_integers, "told": told_once}


# States


def eco_storms(replica: Any) -> None:
    storms([*range(8), 42], "eco-sync-tree", eco_replica=replica)


def _tree_module() -> Any:
    from thence.replica import tree

    return tree


def state_of(**counts: int) -> bytes:
    theirs = RegisterProgram(holds=True)
    for name, count in counts.items():
        for seq in range(1, count + 1):
            theirs.apply(Applied(Operation(name, seq, b"y")))
    return theirs.state()


def state_in_a_step(replica: Any) -> None:
    """A message and, in the same step, a state: the program has both, and so has the snapshot. An operation
    of its own that the state lacks is not lost (errata 6 and 8)."""
    one = Sole(_tree_module(), replica)
    one.listens(1)
    one.receive(1, Message(pack(1, 1), (), b"x"))
    one.replica.submit([b"mine"], 0)
    one.receive(1, StatePiece(1, (0, 0, 5), 0, 1, state_of(n2=5)))
    assert one.program.clock == {"n0": 1, "n1": 1, "n2": 5}, f"state: {one.program.clock}"
    kept = one.replica.newest_state()
    assert kept == ((1, 1, 5), one.program.state()), "state: the snapshot is another"
    one.replica.commit(0)
    assert not one.replica.inbox, "twice: something is still to be delivered"


def owing(replica: Any) -> None:
    """Under `always`, whatever is written in the middle of a step is synced as well."""
    disk = Disk(Random(1))
    log = _log(disk=disk, sync="always")
    one = Sole(_tree_module(), replica, log).replica

    def sync(effects: Iterable[Any]) -> None:
        asked = [effect for effect in effects if isinstance(effect, SyncFile)]
        while asked:
            disk.sync(asked[0].file)
            more = log.synced(asked.pop(0), 0)
            asked += [effect for effect in more if isinstance(effect, SyncFile)]

    one.submit([b"x"], 0)
    sync(one.commit(0))
    log.note(9, b"something of the step")
    one.collect(SECOND)
    for payload in (b"z", b"zz"):
        one.submit([payload], 2 * SECOND)
        sync(one.commit(2 * SECOND))
    assert log.durable == log.tail, "owed: something is not on the disk"


def state_twice(replica: Any) -> None:
    """A state that was taken over counts after a restart: what it stands in for is not taken again."""
    log = _log()
    log.snapshot(log.tail, (0, 1), state_of(n1=1), 0)
    one = Sole(_tree_module(), replica, log)
    assert one.tree.clock == (0, 1, 0), f"counted: {one.tree.clock}"
    assert one.program.clock == {"n1": 1}, "state: not the one from before"


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
