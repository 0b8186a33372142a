"""What a node of an edge tree writes to its log, and how its book comes back from there.

A message is a message record of the member "origin group": the log's vector is what the node has. Everything
else is a note, read in its place among the messages: a state that came (STATE), and chain, groups, coverage
and counters whenever one has changed (FACTS). A snapshot of the log is all of the book, with the states of
the program, so that what is before it may go.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK, pack
from thence.core.edge import Count
from thence.core.edge_codec import put_fields, take_fields
from thence.core.errors import InvariantError, UsageError
from thence.core.runs import span_of_payload
from thence.core.varint import Reader, put
from thence.oplog.log import OpLog
from thence.oplog.record import Note, Stored
from thence.spread.edge_book import IN, MESSAGE, EdgeBook, EdgeEntry, InstalledGroup, from_above

FACTS, STATE = 1, 2
"""Keys of notes."""

ABOVE, RUN, MEMBER, JOINING = 1, 2, 4, 8
"""Of a message's record: it came from a parent; its payload is a run; the node was a member of its group, or
was about to be one."""

BETWEEN: Final = "\x01"
"""Between origin and group in a member's name: nothing that can be printed."""


MANY: Final = 1 << 30
"""Messages and states that a log of an earlier version, which did not count them, never had."""


class EdgeFacts(NamedTuple):
    rank: int
    free: bool
    gone: bool
    session: int
    request: int
    chain: tuple[str, ...]
    covered: tuple[str, ...]
    inside: tuple[str, ...]
    joining: tuple[str, ...]
    root: str
    places: tuple[str, ...]
    """Processes and their addresses in turn."""


class EdgeCame(NamedTuple):
    """A state that came."""

    full: bool
    joins: str
    groups: tuple[str, ...]
    covers: tuple[Count, ...]
    states: tuple[bytes, ...]


class EdgeKept(NamedTuple):
    """The whole book. `since`: of groups that are being joined, how many messages of the log came before."""

    base: int
    number: int
    have: tuple[Count, ...]
    trimmed: tuple[Count, ...]
    since: tuple[int, ...]
    groups: tuple[str, ...]
    states: tuple[bytes, ...]
    messages: tuple[bytes, ...]


FIELDS: Final[dict[type[tuple[object, ...]], str]] = {
    EdgeFacts: "iffiiSSSSsS", EdgeCame: "fsSCD", EdgeKept: "iiCCISDD",
}  # fmt: skip


def written(what: EdgeFacts | EdgeCame | EdgeKept) -> bytearray:
    out = bytearray()
    put_fields(out, what, FIELDS[type(what)])
    return out


def facts_of(book: EdgeBook) -> EdgeFacts:
    inside = tuple([group for group, since in book.groups.items() if since == IN])
    joining = tuple([group for group, since in book.groups.items() if since != IN])
    return EdgeFacts(
        book.rank, book.free, book.gone, book.session, book.request, book.chain, tuple(sorted(book.covered)),
        inside, joining, book.root_name, tuple([word for pair in book.places.items() for word in pair]),
    )  # fmt: skip


def apply_facts(book: EdgeBook, facts: EdgeFacts) -> set[str]:
    """Returns the groups that the node has left by that."""
    book.rank, book.free, book.gone = facts.rank, facts.free, facts.gone
    book.session, book.request, book.chain = facts.session, facts.request, facts.chain
    book.covered = set(facts.covered)
    book.root_name = facts.root or book.root_name
    book.places.update(zip(facts.places[::2], facts.places[1::2], strict=True))
    left = {group for group in book.groups if book.is_in(group)} - {*facts.inside}
    before = book.groups
    book.groups = dict.fromkeys(facts.inside, IN)
    for group in facts.joining:
        since = before.get(group, IN)
        book.groups[group] = book.end if since == IN else since
    return left


class Logged(NamedTuple):
    """A message of the log, and what the node was in its group."""

    entry: EdgeEntry
    member: bool
    joining: bool


def message_bytes(entry: EdgeEntry, since: int | None = None) -> bytes:
    """A message as its record has it, beside its dot. `since`: as of a group in the book."""
    out = bytearray()
    put(out, entry.back)
    was = 0 if since is None else MEMBER if since == IN else JOINING
    out.append(ABOVE * entry.above | RUN * (entry.span > 1) | was)
    out += entry.payload
    return bytes(out)


def read_message(pair: str, number: int, data: bytes) -> Logged:
    reader = Reader(data, 0, len(data))
    back, flags = reader.take(), reader.take()
    origin, _, group = pair.partition(BETWEEN)
    payload = data[reader.at :]
    span = span_of_payload(payload) if flags & RUN else 1
    entry = EdgeEntry(MESSAGE, origin, group, number, back, payload, span)
    entry.above = bool(flags & ABOVE)
    return Logged(entry, bool(flags & MEMBER), bool(flags & JOINING))


def must_be_name(name: str, what: str) -> str:
    if not name or not name.isprintable() or " " in name or len(name.encode()) > 200:
        raise UsageError(f"{name!r} is no name for {what}: up to 200 bytes that can be printed, no spaces")
    return name


