"""The oracle's verdicts on deliveries, sends, losses and stability, on runs small enough to judge by hand.

Expected flags are written out as (verdict, node, pos, message); positions count a node's rows from 0.
"""

from random import Random

import pytest
from msgspec.structs import replace
from support.run_text import rows

from thence.check import RunVerdict, judge
from thence.core.errors import TraceError
from thence.trace.schema import VERDICTS, Event

Found = set[tuple[str, str, int | None, str]]


def judged(*nodes: list[Event]) -> RunVerdict:
    (verdict,) = judge([event for node in nodes for event in node])
    return verdict


def flags(*nodes: list[Event]) -> Found:
    verdict = judged(*nodes)
    found = {(flag.verdict, flag.node, flag.pos, flag.message) for flag in verdict.flagged}
    assert len(found) == len(verdict.flagged) == sum(verdict.violations.values())
    return found


# Runs, groups, rows.


def test_counts_rows_by_kind_and_nodes_with_a_counting_row() -> None:
    verdict = judged(
        rows("a", "start", "send a:1", "receive b:1", "stable a:1"),
        rows("b", "deliver a:1", "deliver a:1"),
        rows("onlooker", "receive a:1"),
        rows("idle", "start"),
        rows("idle2", "start"),
    )
    assert (verdict.nodes, verdict.sends, verdict.deliveries, verdict.stables) == (4, 1, 2, 1)
    assert tuple(verdict.violations) == VERDICTS
    assert verdict.violations == {
        "order": 0, "duplicate": 1, "unsent": 0, "gap": 0, "lost": 2, "program": 0, "unstable": 0, "tag": 0,
    }  # fmt: skip


def test_runs_and_groups_are_judged_apart_and_sorted() -> None:
    events = [
        *rows("a", "send a:1", run="2"),
        *rows("b", "deliver a:1", run="1", group="g"),
        *rows("a", "send a:1", run="1", group="f"),
    ]
    verdicts = judge(events)
    assert [(v.run, v.group, v.violations["unsent"]) for v in verdicts] == [
        ("1", "f", 0),
        ("1", "g", 1),
        ("2", "", 0),
    ]


def test_metric_rows_make_no_run() -> None:
    assert judge(rows("a", "receive b:1")) == []
    assert judge([]) == []


def test_the_order_of_rows_in_the_trace_says_nothing() -> None:
    events = [*rows("a", "send a:1", "send a:2"), *rows("b", "deliver a:2", "deliver a:1")]
    expected = judge(events)
    Random(1).shuffle(events)
    assert judge(events) == expected


@pytest.mark.parametrize("kind", ["start", "receive"])
def test_the_same_place_twice_is_an_error(kind: str) -> None:
    events = rows("a", "start")
    with pytest.raises(TraceError, match="node 'a' has pos 0 twice"):
        judge([*events, replace(events[0], kind=kind)])


def test_the_same_place_in_another_group_is_none() -> None:
    assert len(judge([*rows("a", "start", group="f"), *rows("a", "start", group="g")])) == 2


def test_a_row_that_lacks_its_message_is_an_error() -> None:
    with pytest.raises(TraceError, match="names no message"):
        judge(rows("a", "deliver"))


# order


def test_a_message_before_its_cause_breaks_order_once_per_row() -> None:
    a = rows("a", "send a:1", "send a:2", "send a:3")
    b = rows("b", "deliver a:3", "deliver a:1", "deliver a:2")
    assert flags(a, b) == {
        ("order", "b", 0, "a:3"),
        ("program", "b", 1, "a:1"),
        ("program", "b", 2, "a:2"),
    }


def test_causes_pass_through_other_nodes() -> None:
    a = rows("a", "send a:1", "deliver b:1")
    b = rows("b", "deliver a:1", "send b:1")
    assert flags(a, b, rows("c", "deliver b:1", "deliver a:1")) == {("order", "c", 0, "b:1")}


