"""The oracle on stability, tags, circles, states and traces that begin midway."""

from support.run_text import rows

from thence.check import judge
from thence.trace.schema import Event

Found = set[tuple[str, str, int | None, str]]


def flags(*nodes: list[Event]) -> Found:
    (verdict,) = judge([event for node in nodes for event in node])
    return {(flag.verdict, flag.node, flag.pos, flag.message) for flag in verdict.flagged}


# unstable


def test_stable_means_everything_delivered_later_follows_it() -> None:
    # At a, only b:1 and b:2 come after the stable row, and both follow a:1.
    a = rows("a", "send a:1", "deliver c:1", "stable a:1", "deliver b:1", "deliver b:2")
    c = rows("c", "send c:1", "deliver a:1", "deliver b:1", "deliver b:2")
    b = rows("b", "deliver a:1", "send b:1", "stable a:1", "send b:2", "deliver c:1")
    # c:1 does not follow a:1; own sends are no deliveries.
    assert flags(a, b, c) == {("unstable", "b", 2, "a:1")}
    b = rows("b", "deliver a:1", "send b:1", "deliver c:1", "stable a:1", "stable a:1", "send b:2")
    assert flags(a, b, c) == set()


def test_stable_needs_holding() -> None:
    a = rows("a", "send a:1")
    assert flags(a, rows("b", "stable a:1", "deliver a:1")) == {("unstable", "b", 0, "a:1")}
    forgot = rows("b", "deliver a:1", "restart deps=", "stable a:1", "deliver a:1", "stable a:1")
    assert flags(a, forgot) == {("unstable", "b", 2, "a:1")}


def test_duplicates_after_stable_count_and_unsent_rows_do_not() -> None:
    a = rows("a", "send a:1", "send a:2 dest=c")
    c = rows("c", "send c:1 dest=a", "deliver a:1", "deliver a:2")
    a += rows("a", *["receive c:1"] * 2, "deliver c:1")[2:]
    assert flags(a, rows("b", "deliver a:1", "stable a:1", "deliver a:1", "deliver c:1"), c) == {
        ("duplicate", "b", 2, "a:1"),
        ("unsent", "b", 3, "c:1"),
    }
    d = rows("d", "send d:1", "deliver a:1")
    a += rows("a", *["receive d:1"] * 3, "deliver d:1")[3:]
    c += rows("c", *["receive d:1"] * 3, "deliver d:1")[3:]
    b = rows("b", "deliver d:1", "deliver a:1", "stable a:1", "deliver d:1")
    assert flags(a, b, c, d) == {("duplicate", "b", 3, "d:1"), ("unstable", "b", 2, "a:1")}


# tag


def test_a_tag_spells_the_past_with_the_previous_send() -> None:
    a = rows(
        "a",
        "send a:1 deps=",
        "deliver b:1",
        "send a:2 deps=b:1",
        "send a:3 deps=",
        "send a:4 deps=a:3,b:1,x:0",
    )
    assert (
        flags(a, rows("b", "deliver a:1", "send b:1 deps=a:1", *[f"deliver a:{k}" for k in (2, 3, 4)]))
        == set()
    )


def test_a_tag_that_orders_less_or_more_is_wrong() -> None:
    a = rows("a", "deliver b:1", "send a:1 deps=", "send a:2 deps=b:2", "deliver b:2", "send a:3 deps=x:7")
    b = rows("b", "send b:1", "send b:2", "deliver a:1", "deliver a:2", "deliver a:3")
    assert flags(a, b) == {("tag", "a", 1, "a:1"), ("tag", "a", 2, "a:2"), ("tag", "a", 4, "a:3")}


def test_a_tag_that_was_not_recorded_is_passed_over() -> None:
    assert flags(rows("a", "deliver b:1", "send a:1"), rows("b", "send b:1", "deliver a:1")) == set()


def test_a_tag_that_names_its_own_message_is_wrong() -> None:
    assert flags(rows("a", "send a:1 deps=a:1")) == {("tag", "a", 0, "a:1")}


