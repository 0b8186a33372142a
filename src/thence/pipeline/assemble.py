"""One run's rows, put together from its packed pieces: in order, messages numbered.

Nodes are numbered in the order of their names and rows are laid out by (node, position), so that the
smallest row number is also the first example that a person should see. Messages that were sent come
first, by (origin, counter), as numbers 0 ... sent-1; messages that are only spoken of follow.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from thence.pipeline import kernels
from thence.pipeline.pack import Chunk, ranges
from thence.pipeline.rows import EVICT, I32, I64, OTHER, SEND, U8, Lists
from thence.pipeline.widths import widen

Bools = npt.NDArray[np.bool_]


class Twice(NamedTuple):
    """One place that two rows claim."""

    node: str
    pos: int


class TwoLives(NamedTuple):
    """A node that is two processes, or two incarnations, as its rows have it."""

    node: str


class Dots(NamedTuple):
    """Distinct messages, sorted by (origin, counter); `start[o]` is where origin o's begin."""

    origin: I64
    seq: I64
    start: I64

    @classmethod
    def of(cls, origin: I64, seq: I64, names: int) -> "Dots":
        order = np.lexsort((seq, origin))
        origin, seq = origin[order], seq[order]
        if len(origin) > 1:
            fresh = np.ones(len(origin), bool)
            fresh[1:] = (origin[1:] != origin[:-1]) | (seq[1:] != seq[:-1])
            origin, seq = origin[fresh], seq[fresh]
        return cls(origin, seq, np.searchsorted(origin, np.arange(names + 1)))

    def find(self, origin: I64, seq: I64) -> I64:
        """Each message's number, -1 if it is not here."""
        found = np.empty(len(origin), np.int64)
        kernels.find_dots(origin, seq, self.start, self.seq, found)
        return found


class Said(NamedTuple):
    """A list column of the whole run: list k belongs to row[k]; origins are names' numbers."""

    row: I64
    length: I64
    origin: I64
    seq: I64


class Table(NamedTuple):
    """The run's counting rows and the messages that they speak of."""

    names: list[str]
    nodes: I64  # each node's name
    node_start: I64  # rows of node j: node_start[j] ... node_start[j+1]
    kind: U8
    pos: I64
    dot: I32  # the message of a send, deliver or stable, else -1
    sent: Dots
    unsent: Dots  # numbered from len(sent.seq) on
    deps: Said
    dest: Said
    evict: Said  # one "list" of one entry per evict row
    carries: Said
    channel: Said
    process: I64 | None  # each name's process, as a name; None: each is its own
    incarnation: I64 | None

    def number(self, origin: I64, seq: I64) -> I64:
        """Numbers of messages, sent or not; all are known here."""
        found = self.sent.find(origin, seq)
        lost = np.flatnonzero(found < 0)
        if len(lost):
            found[lost] = len(self.sent.seq) + self.unsent.find(origin[lost], seq[lost])
        return found


class _Layout(NamedTuple):
    """Where each chunk's stretches of rows go: by node, then position."""

    target: list[I64]  # per chunk, where each of its stretches begins
    name_start: I64  # rows of each name
    overlap: bool  # stretches of one node interleave: rows must be sorted afterwards


def assemble(chunks: list[Chunk]) -> Table | Twice | TwoLives | None:
    """The table of these chunks, which are used up one by one; Twice if two rows claim one place, TwoLives if
    they tell a node to be two; None if no row counts."""
    names = sorted({name for chunk in chunks for name in chunk.names})
    code = {name: index for index, name in enumerate(names)}
    maps = [np.array([code[name] for name in chunk.names], np.int64) for chunk in chunks]
    layout = _layout(chunks, maps, len(names))
    sent = _sent(chunks, maps, len(names))
    lives = _lives(chunks, maps, len(names))
    size = int(layout.name_start[-1])
    pos, kind, dot = np.empty(size, np.int64), np.empty(size, np.uint8), np.empty(size, np.int32)
    orphans, spoken = [], _Spoken([], [], [], [], [])
    while chunks:
        chunk, known, target = chunks.pop(), maps.pop(), layout.target.pop()
        orphans.append(_lay_out(chunk, known, target, sent, pos, kind, dot))
        _gather(chunk, known, target, spoken)
    deps, dest, evict, carries, channel = (_join(parts) for parts in spoken)
    unsent = _number_unsent(sent, orphans, (deps, carries), dot, len(names))
    done = _in_order(layout, pos, kind, dot)
    if isinstance(done, Twice):
        return done._replace(node=names[int(done.node)])
    if isinstance(lives, int):
        return TwoLives(names[lives])
    name_start, pos, kind, dot, move = done
    nodes = np.flatnonzero(np.diff(name_start))
    if not len(nodes):
        return None
    node_start = np.append(name_start[nodes], name_start[-1])
    if move is not None:
        lists = (deps, dest, evict, carries, channel)
        deps, dest, evict, carries, channel = (_moved(said, move) for said in lists)
    return Table(
        names, nodes, node_start, kind, pos, dot, sent, unsent, deps, dest, evict, carries, channel, *lives
    )


