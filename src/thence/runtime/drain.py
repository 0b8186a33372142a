"""What takes the messages of a node, and the simplest that does: it keeps nothing."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from thence.replica.group.surroundings import Merging
from thence.replica.idle import Idle
from thence.replica.steps import TAKE_MAX

if TYPE_CHECKING:
    from thence.runtime.node import Node


class NodeApplication(Merging, Protocol):
    """What takes a node's messages, and is its state."""

    @property
    def merges(self) -> bool:
        """Can states stand in for what it would take? (Of one that keeps nothing, they do.)"""
        ...

    def appetite(self) -> int:
        """How many messages it would take now."""
        ...

    def tell(self, events: Sequence[Any]) -> None:
        """What it had put out (`output`) in a step that is in the log."""
        ...

    def recovering(self, begins: bool) -> None:
        """From here on, until it is called again, the machine tells what it finds on the disk."""
        ...

    def stepped(self, node: "Node", now: int) -> None:
        """A step is over, and in the log."""
        ...


class Drain(Idle):
    """The application of `thence node`: it takes everything at once and keeps nothing. To it, a message that
    a state stands in for is one that it has had."""

    holds = False
    merges = True

    def merge(self, state: bytes) -> None:
        """Nothing."""

    def appetite(self) -> int:
        return TAKE_MAX

    def tell(self, events: Sequence[Any]) -> None:
        """Nothing."""

    def recovering(self, begins: bool) -> None:
        """Nothing."""

    def stepped(self, node: "Node", now: int) -> None:
        """Nothing."""
