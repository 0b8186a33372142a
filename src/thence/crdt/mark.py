"""Where an operation stands: its stamp, which orders everything, and its tag, which knows what it saw.

All parts of one operation (a command, a transaction) share one mark; parts have an index. A part follows the
earlier parts of its operation. A mark that is stable precedes everything that is still to be delivered: its
tag is not asked any more.

Tags are the middleware's own. Operations of one message share its tag: among those of one origin counters
tell the order. Of a mark that was read from a state only the name is known, and the tag of what is delivered
is asked for that.
"""

from typing import Any, Protocol

Stamp = tuple[int, str, int]
"""Hybrid clock, origin, index in the operation: total, and it extends happens-before."""


class Cause(Protocol):
    """What the middleware knows of an operation's place in happens-before."""

    def before(self, other: Any, /) -> bool: ...

    def saw(self, origin: str, seq: int, /) -> bool:
        """Did this operation happen after the one of that name?"""
        ...


class Mark:
    __slots__ = ("name", "origin", "seq", "stable", "tag", "time")

    def __init__(self, time: int, origin: str, tag: Cause | None, name: str = "", seq: int = 0) -> None:
        self.time = time
        self.origin = origin
        self.tag = tag
        """None: it is being made here, so it follows from all that is here; or it was read from a state."""
        self.name = name
        """The incarnation that made it, and its counter, where operations are named."""
        self.seq = seq
        self.stable = False

    def precedes(self, other: "Mark") -> bool:
        """Did what is here with this mark happen before an operation that is being made or delivered?"""
        seen = other.tag
        if self.stable or seen is None or self is other:
            return True
        if self.name == other.name and self.seq != other.seq:
            return self.seq < other.seq
        return seen.saw(self.name, self.seq) if self.tag is None else self.tag.before(seen)

    def at(self, index: int) -> Stamp:
        return (self.time, self.origin, index)
