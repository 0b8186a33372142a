"""What grows with the history of a changing group, and what does not."""

import pytest
from support.schedules_groups import Play

from thence.core.errors import UsageError
from thence.core.group_codec import encode
from thence.members.operations import Operation
from thence.replica.group.ledger.state_codec import encode_state
from thence.replica.group.member.member import Member
from thence.replica.group.transfer.carrying import PART_COUNT, operations_in
from thence.sim.air import Air


def member(play: Play, name: str) -> Member:
    node = play.processes[name].node
    assert node is not None
    assert node.member is not None
    return node.member


def sizes(play: Play, name: str) -> dict[str, int]:
    """Of everything that a member keeps in memory, tells in receipts, and hands to joiners."""
    node, one = play.processes[name].node, member(play, name)
    assert node is not None
    view, state = one.view, one.state()
    state.application, state.table = b"", []  # what a table holds at most is another matter
    return {
        "state": len(encode_state(state)) // 50,  # numbers take more digits as they grow
        "receipt": len(encode(one.about(node._running(), play.now))) // 50,
        "spoken": len(one.ledger.spoken()),
        "gone": len(view.gone),
        "suspects": len(view.suspects),
        "flushed": sum(map(len, view.flushed.values())) + len(view.flushed),
        "addresses": len(view.addresses),
        "spans": len(view.past) + len(view.closed) + len(view.closing),
        "operations": len(one.operations.carried) + len(one.operations.inherited),
        "peers": len(one._peers._peers),
        "coming": len(one._watch.coming),
        "gate": len(one._gate.watched) + len(one._gate._states),
    }


def restless(play: Play, times: int) -> None:
    """c joins, says something, and leaves, again and again."""
    for _ in range(times):
        play.join("c")
        play.run(play.now + 5_000_000, lambda: play.me("c") != "", 20_000)
        play.send("c")
        play.send("a")
        play.leaves("c")
        play.run(play.now + 5_000_000, lambda: play.me("c") == "", 20_000)
        play.passes(0.3)


def test_a_thousand_joins_and_leaves_leave_everything_as_large_as_it_was() -> None:
    play = Play("abc", air=Air(jitter_us=0, latency_us=1000, links=True, wire=False)).together("ab")
    play.incarnations_max = 2000
    restless(play, 300)  # by then counters take two bytes each, as they do to the end
    play.passes(3)
    before = sizes(play, "a"), sizes(play, "b")
    restless(play, 700)
    play.passes(3)
    assert (sizes(play, "a"), sizes(play, "b")) == before
    assert list(member(play, "a").view.past) == [("c", 1, 1000)]
    assert play.problem == ""


def test_evictions_and_returns_leave_nothing_behind_either() -> None:
    play = Play("abc", air=Air(jitter_us=0, links=True, wire=False)).together("abc")
    seen = []
    for _ in range(6):
        play.evicts("a", "c")
        play.send("c")
        play.passes(8)
        assert play.unsettled() == ""
        seen.append(sizes(play, "a"))
    assert seen[1:] == [seen[1]] * 5
    assert member(play, "a").view.suspects == set()
    assert play.me("c") == "c~7"


def test_what_may_have_to_be_carried_is_kept_only_while_a_suspect_may_return() -> None:
    play = Play("abc").together("abc")
    play.crash("c")
    play.evicts("a", "c")
    for _ in range(20):
        play.send("a")
    play.passes(5)
    ledger = member(play, "a").ledger
    assert ledger.retain_from[ledger.number("a")] < 20
    play.boot("c")
    assert play.ends_well() == ""
    assert ledger.retain_from == ledger.stables()


def test_a_member_that_will_never_come_back_can_be_buried() -> None:
    play = Play("abc").together("abc")
    play.crash("c")
    play.processes["c"].dead = True
    a = play.processes["a"].node
    assert a is not None
    with pytest.raises(UsageError, match="not evicted"):
        a.bury("c", play.now)
    play.evicts("a", "c")
    play.send("a")
    play.passes(5)
    assert member(play, "b").view.suspects == {"c"}
    play.call("a", lambda node: node.bury("c", play.now))
    play.passes(5)
    assert [list(member(play, name).view.past) for name in "ab"] == [[("c", 1, 1)]] * 2
    assert not member(play, "b").view.suspects
    assert member(play, "b").ledger.retain_from == member(play, "b").ledger.stables()
    assert play.ends_well() == ""


def test_one_who_came_back_is_buried_by_itself_and_not_before_it_has_brought_everything() -> None:
    """Or others would take what it still brings for something that they have."""
    play = Play("abc", air=Air(jitter_us=0, links=True), sync="no").together("abc")
    play.cuts("ba", "bc")
    play.evicts("a", "b")
    play.evicts("b", "a")
    play.evicts("b", "c")
    play.send("c")
    play.passes(1)
    play.crash("c", power=True)
    play.boot("c")
    play.passes(10)
    a, c = play.processes["a"].node, play.processes["c"].node
    assert a is not None
    assert c is not None
    assert (play.me("c"), sorted(member(play, "a").view.suspects)) == ("c~2", ["b", "c"])
    with pytest.raises(UsageError, match="c has come back as c~2, and knows what it has lost: ask it"):
        a.bury("c", play.now)
    waits = Operation("x", 1, b"not ready")
    member(play, "c").operations.orphans.append(waits)
    with pytest.raises(UsageError, match="c is bringing what it had"):
        c.bury("c", play.now)
    member(play, "c").operations.orphans.clear()
    play.call("c", lambda node: node.bury("c", play.now))
    play.passes(5)
    assert member(play, "a").view.suspects == {"b"}
    assert not member(play, "c").carrying.must_announce
    assert play.ends_well() == ""


def test_what_is_carried_comes_in_messages_of_bounded_size() -> None:
    """However long the member was apart, and the last of them says that it is the last."""
    play = Play("abc").together("abc")
    play.cuts("ca", "cb")
    play.evicts("a", "c")
    for _ in range(20):
        play.send("c", bytes(60_000))
    play.passes(1)
    assert play.ends_well() == ""
    ledger = member(play, "a").ledger
    assert 5 <= ledger.count("c~2") <= 8
    assert len(play.processes["b"].application.applied) == 20
    assert list(member(play, "a").view.past) == [("c", 1, 1)]


def test_what_is_carried_comes_in_messages_of_a_bounded_number_of_operations() -> None:
    """To apply one is one step of every member."""
    play = Play("abc", air=Air(jitter_us=0, links=True, wire=False)).together("abc")
    play.cuts("ca", "cb")
    play.evicts("a", "c")
    for _ in range(3 * PART_COUNT):
        play.send("c")
    play.passes(1)
    assert play.ends_well() == ""
    assert len(play.processes["b"].application.applied) == 3 * PART_COUNT
    node = play.processes["b"].node
    assert node is not None
    assert node.log is not None
    ledger = member(play, "b").ledger
    messages = [ledger.read(stored.dot, stored.data) for stored in node.log.since(node.log.head)]
    carried = [len(operations_in(("", 1), message.payload)) for message in messages]
    assert max(carried) == PART_COUNT
    assert sum(carried) == 3 * PART_COUNT
