"""(N, R, K) clocks alone, compiled: for groups and loads that nodes made of Python objects cannot reach.

The kernel takes sends and arrivals in the order of their times and does what `order/probabilistic.py` does
with them, event for event, with algorithm 4 and, if it is to remember deliveries, with algorithm 5. Beside
the clocks it keeps exact pasts, as `sim/judged.py` does, and so counts the deliveries that came before their
causes, and those among them that were never doubted. Messages live in a ring of slots until every node has
delivered them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thence.core.errors import UsageError
from thence.order.keys import Keys, drawn
from thence.pipeline.jit import inlined, kernel

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

SLOTS = 2048
"""Messages that some node has not delivered yet."""

QUEUE = 256
"""Messages that wait at one node."""

SENT = -1
"""In the place of the receiver: the message is sent."""

DELIVERIES, ERRORS, LATE, HELD, LOGGED, FULL, UNREADY, COUNTED, DOUBTS, UNDOUBTED = range(10)
"""Places of the counters. `UNREADY` and `COUNTED` are those of the document (5.4.1), whose judge is a vector
that takes the maximum of what was delivered: deliveries for which it was not ready, and those that it had
counted before they came. The first give ε_min, both together ε_max. `DOUBTS` counts deliveries that were
doubted, `UNDOUBTED` errors that were not by the time that they were forgotten."""

EARLY, COVERED, DOUBTED = 1, 2, 4
"""What is said of a release: it came before a cause; its keys were covered by others; it was doubted."""


@inlined
def _hold(held: Any, early: Any, node: int, origin: int, seq: int) -> bool:
    """Take note of a delivery; false: it is too far ahead to be noted."""
    ahead = seq - held[node, origin] - 1
    if ahead > 62:
        return False
    bits = early[node, origin] | (np.uint64(1) << np.uint64(ahead))
    while bits & np.uint64(1):
        held[node, origin] += 1
        bits >>= np.uint64(1)
    early[node, origin] = bits
    return True


@kernel
def _doubt(
    node: int, slot: int, keys: Any, clock: Any, sender: Any, seq: Any, stamp: Any, recent: Any, said: Any,
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
        if recent[node, place] // sender.shape[0] != np.int64(seq[other]) << 20 | by:
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


@kernel
def _deliver(
    node: int, slot: int, keys: Any, clock: Any, sender: Any, seq: Any, stamp: Any, past: Any, left: Any,
    known: Any, held: Any, early: Any, recent: Any, said: Any, ends: Any, counts: Any, log: Any,
) -> bool:  # fmt: skip
    origin = sender[slot]
    for k in range(keys.shape[1]):
        clock[node, keys[origin, k]] += 1
    for x in range(clock.shape[1]):
        if stamp[slot, x] > clock[node, x]:
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
            _doubt(node, slot, keys, clock, sender, seq, stamp, recent, said, ends, counts)
    lacks = unready = 0
    counted = seq[slot] <= known[node, origin]
    for other in range(past.shape[1]):
        lacks += past[slot, other] > held[node, other]
        unready += past[slot, other] > known[node, other]
        known[node, other] = max(known[node, other], past[slot, other])
    if lacks:
        flags |= EARLY
        counts[ERRORS] += 1
    if counted:
        counts[COUNTED] += 1
    elif unready:
        counts[UNREADY] += 1
    known[node, origin] = max(known[node, origin], seq[slot])
    if not _hold(held, early, node, origin, seq[slot]):
        counts[FULL] = 1
    left[slot] -= 1
    counts[DELIVERIES] += 1
    if recent.shape[1]:
        place = ends[node] % recent.shape[1]
        if said[node, place] & (EARLY | DOUBTED) == EARLY:
            counts[UNDOUBTED] += 1
        recent[node, place] = (np.int64(seq[slot]) << 20 | origin) * sender.shape[0] + slot
        said[node, place] = flags & EARLY
        ends[node] += 1
    if counts[LOGGED] < log.shape[0]:
        log[counts[LOGGED], 0] = node
        log[counts[LOGGED], 1] = origin
        log[counts[LOGGED], 2] = seq[slot]
        log[counts[LOGGED], 3] = flags
        counts[LOGGED] += 1
    return True


@kernel
def _run(
    receivers: Any, messages: Any, senders: Any, keys: Any, clock: Any, sender: Any, seq: Any, stamp: Any,
    past: Any, left: Any, known: Any, held: Any, early: Any, recent: Any, said: Any, ends: Any, queue: Any,
    waiting: Any, counts: Any, log: Any,
) -> None:  # fmt: skip
    """Let sends and arrivals happen. `messages` are numbers in the whole run, a slot is such a number modulo
    the ring; `senders` goes with `messages`."""
    for event in range(receivers.shape[0]):
        slot = messages[event] % sender.shape[0]
        node = receivers[event]
        if node == SENT:
            node = senders[event]
            if left[slot]:
                counts[FULL] = 1
                return
            sender[slot] = node
            left[slot] = clock.shape[0] - 1
            past[slot, :] = known[node]
            known[node, node] += 1
            seq[slot] = known[node, node]
            _hold(held, early, node, node, seq[slot])
            for k in range(keys.shape[1]):
                clock[node, keys[node, k]] += 1
            stamp[slot, :] = clock[node]
        elif not _deliver(
            node, slot, keys, clock, sender, seq, stamp, past, left, known, held, early, recent, said, ends,
            counts, log,
        ):  # fmt: skip
            if waiting[node] == queue.shape[1]:
                counts[FULL] = 1
                return
            queue[node, waiting[node]] = slot
            waiting[node] += 1
            counts[HELD] += 1
            continue
        before = -1
        while before != waiting[node]:
            before = waiting[node]
            kept = 0
            for place in range(before):
                waits = queue[node, place]
                if not _deliver(
                    node, waits, keys, clock, sender, seq, stamp, past, left, known, held, early, recent,
                    said, ends, counts, log,
                ):  # fmt: skip
                    queue[node, kept] = waits
                    kept += 1
            waiting[node] = kept


class Clocks:
    """The clocks of a group, and what happened to them."""

    def __init__(
        self, nodes: int, entries: int, keys: int, seed: int = 0, log: int = 0, recent: int = 0
    ) -> None:
        """`log`: how many releases to write down. `recent`: how many deliveries each node remembers to doubt
        them; none: only late messages are counted."""
        sets = Keys(entries, keys, drawn(entries, keys, seed))
        self._keys = np.array([sets[member] for member in range(nodes)], np.int64)
        self._clock = np.zeros((nodes, entries), np.int32)
        self._ring = (
            np.zeros(SLOTS, np.int64),
            np.zeros(SLOTS, np.int32),
            np.zeros((SLOTS, entries), np.int32),
            np.zeros((SLOTS, nodes), np.int32),
            np.zeros(SLOTS, np.int64),
        )
        self._exact = (
            np.zeros((nodes, nodes), np.int32),
            np.zeros((nodes, nodes), np.int32),
            np.zeros((nodes, nodes), np.uint64),
        )
        self._recent = (
            np.zeros((nodes, recent), np.int64),
            np.zeros((nodes, recent), np.uint8),
            np.zeros(nodes, np.int64),
        )
        self._queue = np.zeros((nodes, QUEUE), np.int64), np.zeros(nodes, np.int64)
        self.counts = np.zeros(10, np.int64)
        self.log = np.zeros((log, 4), np.int64)
        """Node, origin, counter, and what is said of the release."""

    def run(self, receivers: Ints, messages: Ints, senders: Ints) -> None:
        _run(
            receivers, messages, senders, self._keys, self._clock, *self._ring, *self._exact, *self._recent,
            *self._queue, self.counts, self.log,
        )  # fmt: skip
        if self.counts[FULL]:
            raise UsageError("too many messages are under way or wait: the load is too high for the kernel")

    @property
    def waiting(self) -> int:
        return int(self._queue[1].sum())

    @property
    def undoubted(self) -> int:
        """Errors that were never doubted, once every message has come."""
        said = self._recent[1]
        return int(self.counts[UNDOUBTED] + ((said & (EARLY | DOUBTED)) == EARLY).sum())


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

    def blocks(self, messages: int, block: int = 500) -> Iterator[tuple[Ints, Ints, Ints]]:
        """Sends and arrivals in order, for so many messages: receivers, messages, senders."""
        chance = np.random.default_rng(self.seed)
        now, first = 0.0, 0
        times: Floats = np.zeros(0)
        rest: Ints = np.zeros((3, 0), np.int64)
        while first < messages:
            count = min(block, messages - first)
            sends = now + chance.exponential(self.interval / self.nodes, count).cumsum()
            numbers = np.arange(first, first + count)
            senders = chance.integers(self.nodes, size=count)
            delays = chance.normal(self.delay, self.deviation, count)[:, None]
            arrivals = sends[:, None] + np.maximum(
                chance.normal(0.0, self.skew, (count, self.nodes)) + delays, 0.001
            )
            others = np.arange(self.nodes)[None, :] != senders[:, None]
            who, where = np.nonzero(others)
            events = np.stack(
                [
                    np.concatenate([rest[0], np.full(count, SENT), where]),
                    np.concatenate([rest[1], numbers, numbers[who]]),
                    np.concatenate([rest[2], senders, senders[who]]),
                ]
            )
            times = np.concatenate([times, sends, arrivals[others]])
            order = np.argsort(times, kind="stable")
            now, first = float(sends[-1]), first + count
            ready = int(np.searchsorted(times[order], now, "right")) if first < messages else len(order)
            done = events[:, order[:ready]]
            yield done[0], done[1], done[2]
            times, rest = times[order[ready:]], events[:, order[ready:]]


def measure(traffic: Traffic, entries: int, keys: int, messages: int, recent: int = 0) -> Clocks:
    """Run so many messages through a group's clocks."""
    clocks = Clocks(traffic.nodes, entries, keys, traffic.seed, recent=recent)
    for block in traffic.blocks(messages):
        clocks.run(*block)
    return clocks
