"""What becomes of a live node's step when the disk is full or a sync fails; see `conformance_steps`."""

from support.steps_subject import (
    ALWAYS,
    AT_ONCE,
    LATER_US,
    PROBE_US,
    Check,
    Subject,
    acknowledged,
    answer,
    asked,
    in_order,
    into,
    left,
    refusal,
    relinked,
    room_again,
    sent,
    sent_once,
    sync_all,
)  # fmt: skip
from thence.core.errors import StorageError

FAILING_CHECKS: dict[str, Check] = {}


# A full disk


@into(FAILING_CHECKS, {}, AT_ONCE)
def a_full_disk_refuses_definitely_and_the_step_never_happened(node: Subject) -> None:
    first = answer(asked(node, b"one"))
    rows = node.rows("send")
    node.fill()
    node.journal.clear()
    lost = asked(node, b"never")
    assert "nothing is written at present" in str(refusal(lost, definite=True)), f"refused: {lost.error}"
    assert node.trouble is not None, "stuck: no trouble"
    in_order(node, "anew", "refused")
    either = asked(node, b"never either")
    assert isinstance(refusal(either, definite=True), StorageError), f"refused: {either.error!r}"
    room_again(node)
    assert not sent(node, "b"), f"early: {node.journal}"
    assert not node.is_written(b"never"), "refused: it is in the log"
    assert node.rows("send") == rows, "trace: it knows of what never was"
    relinked(node)
    assert answer(asked(node, b"two")) == [first[0] + 1], "counter: skipped, or used twice"
    node.pass_time(LATER_US)
    sent_once(node, b"one", b"two")
    assert node.rows("send") == rows + 1, "trace: not once"
    assert node.stops is None, f"stop: {node.stops}"


@into(FAILING_CHECKS, {}, AT_ONCE)
def a_disk_that_stays_full_is_looked_at_until_there_is_room(node: Subject) -> None:
    first = answer(asked(node, b"one"))
    rows = node.rows("send")
    node.fill()
    refusal(asked(node, b"never"), definite=True)
    for _ in range(3):
        node.pass_time(PROBE_US)
        assert node.trouble is not None, "stuck: well without room"
        refusal(asked(node, b"never"), definite=True)
    room_again(node)
    assert node.rows("send") == rows, "trace: it knows of what never was"
    relinked(node)
    assert answer(asked(node, b"two")) == [first[0] + 1], "counter: skipped, or used twice"
    node.pass_time(LATER_US)
    sent_once(node, b"one", b"two")


@into(FAILING_CHECKS, {}, AT_ONCE)
def what_is_asked_of_the_machine_is_refused_while_nothing_is_written(node: Subject) -> None:
    first = answer(node.demand(b"one"))
    node.fill()
    for _ in range(2):
        never = node.demand(b"never")
        assert isinstance(refusal(never, definite=True), StorageError), f"refused: {never.error!r}"
        assert "nothing is written at present" in str(never.error), f"refused: {never.error}"
    room_again(node)
    assert not node.is_written(b"never"), "refused: it is in the log"
    relinked(node)
    assert answer(node.demand(b"two")) == [first[0] + 1], "counter: skipped, or used twice"
    node.pass_time(LATER_US)
    sent_once(node, b"one", b"two")


@into(FAILING_CHECKS, {}, AT_ONCE)
def what_could_not_be_written_never_came_and_comes_again(node: Subject) -> None:
    node.says("b", b"of b")
    before, rows = acknowledged(node, "b")[-1:], node.rows("deliver")
    node.fill()
    node.arrives("b")
    node.turn()
    assert node.events == [], f"early: {node.events}"
    assert node.trouble is not None, "stuck: no trouble"
    node.says("b", b"of b, too")
    node.arrives("b")  # the link is about to go down: nothing that comes over it counts
    node.turn()
    assert node.events == [], f"early: {node.events}"
    assert acknowledged(node, "b")[-1:] == before, "early: it was forgotten, and is acknowledged"
    room_again(node)
    relinked(node)
    node.pass_time(LATER_US)
    assert node.events == [b"of b", b"of b, too"], f"lost: {node.events}"
    assert node.rows("deliver") == rows + 2, "trace: it knows of what never was"


@into(FAILING_CHECKS, {"reads": False})
def what_was_gathered_when_the_disk_fills_up_is_refused(node: Subject) -> None:
    node.says("b", b"of b")
    lone = node.ask(b"lone")
    node.fill()
    call = node.ask(b"gathered")
    assert call.waits, "write: before the turn is over"
    node.arrives("b")
    node.take()
    node.turn()
    answer(lone)
    refusal(call, definite=True)
    assert not node.is_written(b"gathered"), "refused: it is in the log"
    room_again(node)


