"""Rows with their times, packed by message: what metrics are worked out from.

As for verdicts, packed pieces travel through Spark and not rows. What a message went through depends on its
own rows alone, so that rows are cut into parts by their message's origin, and each part is worked on apart
from the others. A few rows concern all messages (*marks*: a node appears, a member is evicted, the network
heals): every part gets them. Rows about nodes and links, of which there are few, travel as they are.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple
from zlib import crc32

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thence.pipeline.files import Split
from thence.pipeline.metrics.sorting import heaps
from thence.pipeline.readers import tables, unreadable
from thence.pipeline.rows import (
    I32,
    I64,
    U8,
    Names,
    RowError,
    array_of,
    check_columns,
    columns_of,
    scopes_of,
    text_codes,
    whole_numbers,
)
from thence.pipeline.widths import Ints, narrow, view, widen

MESSAGE_KINDS: Final = ("send", "deliver", "stable", "hold", "duplicate")
SEND, DELIVER, STABLE, HOLD, DUPLICATE = range(5)
MARK_KINDS: Final = ("start", "install", "restart", "evict", "heal")
START, INSTALL, RESTART, EVICT, HEAL = range(5, 10)
ROW_KINDS: Final = (
    *MARK_KINDS, "leave", "crash", "cut",
    "lazy", "sync", "eager", "unlink",
    "metric", "synced",
)  # fmt: skip
"""Kinds whose rows travel as they are, marks among them."""
CODES: Final = {name: code for code, name in enumerate((*MESSAGE_KINDS, *ROW_KINDS))}
PASSED: Final = len(CODES)
"""Every other kind."""
NEEDS_MESSAGE: Final = (SEND, DELIVER, STABLE, HOLD, DUPLICATE, EVICT)

COLUMNS: Final = ("run", "group", "node", "pos", "kind", "origin", "seq", "at_us", "deps")
LATEST_US: Final = 1 << 53
"""285 years. Beyond that a time is a mistake, and sums of times do not fit."""
ROWS: Final = -1
"""The part of the rows that travel as they are."""


class Timed(NamedTuple):
    """Rows of one table. -1 stands for null in `origin`, `seq`, `at` and `entries` (what `deps` holds)."""

    scopes: list[tuple[str, str]]
    scope: I32
    names: list[str]
    node: I32
    pos: I64
    kind: U8
    origin: I32
    seq: I64
    at: I64
    entries: I64


class TimedPiece(NamedTuple):
    """A packed piece as it is sent."""

    run: str
    group: str
    part: int
    events: int
    payload: bytes
    torn: int = 0
    error: str | None = None


class TimedPacked(msgspec.Struct, array_like=True, frozen=True):
    """The binary's layout. Numbers are one more than they stand for, so that 0 is null."""

    names: list[str]
    base: int
    kind: tuple[str, memoryview]
    node: tuple[str, memoryview]
    origin: tuple[str, memoryview]
    seq: tuple[str, memoryview]
    at: tuple[str, memoryview]
    rest: tuple[str, memoryview]
    """Of a part, what `deps` of its sends hold; of rows that travel as they are, their positions."""


def decode_timed(table: pa.Table) -> Timed:
    """Check what metrics need of a table; raises RowError for the first row that cannot be read."""
    check_columns(table.schema)
    names, column = Names(), columns_of(table)
    node, pos, kind = (
        text_codes(column("node"), names),
        whole_numbers(column("pos"), "position"),
        _kinds(column("kind")),
    )
    origin, seq = text_codes(column("origin"), names), whole_numbers(column("seq"), "counter")
    at = whole_numbers(column("at_us"), "time")
    _check(at > LATEST_US, f"a time after {LATEST_US} µs")
    scopes, scope = scopes_of(column("run"), column("group"), table.num_rows)
    _check(node < 0, "no node")
    _check(pos < 0, "no position")
    needs = np.zeros(PASSED + 1, bool)
    needs[list(NEEDS_MESSAGE)] = True
    about = needs[kind]
    _check(about & (origin < 0), "no origin")
    _check(about & (seq < 0), "no seq")
    return Timed(scopes, scope, names.list, node, pos, kind, origin, seq, at, _entries(column("deps")))


def read_timed(split: Split) -> Iterator[tuple[Timed, int]]:
    """The split's rows, and how many last lines were torn; raises TraceError naming file and row."""
    for table, number, torn in tables(split, COLUMNS):
        try:
            yield decode_timed(table), torn
        except RowError as problem:
            raise unreadable(split.path, number(problem.index), problem.what) from None


def _check(wrong: Any, what: str) -> None:
    if wrong.any():
        raise RowError(int(np.argmax(wrong)), what)