def test_receiving_orders_nothing() -> None:
    a = rows("a", "send a:1", "deliver b:1")
    b = rows("b", "receive a:1", "send b:1", "deliver a:1")
    assert flags(a, b, rows("c", "deliver b:1", "deliver a:1")) == set()


def test_a_cause_that_is_not_addressed_here_is_not_missed_but_passes_order_on() -> None:
    a = rows("a", "send a:1", "send a:2 dest=b", "deliver b:1")
    b = rows("b", "deliver a:1", "deliver a:2", "send b:1")
    assert flags(a, b, rows("c", "deliver a:1", "deliver b:1")) == set()
    # a:2 is not for c, yet through it a:1 is a cause of b:1.
    assert flags(a, b, rows("c", "deliver b:1", "deliver a:1")) == {("order", "c", 0, "b:1")}


def test_an_own_message_that_was_forgotten_is_not_missed() -> None:
    a = rows("a", "send a:1", "restart deps=", "deliver b:1", "deliver a:1")
    assert flags(a, rows("b", "deliver a:1", "send b:1")) == set()


def test_a_second_delivery_is_no_matter_of_order() -> None:
    a = rows("a", "send a:1", "send a:2")
    assert flags(a, rows("b", "deliver a:2", "deliver a:2")) == {
        ("order", "b", 0, "a:2"),
        ("duplicate", "b", 1, "a:2"),
        ("lost", "b", None, "a:1"),
    }


def test_knowing_a_cause_is_not_holding_it() -> None:
    # b broke order once with a:2; that made a:1 known to it, but a:3 is still too early.
    a = rows("a", "send a:1", "send a:2", "send a:3")
    assert flags(a, rows("b", "deliver a:2", "deliver a:3", "deliver a:1")) == {
        ("order", "b", 0, "a:2"),
        ("order", "b", 1, "a:3"),
        ("program", "b", 2, "a:1"),
    }


# duplicate


def test_what_a_node_holds_it_must_not_deliver_again() -> None:
    a = rows("a", "send a:1", "deliver a:1")
    b = rows("b", "deliver a:1", "deliver a:1", "deliver a:1")
    c = rows("c", "install deps=a:1", "deliver a:1")
    assert flags(a, b, c) == {
        ("duplicate", "a", 1, "a:1"),
        ("duplicate", "b", 1, "a:1"),
        ("duplicate", "b", 2, "a:1"),
        ("duplicate", "c", 1, "a:1"),
    }


# unsent


def test_what_was_never_sent_is_unsent_and_counts_nowhere_else() -> None:
    a = rows("a", "send a:1", "stable a:1")
    assert flags(a, rows("b", "deliver a:1", "deliver a:2", "deliver a:2", "stable x:1")) == {
        ("unsent", "b", 1, "a:2"),
        ("unsent", "b", 2, "a:2"),
        ("unsent", "b", 3, "x:1"),
    }


def test_what_is_for_others_is_unsent_here_but_still_delivered() -> None:
    a = rows("a", "send a:1", "send a:2 dest=c", "deliver b:1")
    b = rows("b", "deliver a:2", "stable a:2", "send b:1", "deliver a:1")
    # Neither order nor duplicate is asked of the row, yet it is what puts a:1 before b:1.
    c = rows("c", "deliver b:1", "deliver a:1", "deliver a:2")
    assert flags(a, b, c) == {
        ("unsent", "b", 0, "a:2"),
        ("unsent", "b", 1, "a:2"),
        ("program", "b", 3, "a:1"),  # it has a:2 all the same
        ("order", "c", 0, "b:1"),
    }


@pytest.mark.parametrize("dest", ["", " dest=b"])
def test_the_sender_is_always_addressed(dest: str) -> None:
    a = rows("a", f"send a:1{dest}", "stable a:1")
    assert flags(a, rows("b", "deliver a:1")) == set()


def test_an_empty_dest_means_all() -> None:
    (send,) = rows("a", "send a:1")
    assert flags([replace(send, dest=[])], rows("b", "deliver a:1")) == set()


