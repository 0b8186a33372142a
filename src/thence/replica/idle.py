"""An application that keeps nothing: what others of that kind begin from."""

from collections.abc import Sequence

from thence.core.groups import Lost
from thence.replica.group.surroundings import Applied, Operation, Orphan
from thence.replica.life_tag import LifeTag


class Idle:
    """`group.surroundings.Application`."""

    reads = False

    def apply(self, one: Applied) -> None:
        """Nothing."""

    def missed(self, operation: Operation, tag: LifeTag | None, position: int) -> None:
        """It reads nothing."""

    def lost(self, what: tuple[Lost, ...], holders: tuple[str, ...], position: int) -> None:
        """It reads nothing."""

    def stable(self, found: Sequence[LifeTag]) -> None:
        """Nothing."""

    def doubted(self, doubts: Sequence[LifeTag], late: LifeTag) -> None:
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
