"""Timelines: which messages of an incarnation are the same here and elsewhere, and how far each goes."""

from thence.core.group_words import is_known
from thence.core.groups import ALL, OPERATION, STARTED, plain, started, starts_named, timeline
from thence.members.spans import Spans
from thence.members.timelines import PAST_KEPT, Timelines, is_in
from thence.replica.group.ledger.payloads import carries

STARTS = ((0, 7), (3, 8))
"""Three messages under one start, then another one."""


def test_a_message_belongs_to_the_start_that_it_was_sent_under() -> None:
    assert [seq for seq in range(1, 9) if is_in(STARTS, 5, 7, seq)] == [1, 2, 3]
    assert [seq for seq in range(1, 9) if is_in(STARTS, 5, 8, seq)] == [4, 5]
    assert not is_in(STARTS, 5, 9, 4)
    assert not is_in((), 0, 7, 1)


def test_what_was_carried_counts_as_a_whole_only_of_who_is_past() -> None:
    timelines = Timelines({"c": STARTS}, {})
    timelines.carried((timeline("c", 9), 6))
    assert [timelines.reach("c", start, 5) for start in (7, 8, 9)] == [3, 5, 0]
    timelines.ended("c", 5)
    assert [timelines.reach("c", start, ALL) for start in (7, 8, 9)] == [3, 5, 6]


def test_a_trace_names_an_operation_by_its_dot_unless_another_has_it() -> None:
    timelines, other = Timelines({"c": STARTS}, {}), timeline("d", 1)
    timelines.carried((other, 2))
    places = [(timeline("c", 9), 5), (timeline("c", 9), 6), (timeline("d", 2), 2), (other, 3), ("e", 1)]
    assert timelines.traced(places, {"c": 5, "d": 0}.__getitem__) == (
        places[0], ("c", 6), places[2], ("d", 3), ("e", 1),
    )  # fmt: skip


def test_of_those_who_are_past_the_last_are_kept() -> None:
    timelines = Timelines({}, {})
    for number in range(1, PAST_KEPT + 3):
        timelines.carried((timeline(f"c~{number}", 1), 4))
    timelines.forget(Spans([("c", 1, PAST_KEPT + 1)]))
    assert not timelines.knows("c")
    assert timelines.knows("c~2")
    assert timelines.knows(f"c~{PAST_KEPT + 2}")


def test_a_trace_says_what_the_first_message_of_a_start_brings() -> None:
    assert carries(started([7], bytes((OPERATION,)) + b"x")) == ()


def test_the_first_message_names_the_start_that_its_sender_began_under() -> None:
    timelines = Timelines({"c": ((0, 7),)}, {})
    assert timelines.unnamed("c", 0, 7) == [7]
    assert timelines.unnamed("c", 0, 8) == [7, 8]
    for start in (7, 8):
        timelines.began("c", 0, start)
    assert timelines.starts["c"] == ((0, 7), (0, 8))
    assert timelines.unnamed("c", 1, 8) == []
    assert timelines.unnamed("c", 1, 9) == [9]
    assert [timelines.reach("c", start, 5) for start in (7, 8)] == [0, 5]
    assert Timelines({}, {}).unnamed("c", 0, 0) == []


def test_a_payload_names_at_most_two_starts() -> None:
    operation = bytes((OPERATION,)) + b"x"
    for starts in ([], [7], [7, 8]):
        payload = started(starts, operation)
        assert (starts_named(payload), plain(payload), is_known(payload)) == (starts, operation, True)
    assert not is_known(started([7, 8, 9], operation))
    assert not is_known(started([7], b""))
    assert not is_known(bytes((STARTED,)))