def test_messages_after_the_cut_are_void_wherever_the_evict_row_stands() -> None:
    a = rows("a", "send a:1", "send a:2", "crash")
    b = rows("b", "deliver a:1", "deliver a:2", "stable a:2", "evict a:1")
    assert flags(a, b) == {("unsent", "b", 1, "a:2"), ("unsent", "b", 2, "a:2")}


def test_the_lowest_cut_decides() -> None:
    a = rows("a", "send a:1", "crash")
    assert flags(a, rows("b", "deliver a:1", "evict a:0", "evict a:1")) == {("unsent", "b", 0, "a:1")}


# gap


def test_counters_go_up_by_one_from_one() -> None:
    assert flags(rows("a", "send a:2", "send a:3", "send a:5", "send a:4", "send a:5")) == {
        ("gap", "a", 0, "a:2"),
        ("gap", "a", 2, "a:5"),
        ("gap", "a", 3, "a:4"),
        ("gap", "a", 4, "a:5"),  # 4 + 1, but a repeated dot
    }


def test_a_send_in_another_name_is_a_gap_and_its_counter_counts_on() -> None:
    assert flags(rows("a", "send b:1", "send a:2")) == {("gap", "a", 0, "b:1")}


def test_of_two_sends_of_a_dot_the_later_place_repeats_it() -> None:
    # b stands at position 0, a at 1: b's row is the first, and it is in a's name.
    a = rows("a", "start", "send a:1")
    assert flags(a, rows("b", "send a:1")) == {("gap", "a", 1, "a:1"), ("gap", "b", 0, "a:1")}


def test_the_first_of_several_sends_defines_the_past() -> None:
    a = rows("a", "send a:1", "deliver B:1", "send a:1")
    b = rows("B", "send B:1", "deliver a:1")
    assert flags(a, b, rows("c", "deliver a:1", "deliver B:1")) == {("gap", "a", 2, "a:1")}


def test_counters_go_on_after_a_restart() -> None:
    a = rows("a", "send a:1", "send a:2", "restart deps=a:1", "send a:2", "restart deps=", "send a:3")
    # The restarts forgot sends, which the node would have to deliver again while others hold them.
    assert flags(a) == {("gap", "a", 3, "a:2")}


# lost


def test_what_some_node_holds_must_reach_all_addressed() -> None:
    a = rows("a", "send a:1", "send a:2 dest=c")
    assert flags(a, rows("b", "start"), rows("c", "deliver a:1")) == {
        ("lost", "b", None, "a:1"),
        ("lost", "c", None, "a:2"),
    }


def test_neither_the_departed_nor_the_down_lose_anything() -> None:
    a = rows("a", "send a:1")
    assert (
        flags(a, rows("b", "leave"), rows("c", "start", "crash", "link"), rows("d", "leave", "start"))
        == set()
    )
    assert flags(a, rows("c", "crash", "start")) == {("lost", "c", None, "a:1")}


def test_what_only_the_down_hold_is_not_lost_but_the_departed_still_count() -> None:
    b = rows("b", "start")
    assert flags(rows("a", "send a:1", "crash"), b) == set()
    assert flags(rows("a", "send a:1", "leave"), b) == {("lost", "b", None, "a:1")}


def test_eviction_on_either_side_parts_two_nodes() -> None:
    assert flags(rows("a", "send a:1", "evict b:0"), rows("b", "start")) == set()
    assert flags(rows("a", "send a:1"), rows("b", "evict a:0")) == set()
    # A third node that holds a message and evicted no member owes b what is not void there.
    a, c = rows("a", "send a:1", "send a:2"), rows("c", "deliver a:1", "deliver a:2")
    assert flags(a, rows("b", "evict a:1"), c) == {("lost", "b", None, "a:1")}


def test_what_a_restart_forgot_must_come_again() -> None:
    a = rows("a", "send a:1")
    assert flags(a, rows("b", "deliver a:1", "restart deps=")) == {("lost", "b", None, "a:1")}
    assert flags(a, rows("b", "deliver a:1", "restart deps=", "deliver a:1")) == set()