def test_after_a_restart_the_previous_send_is_the_frontiers_own_entry() -> None:
    b = rows("b", "deliver a:1", "deliver a:2", "send b:1", "deliver a:3")
    a = rows("a", "send a:1", "send a:2", "restart deps=a:1", "send a:3 deps=", "deliver a:2", "deliver b:1")
    assert flags(a, b) == {("program", "a", 4, "a:2")}
    # b:1 covers the own sends, so the frontier has no own entry and the tag must spell b:1 out.
    a = rows("a", "send a:1", "send a:2", "deliver b:1", "restart deps=b:1", "send a:3 deps=")
    assert flags(a, b) == {("tag", "a", 4, "a:3")}
    a = rows("a", "send a:1", "send a:2", "deliver b:1", "restart deps=b:1", "send a:3 deps=b:1")
    assert flags(a, b) == set()


# circles


def test_deliveries_that_wait_on_each_other_break_order_each() -> None:
    a = rows("a", "deliver b:1", "send a:1 deps=", "send a:2 deps=")
    b = rows("b", "deliver a:1", "send b:1 deps=", "deliver a:2")
    # Their tags cannot be judged; nor can that of c, which rests on them.
    c = rows("c", "deliver a:1", "deliver b:1", "send c:1 deps=", "deliver a:2")
    a += rows("a", *["receive c:1"] * 3, "deliver c:1")[3:]
    b += rows("b", *["receive c:1"] * 3, "deliver c:1")[3:]
    assert flags(a, b, c) == {
        ("order", "a", 0, "b:1"),
        ("order", "b", 0, "a:1"),
        ("order", "c", 0, "a:1"),  # b:1 → a:1 holds, since a did deliver b:1 first
    }


def test_a_restart_ends_what_a_circle_left_unclear() -> None:
    a = rows("a", "deliver b:1", "send a:1 deps=", "restart deps=", "send a:2 deps=b:1", "crash")
    b = rows("b", "deliver a:1", "send b:1", "deliver a:2")
    assert flags(a, b) == {("order", "a", 0, "b:1"), ("order", "b", 0, "a:1"), ("tag", "a", 3, "a:2")}


def test_a_message_delivered_by_its_own_sender_before_sending_it() -> None:
    a = rows("a", "deliver a:1", "send a:1")
    assert flags(a, rows("b", "deliver a:1")) == {("order", "a", 0, "a:1")}


def test_who_merely_waits_for_a_circle_is_not_on_it() -> None:
    a = rows("a", "deliver b:1", "send a:1")
    b = rows("b", "deliver c:1", "send b:1", "deliver a:1")
    c = rows("c", "deliver b:1", "send c:1", "deliver a:1")
    # b and c wait on each other, a only for b: c:1 → b:1, and a does not hold c:1.
    assert flags(a, b, c) == {
        ("order", "b", 0, "c:1"),
        ("order", "c", 0, "b:1"),
        ("order", "a", 0, "b:1"),
        ("lost", "a", None, "c:1"),
    }


def test_a_circle_of_three_and_one_through_an_install() -> None:
    a = rows("a", "deliver c:1", "send a:1", "deliver b:1")
    b = rows("b", "deliver a:1", "send b:1", "deliver c:1")
    c = rows("c", "install deps=b:1", "send c:1", "deliver a:1")
    # The install is on the circle as well, but only deliveries have an order to break.
    assert flags(a, b, c) == {("order", "a", 0, "c:1"), ("order", "b", 0, "a:1")}


def test_an_unsent_delivery_on_a_circle_counts_as_unsent_only() -> None:
    a = rows("a", "deliver b:1", "send a:1")
    b = rows("b", "deliver a:1", "send b:1 dest=c")
    c = rows("c", "deliver b:1", "deliver a:1")
    assert flags(a, b, c) == {
        ("unsent", "a", 0, "b:1"),
        ("order", "b", 0, "a:1"),
        ("order", "c", 0, "b:1"),  # a:1 → b:1
    }


# install and restart


def test_an_install_brings_the_past_of_its_frontier() -> None:
    a = rows("a", "send a:1", "send a:2", "deliver b:1")
    b = rows("b", "deliver a:1", "send b:1", "deliver a:2")
    c = rows("c", "start", "install deps=b:1,a:0", "deliver a:2")
    assert flags(a, b, c) == set()
    # It is also what puts b:1, and a:1 before it, in the past of c:1.
    c = rows("c", "start", "install deps=b:1", "send c:1 deps=b:1", "deliver a:2")
    d = rows("d", "deliver c:1", "deliver a:1", "deliver a:2", "deliver b:1")
    a += rows("a", *["receive c:1"] * 3, "deliver c:1")[3:]
    b += rows("b", *["receive c:1"] * 3, "deliver c:1")[3:]
    assert flags(a, b, c, d) == {("order", "d", 0, "c:1")}


