"""Messages that a program on an edge tree has not taken: the first of them in memory, the others in the log.

Invariants. Messages are taken in the order of the log. Those in `_first` come before what only the log holds
(`_more`), and that before those of the step under way, which cannot be read yet (`_fresh`). As long as one
waits, all that is for the program waits behind it.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from thence.replica.edge_journal import EdgeFacts, EdgeJournal, Logged
from thence.spread.edge_book import EdgeEntry


class Waiting(NamedTuple):
    position: int
    ordinal: int
    entry: EdgeEntry


class EdgeInbox:
    __slots__ = ("_end", "_first", "_for_program", "_fresh", "_journal", "_last", "_more", "_most", "waiting")

    def __init__(self, journal: EdgeJournal, most: int, for_program: Callable[[Logged], bool]) -> None:
        """`most`: entries in memory, beside those of a step."""
        self._journal: Final = journal
        self._most: Final = most
        self._for_program: Final = for_program
        self._first: Final[deque[Waiting]] = deque()
        self._fresh: Final[deque[Waiting]] = deque()
        self._last = 0, 0
        """Of `_first`, the position and the ordinal, whether it was taken or not."""
        self._more = False
        self._end = 0
        """What is for the program comes up to this position, in memory or in the log."""
        self.waiting = 0
        """Messages."""

    def put(self, position: int, ordinal: int, entry: EdgeEntry, logged: bool) -> None:
        """`logged`: it can be read from the log."""
        self.waiting += entry.span
        if len(self._first) < self._most and not (self._more or self._fresh):
            self._first.append(Waiting(position, ordinal, entry))
            self._last = position, ordinal
            self._end = position
        elif logged:
            self._more, self._end = True, position
        else:
            self._fresh.append(Waiting(position, ordinal, entry))

    def committed(self) -> None:
        """The log holds all of the step."""
        if self._fresh:
            self._more, self._end = True, self._fresh[-1].position
            self._fresh.clear()

    def next(self) -> Waiting | None:
        if self._more and not self._first:
            self._read_on()
        where = self._first or self._fresh
        if not where:
            self.waiting = 0
            return None
        found = where.popleft()
        self.waiting -= found.entry.span
        return found

    def _read_on(self) -> None:
        after, ordinal = self._last
        for position, record in self._journal.records(after):
            if position > self._end:
                break
            ordinal += not isinstance(record, EdgeFacts)
            if isinstance(record, Logged) and self._for_program(record):
                self._first.append(Waiting(position, ordinal, record.entry))
                self._last = position, ordinal
                if len(self._first) >= self._most:
                    return
        self._more = False
