"""No order at all: deliver as the spread brings it.

The control of every experiment, and the engine of spreads that keep causal order by themselves.
"""

from thence.core.dots import ORIGIN_MASK, STEP, pack
from thence.core.errors import UsageError
from thence.core.machine import OrderEffect
from thence.core.message import Message
from thence.order.engine import Engine


class CountingTagger:
    """Gives out dots and records no context."""

    __slots__ = ("_dot",)

    def __init__(self, me: int, size: int) -> None:
        if not 0 <= me < size:
            raise ValueError(f"member {me} of {size}")
        self._dot = me

    def tag(self, payload: bytes, dest: tuple[int, ...] = ()) -> Message:
        self._dot += STEP
        return Message(self._dot, (), payload, dest)

    def took(self, message: Message) -> None:
        """Nothing is remembered."""

    def recall(self, message: Message) -> None:  # noqa: ARG002
        raise UsageError("order none does not know what it has seen: a node cannot restart with it")

    def resume(self, own: int, context: tuple[int, ...]) -> None:  # noqa: ARG002
        self._dot = pack(self._dot & ORIGIN_MASK, own)

    def context(self) -> tuple[int, ...]:
        return ()

    def frontier(self) -> tuple[int, ...]:
        raise UsageError("order none does not know what it has seen: a node cannot restart with it")

    def admit(self, member: int) -> None:
        """Nothing is kept per member."""


class PassingOrderer:
    """Releases everything at once; the spread drops duplicates."""

    __slots__ = ()

    def __init__(self, me: int, size: int) -> None:
        """Nothing to keep."""

    @property
    def waiting(self) -> int:
        return 0

    def words(self) -> int:
        return 0

    def stamp(self, message: Message) -> Message:
        return message

    def resume(self, counters: tuple[int, ...]) -> None:
        """Nothing is kept per member."""

    def check(self, message: Message) -> None:
        """Anything goes."""

    def sent(self, message: Message, now: int) -> list[OrderEffect]:  # noqa: ARG002
        return []

    def receive(self, message: Message, via: int, now: int) -> list[OrderEffect]:  # noqa: ARG002
        return [message]

    def admit(self, member: int) -> None:
        """Nothing is kept per member."""


def predecessors(message: Message) -> None:
    """No context is recorded."""


NONE = Engine("none", CountingTagger, PassingOrderer, predecessors)
