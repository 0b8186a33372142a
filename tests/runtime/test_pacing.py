"""When a link pings, gives up and tries again: without waiting for any of it."""

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from thence.core.errors import UsageError
from thence.runtime.address import Address
from thence.runtime.hello import Identity, Introduction, Purpose
from thence.runtime.link import End
from thence.runtime.options import LinkSettings
from thence.runtime.pacing import DelayLine, LinkLimits, Pulse, backoff_us, pulse
from thence.runtime.peer import Peer

SETTINGS = LinkSettings(backoff_first_us=100, backoff_most_us=1000)


@pytest.mark.parametrize(
    ("failures", "most"), [(0, 100), (1, 100), (2, 200), (3, 400), (4, 800), (5, 1000), (10**9, 1000)]
)
def test_waits_double_up_to_a_limit_and_come_from_the_upper_half(failures: int, most: int) -> None:
    drawn = {backoff_us(failures, SETTINGS, Random(seed)) for seed in range(300)}
    assert most // 2 <= min(drawn) < most * 0.6
    assert most * 0.9 < max(drawn) <= most


def test_a_seed_gives_the_same_waits() -> None:
    assert backoff_us(3, SETTINGS, Random(7)) == backoff_us(3, SETTINGS, Random(7))


@pytest.mark.parametrize(
    ("idle", "what", "again"),
    [
        (0, Pulse.WELL, 300),
        (299, Pulse.WELL, 300),
        (300, Pulse.PING, 600),
        (650, Pulse.PING, 900),
        (899, Pulse.PING, 900),
        (900, Pulse.SILENT, 900),
        (5000, Pulse.SILENT, 5000),
    ],
)
def test_a_ping_after_a_third_and_the_end_after_all_of_the_silence(
    idle: int, what: Pulse, again: int
) -> None:
    assert pulse(1000 + idle, 1000, 1000 + idle, 900) == (what, 1000 + again)


def test_a_node_that_was_stopped_itself_gives_its_peers_another_chance() -> None:
    """Their packets wait unread: this node alone was silent."""
    assert pulse(now=9000, heard_us=1000, due_us=1300, silence_us=900) == (Pulse.PING, 9300)
    assert pulse(now=9310, heard_us=1000, due_us=9300, silence_us=900) == (Pulse.SILENT, 9310)


def test_what_goes_through_a_slow_link_comes_later_and_in_order() -> None:
    line = DelayLine()
    line.delay_us = 100
    line.put(0, b"a")
    line.put(10, b"b")
    assert line.take(99) == b""
    assert line.take(105) == b"a"
    assert (line.next_us, line.queued_bytes) == (110, 1)
    assert line.take(110) == b"b"
    assert (line.next_us, line.queued_bytes) == (None, 0)


def test_nothing_overtakes_when_a_slow_link_becomes_faster() -> None:
    line = DelayLine()
    line.delay_us = 100
    line.put(0, b"a")
    line.delay_us = 0
    line.put(10, b"b")
    assert line.take(99) == b""
    assert line.take(100) == b"ab"


def test_a_slow_link_can_be_emptied() -> None:
    line = DelayLine()
    line.delay_us = 100
    line.put(0, b"a")
    line.put(0, b"b")
    assert line.take_all() == b"ab"
    assert line.queued_bytes == 0


def test_a_link_that_fails_right_after_it_came_up_is_dialled_ever_more_seldom() -> None:
    peer = Peer("b", Address("127.0.0.1", 1), dials=True, now=0)
    link: Any = SimpleNamespace(bytes_in=0)
    hello = Introduction(Identity("test", "b", b"log", 1), "a", Purpose.LINK, b"instance", b"nonce")
    for count in (1, 2, 3):
        peer.came_up(link, hello, 1000 * count)
        peer.went_down(End.LOST, "lost", now=1000 * count + 99, steady_us=100)
        assert peer.failures == count
    peer.came_up(link, hello, 9000)
    peer.went_down(End.LOST, "lost", now=9100, steady_us=100)
    assert peer.failures == 1


def test_limits_of_nothing_are_refused() -> None:
    with pytest.raises(UsageError, match="drain_us"):
        LinkLimits(drain_us=0)
