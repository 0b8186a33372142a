"""What gossip, its rumours and the order of nodes without a view must hold: short runs of nodes that are made
like live ones, with clocks so small that they err."""

from io import BytesIO
from random import Random
from typing import Any

from support.conformance_trees_live import SECOND, made_run
from support.traces import read
from thence.check.oracle import judge
from thence.core.dots import pack
from thence.core.errors import PeerError
from thence.core.history import History
from thence.core.message import Message
from thence.core.overlay import Sync
from thence.core.states import States
from thence.replica.tree_order import HELD_BYTES, HELD_MOST
from thence.sim.overlay_history import MemoryHistory
from thence.sim.overlay_scenarios import configure
from thence.spread.overlays import OverlayKind


def ran(scenario: str, seed: int, parts: dict[str, Any], **given: Any) -> None:
    usual: dict[str, Any] = {"spread": "gossip", "order": "probabilistic", "payload_bytes": 8, "seed": seed}
    if scenario == "steady":
        usual |= {"nodes": 8, "messages": 12, "interval_ms": 150.0, "warmup_ms": 2000.0}
    sink = BytesIO()
    run = made_run(configure(scenario, **{**usual, **given}), sink, "always", parts)
    run.patience_us = 15 * SECOND
    outcome = run()
    sink.seek(0)
    events = read(sink)
    doubted = {(event.node, f"{event.origin}:{event.seq}") for event in events if event.kind == "doubt"}
    for verdict in judge(events):
        for name, number in verdict.violations.items():
            assert name == "order" or not number, f"{name}: {number}"
        early = {(flag.node, flag.message) for flag in verdict.flagged if flag.verdict == "order"}
        assert early <= doubted, "undoubted"
    assert outcome.complete, f"incomplete: {outcome.why}"


def calm(parts: dict[str, Any]) -> None:
    for seed in (1, 2):
        ran("steady", seed, dict(parts), entries=3, keys=2)


def stormy(parts: dict[str, Any]) -> None:
    for seed in range(4):
        ran("tree-storm", seed, dict(parts), entries=2, keys=1, interval_ms=50.0)


def _kind(gossip: Any) -> dict[str, Any]:
    def make(me: int, size: int, history: History, random: Random, states: States) -> Any:
        del states
        return gossip(me, size, history, random)

    return {"kind": OverlayKind("gossip to be tried", make, causal=False)}


def forgotten(gossip: Any) -> None:
    """What the replica has let go is asked for again, and given to it again; what it holds is not."""
    one = gossip(0, 3, MemoryHistory(3), Random(1))
    one.up(1, 0)
    messages = [Message(pack(2, seq), (), b"x") for seq in range(1, 5)]
    one.receive(1, Sync(0, tuple(messages), True), 0)
    one.forget(pack(2, 2))
    assert one.clock == (0, 0, 1), "forgotten: it is not asked for"
    one.forget(pack(2, 4))
    assert [one.has(message.dot) for message in messages] == [True, False, True, False], "forgotten: held"
    again = one.receive(1, Sync(0, tuple(messages), True), 0)
    assert [one for one in again if isinstance(one, Message)] == messages[1::2], "forgotten: not given again"
    assert one.clock == (0, 0, 4), "forgotten: it is asked for again"
    assert one.drained


GOSSIP_CHECKS = {
    "calm": lambda it: calm(_kind(it)), "storms": lambda it: stormy(_kind(it)), "forgotten": forgotten,
}  # fmt: skip


def restarted(clocked: Any) -> None:
    """Counters give back what is needed to go on: stamps, and what need not be waited for."""
    names = ["a", "b", "c"]

    def made(me: int, seen: list[int], taken: list[Message]) -> Any:
        order = clocked(5, 2, 10, names)
        order.resume(me, seen, seen, taken)
        return order

    b = made(1, [0, 0, 0], [])
    sent = [b.tag([b"x"]) for _ in range(3)]
    for message in sent:
        b.sent(message, 0)
    a = made(0, [0, 0, 0], [])
    for message in sent:
        assert a.receive(message, 0) == [message], "held"
        a.took(message)
    again = made(0, [0, 3, 0], sent)
    following, other = a.tag([b""]), again.tag([b""])
    assert (following.dot, following.context) == (other.dot, other.context), "stamp"
    last = b.tag([b"x"])
    b.sent(last, 0)
    assert again.receive(last, 0) == [last], "held"
    c = made(2, [0, 0, 0], [])
    assert c.receive(sent[1], 0) == [], "early"
    assert c.receive(sent[0], 0) == sent[:2], "held"


