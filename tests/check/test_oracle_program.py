"""The oracle on program order: over the incarnations of a process, and whatever message brings an operation.

In most of these runs the process c is evicted after c:1 and comes back as c~2.
"""

import pytest
from msgspec.structs import replace
from support.run_text import rows

from thence.check import judge
from thence.core.errors import TraceError
from thence.trace.schema import Event

Found = set[tuple[str, str, int | None, str]]

C = rows("c", "send c:1", "send c:2", "send c:3", "crash")
AGAIN = "process=c incarnation=2"


def flags(*nodes: list[Event]) -> Found:
    (verdict,) = judge([event for node in nodes for event in node])
    found = {(flag.verdict, flag.node, flag.pos, flag.message) for flag in verdict.flagged}
    assert len(found) == len(verdict.flagged)
    return found


def test_what_was_sent_again_comes_before_what_is_new() -> None:
    a = rows("a", "deliver c:1", "evict c:1", "deliver c~2:1", "deliver c~2:2")
    back = rows("c~2", f"install deps=c:1 {AGAIN}", "evict c:1", "send c~2:1 carries=c:2,c:3", "send c~2:2")
    assert flags(C, back, a) == set()
    late = rows("c~2", f"install deps=c:1 {AGAIN}", "evict c:1", "send c~2:1", "send c~2:2 carries=c:3,c:2")
    assert flags(C, late, a) == {("program", "a", 3, "c~2:2")}


def test_each_row_counts_once_and_each_node_for_itself() -> None:
    a = rows("a", "deliver c~2:1", "deliver c~2:2", "deliver c~2:3")
    back = rows("c~2", f"send c~2:1 {AGAIN}", "send c~2:2 carries=c:2,c:3", "send c~2:3 carries=c:1")
    c = rows("c", "send c:1", "send c:2", "send c:3", "evict c~2:0", "crash")
    b = rows("b", "deliver c~2:1", "evict c~2:1")
    for node in (a, b):
        node += rows(node[0].node, *["link"] * 8, "evict c:0")[8:]
    assert flags(c, back, a, b, rows("c~2", *["link"] * 4, "evict c:0")[4:]) == {
        ("program", "a", 1, "c~2:2"),
        ("program", "a", 2, "c~2:3"),
    }


def test_incarnations_are_compared_as_numbers_before_counters() -> None:
    a = rows("a", "deliver c~9:9", "deliver c~10:1", "deliver d:1")
    nine = rows("c~9", "send c~9:9 process=c incarnation=9", "deliver c~10:1", "deliver d:1")
    ten = rows("c~10", "deliver c~9:9", "send c~10:1 process=c incarnation=10", "deliver d:1")
    d = rows("d", "deliver c~10:1", "deliver c~9:9", "send d:1")
    assert flags(a, nine, ten, d) == {
        ("gap", "c~9", 0, "c~9:9"),
        ("order", "d", 0, "c~10:1"),
        ("program", "d", 1, "c~9:9"),
    }


def test_names_say_nothing_and_one_row_is_enough_wherever_it_stands() -> None:
    a = rows("a", "deliver c~2:1", "deliver c:1")
    one, two = rows("c", "send c:1", "deliver c~2:1"), rows("c~2", "send c~2:1", "deliver c:1")
    assert flags(a, one, two) == set()
    named = [two[0], replace(two[1], process="c", incarnation=2)]
    assert flags(a, one, named) == {("program", "a", 1, "c:1"), ("program", "c~2", 1, "c:1")}
    measured = [*two, *rows("c~2", *["link"] * 2, f"link {AGAIN}")[2:]]
    assert flags(a, one, measured) == {("program", "a", 1, "c:1"), ("program", "c~2", 1, "c:1")}


@pytest.mark.parametrize("column", ["process", "incarnation"])
def test_a_node_that_is_two_is_an_error(column: str) -> None:
    changed = {"process": ("c", "d"), "incarnation": (1, 2)}[column]
    both = rows("c", "start", "link")
    both = [replace(row, **{column: value}) for row, value in zip(both, changed, strict=True)]
    with pytest.raises(TraceError, match=f"node 'c' pos 1: another {column}"):
        judge(both)


def test_what_came_before_by_another_message_is_not_got_again() -> None:
    c = rows("c", "send c:1", "send c:2", "crash")
    back = rows("c~2", f"install deps=c:1 {AGAIN}", "send c~2:1 carries=c:2", "send c~2:2", "deliver c:2")
    back += rows("c~2", *["link"] * 4, "send c~2:3 carries=c:1,c:2")[4:]
    # First carried, then as it was sent, then carried once more; and the other way round.
    a = rows("a", *[f"deliver {m}" for m in ("c:1", "c~2:1", "c~2:2", "c:2", "c~2:3")])
    b = rows("b", *[f"deliver {m}" for m in ("c:1", "c:2", "c~2:1", "c~2:2", "c~2:3")])
    assert flags(c, back, a, b) == set()