Part = tuple[I64, I64, I64, I64]
"""Lists of one chunk: their rows, lengths, origins and counters."""


class _Spoken(NamedTuple):
    deps: list[Part]
    dest: list[Part]
    evict: list[Part]
    carries: list[Part]
    channel: list[Part]


def _layout(chunks: Sequence[Chunk], maps: Sequence[I64], names: int) -> _Layout:
    node = np.concatenate([m[c.nodes] for m, c in zip(maps, chunks, strict=True)])
    counts = np.concatenate([chunk.counts for chunk in chunks])
    low = np.concatenate([chunk.first for chunk in chunks])
    order = np.lexsort((low, node))
    target = np.empty(len(order), np.int64)
    target[order] = np.cumsum(counts[order]) - counts[order]
    overlap = False
    if len(chunks) > 1:
        high = np.concatenate([_last(chunk) for chunk in chunks])[order]
        low, node_sorted = low[order], node[order]
        overlap = bool(((low[1:] <= high[:-1]) & (node_sorted[1:] == node_sorted[:-1])).any())
    rows = np.zeros(names + 1, np.int64)
    np.add.at(rows, node + 1, counts)
    cuts = np.cumsum([len(chunk.nodes) for chunk in chunks])[:-1]
    return _Layout(np.split(target, cuts), np.cumsum(rows), overlap)


def _last(chunk: Chunk) -> I64:
    """The last position of each stretch."""
    total = np.cumsum(chunk.step, dtype=np.int64)
    begins = chunk.begins
    last: I64 = chunk.first + total[begins + chunk.counts - 1] - total[begins]
    return last


def _sent(chunks: Sequence[Chunk], maps: Sequence[I64], names: int) -> Dots:
    origin, seq = [], []
    for chunk, known in zip(chunks, maps, strict=True):
        rows = np.flatnonzero(chunk.kind == SEND)
        origin.append(known[chunk.origin[rows]])
        seq.append(chunk.seq[rows].astype(np.int64))
    return Dots.of(np.concatenate(origin), np.concatenate(seq), names)


def _lay_out(
    chunk: Chunk, known: I64, target: I64, sent: Dots, pos: I64, kind: U8, dot: I32
) -> tuple[I64, I64, I64]:
    """Write a chunk's rows to their places; the rows about messages without send come back."""
    origin, seq = known[chunk.origin], widen(chunk.seq)
    missing = kernels.lay_out(
        chunk.counts, target, chunk.positions(), chunk.kind, origin, seq, sent.start, sent.seq, pos, kind, dot
    )
    if not missing:
        return (np.zeros(0, np.int64),) * 3
    where = ranges(target, chunk.counts)
    lost = np.flatnonzero(dot[where] == kernels.UNKNOWN)
    return where[lost], origin[lost], seq[lost]


def _places(chunk: Chunk, target: I64, rows: I64) -> I64:
    """Where single rows of a chunk went in the layout."""
    begins = chunk.begins
    stretch = np.searchsorted(begins, rows, side="right") - 1
    return target[stretch] + rows - begins[stretch]


def _gather(chunk: Chunk, known: I64, target: I64, spoken: _Spoken) -> None:
    """Add a chunk's lists to those of the run. They are copies: nothing holds on to the chunk."""
    for column in ("deps", "dest", "carries", "channel"):
        parts: list[Part] = getattr(spoken, column)
        lists: Lists = getattr(chunk, column)
        if len(lists.row):
            parts.append((_places(chunk, target, lists.row), lists.length, known[lists.name], lists.seq))
    rows = np.flatnonzero(chunk.kind == EVICT)
    if len(rows):
        origin, seq = known[chunk.origin[rows]], chunk.seq[rows].astype(np.int64)
        spoken.evict.append((_places(chunk, target, rows), np.ones(len(rows), np.int64), origin, seq))