@into(FAILING_CHECKS, {"reads": False}, AT_ONCE | {"reads": False})
def what_came_before_the_disk_was_full_is_taken_once(node: Subject) -> None:
    node.says("b", b"of b")
    node.arrives("b")
    node.turn()
    node.fill()
    refusal(asked(node, b"never"))
    node.take()
    node.turn()
    assert node.events == [], f"early: {node.events}"
    room_again(node)
    relinked(node)
    node.journal.clear()
    while "nothing to take" not in node.journal:
        node.take()
        node.turn()
    assert node.events == [b"of b"], f"twice: {node.events}"


@into(FAILING_CHECKS, {}, AT_ONCE)
def wake_ups_that_a_failed_step_asked_for_are_asked_for_again(node: Subject) -> None:
    """Else nothing would be acknowledged or told by the clock ever again."""
    node.says("b", b"of b")
    node.fill()
    node.arrives("b")
    node.turn()
    room_again(node)
    relinked(node)
    node.pass_time(LATER_US)
    assert node.events == [b"of b"], f"lost: {node.events}"
    assert node.is_stable("b", b"of b"), "wake: nothing is told by the clock any more"


@into(FAILING_CHECKS, {}, AT_ONCE)
def wake_ups_that_were_due_in_trouble_come_after_it(node: Subject) -> None:
    node.says("b", b"of b")
    node.arrives("b")
    node.turn()
    assert node.events == [b"of b"], f"lost: {node.events}"
    node.fill()
    refusal(asked(node, b"never"))
    node.pass_time(LATER_US)
    room_again(node)
    relinked(node)
    node.pass_time(LATER_US)
    assert node.is_stable("b", b"of b"), "wake: nothing is told by the clock any more"


@into(FAILING_CHECKS)
def a_link_that_came_up_in_trouble_begins_anew_after_it(node: Subject) -> None:
    """Its greeting was never sent: the pair would wait for each other for ever."""
    node.unlink("b")
    node.fill()
    refusal(asked(node, b"never"))
    node.link("b")
    node.turn()
    node.journal.clear()
    room_again(node)
    assert "anew" in node.journal, "links: one of them is never greeted"
    relinked(node)
    answer(asked(node, b"one"))
    node.pass_time(LATER_US)
    sent_once(node, b"one")


@into(FAILING_CHECKS)
def a_link_that_goes_down_in_trouble_is_down_after_it(node: Subject) -> None:
    node.fill()
    refusal(asked(node, b"never"))
    node.unlink("b")
    node.unlink("c")
    room_again(node)
    node.journal.clear()
    answer(asked(node, b"one"))
    assert not [one for one in node.journal if one.startswith("send")], f"links: {node.journal}"
    node.link("b")
    node.link("c")
    node.pass_time(LATER_US)
    sent_once(node, b"one")


@into(FAILING_CHECKS, ALWAYS)
def calls_that_wait_for_a_sync_when_the_disk_fills_up_are_answered_by_it(node: Subject) -> None:
    """They are in the log: to refuse them would be wrong, and so would be to answer before the sync."""
    first = asked(node, b"one")
    node.fill()
    refusal(asked(node, b"never"), definite=True)
    assert first.waits or "synced" in node.journal, f"early: {node.journal}"
    assert first.error is None, f"refused: it is in the log: {first.error}"
    sync_all(node)
    room_again(node)
    assert sent(node, "b") == [], "early: over a link that begins anew"
    relinked(node)
    sync_all(node)
    node.pass_time(LATER_US)
    sync_all(node)
    node.pass_time(LATER_US)
    answer(first)
    sent_once(node, b"one")


@into(FAILING_CHECKS)
def a_trace_that_cannot_be_written_holds_back_what_it_should_tell_of(node: Subject) -> None:
    rows = node.rows("send")
    node.fill_trace()
    call = asked(node, b"one")
    assert call.waits, "refused: it is in the log, and will be sent" if call.error else "early: answered"
    assert sent(node, "b") == [], "early: others see what the trace does not know"
    in_order(node, "write", "anew")
    refusal(asked(node, b"never"), definite=True)
    room_again(node)
    answer(call)
    relinked(node)
    node.pass_time(LATER_US)
    sent_once(node, b"one")
    assert node.rows("send") == rows + 1, "trace: not once"