def test_what_a_state_brings_is_held_with_what_it_carries() -> None:
    # The state of z is that of a: c~2:1 brought c:3, so c:2 comes too late; c:3 is not got again.
    c = rows("c", "send c:1", "send c:2", "send c:3", "crash")
    back = rows("c~2", f"start {AGAIN}", "send c~2:1 carries=c:3", "send c~2:2 carries=c:3", "evict c:0")
    back += rows("c~2", *["link"] * 4, "send c~2:3 carries=c:2")[4:]
    z = rows("z", "install deps=c~2:1", "evict c:0", "deliver c~2:2", "deliver c~2:3")
    assert flags(c, back, z) == {("program", "z", 3, "c~2:3")}
    # A restart forgets it again.
    z = rows("z", "deliver c~2:1", "evict c:0", "restart deps=", *[f"deliver c~2:{k}" for k in (1, 2, 3)])
    assert flags(c, back, z) == {("program", "z", 5, "c~2:3")}
    z = rows(
        "z", "install deps=c~2:1", "evict c:0", "restart deps=", "deliver c~2:1", "deliver c~2:2", "crash"
    )
    assert flags(c, back, z) == set()


def test_own_sends_are_no_rows_that_count_but_what_a_returner_delivers_is() -> None:
    back = rows("c~2", f"evict c:0 {AGAIN}", "send c~2:1", "send c~2:2 carries=c:3", "deliver b:1")
    b = rows("b", "evict c:0", "send b:1 carries=c:2", "crash")
    assert flags(C, back, b) == {("program", "c~2", 3, "b:1")}


def test_a_message_that_carries_nothing_brings_nothing() -> None:
    # c~2:1 changes the membership and is no operation: what is sent again does not come after one.
    back = rows("c~2", f"evict c:0 {AGAIN}", "send c~2:1 carries=-:0", "send c~2:2 carries=c:1,c:2,c:3")
    a = rows("a", "evict c:0", "deliver c~2:1", "deliver c~2:2")
    assert flags(C, back, a) == set()
    plain = [replace(row, carries=[]) if row.pos == 1 else row for row in back]
    assert flags(C, plain, a) == {("program", "a", 2, "c~2:2")}


def test_an_operation_needs_no_send_row_nor_its_origin_any() -> None:
    back = rows("c~2", f"send c~2:1 {AGAIN}", "send c~2:2 carries=c:7", "send c~2:3 carries=x:2")
    back += rows("c~2", *["link"] * 3, "send c~2:4 carries=x:1,y:1")[3:]
    a = rows("a", *[f"deliver c~2:{k}" for k in (1, 2, 3, 4)])
    assert flags(back, a) == {("program", "a", 1, "c~2:2"), ("program", "a", 3, "c~2:4")}


def test_what_lies_before_the_trace_is_neither_got_nor_held() -> None:
    back = rows("c~2", f"restart deps=c~2:4,c:5 {AGAIN}", "send c~2:5", "send c~2:6 carries=c:5")
    a = rows("a", "deliver c~2:5", "deliver c~2:6", "deliver b:1")
    b = rows("b", "deliver c~2:5", "deliver c~2:6", "send b:1 carries=c:6")
    back += rows("c~2", *["link"] * 3, "deliver b:1")[3:]
    # c:5 and c~2:4 are from before; c:6 is not, and comes after c~2:5.
    assert flags(a, b, back) == {("program", "a", 2, "b:1"), ("program", "c~2", 3, "b:1")}


def test_the_first_send_of_a_dot_says_what_it_carries() -> None:
    c = rows("c", "start", "send c:1 carries=x:1", "send c:1 carries=x:9", "send c:2 carries=x:2")
    assert flags(c, rows("a", "deliver c:1", "deliver c:2")) == {("gap", "c", 2, "c:1")}


def test_two_in_the_same_place_of_a_program_do_not_overtake_each_other() -> None:
    one, two = rows("c", "send c:1", "deliver d:1"), rows("d", "send d:1 process=c", "deliver c:1")
    assert flags(one, two) == set()


def test_a_subscription_without_a_channel_is_refused() -> None:
    with pytest.raises(TraceError, match="a subscribe row that names no channel"):
        judge(rows("a", "subscribe"))
