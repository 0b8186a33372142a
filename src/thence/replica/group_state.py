"""The state that a contact hands to a joiner, and that a member starts from after a restart.

One piece of bytes, spelled with names: the application's state, which is opaque here, and everything that the
group knows. A member's log begins with the state that it was installed with (a founder's is empty), and what
it delivered since follows; both together are the member.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import NamedTuple, TypeVar
from zlib import crc32

from thence.core.errors import PeerError
from thence.core.group_codec import put_extent, take_extent
from thence.core.group_words import Parser, Writer
from thence.core.groups import (
    CARRY,
    FLUSH,
    JOIN,
    LEAVE,
    OPERATION,
    RUN,
    STARTED,
    Extent,
    Lost,
    Named,
    Place,
    Span,
    Starts,
    plain,
)
from thence.core.runs import payload_run
from thence.members.group import Final
from thence.members.operations import Operation
from thence.trace.schema import NO_OPERATION

VERSION = 3
WITHOUT_CONTEXTS = 2
"""The version before it, which is still read: operations say nothing of what they followed from."""

PART_BYTES = 1 << 16
"""Of a state in the making."""

CARRIES = 16
"""That were read lately: as many as come at once."""

T = TypeVar("T")


@dataclass(slots=True)
class GroupState:
    application: bytes = b""
    counts: dict[str, int] = field(default_factory=dict)
    """Delivered messages per incarnation, departed ones included."""
    stable: dict[str, int] = field(default_factory=dict)
    context: tuple[Place, ...] = ()
    table: list[str] = field(default_factory=list)
    """Names by the index that they have in the log of whoever wrote this."""
    log: list[Named] = field(default_factory=list)
    """Delivered and not stable, in the order of delivery. A member that writes itself down has them in its
    log and leaves them out."""
    view: set[str] = field(default_factory=set)
    suspects: set[str] = field(default_factory=set)
    gone: dict[str, Final] = field(default_factory=dict)
    departing: dict[str, int] = field(default_factory=dict)
    flushed: dict[str, set[str]] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)
    closing: dict[Place, tuple[Span, ...]] = field(default_factory=dict)
    closed: tuple[Span, ...] = ()
    past: tuple[Span, ...] = ()
    spent: tuple[Span, ...] = ()
    unknown: set[str] = field(default_factory=set)
    """Who was with somebody who has returned, and was never heard of."""
    abandoned: set[str] = field(default_factory=set)
    rows: dict[str, dict[str, int]] = field(default_factory=dict)
    retained: list[Operation] = field(default_factory=list)
    """Operations that somebody may lack although their messages are stable. A member that writes itself down
    leaves out those that are in its log."""
    floor: dict[str, int] = field(default_factory=dict)
    """Of the member itself: up to where its log need not be kept for that."""
    carried: dict[Place, None] = field(default_factory=dict)
    """In the order in which they came."""
    orphans: list[Operation] = field(default_factory=list)
    """Of the member itself: what its former incarnation had applied and this state lacks."""
    leaves: bool = False
    """Of the member itself: the former incarnation was leaving, and so will this one."""
    since: int = 0
    """Of the member itself: the first of the incarnations whose operations it has, or has carried; 0: of its
    own only."""
    owes: bool = False
    """Of the member itself: it has not said yet that it carried everything."""
    vague: bool = False
    """Of the member itself: its former incarnation may have sent more than it remembered."""
    strangers: set[str] = field(default_factory=set)
    """Of the member itself: who was with its former incarnation, and is not known in this state."""
    ended: tuple[Span, ...] = ()
    """Of the member itself: who was past to its former incarnation and is not in this state."""
    goes_on: bool = False
    """Of the member itself: it did not begin with this state, but wrote it down on its way."""
    starts: dict[str, Starts] = field(default_factory=dict)
    """Under which starts of its process an incarnation has sent what is counted here."""
    branches: dict[str, int] = field(default_factory=dict)
    """Of incarnations that were put back: what was carried of timelines that are not counted here."""
    had: dict[str, int] = field(default_factory=dict)
    """What everybody who is missed had delivered, as far as it is known."""
    reach: dict[str, int] = field(default_factory=dict)
    """Operations above these counters are in `retained` or `log`, or in the log of whoever wrote this."""
    history: list[Operation] = field(default_factory=list)
    """For a joiner whose program has no state: what it missed and everybody else has."""
    lost: tuple[Lost, ...] = ()
    """The same, as far as the contact does not have it any more."""
    holders: tuple[str, ...] = ()
    """Who was with that contact."""
    extent: Extent | None = None
    """Of the member itself: what its program had in earlier incarnations, if it has no state."""
    unread: list[Operation] = field(default_factory=list)
    """Of the member itself: what its program is to read first."""
    former: tuple[int, int, int] = (0, 0, 0)
    """Of the member itself: the number of the incarnation before it, and how many messages that had
    delivered; how many had been where this one began."""

    @property
    def tells_programs(self) -> bool:
        """Is there anything in it that matters to programs without a state?"""
        return bool(self.reach or self.history or self.lost or self.unread or self.extent or any(self.former))

    def names(self) -> list[str]:
        """Every incarnation that is spoken of, in an order of its own; but for those that are past and that
        messages follow from."""
        spoken = set(self.counts) | self.view | self.suspects | set(self.gone) | set(self.departing)
        spoken.update(name for name, _ in self.context)
        spoken.update(name for row in self.rows.values() for name in row)
        return sorted(spoken)


Read = tuple[T | None, int]
"""An item for a state, or nothing, and how many bytes were read for it."""


class Sources(NamedTuple):
    """The long parts of a state for a joiner, where they are still to be read or made."""

    application: Iterator[bytes]
    log: Iterator[Read[Named]]
    retained: Iterator[Read[Operation]]
    history: Iterator[Read[Operation]]
    carried: Iterator[Read[Place]]


def encode_state(state: GroupState) -> bytes:
    return b"".join(drained(encoding(state)).parts)


def drained(steps: Generator[int, None, T]) -> T:
    """What becomes of something that is done in steps, at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


