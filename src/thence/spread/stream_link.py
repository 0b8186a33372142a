"""A link that may carry streams: what its two ends have agreed on, and how much of the past is under way.

A link's state is *versioned*. An end that wants to change it (branch or not) takes the next version; the
higher version wins at both ends, and of two equal ones the branch. So grafts and prunes that cross each other
lead both ends to the same state, and no link is used in one direction for good.

Pieces of the past are counted against a window, a large one as what it is as large as: else a few messages of
tens of megabytes would all be in memory at once.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK
from thence.core.errors import UsageError
from thence.core.message import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSettings:
    piece_bytes: int = 64 << 10
    """Small enough that other packets get their turn, large enough that its header does not count."""
    window: int = 16
    """Pieces under way: a megabyte in a round trip, and no more than that in any queue. With half of it
    newcomers to 200 nodes, 10 to 100 ms apart, took eight seconds to read the past of two minutes."""
    sync_us: int = 2_000_000
    """A neighbour that is silent for so long while it should send its past is not waited for: others may
    have it. Several round trips, so that it never happens to one that works."""

    def __post_init__(self) -> None:
        if min(self.piece_bytes, self.window, self.sync_us) < 1:
            raise UsageError("stream settings: everything must be positive")


OVERHEAD = 16
"""Bytes that a message takes up besides its payload, roughly."""


class Link:
    """A neighbour, and the streams in both directions."""

    __slots__ = ("_costs", "branch", "clock", "credit", "grafted", "heard", "held", "live", "version")

    def __init__(self) -> None:
        self.version = 0
        self.branch = False
        self.grafted = 0
        """The version at which this end asked for the other's stream."""
        self.heard = False
        """Whether what comes over it is listened to: not before a graft is answered, nor after a gap."""
        self.clock: list[int] | None = None
        """What the other end had when it asked, and what it was sent of its past since; None: it has not
        asked at this version."""
        self.credit = 0
        """Pieces that may be sent; below 0 after one that is larger than all of them."""
        self._costs: deque[int] = deque()
        """Of the pieces under way, oldest first."""
        self.live = False
        """It has everything that this end had, and gets what comes."""
        self.held = False
        """It takes no more at present: it will get the rest from the history."""

    def spend(self, pieces: int) -> None:
        """A piece is sent that is as large as so many."""
        self.credit -= pieces
        self._costs.append(pieces)

    def earn(self) -> int:
        """The first of those under way has come; how many may be sent."""
        self.credit += self._costs.popleft() if self._costs else 1
        return self.credit

    def renew(self, pieces: int) -> None:
        """What is sent from here on is another past."""
        self.credit = pieces
        self._costs.clear()


def up_to_gap(messages: Sequence[Message], clock: Sequence[int]) -> list[Message]:
    """Of what comes over a link, the messages that will count where the clock is this."""
    had, fresh = dict[int, int](), list[Message]()
    for message in messages:
        origin, seq = message.dot & ORIGIN_MASK, message.dot >> ORIGIN_BITS
        last = had.get(origin, clock[origin])
        if seq <= last:
            continue
        if message.before >> ORIGIN_BITS != last:
            break
        had[origin] = seq
        fresh.append(message)
    return fresh