def _lives(chunks: Sequence[Chunk], maps: Sequence[I64], names: int) -> int | tuple[I64 | None, I64 | None]:
    """Each name's process and incarnation; or the first name of which rows tell different ones."""
    node = np.concatenate([known[chunk.lives[0]] for chunk, known in zip(chunks, maps, strict=True)])
    if not len(node):
        return None, None
    process = np.concatenate([_renamed(chunk.lives[1], m) for chunk, m in zip(chunks, maps, strict=True)])
    number = np.concatenate([chunk.lives[2] for chunk in chunks])
    found, torn = [], []
    for told, unsaid in ((process, np.arange(names)), (number, np.ones(names, np.int64))):
        said = told >= 0
        value = unsaid.copy()
        value[node[said]] = told[said]
        torn.append(node[said][value[node[said]] != told[said]])
        found.append(value)
    both = np.concatenate(torn)
    return int(both.min()) if len(both) else (found[0], found[1])


def _renamed(codes: I64, known: I64) -> I64:
    return np.where(codes < 0, -1, known[codes]) if len(codes) else codes


def _join(parts: list[Part]) -> Said:
    if not parts:
        return Said(*(np.zeros(0, np.int64) for _ in range(4)))
    said = Said(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    return said if len(parts) == 1 and (np.diff(said.row) > 0).all() else _by_row(said)


def _by_row(said: Said) -> Said:
    order = np.argsort(said.row, kind="stable")
    starts = np.cumsum(said.length) - said.length
    index = ranges(starts[order], said.length[order])
    seq = said.seq[index] if len(said.seq) else said.seq
    return Said(said.row[order], said.length[order], said.origin[index], seq)


def _moved(said: Said, move: I64) -> Said:
    return _by_row(said._replace(row=move[said.row]))


def _number_unsent(
    sent: Dots, orphans: list[tuple[I64, I64, I64]], named: Sequence[Said], dot: I32, names: int
) -> Dots:
    """Number the messages that have no send row, and write the numbers of the rows about them."""
    lost = [np.flatnonzero(sent.find(said.origin, said.seq) < 0) for said in named]
    row = np.concatenate([part[0] for part in orphans])
    origin = np.concatenate([part[1] for part in orphans])
    seq = np.concatenate([part[2] for part in orphans])
    unsent = Dots.of(
        np.concatenate([origin, *(said.origin[some] for said, some in zip(named, lost, strict=True))]),
        np.concatenate([seq, *(said.seq[some] for said, some in zip(named, lost, strict=True))]),
        names,
    )
    dot[row] = len(sent.seq) + unsent.find(origin, seq)
    return unsent


def _in_order(layout: _Layout, pos: I64, kind: U8, dot: I32) -> Twice | tuple[I64, I64, U8, I32, I64 | None]:
    """Sort where stretches interleave, refuse places claimed twice, drop the kinds for metrics."""
    start = layout.name_start
    move: I64 | None = None
    if layout.overlap:
        order = np.empty(len(pos), np.int64)
        for a, b in pairwise(start.tolist()):  # node by node: numpy merges sorted stretches fast
            order[a:b] = a + np.argsort(pos[a:b], kind="stable")
        pos, kind, dot = pos[order], kind[order], dot[order]
        move = np.empty(len(order), np.int64)
        move[order] = np.arange(len(order))
    same = np.flatnonzero(pos[1:] == pos[:-1])
    inner = same[~np.isin(same + 1, start)]
    if len(inner):
        first = int(inner[0])
        owner = int(np.searchsorted(start, first, side="right")) - 1
        return Twice(str(owner), int(pos[first]))
    keep = kind != OTHER
    if not keep.all():
        after = np.concatenate([[0], np.cumsum(keep)])
        move = after[:-1] if move is None else after[move]
        start, pos, kind, dot = after[start], pos[keep], kind[keep], dot[keep]
    return start, pos, kind, dot, move
