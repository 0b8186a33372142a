"""What a node calls to write down an event, and the columns that keep it until it is written out.

A row must cost a running node next to nothing, so it is three appends to typed arrays; its position
is its place in the node's own columns. Turning columns into a file is the work of `trace.parquet`.
"""

from array import array
from typing import Final, Protocol

KINDS: Final = (
    "start", "send", "deliver", "stable", "install", "restart", "leave", "crash", "evict",
    "hold", "duplicate", "doubt",
    "lazy", "sync", "eager", "unlink",
)  # fmt: skip
"""The kinds that nodes of this project write, by code. The last ones are for metrics: `hold`, a
message arrived before its causes; `duplicate`, it had arrived before; `doubt`, an engine that may err
says that it was perhaps delivered too early. Of a tree, with the neighbour as origin: its link is no branch
(`lazy`), a branch that is being caught up with (`sync`), a branch that this node streams to (`eager`; if the
other end does not, it works one way), or gone (`unlink`)."""

START, SEND, DELIVER, STABLE, INSTALL, RESTART, LEAVE, CRASH, EVICT = range(9)
HOLD, DUPLICATE, DOUBT = range(9, 12)
LAZY, SYNC, EAGER, UNLINK = range(12, len(KINDS))


class Recorder(Protocol):
    """Where one node writes its events."""

    def record(self, kind: int, dot: int, now: int) -> None:
        """An event about the message `dot` (0: about none)."""
        ...

    def record_deps(self, kind: int, dot: int, deps: tuple[int, ...], now: int) -> None:
        """An event that names messages: a send the context of its tag, a restart its frontier."""
        ...


class NoRecorder:
    """Writes nothing."""

    __slots__ = ()

    def record(self, kind: int, dot: int, now: int) -> None:
        """Nothing."""

    def record_deps(self, kind: int, dot: int, deps: tuple[int, ...], now: int) -> None:
        """Nothing."""


class Columns:
    """One node's events in typed columns; row i has position `first + i`.

    `deps` holds the named messages end to end: those of row `deps_row[k]` end at `deps_end[k]`.
    """

    __slots__ = ("at", "deps", "deps_end", "deps_row", "dots", "first", "kinds")

    def __init__(self) -> None:
        self.first = 0
        self._empty()

    def _empty(self) -> None:
        self.kinds = array("b")
        self.dots = array("q")
        self.at = array("q")
        self.deps = array("q")
        self.deps_end = array("q")
        self.deps_row = array("q")

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

    def record_deps(self, kind: int, dot: int, deps: tuple[int, ...], now: int) -> None:
        self.deps.extend(deps)
        self.deps_end.append(len(self.deps))
        self.deps_row.append(len(self.kinds))
        self.record(kind, dot, now)
