"""Relays: what cannot come directly comes through somebody who has it."""

import pytest
from support.traces import simulated

from thence.check.oracle import judge
from thence.core.codec import Codec
from thence.core.dots import pack
from thence.core.errors import PeerError
from thence.core.machine import NEVER, Ack, Relay, Transmit
from thence.core.message import Message
from thence.sim.run import Run
from thence.sim.scenarios import configure
from thence.spread.relays import Relays

SECOND = 1_000_000


@pytest.mark.parametrize("order", ["graph", "vector"])
@pytest.mark.parametrize("seed", range(5))
def test_two_members_that_cannot_reach_each_other_hear_each_other_through_the_rest(
    seed: int, order: str
) -> None:
    """Long before the link is mended: within some seconds of each send."""
    settings = configure("broken-link", order=order, seed=seed)
    outcome, events = simulated(settings)
    assert outcome.complete, outcome.why
    [verdict] = judge(events)
    assert not any(verdict.violations.values()), verdict
    [cut] = Run(settings).plan.faults
    sent = {(e.origin, e.seq): e.at_us or 0 for e in events if e.kind == "send"}
    late = {
        (e.node, e.origin, e.seq): (e.at_us or 0) - sent[e.origin, e.seq]
        for e in events
        if e.kind == "deliver" and {e.node, e.origin} == {"n0", "n1"}
    }
    assert len(late) == 2 * settings.messages
    during = [at for at in sent.values() if cut.at_us < at < cut.until_us]
    assert len(during) > 100, "the link was down while most of it was sent"
    assert max(late.values()) < 8 * SECOND, "it did not wait for the link"


def test_one_is_asked_at_a_time_and_the_next_if_nothing_comes() -> None:
    relays = Relays(SECOND, 2 * SECOND)
    assert relays.due == NEVER
    assert relays.lost(1, 0) == SECOND
    assert relays.asks(SECOND - 1, [0] * 4, [2, 3]) == [], "most links come back"
    assert relays.asks(SECOND, [0] * 4, [2, 3]) == [2]
    assert relays.wanted_from(2) == (1,)
    assert relays.asks(3 * SECOND, [0] * 4, [2, 3]) == [2, 3], "nothing came: the old one is told, too"
    assert (relays.wanted_from(2), relays.wanted_from(3)) == ((), (1,))
    assert relays.asks(5 * SECOND, [0, 7, 0, 0], [2, 3]) == [], "it comes: stay with it"
    assert relays.lost(3, 6 * SECOND) == 7 * SECOND, "whoever was asked is gone: another one soon"
    assert relays.asks(7 * SECOND, [0, 7, 0, 0], [2]) == [2]
    assert relays.reached(1) == [2]
    assert relays.wanted_from(2) == (3,), "3 is out of reach as well by now"


def test_what_is_passed_on_begins_where_the_asker_is_and_has_no_gap() -> None:
    relays = Relays(SECOND, SECOND)
    relays.wanted_by(2, [1])
    assert relays.wanted(1)
    assert not relays.wanted(3)
    assert relays.gaps(2, [0, 5, 0], [0, 9, 0], 100) == [(1, 5, 100)]
    relays.sent(2, 1, 8)
    assert relays.gaps(2, [0, 5, 0], [0, 9, 0], 100) == [(1, 8, 97)]
    assert relays.gaps(2, [0, 5, 0], [0, 9, 0], 3) == [], "not more than a window"
    relays.wanted_by(2, [1])
    assert relays.gaps(2, [0, 6, 0], [0, 9, 0], 100) == [(1, 6, 100)], "asked again: from the beginning"
    relays.wanted_by(2, [])
    assert relays.gaps(2, [0, 6, 0], [0, 9, 0], 100) == []


def test_a_request_travels_and_lies_in_it_are_refused() -> None:
    codec = Codec(4, stamps_are_dots=True)
    decoded = codec.decode(codec.encode(Relay((3, 1))))
    assert isinstance(decoded, Relay)
    assert decoded.origins == (3, 1)
    for lie in ((1, 1), (4,), (0, 1, 2, 3, 0)):
        with pytest.raises(PeerError):
            codec.decode(codec.encode(Relay(lie)))


def test_nobody_may_speak_for_another_who_was_not_asked_to() -> None:
    stores = Run(configure("broken-link"))._stores
    assert stores is not None
    replica = stores.nodes[2].machine.replica
    replica.up(3, 0)
    replica.receive(3, Ack((0, 0, 0, 0), ()), 0)
    with pytest.raises(PeerError, match="speaks for"):
        replica.receive(3, Message(pack(0, 1), (), b""), 0)
    for wrong in (Relay((2,)), Relay((3,))):
        with pytest.raises(PeerError, match="asks for"):
            replica.receive(3, wrong, 0)
    asked = [e.packet for e in replica.wake(2 * SECOND) if isinstance(e, Transmit)]
    assert [packet.origins for packet in asked if isinstance(packet, Relay)] == [(0, 1)]
    assert replica.receive(3, Message(pack(0, 1), (), b""), 2 * SECOND) != []
