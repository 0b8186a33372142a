"""A window whose members come and go: whom it waits for, from when to when."""

import pytest

from thence.core.dots import pack
from thence.core.message import Message
from thence.order.roster import Roster

ME, B, C = 0, 1, 2


def message(origin: int, seq: int, *context: tuple[int, int]) -> Message:
    return Message(pack(origin, seq), tuple(sorted(pack(*place) for place in context)), b"")


def dots(counters: list[int]) -> tuple[int, ...]:
    """The newest message of each origin that these counters count."""
    return tuple([pack(origin, seq) for origin, seq in enumerate(counters) if seq])


def stable(roster: Roster) -> list[tuple[int, int]]:
    return [(tag.dot & 0xFFFFF, tag.dot >> 20) for tag in roster.sweep()]


@pytest.fixture(params=[4096, 0], ids=["narrow", "wide"])
def pair(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Roster:
    """Two members; the same with places and with vectors."""
    monkeypatch.setattr(Roster, "wide", request.param)
    return Roster(ME, 2)


def test_an_index_with_a_name_holds_no_member_up(pair: Roster) -> None:
    pair.admit(C)
    pair.see(message(ME, 1))
    pair.see(message(B, 1, (ME, 1)))
    assert stable(pair) == [(ME, 1), (B, 1)]


def test_a_joiner_is_waited_for_from_its_join_on(pair: Roster) -> None:
    pair.see(message(ME, 1))
    pair.see(message(ME, 2, (ME, 1)))  # the join of C
    pair.admit(C)
    pair.enter(C, pack(ME, 2))
    pair.see(message(ME, 3, (ME, 2)))
    pair.known(B, dots([3, 0, 0]))
    assert stable(pair) == [(ME, 1), (ME, 2)], "C's messages follow its join, and so what the join follows"
    pair.see(message(C, 1, (ME, 3)))
    assert stable(pair) == [(ME, 3)]


def test_a_joiner_does_not_have_what_its_join_does_not_follow(pair: Roster) -> None:
    pair.see(message(ME, 1))
    pair.see(message(B, 1))  # concurrent with it, the join of C
    pair.admit(C)
    pair.enter(C, pack(B, 1))
    pair.known(B, dots([1, 1, 0]))
    assert stable(pair) == [(B, 1)]


def test_one_who_is_gone_is_not_waited_for(pair: Roster) -> None:
    pair.see(message(ME, 1))
    assert stable(pair) == []
    pair.drop(B)
    assert stable(pair) == [(ME, 1)]
    assert pair.drained


def test_a_row_only_grows(pair: Roster) -> None:
    pair.see(message(ME, 1))
    pair.see(message(ME, 2, (ME, 1)))
    pair.known(B, dots([2, 0]))
    pair.known(B, dots([1, 0]))
    assert pair.row(B) == [2, 0]
    assert stable(pair) == [(ME, 1), (ME, 2)]


def test_what_a_row_says_survives_the_way_to_another_node(pair: Roster) -> None:
    pair.see(message(ME, 1))
    pair.see(message(B, 1))
    pair.see(message(B, 2, (B, 1)))
    row = pair.row(B)
    assert row == [0, 2]
    other = Roster(ME, 2)
    for seen in (message(ME, 1), message(B, 1), message(B, 2, (B, 1))):
        other.see(seen)
    other.known(B, dots(row))
    assert other.row(B) == row


def test_reached_counts_those_who_are_in(pair: Roster) -> None:
    pair.admit(C)
    pair.see(message(ME, 1))
    assert pair.reached(pack(ME, 1)) == 1
    pair.known(B, dots([1, 0, 0]))
    assert pair.reached(pack(ME, 1)) == 2
    assert stable(pair) == [(ME, 1)]
    assert pair.reached(pack(ME, 1)) == 2


def test_members_are_admitted_in_order(pair: Roster) -> None:
    with pytest.raises(ValueError, match="in order"):
        pair.admit(7)
