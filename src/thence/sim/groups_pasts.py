"""What had taken effect where an operation was sent. A past is the beginning of an order: those of all
operations of a world need no more space than the orders."""

from collections.abc import Container
from typing import NamedTuple

from thence.core.groups import Place


class Past(NamedTuple):
    order: list[Place]
    """Of one life of a process, which may have gone on."""
    size: int
    """So many of these."""


NOTHING = Past([], 0)

Pasts = dict[Place, Past]
"""By operation."""


def reduced(pasts: Pasts, kept: Container[Place]) -> Pasts:
    """Without what a group that was founded again does not have."""
    orders: dict[int, tuple[list[Place], list[int]]] = {}
    for order, _ in pasts.values():
        if id(order) not in orders:
            left, counts = [], [0]
            for place in order:
                if place in kept:
                    left.append(place)
                counts.append(len(left))
            orders[id(order)] = left, counts
    return {
        place: Past(orders[id(order)][0], orders[id(order)][1][size])
        for place, (order, size) in pasts.items()
    }


class Checked:
    """How far each order is known to be contained in a set that grows. A smaller set needs a new one."""

    __slots__ = ("_orders",)

    def __init__(self) -> None:
        self._orders: dict[int, Past] = {}

    def lacks(self, past: Past, there: Container[Place]) -> list[Place]:
        """What of it is not there."""
        order, size = past
        begin = self._orders.get(id(order), NOTHING).size
        missing = [place for place in order[begin:size] if place not in there]
        if not missing:
            self.passes(past)
        return missing

    def passes(self, past: Past) -> None:
        """All of it is there, or need not be."""
        if past.size > self._orders.get(id(past.order), NOTHING).size:
            self._orders[id(past.order)] = past
