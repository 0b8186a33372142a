"""A process in a changing group: what it refuses, what its application is told, what it remembers."""

import pytest
from support.schedules_groups import Play, without

from thence.core.errors import PeerError, UsageError
from thence.core.groups import CARRY, OPERATION, Data, NamedMessage, Piece, Receipt, Running
from thence.members.operations import Operation
from thence.replica.group.ledger.payloads import Carried, carry_payload
from thence.replica.group.process.node import GroupNode
from thence.replica.group.settings import GroupSettings


def node(play: Play, name: str) -> GroupNode:
    found = play.processes[name].node
    assert found is not None
    return found


def test_what_makes_no_sense_is_refused() -> None:
    play = Play("abc").together("ab")
    a, c = node(play, "a"), node(play, "c")
    for call in (
        lambda: a.evict("a", play.now),
        lambda: a.evict("unknown", play.now),
        lambda: a.found(play.now),
        lambda: a.join(play.now),
        lambda: c.evict("a", play.now),
        lambda: c.broadcast([b""], play.now),
        lambda: Play("z").processes["z"].node.join(0),  # type: ignore[union-attr]
    ):
        with pytest.raises(UsageError):
            call()


def test_a_suspect_is_not_evicted_twice() -> None:
    play = Play("abc").together("abc")
    assert node(play, "a").evict("c", play.now) == "c"
    with pytest.raises(UsageError, match="already"):
        node(play, "a").evict("c", play.now)


def test_a_leaver_sends_and_evicts_no_more() -> None:
    play = Play("ab").together("ab")
    play.leaves("a")
    assert node(play, "a").status == "leaving"
    with pytest.raises(UsageError, match="leaving"):
        node(play, "a").broadcast([b""], play.now)
    with pytest.raises(UsageError, match="leaving"):
        node(play, "a").evict("b", play.now)


def test_the_application_is_told_who_is_in() -> None:
    play = Play("abc").together("abc")
    play.evicts("a", "c")
    play.passes(0.5)
    assert play.processes["a"].application.views[:4] == [("a",), ("a", "b"), ("a", "b", "c"), ("a", "b")]


def test_the_application_is_told_of_operations_that_the_group_never_had() -> None:
    play = Play("abc").together("abc")
    play.cuts("ca", "cb")
    play.evicts("a", "c")
    play.send("c")
    play.passes(1)
    assert play.ends_well() == ""
    assert play.processes["c"].application.orphans == [("c", 1)]
    assert all(("c", 1) in process.application.applied for process in play.processes.values())
    assert play.me("c") == "c~2"


def test_a_member_comes_back_from_its_disk_as_it_was() -> None:
    play = Play("abc").together("abc")
    for name in "abcabc":
        play.send(name)
    play.passes(0.02)
    before = node(play, "b").member
    assert before is not None
    vector, context, order = (
        before.ledger.vector(),
        before.ledger.frontier(),
        list(play.processes["b"].application.order),
    )
    play.crash("b")
    play.boot("b")
    after = node(play, "b").member
    assert after is not None
    assert (after.me, after.ledger.vector(), after.ledger.frontier()) == ("b", vector, context)
    assert play.processes["b"].application.order == order
    assert play.ends_well() == ""


def test_a_step_that_a_crash_cuts_short_happened_or_did_not() -> None:
    play = Play("ab").together("ab")
    for _ in range(20):
        play.crash("b", torn="written")
        play.send("b")
        play.boot("b")
        play.send("a")
        play.passes(0.1)
    assert play.ends_well() == ""


def test_no_number_is_used_for_two_attempts() -> None:
    play = Play("az", GroupSettings(join_timeout_us=1_000_000)).together("a")
    play.cuts("az")
    play.join("z")
    play.passes(3.5)
    used = play.processes["z"].shelf.highest
    assert used >= 3
    play.crash("z")
    play.boot("z")
    play.join("z")
    play.passes(0.1)
    assert play.processes["z"].shelf.highest > used


