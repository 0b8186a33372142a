"""What the step of a live node promises, whatever drives it: commit, sync, trace, send, answer, in this
order, and what becomes of it when the disk is full, a sync fails, a peer sends garbage or something happens
that cannot (docs/protocols/live.md, *One step* to *When something happens that cannot*).

Each check is a function of whatever makes a subject: a node `a` that is linked to the members `b` and `c`,
with a journal of what happened in order. The checks know its verbs and nothing else, so that drivers, and
what takes their place, can be put under them. The first word of a failure says what went wrong: `order`,
`write` (more or fewer than one), `early` (something left before it was durable), `refused` (a call was, or
was not, or with the wrong words), `silent` (a call is never answered), `lost`, `twice`, `counter` (skipped,
or used twice), `trace`, `links` (do not begin anew), `stuck` (it does not go on), `stop` (it does, or does
not), `garbage`, `wake`, `close`, `unheard` (an exception that was not caught, or that a peer had to raise).
"""

from collections.abc import Sequence
from functools import partial
from random import Random

from support.conformance_steps_failing import FAILING_CHECKS
from support.steps_subject import (
    ALWAYS,
    AT_ONCE,
    LATER_US,
    PROBE_US,
    TIDY_US,
    WEAK,
    WHERES,
    Call,
    Check,
    Make,
    Subject,
    Where,
    acknowledged,
    answer,
    asked,
    in_order,
    into,
    left,
    refusal,
    sent,
    sent_once,
    sync_all,
)  # fmt: skip
from thence.core.errors import InvariantError, PeerError, UsageError

STEP_CHECKS: dict[str, Check] = {}

BATCH = 3
"""So many messages in one read that some are acknowledged at once, others by the clock."""


# The order of a step


@into(STEP_CHECKS)
def a_broadcast_is_written_then_traced_then_sent_then_answered(node: Subject) -> None:
    call = asked(node, b"one")
    in_order(node, "write", "trace", "send b one", "send c one", "answer")
    assert node.journal.count("write") == 1, f"write: {node.journal}"
    assert "synced" not in node.journal, "order: a sync that the policy does not want"
    assert len(answer(call)) == 1, "lost: the answer is not about one message"
    sent_once(node, b"one")


@into(STEP_CHECKS, ALWAYS)
def under_always_a_broadcast_is_synced_before_anything_leaves(node: Subject) -> None:
    first = asked(node, b"one")
    assert node.journal == ["write"], f"early: {node.journal}"
    second = asked(node, b"two")
    assert node.journal == ["write", "write"], f"early: {node.journal}"
    assert node.syncs == 1, f"order: {node.syncs} syncs at a time"
    node.finish_sync()
    in_order(node, "synced", "trace", "send b one", "answer")
    assert second.waits, "early: answered by the sync of another"
    assert sent(node, "b") == sent(node, "c") == ["one"], f"early: {node.journal}"
    node.finish_sync()
    assert answer(second) == [answer(first)[0] + 1], "counter: not the next one"
    assert sent(node, "b") == ["one", "two"], f"order: {node.journal}"
    assert node.journal.count("trace") == 2, "trace: not a write per step"


@into(STEP_CHECKS, ALWAYS)
def under_always_a_message_is_synced_before_it_is_told_or_taken(node: Subject) -> None:
    node.says("b", b"of b")
    node.arrives("b")
    node.turn()
    node.pass_time(50_000)
    in_order(node, "write")
    assert not left(node), f"early: {node.journal}"
    node.finish_sync()
    sync_all(node)
    in_order(node, "write", "synced", "event of b")
    before = acknowledged(node, "b")[-1:]
    node.pass_time(LATER_US)
    while node.syncs:
        node.finish_sync()
        node.pass_time(LATER_US)
    assert node.events == [b"of b"], f"lost: {node.events}"
    assert acknowledged(node, "b")[-1:] >= before, "order: acknowledged backwards"
    assert acknowledged(node, "b"), "lost: it is never acknowledged"


