"""Rows of one run as one compact binary: what travels through Spark instead of rows.

The JVM moves a million small rows slowly and one large binary fast. A packed piece holds the rows of one
(run, group) from one split, sorted by node and position, each column in the narrowest type that fits:
a delivery takes about seven bytes. Positions are stored as steps from row to row.

Where a large run will be cut, its nodes are dealt into buckets by their names: a piece holds the rows of one
bucket, and one more (COMMON) what every part of the run has to know, which is all but deliveries and stables.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final, NamedTuple
from zlib import crc32

import msgspec
import numpy as np
import numpy.typing as npt

from thence.pipeline.rows import (
    DELIVER,
    I32,
    I64,
    NEEDS_DEPS,
    NEEDS_DOT,
    OTHER,
    RESTART,
    SEND,
    STABLE,
    SUBSCRIBE,
    U8,
    UNSUBSCRIBE,
    Lists,
    Rows,
)

Ints = npt.NDArray[Any]

WHOLE, COMMON = -1, -2
"""Instead of a bucket: rows of all nodes; of all nodes what every part of a run has to know."""
PRIVATE: Final = (DELIVER, STABLE, OTHER)
"""Kinds that concern the node alone."""
BUCKETED_ROWS: Final = 1 << 12
"""A run that has fewer rows in a split is not cut there: a piece costs more than its rows do."""


def bucket_of(name: str, buckets: int) -> int:
    return crc32(name.encode()) % buckets


class Packed(msgspec.Struct, array_like=True, frozen=True):
    """The binary's layout; each array is its type's code and its bytes."""

    names: list[str]
    nodes: tuple[str, memoryview]
    counts: tuple[str, memoryview]
    first: tuple[str, memoryview]
    step: tuple[str, memoryview]
    kind: tuple[str, memoryview]
    origin: tuple[str, memoryview]
    seq: tuple[str, memoryview]
    deps: tuple[tuple[str, memoryview], ...]
    dest: tuple[tuple[str, memoryview], ...]
    carries: tuple[tuple[str, memoryview], ...] = ()
    lives: tuple[tuple[str, memoryview], ...] = ()
    channel: tuple[tuple[str, memoryview], ...] = ()


class Piece(NamedTuple):
    """A packed piece as it is sent, with what planning needs to know about it."""

    run: str
    group: str
    bucket: int
    events: int
    sends: int
    restarts: int
    nodes: list[str]
    others: list[str]
    payload: bytes


class Chunk(NamedTuple):
    """An unpacked piece. Node `nodes[i]` owns the next `counts[i]` rows; codes index `names`.

    Columns stay as narrow as they came: whoever computes with one widens it, one chunk at a time. `lives` is
    what rows say of their nodes, without repetition: a node, its process and its incarnation, -1 for unsaid.
    """

    names: list[str]
    nodes: I64
    counts: I64
    first: I64
    step: Ints
    kind: U8
    origin: Ints
    seq: Ints
    deps: Lists
    dest: Lists
    carries: Lists
    channel: Lists
    lives: tuple[I64, I64, I64]

    @property
    def begins(self) -> I64:
        """Where each node's rows begin."""
        return np.cumsum(self.counts) - self.counts

    def positions(self) -> I64:
        total = np.cumsum(self.step, dtype=np.int64)
        return total + np.repeat(self.first - total[self.begins], self.counts)


def narrow(values: Ints) -> tuple[str, memoryview]:
    """An array of numbers from 0 on in the narrowest type that holds them."""
    top = int(values.max()) if len(values) else 0
    kind = next(code for code, bits in (("u1", 8), ("u2", 16), ("u4", 32), ("i8", 63)) if top < 1 << bits)
    return kind, memoryview(np.ascontiguousarray(values, kind).view("u1").data)


def view(packed: tuple[str, memoryview]) -> Ints:
    return np.frombuffer(packed[1], packed[0])


def widen(values: Ints) -> I64:
    """As int64 and a copy: views into a binary are neither aligned nor writable, and each such difference
    would have every kernel compiled once more."""
    return np.array(values, np.int64)


def pack(rows: Rows, buckets: int = 1) -> Iterator[Piece]:
    """A piece for each (run, group) of the rows, or one for each bucket of its nodes and a common one."""
    bucket = None if buckets == 1 else np.array([bucket_of(name, buckets) for name in rows.names], np.int64)
    order, starts = _sorted(rows, bucket)
    if order is not None:
        rows = _take(rows, order)
    single = len(rows.scopes) == 1
    for scope, start, end in starts:
        if bucket is None or end - start < BUCKETED_ROWS:
            yield _pack_one(rows, scope, start, end, WHOLE, keep_names=single)
            continue
        lot = bucket[rows.node[start:end]]
        cuts = (np.flatnonzero(np.diff(lot)) + 1 + start).tolist()
        for a, b in pairwise([start, *cuts, end]):
            yield _pack_one(rows, scope, a, b, int(lot[a - start]), keep_names=single)
        shared = np.flatnonzero(is_common(rows.kind[start:end], rows.node[start:end])) + start
        if len(shared):
            lives, common = _lives(rows, start, end), _take(rows, shared)
            yield _pack_one(common, scope, 0, len(shared), COMMON, keep_names=single, lives=lives)


