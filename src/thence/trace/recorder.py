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
    "cut", "heal",
    "subscribe", "unsubscribe",
    "synced",
)  # fmt: skip
"""The kinds that nodes of this project write, by code. Those after `evict` are for metrics, but for
`subscribe` and `unsubscribe`, a node's membership of a channel. `hold`: a message arrived before its causes;
`duplicate`: it had arrived before; `doubt`: an engine that may err says that it was perhaps delivered too
early. Of a tree, with the neighbour as origin: its link is no branch (`lazy`), a branch that is being caught
up with (`sync`), one that this node streams to (`eager`; if the other end does not, it works one way), or
gone (`unlink`). Of a network that is broken on purpose: links of this node are cut (`cut`), or work again
(`heal`). Of a group or an edge tree, with the member that gave it as origin: a state is installed, `seq`
microseconds after it was asked for (`synced`)."""

START, SEND, DELIVER, STABLE, INSTALL, RESTART, LEAVE, CRASH, EVICT = range(9)
HOLD, DUPLICATE, DOUBT = range(9, 12)
LAZY, SYNC, EAGER, UNLINK = range(12, 16)
CUT, HEAL = range(16, 18)
SUBSCRIBE, UNSUBSCRIBE = range(18, 20)
SYNCED = 20

EACH_TIME: Final = frozenset({RESTART, HOLD, DUPLICATE, DOUBT, EAGER, LAZY, SYNC, UNLINK, SYNCED})
"""Kinds of which every row is written, also one like another: no log tells them once more."""


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


class DotLists:
    """Messages that some rows name, or members, end to end: those of row `row[k]` end at `end[k]`."""

    __slots__ = ("dots", "end", "row")

    def __init__(self) -> None:
        self.dots = array("q")
        self.end = array("q")
        self.row = array("q")

    def add(self, row: int, dots: tuple[int, ...]) -> None:
        self.dots.extend(dots)
        self.end.append(len(self.dots))
        self.row.append(row)


class NodeColumns:
    """One node's events in typed columns; row i has position `first + i`."""

    __slots__ = ("at", "carries", "channel_codes", "channel_rows", "deps", "dest", "dots", "first", "kinds")

    def __init__(self) -> None:
        self.first = 0
        self._empty()

    def _empty(self) -> None:
        self.kinds = array("b")
        self.dots = array("q")
        self.at = array("q")
        self.deps = DotLists()
        self.carries = DotLists()
        self.dest = DotLists()
        self.channel_rows = array("q")
        self.channel_codes = array("i")

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
        self.deps.add(len(self.kinds), deps)
        self.record(kind, dot, now)

    def record_dest(self, dot: int, dest: tuple[int, ...], now: int) -> None:
        """A message is sent to these alone."""
        self.dest.add(len(self.kinds), dest)
        self.record(SEND, dot, now)

    def tell_channel(self, code: int) -> None:
        """The next row names this channel."""
        self.channel_rows.append(len(self.kinds))
        self.channel_codes.append(code)

    def carry(self, operations: tuple[int, ...]) -> None:
        """The message of the next row brings these, if there are any."""
        if operations:
            self.carries.add(len(self.kinds), operations)
