"""What a program is told once more is read from the log a little at a time. Work is counted in messages."""

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest
from support.schedules_groups import Play

from thence.core.errors import UsageError
from thence.core.groups import CARRY
from thence.members.operations import Operation
from thence.oplog.record import Stored
from thence.oplog.view import CommittedView
from thence.replica.events import Delivered, Gap, Repeated
from thence.replica.group.ledger.payloads import Carried, carry_payload
from thence.replica.group.member.member import Member
from thence.replica.group.process.node import GroupNode
from thence.replica.group.process.replay import TURN, since
from thence.replica.positions import PART_MAX, place_of
from thence.sim.air import Air

SENT = 3 * TURN


@pytest.fixture
def play() -> Play:
    """a has everything that b has sent."""
    made = Play("ab", air=Air(jitter_us=0, links=True, wire=False)).together("ab")
    for number in range(SENT):
        made.send("b", b"%d" % number)
        if number % 50 == 0:
            made.passes(0.01)
    made.passes(2)
    return made


def running(play: Play) -> tuple[GroupNode, Member]:
    node = play.processes["a"].node
    assert node is not None
    assert node.member is not None
    return node, node.member


def replayed(play: Play, after: int) -> Iterator[Repeated | None]:
    node, member = running(play)
    assert node.log is not None
    return since(member, node.log, after, own=False)


def payloads(events: Iterator[Repeated | None]) -> list[bytes]:
    return [event.payload for event in events if isinstance(event, Delivered)]


def test_between_two_turns_of_others_a_bounded_part_of_the_log_is_read(play: Play) -> None:
    read, most, turns, plain = 0, 0, 0, CommittedView.since

    def counted(view: CommittedView, position: int) -> Iterator[Stored]:
        found = plain(view, position)

        def reading() -> Iterator[Stored]:
            nonlocal read
            for stored in found:
                read += 1
                yield stored

        return reading()

    told: list[Any] = []
    with patch.object(CommittedView, "since", counted):
        for event in replayed(play, 0):
            if event is None:
                most, read, turns = max(most, read), 0, turns + 1
            else:
                told.append(event)
    assert payloads(iter(told)) == [b"%d" % number for number in range(SENT)]
    assert turns >= 2 * SENT // TURN
    assert max(most, read) <= 2 * TURN  # two readers at most: one ends, the next begins


def test_what_comes_meanwhile_is_not_told_again_and_the_log_stays_until_all_was_read(play: Play) -> None:
    node, member = running(play)
    events = replayed(play, 0)
    first = next(event for event in events if event is not None)
    assert not node.checkpoint(play.now)
    play.send("b", b"later")
    play.passes(1)
    rest = payloads(events)
    assert isinstance(first, Delivered)
    assert [first.payload, *rest] == [b"%d" % number for number in range(SENT)]
    assert member.reading.replays == 0
    assert node.checkpoint(play.now)


def test_a_reader_that_is_given_up_does_not_hold_the_log(play: Play) -> None:
    node, member = running(play)
    events = replayed(play, 0)
    assert next(event for event in events if event is not None)
    assert member.reading.replays == 1
    del events
    assert member.reading.replays == 0
    assert node.checkpoint(play.now)


def test_it_goes_on_after_any_position(play: Play) -> None:
    everything = [event for event in replayed(play, 0) if isinstance(event, Delivered)]
    for at in (0, 1, TURN - 1, TURN, SENT - 2, SENT - 1):
        assert payloads(replayed(play, everything[at].position)) == [
            event.payload for event in everything[at + 1 :]
        ]


def test_what_was_carried_is_told_again_although_its_origin_is_past() -> None:
    play = Play("abc", air=Air(jitter_us=0, links=True, wire=False)).together("abc")
    play.cuts("ca", "cb")
    play.evicts("b", "c")
    play.send("c", b"only c has it")
    play.passes(1)
    play.send("b", b"meanwhile")
    assert play.ends_well() == ""
    _, member = running(play)
    assert "c" in member.view.past
    assert ("c", 1) in play.processes["a"].application.applied
    assert sorted(payloads(replayed(play, 0))) == [b"meanwhile", b"only c has it"]


def test_a_position_within_the_last_message_is_not_ahead_of_the_log(play: Play) -> None:
    """It may have carried several operations, and the program have been told of some when it ended."""
    node, _ = running(play)
    play.processes["a"].application.reads = True
    last = node.position
    assert payloads(node.replay(last | 1, 0)) == []
    with pytest.raises(UsageError, match="ahead of this log"):
        node.replay(place_of(node.number, SENT + 100), 0)
    with pytest.raises(UsageError, match="position 7 is of a data folder of version 1"):
        node.replay(7, 0)


def test_an_operation_that_was_carried_before_the_position_is_not_told_when_it_is_carried_again(
    play: Play,
) -> None:
    """Two who had it have returned, one after the other, and the program was started again in between."""
    first, again = Operation("z", 1, b"twice carried"), Operation("z", 2, b"new")
    positions = []
    for carried in ([first], [first, again]):
        payload = carry_payload(Carried(carried))
        play.call("b", lambda node, payload=payload: node.member.broadcast(CARRY, payload, play.now))  # type: ignore[misc]
        play.passes(1)
        node, _ = running(play)
        positions.append(node.position & ~PART_MAX)
    assert payloads(replayed(play, positions[0] | 1)) == [b"new"]
    assert payloads(replayed(play, positions[1] | 1)) == [b"new"], "the second part of it"
    assert payloads(replayed(play, positions[1] | 2)) == []


@pytest.mark.parametrize("kept", [True, False], ids=["whole", "written down"])
def test_a_position_of_two_incarnations_ago_names_those_who_have_left_since(kept: bool) -> None:
    """What the first of them delivered is in no log of this process any more, and they are not spoken of."""
    play = Play("abc", air=Air(jitter_us=0, links=True, wire=False)).together("abc")
    play.processes["a"].application.reads = True
    node, _ = running(play)
    after = node.position
    play.send("c", b"from one who leaves")
    play.passes(1)
    play.leaves("c")
    play.passes(5)
    for _ in range(2):
        play.cuts("ab")
        play.evicts("b", play.me("a"))
        play.passes(1)
        play.heals()
        play.passes(10)
    node, member = running(play)
    assert member.me == "a~3"
    assert "c" in member.view.past
    if not kept:
        member.reading.read_all()
        member.reading.written_down()
        member.reading.whole = False
    found = [event for event in node.replay(after, 0) if isinstance(event, Gap)]
    assert [event.first.get("c") for event in found] == [1]
    assert "c" not in found[0].last
