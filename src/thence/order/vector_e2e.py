"""Vector engine, tagged twice: the classical middleware under an application that keeps clocks itself.

The baseline of the tagged causal broadcast document's experiment 1 (sections 3.5.1 and 8.4.1). The
application wants happens-before, which a classical middleware does not tell, so it puts a vector of its
own into every message; the middleware adds its own when it takes the message from the queue. A stamp
is the application's vector followed by the middleware's. The tag is exact, since it is the application's.
The order is not: whatever the middleware released while the message waited in the queue comes before it,
seen or not, and others must wait for that.
"""

from typing import ClassVar

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK
from thence.core.message import Message
from thence.order import vector
from thence.order.engine import Engine
from thence.order.matrix import Matrix
from thence.order.vector import VectorOrderer, VectorTagger


class TwiceTagger(VectorTagger):
    """The application's clock. The second half of the stamp is the middleware's to overwrite."""

    __slots__ = ()

    def tag(self, payload: bytes, dest: tuple[int, ...] = ()) -> Message:
        message = super().tag(payload, dest)
        return Message(message.dot, message.context * 2, payload, dest)


class TwiceOrderer(VectorOrderer):
    """Orders by the second half of the stamp, which it writes itself."""

    __slots__ = ()

    stamps: ClassVar = 2

    def stamp(self, message: Message) -> Message:
        own = list(self._delivered)
        own[message.dot & ORIGIN_MASK] = message.dot >> ORIGIN_BITS
        clock = message.context[: len(message.context) // 2]
        clock += (0,) * (len(own) - len(clock))  # members that came since the application spoke
        stamp = clock + tuple(own)
        return Message(message.dot, stamp, message.payload, message.dest)

    def _deliver(self, message: Message) -> bool:
        context = message.context
        return super()._deliver(Message(message.dot, context[len(context) // 2 :], b""))


def predecessors(message: Message) -> tuple[int, ...]:
    """What the application's vector spells out."""
    context = message.context
    return vector.predecessors(Message(message.dot, context[: len(context) // 2], b""))


VECTOR_E2E = Engine(
    "vector-e2e", TwiceTagger, TwiceOrderer, predecessors, Matrix, prompt=False, stamps_are_dots=False
)
