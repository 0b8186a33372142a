"""The bytes of a state, made and read a bounded part at a time: where a member was away for long, it holds
tens of thousands of messages.

One piece of bytes, in parts. Long lists say how many items they have when all were made, so their length is
put before them at the end.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from typing import NamedTuple, TypeVar
from zlib import crc32

from msgspec.structs import replace

from thence.core.errors import PeerError
from thence.core.group_codec import put_extent, take_extent
from thence.core.group_words import Parser, WordWriter
from thence.core.groups import (
    Lost,
)
from thence.members.group import Final
from thence.members.operations import Operation
from thence.replica.group.ledger.payloads import put_bare, take_bare
from thence.replica.group.ledger.state import MemberState, Read, Sources, drained

VERSION = 3

WITHOUT_CONTEXTS = 2
"""The version before it, which is still read: operations say nothing of what they followed from."""

PART_BYTES = 1 << 16
"""Of a state in the making."""

LARGE_PART_BYTES = 1 << 20
"""Of what the application is, where it is more: blocks that an allocator takes from the system and gives
back one by one."""

T = TypeVar("T")


def encode_state(state: MemberState) -> bytes:
    return b"".join(drained(encoding(state)).parts)


class Encoded(NamedTuple):
    parts: list[bytes]
    sum: int
    """Of what is in them."""


def encoding(
    state: MemberState, sources: Sources | None = None, program: Iterator[bytes] | None = None
) -> Generator[int, None, Encoded]:
    """The bytes of a state, in parts. Yields what each item of the long lists has cost, in bytes. `sources`:
    these lists, and what the application is, which are empty in the state then. `program`: the latter
    alone."""
    writer, parts = _Parts(), list[bytes]()
    put_operation = partial(_put_operation, writer)
    writer.number(VERSION)
    given = program if sources is None else sources.application
    yield from _program(writer, parts, state.application if given is None else given)
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
        state.leaves | state.goes_on << 1 | state.must_announce << 2 | state.tail_lost << 3
        | bool(state.spent) << 4 | bool(state.settled_before) << 5 | bool(state.abandoned) << 6
        | bool(state.starts) << 7 | tells_programs << 8 | bool(state.had) << 9
    )  # fmt: skip
    writer.number(state.since)
    writer.names(sorted(state.strangers))
    for spans in (state.spent, state.settled_before):
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


class _Parts(WordWriter):
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
    gathered, some = list[bytes](), 0
    for chunk in (application,) if isinstance(application, bytes) else application:
        for at in range(0, len(chunk) or 1, PART_BYTES):  # an empty one has its turn as well
            if some >= LARGE_PART_BYTES:
                parts.append(b"".join(gathered))
                gathered, some = [], 0
            gathered.append(writer.counted(chunk[at : at + PART_BYTES]))
            some += len(gathered[-1])
            yield len(gathered[-1])
        size += len(chunk)
    parts.append(b"".join(gathered))
    writer.number(size)
    parts[place] = writer.cut()


def _listed(items: Iterable[T]) -> Iterator[Read[T]]:
    return ((item, 0) for item in items)


def _long(
    writer: WordWriter, parts: list[bytes], items: Iterator[Read[T]], put: Callable[[T], None]
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


def _put_lost(writer: WordWriter, state: MemberState) -> None:
    writer.number(len(state.lost))
    for origin, first, last in state.lost:
        writer.name(origin)
        writer.number(first)
        writer.number(last)
    writer.names(state.holders)


def _put_former(writer: WordWriter, state: MemberState) -> None:
    for number in state.former:
        writer.number(number)
    writer.number(state.extent is not None)
    if state.extent is not None:
        put_extent(writer, state.extent)


def _take_reading(
    parser: Parser, state: MemberState, take_operation: Callable[[Parser], Operation]
) -> Iterator[int]:
    state.reach = parser.counts()
    yield from _taking(parser, state.history, take_operation)
    state.lost = tuple([Lost(parser.name(), parser.seq(), parser.number()) for _ in range(parser.count())])
    state.holders = parser.names()
    yield from _taking(parser, state.unread, take_operation)
    state.former = parser.number(), parser.number(), parser.number()
    if parser.number():
        state.extent = take_extent(parser)


def decode_state(data: bytes) -> MemberState:
    return drained(decoding(data))


def decoding(data: bytes) -> Generator[int, None, MemberState]:
    """The state that these bytes are. Yields what each item of its long lists has cost, in bytes.
    `PeerError`: they are none."""
    parser = Parser(data, 0, len(data))
    version = parser.number()
    if version not in (VERSION, WITHOUT_CONTEXTS):
        raise PeerError("a state of another version")
    take_operation = _take_operation if version == VERSION else take_bare
    state = MemberState(parser.data(), parser.counts(), parser.counts())
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
    state.must_announce, state.tail_lost = bool(flags & 4), bool(flags & 8)
    state.since = parser.number()
    state.strangers = set(parser.names())
    state.spent = parser.spans() if flags & 16 else ()
    state.settled_before = parser.spans() if flags & 32 else ()
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


def _put_operation(writer: WordWriter, operation: Operation) -> None:
    put_bare(writer, operation)
    writer.places(operation.context)


def _take_operation(parser: Parser) -> Operation:
    return replace(take_bare(parser), context=parser.places())
