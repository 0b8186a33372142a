"""(N, R, K) clocks alone, compiled: for groups and loads that nodes made of Python objects cannot reach.

The kernel does with sends and arrivals what `order/probabilistic.py` does with them, event for event, with
algorithm 4 and, if it is to remember deliveries, with algorithm 5. Beside the clocks it keeps exact pasts, as
`sim/judged.py` does, and so counts the deliveries that came before their causes, and those among them that
were never doubted.

Nodes touch each other by messages alone. So a node is brought up to a time when it sends, or when a block of
messages is over, not event by event; every message that it can have got by then was sent before.

Invariant. Messages live in a ring of slots until every node has delivered them. A set of messages is a bit
for each slot: all that a past can hold and some node can lack is in the ring, and when a word of slots is
taken again, each of its messages has been delivered everywhere, and is in no set any more.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thence.core.errors import UsageError
from thence.order.keys import Keys, drawn
from thence.pipeline.jit import inlined, kernel

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

WORD = 64
"""Slots of a word, and the most messages of a block."""

SLOTS_MOST = 1 << 14
"""Messages that some node has not delivered yet."""

QUEUE = 256
"""Messages that wait at one node."""

APART = 8
"""Between the rows of two nodes, so that a column does not fall into one set of the processor's cache."""

BLOCK_ARRIVALS = 1 << 23
"""That are drawn at a time."""

DELIVERIES, ERRORS, LATE, HELD, LOGGED, FULL, UNREADY, COUNTED, DOUBTS, UNDOUBTED = range(10)
"""Places of the counters. `UNREADY` and `COUNTED` are those of the document (5.4.1), whose judge is a vector
that takes the maximum of what was delivered: deliveries for which it was not ready, and those that it had
counted before they came. The first give ε_min, both together ε_max. `DOUBTS` counts deliveries that were
doubted, `UNDOUBTED` errors that were not by the time that they were forgotten."""

EARLY, COVERED, DOUBTED = 1, 2, 4
"""What is said of a release: it came before a cause; its keys were covered by others; it was doubted."""


@inlined
def _put(words: Any, row: int, slot: int) -> None:
    words[row, slot >> 6] |= np.uint64(1) << np.uint64(slot & 63)


@kernel
def _doubt(
    node: int, slot: int, keys: Any, clock: Any, sender: Any, number: Any, stamp: Any, recent: Any, said: Any,
    ends: Any, counts: Any,
) -> None:  # fmt: skip
    """Others have covered the message in `slot`: doubt what was delivered as if it had been there. The clock
    counts it already."""
    origin = sender[slot]
    size = recent.shape[1]
    ahead = np.empty(keys.shape[1], np.int64)
    for k in range(keys.shape[1]):
        ahead[k] = clock[node, keys[origin, k]] - 1 - stamp[slot, keys[origin, k]]
    for back in range(1, min(size, ends[node]) + 1):
        place = (ends[node] - back) % size
        other = recent[node, place] % sender.shape[0]
        by = sender[other]
        if recent[node, place] != number[other]:
            counts[FULL] = 1  # its slot has another message by now
            return
        found = True
        for k in range(keys.shape[1]):
            if stamp[other, keys[origin, k]] < stamp[slot, keys[origin, k]]:
                found = False
        if found and not said[node, place] & DOUBTED:
            said[node, place] |= DOUBTED
            counts[DOUBTS] += 1
        for k in range(keys.shape[1]):
            for j in range(keys.shape[1]):
                if keys[by, j] == keys[origin, k]:
                    ahead[k] -= 1
                    if ahead[k] < 0:
                        return


@inlined
def _deliver(
    node: int, slot: int, keys: Any, clock: Any, sender: Any, number: Any, stamp: Any, past: Any, left: Any,
    known: Any, held: Any, recent: Any, said: Any, ends: Any, counts: Any, log: Any,
) -> bool:  # fmt: skip
    origin = sender[slot]
    for k in range(keys.shape[1]):
        clock[node, keys[origin, k]] += 1
    behind = False
    for x in range(clock.shape[1]):
        behind |= stamp[slot, x] > clock[node, x]
    if behind:
        for k in range(keys.shape[1]):
            clock[node, keys[origin, k]] -= 1
        return False
    flags = COVERED
    for k in range(keys.shape[1]):
        if clock[node, keys[origin, k]] == stamp[slot, keys[origin, k]]:
            flags = 0
    if flags & COVERED:
        counts[LATE] += 1
        if recent.shape[1]:
            _doubt(node, slot, keys, clock, sender, number, stamp, recent, said, ends, counts)
    lacks = unready = np.uint64(0)
    counted = known[node, slot >> 6] >> np.uint64(slot & 63) & np.uint64(1)
    for word in range(past.shape[1]):
        lacks |= past[slot, word] & ~held[node, word]
        unready |= past[slot, word] & ~known[node, word]
        known[node, word] |= past[slot, word]
    if lacks:
        flags |= EARLY
        counts[ERRORS] += 1
    if counted:
        counts[COUNTED] += 1
    elif unready:
        counts[UNREADY] += 1
    _put(known, node, slot)
    _put(held, node, slot)
    left[slot] -= 1
    counts[DELIVERIES] += 1
    if recent.shape[1]:
        place = ends[node] % recent.shape[1]
        if said[node, place] & (EARLY | DOUBTED) == EARLY:
            counts[UNDOUBTED] += 1
        recent[node, place] = number[slot]
        said[node, place] = flags & EARLY
        ends[node] += 1
    if counts[LOGGED] < log.shape[0]:
        log[counts[LOGGED], 0] = node
        log[counts[LOGGED], 1] = number[slot]
        log[counts[LOGGED], 2] = flags
        counts[LOGGED] += 1
    return True


