"""What gossip, its rumours and the order of nodes without a view must hold: short runs of nodes that are made
like live ones, with clocks so small that they err."""

from io import BytesIO
from random import Random
from typing import Any

from support.conformance_trees_live import SECOND, made_run
from support.traces import read
from thence.check.oracle import judge
from thence.core.dots import pack
from thence.core.history import History
from thence.core.message import Message
from thence.core.states import States
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


GOSSIP_CHECKS = {"calm": lambda it: calm(_kind(it)), "storms": lambda it: stormy(_kind(it))}


def restarted(clocked: Any) -> None:
    """Counters give back what is needed to go on: stamps, and what need not be waited for."""
    names = ["a", "b", "c"]

    def made(me: int, seen: list[int], taken: list[Message]) -> Any:
        order = clocked(5, 2, 10, names)
        order.resume(me, seen, seen, taken)
        return order

    b = made(1, [0, 0, 0], [])
    sent = [b.tag(b"x") for _ in range(3)]
    for message in sent:
        b.sent(message, 0)
    a = made(0, [0, 0, 0], [])
    for message in sent:
        assert a.receive(message, 0) == [message], "held"
        a.took(message)
    again = made(0, [0, 3, 0], sent)
    following, other = a.tag(b""), again.tag(b"")
    assert (following.dot, following.context) == (other.dot, other.context), "stamp"
    last = b.tag(b"x")
    b.sent(last, 0)
    assert again.receive(last, 0) == [last], "held"
    c = made(2, [0, 0, 0], [])
    assert c.receive(sent[1], 0) == [], "early"
    assert c.receive(sent[0], 0) == sent[:2], "held"


ORDER_CHECKS = {"calm": lambda it: calm({"clocked": it}), "restart": restarted}


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
