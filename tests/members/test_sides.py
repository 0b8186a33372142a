"""Who returns to whom, when two sides have turned away from each other."""

from itertools import combinations

from thence.members.sides import Course, course

ALL = frozenset("abcde")


def test_one_who_was_evicted_by_its_own_side_returns() -> None:
    assert course("b", {"b", "c"}, {"a", "b", "c"}, {"a"}) is Course.RETURN


def test_unless_more_are_left_without_those_who_evicted_it() -> None:
    assert course("b", {"b"}, {"a", "b", "c"}, {"a", "c"}) is Course.SUSPECT


def test_the_smaller_side_returns_and_the_larger_says_so() -> None:
    assert course("c", {"c"}, {"a", "b"}, {"a", "b"}) is Course.ANSWER
    assert course("a", {"a", "b"}, {"c"}, {"c"}) is Course.RETURN


def test_of_two_equal_sides_the_one_without_the_smallest_member_returns() -> None:
    assert course("b", {"b"}, {"a"}, {"a"}) is Course.ANSWER
    assert course("a", {"a"}, {"b"}, {"b"}) is Course.RETURN


def test_of_two_sides_that_do_not_overlap_exactly_one_returns() -> None:
    sides = [set(side) for size in (1, 2, 3) for side in combinations(sorted(ALL), size)]
    for one in sides:
        for other in sides:
            if one.isdisjoint(other):
                courses = {course(min(other), other, one, one), course(min(one), one, other, other)}
                assert courses == {Course.RETURN, Course.ANSWER}


def test_members_who_have_turned_away_do_not_make_a_side_larger() -> None:
    """d is told by a stranger; of its own side of four, three go on without it."""
    assert course("x", {"x", "y"}, {"a", "b", "c", "d"}, {"d"}) is Course.RETURN


def test_sides_that_look_the_same_wait() -> None:
    assert course("c", {"a", "c"}, {"a", "b"}, {"a", "b"}) is Course.WAIT
