"""A run judges itself: which deliveries of an engine that may err came before their causes, and whether the
engine doubted them.

The verdict is `order` of docs/TRACES.md, so that `thence verify` finds as many in the trace. What happened
before a message holds all earlier messages of a member whenever it holds one of them, so a counter per member
is the whole past. What a node holds has gaps: a counter per member, and what came beyond it.
"""

from operator import gt
from typing import Final

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK, STEP, pack
from thence.trace.recorder import DELIVER, DOUBT, SEND, Recorder

Past = list[int]
"""A counter per member."""


class Judge:
    """Knows what happened before what at all nodes."""

    __slots__ = ("_doubted", "_early", "_errors", "_held", "_known", "_named", "_pasts", "_size")

    def __init__(self, size: int, named: bool) -> None:
        """`named`: doubts name the message that was delivered too early; else those that came too late."""
        self._size: Final = size
        self._named: Final = named
        self._known = [[0] * size for _ in range(size)]
        self._held = [[0] * size for _ in range(size)]
        self._early: list[set[int]] = [set() for _ in range(size)]
        self._pasts: dict[int, tuple[Past, int]] = {}
        """By message, and how many nodes will still deliver it."""
        self._errors: list[tuple[int, int, list[int]]] = []
        """Node, message, and what of its past the node did not hold."""
        self._doubted: list[set[int]] = [set() for _ in range(size)]

    @property
    def errors(self) -> int:
        """Deliveries before their causes."""
        return len(self._errors)

    @property
    def undoubted(self) -> int:
        """Those that the engine did not notice."""
        return sum(
            dot not in self._doubted[node] if self._named else not self._doubted[node].issuperset(lacking)
            for node, dot, lacking in self._errors
        )

    def sent(self, node: int, dot: int) -> None:
        if self._size > 1:
            self._pasts[dot] = list(self._known[node]), self._size - 1
        self._known[node][node] += 1
        self._held[node][node] += 1

    def delivered(self, node: int, dot: int) -> None:
        past, left = self._pasts.pop(dot)
        if left > 1:
            self._pasts[dot] = past, left - 1
        held, known = self._held[node], self._known[node]
        if any(map(gt, past, held)):  # the first message beyond what is held is never an early one
            self._errors.append((node, dot, self._lacking(node, past)))
        if any(map(gt, past, known)):
            known[:] = map(max, past, known)
        origin, seq = dot & ORIGIN_MASK, dot >> ORIGIN_BITS
        known[origin] = max(known[origin], seq)
        self._hold(node, dot)

    def doubted(self, node: int, dot: int) -> None:
        self._doubted[node].add(dot)

    def _lacking(self, node: int, past: Past) -> list[int]:
        early = self._early[node]
        return [
            dot
            for origin, (ends, has) in enumerate(zip(past, self._held[node], strict=True))
            for dot in range(pack(origin, has + 1), pack(origin, ends + 1), STEP)
            if dot not in early
        ]

    def _hold(self, node: int, dot: int) -> None:
        held, early, origin = self._held[node], self._early[node], dot & ORIGIN_MASK
        early.add(dot)
        while (following := pack(origin, held[origin] + 1)) in early:
            early.remove(following)
            held[origin] += 1


class Judged:
    """A node's recorder, with the judge looking on."""

    __slots__ = ("_into", "_judge", "_node")

    def __init__(self, into: Recorder, judge: Judge, node: int) -> None:
        self._into = into
        self._judge = judge
        self._node = node

    def record(self, kind: int, dot: int, now: int) -> None:
        self._into.record(kind, dot, now)
        if kind == DELIVER:
            self._judge.delivered(self._node, dot)
        elif kind == SEND:
            self._judge.sent(self._node, dot)
        elif kind == DOUBT:
            self._judge.doubted(self._node, dot)

    def record_deps(self, kind: int, dot: int, deps: tuple[int, ...], now: int) -> None:
        self._into.record_deps(kind, dot, deps, now)
        if kind == SEND:
            self._judge.sent(self._node, dot)
