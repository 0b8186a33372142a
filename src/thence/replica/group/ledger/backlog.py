"""What a member lacks that is not in memory any more is read from the log, a little in each step.

A member that was away for long lacks tens of thousands of messages. To read them at once, or to look for the
few of one origin among all others, would make all other messages wait. So a reader stands where it is
until the next step, and everything that one step reads, for all members, comes out of one allowance.
"""

from collections.abc import Generator, Iterator
from typing import TypeVar

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK
from thence.oplog.reading import OutOfReachError
from thence.oplog.record import Stored
from thence.replica.group.ledger.ledger import Ledger

T = TypeVar("T")

KILOBYTE_BITS = 10


class Allowance:
    """Of one step. A message costs one, a large one as many as it has kilobytes."""

    __slots__ = ("left",)

    def __init__(self, messages: int) -> None:
        self.left = messages

    def spend(self, data: bytes) -> None:
        self.left -= 1 + (len(data) >> KILOBYTE_BITS)

    def spend_on(self, work: Generator[int, None, T]) -> tuple[T] | None:
        """Go on with something that yields what each of its items has cost, in bytes; what becomes of it, if
        that was all."""
        try:
            while self.left > 0:
                self.left -= 1 + (next(work) >> KILOBYTE_BITS)
        except StopIteration as end:
            return (end.value,)
        return None


class Backlog:
    """Messages of one origin, for one member."""

    __slots__ = ("_ledger", "_origin", "_rest", "dry")

    def __init__(self, ledger: Ledger, origin: str) -> None:
        self._ledger = ledger
        self._origin = origin
        self._rest: Iterator[Stored] | None = None
        self.dry = False
        """There was nothing left in the log when it was last asked."""

    def rewind(self) -> None:
        """What was found last was not used: look for it again."""
        self._rest = None

    def read(self, after: int, allowance: Allowance) -> Iterator[tuple[int, bytes]]:
        """Counters and bytes of the next messages above a counter, in order."""
        begun, self.dry = self._rest is None, False
        if self._rest is None:
            self._rest = self._ledger.near(self._origin, after)
        index = self._ledger.index(self._origin)
        try:
            for stored in self._rest:
                allowance.spend(stored.data)
                if stored.dot & ORIGIN_MASK == index and stored.dot >> ORIGIN_BITS > after:
                    yield stored.dot >> ORIGIN_BITS, stored.data
                if allowance.left <= 0:
                    return
        except OutOfReachError:
            begun = False  # what it stood before is stable by now, and was collected
        self._rest = None
        self.dry = begun  # else the log has grown since it was begun