def test_without_its_disk_a_process_is_another_one() -> None:
    play = Play("ab").together("ab")
    play.send("b")
    play.passes(1)
    play.lose_disk("b")
    play.boot("b")
    play.join("b")
    play.passes(5)
    assert play.me("b") not in ("", "b")
    assert play.ends_well() == ""


def test_silence_evicts_where_it_is_configured_and_a_majority_speaks() -> None:
    play = Play("abc", GroupSettings(silence_us=3_000_000)).together("abc")
    play.crash("c")
    play.processes["c"].dead = True
    play.passes(10)
    assert play.unsettled() == ""
    play.cuts("ab")
    play.passes(10)
    view = node(play, "a").member
    assert view is not None
    assert view.view.suspects == {"c"}, "one of two is no majority"


def test_a_message_that_cannot_have_been_sent_is_a_peers_error() -> None:
    play = Play("ab").together("ab")
    lie = NamedMessage("b", 1, (("a", 99),), bytes((OPERATION,)))
    with pytest.raises(PeerError):
        node(play, "a").receive("b", Data("b", "a", (lie,)), play.now)


@pytest.mark.parametrize("body", [b"", b"\x01", b"\x03garbage", b"\x04\xff", b"\x09what is this"])
def test_a_message_that_makes_no_sense_is_a_peers_error_and_gets_no_further(body: bytes) -> None:
    play = Play("ab").together("ab")
    a = node(play, "a")
    with pytest.raises(PeerError):
        a.receive("b", Data("b", "a", (NamedMessage("b", 1, (), body),)), play.now)
    assert a.waiting == 0
    play.send("b")
    assert play.ends_well() == ""


def test_a_message_beyond_what_was_agreed_on_is_a_peers_error() -> None:
    play = Play("abc").together("abc")
    play.cuts("ca", "cb")
    play.evicts("a", "c")
    play.passes(1)
    late = NamedMessage("c", 7, (), bytes((OPERATION,)))
    with pytest.raises(PeerError):
        node(play, "a").receive("b", Data("b", "a", (late,)), play.now)


def test_strangers_are_not_listened_to() -> None:
    play = Play("ab").together("ab")
    a = node(play, "a")
    assert a.member is not None
    before = a.member.ledger.vector()
    a.receive("s", Data("s", "a", (NamedMessage("s", 1, (), bytes((OPERATION,))),)), play.now)
    a.receive("b", Data("b", "a~2", (NamedMessage("b", 1, (), bytes((OPERATION,))),)), play.now)
    a.receive("s", Receipt("s", {"s": 9}, (), (), Running("s", "s", "", 1)), play.now)
    assert a.member.ledger.vector() == before
    assert not a.waiting


def test_what_the_application_does_not_take_is_bounded() -> None:
    play = Play("ab", GroupSettings(pending_max=10), take_us=10**9)
    play.call("a", lambda a: a.found(0))
    play.join("b")
    play.passes(1)
    for _ in range(50):
        play.send("a")
    play.passes(5)
    assert node(play, "b").waiting <= 10


def test_a_member_that_was_written_down_comes_back_as_it_was_and_its_log_is_short() -> None:
    play = Play("abc", GroupSettings(history_bytes=1)).together("abc")
    sizes = []
    for _ in range(4):
        for _ in range(150):
            play.send("b", bytes(100))
        play.passes(2)
        b = node(play, "b")
        assert b.checkpoint(play.now)
        log = b._lives.log
        assert log is not None
        sizes.append(log.size_bytes)
    assert sizes[-1] < 2 * sizes[0], "what all members have is not kept"
    play.send("a")
    play.send("b")
    play.passes(0.02)
    before = node(play, "b").member
    assert before is not None
    vector, order = before.ledger.vector(), list(play.processes["b"].application.order)
    rows = len(play.diaries["b"].rows)
    play.crash("b")
    play.boot("b")
    after = node(play, "b").member
    assert after is not None
    assert (after.ledger.vector(), play.processes["b"].application.order) == (vector, order)
    assert len(play.diaries["b"].rows) == rows + 1, "a restart, and no second beginning"
    assert play.ends_well() == ""


