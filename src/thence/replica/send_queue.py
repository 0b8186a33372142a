"""Broadcasts that wait behind operations from before a return: rule 32 of docs/protocols/membership.md.

The driver of a `GroupNode` keeps them, in the order in which they were asked for, while the node is
`in_debt`. Invariants: they are bounded in number and bytes; each ends within a time limit, sent or refused;
what is refused was never sent.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from thence.core.machine import NEVER
from thence.replica.group.settings import GroupSettings

T = TypeVar("T")


class _Held(NamedTuple, Generic[T]):
    payloads: Sequence[bytes]
    by: T
    until: int
    size: int


class SendQueue(Generic[T]):
    __slots__ = ("_bytes", "_settings", "gave_up", "held", "waited")

    def __init__(self, settings: GroupSettings) -> None:
        self._settings = settings
        self.held: Final[deque[_Held[T]]] = deque()
        self._bytes = 0
        self.waited = 0
        """Calls that ever had to wait."""
        self.gave_up = 0
        """Calls that were refused because of it."""

    def __len__(self) -> int:
        return len(self.held)

    def add(self, payloads: Sequence[bytes], by: T, now: int) -> bool:
        """Keep a call; False: there is no room, and it is refused."""
        settings, size = self._settings, sum(map(len, payloads))
        full = len(self.held) >= settings.backlog or self._bytes + size > settings.backlog_bytes
        if full:
            self.gave_up += 1
            return False
        self.waited += 1
        self.held.append(_Held(payloads, by, now + settings.settle_timeout_us, size))
        self._bytes += size
        return True

    def overdue(self, now: int) -> list[T]:
        """The callers that have waited for too long."""
        found = []
        while self.held and self.held[0].until <= now:
            found.append(self._pop().by)
        self.gave_up += len(found)
        return found

    def take(self) -> list[tuple[Sequence[bytes], T]]:
        """All of them, in order: nothing holds them back any more."""
        return [(held.payloads, held.by) for held in [self._pop() for _ in range(len(self.held))]]

    @property
    def wake_at(self) -> int:
        return self.held[0].until if self.held else NEVER

    def _pop(self) -> _Held[T]:
        held = self.held.popleft()
        self._bytes -= held.size
        return held


def why_not(debt: tuple[str, ...], room: bool = True) -> str:
    """What a program is told whose broadcast was refused."""
    names = ", ".join(debt) or "its members"
    why = f"the group has not yet settled what {names} sent last"
    reason = why if room else f"too many broadcasts wait: {why}"
    return f"not sent: operations from before this node's return go first, and {reason}"
