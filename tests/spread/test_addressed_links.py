"""Addressed links: a hop reaches its addressees over links that lose packets, and nothing is kept beyond."""

from itertools import pairwise
from random import Random

import pytest

from thence.core.dots import pack
from thence.core.errors import PeerError
from thence.core.machine import Ack, Packet, Phantom, SpreadEffect, Transmit, Wake
from thence.core.message import Message
from thence.spread.addressed import Addressed
from thence.spread.mesh import MeshSettings


def links(me: int) -> Addressed:
    return Addressed(me, lambda message: message.dot >> 20, lambda message: message.dest)


def hop(me: int, counter: int, *to: int) -> Message:
    return Message(pack(me, counter), (), b"", to)


def packets(effects: list[SpreadEffect]) -> list[tuple[int, Packet]]:
    return [
        (peer, effect.packet) for effect in effects if isinstance(effect, Transmit) for peer in effect.peers
    ]


@pytest.mark.parametrize("seed", range(5))
def test_everything_arrives_over_bad_links_and_then_they_rest(seed: int) -> None:
    random = Random(seed)
    parts = [links(me) for me in range(4)]
    got: list[set[int]] = [set() for _ in parts]
    flights: list[tuple[int, int, Packet]] = []
    now = 0

    def carry_out(me: int, effects: list[SpreadEffect]) -> None:
        flights.extend((to, me, packet) for to, packet in packets(effects) if random.random() < 0.7)
        got[me].update(effect.dot for effect in effects if isinstance(effect, Message))

    for counter in range(1, 30):
        for me, part in enumerate(parts):
            to = tuple(sorted(random.sample([each for each in range(4) if each != me], random.randint(1, 3))))
            carry_out(me, part.broadcast(hop(me, counter, *to), now))
    sent = {dot for each in parts for queue in each._unacked.values() for dot in queue}
    assert len(sent) == 29
    expected = [
        {pack(me, counter) for me, part in enumerate(parts) for counter in part._unacked.get(peer, ())}
        for peer in range(4)
    ]
    while not all(part.drained for part in parts):
        now += 50_000
        random.shuffle(flights)
        arriving, flights = flights, []
        for peer, via, packet in arriving:
            carry_out(peer, parts[peer].receive(via, packet, now))
        for me, part in enumerate(parts):
            carry_out(me, part.wake(now))
        assert now < 600_000_000
    assert got == expected


def test_links_at_rest_ask_for_no_wake_up() -> None:
    one, other = links(0), links(1)
    message = hop(0, 1, 1)
    [sent, wake] = one.broadcast(message, 0)
    assert isinstance(sent, Transmit)
    assert isinstance(wake, Wake)
    assert one.newest(1) == 1
    assert other.receive(0, message, 10)[0] is message
    [answer] = other.wake(10 + MeshSettings().ack_every_us)
    assert isinstance(answer, Transmit)
    assert one.receive(1, answer.packet, 70_000) == []
    assert one.wake(100_000) == []
    assert one.drained
    assert other.drained


def test_repeats_come_later_and_later() -> None:
    one = links(0)
    one.broadcast(hop(0, 1, 1), 0)
    times = [now for now in range(0, 30_000_000, 50_000) if packets(one.wake(now))]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert gaps == sorted(gaps)
    assert gaps[-1] <= 2 * MeshSettings().repeat_max_us


def test_nothing_is_kept_for_the_dead_or_sent_to_them() -> None:
    one = links(0)
    one.broadcast(hop(0, 1, 1, 2), 0)
    one.lost(1)
    assert packets(one.broadcast(hop(0, 2, 1, 2), 0)) == [(2, one._unacked[2][2][0])]
    assert one.newest(1) == 1
    one.receive(2, Ack((), (pack(0, 1), pack(0, 2))), 10)
    assert one.wake(60_000) == []
    assert one.drained


def test_a_node_that_comes_back_repeats() -> None:
    one = links(0)
    one.broadcast(hop(0, 1, 1), 0)
    [wake] = one.resume(1_000_000)
    assert isinstance(wake, Wake)
    assert packets(one.wake(wake.at))


@pytest.mark.parametrize("packet", [Phantom((), asks=False), Ack((), (pack(3, 1),))])
def test_what_links_have_no_use_for_is_the_peers_error(packet: Packet) -> None:
    with pytest.raises(PeerError):
        links(0).receive(1, packet, 0)
