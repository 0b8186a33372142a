"""Where an operation stands: its stamp, which orders everything, and its tag, which knows what it saw.

All parts of one operation (a command, a transaction) share one mark; parts have an index. A part follows the
earlier parts of its operation. A mark that is stable precedes everything that is still to be delivered: its
tag is not asked any more.
"""

from typing import Any, Protocol

Stamp = tuple[int, str, int]
"""Hybrid clock, origin, index in the operation: total, and it extends happens-before."""


class Cause(Protocol):
    """What the middleware knows of an operation's place in happens-before."""

    def before(self, other: Any, /) -> bool: ...


class Mark:
    __slots__ = ("origin", "stable", "tag", "time")

    def __init__(self, time: int, origin: str, tag: Cause) -> None:
        self.time = time
        self.origin = origin
        self.tag = tag
        self.stable = False

    def precedes(self, other: "Mark") -> bool:
        """Did what is here with this mark happen before an operation that is being delivered?"""
        return self.stable or self is other or self.tag.before(other.tag)

    def at(self, index: int) -> Stamp:
        return (self.time, self.origin, index)
