"""An attic in memory: what a simulated node has instead of a file for old tags."""

from bisect import bisect_left
from collections.abc import Sequence


class MemoryAttic:
    """The obvious implementation of `order.tags.TagSpill`."""

    __slots__ = ("_places", "held")

    def __init__(self) -> None:
        self.held: list[tuple[int, int, bytes]] = []
        self._places: dict[int, tuple[int, bytes]] = {}

    def put(self, rows: Sequence[tuple[int, int, bytes]]) -> None:
        self.held.extend(rows)
        self._places.update({dot: (place, data) for place, dot, data in rows})

    def of(self, dot: int) -> tuple[int, bytes] | None:
        return self._places.get(dot)

    def run(self, first: int, count: int) -> list[tuple[int, bytes]]:
        at = bisect_left(self.held, (first,))
        return [(dot, data) for _, dot, data in self.held[at : at + count]]

    def forget(self, below: int) -> None:
        upto = bisect_left(self.held, (below,))
        for _, dot, _ in self.held[:upto]:
            del self._places[dot]
        del self.held[:upto]
