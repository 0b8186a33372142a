"""Vector engine: messages carry a counter per member, and wait in one queue.

Section 4.3 of the tagged causal broadcast document, algorithms 2 and 3: the classical baseline, with
the tag made at the client. A message of j is deliverable when it is the next of j and no other entry
of its vector is ahead of what was delivered.

Invariants. `_queue` holds the received, undeliverable messages in the order of their arrival,
`_queued` their dots; no message in the queue is deliverable between two calls.

Departures from the document, on purpose. Its vector of *received* counters loses messages that
arrive out of order (it counts a later message and takes the earlier one for a duplicate): duplicates
are known by the delivered vector and the dots in the queue. An immediately deliverable message
advances the delivered vector before the queue is scanned. Its compaction of the queue moves the
wrong way; here a pass builds the list of survivors.
"""

from operator import gt
from typing import ClassVar

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK, STEP, newest_of, pack
from thence.core.errors import PeerError
from thence.core.machine import OrderEffect
from thence.core.message import Message
from thence.order.engine import Engine
from thence.order.matrix import Matrix


class VectorTagger:
    """The client's half (algorithm 2): what this client has seen, as counters by member."""

    __slots__ = ("_me", "_seen")

    def __init__(self, me: int, size: int) -> None:
        if not 0 <= me < size:
            raise ValueError(f"member {me} of {size}")
        self._me = me
        self._seen = [0] * size

    def tag(self, payload: bytes, dest: tuple[int, ...] = ()) -> Message:
        self._seen[self._me] += 1
        return Message(pack(self._me, self._seen[self._me]), tuple(self._seen), payload, dest)

    def took(self, message: Message) -> None:
        self._seen[message.dot & ORIGIN_MASK] = message.dot >> ORIGIN_BITS

    def recall(self, message: Message) -> None:
        self.took(message)

    def resume(self, own: int, context: tuple[int, ...]) -> None:  # noqa: ARG002
        self._seen[: len(context)] = context

    def context(self) -> tuple[int, ...]:
        return tuple(self._seen)

    def frontier(self) -> tuple[int, ...]:
        return newest_of(self._seen)

    def admit(self, member: int) -> None:
        if member != len(self._seen):
            raise ValueError(f"members are admitted in order: {member} after {len(self._seen)}")
        self._seen.append(0)


class SeenTagger:
    """The client's half where members come and go: the vector as dots, without members that are past. A
    `GraphOrderer` waits for the entries that are ahead of what was delivered, which is the same.

    A member that is past is named until a message, own or of another, follows from what it sent last: else
    none might name that, and what follows from it would not be told exactly."""

    __slots__ = ("_dot", "_past", "_seen")

    def __init__(self, me: int, size: int) -> None:
        if not 0 <= me < size:
            raise ValueError(f"member {me} of {size}")
        self._dot = me
        self._seen: dict[int, int] = {}
        self._past: set[int] = set()

    def tag(self, payload: bytes, dest: tuple[int, ...] = (), span: int = 1) -> Message:
        self._dot += span * STEP
        message = Message(self._dot, self.context(), payload, dest, span)
        self.took(message)
        return message

    def took(self, message: Message) -> None:
        self._seen[message.dot & ORIGIN_MASK] = message.dot
        if self._past:
            self._leave_out(message.context)

    def _leave_out(self, context: tuple[int, ...]) -> None:
        for dot in context:
            member = dot & ORIGIN_MASK
            if member in self._past and self._seen[member] <= dot:
                self._past.discard(member)
                del self._seen[member]

    def recall(self, message: Message) -> None:
        if (message.dot ^ self._dot) & ORIGIN_MASK == 0:
            self._dot = message.dot
        self.took(message)

    def resume(self, own: int, context: tuple[int, ...]) -> None:
        self._dot = pack(self._dot & ORIGIN_MASK, own)
        self._seen = {dot & ORIGIN_MASK: dot for dot in context}

    def context(self) -> tuple[int, ...]:
        return tuple(sorted(self._seen.values()))

    def frontier(self) -> tuple[int, ...]:
        return self.context()

    def admit(self, member: int) -> None:
        """Nothing to do: a member that has sent nothing has no entry."""

    def settled(self, member: int) -> None:
        """Everything of this member is stable."""
        if member in self._seen:
            self._past.add(member)


class VectorOrderer:
    """The middleware's half (algorithm 3): the delivered vector and the delivery queue."""

    __slots__ = ("_delivered", "_me", "_queue", "_queued")

    stamps: ClassVar = 1
    """How many vectors a message carries."""

    def __init__(self, me: int, size: int) -> None:
        if not 0 <= me < size:
            raise ValueError(f"member {me} of {size}")
        self._me = me
        self._delivered = [0] * size
        self._queue: list[Message] = []
        self._queued: set[int] = set()

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def words(self) -> int:
        return len(self._delivered) + sum([len(message.context) + 1 for message in self._queue])

    def stamp(self, message: Message) -> Message:
        return message

    def resume(self, counters: tuple[int, ...]) -> None:
        self._delivered[: len(counters)] = counters

    def check(self, message: Message) -> None:
        size = len(self._delivered)
        if len(message.context) != self.stamps * size:
            raise PeerError(f"{message} has a vector for another group")
        if message.context[-size:][self._me] > self._delivered[self._me]:
            raise PeerError(f"{message} follows from a message that was never sent")

    def sent(self, message: Message, now: int) -> list[OrderEffect]:  # noqa: ARG002
        self._delivered[message.dot & ORIGIN_MASK] = message.dot >> ORIGIN_BITS
        return []

    def receive(self, message: Message, via: int, now: int) -> list[OrderEffect]:  # noqa: ARG002
        dot = message.dot
        if dot >> ORIGIN_BITS <= self._delivered[dot & ORIGIN_MASK] or dot in self._queued:
            return []
        if len(message.context) > self.stamps * len(self._delivered):
            raise PeerError(f"{message} names a member that is not known")
        if not self._deliver(message):
            self._queue.append(message)
            self._queued.add(dot)
            return []
        released: list[OrderEffect] = [message]
        if self._queue:
            self._scan(released)
        return released

    def _deliver(self, message: Message) -> bool:
        """Deliver `message` if it is its sender's next and nothing that it has seen is missing."""
        delivered = self._delivered
        origin, seq = message.dot & ORIGIN_MASK, message.dot >> ORIGIN_BITS
        if seq != delivered[origin] + 1:
            return False
        delivered[origin] = seq
        if any(map(gt, message.context, delivered)):
            delivered[origin] = seq - 1
            return False
        return True

    def _scan(self, released: list[OrderEffect]) -> None:
        """Go through the queue until a whole pass delivers nothing."""
        before = 0
        while before != len(released):
            before = len(released)
            survivors = []
            for message in self._queue:
                if self._deliver(message):
                    self._queued.discard(message.dot)
                    released.append(message)
                else:
                    survivors.append(message)
            self._queue = survivors

    def admit(self, member: int) -> None:
        if member != len(self._delivered):
            raise ValueError(f"members are admitted in order: {member} after {len(self._delivered)}")
        self._delivered.append(0)


def predecessors(message: Message) -> tuple[int, ...]:
    """The vector as dots: the newest seen of each member; of the sender itself the one before."""
    own = message.dot & ORIGIN_MASK
    dots = []
    for origin, seq in enumerate(message.context):
        last = seq - 1 if origin == own else seq
        if last > 0:
            dots.append(pack(origin, last))
    return tuple(dots)


VECTOR = Engine("vector", VectorTagger, VectorOrderer, predecessors, Matrix, stamps_are_dots=False)