def test_a_restart_holds_exactly_its_frontier_and_its_past() -> None:
    a = rows("a", "send a:1", "send a:2", "send a:3")
    b = rows(
        "b",
        "deliver a:1",
        "deliver a:2",
        "deliver a:3",
        "crash",
        "restart deps=a:1",
        "deliver a:3",
        "deliver a:1",
    )
    assert flags(a, b) == {
        ("order", "b", 5, "a:3"),
        ("duplicate", "b", 6, "a:1"),
        ("lost", "b", None, "a:2"),
    }


def test_rows_after_a_restart_follow_its_frontier_and_not_what_was_forgotten() -> None:
    a = rows("a", "send a:1", "deliver b:1")
    b = rows("b", "deliver a:1", "restart deps=", "send b:1 deps=", "deliver a:1")
    assert flags(a, b, rows("c", "deliver b:1", "deliver a:1")) == set()


def test_frontier_entries_that_were_never_sent_count_once_each_and_hold_the_sends_below() -> None:
    a = rows("a", "send a:1", "send a:2")
    b = rows("b", "deliver a:1", "install deps=a:7,x:1", "deliver a:2", "restart deps=a:7")
    assert flags(a, b) == {
        ("unsent", "b", 1, "a:7"),
        ("unsent", "b", 1, "x:1"),
        ("duplicate", "b", 2, "a:2"),
        ("unsent", "b", 3, "a:7"),
    }


# before the trace


def test_a_trace_may_begin_midway() -> None:
    a = rows("a", "start", "restart deps=a:5,b:3", "send a:6 deps=b:3", "deliver b:4", "send a:7 deps=b:4")
    b = rows(
        "b",
        "install deps=a:4,b:3",
        "deliver a:5",
        "stable a:5",
        "send b:4 deps=a:5",
        "deliver a:6",
        "deliver a:7",
    )
    # a:5 is in no trace, but a's first row says that it was there.
    c = rows("c", "start", "deliver a:5", "deliver b:1", *[f"deliver {m}" for m in ("b:4", "a:6", "a:7")])
    assert flags(a, b, c) == set()


def test_beyond_what_first_rows_name_nothing_lies_before_the_trace() -> None:
    a = rows("a", "restart deps=a:5", "send a:6", "install deps=a:9,x:1")
    assert flags(a, rows("b", "deliver a:5", "deliver a:8", "deliver a:6")) == {
        ("unsent", "a", 2, "a:9"),
        ("unsent", "a", 2, "x:1"),
        ("unsent", "b", 1, "a:8"),
    }


def test_what_has_a_send_row_is_not_from_before_the_trace() -> None:
    b = rows("b", "restart deps=a:5", "stable a:1", "deliver a:1", "deliver a:4", "deliver a:1")
    assert flags(rows("a", "send a:1"), b) == {("unstable", "b", 1, "a:1"), ("duplicate", "b", 4, "a:1")}


def test_a_state_that_is_not_the_first_row_names_nothing_before_the_trace() -> None:
    assert flags(rows("a", "evict x:0", "install deps=x:1")) == {("unsent", "a", 1, "x:1")}


def test_the_first_rows_own_entry_is_the_previous_counter() -> None:
    assert flags(rows("a", "start", "install deps=a:5", "send a:6")) == set()
    assert flags(rows("a", "restart deps=a:5", "send a:1")) == {("gap", "a", 1, "a:1")}


def test_tags_that_reach_before_the_trace_are_passed_over() -> None:
    b = rows("b", "restart deps=b:2", "send b:3", "deliver a:6", "deliver a:7", "deliver a:8")
    # The previous send, then an entry of the tag, lie before the trace; the last tag can be judged.
    a = rows(
        "a",
        "restart deps=a:5",
        "send a:6 deps=b:3",
        "send a:7 deps=b:3,b:2",
        "send a:8 deps=b:3",
        "deliver b:3",
    )
    assert flags(a, b) == {("tag", "a", 3, "a:8")}