@into(STEP_CHECKS)
def a_message_is_written_before_it_is_taken_and_told(node: Subject) -> None:
    node.says("b", b"of b")
    node.arrives("b")
    node.turn()
    in_order(node, "write", "event of b")
    node.pass_time(LATER_US)
    assert acknowledged(node, "b"), "lost: it is never acknowledged"
    told = next(place for place, one in enumerate(node.journal) if one.startswith("send b ack"))
    assert node.journal.index("write") < told, f"early: {node.journal}"
    assert "deliver" in node.journal or node.rows("deliver"), "trace: nothing was delivered"
    assert node.events == [b"of b"], f"twice: {node.events}"
    assert node.is_stable("b", b"of b"), "stuck: never stable"


@into(STEP_CHECKS)
def what_a_turn_asks_for_is_two_writes_and_one_if_the_last_turn_asked_for_much(node: Subject) -> None:
    """A lone call does not wait; from several in a row on they are gathered."""
    calls = [node.ask(b"0")]
    assert node.journal.count("write") == 1, f"write: a lone call waits: {node.journal}"
    calls += [node.ask(b"1"), node.ask(b"2")]
    assert node.journal.count("write") == 1, f"write: before the turn is over: {node.journal}"
    node.loop_once()
    assert node.journal.count("write") == 2, f"write: {node.journal}"
    node.journal.clear()
    calls += [node.ask(b"3", b"3 again"), node.ask(b"4")]
    assert node.journal.count("write") == 0, f"write: before the turn is over: {node.journal}"
    node.turn()
    assert node.journal.count("write") == 1, f"write: {node.journal}"
    counters = [counter for call in calls for counter in answer(call)]
    assert counters == list(range(counters[0], counters[0] + 6)), f"counter: {counters}"
    assert sent(node, "b") == ["3", "3 again", "4"], "order: mixed up"


@into(STEP_CHECKS, *WEAK)
def under_the_weaker_policies_a_commit_is_enough(node: Subject) -> None:
    answer(asked(node, b"one", b"two"))
    node.says("b", b"of b")
    node.talk()
    assert node.events == [b"of b"], "lost: waits for a sync"
    sent_once(node, b"one", b"two")
    assert "synced" not in node.journal, f"order: {node.journal}"


@into(STEP_CHECKS, {"sync": "everysec", "at_once": False})
def a_sync_that_is_due_by_the_clock_is_asked_for(node: Subject) -> None:
    answer(asked(node, b"one"))
    assert node.syncs == 0, "order: at once"
    node.pass_time(PROBE_US)
    assert node.syncs == 1, "stuck: never synced"
    node.finish_sync()
    answer(asked(node, b"two"))
    node.pass_time(PROBE_US)
    assert node.syncs == 1, "stuck: never synced again"


@into(STEP_CHECKS, *WEAK)
def what_insists_on_a_sync_waits_for_it_whatever_the_policy(node: Subject) -> None:
    node.insist()
    assert node.syncs == 1, "early: nothing insists"
    later = asked(node, b"later")
    assert later.waits, "early: what follows from it does not wait"
    assert not left(node), f"early: {node.journal}"
    sync_all(node)
    answer(later)
    in_order(node, "synced", "send b later", "answer")
    answer(asked(node, b"free again"))


@into(STEP_CHECKS, ALWAYS)
def what_waits_for_a_sync_leaves_over_no_later_link(node: Subject) -> None:
    """Both ends of a new link begin anew: it gets what it lacks, and nothing of what was under way before."""
    call = asked(node, b"one")
    node.unlink("b")
    node.link("b")
    for _ in range(4):
        sync_all(node)
        node.talk()
        node.pass_time(LATER_US)
    answer(call)
    assert sent(node, "c") == ["one"], f"lost: {node.journal}"
    assert sent(node, "b") == ["one"], f"twice: {node.journal}"
    assert node.has("b").count(b"one") == 1, f"lost: {node.has('b')}"


