"""When a changing group is at rest, when tallies agree, and that nodes with a bug are found out."""

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace
from support import broken_member, broken_reader

from thence.core.errors import ThenceError
from thence.lab.chaos.changes import Change, ChangingSetup
from thence.lab.chaos.changing import account_of_member, await_one_view, restless
from thence.lab.chaos.churn import Churn
from thence.lab.chaos.disks import NodeDisk
from thence.lab.chaos.expected import (
    FILLER,
    READERS,
    Tallying,
    acknowledged_file,
    compare,
    program,
    read_acknowledged,
    read_places,
    read_tally,
)
from thence.lab.chaos.forgotten import out_of_turn
from thence.lab.chaos.heard import Hearing, heard_file, read_heard
from thence.lab.chaos.plan import Setup
from thence.lab.chaos.quiescence import RestlessError, has_company, is_spare
from thence.local.cluster import Cluster
from thence.local.layout import open_layout
from thence.local.node import as_arguments
from thence.replica.group.surroundings import Applied, Operation
from thence.runtime.incarnations import read_written
from thence.runtime.status import GroupStatus, LogStatus, MemberStatus, Status


def quiet(line: str) -> None:
    """Progress is not shown."""


LOG = LogStatus(bytes=1, head=0, tail=1, durable=1, sync="no")
VIEW = ["a", "b~2"]


def status(name: str = "a", view: list[str] = VIEW, clock: int = 3, **changed: object) -> Status:
    """Of a member at rest, but for what is changed in its group."""
    incarnation = next(member for member in VIEW if member[0] == name)
    group = {"incarnation": incarnation, "phase": "member", "view": view, **changed}
    peers = [
        MemberStatus(name=other, address="", link="me" if other == name else "up") for other in ("a", "b")
    ]
    evicted = MemberStatus(name="z", address="", link="down", role="evicted")
    return Status(
        name=name, cluster="x", pid=1, uptime_s=1.0, state="running", boot=1, members=[*peers, evicted],
        sent=5, delivered=6, inbox=0, held=0, unstable=0, oldest_unstable_s=None, holding_stability_back=[],
        log=LOG, clock={"a": clock, "b~2": 7, "z": 1 if name == "a" else 2},
        group=GroupStatus(**group),  # type: ignore[arg-type]
    )  # fmt: skip


def test_a_member_at_rest_needs_no_link_to_those_who_are_gone() -> None:
    assert account_of_member(status()) == ""


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"phase": "returning"}, "it is returning"),
        ({"suspects": ["b~2"]}, "suspects b~2"),
        ({"departing": ["c"]}, "waits for the leave of c"),
        ({"orphans": 1200}, "1,200 operations are to be sent again"),
        ({"unread": 3}, "its program has missed 3 and not read them yet"),
    ],
)
def test_whatever_keeps_a_member_from_rest_is_told(changed: dict[str, object], said: str) -> None:
    assert account_of_member(status(**changed)) == said  # type: ignore[arg-type]


def test_members_at_rest_have_one_view_and_have_delivered_the_same_of_each_other() -> None:
    assert restless({"a": status("a"), "b": status("b")}) == {}
    assert restless({"a": status("a", view=["a"]), "b": status("b")}) == {"a": "sees a; members are a, b~2"}
    assert restless({"a": status("a", clock=1), "b": status("b")}) == {"a": "lacks 2 messages"}


def test_one_that_is_alone_on_its_side_is_not_told_to_leave() -> None:
    """It would refuse: what it has would be lost for those that it has evicted."""
    assert has_company(status("a"))
    assert not has_company(status("a", view=["a"]))
    assert not has_company(status("a", suspects=["b~2"]))
    assert not has_company(None)


def test_one_may_go_for_good_only_if_all_others_have_what_it_has_or_is_to_send_again() -> None:
    """Also its own messages: it may have carried in them what one that has left left to it."""
    b = replace(status("b"), clock={"a": 3, "b~2": 7, "z": 1})
    assert is_spare("a", {"a": status("a"), "b": b})
    assert not is_spare("a", {"a": status("a", clock=4), "b": b})
    assert not is_spare("a", {"a": status("a", orphans=1), "b": b})
    assert not is_spare("a", {"a": status("a", phase="returning"), "b": b})
    assert not is_spare("a", {"a": status("a")})


