"""SCAN: keys in the order of a hash that is the same everywhere, for cursors that stay valid.

A cursor is the hash to go on from. Every key that is there from the first call to the last is returned;
cursors hold at other replicas, and after restarts. The index has keys in buckets by the first bits of their
hash, so that a page is some buckets. It is listed by the calls themselves, a bounded part in each: until all
keys are in it they return none, and the cursor that they were given. It is kept up to date, and dropped when
many changes came without a scan, or its buckets have become long.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from hashlib import blake2b
from heapq import nsmallest
from itertools import islice
from typing import Final

IDLE_MAX: Final = 100_000
"""Changes without a scan in between."""
HASH_BITS: Final = 63
BUCKET: Final = 8
"""Keys in a bucket, at most on average, when the index is begun."""
LONG: Final = 16 * BUCKET
"""The same later."""
WORK: Final = 4096
"""Keys that one call lists, and buckets that it looks into, if it asks for no more."""
FORGOTTEN: Final = 64
"""Buckets that go with one change: to forget many at once takes its time as well."""

Bucket = dict[bytes, None]
"""Garbage collection does not walk dictionaries of bytes; of tuples it walks all that are new at once."""
_EMPTY: Final[Bucket] = {}
"""Of which there may be many, until something comes."""


def stable_hash(key: bytes) -> int:
    """Never 0, which begins and ends a scan; below 2^63."""
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "big") >> 1 or 1


def parts_of(keys: Iterator[bytes], most: int) -> Iterator[tuple[bytes, ...]]:
    """All of them, in many tuples: to forget a long one takes its time."""
    while part := tuple(islice(keys, most)):
        yield part


class ScanIndex:
    __slots__ = ("_buckets", "_count", "_idle", "_left", "_shift", "_spent")

    def __init__(self) -> None:
        self._buckets: list[Bucket] = []
        """By the first bits of the hash; none: there is no index. Each key that is there is in its bucket or
        among those that are left to be listed."""
        self._left: list[tuple[bytes, ...]] = []
        self._spent: list[Bucket] = []
        self._shift = HASH_BITS
        self._count = 0
        """Keys in the buckets."""
        self._idle = 0

    def add(self, key: bytes) -> None:
        if self._buckets:
            self._put(key)
            self._changed()
        elif self._spent:
            del self._spent[-FORGOTTEN:]

    def remove(self, key: bytes) -> None:
        if self._buckets:
            bucket = self._buckets[stable_hash(key) >> self._shift]
            if key in bucket:  # else it is still to be listed, and will not be
                del bucket[key]
                self._count -= 1
            self._changed()

    def clear(self) -> None:
        self._buckets, self._left, self._spent, self._count = [], [], [], 0

    def _put(self, key: bytes) -> None:
        at = stable_hash(key) >> self._shift
        bucket = self._buckets[at]
        if bucket is _EMPTY:
            bucket = self._buckets[at] = {}
        if key not in bucket:  # it may have gone and come while others were listed
            bucket[key] = None
            self._count += 1

    def _changed(self) -> None:
        self._idle += 1
        if self._idle > IDLE_MAX or self._count > LONG * len(self._buckets):
            spent = self._buckets
            self.clear()
            self._spent = spent

    def page(self, keys: Mapping[bytes, object], cursor: int, count: int) -> tuple[int, list[bytes]]:
        """The next cursor, and about `count` keys; `keys` is all of them."""
        self._idle = 0
        if not self._buckets:
            self._begin(keys)
        if self._left and not self._listed(keys, max(count, WORK)):
            return max(cursor, 1), []
        buckets, shift = self._buckets, self._shift
        at = cursor >> shift
        found: list[bytes] = []
        if at < len(buckets) and cursor > max(1, at << shift):  # of a replica with other buckets
            found += [key for key in buckets[at] if stable_hash(key) >= cursor]
            at += 1
        end = min(len(buckets), at + max(count, WORK))
        while at < end and (len(found) < count or not buckets[at]):
            found += buckets[at]
            at += 1
        return (at << shift if at < len(buckets) else 0), found

    def _begin(self, keys: Mapping[bytes, object]) -> None:
        bits = (len(keys) // BUCKET).bit_length()
        self._spent, self._count, self._shift = [], 0, HASH_BITS - bits
        self._buckets = [_EMPTY] * (1 << bits)
        self._left = list(parts_of(iter(keys), WORK))

    def _listed(self, keys: Container[bytes], most: int) -> bool:
        """So many more are in the index. Whether all are."""
        left = self._left
        while left and most > 0:
            part = left.pop()
            most -= len(part)
            for key in part:
                if key in keys:
                    self._put(key)
        return not left


def page(elements: Iterable[bytes], cursor: int, count: int) -> tuple[int, list[bytes]]:
    """The same of a collection, which has no index."""
    hashed = ((stable_hash(one), one) for one in elements)
    order = nsmallest(count + 16, [one for one in hashed if one[0] >= cursor])
    end = min(count, len(order))
    while 0 < end < len(order) and order[end][0] == order[end - 1][0]:
        end += 1
    return (order[end][0] if end < len(order) else 0), [key for _, key in order[:end]]