@into(FAILING_CHECKS, ALWAYS)
def a_trace_that_fills_up_after_the_disk_does_holds_back_what_waits_for_a_sync(node: Subject) -> None:
    rows = node.rows("send")
    call = asked(node, b"one")
    node.fill()
    refusal(asked(node, b"never"), definite=True)
    node.fill_trace()
    sync_all(node)
    assert call.waits, "refused: it is in the log, and will be sent" if call.error else "early: answered"
    node.pass_time(PROBE_US)
    assert node.stops is None, f"stop: {node.stops}"
    room_again(node)
    answer(call)
    relinked(node)
    node.pass_time(LATER_US)
    sync_all(node)
    node.pass_time(LATER_US)
    sent_once(node, b"one")
    assert node.rows("send") == rows + 1, "trace: not once"


# A sync that fails


@into(FAILING_CHECKS, ALWAYS)
def a_failed_sync_breaks_the_node_for_good(node: Subject) -> None:
    rows, events = node.rows("send"), node.events
    call = asked(node, b"one")
    waiting = node.ask(b"two")
    node.fail_sync()
    node.finish_sync()
    assert "sync failed" in str(node.stops), f"stop: {node.stops}"
    in_order(node, "stop")
    assert isinstance(refusal(call, definite=False), StorageError), f"refused: {call.error!r}"
    refusal(waiting)
    node.pass_time(PROBE_US)
    refusal(asked(node, b"three"), definite=True)
    node.says("b", b"of b")
    node.arrives("b")
    sync_all(node)
    node.turn()
    assert not [one for one in left(node) if one != "event"], f"early: {node.journal}"
    assert node.rows("send") == rows, "trace: it knows what the disk may have forgotten"
    assert node.events == events == [], f"early: {node.events}"
    assert node.trouble is not None, "stop: it goes on"
    assert node.close() is False, "close: not in order"
    assert not node.left_over, f"close: {node.left_over}"


@into(FAILING_CHECKS, ALWAYS | {"segment_bytes": 500})
def a_sync_that_fails_for_a_sealed_segment_does_not_keep_later_ones_waiting(node: Subject) -> None:
    first = asked(node, b"one")
    assert node.syncs == 1, f"order: {node.syncs} syncs at a time"
    second = asked(node, b"." * 600)  # seals the segment, which syncs it
    third = asked(node, b"three")
    node.fail_sync()
    node.finish_sync()
    assert node.stops is None, f"stop: {node.stops}"
    sync_all(node)
    for call in (first, second, third):
        answer(call)


@into(FAILING_CHECKS, {"segment_bytes": 500}, AT_ONCE | {"segment_bytes": 500})
def a_sync_that_fails_inside_a_commit_breaks_it_as_well(node: Subject) -> None:
    """Sealing a segment syncs it. To try again for ever would be no help."""
    node.fail_sync()
    call = asked(node, *[b"%d" % i * 200 for i in range(5)])
    assert node.stops is not None, "stop: it goes on"
    refusal(call, definite=False)
    assert not sent(node, "b"), f"early: {node.journal}"


@into(FAILING_CHECKS, {"segment_bytes": 500}, AT_ONCE | {"segment_bytes": 500})
def what_is_asked_of_the_machine_may_be_in_the_log_when_a_sync_fails_inside_its_commit(
    node: Subject,
) -> None:
    answer(node.demand(b"." * 400))
    node.fail_sync()
    refusal(node.demand(b"." * 400), definite=False)
    assert node.stops is not None, "stop: it goes on"
    refusal(node.demand(b"later"), definite=True)


@into(FAILING_CHECKS, AT_ONCE)
def a_sync_that_cannot_be_tried_is_tried_again_and_nothing_leaves_before_it(node: Subject) -> None:
    """No descriptor was left: that is no failed sync, after which a node must end."""
    node.cannot_sync(3)
    call = asked(node, b"one")
    assert not left(node), f"early: {node.journal}"
    node.pass_time(PROBE_US)
    answer(call)
    assert node.journal.count("untried") == 3, f"order: {node.journal}"
    in_order(node, "untried", "synced", "send b one", "answer")
    assert node.stops is None, f"stop: {node.stops}"


@into(FAILING_CHECKS, AT_ONCE)
def a_node_that_ends_does_not_wait_for_a_sync_that_cannot_be_tried(node: Subject) -> None:
    node.cannot_sync(1 << 30)
    call = asked(node, b"one")
    node.pass_time(PROBE_US)
    assert node.close() is False, "close: not in order"
    refusal(call, definite=False)
    assert not sent(node, "b"), f"early: {node.journal}"