def is_common(kind: U8, node: I32) -> npt.NDArray[np.bool_]:
    """Which rows every part of a run has to know: of each node what is not private, and its first row that
    counts, since an `install` or `restart` that is the first means more than later ones."""
    common = ~np.isin(kind, PRIVATE)
    counting = np.flatnonzero(kind != OTHER)
    first = np.ones(len(counting), bool)
    first[1:] = node[counting[1:]] != node[counting[:-1]]
    common[counting[first]] = True
    return common


def _sorted(rows: Rows, bucket: I64 | None) -> tuple[I64 | None, list[tuple[int, int, int]]]:
    """The order by (scope, bucket, node, position), None if the rows are in it; and each scope's range."""
    node = rows.node
    if bucket is not None:
        rank = np.empty(len(bucket), np.int32)
        rank[np.argsort(bucket, kind="stable")] = np.arange(len(bucket), dtype=np.int32)
        node = rank[node]
    key = rows.scope.astype(np.int64) * len(rows.names) + node if rows.scope.any() else node
    if len(key) and int(key.max()) < 1 << 16:
        key = key.astype(np.uint16)  # numpy sorts these in linear time
    order = None
    if len(key) and (key[1:] < key[:-1]).any():
        order = np.argsort(key, kind="stable")
        key, pos = key[order], rows.pos[order]
    else:
        pos = rows.pos
    if ((pos[1:] < pos[:-1]) & (key[1:] == key[:-1])).any():
        finer = np.lexsort((pos, key))
        order = finer if order is None else order[finer]
    scope = rows.scope if order is None else rows.scope[order]
    cuts = np.flatnonzero(np.diff(scope)) + 1 if len(scope) else np.zeros(0, np.int64)
    bounds = [0, *cuts.tolist(), len(scope)] if len(scope) else []
    return order, [(int(scope[a]), a, b) for a, b in pairwise(bounds)]


def _take(rows: Rows, order: I64) -> Rows:
    """Some rows, or all in another order."""
    place = np.full(len(rows.pos), -1, np.int64)
    place[order] = np.arange(len(order))
    return Rows(
        rows.scopes,
        rows.scope[order],
        rows.names,
        rows.node[order],
        rows.pos[order],
        rows.kind[order],
        rows.origin[order],
        rows.seq[order],
        _move(rows.deps, place),
        _move(rows.dest, place),
        _move(rows.carries, place),
        _move(rows.channel, place),
        None if rows.process is None else rows.process[order],
        None if rows.incarnation is None else rows.incarnation[order],
        rows.others,
    )


def _move(lists: Lists, place: I64) -> Lists:
    """The lists of moved rows, again in row order."""
    row = place[lists.row]
    order = np.argsort(row, kind="stable")
    order = order[np.searchsorted(row[order], 0) :]
    return Lists(row[order], *take_lists(lists, order))


def take_lists(lists: Lists, order: I64) -> tuple[I64, I32, I64]:
    """Lengths and values of the lists picked by `order`, laid end to end."""
    starts = np.cumsum(lists.length) - lists.length
    length = lists.length[order]
    index = ranges(starts[order], length)
    return length, lists.name[index], lists.seq[index] if len(lists.seq) else lists.seq


def ranges(starts: I64, lengths: I64) -> I64:
    """The numbers starts[i] ... starts[i]+lengths[i]-1 for each i, laid end to end."""
    if not len(starts):
        return np.zeros(0, np.int64)
    shift = starts - (np.cumsum(lengths) - lengths)
    index: I64 = np.arange(int(lengths.sum()), dtype=np.int64) + np.repeat(shift, lengths)
    return index


