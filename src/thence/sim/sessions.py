"""Links of a simulated network that behave like TCP: in order while they last, and then broken.

Either end learns of a break in its own time, and some of what was under way still arrives before it does.
Then the pair tries to connect again, until nothing stands between it. `epochs` tells the links of one pair
apart: nothing that was sent over one comes out of another.
"""

from collections.abc import Callable, Iterable
from random import Random
from typing import NamedTuple

from thence.core.machine import Packet

RETRY_US = (20_000, 400_000)
"""How long a pair waits before it tries again."""

NOTICE_US = 1_000_000
"""How long it may take an end to notice that a link is broken."""


class Carried(NamedTuple):
    """A packet on its way over one link of its pair."""

    epoch: int
    packet: Packet


class Change(NamedTuple):
    """A link is up, or down, for one of its ends."""

    epoch: int
    up: bool


Pair = tuple[int, int]


class Sessions:
    """The links between all pairs of a group. Says what happens when; the world makes it happen."""

    def __init__(
        self,
        nodes: int,
        random: Random,
        change: Callable[[int, int, int, Change], None],
        connect: Callable[[int, int, int], None],
    ) -> None:
        """`change(at, node, peer, what)` and `connect(at, node, peer)` are what is to come."""
        self._random = random
        self._change = change
        self._connect = connect
        self._epoch = 0
        self._open: dict[Pair, int] = {}
        self._ends: dict[Pair, int] = {}
        """Per node and peer, the link that this end believes in."""
        self._arrival: dict[Pair, int] = {}
        for one in range(nodes):
            for other in range(one + 1, nodes):
                connect(random.randrange(RETRY_US[1]), one, other)

    def connecting(self, now: int, one: int, other: int, possible: bool, latency_us: int) -> None:
        """A pair tries to connect; `possible` if nothing stands between the two and both are there."""
        if (one, other) in self._open:
            return
        if not possible or (one, other) in self._ends or (other, one) in self._ends:
            self._connect(now + self._random.randint(*RETRY_US), one, other)
            return
        self._epoch += 1
        self._open[one, other] = self._epoch
        there, back = now + latency_us, now + 2 * latency_us
        self._arrival[one, other], self._arrival[other, one] = back, back
        self._change(there, other, one, Change(self._epoch, True))
        self._change(back, one, other, Change(self._epoch, True))

    def changed(self, node: int, peer: int, change: Change) -> bool:
        """An end learns something: is it news?"""
        if change.up:
            if self._open.get(_pair(node, peer)) != change.epoch:
                return False  # broken before it was up
            self._ends[node, peer] = change.epoch
            return True
        if self._ends.get((node, peer)) != change.epoch:
            return False
        del self._ends[node, peer]
        return True

    def sending(self, node: int, peer: int, packet: Packet, at: int) -> tuple[int, Carried] | None:
        """When a packet that would be there at `at` arrives, if it does: not before an earlier one."""
        epoch = self._ends.get((node, peer))
        if epoch is None or self._open.get(_pair(node, peer)) != epoch:
            return None
        at = self._arrival[node, peer] = max(at, self._arrival[node, peer])
        return at, Carried(epoch, packet)

    def arrives(self, node: int, peer: int, carried: Carried) -> bool:
        return self._ends.get((node, peer)) == carried.epoch

    def snap(self, now: int, pairs: Iterable[Pair]) -> None:
        """The links of these pairs break."""
        for one, other in sorted({_pair(*pair) for pair in pairs}):
            epoch = self._open.pop((one, other), None)
            if epoch is None:
                continue
            latest = now
            for node, peer in ((one, other), (other, one)):
                at = now + 1 + self._random.randrange(NOTICE_US)
                if self._random.random() < 0.5:
                    at = max(now + 1, self._arrival[peer, node])  # what is under way still comes
                self._change(at, node, peer, Change(epoch, False))
                latest = max(latest, at)
            self._connect(latest + self._random.randint(*RETRY_US), one, other)

    def crashed(self, now: int, node: int, nodes: int) -> None:
        """A node is gone: its ends with it."""
        self.snap(now, [(node, peer) for peer in range(nodes) if peer != node])
        for peer in range(nodes):
            self._ends.pop((node, peer), None)


def _pair(one: int, other: int) -> Pair:
    return (one, other) if one < other else (other, one)
