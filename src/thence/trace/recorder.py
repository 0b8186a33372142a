"""What a node calls to write down an event, and the columns that keep it until it is written out.

A row must cost a running node next to nothing, so it is three appends to typed arrays; its position
is its place in the node's own columns. Turning columns into a file is the work of `trace.parquet`.
"""

from array import array
from typing import Final, Protocol

KINDS: Final = (
    "start", "send", "deliver", "stable", "install", "restart", "leave", "crash", "evict",
    "hold", "duplicate", "doubt",
)  # fmt: skip
"""The kinds that nodes of this project write, by code. The last ones are for metrics: `hold`, a
message arrived before its causes; `duplicate`, it had arrived before; `doubt`, an engine that may err
says that it was perhaps delivered too early."""

START, SEND, DELIVER, STABLE, INSTALL, RESTART, LEAVE, CRASH, EVICT = range(9)
HOLD, DUPLICATE, DOUBT = range(9, len(KINDS))


class Recorder(Protocol):
    """Where one node writes its events."""

    def record(self, kind: int, dot: int, now: int) -> None:
        """An event about the message `dot` (0: about none)."""
        ...

    def record_send(self, dot: int, deps: tuple[int, ...] | None, now: int) -> None:
        """A send, with the context that its tag carries (None: not recorded)."""
        ...


class NoRecorder:
    """Writes nothing."""

    __slots__ = ()

    def record(self, kind: int, dot: int, now: int) -> None:
        """Nothing."""

    def record_send(self, dot: int, deps: tuple[int, ...] | None, now: int) -> None:
        """Nothing."""


class Columns:
    """One node's events in typed columns; row i has position `first + i`.

    `deps` holds the contexts end to end; `deps_end[k]` is where that of the k-th send ends, and
    `deps_null` names the sends whose context was not recorded.
    """

    __slots__ = ("at", "deps", "deps_end", "deps_null", "dots", "first", "kinds")

    def __init__(self) -> None:
        self.first = 0
        self._empty()

    def _empty(self) -> None:
        self.kinds = array("b")
        self.dots = array("q")
        self.at = array("q")
        self.deps = array("q")
        self.deps_end = array("q")
        self.deps_null: list[int] = []

    def clear(self) -> None:
        """Forget the rows, which were written out; positions go on from here."""
        self.first += len(self.kinds)
        self._empty()

    def __len__(self) -> int:
        return len(self.kinds)

    def record(self, kind: int, dot: int, now: int) -> None:
        self.kinds.append(kind)
        self.dots.append(dot)
        self.at.append(now)

    def record_send(self, dot: int, deps: tuple[int, ...] | None, now: int) -> None:
        if deps is None:
            self.deps_null.append(len(self.deps_end))
        else:
            self.deps.extend(deps)
        self.deps_end.append(len(self.deps))
        self.record(SEND, dot, now)