def _pack_one(
    rows: Rows,
    scope: int,
    start: int,
    end: int,
    bucket: int,
    *,
    keep_names: bool,
    lives: tuple[I64, ...] | None = None,
) -> Piece:
    node, pos, kind = rows.node[start:end], rows.pos[start:end], rows.kind[start:end]
    known = np.isin(kind, NEEDS_DOT)
    origin = np.where(known, rows.origin[start:end], node)
    seq = np.where(known, rows.seq[start:end], 0)
    deps = _within(rows.deps, start, end, np.isin(kind, NEEDS_DEPS))
    dest = _within(rows.dest, start, end, kind == SEND)
    carries = _within(rows.carries, start, end, kind == SEND)
    channel = _within(rows.channel, start, end, np.isin(kind, (SEND, SUBSCRIBE, UNSUBSCRIBE)))
    lives = _lives(rows, start, end) if lives is None else lives
    names = rows.names
    if not keep_names:
        spoken = [
            node,
            origin,
            deps.name,
            dest.name,
            carries.name,
            channel.name,
            *lives[:1],
            *[p[p >= 0] for p in lives[1:2]],
        ]
        used = np.unique(np.concatenate(spoken))
        names = [rows.names[code] for code in used.tolist()]
        node, origin = np.searchsorted(used, node), np.searchsorted(used, origin)
        for lists in (deps, dest, carries, channel):
            lists.name = np.searchsorted(used, lists.name).astype(np.int32)
        if lives:
            process = np.where(lives[1] < 0, -1, np.searchsorted(used, lives[1]))
            lives = (np.searchsorted(used, lives[0]), process, lives[2])
    begins = np.concatenate([np.zeros(1, np.int64), np.flatnonzero(np.diff(node)) + 1])
    counts = np.diff(begins, append=len(node))
    step = np.zeros(len(pos), np.int64)
    np.subtract(pos[1:], pos[:-1], out=step[1:])
    step[begins] = 0
    nodes = node[begins]
    packed = Packed(
        names,
        narrow(nodes),
        narrow(counts),
        narrow(pos[begins]),
        narrow(step),
        narrow(kind),
        narrow(origin),
        narrow(seq),
        tuple(narrow(part) for part in (deps.row, deps.length, deps.name, deps.seq)),
        tuple(narrow(part) for part in (dest.row, dest.length, dest.name)),
        tuple(narrow(part) for part in (carries.row, carries.length, carries.name, carries.seq))
        if len(carries.row)
        else (),
        tuple(narrow(part + 1) for part in lives),
        tuple(narrow(part) for part in (channel.row, channel.name)) if len(channel.row) else (),
    )
    counted = np.bincount(kind, minlength=OTHER + 1)
    return Piece(
        *rows.scopes[scope],
        bucket=bucket,
        events=len(kind),
        sends=int(counted[SEND]),
        restarts=int(counted[RESTART]),
        nodes=[names[code] for code in nodes.tolist()],
        others=rows.others,
        payload=msgspec.msgpack.encode(packed),
    )


def _lives(rows: Rows, start: int, end: int) -> tuple[I64, ...]:
    """What the rows say of their nodes: few say anything, and most of them the same as the one before."""
    if rows.process is None and rows.incarnation is None:
        return ()
    unsaid = np.full(end - start, -1, np.int64)
    node = rows.node[start:end].astype(np.int64)
    process = unsaid if rows.process is None else rows.process[start:end].astype(np.int64)
    number = unsaid if rows.incarnation is None else rows.incarnation[start:end]
    said = (process >= 0) | (number >= 0)
    triples = np.stack([column[said] for column in (node, process, number)])
    fresh = np.ones(triples.shape[1], bool)
    fresh[1:] = (triples[:, 1:] != triples[:, :-1]).any(axis=0)
    return tuple(np.unique(triples[:, fresh], axis=1)) if said.any() else ()


def _within(lists: Lists, start: int, end: int, wanted: npt.NDArray[np.bool_]) -> Lists:
    """The lists of rows start..end whose kind has a use for them, rows counted from start."""
    low, high = np.searchsorted(lists.row, (start, end))
    keep = np.arange(low, high)
    keep = keep[wanted[lists.row[keep] - start]]
    length, name, seq = take_lists(lists, keep)
    return Lists(lists.row[keep] - start, length, name, seq)


def unpack(payload: Any) -> Chunk:
    """The piece's arrays, as views into the binary where that is possible."""
    packed = msgspec.msgpack.decode(payload, type=Packed)
    deps_row, deps_length, deps_name, deps_seq = (widen(view(part)) for part in packed.deps)
    dest_row, dest_length, dest_name = (widen(view(part)) for part in packed.dest)
    none = np.zeros(0, np.int64)
    carries = [widen(view(part)) for part in packed.carries] or [none] * 4
    channel_row, channel_name = [widen(view(part)) for part in packed.channel] or [none] * 2
    node, process, number = [widen(view(part)) - 1 for part in packed.lives] or [none] * 3
    return Chunk(
        packed.names,
        widen(view(packed.nodes)),
        widen(view(packed.counts)),
        widen(view(packed.first)),
        view(packed.step),
        view(packed.kind).copy(),
        view(packed.origin),
        view(packed.seq),
        Lists(deps_row, deps_length, deps_name, deps_seq),
        Lists(dest_row, dest_length, dest_name, none),
        Lists(*carries),
        Lists(channel_row, np.ones(len(channel_row), np.int64), channel_name, none),
        (node, process, number),
    )
