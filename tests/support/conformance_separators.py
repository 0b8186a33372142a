"""What histories, deliveries and gateways must pass, whatever their code looks like.

Each check takes the module that has them, and is named after the schedule that shows what a rule is for.
"""

from collections.abc import Callable
from typing import Any

from support.chains import Chains
from support.hops_world import HopWorld, Mended, campaign
from thence.order import deliveries as our_deliveries
from thence.order import history as our_history
from thence.order.history import RULES
from thence.sim.topologies import of_names

Check = Callable[[Any], None]

A, B, C, D, E, F, S, T, U = range(9)


def world(
    history: Any, rules: str = "1-11", separators: Any = (), deliveries: Any = our_deliveries
) -> HopWorld:
    return HopWorld(lambda me: Mended(me, separators, RULES[rules], history, deliveries))


def held(run: HopWorld, hop: Any, at: int) -> None:
    """The hop must wait there."""
    assert run.bring(hop, at) == [], f"early: {hop.uid} is delivered at {at}"


def check_triangle(history: Any) -> None:
    run = world(history)
    n = run.send(A, B, C)
    run.bring(n, B)
    m = run.send(B, C)
    held(run, m, C)
    assert run.bring(n, C) == [n.uid, m.uid], "stuck: the cause came"


def check_fifo(history: Any) -> None:
    run = world(history)
    first, second = run.send(A, B), run.send(A, B)
    held(run, second, B)
    assert run.bring(first, B) == [first.uid, second.uid], "stuck: the first came"


def check_two_hops(history: Any) -> None:
    run = world(history)
    n = run.send(A, C)
    run.pass_on(A, B)
    held(run, run.send(B, C), C)
    assert run.bring(n, C), "stuck"


def check_partly_told(history: Any) -> None:
    run = world(history)
    run.send(A, C, D)
    run.pass_on(A, B)
    run.send(B, C)
    held(run, run.send(B, D), D)


def check_mixed_recipients(history: Any) -> None:
    run = world(history)
    run.send(A, C, D)
    run.pass_on(A, B)
    run.send(B, C)
    held(run, run.send(B, C, D), D)


def check_got_is_not_told(history: Any) -> None:
    run = world(history)
    n = run.send(A, C, D)
    run.bring(n, C)
    held(run, run.send(C, D), D)


def check_older_covered(history: Any) -> None:
    """Learning an older hop says nothing of a later one."""
    run = world(history)
    first = run.send(S, C)
    run.pass_on(S, U)
    run.bring(first, C)
    second = run.send(S, C)
    run.pass_on(S, B)
    run.pass_on(U, B)
    held(run, run.send(B, C), C)
    assert run.bring(second, C), "stuck"


def check_bounded(history: Any) -> None:
    """S7: a sender that writes to two in turns leaves one entry at each."""
    run = world(history)
    for _ in range(40):
        run.pass_on(S, C)
        run.pass_on(S, B)
    assert len(run.send(B, D).stamp) <= 2, "size: the stamp grows with the run"


def check_settled(history: Any) -> None:
    """R11: a word covers the hops that it names, and no later ones."""
    run = world(history)
    run.pass_on(S, C)
    run.send(S, C)
    run.pass_on(S, B)
    run[B].history.heard(C, run[C].deliveries.word())
    held(run, run.send(B, C), C)


def check_quiet(history: Any) -> None:
    """S8: nothing is left of a hop to a process that is never written to again, once it says so."""
    run = world(history)
    run.pass_on(A, B, C)
    run[A].history.heard(B, run[B].deliveries.word())
    run[A].history.heard(C, run[C].deliveries.word())
    assert len(run[A].history) == 0, "size: the hop is kept for ever"
    run.pass_on(A, D)
    run[A].history.lose(D)
    assert len(run[A].history) == 0, "size: a hop is kept for the dead"


SEPARATOR = [
    (frozenset({S}), frozenset({E, F}), frozenset({A, B, C})),
    (frozenset({S}), frozenset({A, B, C}), frozenset({E, F})),
]
PAIR = [
    (frozenset({S, T}), frozenset({E, F}), frozenset({A, B, C})),
    (frozenset({S, T}), frozenset({A, B, C}), frozenset({E, F})),
]
TRIO = [
    (frozenset({S, T, U}), frozenset({E, F}), frozenset({A, B, C})),
    (frozenset({S, T, U}), frozenset({A, B, C}), frozenset({E, F})),
]


def check_there_and_back(history: Any) -> None:
    """R9: a separator keeps what concerns one side from the other, and knows it when the way leads back."""
    run = world(history, separators=SEPARATOR)
    n = run.send(A, C)
    run.pass_on(A, S)
    out = run.pass_on(S, E)
    assert n.uid not in out.H, "size: nothing is filtered"
    run.pass_on(E, S)
    held(run, run.send(S, C), C)


def check_only_one_told(history: Any) -> None:
    """R9: only what all of the separator were told."""
    run = world(history, separators=PAIR)
    run.send(A, C)
    run.pass_on(A, S)
    run.pass_on(S, E)
    run.pass_on(E, T)
    held(run, run.send(T, C), C)


