"""What takes the messages of a node, and the simplest that does: it keeps nothing."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from thence.core.groups import Lost, Place
from thence.core.tag import Tag
from thence.replica.group_parts import Application, Operation, Orphan
from thence.replica.steps import TAKE_MAX

if TYPE_CHECKING:
    from thence.runtime.node import Node


class NodeApplication(Application, Protocol):
    """What takes a node's messages, and is its state."""

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


class Drain:
    """The application of `thence node`: it takes everything at once and keeps nothing."""

    reads = False

    def appetite(self) -> int:
        return TAKE_MAX

    def apply(self, operation: Operation, own: bool, tag: Tag | None, again: bool, position: int) -> None:
        """Nothing."""

    def missed(self, operation: Operation, tag: Tag | None, position: int) -> None:
        """It reads nothing."""

    def lost(self, what: tuple[Lost, ...], holders: tuple[str, ...], position: int) -> None:
        """It reads nothing."""

    def stable(self, found: Iterable[tuple[Place, Tag]], life: str) -> None:
        """Nothing."""

    def state(self) -> bytes:
        return b""

    def install(self, state: bytes) -> None:
        """Nothing."""

    def view_changed(self, members: tuple[str, ...], me: str) -> None:
        """Nothing."""

    def sends_again(self, orphan: Orphan) -> bool:
        """Everything."""
        del orphan
        return True

    def orphaned(self, orphan: Orphan) -> None:
        """Nothing: it is sent again."""

    def output(self) -> Sequence[Any]:
        return ()

    def drop(self) -> None:
        """Nothing."""

    def tell(self, events: Sequence[Any]) -> None:
        """Nothing."""

    def recovering(self, begins: bool) -> None:
        """Nothing."""

    def stepped(self, node: "Node", now: int) -> None:
        """Nothing."""
