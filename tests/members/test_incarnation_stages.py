"""The stages of an incarnation: ways that storms and schedules do not take, one by one, and what a peer that
lies cannot do."""

from thence.core.groups import FLUSH, JOIN, LEAVE
from thence.members.group import Final, GroupView
from thence.members.stages import IncarnationStage as Is


def deliver(group: GroupView, origin: str, kind: int, *named: str, seq: int = 1) -> None:
    group.deliver(origin, seq, kind, named, lambda _: 5)


def test_a_stranger_is_let_in() -> None:
    group = GroupView("a", {"a", "b"}, strangers={"x"})
    assert group.stage("x") is Is.STRANGER
    deliver(group, "b", JOIN, "x")
    assert (group.stage("x"), group.strangers, group.view) == (Is.MEMBER, set(), {"a", "b", "x"})


def test_a_stranger_is_named_by_a_flush() -> None:
    group = GroupView("a", {"a", "b"}, strangers={"x"})
    deliver(group, "b", FLUSH, "x")
    assert (group.stage("x"), group.strangers, group.suspects) == (Is.EVICTED, set(), {"x"})


def test_a_suspect_whose_join_comes_late_is_in_the_view_until_all_have_flushed_it() -> None:
    group = GroupView("a", {"a", "b", "c"})
    deliver(group, "b", FLUSH, "x")
    assert (group.stage("x"), group.view) == (Is.UNSEEN_SUSPECT, {"a", "b", "c"})
    deliver(group, "c", JOIN, "x")
    assert (group.stage("x"), group.view) == (Is.SUSPECT, {"a", "b", "c", "x"})
    deliver(group, "c", FLUSH, "x")
    assert (group.stage("x"), group.view) == (Is.EVICTED, {"a", "b", "c"})


def test_a_member_that_has_left_may_be_suspected_still() -> None:
    group = GroupView("a", {"a", "b", "x"})
    deliver(group, "x", LEAVE, seq=4)
    group.leave_is_stable("x", lambda _: 4)
    assert group.stage("x") is Is.LEFT
    deliver(group, "b", FLUSH, "x")
    assert (group.stage("x"), group.suspects, group.open) == (Is.LEFT_SUSPECT, {"x"}, set())
    assert group.forget(lambda _: 4) == ["x"]
    assert (group.stage("x"), group.suspects, group.gone) == (Is.PAST, set(), {})


def test_the_leave_of_a_suspect_settles_before_all_have_flushed_it() -> None:
    group = GroupView("a", {"a", "b", "c", "x"})
    deliver(group, "x", LEAVE, seq=4)
    deliver(group, "b", FLUSH, "x")
    assert (group.stage("x"), group.departing) == (Is.DEPARTING_SUSPECT, {"x": 4})
    group.leave_is_stable("x", lambda _: 4)
    assert (group.stage("x"), group.departing) == (Is.LEFT_SUSPECT, {})
    assert group.gone == {"x": Final(4, False)}


def test_numbers_that_were_never_named_are_past_once_they_are_closed() -> None:
    group = GroupView("a", {"a", "b"})
    group.closing["b", 7] = (("x", 1, 3),)
    assert group.stage("x~2") is Is.UNKNOWN
    group.forget(lambda _: 7)
    assert group.stage("x~2") is Is.PAST


def test_what_is_past_is_not_named_again() -> None:
    group = GroupView("a", {"a", "b"})
    group.past.add("x", 1, 3)
    deliver(group, "b", JOIN, "x~2")
    deliver(group, "b", FLUSH, "x~2")
    group.add_strangers(["x~2"])
    assert (group.stage("x~2"), group.named()) == (Is.PAST, {"a", "b"})


def test_a_peer_that_lies_lets_no_leaver_in_again() -> None:
    """Members would differ by what comes first, the leave or the lie."""
    group = GroupView("a", {"a", "b", "x"})
    deliver(group, "x", LEAVE, seq=4)
    deliver(group, "b", JOIN, "x")
    assert (group.stage("x"), group.view, group.departing) == (Is.DEPARTING, {"a", "b"}, {"x": 4})


def test_a_leave_of_one_that_is_no_member_means_nothing() -> None:
    group = GroupView("a", {"a", "b"}, strangers={"y"})
    for name in ("x", "y"):
        deliver(group, name, LEAVE)
    assert (group.stage("x"), group.stage("y"), group.departing) == (Is.UNKNOWN, Is.STRANGER, {})


def test_a_state_that_contradicts_itself_is_read_as_its_later_stage() -> None:
    """It comes from a contact that lies. Of itself a member knows better."""
    gone, every = {"x": Final(3, True)}, {"a", "x", "y", "z"}
    group = GroupView("a", every, every - {"z"}, gone, {"x": 3, "y": 4}, strangers=every)
    assert [group.stage(name) for name in "axyz"] == [
        Is.MEMBER,
        Is.EVICTED,
        Is.DEPARTING_SUSPECT,
        Is.MEMBER,
    ]
    assert (group.view, group.suspects) == ({"a", "z"}, {"x", "y"})
    assert (group.gone, group.departing, group.strangers) == (gone, {"y": 4}, set())


def test_a_leaver_is_no_stranger_to_itself() -> None:
    """One that returns names it as a companion. A leaver that looked for itself would stay until its time is
    over, and go in disorder."""
    group = GroupView("a", {"a", "b"})
    deliver(group, "a", LEAVE)
    assert group.stage("a") is Is.UNKNOWN
    group.add_strangers(["a", "x"])
    assert (group.stage("a"), group.strangers, group.missed()) == (Is.UNKNOWN, {"x"}, ["x"])
    again = GroupView("a", {"b"}, strangers={"a", "x"})
    assert (again.stage("a"), again.missed()) == (Is.UNKNOWN, ["x"])
