"""Rings: which links the members of a large group keep, and which of them each member's messages take.

All members know the same view, so nothing has to be agreed on. Each process has a place on several rings, by
a hash of its name, and keeps links to the one before it and the one after it on each: a random regular graph,
whose diameter is the logarithm of its size, and in which a process that comes or goes concerns its neighbours
alone. A neighbour that cannot be reached is passed over after a while, and the next one on that ring is a
neighbour as well, so that nodes that reach each other stay connected whatever has become of the others.

A member gets each origin's messages from the neighbour that lies on a shortest way to it, as the rings tell
(`routes`). Every step of such a way is one link closer to the origin, so the ways of all members to one
origin form a tree: each message crosses as many links as there are other members.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Final

PLACE_BYTES: Final = 8


class Rings:
    """The places of processes. `keep` names those that are there."""

    __slots__ = ("_places", "_rings")

    def __init__(self, rings: int) -> None:
        self._rings: Final[list[list[tuple[bytes, str]]]] = [[] for _ in range(rings)]
        self._places: Final[dict[str, list[tuple[bytes, str]]]] = {}

    def keep(self, processes: Iterable[str]) -> bool:
        """These are there, and no others. Returns whether that is news."""
        there, before = set(processes), self._places.keys()
        came, went = sorted(there - before), sorted(before - there)
        for process in went:
            for ring, place in zip(self._rings, self._places.pop(process), strict=True):
                del ring[bisect_left(ring, place)]
        for process in came:
            places = [(_hash(at, process), process) for at in range(len(self._rings))]
            self._places[process] = places
            for ring, place in zip(self._rings, places, strict=True):
                insort(ring, place)
        return bool(came or went)

    def wanted(self, me: str, will_do: Callable[[str], bool]) -> list[str]:
        """Processes that `me` keeps links to: on each ring, both ways, all up to the first that will do."""
        found: dict[str, None] = {}
        for ring, place in zip(self._rings, self._places.get(me, ()), strict=False):
            at = bisect_left(ring, place)
            for way in (1, -1):
                for process in _walk(ring, at, way):
                    found[process] = None
                    if will_do(process):
                        break
        return list(found)

    def near(self, process: str) -> Iterator[str]:
        """The next ones on each ring."""
        for ring, place in zip(self._rings, self._places.get(process, ()), strict=False):
            size = len(ring)
            if size > 1:
                at = bisect_left(ring, place)
                yield ring[at - 1][1]
                yield ring[at + 1 - size][1]

    def routes(self, me: str, first: Sequence[str]) -> dict[str, str]:
        """For each process that can be reached by way of `first`, which are linked to `me`: the one that lies
        on a shortest way."""
        routes = {process: process for process in first}
        edge = list(first)
        while edge:
            further = []
            for process in edge:
                way = routes[process]
                for other in self.near(process):
                    if other not in routes and other != me:
                        routes[other] = way
                        further.append(other)
            edge = further
        return routes


def _walk(ring: list[tuple[bytes, str]], at: int, way: int) -> Iterator[str]:
    """Once around, from the next one on."""
    for step in range(1, len(ring)):
        yield ring[(at + way * step) % len(ring)][1]


def _hash(ring: int, process: str) -> bytes:
    return blake2b(process.encode(), digest_size=PLACE_BYTES, salt=ring.to_bytes(2, "little")).digest()
