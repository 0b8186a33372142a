"""What the store asks of the node that it runs at, and what a command answers that has to wait for it."""

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from thence.crdt.mark import Mark
from thence.store.reply import Reply


class MemberSeen(NamedTuple):
    name: str
    """Of the incarnation."""
    state: str
    """Of the link to it; `here`: it is this node."""
    lag: int
    """Own operations that it is not known to have."""
    address: str = ""


class Host(Protocol):
    """What the store asks of the node that it runs at."""

    refusal: str | None
    """Why nothing can be written at present."""
    loading: bool
    """It is no member yet: what it has may be old, or part of something."""

    def members(self) -> list[MemberSeen]: ...

    def reached(self, mark: Mark) -> int:
        """At how many other members this operation is known to have been delivered."""
        ...

    def saw(self, mark: Mark) -> list[tuple[str, int]]:
        """The operations that this one names as those before it."""
        ...

    def delivered(self) -> dict[str, int]:
        """By incarnation, the newest operation that was delivered here."""
        ...

    def exactly(self) -> dict[str, int]:
        """The same by timeline (`core.groups.timeline`), where starts are known."""
        ...

    def has_delivered(self, origin: str, seq: int) -> bool:
        """It was, or never will be: nothing more will ever come from that incarnation, or timeline."""
        ...

    def is_elsewhere(self, origin: str, seq: int) -> bool:
        """This operation of a timeline is of a history that is not the one here: of another group."""
        ...


class Alone:
    """`Host` of a store without a node."""

    refusal: str | None = None
    loading = False

    def members(self) -> list[MemberSeen]:
        return []

    def reached(self, mark: Mark) -> int:  # noqa: ARG002
        return 0

    def saw(self, mark: Mark) -> list[tuple[str, int]]:  # noqa: ARG002
        return []

    def delivered(self) -> dict[str, int]:
        return {}

    def exactly(self) -> dict[str, int]:
        return self.delivered()

    def has_delivered(self, origin: str, seq: int) -> bool:  # noqa: ARG002
        return False

    def is_elsewhere(self, origin: str, seq: int) -> bool:  # noqa: ARG002
        return False


class Later:
    """A reply that has to be waited for."""

    __slots__ = ("look", "timeout_ms", "too_late")

    def __init__(
        self, look: Callable[[], Reply | None], timeout_ms: int, too_late: Callable[[], Reply]
    ) -> None:
        self.look: Final = look
        """None: not yet."""
        self.timeout_ms: Final = timeout_ms
        """0: for ever."""
        self.too_late: Final = too_late
