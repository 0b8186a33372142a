"""Operations that outlive their messages: each takes effect once, and none before its causes."""

from thence.members.operations import Operation, Operations
from thence.members.spans import Spans

ONE, TWO, THREE = (Operation("x", 1, b"1"), Operation("b", 2, b"2"), Operation("b", 3, b"3"))


def nothing(member: str) -> int:
    return 0


def test_a_carried_operation_takes_effect_once() -> None:
    operations = Operations()
    assert operations.was_carried(ONE, nothing)
    assert not operations.was_carried(ONE, nothing)
    assert not operations.came(ONE)


def test_an_operation_that_came_as_itself_is_not_carried() -> None:
    operations = Operations()
    assert operations.came(ONE)
    assert not operations.was_carried(ONE, lambda _: 1)


def test_orphans_wait_for_the_first_that_is_not_ready() -> None:
    operations = Operations(orphans=[ONE, TWO, THREE])
    assert operations.ready(lambda operation: operation.origin == "b", nothing, 9) == []
    assert operations.ready(lambda _: True, nothing, 2) == [ONE, TWO]
    assert operations.ready(lambda _: True, nothing, 0) == []
    assert operations.ready(lambda _: True, nothing, 2) == [THREE]
    assert not operations.orphans


def test_an_orphan_that_came_after_all_is_none() -> None:
    operations = Operations(orphans=[ONE, TWO])
    came = {"x": 1}.get
    assert operations.ready(lambda one: one.origin == "b", lambda name: came(name, 0), 9) == [TWO]


def test_what_was_carried_of_one_who_is_past_is_forgotten() -> None:
    operations = Operations()
    for place in [("x", 1), ("b", 2), ("b", 3), ("b~2", 1)]:
        operations.remember(place)
    operations.forget(Spans([("b", 1, 1)]))
    assert operations.carried == {("x", 1), ("b~2", 1)}
    assert operations.listed == [("x", 1), ("b~2", 1)]
