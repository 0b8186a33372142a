"""What a program without a state has missed, when its process comes back as a new incarnation: rule 33 of
docs/protocols/membership.md.

A program that is a state begins anew from its contact's. One that only takes messages has no use for that:
it lacks the operations that took effect while it was away, or that its log has forgotten. A joiner says how
far its program has come (`Extent`), the contact adds to the state what its log still holds of the rest and
says what it does not (`Lost`), and the new incarnation has that to read (`unread`) before anything later.

Invariant: of all operations that took effect where this incarnation is a member, its program has had each in
some incarnation, or it is in `unread`, or named in `lost`, or it is still to be delivered here.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK
from thence.core.groups import ALL, Extent, Lost, Place, Span, incarnation, span_of, told_apart
from thence.core.varint import Reader, put
from thence.members.extents import Progress
from thence.members.operations import Operation, Operations
from thence.members.spans import Spans
from thence.oplog.log import OpLog
from thence.replica.group.ledger.ledger import Ledger
from thence.replica.group.ledger.state import MemberState, Read
from thence.replica.group.transfer.carrying import operations_of

Missed = tuple[Iterator[Read[Operation]], tuple[Lost, ...]]
"""What a joiner's program has missed and its contact has, and what that does not have any more."""

READ = 2
"""Key of the log's note about how much of what was missed the program has read."""


class Reading:
    """Of one incarnation."""

    __slots__ = (
        "_log", "_progress", "_told", "before", "begun", "count", "former", "holders", "lost", "missed",
        "pending", "reach", "replays", "whole",
    )  # fmt: skip

    def __init__(self, log: OpLog, state: MemberState, delivered: int) -> None:
        """`delivered`: how many messages the ledger counts."""
        self._log = log
        self.before = state.extent
        """What the program had in earlier incarnations."""
        self._progress = Progress(state.extent)
        self.missed = state.unread
        """Operations that the program had missed when this incarnation began; it has read `count` of them."""
        self.lost = state.lost
        """What it had missed and the contact's log did not hold: to be told before those."""
        self._count(0, not state.lost)
        self.whole = not state.goes_on
        """Both are here as they were then."""
        self.holders = state.holders
        """The members on the contact's side."""
        self.former = state.former[:2]
        """The number of the incarnation before this one, and how many messages that had delivered."""
        self.begun = state.former[2] if state.goes_on else delivered
        """How many messages had been delivered where it began."""
        self.replays = 0
        """Readers of the log on the program's behalf: it is not collected while there are some."""
        self.reach = state.reach
        """Operations above these counters came with the state, or have come since."""

    @property
    def anew(self) -> bool:
        """Its program has had nothing in earlier incarnations."""
        return self.before is None

    def had(self, place: Place, exactly: Callable[[Place], Place]) -> bool:
        """Did the program have this operation in an earlier incarnation?"""
        return self._progress.covers(place, exactly)

    def extent(self, ledger: Ledger, operations: Operations) -> Extent:
        """What the program has had by now, in whichever incarnation, or is to read."""
        before = self._progress
        known = ledger.timelines.known(ledger.count)  # also by the starts that messages were sent under
        # Of one that is past, what is known of its starts tells its timeline from another one's.
        now = ledger.vector() | {name: count for name, count in known.items() if count}
        counts = {
            name: count
            for name, count in before.counts.items()
            if count > max(ledger.count(name), now.get(name, 0))
            and (name not in ledger.past or told_apart(name)[1])
        }
        carried = [
            place for place in before.carried | operations.carried if place[1] > ledger.count(place[0])
        ]
        past = Spans([*before.past, *ledger.past])
        return Extent({**now, **counts}, past.all, tuple(sorted(carried)))

    @property
    def untold(self) -> tuple[Lost, ...]:
        return () if self._told else self.lost

    @property
    def unread(self) -> list[Operation]:
        return self.missed[self.count :]

    def _count(self, count: int, told: bool = True) -> None:
        self.count, self._told = count, told
        self.pending = len(self.missed) - count + (not told)
        """How much there is to read; asked for in every step."""

    def read(self) -> Operation | tuple[Lost, ...]:
        """The program takes the next of it."""
        found: Operation | tuple[Lost, ...] = self.lost
        if self._told:
            found = self.missed[self.count]
            self._count(self.count + 1)
        else:
            self._count(self.count)
        self._note()
        return found

    def read_all(self) -> None:
        """It has taken everything."""
        if self.pending:
            self._count(len(self.missed))
            self._note()

    def _note(self) -> None:
        out = bytearray()
        put(out, self.count)
        self._log.note(READ, bytes(out))

    def recall(self, notes: Mapping[int, bytes]) -> None:
        """After a restart: so much of it had been read."""
        if READ in notes:
            self._count(min(Reader(notes[READ], 0, len(notes[READ])).take(), len(self.missed)))

    def written_down(self) -> None:
        """Everything was read, and the state that had it is not the newest any more."""
        self.whole = self.whole and not (self.missed or self.lost)
        self.missed, self.lost = [], ()
        self._count(0, self._told)

    def cleared(self, ledger: Ledger) -> None:
        """What came with the state beside messages is not kept any longer."""
        self.reach = dict(zip(ledger.names, ledger.retain_from, strict=True))