@into(STEP_CHECKS, *[ALWAYS | {"segment_bytes": size} for size in (600, 2000)])
def a_segment_that_seals_lets_nothing_overtake_what_waits_for_an_earlier_sync(node: Subject) -> None:
    """Sealing syncs: later steps are durable while the sync of an earlier one is still under way."""
    random, calls = Random(5), list[Call]()
    for i in range(60):
        if i % 2:
            for _ in range(BATCH):
                node.says("b", b"of b, %d" % i + b"." * random.randrange(100))
            node.arrives("b")
        else:
            calls.append(node.ask(b"%d" % i + b"." * random.randrange(300)))
        node.turn()
        node.pass_time(25_000)
        if node.syncs and random.random() < 0.3:
            node.finish_sync()
    for _ in range(3):
        sync_all(node)
        node.pass_time(LATER_US)
    for call in calls:
        answer(call)
    numbers = [int(word.split(".")[0]) for word in sent(node, "b")]
    assert numbers == list(range(0, 60, 2)), f"order: {numbers}"
    told = [int(event.split()[2].split(b".")[0]) for event in node.events]
    assert told == [i for i in range(1, 60, 2) for _ in range(BATCH)], f"order: {told}"
    acks = acknowledged(node, "b")
    assert acks == sorted(acks), f"order: {acks}"
    assert len(set(acks)) > 5, "lost: next to nothing is acknowledged"


@into(STEP_CHECKS)
def what_makes_no_sense_is_refused_and_nothing_else_is(node: Subject) -> None:
    first = answer(asked(node, b"one"))
    before, foolish, after = node.ask(b"two"), node.ask(b"x", bytes(65 << 20)), node.ask(b"three")
    node.turn()
    assert isinstance(refusal(foolish, definite=True), UsageError), f"refused: {foolish.error!r}"
    assert answer(before) + answer(after) == [first[0] + 1, first[0] + 2], "counter: not the next ones"
    sent_once(node, b"one", b"two", b"three")
    assert node.stops is None, f"stop: {node.stops}"


@into(STEP_CHECKS)
def what_is_asked_of_the_machine_is_written_before_it_is_answered(node: Subject) -> None:
    first = answer(node.demand(b"one"))
    in_order(node, "write", "trace", "send b one")
    foolish = node.demand(bytes(65 << 20))
    assert isinstance(refusal(foolish, definite=True), UsageError), f"refused: {foolish.error!r}"
    assert node.stops is None, f"stop: {node.stops}"
    assert answer(asked(node, b"two")) == [first[0] + 1], "counter: not the next one"
    sent_once(node, b"one", b"two")


@into(STEP_CHECKS, ALWAYS, AT_ONCE)
def the_log_forgets_nothing_of_which_the_trace_does_not_know(node: Subject) -> None:
    """What it forgets cannot be added to the trace later."""
    rows, made, missing = node.rows("send"), 0, list[int]()
    node.when_tidied(lambda: missing.append(made - (node.rows("send") - rows)))
    made += 1
    call = asked(node, b"one")
    node.pass_time(TIDY_US)
    made += 1
    node.demand(b"two")
    assert missing, "stuck: nothing is tidied up"
    assert not any(missing), f"early: {missing} rows are missing"
    sync_all(node)
    answer(call)


# Bugs and garbage


def _bug(make: Make, where: Where) -> None:
    node = make(sync="always", at_once=False, reads=False)
    try:
        node.says("b", b"of b")
        if where == "take":
            node.arrives("b")
            node.turn()
            sync_all(node)
        waiting, lone = asked(node, b"waits"), node.ask(b"lone")
        bug = ZeroDivisionError("planted")
        node.plant(where, bug)
        node.journal.clear()
        gathered = node.ask(b"gathered")
        if where == "receive":
            node.arrives("b")
        elif where == "take":
            node.take()
        elif where == "wake":
            node.pass_time(LATER_US)
        node.turn()
        in_order(node, "stop")
        assert isinstance(node.stops, InvariantError), f"stop: {node.stops!r}"
        assert node.stops.__cause__ is bug, f"stop: {node.stops!r}"
        refusal(waiting, definite=False)
        refusal(lone, definite=False)
        if where != "wake":
            error = refusal(gathered)
            assert isinstance(error, InvariantError), f"refused: {error!r}"
            assert not (error.definite and node.is_written(b"gathered")), "refused: it is in the log"
        later = asked(node, b"later")
        assert isinstance(refusal(later, definite=True), InvariantError), f"refused: {later.error!r}"
        node.pass_time(LATER_US)
        sync_all(node)
        node.link("b")
        node.unlink("b")
        node.turn()
        assert not left(node), f"early: {node.journal}"
        assert "anew" in node.journal, "links: they go on"
        assert node.close() is False, "close: not in order"
        assert not node.is_written(b"later"), "refused: it is in the log"
        assert not node.left_over, f"close: {node.left_over}"
        assert not node.unheard, f"unheard: {node.unheard}"
    finally:
        node.end()


