"""An application that keeps nothing: what others of that kind begin from."""

from collections.abc import Iterable, Sequence

from thence.core.groups import Lost, Place
from thence.core.tag import Tag
from thence.replica.group_parts import Operation, Orphan


class Idle:
    """`group_parts.Application`."""

    reads = False

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

    def output(self) -> Sequence[object]:
        return ()

    def drop(self) -> None:
        """Nothing."""