def _kinds(column: Any) -> U8:
    kinds = Names()
    code = text_codes(column, kinds)
    _check(code < 0, "no kind")
    table = np.array([CODES.get(name, PASSED) for name in kinds.list] or [PASSED], np.uint8)
    return table[code]


def _entries(column: Any) -> I64:
    array = array_of(column)
    if pa.types.is_null(array.type):
        return np.full(len(array), -1, np.int64)
    lengths = pc.fill_null(pc.list_value_length(array), -1)
    found: I64 = lengths.to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def pack_timed(rows: Timed, parts: int) -> Iterator[TimedPiece]:
    """The pieces of some rows: one for each run, group and part, and one for rows that travel as they are."""
    part_of = np.array([crc32(name.encode()) % parts for name in rows.names] or [0], np.int32)
    about = rows.kind <= DUPLICATE
    marks = np.flatnonzero((rows.kind > DUPLICATE) & (rows.kind <= HEAL))
    told = np.flatnonzero((rows.kind > DUPLICATE) & (rows.kind < PASSED))
    scopes = len(rows.scopes)
    key = rows.scope * parts + part_of[rows.origin]
    key[~about] = scopes * parts
    order, bounds = heaps(np.arange(len(key), dtype=np.int32), key, scopes * parts + 1, in_order=False)
    others = np.bincount(rows.scope[~about], minlength=scopes).tolist()
    for number, (run, group) in enumerate(rows.scopes):
        everywhere = marks[rows.scope[marks] == number]
        for part in range(parts):
            cell = number * parts + part
            chosen = order[bounds[cell] : bounds[cell + 1]]
            if len(chosen) or len(everywhere):
                index = np.concatenate([chosen, everywhere])
                yield TimedPiece(run, group, part, len(chosen), _payload(rows, index, _of_sends(rows, index)))
        chosen = told[rows.scope[told] == number]
        if others[number]:
            yield TimedPiece(run, group, ROWS, others[number], _payload(rows, chosen, rows.pos[chosen]))


def _above_null(values: I64) -> Ints:
    """One more, null is 0: modulo 2**64, so that the largest counter has a place too."""
    return values.view(np.uint64) + np.uint64(1)


def _of_sends(rows: Timed, index: I64) -> Ints:
    entries: Ints = rows.entries[index[rows.kind[index] == SEND]] + 1
    return entries


def _payload(rows: Timed, index: I64, rest: Ints) -> bytes:
    node, origin, at = rows.node[index], rows.origin[index], rows.at[index]
    spoken = np.zeros(len(rows.names) + 1, bool)  # the last place stands for none
    spoken[node] = spoken[origin] = True
    used = np.flatnonzero(spoken[:-1])
    code = np.zeros(len(rows.names) + 1, np.int32)
    code[used] = np.arange(len(used))
    code[-1] = -1
    timed = at[at >= 0]
    base = int(timed.min()) if len(timed) else 0
    packed = TimedPacked(
        [rows.names[number] for number in used.tolist()],
        base,
        narrow(rows.kind[index]),
        narrow(code[node]),
        narrow(code[origin] + 1),
        narrow(_above_null(rows.seq[index])),
        narrow(np.where(at < 0, 0, at - base + 1)),
        narrow(rest),
    )
    return msgspec.msgpack.encode(packed)


class TimedChunk(NamedTuple):
    """Unpacked pieces; codes index `names`."""

    names: list[str]
    kind: U8
    node: I32
    origin: I32
    seq: I64
    at: I64
    rest: I64


def together(payloads: Sequence[Any]) -> TimedChunk:
    """The rows of pieces under one numbering of names, which is their order. Columns are written once."""
    pieces = [msgspec.msgpack.decode(payload, type=TimedPacked) for payload in payloads]
    names = sorted({name for piece in pieces for name in piece.names})
    code = {name: number for number, name in enumerate(names)}
    size = sum(len(piece.kind[1]) for piece in pieces)  # a byte each
    found = TimedChunk(
        names, np.empty(size, np.uint8), np.empty(size, np.int32), np.empty(size, np.int32),
        np.empty(size, np.int64), np.empty(size, np.int64),
        np.concatenate([widen(view(piece.rest)) for piece in pieces]),
    )  # fmt: skip
    end = 0
    for piece in pieces:
        begin, end = end, end + len(piece.kind[1])
        here = slice(begin, end)
        known = np.array([-1, *(code[name] for name in piece.names)], np.int32)
        at = view(piece.at)
        found.kind[here] = view(piece.kind)
        found.node[here] = known[1:][view(piece.node)]
        found.origin[here] = known[view(piece.origin)]
        found.seq[here] = view(piece.seq)
        np.add(at, piece.base - 1, out=found.at[here], dtype=np.int64)
        found.at[here][at == 0] = -1
    np.subtract(found.seq, 1, out=found.seq)
    return found
