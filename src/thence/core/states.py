"""States of the application, for peers that lack more than a log still holds.

Declared here because a spread sends and receives them without knowing what they are: to the middleware a
state is bytes, and the clock of what went into it.
"""

from typing import Protocol


class States(Protocol):
    """One node's application, as far as states go."""

    def newest(self) -> tuple[tuple[int, ...], bytes] | None:
        """A state and its clock. It stands in for everything that the node's log no longer holds."""
        ...

    def install(self, clock: tuple[int, ...], state: bytes, now: int) -> None:
        """Merge a peer's state into this node's. When it returns, the node holds everything up to `clock`
        and everything that it held before, and its newest state covers both."""
        ...