def far_ahead(clocked: Any) -> None:
    """A stamp that no message's past explains is a lie: it would be held for ever. One that is a long way
    ahead is none: a node that was away hears of it first."""
    order = clocked(3, 1, 10, ["a", "b"])
    order.resume(0, [0, 0], [0, 0], [])
    order.check(Message(pack(1, 1), (100_000, 100_000, 100_000), b"x"))
    for at in range(3):
        stamp = [1, 1, 1]
        stamp[at] = 1 << 30
        try:
            order.check(Message(pack(1, 1), tuple(stamp), b"x"))
        except PeerError:
            continue
        raise AssertionError("ahead: a stamp that no node has is held for ever")


def early(clocked: Any) -> None:
    """Over a tree no correct peer sends a message that comes before its causes; in their order, in
    one piece, all of them are."""
    names = ["a", "b", "c"]
    here, sender, other = clocked(3, 1, 10, names), clocked(3, 1, 10, names), clocked(3, 1, 10, names)
    other.become(2)
    first = sender.tag([b"first"])
    other.took(first)
    answer = other.tag([b"answer"])
    for messages in ([answer], [answer, first]):
        try:
            here.must_follow(messages)
        except PeerError:
            continue
        raise AssertionError("early: it would wait, and a stream brings nothing again")
    here.must_follow([first, answer])
    here.receive(first, 0)
    here.must_follow([answer])
    assert here.receive(answer, 0) == [answer], "held: to look is not to count"


def crowded(clocked: Any) -> None:
    """What waits is bounded, in messages and in bytes; the oldest gives way."""
    for size, most in ((1, HELD_MOST), (1 << 20, HELD_BYTES >> 20)):
        order = clocked(3, 1, 10, ["a", "b"])
        order.resume(0, [0, 0], [0, 0], [])
        for seq in range(1, most + 2):
            assert not order.crowded, "crowded: there was room"
            order.receive(Message(pack(1, seq), (9 + seq,) * 3, b"x" * size), 0)
        assert order.crowded, "crowded: without end"
        assert order.let_go() == pack(1, 1), "crowded: not the oldest"
        assert order.waiting == most, "crowded: it waits all the same"
        assert not order.crowded, "crowded: still"
        order.receive(Message(pack(1, 1), (10,) * 3, b"x"), 0)
        assert order.waiting == most + 1, "crowded: it came once"


ORDER_CHECKS = {
    "calm": lambda it: calm({"clocked": it}), "restart": restarted, "ahead": far_ahead, "early": early,
    "crowd": crowded,
}  # fmt: skip


def same_message(module: Any) -> None:
    """Or none: never another."""
    random = Random(7)
    for _ in range(300):
        clock = [random.randrange(1 << random.choice((3, 9, 20))) for _ in range(random.randrange(1, 9))]
        far = random.choice((3, 120, 3000))
        stamp = tuple([max(0, own + random.randrange(-far, far + 1)) for own in clock])
        found = module.whole(module.short(Message(pack(1, 2), stamp, b"x")), clock)
        if all(-128 <= mine - own < 128 for mine, own in zip(stamp, clock, strict=True)):
            assert found is not None, "lost"
        assert found is None or (found.dot, found.context, found.payload) == (pack(1, 2), stamp, b"x"), (
            "stamp"
        )


RUMOUR_CHECKS = {"same": same_message}


def dropped(module: Any) -> None:
    """A state that has something of what was doubted is not begun from."""

    def state(*vector: int) -> Any:
        return module.EarlierState(sum(vector), vector, b"")

    def kept(*doubts: int, all_of_them: bool = True) -> Any:
        states = module.EarlierStates()
        states.keep(state(1, 0))
        states.keep(state(3, 2))
        states.doubted([Message(dot, (), b"") for dot in doubts], all_of_them)
        return states.newest

    assert kept(pack(0, 4), pack(2, 1)) == state(3, 2), "dropped: nothing in it was doubted"
    assert kept(pack(0, 4), pack(1, 2)) == state(1, 0), "kept: it has what was doubted"
    assert kept(pack(0, 2), pack(0, 1)) is None, "kept: it has what was doubted"
    assert kept(pack(0, 4), all_of_them=False) is None, "kept: there may be more"


def seldom(module: Any) -> None:
    """States are made after an alarm only, large ones seldom."""
    states = module.EarlierStates()

    def passed(messages: int) -> bool:
        for _ in range(messages):
            states.count()
        return bool(states.due)

    assert not passed(5000), "made: there was no alarm"
    states.doubted([], True)
    assert states.due, "none is made"
    states.keep(module.EarlierState(1, (1,), b"x" * module.SHARE * 3000))
    assert not passed(2999), "made: a large one, too soon"
    assert passed(1), "none is made"


RIGHT_CHECKS = {"dropped": dropped, "seldom": seldom}