def test_a_group_that_never_agrees_is_told_of() -> None:
    told: list[str] = []
    with pytest.raises(RestlessError, match="a: sees a; members are a"):
        await_one_view(
            lambda: {"a": status("a", view=["a"]), "b": status("b")}, lambda: None, -1.0, told.append
        )


def applied(data: Path, *operations: Operation) -> Tallying:
    tally = Tallying(data, 10)
    for operation in operations:
        tally.apply(Applied(operation))
    return tally


ONE, OTHER = Operation("a", 1, b"one"), Operation("a", 2, b"other")


def test_tallies_are_equal_in_any_order_and_tell_operations_apart(tmp_path: Path) -> None:
    applied(tmp_path / "a", ONE, OTHER).write()
    applied(tmp_path / "b", OTHER, ONE).write()
    applied(tmp_path / "c", ONE, ONE).write()
    a, b, c = (read_tally(tmp_path / name) for name in "abc")
    assert a is not None
    assert b is not None
    assert c is not None
    assert compare({"a": a, "b": b}, {}) == ""
    assert compare({"a": a, "c": c}, {}) == "a and c have other operations of a"
    assert read_tally(tmp_path / "d") is None


def test_a_state_that_was_handed_over_is_tallied_on(tmp_path: Path) -> None:
    first = applied(tmp_path / "a", ONE)
    second = Tallying(tmp_path / "b", 10)
    second.install(first.state())
    second.apply(Applied(OTHER))
    second.write()
    applied(tmp_path / "a", ONE, OTHER).write()
    assert read_tally(tmp_path / "b") == read_tally(tmp_path / "a")


def test_what_was_acknowledged_and_is_not_there_is_told() -> None:
    tallies = {"a": {"a": (3, 1), "b": (2, 1)}}
    assert compare(tallies, {"a": {"a": 3}, "b": {"b": 2}}) == ""
    assert compare(tallies, {"b": {"b": 3}}) == "a has 2 operations of b; b acknowledged 3"


PATIENCE_S = 60.0
"""What a plan may take on a busy machine; it takes as long as its changes do."""

LOAD = ChangingSetup(
    Setup("graph", "no", 1 << 16, 256, 256, 8, rates=(40.0, 40.0, 40.0, 40.0)), founders=3, filler=1000
)


def run(folder: Path, changes: list[Change], node: Sequence[str] = program(1000)) -> Churn:
    """A round without Spark; its nodes are stopped at the end."""
    cluster = Cluster(
        open_layout(folder / "data", 4, changing=True),
        flags=as_arguments({"profile": "local", "allow_faults": True, "trace": folder / "trace"}),
        program=node,
    )
    with cluster:
        churn = Churn(cluster, LOAD, changes, quiet)
        churn.start()
        churn.run(PATIENCE_S, at_least_s=0.0)
        churn.calm()
        await_one_view(churn.statuses, churn.tidy, PATIENCE_S, quiet)
        members = churn.members
        assert set(cluster.stop(*members, grace_s=20.0).values()) == {0}
    folders = cluster.folders
    tallies = {name: read_tally(folders[name]) or {} for name in members}
    loyal = [*members, *churn.left]
    if wrong := compare(tallies, {name: churn.sure(read_acknowledged(folders[name])) for name in loyal}):
        raise ThenceError(wrong)
    for name in members:
        churn.forgotten.learn(read_places(folders[name]))
        assert out_of_turn(read_places(folders[name]), churn.put_back) == []
        if heard_file(folders[name]).exists():
            hearing = Hearing(churn.put_back.keys(), churn.forgotten.may_follow)
            hearing.hear(read_heard(folders[name]))
            hearing.compare(name, read_places(folders[name]), tallies[name])
            if hearing.wrong:
                raise ThenceError("; ".join(hearing.wrong))
    return churn