class Encoded(NamedTuple):
    parts: list[bytes]
    sum: int
    """Of what is in them."""


def encoding(state: GroupState, sources: Sources | None = None) -> Generator[int, None, Encoded]:
    """The bytes of a state, in parts. Yields what each item of the long lists has cost, in bytes. `sources`:
    these lists, and what the application is, which are empty in the state then."""
    writer, parts = _Parts(), list[bytes]()
    put_operation = partial(_put_operation, writer)
    writer.number(VERSION)
    yield from _program(writer, parts, state.application if sources is None else sources.application)
    for counts in (state.counts, state.stable, state.departing):
        writer.counts(counts)
    writer.places(state.context)
    writer.names(state.table)
    _, log, retained, history, carried = sources or Sources(
        iter(()), _listed(state.log), _listed(state.retained), _listed(state.history), _listed(state.carried)
    )
    yield from _long(writer, parts, log, writer.message)
    for names in (state.view, state.suspects):
        writer.names(sorted(names))
    writer.number(len(state.gone))
    for name, final in state.gone.items():
        writer.name(name)
        writer.number(final.last << 1 | final.evicted)
    writer.number(len(state.flushed))
    for name, flushed in state.flushed.items():
        writer.name(name)
        writer.names(sorted(flushed))
    writer.texts(state.addresses)
    writer.number(len(state.closing))
    for place, spans in state.closing.items():
        writer.places([place])
        writer.spans(spans)
    writer.spans(state.closed)
    writer.spans(state.past)
    writer.names(sorted(state.unknown))
    writer.number(len(state.rows))
    for name, row in state.rows.items():
        writer.name(name)
        writer.counts(row)
    yield from _long(writer, parts, retained, put_operation)
    writer.counts(state.floor)
    yield from _long(writer, parts, carried, writer.place)
    yield from _long(writer, parts, _listed(state.orphans), put_operation)
    tells_programs = state.tells_programs or sources is not None
    writer.number(
        state.leaves | state.goes_on << 1 | state.owes << 2 | state.vague << 3
        | bool(state.spent) << 4 | bool(state.ended) << 5 | bool(state.abandoned) << 6
        | bool(state.starts) << 7 | tells_programs << 8 | bool(state.had) << 9
    )  # fmt: skip
    writer.number(state.since)
    writer.names(sorted(state.strangers))
    for spans in (state.spent, state.ended):
        if spans:
            writer.spans(spans)
    if state.abandoned:
        writer.names(sorted(state.abandoned))
    if state.starts:
        writer.starts(state.starts)
        writer.counts(state.branches)
    if state.had:
        writer.counts(state.had)
    if tells_programs:
        writer.counts(state.reach)
        yield from _long(writer, parts, history, put_operation)
        _put_lost(writer, state)
        yield from _long(writer, parts, _listed(state.unread), put_operation)
        _put_former(writer, state)
    last = writer.cut()
    return Encoded([writer.counted(writer.head()), *parts, last], writer.sum)


class _Parts(Writer):
    """One whose bytes are summed up as they come: at the end there may be too many for one step."""

    __slots__ = ("sum",)

    def __init__(self) -> None:
        super().__init__()
        self.sum = 0

    def counted(self, data: bytes) -> bytes:
        self.sum = crc32(data, self.sum)
        return data

    def cut(self) -> bytes:
        return self.counted(super().cut())


