"""The message as it travels between members."""

from typing import Final

from thence.core.dots import STEP


class Message:
    """A payload, the dot that names it, and the stamp of the engine that ordered it at its sender.

    `context` is the engine's to read: for the graph the immediate predecessors' dots, for the vector
    a counter per member. It reaches the application exactly as the sender wrote it. `dest` holds the
    members that the message is addressed to; empty means all.
    """

    __slots__ = ("before", "context", "dest", "dot", "hop", "payload", "run", "wire")

    def __init__(
        self, dot: int, context: tuple[int, ...], payload: bytes, dest: tuple[int, ...] = (), span: int = 1
    ) -> None:
        """`span`: so many operations, of which the last has this dot."""
        self.dot: Final = dot
        self.before: Final = dot - span * STEP
        """The end of the message before it, of the same origin."""
        self.context: Final = context
        self.payload: Final = payload
        self.dest: Final = dest
        self.run: list[bytes] | None = None
        """Its operations, where they are at hand and need not be read from the payload."""
        self.hop: tuple[object, object] | None = None
        """Of an addressed message: the topology that its context was read under, and what it says there
        (`order.hops`)."""
        self.wire: bytes | None = None
        """The whole packet as bytes, once it was encoded or if it came like that: it is written to the log
        and sent to several peers, and need not be made anew each time."""

    @property
    def span(self) -> int:
        """How many operations it holds."""
        return (self.dot - self.before) // STEP

    def __repr__(self) -> str:
        return f"Message({self.dot:#x}, {self.context}, {len(self.payload)} bytes, dest={self.dest})"