class EdgeJournal:
    """The log of one identity."""

    __slots__ = ("_log", "_members")

    def __init__(self, log: OpLog) -> None:
        self._log: Final = log
        self._members: dict[tuple[str, str], int] = {}

    def message(self, entry: EdgeEntry, since: int | None) -> int:
        """Its position. `since`: of its group in the book."""
        pair = entry.origin, entry.group
        index = self._members.get(pair)
        if index is None:
            index = self._log.member(BETWEEN.join(pair))
        position = self._log.append(pack(index, entry.number), message_bytes(entry, since))
        self._members[pair] = index
        return position

    def forget_uncommitted(self) -> None:
        """A write failed: names that it had may be given to others."""
        self._members.clear()

    def facts(self, book: EdgeBook) -> int:
        return self._log.note(FACTS, bytes(written(facts_of(book))))

    def came(self, state: InstalledGroup, full: bool, joins: str) -> int:
        came = EdgeCame(full, joins, state.groups, state.covers, state.states)
        return self._log.note(STATE, bytes(written(came)))

    def keep(self, book: EdgeBook, states: dict[str, bytes], ordinal: int, now: int, least: int) -> None:
        """Write all of it down, and let go of what is before but for so many bytes (`least`), which programs
        may ask for. `ordinal`: of the last message or state. Everything is committed."""
        log = self._log
        log.mark_taken(log.tail)
        log.mark_stable(log.vector)
        log.sync(now)
        messages = [entry for entry in book.entries if entry.kind == MESSAGE]
        since = [
            sum(entry.kind == MESSAGE for entry in book.entries[: max(0, at - book.base)])
            for at in book.groups.values()
            if at != IN
        ]
        counts = [tuple([(*pair, number) for pair, number in d.items()]) for d in (book.have, book.trimmed)]
        kept = EdgeKept(
            book.base, book.number, counts[0], counts[1], tuple(since), tuple(states), tuple(states.values()),
            tuple([_whole(entry) for entry in messages]),
        )  # fmt: skip
        data = written(facts_of(book)) + written(kept)
        put(data, ordinal)
        put(data, any(entry.above and not entry.rooted for entry in book.entries if entry.kind != MESSAGE))
        log.snapshot(log.tail, log.vector, bytes(data), now)
        log.collect(now, least=least)

    def read(self, book: EdgeBook) -> tuple[dict[str, bytes], int, int]:
        """The book as it was written down last; states, the position that the log is to be read from, and how
        many messages and states there were before."""
        snapshot = self._log.load()
        if snapshot is None:
            return {}, self._log.head, 0
        reader = Reader(snapshot.data, 0, len(snapshot.data))
        facts: EdgeFacts = take_fields(reader, EdgeFacts, FIELDS[EdgeFacts])
        kept: EdgeKept = take_fields(reader, EdgeKept, FIELDS[EdgeKept])
        book.base, book.number = kept.base, kept.number
        book.have = {(origin, group): number for origin, group, number in kept.have}
        book.trimmed = {(origin, group): number for origin, group, number in kept.trimmed}
        book.entries = [_from_whole(data) for data in kept.messages]
        apply_facts(book, facts)
        for group, since in zip(facts.joining, kept.since, strict=True):
            book.groups[group] = book.base + since
        ordinal = reader.take() if reader.at < reader.end else MANY
        if reader.at < reader.end and reader.take():
            book.entries.append(from_above())
        return dict(zip(kept.groups, kept.states, strict=True)), snapshot.covers, ordinal

    @property
    def head(self) -> int:
        return self._log.head

    def records(self, after: int) -> Iterator[tuple[int, Logged | EdgeFacts | EdgeCame]]:
        """What was written after that, with positions."""
        names = self._log.names
        for position, record in self._log.records(after):
            if isinstance(record, Stored):
                pair = names[record.dot & ORIGIN_MASK]
                yield position, read_message(pair, record.dot >> ORIGIN_BITS, record.data)
            elif isinstance(record, Note):
                reader = Reader(record.data, 0, len(record.data))
                kind = EdgeFacts if record.key == FACTS else EdgeCame
                if record.key not in (FACTS, STATE):
                    raise InvariantError(f"a note of key {record.key}")
                yield position, take_fields(reader, kind, FIELDS[kind])

    def accepted_ever(self) -> Iterator[tuple[str, str, int]]:
        """Origin, group and number of each message that the log holds."""
        for _, record in self.records(self.head):
            if isinstance(record, Logged):
                for number in record.entry.numbers:
                    yield record.entry.origin, record.entry.group, number


def _whole(entry: EdgeEntry) -> bytes:
    out = bytearray()
    put_fields(out, (entry.origin, entry.group, entry.number, entry.at), "ssii")
    return bytes(out) + message_bytes(entry)


def _from_whole(data: bytes) -> EdgeEntry:
    reader = Reader(data, 0, len(data))
    origin, group, number, at = take_fields(reader, lambda *fields: fields, "ssii")  # type: ignore[arg-type]
    entry = read_message(f"{origin}{BETWEEN}{group}", number, data[reader.at :]).entry
    entry.at = at
    return entry