def check_three_members(history: Any) -> None:
    """R9: one more that was told is not enough."""
    run = world(history, separators=TRIO)
    run.send(A, C)
    run.pass_on(A, S, T)
    run.pass_on(S, E)
    run.pass_on(E, U)
    held(run, run.send(U, C), C)


def check_to_backward(history: Any) -> None:
    """R9: not where the next hop goes to the same side."""
    run = world(history, separators=SEPARATOR)
    run.send(A, C)
    run.pass_on(A, S)
    run.pass_on(S, B)
    held(run, run.send(B, C), C)


def check_to_forward(history: Any) -> None:
    """R9: not what concerns the side where the next hop goes."""
    ahead, behind = frozenset({D, E, F}), frozenset({A, B, C})
    both = [(frozenset({S}), ahead, behind), (frozenset({S}), behind, ahead)]
    run = world(history, separators=both)
    run.send(E, F)
    run.pass_on(E, S)
    run.pass_on(S, D)
    held(run, run.send(D, F), F)


def check_local_copy(history: Any) -> None:
    """S11: a hop to the separator and to one behind it is filtered once the separator has it."""
    run = world(history, separators=SEPARATOR)
    n = run.send(A, C, S)
    run.bring(n, S)
    assert n.uid not in run.pass_on(S, E).H, "size: nothing is filtered"


def check_merged(history: Any) -> None:
    """A history that takes another in precedes what that preceded, and lets go what either knows is told."""
    run = world(history, rules="1-10")
    run.send(A, C)
    run.pass_on(A, B)
    run[D].history.merge(run[B].history.snapshot())
    run.known[D] |= run.known[B]
    held(run, run.send(D, C), C)


def check_rules(history: Any) -> None:
    """Every set of rules is safe and live on graphs at random."""
    for name in ("1-8", "1-10", "1-11", "all"):
        for seed in range(40):
            run = campaign(lambda me, found, name=name: Mended(me, found, RULES[name], history), seed)  # type: ignore[misc]
            assert not run.early, f"early: {name}, seed {seed}: {run.early}"
            assert not run.stuck, f"stuck: {name}, seed {seed}: {run.stuck}"


HISTORY_CHECKS: dict[str, Check] = {
    "triangle": check_triangle, "fifo": check_fifo, "two hops": check_two_hops,
    "partly told": check_partly_told,
    "mixed recipients": check_mixed_recipients, "got is not told": check_got_is_not_told,
    "older covered": check_older_covered, "bounded": check_bounded, "settled": check_settled,
    "quiet": check_quiet,
    "there and back": check_there_and_back, "only one told": check_only_one_told,
    "three members": check_three_members, "to backward": check_to_backward, "to forward": check_to_forward,
    "local copy": check_local_copy, "merged": check_merged, "rules": check_rules,
}  # fmt: skip


def check_waits(deliveries: Any) -> None:
    """What waits goes on when the last of what it waits for came, in whatever order, and once."""
    for name in ("1-4", "1-5", "1-11"):
        run = world(our_history, rules=name, deliveries=deliveries)
        first, second = run.send(A, C), run.send(B, C)
        run.pass_on(A, D)
        run.pass_on(B, D)
        last = run.send(D, C)
        held(run, last, C)
        assert run.bring(first, C) == [first.uid], "early: one of two came"
        assert run.bring(second, C) == [second.uid, last.uid], "stuck: both came"
        for hop in (first, second, last):
            assert run.bring(hop, C) == [], "twice"
        assert len(run[C].deliveries) == 0, "rest"


def check_other_sender(deliveries: Any) -> None:
    """S1: a later hop of another sender says nothing."""
    run = world(our_history, rules="1-8", deliveries=deliveries)
    run.pass_on(B, C)
    run.pass_on(B, C)
    for _ in range(3):
        run.send(D, E)
    n = run.send(A, C, D)
    run.bring(n, D)
    held(run, run.send(D, C), C)


def check_word(deliveries: Any) -> None:
    run = world(our_history, deliveries=deliveries)
    run.pass_on(A, C)
    last = run.pass_on(A, C)
    run.send(B, C)
    assert run[C].deliveries.word() == (last.dot,), f"word: {run[C].deliveries.word()}"


DELIVERIES_CHECKS: dict[str, Check] = {
    "waits": check_waits,
    "other sender": check_other_sender,
    "word": check_word,
}


TWO_ZONES = of_names({"left": ["a", "b", "d1", "d2", "d3"], "right": ["d1", "d2", "d3", "y", "z"]})


def chains(module: Any, rules: str = "1-11") -> Chains:
    engine = module.separator(RULES[rules], lambda *_: TWO_ZONES)
    size = len(TWO_ZONES)
    return Chains(TWO_ZONES, lambda me: engine.tagger(me, size), lambda me: engine.orderer(me, size))


