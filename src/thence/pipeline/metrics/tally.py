"""What the messages of some origins went through, told in few rows: the work of one task.

Latencies are whole microseconds. A distribution leaves a task as its distinct values and their counts, and
is put together from those of all tasks: percentiles are exact up to 2**20 µs (1.05 s); beyond that values
keep their first 20 bits, which is a millionth. Maxima and sums are exact.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from thence.core.machine import NEVER
from thence.pipeline.assemble import Dots
from thence.pipeline.metrics.sorting import (
    counted,
    heaps,
    link_keys,
    overview,
    raise_to,
    since_send,
    slim,
    sorted_order,
    sums_of,
)
from thence.pipeline.metrics.timed import (
    DELIVER,
    DUPLICATE,
    EVICT,
    HEAL,
    HOLD,
    INSTALL,
    RESTART,
    SEND,
    STABLE,
    START,
    TimedChunk,
    together,
)
from thence.pipeline.rows import I32, I64
from thence.pipeline.widths import narrow, view, widen

QUANTILES: Final = (0.5, 0.9, 0.99)
EXACT_BITS: Final = 20
CATCH_UP: Final = "catch up"
RETURNS: Final = {INSTALL: "join", RESTART: "restart"}


class Tally(NamedTuple):
    """One row of what a task tells. `by` says which of `node`, `origin` and `start_us` it is about."""

    measure: str
    by: str
    node: str = ""
    origin: str = ""
    start_us: int = 0
    number: int = 0
    total: float = 0
    p50: int = 0
    p90: int = 0
    p99: int = 0
    max: int = 0
    payload: bytes = b""


def rounded(values: I64) -> I64:
    """To the bits that a distribution keeps."""
    if not len(values) or int(values.max()) < 1 << EXACT_BITS:
        return values
    bits = np.frexp(values.astype(np.float64))[1].astype(np.int64)
    shift = np.maximum(bits - EXACT_BITS, 0)
    return (values >> shift) << shift


def rank(count: int | I64, quantile: float) -> Any:
    """Where the percentile stands among that many sorted values: the nearest rank."""
    return np.maximum(np.ceil(np.asarray(count) * quantile - 1e-9).astype(np.int64) - 1, 0)


def pack_counts(values: I64) -> bytes:
    """Values as distinct ones with their counts."""
    distinct, counts = counted(values)
    return msgspec.msgpack.encode((narrow(np.diff(distinct, prepend=0)), narrow(counts)))


def quantiles(payloads: Sequence[Any]) -> list[int]:
    """The percentiles of packed counts together."""
    values, counts = [], []
    for payload in payloads:
        steps, number = msgspec.msgpack.decode(
            payload, type=tuple[tuple[str, memoryview], tuple[str, memoryview]]
        )
        values.append(np.cumsum(widen(view(steps))))
        counts.append(widen(view(number)))
    value, count = np.concatenate(values), np.concatenate(counts)
    if len(payloads) > 1:
        if int(value.max()) < 8 * len(value) + (1 << 16):
            count = np.bincount(value, weights=count).astype(np.int64)  # exact: no count comes near 2**53
            value = np.arange(len(count))
        else:
            order = sorted_order(value)
            value, count = value[order], count[order]
    upto = np.cumsum(count)
    total = int(upto[-1])
    return [int(value[np.searchsorted(upto, rank(total, q), side="right")]) for q in QUANTILES]


def tally(payloads: Sequence[Any], bin_us: int) -> list[Tally]:
    """All that one part of a run says. Times in bins of `bin_us` are those of sending."""
    rows = together(payloads)
    return list(_TallyPart(rows, bin_us).tell())


class _TallyPart:
    def __init__(self, rows: TimedChunk, bin_us: int) -> None:
        self._names = rows.names
        self._bin_us = bin_us
        self._rows = rows
        sends = np.flatnonzero(rows.kind == SEND)
        self._entries = rows.rest  # of sends, and in their order
        self._sends = sends
        self._messages = Dots.of(rows.origin[sends].astype(np.int64), rows.seq[sends], len(rows.names))
        self._sent = self._first_sends()
        self._bin_of = slim(np.where(self._sent < NEVER, self._sent // bin_us, 0))

    def _first_sends(self) -> I64:
        """When each message was sent first; NEVER if no row says so."""
        rows, sends = self._rows, self._sends
        sent = np.full(len(self._messages.seq), NEVER, np.int64)
        timed = sends[rows.at[sends] >= 0]
        np.minimum.at(sent, self._number(timed), rows.at[timed])
        return sent

    def _number(self, index: I64) -> I64:
        return self._messages.find(self._rows.origin[index].astype(np.int64), self._rows.seq[index])

    def tell(self) -> Iterator[Tally]:
        yield from self._counts()
        known = self._entries[self._entries > 0] - 1
        if len(known):
            yield _told("entries", "run", known)
        delivered = self._since_send(DELIVER)
        yield from self._of_measure("delivery", delivered, link=True)
        yield from self._broadcast(delivered)
        yield from self._of_measure("stability", self._since_send(STABLE))
        yield from self._held()
        yield from self._marks(delivered)

    # Counting

    def _counts(self) -> Iterator[Tally]:
        rows, names = self._rows, self._names
        table = np.zeros((len(names), DUPLICATE + 1), np.int64)
        first, last, untimed = overview(rows.kind, rows.node, rows.at, DUPLICATE + 1, table)
        kinds = (("sends", SEND), ("deliveries", DELIVER), ("stables", STABLE), ("holds", HOLD),
                 ("duplicates", DUPLICATE))  # fmt: skip
        for measure, kind in kinds:
            for node in np.flatnonzero(table[:, kind]).tolist():
                yield Tally(measure, "member", names[node], number=int(table[node, kind]))
        if untimed:
            yield Tally("untimed", "run", number=untimed)
        if last >= 0:
            yield Tally("time", "span", start_us=first, max=last)

    # Latencies

    def _since_send(self, kind: int) -> "_Latencies":
        """From the first send of a message to each row of this kind about it."""
        rows, size = self._rows, int((self._rows.kind == kind).sum())
        node, number, took = np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.int64)
        found, unsent, early = since_send(
            rows.kind, kind, rows.node, rows.origin, rows.seq, rows.at, self._messages.start,
            self._messages.seq, self._sent, NEVER, node, number, took,
        )  # fmt: skip
        return _Latencies(node[:found], number[:found], slim(took[:found]), unsent, early)

    def _of_measure(self, measure: str, found: "_Latencies", link: bool = False) -> Iterator[Tally]:
        if found.unsent:
            yield Tally(f"{measure} without send", "run", number=found.unsent)
        if found.early:
            yield Tally(f"{measure} before send", "run", number=found.early)
        if not len(found.took):
            return
        yield _told(measure, "run", found.took)
        if link:
            yield from self._links(measure, found)
        else:
            yield from self._members(measure, found.took, found.node)
        yield from self._bins(measure, found.took, self._bin_of[found.number])

    def _members(self, measure: str, took: I64, node: I32) -> Iterator[Tally]:
        for number, values in _dealt(took, node):
            yield _told(measure, "member", values, node=self._names[number])

    def _bins(self, measure: str, took: I64, bins: I64) -> Iterator[Tally]:
        """By the bin of its sending."""
        for number, values in _dealt(took, bins):
            yield _told(measure, "bin", values, start_us=number * self._bin_us)

    def _links(self, measure: str, found: "_Latencies") -> Iterator[Tally]:
        """Those of each link are whole here: their percentiles need no other task. A node's links stand
        beside each other, and are together what is to be told of the node."""
        size = len(self._names)
        keys = np.empty(len(found.node), np.int32 if size * size < 1 << 31 else np.int64)
        link_keys(found.node, found.number, self._messages.origin, size, keys)
        pairs, values, bounds = _heaped(found.took, keys, in_order=True)
        start, length = bounds[:-1], np.diff(bounds)
        cells = [values[start + rank(length, q)] for q in QUANTILES]
        total = np.empty(len(pairs))
        sums_of(values, bounds, total)
        columns = (pairs % size, pairs // size, length, total, *cells, values[start + length - 1])
        for origin, node, n, sum_us, p50, p90, p99, top in zip(*(c.tolist() for c in columns), strict=True):
            yield Tally(
                measure, "link", self._names[node], self._names[origin], 0, n, sum_us, p50, p90, p99, top
            )
        first = np.flatnonzero(np.diff(pairs // size, prepend=-1))
        for link, end in pairwise([*first.tolist(), len(pairs)]):
            name = self._names[int(pairs[link]) // size]
            yield _told(measure, "member", values[bounds[link] : bounds[end]], node=name)

    def _broadcast(self, delivered: "_Latencies") -> Iterator[Tally]:
        """From a send to the last delivery at a member that was there when it was sent."""
        if not len(delivered.took):
            return
        since, number, took = self._appeared(), delivered.number, delivered.took
        if (since >= 0).any():
            there = since[delivered.node] <= self._sent[number]
            number, took = number[there], took[there]
        last = np.full(len(self._messages.seq), -1, np.int64)
        raise_to(last, number, took)
        reached = last >= 0
        took = last[reached]
        if len(took):
            yield _told("broadcast", "run", took)
            yield from self._bins("broadcast", took, self._bin_of[reached])

    def _appeared(self) -> I64:
        """When each node began, as far as a row says so."""
        rows = self._rows
        since = np.full(len(self._names), NEVER, np.int64)
        begun = np.flatnonzero(np.isin(rows.kind, (START, INSTALL)) & (rows.at >= 0))
        np.minimum.at(since, rows.node[begun], rows.at[begun])
        since[since == NEVER] = -1
        return since

    def _held(self) -> Iterator[Tally]:
        """From a message's arrival before its causes to its delivery there."""
        rows, size = self._rows, len(self._names)
        holds = np.flatnonzero((rows.kind == HOLD) & (rows.at >= 0))
        if not len(holds):
            return
        number = self._number(holds)
        holds, number = holds[number >= 0], number[number >= 0]
        wanted, place = np.unique(number * size + rows.node[holds], return_inverse=True)
        began = np.full(len(wanted), NEVER, np.int64)
        np.minimum.at(began, place, rows.at[holds])
        index = np.flatnonzero((rows.kind == DELIVER) & (rows.at >= 0))
        number = self._number(index)
        index, number = index[number >= 0], number[number >= 0]
        key = number * size + rows.node[index]
        place = np.searchsorted(wanted, key)
        met = place < len(wanted)
        met[met] = wanted[place[met]] == key[met]
        index, place = index[met], place[met]
        ended = np.full(len(wanted), NEVER, np.int64)
        late = rows.at[index] >= began[place]
        np.minimum.at(ended, place[late], rows.at[index[late]])
        over = ended < NEVER
        took, node = (ended - began)[over], (wanted % size)[over]
        if len(took):
            yield _told("held", "run", took)
            yield from self._members("held", took, node)
        if not over.all():
            yield Tally("held without delivery", "run", number=int((~over).sum()))

    # Marks

    def _marks(self, delivered: "_Latencies") -> Iterator[Tally]:
        rows = self._rows
        marks = np.flatnonzero(np.isin(rows.kind, (INSTALL, RESTART, EVICT)) & (rows.at >= 0))
        for kinds, ends in (((INSTALL, RESTART), DELIVER), ((EVICT,), STABLE)):
            chosen = marks[np.isin(rows.kind[marks], kinds)]
            if len(chosen):
                yield from self._first_after(chosen, ends)
        yield from self._caught_up(marks[np.isin(rows.kind[marks], tuple(RETURNS))], delivered)
        for heal in np.unique(rows.at[(rows.kind == HEAL) & (rows.at >= 0)]).tolist():
            yield _converged(self._sent[delivered.number], delivered.took, heal)

    def _caught_up(self, marks: I64, delivered: "_Latencies") -> Iterator[Tally]:
        """Deliveries at the mark's node, from the mark on, of messages that were sent before it."""
        if not len(marks):
            return
        rows, sent = self._rows, self._sent[delivered.number]
        at = sent + delivered.took
        order = np.argsort(delivered.node, kind="stable")
        bounds = np.searchsorted(delivered.node[order], np.arange(len(self._names) + 1))
        for mark in marks.tolist():
            node, since = int(rows.node[mark]), int(rows.at[mark])
            mine = order[bounds[node] : bounds[node + 1]]
            late = at[mine[(sent[mine] < since) & (at[mine] >= since)]]
            last = int(late.max()) - since if len(late) else 0
            change = RETURNS[int(rows.kind[mark])]
            yield Tally(CATCH_UP, "mark", self._names[node], change, since, len(late), last)

    def _first_after(self, marks: I64, ends: int) -> Iterator[Tally]:
        """The first row of a kind at the mark's node, from the mark on; -1: there is none here."""
        rows = self._rows
        names = RETURNS | {EVICT: "evict"}
        index = np.flatnonzero((rows.kind == ends) & (rows.at >= 0))
        times, bounds = heaps(rows.at[index], rows.node[index], len(self._names))
        for mark in marks.tolist():
            node, at = int(rows.node[mark]), int(rows.at[mark])
            mine = times[bounds[node] : bounds[node + 1]]
            place = int(np.searchsorted(mine, at))
            about = self._names[int(rows.origin[mark])] if rows.kind[mark] == EVICT else ""
            total = int(mine[place]) - at if place < len(mine) else -1
            yield Tally(names[int(rows.kind[mark])], "mark", self._names[node], about, at, total=total)


