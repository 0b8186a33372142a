"""What an application can ask of a message's tag."""

from typing import Protocol, Self


class Tag(Protocol):
    """A message's place in the end-to-end happens-before, as one client has seen it. Tags of one client
    compare exactly, for as long as the application keeps them."""

    @property
    def dot(self) -> int:
        """Which message this is."""
        ...

    @property
    def context(self) -> tuple[int, ...]:
        """The stamp, whole, as the sender wrote it."""
        ...

    def before(self, other: Self) -> bool:
        """Did this message happen before the other?"""
        ...

    def after(self, other: Self) -> bool:
        """Did the other message happen before this one?"""
        ...

    def concurrent(self, other: Self) -> bool:
        """Did neither happen before the other? (No message is concurrent with itself.)"""
        ...