@kernel
def _scan(
    node: int, keys: Any, clock: Any, sender: Any, number: Any, stamp: Any, past: Any, left: Any, known: Any,
    held: Any, recent: Any, said: Any, ends: Any, queue: Any, waiting: Any, counts: Any, log: Any,
) -> None:  # fmt: skip
    """Go through what waits until a whole pass delivers nothing."""
    before = -1
    while before != waiting[node]:
        before = waiting[node]
        kept = 0
        for place in range(before):
            waits = queue[node, place]
            if not _deliver(
                node, waits, keys, clock, sender, number, stamp, past, left, known, held, recent, said, ends,
                counts, log,
            ):  # fmt: skip
                queue[node, kept] = waits
                kept += 1
        waiting[node] = kept


@kernel
def _advance(
    node: int, until: float, first: int, arrives: Any, keys: Any, clock: Any, sender: Any, number: Any,
    stamp: Any, past: Any, left: Any, known: Any, held: Any, recent: Any, said: Any, ends: Any, queue: Any,
    waiting: Any, counts: Any, log: Any, came: Any,
) -> None:  # fmt: skip
    """All that comes to a node up to this time, in its order. `first`: the message that is sent next."""
    count = 0
    for following in range(first, first + sender.shape[0]):  # the oldest first: little is out of order
        slot = following % sender.shape[0]
        at = arrives[node, slot]
        if at <= until:
            place = count
            while place and arrives[node, came[place - 1]] > at:
                came[place] = came[place - 1]
                place -= 1
            came[place] = slot
            count += 1
    for place in range(count):
        slot = came[place]
        arrives[node, slot] = inf
        if not _deliver(
            node, slot, keys, clock, sender, number, stamp, past, left, known, held, recent, said, ends,
            counts, log,
        ):  # fmt: skip
            if waiting[node] == queue.shape[1]:
                counts[FULL] = 1
                return
            queue[node, waiting[node]] = slot
            waiting[node] += 1
            counts[HELD] += 1
        elif waiting[node]:
            _scan(
                node, keys, clock, sender, number, stamp, past, left, known, held, recent, said, ends, queue,
                waiting, counts, log,
            )  # fmt: skip


@kernel
def _run(
    first: int, times: Any, senders: Any, arrivals: Any, until: float, arrives: Any, keys: Any, clock: Any,
    sender: Any, number: Any, stamp: Any, past: Any, left: Any, known: Any, held: Any, recent: Any, said: Any,
    ends: Any, queue: Any, waiting: Any, counts: Any, log: Any, came: Any,
) -> None:  # fmt: skip
    """Let messages be sent, the first of which has this number, and all arrive that comes up to this time."""
    for at in range(times.shape[0]):
        slot = (first + at) % sender.shape[0]
        if slot & 63 == 0:
            for other in range(slot, min(slot + 64, sender.shape[0])):
                if left[other]:
                    counts[FULL] = 1
                    return
            known[:, slot >> 6] = 0
            held[:, slot >> 6] = 0
            past[:, slot >> 6] = 0
        node = senders[at]
        _advance(
            node, times[at], first + at, arrives, keys, clock, sender, number, stamp, past, left, known, held,
            recent, said, ends, queue, waiting, counts, log, came,
        )  # fmt: skip
        sender[slot] = node
        number[slot] = first + at
        left[slot] = clock.shape[0] - 1
        past[slot, :] = known[node]
        _put(known, node, slot)
        _put(held, node, slot)
        for k in range(keys.shape[1]):
            clock[node, keys[node, k]] += 1
        stamp[slot, :] = clock[node]
        if waiting[node]:
            _scan(
                node, keys, clock, sender, number, stamp, past, left, known, held, recent, said, ends, queue,
                waiting, counts, log,
            )  # fmt: skip
        for other in range(clock.shape[0]):
            arrives[other, slot] = arrivals[at, other]
        arrives[node, slot] = inf
    for node in range(clock.shape[0]):
        _advance(
            node, until, first + times.shape[0], arrives, keys, clock, sender, number, stamp, past, left,
            known, held, recent, said, ends, queue, waiting, counts, log, came,
        )  # fmt: skip
        if counts[FULL]:
            return