def _converged(sent: I64, took: I64, heal: int) -> Tally:
    """How long the last delivery of a message from before the heal took, and how many came after it."""
    at = sent + took
    late = (sent < heal) & (at >= heal)
    last = int(at[late].max()) - heal if late.any() else 0
    return Tally("heal", "mark", start_us=heal, number=int(late.sum()), total=last)


class _Latencies(NamedTuple):
    """Rows that came after their message's send, and how long after."""

    node: I32
    number: I32
    took: I64
    unsent: int
    """Rows of messages that have no send with a time."""
    early: int
    """Rows that come before the send, as the nodes' clocks have it."""


def _told(measure: str, by: str, values: I64, node: str = "", start_us: int = 0) -> Tally:
    return Tally(
        measure, by, node, "", start_us, len(values), float(values.sum(dtype=np.float64)),
        max=int(values.max()), payload=pack_counts(rounded(values)),
    )  # fmt: skip


def _heaped(values: I64, keys: I64, *, in_order: bool) -> tuple[I64, I64, I64]:
    """The keys that occur, the values key by key, sorted if they are to be, and where each key's begin."""
    first, most = int(keys.min()), 4 * len(keys) + 1024
    spread = int(keys.max()) - first + 1
    if first + spread <= most:
        first, spread = 0, first + spread  # a copy less
    if spread > most:
        used, place = np.unique(keys, return_inverse=True)
        out, bounds = heaps(values, place, len(used), in_order=in_order)
        return used, out, bounds
    out, bounds = heaps(values, keys - first if first else keys, spread, in_order=in_order)
    there = np.flatnonzero(np.diff(bounds))
    return there + first, out, np.append(bounds[there], len(out))


def _dealt(values: I64, keys: I64) -> Iterator[tuple[int, I64]]:
    """Each key and its values."""
    used, out, bounds = _heaped(values, keys, in_order=False)
    for place, key in enumerate(used.tolist()):
        yield key, out[bounds[place] : bounds[place + 1]]