def handed_over(
    ledger: Ledger, operations: Operations, reading: Reading, extent: Extent, forgetful: bool
) -> Missed:
    """From its contact, for a joiner whose program has come so far: operations in the log that all other
    members have, causes first, and what the log does not hold any more. What a member may lack, or is not
    stable, is in the state anyway. `forgetful`: the joiner may have forgotten what all had."""
    progress = Progress(extent)
    history = _history(ledger, progress, list(ledger.retain_from), ledger.written(_had(ledger, progress)))
    below = dict(reading.reach)
    if not operations.inherited:
        for name, start in zip(ledger.names, ledger.log.start, strict=False):
            below[name] = max(start, below.get(name, 0))
    starts = ledger.timelines.starts
    had = {name: progress.count(name, starts.get(name, ())) for name in below}
    lost = [Lost(name, had[name] + 1, low) for name, low in below.items() if low > had[name]]
    if lost or forgetful:
        lost += unknown(ledger, progress)
    return history, tuple(sorted(lost))


def _history(
    ledger: Ledger, progress: Progress, floor: list[int], written: Iterator[tuple[int, bytes]]
) -> Iterator[Read[Operation]]:
    for dot, data in written:
        there: Sequence[Operation] = ()
        if dot >> ORIGIN_BITS <= floor[dot & ORIGIN_MASK]:
            there = operations_of(ledger, dot, data)
        for operation in there:
            new = not progress.covers((operation.origin, operation.seq), ledger.timelines.exactly)
            yield operation if new else None, len(operation.payload)
        if not there:
            yield None, len(data)


def unknown(ledger: Ledger, progress: Progress) -> list[Lost]:
    """Of incarnations that were past when this member was let in it knows only that they are."""
    known = Spans([span_of(name) for name, count in zip(ledger.names, ledger.counts, strict=True) if count])
    old = [span for span in ledger.past if not (progress.past.covers(*span) or known.covers(*span))]
    return [Lost(one.origin, progress.counts.get(one.origin, 0) + 1, one.last) for one in everything_of(old)]


def everything_of(past: Iterable[Span]) -> list[Lost]:
    return [Lost(incarnation(process, high), 1, ALL) for process, _, high in past]


def _had(ledger: Ledger, progress: Progress) -> list[int]:
    """Above these counters the log holds everything; where a program lacks nothing below the floor, nothing
    is to be read."""
    base, starts, found = ledger.log.base, ledger.timelines.starts, []
    counted = zip(ledger.names, ledger.counts, ledger.retain_from, strict=True)
    for at, (name, count, floor) in enumerate(counted):
        had = max(progress.count(name, starts.get(name, ())), base[at] if at < len(base) else 0)
        found.append(count if had >= floor else had)
    return found