@dataclass(frozen=True, slots=True)
class MessageBlock:
    """Messages that are sent one after the other, and what comes of all messages until a time."""

    times: Floats
    senders: Ints
    arrivals: Floats
    """By message and node."""
    until: float


class Clocks:
    """The clocks of a group, and what happened to them."""

    def __init__(
        self,
        nodes: int,
        entries: int,
        keys: int,
        seed: int = 0,
        log: int = 0,
        recent: int = 0,
        slots: int = 8 * WORD,
    ) -> None:
        """`log`: how many releases to write down. `recent`: how many deliveries each node remembers to doubt
        them; none: only late messages are counted. `slots`: of messages that are under way, or remembered."""
        words = ceil(slots / WORD)
        slots = words * WORD
        if slots > SLOTS_MOST:
            raise UsageError(_FULL)
        sets = Keys(entries, keys, drawn(entries, keys, seed))
        self._next = 0
        self._arrives = np.full((nodes, slots + APART), inf)
        self._state = (
            np.array([sets[member] for member in range(nodes)], np.int32),
            np.zeros((nodes, entries), np.int32),
            np.zeros(slots, np.int64),
            np.zeros(slots, np.int64),
            np.zeros((slots, entries), np.int32),
            np.zeros((slots, words), np.uint64),
            np.zeros(slots, np.int64),
            np.zeros((nodes, words), np.uint64),
            np.zeros((nodes, words), np.uint64),
            np.zeros((nodes, recent), np.int64),
            np.zeros((nodes, recent), np.uint8),
            np.zeros(nodes, np.int64),
        )
        """In the order in which the kernels name them."""
        self._said = self._state[10]
        self._queue = np.zeros((nodes, min(QUEUE, slots)), np.int16), np.zeros(nodes, np.int64)
        self._came = np.zeros(slots, np.int64)
        self.counts = np.zeros(10, np.int64)
        self.log = np.zeros((log, 3), np.int64)
        """Node, number of the message, and what is said of the release; a node's in their order."""

    def run(self, block: MessageBlock) -> None:
        _run(
            self._next, block.times, block.senders, block.arrivals, block.until, self._arrives, *self._state,
            *self._queue, self.counts, self.log, self._came,
        )  # fmt: skip
        self._next += len(block.times)
        if self.counts[FULL]:
            raise UsageError(_FULL)

    @property
    def waiting(self) -> int:
        return int(self._queue[1].sum())

    @property
    def undoubted(self) -> int:
        """Errors that were never doubted, once every message has come."""
        return int(self.counts[UNDOUBTED] + ((self._said & (EARLY | DOUBTED)) == EARLY).sum())


_FULL = "too many messages are under way or wait: the load is too high for the kernel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """The document's load (section 5.4): each node sends as a Poisson process, a message has a delay of its
    own, and receivers have theirs around that. Times in ms."""

    nodes: int
    interval: float
    delay: float = 100.0
    deviation: float = 20.0
    """Of a message's delay."""
    skew: float = 20.0
    """Deviation of its receivers' delays around that."""
    seed: int = 1

    @property
    def slots(self) -> int:
        """Messages that may be under way at a time, and two words that are not all free yet."""
        longest = self.delay + 7 * (self.deviation + self.skew)
        return 2 * WORD + ceil(longest * self.nodes / self.interval)

    def blocks(self, messages: int, block: int = WORD) -> Iterator[MessageBlock]:
        """So many messages, and at last all that is under way. How many go into a block changes nothing."""
        sending, choosing, delaying, skewing = np.random.default_rng(self.seed).spawn(4)
        block = max(1, min(block, BLOCK_ARRIVALS // self.nodes))
        now = 0.0
        for first in range(0, messages, block):
            count = min(block, messages - first)
            times = now + sending.exponential(self.interval / self.nodes, count).cumsum()
            delays = delaying.normal(self.delay, self.deviation, count)[:, None]
            arrivals = skewing.normal(0.0, self.skew, (count, self.nodes))
            arrivals += delays
            np.maximum(arrivals, 0.001, out=arrivals)
            arrivals += times[:, None]
            now = float(times[-1])
            senders = choosing.integers(self.nodes, size=count)
            yield MessageBlock(
                times, senders, arrivals, now if first + count < messages else np.finfo(float).max
            )


def measure(traffic: Traffic, entries: int, keys: int, messages: int, recent: int = 0) -> Clocks:
    """Run so many messages through a group's clocks."""
    clocks = Clocks(traffic.nodes, entries, keys, traffic.seed, recent=recent, slots=traffic.slots + recent)
    for block in traffic.blocks(messages):
        clocks.run(block)
    return clocks
