"""Events once more, for a program on an edge tree that names the position up to which it knows them.

A position counts the messages and states that the log of an identity ever had; parts number what was told of
at the place of one of them. What it knows of the log of another identity is not known
here: that is a `Gap`, as is what the log does not hold any more.
"""

from collections.abc import Iterator
from types import MappingProxyType
from typing import Final

from thence.core.groups import number_of
from thence.replica.edge_journal import EdgeCame, EdgeFacts, EdgeJournal, Logged
from thence.replica.edge_parts import EdgeProgram
from thence.replica.events import Delivered, Gap, Repeated
from thence.replica.group.ledger.backlog import Allowance
from thence.replica.positions import LIFE_BITS, PART_MAX, place_of
from thence.spread.edge_book import EdgeBook, EdgeEntry

TURN: Final = 256
"""Messages that are read from the log before others have their turn; a large one counts for several."""
LIVES: Final = (1 << 15) - 1


def life_of(me: str) -> int:
    """What tells positions of two identities of a process apart."""
    return 1 + number_of(me) % LIVES


class EdgeReplay:
    """`own`: with what the node has sent itself."""

    def __init__(
        self, journal: EdgeJournal, program: EdgeProgram, book: EdgeBook, after: int, own: bool
    ) -> None:
        self._journal: Final = journal
        self._program: Final = program
        self._me: Final = book.me
        self._life: Final = life_of(book.me)
        self._after: Final = after
        self._own: Final = own
        self._waits: Final[dict[str, list[EdgeEntry]]] = {}
        """By group that is being joined, what has come of it meanwhile."""
        self._had: Final[dict[tuple[str, str], int]] = {}
        """Up to where messages were read, or are covered by a state."""

    def events(self, upto: int, ordinal: int) -> Iterator[Repeated | None]:
        """Up to a record that the program was told of, and its ordinal. The log is read as events are asked
        for; None: others should have their turn."""
        head, mine = self._journal.head, self._after >> LIFE_BITS == self._life
        for record in self._records(head, upto):
            ordinal -= record is not None and not isinstance(record, EdgeFacts)
            if record is None:
                yield None
        known = place_of(self._life, max(0, ordinal))
        # Of a run that is the last to be gone, some may be what the program lacks.
        if self._after != known and (self._after < known + PART_MAX if mine else self._after or ordinal > 0):
            yield Gap(MappingProxyType({}), MappingProxyType({}), (), known)
        for record in self._records(head, upto):
            ordinal += record is not None and not isinstance(record, EdgeFacts)
            if record is None:
                yield None
            elif isinstance(record, Logged):
                yield from self._message(ordinal, record)
            elif isinstance(record, EdgeCame):
                yield from self._came(ordinal, record)
            else:
                self._facts(record)

    def _records(self, head: int, upto: int) -> Iterator[Logged | EdgeCame | EdgeFacts | None]:
        allowance = Allowance(TURN)
        for position, record in self._journal.records(head):
            if position > upto:
                return
            yield record
            allowance.spend(record.entry.payload if isinstance(record, Logged) else b"")
            if allowance.left <= 0:
                yield None
                allowance.left = TURN

    def _facts(self, facts: EdgeFacts) -> None:
        for group in [group for group in self._waits if group not in (*facts.joining, *facts.inside)]:
            del self._waits[group]

    def _is_new(self, at: int) -> bool:
        return at > self._after or self._after >> LIFE_BITS != self._life

    def _message(self, ordinal: int, record: Logged) -> Iterator[Delivered]:
        entry = record.entry
        self._had[entry.origin, entry.group] = entry.number
        if record.joining:
            self._waits.setdefault(entry.group, []).append(entry)
        if record.member and self._program.reads(entry.group):
            yield from self._each(entry, place_of(self._life, ordinal))

    def _each(self, entry: EdgeEntry, position: int, part: int = 0) -> Iterator[Delivered]:
        if entry.origin == self._me and not self._own:
            return
        for number, payload, at in each_of(entry, position, part):
            if self._is_new(at):
                yield Delivered(None, payload, entry.origin, number, at, group=entry.group)

    def _came(self, ordinal: int, came: EdgeCame) -> Iterator[Repeated]:
        place, parts = place_of(self._life, ordinal), 0
        for group in came.groups:
            if group != came.joins and not came.full:
                continue
            covers = {origin: number for origin, of, number in came.covers if of == group}
            if group == came.joins:
                for entry in self._waits.pop(group, ()):
                    if entry.number > covers.get(entry.origin, 0) and self._program.reads(group):
                        yield from self._each(entry, place, parts + 1)
                        parts += entry.span
            elif self._program.reads(group):
                first = {
                    origin: had + 1
                    for origin, number in covers.items()
                    if number > (had := self._had.get((origin, group), 0))
                }
                parts += 1 if first else 0
                if first and self._is_new(place + parts):
                    last = {origin: covers[origin] for origin in first}
                    yield Gap(MappingProxyType(first), MappingProxyType(last), (), place + parts)
        self._had.update([((origin, group), number) for origin, group, number in came.covers])


def each_of(entry: EdgeEntry, position: int, part: int) -> Iterator[tuple[int, bytes, int]]:
    """Number, payload and position of each message of an entry, which is told of at a position. `part`: of
    the first of them, if it is not all that is told of there."""
    part = part or (1 if entry.span > 1 else 0)
    for at, (number, payload) in enumerate(zip(entry.numbers, entry.operations, strict=True)):
        yield number, payload, position + min(part + at, PART_MAX)
