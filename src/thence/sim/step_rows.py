"""The rows of a step that may turn out never to have been.

A node whose disk fails in the middle of a step comes back from its log, which may or may not hold what the
step wrote. So rows wait until the step is written down and synced, as a live node's do; after a restart the
log tells which of those that were dropped happened after all. What the client has taken it has seen, whatever
the disk says: those rows stay.
"""

from typing import Final

from thence.core.codec import Codec
from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK, pack
from thence.core.message import Message
from thence.oplog.log import OpLog
from thence.order.engine import Engine
from thence.replica.history import understood
from thence.trace.recorder import DELIVER, SEND, STABLE, Recorder


class StepRows:
    """A recorder in front of another."""

    __slots__ = ("_codec", "_into", "_me", "_predecessors", "_rows", "_sent", "_stable")

    def __init__(self, me: int, size: int, engine: Engine, into: Recorder) -> None:
        self._me: Final = me
        self._into: Final = into
        self._codec: Final = Codec(size, engine.stamps_are_dots)
        self._predecessors: Final = engine.predecessors
        self._rows: list[tuple[int, int, tuple[int, ...] | None, int]] = []
        self._sent = 0
        self._stable = [0] * size

    def record(self, kind: int, dot: int, now: int) -> None:
        self._rows.append((kind, dot, None, now))

    def record_deps(self, kind: int, dot: int, deps: tuple[int, ...], now: int) -> None:
        self._rows.append((kind, dot, deps, now))

    def settle(self) -> None:
        """The step is over, and safe."""
        for kind, dot, deps, now in self._rows:
            if deps is None:
                self._into.record(kind, dot, now)
            else:
                self._into.record_deps(kind, dot, deps, now)
            if kind == SEND:
                self._sent = dot >> ORIGIN_BITS
            elif kind == STABLE:
                self._stable[dot & ORIGIN_MASK] = max(self._stable[dot & ORIGIN_MASK], dot >> ORIGIN_BITS)
        self._rows.clear()

    def forget(self) -> None:
        """The node is gone in the middle of it."""
        self._rows = [row for row in self._rows if row[0] == DELIVER]
        self.settle()

    def complete(self, log: OpLog, now: int) -> None:
        """The node is back with this log."""
        me, vector = self._me, list(log.vector)
        if vector[me] > self._sent:
            vector[me] = self._sent
            for stored in log.missing(vector):
                self._send(understood(self._codec, stored), now)
        for origin, seq in enumerate(log.stable):
            for count in range(self._stable[origin] + 1, seq + 1):
                self.record(STABLE, pack(origin, count), now)
        self.settle()

    def _send(self, message: Message, now: int) -> None:
        deps = self._predecessors(message)
        if deps is None:
            self.record(SEND, message.dot, now)
        else:
            self.record_deps(SEND, message.dot, deps, now)
