"""What takes the messages of a node in a changing group, and the simplest that does: it keeps nothing."""

from typing import TYPE_CHECKING, Protocol

from thence.core.groups import Place
from thence.core.tag import Tag
from thence.replica.group_parts import Application, Operation, Orphan

if TYPE_CHECKING:
    from thence.runtime.group_node import ChangingNode


class GroupApplication(Application, Protocol):
    """What takes a node's messages, and is its state."""

    def recovering(self, begins: bool) -> None:
        """From here on, until it is called again, the machine tells what it finds on the disk."""
        ...

    def taking(self, node: "ChangingNode", now: int) -> None:
        """A step is about to be committed: take what is wanted."""
        ...

    def stepped(self, node: "ChangingNode", now: int) -> None:
        """A step is over."""
        ...


class GroupDrain:
    """The application of `thence node`: it takes everything at once and keeps nothing."""

    reads = False

    def apply(self, operation: Operation, own: bool, tag: Tag, again: bool) -> None:
        """Nothing."""

    def stable(self, place: Place, tag: Tag) -> None:
        """Nothing."""

    def state(self) -> bytes:
        return b""

    def install(self, state: bytes) -> None:
        """Nothing."""

    def view_changed(self, members: tuple[str, ...]) -> None:
        """Nothing."""

    def sends_again(self, orphan: Orphan) -> bool:
        """Everything."""
        del orphan
        return True

    def orphaned(self, orphan: Orphan) -> None:
        """Nothing: it is sent again."""

    def recovering(self, begins: bool) -> None:
        """Nothing."""

    def taking(self, node: "ChangingNode", now: int) -> None:
        if node.driver is not None:
            node.driver.drain(now)

    def stepped(self, node: "ChangingNode", now: int) -> None:
        """Nothing."""
