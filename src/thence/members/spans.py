"""Sets of incarnations that need not be named one by one: per process, spans of numbers.

A process uses its numbers in ascending order, so those of its incarnations that are over and done with lie
side by side, however many there were. Sets only grow, so a peer that was told one at some time need not be
told more than what has come since (`since`).
"""

from collections import deque
from collections.abc import Iterable, Iterator

from thence.core.groups import Span, number_of, process_of

RECENT = 256
"""Additions that are remembered: more than come between two receipts."""


class Spans:
    __slots__ = ("_all", "_recent", "_spans", "version")

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        self._spans: dict[str, list[tuple[int, int]]] = {}
        """Disjoint, not adjacent, ascending."""
        self._all: tuple[Span, ...] | None = ()
        """What it amounts to, if that was asked for since the last addition."""
        self._recent: deque[Span] = deque(maxlen=RECENT)
        self.version = 0
        """How often something was added."""
        for span in spans:
            self.add(*span)

    def __iter__(self) -> Iterator[Span]:
        for process in sorted(self._spans):
            for low, high in self._spans[process]:
                yield process, low, high

    def __len__(self) -> int:
        return sum(map(len, self._spans.values()))

    def __contains__(self, member: str) -> bool:
        spans = self._spans.get(process_of(member))
        if not spans:
            return False
        number = number_of(member)
        return any(low <= number <= high for low, high in spans)

    def covers(self, process: str, low: int, high: int) -> bool:
        """Are all of these numbers in here?"""
        return any(first <= low and high <= last for first, last in self._spans.get(process, ()))

    def top(self, process: str) -> int:
        """The highest number of a process in here; 0: none."""
        spans = self._spans.get(process)
        return spans[-1][1] if spans else 0

    def add(self, process: str, low: int, high: int) -> None:
        """All numbers from `low` to `high`."""
        if low > high or self.covers(process, low, high):
            return
        self._all = None
        self.version += 1
        self._recent.append((process, low, high))
        merged = []
        for first, last in self._spans.get(process, ()):
            if last + 1 < low or high + 1 < first:
                merged.append((first, last))
            else:
                low, high = min(low, first), max(high, last)
        merged.append((low, high))
        merged.sort()
        self._spans[process] = merged

    @property
    def all(self) -> tuple[Span, ...]:
        if self._all is None:
            self._all = tuple(self)
        return self._all

    def since(self, version: int) -> tuple[Span, ...]:
        """What was added since it had this version; everything, if that is too long ago."""
        new = self.version - version
        if not new:
            return ()
        return tuple(self._recent)[-new:] if new <= len(self._recent) else self.all

    def below(self, process: str, number: int) -> Iterator[tuple[int, int]]:
        """What is not in here between the spans of a process, below a number."""
        free = 1
        for low, high in self._spans.get(process, ()):
            if low >= number:
                break
            if free < low:
                yield free, low - 1
            free = high + 1
        if free < number:
            yield free, number - 1
