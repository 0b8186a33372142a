"""Events that wait for a program: bounded, however slowly it reads.

What it has not taken waits with the senders and in the log, so messages are here only between the moment in
which it asked for one and the moment in which it gets it. What grows by itself is told in fewer words once
there is much of it: of views only the last, of stable messages the last of each sender, which says the same
of all before it. Orphans are told one by one, up to a number that a program which reads does not reach.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import Final, Generic, TypeVar

E = TypeVar("E")


class Happened(Generic[E]):
    """`follows`: of two waiting events with the same key the later one says everything; None: it does not."""

    __slots__ = ("_events", "_follows", "_limit", "_most")

    def __init__(self, most: int, follows: Callable[[E], Hashable | None]) -> None:
        self._most: Final = most
        self._follows: Final = follows
        self._limit = most
        self._events: deque[E] = deque()

    def __len__(self) -> int:
        return len(self._events)

    def append(self, event: E) -> None:
        self._events.append(event)
        if len(self._events) > self._limit:
            self._shorten()

    def extend(self, events: Iterable[E]) -> None:
        self._events.extend(events)
        if len(self._events) > self._limit:
            self._shorten()

    def next(self) -> E | None:
        """The first, which waits no more."""
        return self._events.popleft() if self._events else None

    def drop(self, which: Callable[[E], bool]) -> None:
        """The program gets these otherwise."""
        self._events = deque([event for event in self._events if not which(event)])

    def _shorten(self) -> None:
        kept: list[E] = []
        said: set[Hashable] = set()
        for event in reversed(self._events):
            key = self._follows(event)
            if key is None or key not in said:
                kept.append(event)
            if key is not None:
                said.add(key)
        self._events = deque(reversed(kept))
        self._limit = max(self._most, 2 * len(kept))  # else each further event would be looked at with all
