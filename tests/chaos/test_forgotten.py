"""What may come late in a trial with a changing group: what its process had forgotten, and nothing else."""

import pytest

from thence.check.forgotten import parse_place
from thence.core.groups import Place
from thence.lab.chaos.forgotten import CountedForgotten, out_of_turn
from thence.lab.chaos.heard import Places

SENT: Places = {"c": [(1, 3), (5, 9)], "c~2": [(2, 4)], "c~3": [(1, 2)], "c~90": [(1, 5)], "d": [(1, 4)]}


def forgotten() -> CountedForgotten:
    found = CountedForgotten()
    found.learn(SENT)
    return found


def may(found: CountedForgotten, late: str, early: str) -> bool:
    return found.may_follow(parse_place(late), parse_place(early))


def test_nothing_comes_late_of_a_process_that_has_forgotten_nothing() -> None:
    found = forgotten()
    found.lose("d", 1)
    assert not may(found, "c:3", "c~2:2")


@pytest.mark.parametrize(
    ("late", "early", "well"),
    [
        ("c:3", "c~3:1", True),
        ("c~2:2", "c~3:1", True),
        ("c:3", "c~2:2", False),  # that was sent while it still knew the other
        ("c:3", "c:5", False),
        ("c~3:1", "c~90:1", False),  # it has forgotten nothing since
        ("d:3", "d~2:1", False),
    ],
)
def test_what_went_with_a_disk_may_come_after_what_was_sent_since(late: str, early: str, well: bool) -> None:
    found = forgotten()
    found.lose("c", 2)
    assert may(found, late, early) is well


@pytest.mark.parametrize(
    ("late", "early", "well"),
    [
        ("c~3:1", "c~90:1", True),
        ("c~2:4", "c~90:1", True),
        ("c~2:3", "c~90:1", False),  # the second of its operations was in the copy
        ("c:9", "c~90:1", False),
        ("c~2:4", "c~3:1", True),  # one of them was forgotten, or both: that may be one it has sent since
        ("c~3:1", "c~3:2", False),  # both were forgotten
        ("c~2:4", "c~2:4", True),  # one of them was sent before the restart, or after it
    ],
)
def test_a_disk_that_is_put_back_knows_what_it_knew_when_it_was_copied(
    late: str, early: str, well: bool
) -> None:
    found = forgotten()
    found.lose("c", 3, {"c~2": 2})
    assert may(found, late, early) is well


def test_a_copy_that_was_taken_while_it_returned_has_what_both_incarnations_had_sent() -> None:
    found = forgotten()
    found.lose("c", 3, {"c~2": 2, "c~3": 0})
    assert not may(found, "c:9", "c~90:1")
    assert not may(found, "c~2:3", "c~90:1")
    assert may(found, "c~2:4", "c~90:1")
    assert may(found, "c~3:1", "c~90:1")


def test_each_time_counts_by_itself() -> None:
    found = forgotten()
    found.lose("c", 1)
    found.lose("c", 3, {"c~2": 3, "c~3": 1})
    assert may(found, "c:3", "c~2:2")
    assert not may(found, "c~2:3", "c~3:1")
    assert may(found, "c~3:2", "c~90:1")


def test_operations_of_an_incarnation_take_effect_in_the_order_in_which_they_were_sent() -> None:
    assert out_of_turn(SENT, {}) == []
    assert out_of_turn({"c": [(1, 3), (5, 9), (4, 4)], "d": [(1, 2), (2, 2)]}, {}) == ["c", "d"]
    assert out_of_turn({"c": [(1, 3), (5, 9), (4, 4)]}, {"c": 3}) == []


def test_findings_name_operations_as_traces_do() -> None:
    places: list[Place] = [parse_place("c~2:4"), parse_place("c~2~429:14")]
    assert places == [("c~2", 4), ("c~2~429", 14)]
