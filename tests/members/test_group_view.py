"""The view of a changing group: what each message does to it."""

from thence.core.groups import CARRY, FLUSH, JOIN, LEAVE
from thence.members.group import Changes, Final, GroupView


def view(*members: str, me: str = "a", **gone: Final) -> GroupView:
    return GroupView(me, set(members), gone=gone)


def deliver(group: GroupView, origin: str, kind: int, *named: str, seq: int = 1, count: int = 5) -> Changes:
    return group.deliver(origin, seq, kind, named, lambda _: count)


def test_a_join_lets_a_process_in() -> None:
    group = view("a", "b")
    assert deliver(group, "b", JOIN, "c").joined == ["c"]
    assert group.side == {"a", "b", "c"}


def test_a_new_incarnation_makes_the_old_one_a_suspect() -> None:
    group = view("a", "b", "c")
    changes = deliver(group, "b", JOIN, "c~2")
    assert (changes.joined, changes.suspected) == (["c~2"], ["c"])
    assert group.unflushed_suspects() == ["c"]


def test_an_old_incarnation_that_comes_late_is_a_suspect_itself() -> None:
    group = view("a", "b", "c~2")
    assert deliver(group, "b", JOIN, "c").suspected == ["c"]


def test_who_is_gone_does_not_come_back() -> None:
    group = view("a", "b", c=Final(3, True))
    assert not deliver(group, "b", JOIN, "c")


def test_a_leaver_is_out_at_once_and_gone_when_all_know() -> None:
    group = view("a", "b", "c")
    assert deliver(group, "c", LEAVE, seq=9).left == ["c"]
    assert (group.side, group.departing) == ({"a", "b"}, {"c": 9})
    group.leave_is_stable("c", lambda _: 9)
    assert group.gone == {"c": Final(9, False)}


def test_an_eviction_waits_for_all_on_the_side() -> None:
    group = view("a", "b", "c", "x")
    assert group.suspect(["x"]).suspected == ["x"]
    assert not deliver(group, "a", FLUSH, "x").evicted
    assert not deliver(group, "b", FLUSH, "x").evicted
    assert deliver(group, "c", FLUSH, "x").evicted == ["x"]
    assert group.gone == {"x": Final(5, True)}
    assert group.view == {"a", "b", "c"}


def test_a_flush_is_joined() -> None:
    group = view("a", "b", "x")
    assert deliver(group, "b", FLUSH, "x").suspected == ["x"]


def test_two_suspects_are_settled_together() -> None:
    group = view("a", "b", "x", "y")
    group.suspect(["x", "y"])
    assert not deliver(group, "b", FLUSH, "x").evicted
    assert deliver(group, "b", FLUSH, "y").evicted == ["x", "y"]


def test_no_member_waits_for_a_leaver() -> None:
    group = view("a", "b", "x")
    group.suspect(["x"])
    assert deliver(group, "b", LEAVE).evicted == ["x"]


def test_a_suspect_that_had_left_is_settled_by_the_stability_of_its_leave() -> None:
    group = view("a", "b", "x", "y")
    deliver(group, "x", LEAVE, seq=4)
    deliver(group, "b", FLUSH, "x", "y")
    assert group.gone.keys() == {"x", "y"}


def test_a_joiner_owes_a_flush_of_all_suspects_settled_or_not() -> None:
    group = GroupView("z", {"a", "z"}, {"x", "y"}, {"x": Final(2, True)})
    assert group.unflushed_suspects() == ["x", "y"]


def test_a_leaver_owes_nothing() -> None:
    group = view("a", "b", "x")
    deliver(group, "a", LEAVE, seq=3)
    deliver(group, "b", FLUSH, "x")
    assert (group.leaving, group.unflushed_suspects()) == (3, [])


def test_no_member_suspects_itself() -> None:
    group = view("a", "b")
    assert not deliver(group, "b", FLUSH, "a").suspected
    assert not group.suspect(["a", "stranger"]).suspected


def test_other_messages_change_nothing() -> None:
    group = view("a", "b")
    assert not deliver(group, "b", CARRY)


def test_a_joiners_flush_speaks_for_those_who_were_past_when_it_was_let_in() -> None:
    """Or a member that has not settled them yet would wait for it for ever."""
    view = GroupView("a", {"a", "b", "x"})
    view.suspect(["x"])
    view.deliver("a", 1, FLUSH, ("x",), lambda _: 0)
    view.deliver("b", 1, JOIN, ("z",), lambda _: 0)
    view.deliver("b", 2, FLUSH, ("x",), lambda _: 0)
    assert view.open == {"x"}
    view.deliver("z", 1, FLUSH, (), lambda _: 0, [("x", 1, 1)])
    assert view.open == set()


def test_a_closed_stranger_is_past_when_all_have_heard_it() -> None:
    group = GroupView("a", {"a", "b", "c~4"}, gone={"c~2": Final(3, True)})
    group.closing["b", 7] = (("c", 1, 3), ("d", 1, 1))
    assert group.forget(lambda _: 6) == []
    assert list(group.past) == []
    assert group.forget(lambda name: 7 if name == "b" else 0) == []
    assert list(group.past) == [("c", 1, 1), ("c", 3, 3), ("d", 1, 1)], "c~2 was known, and may not be stable"
    assert group.forget(lambda _: 7) == ["c~2"]
    assert list(group.past) == [("c", 1, 3), ("d", 1, 1)]


def test_attempts_that_are_closed_are_past_with_those_around_them() -> None:
    """Not before: a contact may have let one of them in all the same."""
    group = view("a", "b", "c~5", c=Final(3, True))
    group.closed.add("c", 2, 4)
    group.closing["b", 7] = (("c", 1, 1),)
    assert group.forget(lambda _: 7) == ["c"]
    assert list(group.past) == [("c", 1, 1)]
    deliver(group, "c~5", LEAVE, seq=3)
    group.leave_is_stable("c~5", lambda _: 3)
    assert group.forget(lambda _: 7) == ["c~5"]
    assert list(group.past) == [("c", 1, 5)]
