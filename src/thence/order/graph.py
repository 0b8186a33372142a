"""Graph engine: messages name their immediate predecessors, and wait for just those.

Sections 4.4 and 4.5 of the tagged causal broadcast document, algorithms 4 and 5. A context is the
transitive reduction of what the client has seen: an antichain, at most one dot per origin. It always
covers the sender's own previous message, so that delivery is FIFO per sender as well, and the
delivered vector (one dot per origin) tells exactly what was delivered.

Invariants. A message is in `_missing` iff it was received and some predecessor was not delivered;
its value counts those predecessors. `_successors[p]` lists the messages that count p, and has no key
p that was delivered. Both are empty when nothing waits.

Departures from the document, on purpose: counters start at 1 (its message 0 is never delivered); a
context after a send is the sent dot, not the next one; a count of missing predecessors replaces the
bit string (same information, no limit on the group); a list of ready messages replaces recursion,
which overflows the stack on the chain that a partition leaves behind; and the application gets the
context as the sender wrote it, where the document hands over the filtered rest.
"""

from thence.core.dots import ORIGIN_MASK, STEP, pack
from thence.core.errors import PeerError
from thence.core.machine import OrderEffect
from thence.core.message import Message
from thence.order.engine import Engine
from thence.order.window import Window


class GraphTagger:
    """The client's half (algorithm 4): the last own dot and the context of the next message."""

    __slots__ = ("_context", "_dot")

    def __init__(self, me: int, size: int) -> None:
        if not 0 <= me < size:
            raise ValueError(f"member {me} of {size}")
        self._dot = me
        self._context: set[int] = set()

    def tag(self, payload: bytes, dest: tuple[int, ...] = (), span: int = 1) -> Message:
        self._dot += span * STEP
        # Sorted: a set's order must not reach the wire, and neighbouring dots encode small.
        message = Message(self._dot, tuple(sorted(self._context)), payload, dest, span)
        self._context = {self._dot}
        return message

    def took(self, message: Message) -> None:
        context = self._context
        context.difference_update(message.context)
        # The sender's previous message is in its past, so this changes nothing; but a context with two dots
        # of one origin, after a message that lied about its past, could not even be encoded.
        context.discard(message.before)
        context.add(message.dot)

    def recall(self, message: Message) -> None:
        if (message.dot ^ self._dot) & ORIGIN_MASK == 0:
            self._dot = message.dot
        self.took(message)

    def resume(self, own: int, context: tuple[int, ...]) -> None:
        self._dot = pack(self._dot & ORIGIN_MASK, own)
        self._context = set(context)

    def context(self) -> tuple[int, ...]:
        return tuple(sorted(self._context))

    def frontier(self) -> tuple[int, ...]:
        return self.context()

    def admit(self, member: int) -> None:
        """Nothing to do: a context names only origins that sent something."""

    def settled(self, member: int) -> None:
        """Everything of this member is stable: nothing to do, its dot goes with the next message."""


class GraphOrderer:
    """The middleware's half (algorithm 5): the part of the graph that is not delivered yet."""

    __slots__ = ("_delivered", "_me", "_missing", "_successors")

    def __init__(self, me: int, size: int) -> None:
        if not 0 <= me < size:
            raise ValueError(f"member {me} of {size}")
        self._me = me
        self._delivered = list(range(size))
        self._missing: dict[int, int] = {}
        self._successors: dict[int, list[Message]] = {}

    @property
    def waiting(self) -> int:
        return len(self._missing)

    def words(self) -> int:
        edges = sum(map(len, self._successors.values()))
        return len(self._delivered) + 4 * len(self._missing) + 4 * edges

    def stamp(self, message: Message) -> Message:
        return message

    def resume(self, counters: tuple[int, ...]) -> None:
        self._delivered = [pack(origin, seq) for origin, seq in enumerate(counters)]

    def forget(self, counters: tuple[int, ...]) -> None:
        """Everything that waits is dropped, and so is what was released above these counters."""
        self.resume(counters)
        self._missing.clear()
        self._successors.clear()

    def check(self, message: Message) -> None:
        me, known = self._me, len(self._delivered)
        for p in message.context:
            origin = p & ORIGIN_MASK
            if origin >= known:
                raise PeerError(f"{message} names a member that is not known")
            if origin == me and p > self._delivered[me]:
                raise PeerError(f"{message} follows from a message that was never sent")

    def sent(self, message: Message, now: int) -> list[OrderEffect]:  # noqa: ARG002
        self._delivered[message.dot & ORIGIN_MASK] = message.dot
        return []

    def receive(self, message: Message, via: int, now: int) -> list[OrderEffect]:  # noqa: ARG002
        dot = message.dot
        delivered = self._delivered
        if dot <= delivered[dot & ORIGIN_MASK] or dot in self._missing:
            return []
        missing = []
        try:
            for p in message.context:
                if p > delivered[p & ORIGIN_MASK]:
                    missing.append(p)  # noqa: PERF401  (a comprehension is a call)
        except IndexError:
            raise PeerError(f"{message} names a member that is not known") from None
        if message.before > delivered[dot & ORIGIN_MASK] and message.before not in missing:
            missing.append(message.before)  # implied by every true context, so that this is about lies only
        if missing:
            self._missing[dot] = len(missing)
            successors = self._successors
            for p in missing:
                if p in successors:
                    successors[p].append(message)
                else:
                    successors[p] = [message]
            return []
        delivered[dot & ORIGIN_MASK] = dot
        if dot in self._successors:
            return self._release(message)
        return [message]

    def _release(self, first: Message) -> list[OrderEffect]:
        """`first` is delivered: deliver whatever waited for it alone, and so on."""
        delivered, missing, successors = self._delivered, self._missing, self._successors
        released: list[OrderEffect] = [first]
        ready = [first]
        for message in ready:
            for successor in successors.pop(message.dot, ()):
                dot = successor.dot
                left = missing[dot] - 1
                if left:
                    missing[dot] = left
                else:
                    del missing[dot]
                    delivered[dot & ORIGIN_MASK] = dot
                    ready.append(successor)
                    released.append(successor)
        return released

    def admit(self, member: int) -> None:
        if member != len(self._delivered):
            raise ValueError(f"members are admitted in order: {member} after {len(self._delivered)}")
        self._delivered.append(member)


def predecessors(message: Message) -> tuple[int, ...]:
    return message.context


GRAPH = Engine("graph", GraphTagger, GraphOrderer, predecessors, Window)