def _program(writer: _Parts, parts: list[bytes], application: bytes | Iterator[bytes]) -> Iterator[int]:
    """How long it is goes before it, and is known when all of it was made."""
    parts += [writer.cut(), b""]
    place, size = len(parts) - 1, 0
    for chunk in (application,) if isinstance(application, bytes) else application:
        for at in range(0, len(chunk) or 1, PART_BYTES):  # an empty one has its turn as well
            parts.append(writer.counted(chunk[at : at + PART_BYTES]))
            yield len(parts[-1])
        size += len(chunk)
    writer.number(size)
    parts[place] = writer.cut()


def _listed(items: Iterable[T]) -> Iterator[Read[T]]:
    return ((item, 0) for item in items)


def _long(
    writer: Writer, parts: list[bytes], items: Iterator[Read[T]], put: Callable[[T], None]
) -> Iterator[int]:
    """How many there are is known when all were read, and goes before them."""
    parts += [writer.cut(), b""]
    place, count = len(parts) - 1, 0
    for item, cost in items:
        if item is not None:
            put(item)
            count += 1
            if len(writer.body) >= PART_BYTES:
                parts.append(writer.cut())
        yield cost
    parts.append(writer.cut())
    writer.number(count)
    parts[place] = writer.cut()


def _put_lost(writer: Writer, state: GroupState) -> None:
    writer.number(len(state.lost))
    for origin, first, last in state.lost:
        writer.name(origin)
        writer.number(first)
        writer.number(last)
    writer.names(state.holders)


def _put_former(writer: Writer, state: GroupState) -> None:
    for number in state.former:
        writer.number(number)
    writer.number(state.extent is not None)
    if state.extent is not None:
        put_extent(writer, state.extent)


def _take_reading(
    parser: Parser, state: GroupState, take_operation: Callable[[Parser], Operation]
) -> Iterator[int]:
    state.reach = parser.counts()
    yield from _taking(parser, state.history, take_operation)
    state.lost = tuple([Lost(parser.name(), parser.seq(), parser.number()) for _ in range(parser.count())])
    state.holders = parser.names()
    yield from _taking(parser, state.unread, take_operation)
    state.former = parser.number(), parser.number(), parser.number()
    if parser.number():
        state.extent = take_extent(parser)


def decode_state(data: bytes) -> GroupState:
    return drained(decoding(data))


def decoding(data: bytes) -> Generator[int, None, GroupState]:
    """The state that these bytes are. Yields what each item of its long lists has cost, in bytes.
    `PeerError`: they are none."""
    parser = Parser(data, 0, len(data))
    version = parser.number()
    if version not in (VERSION, WITHOUT_CONTEXTS):
        raise PeerError("a state of another version")
    take_operation = _take_operation if version == VERSION else _take_bare
    state = GroupState(parser.data(), parser.counts(), parser.counts())
    state.departing = parser.counts()
    state.context = parser.places()
    state.table = list(parser.names())
    yield from _taking(parser, state.log, Parser.message)
    state.view, state.suspects = set(parser.names()), set(parser.names())
    for _ in range(parser.count()):
        name, final = parser.name(), parser.number()
        state.gone[name] = Final(final >> 1, bool(final & 1))
    state.flushed = {parser.name(): set(parser.names()) for _ in range(parser.count())}
    state.addresses = parser.texts()
    for _ in range(parser.count()):
        places = parser.places()
        state.closing.update(dict.fromkeys(places, parser.spans()))
    state.closed, state.past = parser.spans(), parser.spans()
    state.unknown = set(parser.names())
    state.rows = {parser.name(): parser.counts() for _ in range(parser.count())}
    yield from _taking(parser, state.retained, take_operation)
    state.floor = parser.counts()
    for place in parser.each_place():
        state.carried[place] = None
        yield 0
    yield from _taking(parser, state.orphans, take_operation)
    flags = parser.number()
    state.leaves, state.goes_on = bool(flags & 1), bool(flags & 2)
    state.owes, state.vague = bool(flags & 4), bool(flags & 8)
    state.since = parser.number()
    state.strangers = set(parser.names())
    state.spent = parser.spans() if flags & 16 else ()
    state.ended = parser.spans() if flags & 32 else ()
    state.abandoned = set(parser.names()) if flags & 64 else set()
    if flags & 128:
        state.starts, state.branches = parser.starts(), parser.counts()
    state.had = parser.counts() if flags & 512 else {}
    if flags & 256:
        yield from _take_reading(parser, state, take_operation)
    parser.end()
    return state


def _taking(parser: Parser, found: list[T], take: Callable[[Parser], T]) -> Iterator[int]:
    """All items of a long list."""
    for _ in range(parser.count()):
        before = parser.left
        found.append(take(parser))
        yield before - parser.left


