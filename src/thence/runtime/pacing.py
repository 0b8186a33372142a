"""When a link pings, gives up, tries again: decisions about time, as functions of `now`.

Nothing here reads a clock or sets a timer, so all of it can be tested without waiting.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import Enum
from random import Random

from thence.core.errors import UsageError
from thence.runtime.options import LinkSettings

Clock = Callable[[], int]
"""Microseconds, never backwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkLimits:
    """What bounds links and is no matter of how far apart the members are (that is `LinkSettings`)."""

    handshakes_most: int = 64
    """Unfinished ones that came in; beyond it the oldest gives way, so that a flood of strangers can delay a
    member (which needs a few milliseconds) but not keep it out."""
    handshakes_per_host_most: int = 32
    """Of them: half of the slots are out of reach of any one host."""
    steady_us: int = 5_000_000
    """A link that was up for so long was a good one: the next dial starts with the shortest wait again."""
    cut_off_us: int = 30_000_000
    """How long a peer that misbehaved stays cut off: it most likely does it again, and each time costs a
    resynchronisation."""
    drain_us: int = 2_000_000
    """How long closing waits for what is still buffered; also how long a refusal may take to leave."""
    queue_bytes_most: int = 64 << 20
    """Waiting to be sent to one peer. Windows keep it far lower: this is the last line of defence against
    one that takes nothing and still asks for more, and costs it the link."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) <= 0:
                raise UsageError(f"{field.name} must be above 0")


def backoff_us(failures: int, settings: LinkSettings, random: Random) -> int:
    """How long to wait after so many failures in a row: doubling up to a limit, drawn from the upper half so
    that a node that comes back is not met by all peers at once."""
    doubled = settings.backoff_first_us << min(max(failures - 1, 0), 40)
    return upper_half_us(min(doubled, settings.backoff_most_us), random)


def upper_half_us(longest_us: int, random: Random) -> int:
    return random.randint(longest_us - longest_us // 2, longest_us)


class Pulse(Enum):
    WELL = 0
    PING = 1
    SILENT = 2


def pulse(now: int, heard_us: int, due_us: int, silence_us: int) -> tuple[Pulse, int]:
    """What to do about a link that was last heard at `heard_us`, and when to look again.

    `due_us` is when this look was meant to happen. If it comes much later, this process itself was away
    (stopped, or busy with a disk), and what the peer sent meanwhile may still be unread: it gets another
    chance.
    """
    third = max(silence_us // 3, 1)
    idle = now - heard_us
    if idle >= silence_us and now - due_us < third:
        return Pulse.SILENT, now
    if idle >= third:
        return Pulse.PING, now + (min(third, silence_us - idle) if idle < silence_us else third)
    return Pulse.WELL, heard_us + third


class DelayLine:
    """Bytes that leave later than they were written, in the order in which they were written: a slow link,
    for trials."""

    __slots__ = ("_waiting", "delay_us", "queued_bytes")

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, bytes]] = deque()
        self.delay_us = 0
        self.queued_bytes = 0

    @property
    def next_us(self) -> int | None:
        return self._waiting[0][0] if self._waiting else None

    def put(self, now: int, data: bytes) -> None:
        due = now + self.delay_us
        if self._waiting:  # the delay may have become shorter: nothing overtakes
            due = max(due, self._waiting[-1][0])
        self._waiting.append((due, data))
        self.queued_bytes += len(data)

    def take(self, now: int) -> bytes:
        """What is due."""
        due = []
        while self._waiting and self._waiting[0][0] <= now:
            due.append(self._waiting.popleft()[1])
        data = b"".join(due)
        self.queued_bytes -= len(data)
        return data

    def take_all(self) -> bytes:
        data = b"".join([data for _, data in self._waiting])
        self._waiting.clear()
        self.queued_bytes = 0
        return data
