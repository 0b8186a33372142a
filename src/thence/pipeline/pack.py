"""Rows of one run as one compact binary: what travels through Spark instead of rows.

The JVM moves a million small rows slowly and one large binary fast. A packed piece holds the rows of one
(run, group) from one split, sorted by node and position, each column in the narrowest type that fits:
a delivery takes about seven bytes. Positions are stored as steps from row to row.

Where a large run will be cut, its nodes are dealt into buckets by their names: a piece holds the rows of one
bucket, and one more (COMMON) what every part of the run has to know, which is all but deliveries and stables.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final, NamedTuple
from zlib import crc32

import msgspec
import numpy as np
import numpy.typing as npt

from thence.pipeline import dealing
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
    START,
    SUBSCRIBE,
    U8,
    UNSUBSCRIBE,
    Lists,
    Rows,
    of_kinds,
)
from thence.pipeline.widths import Ints, frozen, narrow, view, widen

WHOLE, COMMON = -1, -2
"""Instead of a bucket: rows of all nodes; of all nodes what every part of a run has to know."""
PRIVATE: Final = (DELIVER, STABLE, OTHER)
"""Kinds that concern the node alone."""
KEYS_FEW: Final = 1 << 16
"""So many nodes of runs may have a counter each, however few rows there are."""
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


class PackedPiece(NamedTuple):
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

    Columns stay as narrow as they came: code that computes with one widens it, one chunk at a time. `lives`
    is what rows say of their nodes, without repetition: a node, its process and its incarnation, -1 for
    unsaid."""

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


def pack(rows: Rows, buckets: int = 1) -> Iterator[PackedPiece]:
    """A piece for each (run, group) of the rows, or one for each bucket of its nodes and a common one."""
    bucket = None if buckets == 1 else np.array([bucket_of(name, buckets) for name in rows.names], np.int64)
    rows, starts = _sorted(rows, bucket)
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
    """Which rows every part of a run has to know: of each node what is not private, and its first row but for
    starts, since an `install` or `restart` that is the first means more than later ones."""
    common = ~of_kinds(*PRIVATE)[kind]
    counting = np.flatnonzero((kind != OTHER) & (kind != START))
    first = np.ones(len(counting), bool)
    first[1:] = node[counting[1:]] != node[counting[:-1]]
    common[counting[first]] = True
    return common


def _sorted(rows: Rows, bucket: I64 | None) -> tuple[Rows, list[tuple[int, int, int]]]:
    """The rows by (scope, bucket, node, position), and each scope's range. Rows that are about no message get
    their node and 0 for one."""
    names, scopes = len(rows.names), len(rows.scopes)
    rank = np.arange(names, dtype=np.int32)
    if bucket is not None:
        rank[np.argsort(bucket, kind="stable")] = np.arange(names, dtype=np.int32)
    if names * scopes > max(KEYS_FEW, 4 * len(rows.pos)):
        rows, sizes = _finely_sorted(rows, rank), np.bincount(rows.scope, minlength=scopes)
    else:
        counts = np.zeros(names * scopes, np.int64)
        found = dealing.survey(
            frozen(rows.scope), frozen(rank), frozen(rows.node), frozen(rows.pos), counts
        )  # fmt: skip
        sizes = counts.reshape(scopes, names).sum(axis=1) if names else np.zeros(scopes, np.int64)
        if found == dealing.BY_NODE:
            rows = _dealt(rows, rank, counts)
        else:
            rows = _finely_sorted(rows, rank) if found == dealing.MIXED else _blanked(rows)
    bounds = np.concatenate([[0], np.cumsum(sizes)]).tolist()
    return rows, [(scope, a, b) for scope, (a, b) in enumerate(pairwise(bounds)) if a < b]


def _dealt(rows: Rows, rank: I32, counts: I64) -> Rows:
    """The rows by (scope, rank of the node), in one go: those of each are in order already."""
    starts = np.cumsum(counts) - counts
    size = len(rows.pos)
    place, scope, node, origin = (np.empty(size, np.int32) for _ in range(4))
    pos, seq, kind = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.uint8)
    dealing.deal(
        frozen(rows.scope), frozen(rank), frozen(rows.node), frozen(rows.pos), frozen(rows.kind),
        frozen(rows.origin), frozen(rows.seq), of_kinds(*NEEDS_DOT),
        starts, place, scope, node, pos, kind, origin, seq,
    )  # fmt: skip
    return replace(
        rows, scope=scope, node=node, pos=pos, kind=kind, origin=origin, seq=seq,
        deps=_move(rows.deps, place), dest=_move(rows.dest, place), carries=_move(rows.carries, place),
        channel=_move(rows.channel, place), process=_placed(rows.process, place),
        incarnation=_placed(rows.incarnation, place),
    )  # fmt: skip


def _placed(column: Ints | None, place: I32) -> Ints | None:
    if column is None:
        return None
    moved = np.empty_like(column)
    moved[place] = column
    return moved


def _blanked(rows: Rows) -> Rows:
    known = of_kinds(*NEEDS_DOT)[rows.kind]
    return replace(rows, origin=np.where(known, rows.origin, rows.node), seq=np.where(known, rows.seq, 0))


def _finely_sorted(rows: Rows, rank: I32) -> Rows:
    """Where positions of a node go to and fro."""
    return _blanked(_take(rows, np.lexsort((rows.pos, rank[rows.node], rows.scope))))


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
) -> PackedPiece:
    node, pos, kind = rows.node[start:end], rows.pos[start:end], rows.kind[start:end]
    origin, seq = rows.origin[start:end], rows.seq[start:end]
    tells = of_kinds(*NEEDS_DEPS)[kind]
    if bucket == COMMON:
        tells &= kind != SEND  # a tag is judged where its sender is
    deps = _within(rows.deps, start, end, tells)
    dest = _within(rows.dest, start, end, kind == SEND)
    carries = _within(rows.carries, start, end, kind == SEND)
    channel = _within(rows.channel, start, end, of_kinds(SEND, SUBSCRIBE, UNSUBSCRIBE)[kind])
    lives = _lives(rows, start, end) if lives is None else lives
    names = rows.names
    if not keep_names or len(names) > len(node):
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
    return PackedPiece(
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