def _put_operation(writer: Writer, operation: Operation) -> None:
    _put_bare(writer, operation)
    writer.places(operation.context)


def _put_bare(writer: Writer, operation: Operation) -> None:
    writer.name(operation.origin)
    writer.number(operation.seq)
    writer.data(operation.payload)


def _take_operation(parser: Parser) -> Operation:
    return _take_bare(parser)._replace(context=parser.places())


def _take_bare(parser: Parser) -> Operation:
    return Operation(parser.name(), parser.seq(), parser.data())


def flush_payload(names: list[str], past: Iterable[Span]) -> bytes:
    """Who is not listened to any more; and who need not be named."""
    writer = Writer()
    writer.names(names)
    writer.spans(past)
    return writer.bytes()


def payload_flush(data: bytes) -> tuple[tuple[str, ...], tuple[Span, ...]]:
    parser = Parser(data, 1, len(data))
    names, past = parser.names(), parser.spans()
    parser.end()
    return names, past


def join_payload(joiner: str, address: str, since: int) -> bytes:
    """The body of a message that lets somebody in."""
    writer = Writer()
    writer.name(joiner)
    writer.text(address)
    writer.number(since)
    return writer.bytes()


def payload_join(data: bytes) -> tuple[str, str, int]:
    """Who is let in, where it is reached, and since which number it has tried."""
    parser = Parser(data, 1, len(data))
    joiner, address, since = parser.name(), parser.text(), parser.number()
    parser.end()
    return joiner, address, since


OPERATIONS = (OPERATION, RUN)
"""Messages that bring operations of their own names."""


class Carried(NamedTuple):
    """Operations; incarnations of which these were the last; others that may still be somewhere; and
    incarnations of which these were the last that their process remembers."""

    operations: Sequence[Operation]
    closed: tuple[Span, ...] = ()
    strangers: tuple[str, ...] = ()
    spent: tuple[Span, ...] = ()


def carry_payload(carried: Carried) -> bytes:
    """Contexts stand at the end: those that were carried before there were any have none."""
    writer = Writer()
    writer.number(len(carried.operations))
    for operation in carried.operations:
        _put_bare(writer, operation)
    writer.spans(carried.closed)
    writer.names(carried.strangers)
    told = any(operation.context for operation in carried.operations)
    if carried.spent or told:
        writer.spans(carried.spent)
    for operation in carried.operations if told else ():
        writer.places(operation.context)
    return writer.bytes()


@lru_cache(CARRIES)
def payload_carry(data: bytes) -> Carried:
    """Checked when it comes, and asked for once more when it is delivered."""
    parser = Parser(data, 1, len(data))
    operations = tuple([_take_bare(parser) for _ in range(parser.count())])
    carried = Carried(operations, parser.spans(), parser.names())
    if not parser.done:
        carried = carried._replace(spent=parser.spans())
    if not parser.done:
        told = [operation._replace(context=parser.places()) for operation in operations]
        carried = carried._replace(operations=tuple(told))
    parser.end()
    return carried


def check_payload(data: bytes) -> None:
    """`PeerError` if nobody could make sense of it when its turn comes."""
    kind = data[0] if data else None
    if kind == STARTED:
        data = plain(data)
        kind = data[0] if data else None
    if kind == JOIN:
        payload_join(data)
    elif kind == FLUSH:
        payload_flush(data)
    elif kind == CARRY:
        payload_carry(data)
    elif kind == RUN:
        payload_run(data)
    elif kind not in (OPERATION, LEAVE):
        raise PeerError(f"a message of kind {kind}")


def watched_note(upto: int, names: list[str]) -> bytes:
    """Of the joiners that this member let in up to its message `upto`, those that were not heard of."""
    writer = Writer()
    writer.number(upto)
    writer.names(names)
    return writer.bytes()


def read_watched(data: bytes) -> tuple[int, tuple[str, ...]]:
    parser = Parser(data, 0, len(data))
    return parser.number(), parser.names()


def payload_operations(data: bytes) -> Sequence[Operation]:
    """What a CARRY brings."""
    return payload_carry(data)[0]


def concerns_programs(payload: bytes) -> bool:
    """Is there an operation in a message?"""
    if payload[0] in OPERATIONS:
        return True
    payload = plain(payload)
    return payload[0] in OPERATIONS or (payload[0] == CARRY and bool(payload_operations(payload)))


def carries(data: bytes) -> tuple[Place, ...]:
    """What a trace says that a message brings: nothing in particular of an operation, which brings itself."""
    data = plain(data)
    if data[0] in OPERATIONS:
        return ()
    operations = payload_operations(data) if data[0] == CARRY else []
    return tuple([(operation.origin, operation.seq) for operation in operations]) or (NO_OPERATION,)