STEP_CHECKS |= {
    f"a bug in {where} stops the node and refuses all calls": partial(_bug, where=where) for where in WHERES
}


def _garbage(node: Subject, garbage: Sequence[bytes]) -> None:
    node.says("b", b"of b")
    node.says("b", b"of b, too")
    try:
        node.arrives("b", *garbage)
    except PeerError:
        pass
    else:
        raise AssertionError("garbage: the caller is not told")
    node.turn()


@into(STEP_CHECKS)
def what_came_before_garbage_counts_and_the_garbage_is_told(node: Subject) -> None:
    _garbage(node, [b"\xff\xff"])
    assert node.events == [b"of b", b"of b, too"], f"lost: {node.events}"
    node.unlink("b")
    node.link("b")
    node.says("b", b"of b, again")
    node.pass_time(LATER_US)
    assert node.events == [b"of b", b"of b, too", b"of b, again"], f"lost: {node.events}"
    assert node.is_stable("b", b"of b, again"), "stuck: never stable"
    assert node.stops is None, f"stop: {node.stops}"
    assert node.trouble is None, f"stuck: {node.trouble}"


@into(STEP_CHECKS)
def what_the_machine_refuses_is_garbage_as_well(node: Subject) -> None:
    node.plant("receive", PeerError("no peer says this"), after=1)
    _garbage(node, [])
    assert node.events == [b"of b"], f"lost: {node.events}"
    answer(asked(node, b"one"))
    assert node.stops is None, f"stop: {node.stops}"


# The end


@into(STEP_CHECKS, *WEAK, ALWAYS, AT_ONCE)
def closing_writes_and_syncs_and_answers_what_was_asked_for(node: Subject) -> None:
    node.says("b", b"of b")
    node.arrives("b")
    node.begin_close()
    lone, call = node.ask(b"last"), node.ask(b"words")
    assert node.close() is True, "close: not in order"
    assert answer(call) == [answer(lone)[0] + 1], "counter: not the next one"
    in_order(node, "write", "synced")
    sent_once(node, b"last", b"words")
    late = asked(node, b"too late")
    assert "closed" in str(refusal(late, definite=True)), f"refused: {late.error}"
    assert not node.is_written(b"too late"), "refused: it is in the log"
    assert not node.left_over, f"close: {node.left_over}"


@into(STEP_CHECKS)
def closing_in_trouble_leaves_no_call_unanswered(node: Subject) -> None:
    node.fill_trace()
    call = asked(node, b"in the log")
    assert node.close() is False, "close: not in order"
    assert "before it was certain" in str(refusal(call, definite=False)), f"refused: {call.error}"
    assert not sent(node, "b"), f"early: {node.journal}"
    assert not node.left_over, f"close: {node.left_over}"


@into(STEP_CHECKS, {}, ALWAYS)
def closing_with_a_full_disk_says_that_it_was_not_in_order(node: Subject) -> None:
    waits = asked(node, b"in the log")
    node.fill()
    refusal(asked(node, b"never"), definite=True)
    assert node.close() is False, "close: not in order"
    assert not waits.waits, "silent: a call was not answered"
    refusal(asked(node, b"too late"), definite=True)
    assert not node.left_over, f"close: {node.left_over}"


STEP_CHECKS |= FAILING_CHECKS