def test_a_member_is_not_written_down_while_it_leaves_or_a_joiner_is_on_the_way_in() -> None:
    play = Play("abz").together("ab")
    assert node(play, "a").checkpoint(play.now)
    play.filter = without(Piece)
    play.join("z")
    play.passes(0.2)
    assert not node(play, "a").checkpoint(play.now), "z is on its way in"
    assert not node(play, "z").checkpoint(play.now), "there is nothing to write down"
    play.heals()
    play.passes(5)
    play.leaves("a")
    assert not node(play, "a").checkpoint(play.now)
    assert play.ends_well() == ""


def test_all_know_where_all_are_reached_also_after_a_restart() -> None:
    play = Play("abcd").together("abcd")
    addresses = {name: f"at {name}" for name in "abcd"}
    assert [node(play, name).addresses for name in "abcd"] == [addresses] * 4
    play.crash("d")
    play.boot("d")
    assert node(play, "d").addresses == addresses
    play.crash("c")
    play.evicts("a", "c")
    play.passes(3)
    assert node(play, "a").addresses == addresses  # an evicted process is still looked for
    play.leaves("b")
    play.passes(3)
    assert node(play, "b").addresses == {}
    assert node(play, "a").addresses.keys() == set("acd")


def test_a_node_that_restarts_elsewhere_says_so() -> None:
    play = Play("ab").together("ab")
    a, process = node(play, "a"), play.processes["a"]
    play.crash("a")
    again = GroupNode(
        "a", process.shelf, process.application, play.diary, (), a._settings, play.now, address="elsewhere"
    )
    assert again.addresses == {"a": "elsewhere", "b": "at b"}
    node(play, "b").meet("a", "elsewhere")
    assert node(play, "b").addresses == again.addresses


def test_a_contact_can_be_met_after_the_start() -> None:
    play = Play("ab")
    play.call("a", lambda node: node.found(play.now))
    process = play.processes["b"]
    alone = GroupNode("b", process.shelf, process.application, play.diary, (), GroupSettings(), 0)
    with pytest.raises(UsageError, match="no contact"):
        alone.join(0)
    alone.meet("b")
    with pytest.raises(UsageError, match="no contact"):
        alone.join(0)
    alone.meet("a")
    alone.meet("a")
    alone.join(0)
    assert [to for to, _ in alone.posts] == ["a"]


def test_a_new_link_is_greeted_with_what_is_here() -> None:
    play = Play("ab").together("ab")
    a = node(play, "a")
    a.link_up("b", play.now)
    assert [(to, type(packet)) for to, packet in a.posts] == [("b", Receipt)]
    a.link_down("b", play.now)


def test_who_is_closed_before_anything_of_it_came_is_counted_whole_where_its_name_is_known() -> None:
    """x was on a side that was given up. What it had sent was carried, by two members, and messages follow
    from it; a has its name from the table of a peer."""
    play = Play("ab").together("ab")
    a, b = node(play, "a").member, node(play, "b").member
    assert a is not None
    assert b is not None
    brought = carry_payload(Carried([Operation("x", 1, b"")]))
    a.ledger.number("x")
    play.call("b", lambda _: b.broadcast(CARRY, brought, play.now))
    play.call("b", lambda _: b.bury((("x", 1, 1),), play.now))
    play.passes(5)
    assert "x" in a.view.past
    play.call("b", lambda _: b.broadcast(CARRY, brought, play.now))
    late = NamedMessage("b", b.ledger.sent + 1, (("x", 2),), bytes((OPERATION,)))
    play.call("a", lambda node: node.receive("b", Data("b", "a", (late,)), play.now))
    play.passes(1)
    assert play.processes["a"].application.order == [("x", 1), ("b", late.seq)]
