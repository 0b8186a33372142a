"""No order of its own, for spreads that keep causal order by themselves, and durable: a node can restart.

`unordered` remembers nothing, so that it costs nothing; over a stream (`spread/streams.py`) messages of each
member come in the order of their counters, and a counter per member is all that a client has seen. That is
what a restart needs, and what a snapshot is tagged with. Messages carry their dot and nothing else, so there
are no tags to compare and nothing is known to be stable.
"""

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK, newest_of, pack
from thence.core.message import Message
from thence.order.engine import Engine
from thence.order.unordered import PassingOrderer, predecessors


class ClockTagger:
    """Gives out dots, and counts what the client has seen."""

    __slots__ = ("_clock", "_me")

    def __init__(self, me: int, size: int) -> None:
        if not 0 <= me < size:
            raise ValueError(f"member {me} of {size}")
        self._me = me
        self._clock = [0] * size

    def tag(self, payload: bytes, dest: tuple[int, ...] = ()) -> Message:
        self._clock[self._me] += 1
        return Message(pack(self._me, self._clock[self._me]), (), payload, dest)

    def took(self, message: Message) -> None:
        self._clock[message.dot & ORIGIN_MASK] = message.dot >> ORIGIN_BITS

    def recall(self, message: Message) -> None:
        self.took(message)

    def resume(self, own: int, context: tuple[int, ...]) -> None:
        self._clock = list(context) + [0] * (len(self._clock) - len(context))
        self._clock[self._me] = own

    def context(self) -> tuple[int, ...]:
        return tuple(self._clock)

    def frontier(self) -> tuple[int, ...]:
        return newest_of(self._clock)

    def admit(self, member: int) -> None:
        if member != len(self._clock):
            raise ValueError(f"members are admitted in order: {member} after {len(self._clock)}")
        self._clock.append(0)


STREAMED = Engine("none", ClockTagger, PassingOrderer, predecessors)
