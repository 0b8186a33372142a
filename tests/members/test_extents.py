"""How far a program has come: by counters, and by the starts that messages were sent under."""

from thence.core.groups import ALL, Extent, Starts, timeline
from thence.members.extents import Progress
from thence.members.timelines import Timelines

FIRST, SECOND, OTHER = 11, 22, 33
C1, C2, C3 = timeline("c", FIRST), timeline("c", SECOND), timeline("c", OTHER)
STARTS: Starts = ((0, FIRST), (5, SECOND))
HAD = Extent({"b": 3, "c": 8, C1: 5, C2: 8}, (("a", 1, 2),), ((C3, 6), ("b", 9)))


def test_one_operation_under_either_name_is_the_same() -> None:
    progress, exactly = Progress(HAD), Timelines({"c": STARTS}, {}).exactly
    for seq, had in ((5, True), (8, True), (9, False)):
        assert progress.covers(("c", seq), exactly) is had
    assert progress.covers((C2, 8))
    assert not progress.covers((C2, 9))


def test_two_operations_under_one_counter_are_two() -> None:
    """c was put back to its fifth message, and gave counters again."""
    progress, other = Progress(HAD), Timelines({"c": ((0, FIRST), (5, OTHER))}, {})
    assert progress.covers(("c", 5), other.exactly)
    assert progress.covers(("c", 6), other.exactly), "that one it had out of a CARRY"
    assert not progress.covers(("c", 7), other.exactly)
    assert progress.count("c", other.starts["c"]) == 5
    assert progress.count("c", STARTS) == 8
    assert progress.count("c") == 8


def test_where_no_starts_are_known_counters_are_all_there_is() -> None:
    progress = Progress(HAD)
    assert progress.covers(("b", 3), Timelines({"b": ((0, 7),)}, {}).exactly)
    assert progress.covers(("b", 9))
    assert not progress.covers(("b", 4))
    assert not Progress(None).covers(("b", 1))


def test_where_the_program_knew_no_starts_a_name_with_one_stands_for_the_counter() -> None:
    progress = Progress(HAD)
    assert progress.covers((timeline("b", 7), 3))
    assert progress.covers((timeline("b", 7), 9))
    assert not progress.covers((timeline("b", 7), 4))


def test_of_one_that_is_past_another_timeline_was_not_had() -> None:
    """Its disk was put back since, and it gave counters again."""
    progress = Progress(HAD._replace(past=(("a", 1, 2), ("c", 1, 1))))
    assert progress.covers((C2, 8))
    assert progress.covers(("c", 8)), "without a start nothing tells it apart"
    assert progress.covers((C3, 6))
    assert not progress.covers((C3, 7))


def test_of_who_is_past_everything_was_had() -> None:
    progress = Progress(HAD)
    assert progress.count("a~2", ((0, 1),)) == ALL
    assert progress.covers(("a~2", 77))
    assert not progress.covers(("a~3", 1))