def test_one_joins_one_is_evicted_and_returns_one_leaves_and_nothing_is_lost(tmp_path: Path) -> None:
    plan = [
        Change(0.1, 0.2, "join", ("d",), ("b",)),
        Change(0.5, 1.2, "kill and evict", ("a",), ("b",)),
        Change(1.5, 1.6, "leave", ("b",)),
    ]
    churn = run(tmp_path, plan)
    assert sorted(churn.members) == ["a", "c", "d"]
    assert churn.left == {"b"}
    assert churn.forgotten.may_follow(("b", 1), ("b~2", 1))
    assert not churn.forgotten.may_follow(("a", 1), ("a~2", 1))
    assert churn.done["evictions of the dead"] == 1


def test_one_whose_disk_is_put_back_returns_and_nothing_that_others_know_is_lost(tmp_path: Path) -> None:
    churn = run(tmp_path, [Change(0.3, 1.8, "restore", ("a",))])
    assert sorted(churn.members) == ["a", "b", "c"]
    assert churn.done["restore"] == 1
    assert not (tmp_path / "data" / "a.copy").exists()
    written = read_written(tmp_path / "data" / "a")
    assert written is not None
    assert written.highest > 1, "it came back as another"
    since = f"a~{written.highest}", 1
    assert churn.forgotten.may_follow(("a", 1 << 40), since)
    assert not churn.forgotten.may_follow(("a", 1), since), "the copy had it"


def test_an_incarnation_that_sent_nothing_before_its_disk_was_copied_may_use_numbers_twice_too(
    tmp_path: Path,
) -> None:
    """Round 3001: the copy was taken in the moment in which the process had returned as `a~118`."""
    data = tmp_path / "a"
    (data / "oplog" / "118").mkdir(parents=True)
    acknowledged_file(data).write_text('{"a~3": 7}')
    assert NodeDisk("a", data, data / "log.txt").copy() == {"a~3": 7, "a~118": 0}
    assert NodeDisk("a", data, data / "log.txt").newest() == 118


def test_a_node_that_forgets_to_send_its_orphans_again_is_found_out(tmp_path: Path) -> None:
    """The eviction is wrong and comes while the one evicted is cut off: what it sends meanwhile reaches the
    others only when it is sent again."""
    plan = [Change(0.2, 2.2, "split and evict", ("a",), ("b", "a"), (("a", "b"), ("a", "c")))]
    with pytest.raises(ThenceError, match=r"operations of (a|b); (a|b) acknowledged"):
        run(tmp_path, plan, (sys.executable, broken_member.__file__, FILLER, "1000"))


def test_programs_without_a_state_get_everything_once_however_their_nodes_fare(tmp_path: Path) -> None:
    """One is killed, one evicted, one joins through one that has no state, one leaves and joins again."""
    plan = [
        Change(0.1, 0.2, "join", ("d",), ("a",)),
        Change(0.4, 0.6, "kill", ("b",)),
        Change(0.5, 1.2, "kill and evict", ("a",), ("c",)),
        Change(1.8, 1.9, "leave", ("b",)),
        Change(2.2, 2.3, "join", ("b",), ("a",)),
        Change(2.8, 3.6, "pause and evict", ("d",), ("a",)),
    ]
    churn = run(tmp_path, plan, program(1000, ("a", "b", "d")))
    assert sorted(churn.members) == ["a", "b", "c", "d"]
    assert sorted(heard_file(tmp_path / "data" / name).name for name in "abd") == sorted(
        path.name for path in (tmp_path / "data").glob("?.heard")
    )
    assert [path.name for path in churn.ended["b"]] == ["b.1"]
    assert len(read_heard(tmp_path / "data" / "a")) > 20


def test_a_node_that_tells_its_program_nothing_of_what_it_missed_is_found_out(tmp_path: Path) -> None:
    plan = [Change(0.2, 1.2, "kill and evict", ("a",), ("b",))]
    with pytest.raises(ThenceError, match="took effect and is neither told nor named in a Gap"):
        run(tmp_path, plan, (sys.executable, broken_reader.__file__, FILLER, "1000", READERS, "a"))