def check_chain_order(module: Any) -> None:
    """Only one member forwards: what crosses later follows what crossed before."""
    run = chains(module)
    run.send("a", b"1", "z")
    run.send("a", b"2", "z")
    for gateway in ("d1", "d2"):
        for payload in (b"1", b"2"):
            run.bring(gateway, payload)
    assert not [flight for flight in run.flights if run.topology.names[flight[1]] == "d2"], (
        "twice: a witness forwards"
    )
    run.bring("z", b"2")
    assert run.got["z"] == [], "early: the second came first"
    run.finish()
    assert run.got["z"] == [b"1", b"2"], f"lost: {run.got}"


def check_chain_crash(module: Any) -> None:
    """The active member dies between delivery and forwarding: a witness forwards."""
    run = chains(module)
    run.send("a", b"1", "z")
    run.bring("d2", b"1")
    run.bring("d3", b"1")
    run.die("d1")
    run.notice("d1", "d2", "d3")
    run.finish()
    assert run.got["z"] == [b"1"], f"lost: {run.got}"


def check_chain_crash_after(module: Any) -> None:
    """It dies after it has forwarded: the echo says so."""
    run = chains(module)
    run.send("a", b"1", "z")
    for gateway in ("d1", "d2", "d3"):
        run.bring(gateway, b"1", "a")
    run.bring("d2", b"1", "d1")
    run.bring("d3", b"1", "d1")
    run.die("d1")
    run.notice("d1", "d2", "d3")
    run.finish()
    assert run.got["z"] == [b"1"], f"twice: {run.got}"


def check_chain_crash_early(module: Any) -> None:
    """Its echo is under way when the crash is noticed: a witness waits for it."""
    run = chains(module)
    run.send("a", b"1", "z")
    for gateway in ("d1", "d2"):
        run.bring(gateway, b"1", "a")
    run.die("d1")
    run.notice("d1", "d2")
    run.finish()
    assert run.got["z"] == [b"1"], f"twice: {run.got}"


def check_chain_crash_pending(module: Any) -> None:
    """Its echo was received and waits for a cause: a witness waits until it has delivered it."""
    run = chains(module)
    run.send("a", b"0", "b")
    run.send("a", b"1", "z")
    run.send("a", b"2", "z")
    run.bring("d1", b"1", "a")
    run.bring("d1", b"2", "a")
    run.bring("d2", b"1", "a")
    run.bring("d2", b"2", "d1")  # follows a's second, which is not here
    run.die("d1")
    run.notice("d1", "d2")
    run.finish()
    assert run.got["z"] == [b"1", b"2"], f"twice: {run.got}"


def check_all_but_one(module: Any) -> None:
    """f + 1 members survive f crashes."""
    run = chains(module)
    run.send("a", b"1", "z", "y")
    run.bring("d2", b"1", "a")
    run.die("d1")
    run.notice("d1", "d2", "d3")
    run.die("d2")
    run.notice("d2", "d3")
    run.send("z", b"2", "a", "b")
    run.finish()
    assert run.got["z"] == run.got["y"] == [b"1"], f"lost: {run.got}"
    assert run.got["a"] == run.got["b"] == [b"2"], f"lost: {run.got}"


def check_takeover_in_order(module: Any) -> None:
    """A witness forwards what is left in the order of its own deliveries."""
    run = chains(module)
    for payload in (b"1", b"2", b"3"):
        run.send("a", payload, "z")
        run.bring("d2", payload)
    run.die("d1")
    run.notice("d1", "d2")
    run.bring("z", b"3")
    assert run.got["z"] == [], "early: the third came first"
    run.finish()
    assert run.got["z"] == [b"1", b"2", b"3"], f"lost: {run.got}"


def check_one_way(module: Any) -> None:
    """What stays in a zone does not leave it."""
    run = chains(module)
    run.send("a", b"1", "b")
    run.finish()
    run.send("b", b"2", "a", "z")
    run.finish()
    assert (run.got["b"], run.got["a"], run.got["z"]) == ([b"1"], [b"2"], [b"2"]), f"lost: {run.got}"
    assert run.orderers[run.index["d2"]].todo == {}, "rest: a witness keeps what was forwarded"


def check_answers(module: Any) -> None:
    """What an application has taken precedes what it sends."""
    run = chains(module)
    run.send("a", b"1", "b", "z")
    run.bring("b", b"1")
    run.send("b", b"2", "z")
    run.bring("d1", b"2")
    assert not [message for _, _, message in run.flights if message.payload == b"2" and message.context[1]], (
        "early: the answer is forwarded first"
    )
    run.finish()
    assert run.got["z"] == [b"1", b"2"], f"lost: {run.got}"


SEPARATOR_CHECKS: dict[str, Check] = {
    "answers": check_answers,
    "chain order": check_chain_order, "chain crash": check_chain_crash,
    "chain crash after": check_chain_crash_after, "chain crash early": check_chain_crash_early,
    "chain crash pending": check_chain_crash_pending, "all but one": check_all_but_one,
    "takeover in order": check_takeover_in_order, "one way": check_one_way,
}  # fmt: skip
