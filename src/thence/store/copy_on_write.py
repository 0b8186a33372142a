"""The keys that a store had at a moment, written down piece by piece while operations go on: one that is
about to change is written down before.

Which ones were written down is kept in many small dictionaries: a large one stops everything when it grows.
Lists and sets would be walked by each full garbage collection, tuples and dictionaries of bytes are not.
"""

from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

from thence.crdt.deadline import Deadline
from thence.crdt.numbers import Value
from thence.store.scan import parts_of
from thence.store.slots import Assigned, Counted, Slot
from thence.store.space import Space

PIECE_BYTES: Final = 128 << 10
PLAIN_BYTES: Final = 32
"""Of a record, beside its key and value."""

SHARDS: Final = 256
FORGOTTEN: Final = 16
CUT: Final = 8192
LOOKS: Final = 8192
"""Keys that are looked at for one piece: some were written down before."""

R = TypeVar("R")
Held = Value | Assigned | Counted | Slot
Write = Callable[[int, bytes, Held | None, int | Deadline | None], Iterable[R]]
"""Database, key, what is held of it and its deadline, to records."""
WritePlain = Callable[[int, bytes, bytes], R]
"""The same of a string that is stable and does not expire, as most keys are: one record."""


class CopyOnWrite(Generic[R]):
    """`space.Keeps`. What it takes to begin is a list of all keys; each piece is bounded work."""

    __slots__ = ("_bases", "_done", "_left", "_plain", "_size", "_space", "_spent", "_waiting", "_write")

    def __init__(
        self, space: Space, write: Write[R], size: Callable[[R], int], plain: WritePlain[R] | None = None
    ) -> None:
        """`end` it, or keys that change are written down for ever."""
        self._space: Final = space
        self._write: Final = write
        self._plain: Final = plain
        self._size: Final = size
        self._bases: Final = [(base.keys, base.deadlines) for base in space.databases]
        self._left: Final = [
            (number, iter(left))
            for number, base in enumerate(self._bases)
            for keys in base
            for left in parts_of(iter(keys), CUT)
        ]
        """Keys that were there, by database; those that are dated are in it once more. In parts, since to
        forget a long tuple takes its time as well."""
        self._spent: list[dict[bytes, None]] = []
        """What is to be forgotten when all was written."""
        self._done: Final[list[list[dict[bytes, None]]]] = [[] for _ in self._bases]
        """Those that are written down, or were not there, by hash."""
        for number in {number for number, _ in self._left}:
            self._done[number] = [{} for _ in range(SHARDS)]
        self._waiting: list[R] = []
        space.copies.append(self)

    def end(self) -> None:
        self._space.copies.remove(self)

    def keep(self, number: int, key: bytes) -> None:
        if not (done := self._done[number]):
            return  # there was none
        shard = done[hash(key) % SHARDS]
        if key not in shard:
            shard[key] = None
            self._waiting += self._records(number, key)

    def some(self) -> list[R] | None:
        """The next records, if there are some; None: that was all."""
        if not (self._left or self._waiting):
            del self._spent[-FORGOTTEN:]
            return [] if self._spent else None
        records, self._waiting = self._waiting, []
        size, looks = sum(map(self._size, records)), LOOKS
        plain, add = self._plain, records.append
        while self._left and size < PIECE_BYTES and looks > 0:
            number, left = self._left[-1]
            keys, deadlines = self._bases[number]
            done = self._done[number]
            for key in left:
                looks -= 1
                shard = done[hash(key) % SHARDS]
                if key not in shard:
                    shard[key] = None
                    found = keys.get(key)
                    if plain is not None and type(found) is bytes and key not in deadlines:
                        add(plain(number, key, found))
                        size += PLAIN_BYTES + len(key) + len(found)
                    else:
                        for record in self._write(number, key, found, deadlines.get(key)):
                            add(record)
                            size += self._size(record)
                if size >= PIECE_BYTES or looks <= 0:
                    break
            else:
                self._left.pop()
        if not self._left:
            for number, done in enumerate(self._done):
                self._spent += done
                self._done[number] = []
        return records

    def _records(self, number: int, key: bytes) -> Iterable[R]:
        keys, deadlines = self._bases[number]
        return self._write(number, key, keys.get(key), deadlines.get(key))
