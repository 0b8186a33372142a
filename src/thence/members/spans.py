"""Sets of incarnations that nobody needs to name one by one: per process, spans of numbers.

A process uses its numbers in ascending order, so those of its incarnations that are over and done with lie
side by side, however many there were.
"""

from collections.abc import Iterable, Iterator

from thence.core.groups import Span, number_of, process_of


class Spans:
    __slots__ = ("_spans",)

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        self._spans: dict[str, list[tuple[int, int]]] = {}
        """Disjoint, not adjacent, ascending."""
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
        if low > high:
            return
        merged = []
        for first, last in self._spans.get(process, ()):
            if last + 1 < low or high + 1 < first:
                merged.append((first, last))
            else:
                low, high = min(low, first), max(high, last)
        merged.append((low, high))
        merged.sort()
        self._spans[process] = merged

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
