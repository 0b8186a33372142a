"""States of the application, for whoever lacks more than a log still holds.

Declared here because a spread sends and receives them without knowing what they are: to the middleware a
state is bytes, and the clock of what went into it.
"""

from typing import Protocol

from thence.core.message import Message


class States(Protocol):
    """One node's application, as far as states go."""

    def newest(self) -> tuple[tuple[int, ...], bytes] | None:
        """A state and its clock. It stands in for everything that the node's log no longer holds."""
        ...

    def install(self, clock: tuple[int, ...], state: bytes, now: int) -> None:
        """Merge a peer's state into this node's. When it returns, the node holds everything up to `clock`
        and everything that it held before, and its newest state covers both."""
        ...


class Keeper(Protocol):
    """An application whose states can stand in for the messages that went into them.

    It takes every message at once, in the order in which it is given them, and its states can be merged: the
    same messages give the same state, whichever of them came as messages and whichever in a state."""

    def apply(self, message: Message) -> None:
        """A message, its own ones included. Causes come first, each message once."""
        ...

    def encode(self) -> bytes:
        """The state after everything that was applied."""
        ...

    def merged(self, state: bytes) -> bytes:
        """This state and that of a peer as one. Changes nothing: it may turn out that it cannot be kept."""
        ...

    def adopt(self, state: bytes) -> None:
        """From here on, this state in the place of its own."""
        ...


class Nothing:
    """An application without a state: to it, a message that a state stands in for is one that it has had."""

    __slots__ = ()

    def apply(self, message: Message) -> None:
        """It is gone as soon as it is there."""

    def encode(self) -> bytes:
        return b""

    def merged(self, state: bytes) -> bytes:  # noqa: ARG002
        return b""

    def adopt(self, state: bytes) -> None:
        """Nothing to take over."""
