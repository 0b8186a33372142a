"""SCAN: keys in the order of a hash that is the same everywhere, for cursors that stay valid.

A cursor is the hash to go on from. Every key that is there from the first call to the last is returned, and
keys with the same hash are returned together; cursors hold at other replicas, and after restarts. The index
is made with the first scan, kept up to date, and dropped when many changes came without one.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from hashlib import blake2b
from heapq import nsmallest
from typing import Final

IDLE_MAX: Final = 100_000
"""Changes without a scan in between."""


def stable_hash(key: bytes) -> int:
    """Never 0, which begins and ends a scan; below 2^63."""
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "big") >> 1 or 1


class ScanIndex:
    __slots__ = ("_idle", "_order")

    def __init__(self) -> None:
        self._order: list[tuple[int, bytes]] | None = None
        self._idle = 0

    def add(self, key: bytes) -> None:
        if self._order is not None:
            insort(self._order, (stable_hash(key), key))
            self._changed()

    def remove(self, key: bytes) -> None:
        if self._order is not None:
            del self._order[bisect_left(self._order, (stable_hash(key), key))]
            self._changed()

    def clear(self) -> None:
        self._order = None

    def _changed(self) -> None:
        self._idle += 1
        if self._idle > IDLE_MAX:
            self._order = None

    def page(self, keys: Iterable[bytes], cursor: int, count: int) -> tuple[int, list[bytes]]:
        """The next cursor, and about `count` keys; `keys` is all of them."""
        if self._order is None:
            self._order = sorted([(stable_hash(key), key) for key in keys])
        self._idle = 0
        order = self._order
        return _cut(order, bisect_left(order, (cursor, b"")), count)


def page(elements: Iterable[bytes], cursor: int, count: int) -> tuple[int, list[bytes]]:
    """The same of a collection, which has no index."""
    hashed = ((stable_hash(one), one) for one in elements)
    order = nsmallest(count + 16, [one for one in hashed if one[0] >= cursor])
    return _cut(order, 0, count)


def _cut(order: list[tuple[int, bytes]], at: int, count: int) -> tuple[int, list[bytes]]:
    end = min(at + count, len(order))
    while 0 < end < len(order) and order[end][0] == order[end - 1][0]:
        end += 1
    found = [key for _, key in order[at:end]]
    return (order[end][0] if end < len(order) else 0), found
