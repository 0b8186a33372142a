"""What processes of a trial have forgotten of what they sent themselves (`check.forgotten`): what a disk that
is put back knows is counted then, and which operations there were is learnt in the end."""

from bisect import bisect_right
from collections.abc import Mapping
from itertools import pairwise
from typing import Final, NamedTuple

from thence.check.forgotten import Forgotten
from thence.core.groups import Place, incarnation, number_of, process_of
from thence.lab.chaos.heard import Places


class _CountedLoss(NamedTuple):
    newest: int
    """The number of its last incarnation by then."""
    kept: Mapping[str, int]
    """Of its incarnations, how many operations it had sent and still knew; none is named: it knew nothing."""
    numbers: Mapping[str, list[int]]
    """By incarnation, the numbers of its operations."""

    def forgot(self, place: Place) -> bool:
        return number_of(place[0]) <= self.newest and not self._knew(place)

    def precedes(self, place: Place) -> bool:
        """Where a disk was put back, numbers from then on stand for two operations, which nothing here tells
        apart: it may have been sent by the incarnation that was put back, before it heard of that."""
        return number_of(place[0]) > self.newest or (place[0] in self.kept and not self._knew(place))

    def _knew(self, place: Place) -> bool:
        if not self.kept:
            return False
        member = incarnation(process_of(place[0]), number_of(place[0]))
        if number_of(member) < min(map(number_of, self.kept)):
            return True  # its log was gone by then: the next incarnation had everything
        return bisect_right(self.numbers.get(member, []), place[1]) <= self.kept.get(member, 0)


class CountedForgotten(Forgotten):
    def __init__(self) -> None:
        super().__init__()
        self._numbers: Final[dict[str, list[int]]] = {}

    def lose(self, process: str, newest: int, kept: Mapping[str, int] | None = None) -> None:
        """`newest`: the number of its last incarnation. `kept`: of its incarnations, how many operations a
        disk knows that was put back."""
        self._add(process, _CountedLoss(newest, dict(kept or {}), self._numbers))

    def learn(self, places: Places) -> None:
        """Which operations there were: messages about members have numbers as well."""
        for origin, spans in places.items():
            self._numbers[origin] = sorted(seq for low, high in spans for seq in range(low, high + 1))


def out_of_turn(places: Places, put_back: Mapping[str, int]) -> list[str]:
    """Incarnations whose operations took effect in another order than they were sent in. `put_back`: their
    numbers stand for two operations."""
    return [
        origin
        for origin, spans in places.items()
        if origin not in put_back and any(b[0] <= a[1] for a, b in pairwise(spans))
    ]
