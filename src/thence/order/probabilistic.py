"""Probabilistic engine: messages carry R counters, however many members there are, and order may err.

Algorithms 1, 2, 4 and 5 of the probabilistic ordering document. A member increments its K keys
(`order/keys.py`) when it sends; a receiver increments them when it delivers. A message is deliverable when
the receiver's clock, with the sender's keys incremented, is nowhere behind the message's stamp. Others may
have incremented the entries of a message that is missing: then what follows from it is delivered too early.

When the missing message comes at last, all its entries are as high as if it had been delivered
(algorithm 4). The engine then doubts those recent deliveries whose stamps are not behind it in any of its
keys (algorithm 5). Without a list of recent deliveries it doubts the late message itself.

Invariants. Entry x of a clock is the number of messages delivered or sent whose sender has the key x, in
whatever order they came. After the delivery of m the clock is nowhere behind m's stamp, so stamps grow along
happens-before even where messages were delivered too early: a message that follows m has a stamp that is
nowhere behind m's. Hence no error goes without a doubt while the list reaches back far enough.

Departures from the document, on purpose. Duplicates are known by counters per member, which never travel: the
clock cannot tell them. Algorithm 5 asks for entries above the message's, and would miss the document's own
example; entries that are equal are enough. It doubts each delivery that the list shows, not only that there
is one.
"""

from collections import deque
from collections.abc import Sequence
from operator import gt
from typing import Final

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK, STEP, pack
from thence.core.errors import PeerError, UsageError
from thence.core.machine import Doubt, OrderEffect
from thence.core.message import Message
from thence.order.engine import Engine
from thence.order.keys import Assign, Keys

ENTRIES: Final = 100
KEYS: Final = 4
"""The document's clock, for twenty messages under way."""

RECENT: Final = 1000
"""Deliveries that are remembered, if nothing else is asked for."""


def clock_of(keys: Keys, counters: Sequence[int]) -> list[int]:
    """The clock of one that has seen everything up to these counters, which are by member: a sum, whatever
    the order."""
    clock = [0] * keys.entries
    for member, count in enumerate(counters):
        if count:
            for key in keys[member]:
                clock[key] += count
    return clock


class Detector:
    """Algorithms 4 and 5: what was delivered lately, and which of it a message that comes late makes
    doubtful."""

    __slots__ = ("_keys", "_recent", "is_complete")

    def __init__(self, keys: Keys, recent: int) -> None:
        self._keys: Final = keys
        self.is_complete = True
        """Nothing before the list was doubtful when something was doubted last."""
        self._recent: Final[deque[Message]] = deque(maxlen=recent)

    def __len__(self) -> int:
        return len(self._recent)

    def remember(self, message: Message) -> None:
        self._recent.append(message)

    def doubts(self, message: Message, clock: Sequence[int]) -> list[Message]:
        """Deliveries that are doubtful now that `message` comes, the oldest first; mostly none. `clock`
        counts it already. Without a list: `message` itself, if others have covered it."""
        stamp, keys = message.context, self._keys[message.dot & ORIGIN_MASK]
        for key in keys:
            if clock[key] == stamp[key]:  # it was this message that the entry waited for
                return []
        if not self._recent.maxlen:
            self.is_complete = False
            return [message]
        found = self._as_if(message, keys, clock)
        found.reverse()
        return found

    def _as_if(self, late: Message, keys: tuple[int, ...], clock: Sequence[int]) -> list[Message]:
        """What was delivered as if `late` had been there: from the newest delivery back to where the clock
        itself was behind it; so was everything before that."""
        stamp = late.context
        ahead = {key: clock[key] - 1 - stamp[key] for key in keys}
        found = []
        self.is_complete = True
        for message in reversed(self._recent):
            context = message.context
            for key in keys:
                if context[key] < stamp[key]:
                    break
            else:
                found.append(message)
            for key in self._keys[message.dot & ORIGIN_MASK]:
                if key in ahead:
                    ahead[key] -= 1
                    if ahead[key] < 0:
                        return found
        self.is_complete = len(self._recent) != self._recent.maxlen
        return found


class ProbabilisticTagger:
    """The client's half (algorithm 1): the clock of what this client has seen."""

    __slots__ = ("_clock", "_dot", "_keys")

    def __init__(self, me: int, size: int, keys: Keys) -> None:
        if not 0 <= me < size:
            raise ValueError(f"member {me} of {size}")
        self._dot = me
        self._keys = keys
        self._clock = [0] * keys.entries

    def tag(self, payload: bytes, dest: tuple[int, ...] = ()) -> Message:
        self._dot += STEP
        self._count(self._dot)
        return Message(self._dot, tuple(self._clock), payload, dest)

    def _count(self, dot: int) -> None:
        for key in self._keys[dot & ORIGIN_MASK]:
            self._clock[key] += 1

    @property
    def clock(self) -> Sequence[int]:
        """As it is, and changes."""
        return self._clock

    def took(self, message: Message) -> None:
        self._count(message.dot)

    def recall(self, message: Message) -> None:
        if (message.dot ^ self._dot) & ORIGIN_MASK == 0:
            self._dot = message.dot
        self._count(message.dot)

    def resume(self, own: int, context: tuple[int, ...]) -> None:
        self._dot = pack(self._dot & ORIGIN_MASK, own)
        self._clock[:] = context

    def context(self) -> tuple[int, ...]:
        return tuple(self._clock)

    def frontier(self) -> tuple[int, ...]:
        raise UsageError("order probabilistic does not know what it has seen: a node cannot restart with it")

    def admit(self, member: int) -> None:
        """Nothing to do: a member's keys follow from its index."""


class ProbabilisticOrderer:
    """The middleware's half (algorithms 2, 4 and 5): the clock, the queue, and recent deliveries. Whatever
    changes the clock may end a wait, a message of this node's own client as well: members share entries."""

    __slots__ = ("_clock", "_counts", "_detector", "_early", "_fifo", "_keys", "_queue", "_queued")

    def __init__(self, me: int, size: int, keys: Keys, recent: int, fifo: bool = False) -> None:
        """`fifo`: messages of one member are released in their order. The document's clocks do not promise
        that; the counters that tell duplicates know it for nothing."""
        if not 0 <= me < size:
            raise ValueError(f"member {me} of {size}")
        self._fifo = fifo
        self._keys = keys
        self._clock = [0] * keys.entries
        self._counts = [0] * size
        """Per member, up to where everything was released."""
        self._early: set[int] = set()
        """What was released beyond that."""
        self._queue: list[Message] = []
        self._queued: set[int] = set()
        self._detector = Detector(keys, recent)

    @property
    def clock(self) -> Sequence[int]:
        """As it is, and changes."""
        return self._clock

    @property
    def waiting(self) -> int:
        return len(self._queue)

    @property
    def waiting_bytes(self) -> int:
        """Of their payloads."""
        return sum([len(message.payload) for message in self._queue])

    def let_go(self) -> int:
        """What has waited for longest waits no longer: it is as if it had not come."""
        message = self._queue.pop(0)
        self._queued.discard(message.dot)
        return message.dot

    def words(self) -> int:
        stamped = len(self._queue) + len(self._detector)
        return len(self._clock) + len(self._counts) + len(self._early) + stamped * (len(self._clock) + 1)

    def stamp(self, message: Message) -> Message:
        return message

    def resume(self, counters: tuple[int, ...]) -> None:
        self._counts[: len(counters)] = counters
        self._early.clear()
        self._clock = clock_of(self._keys, self._counts)

    def check(self, message: Message) -> None:
        stamp, seq = message.context, message.dot >> ORIGIN_BITS
        if len(stamp) != self._keys.entries:
            raise PeerError(f"{message} has a clock of {len(stamp)} entries, not {self._keys.entries}")
        if any(stamp[key] < seq for key in self._keys[message.dot & ORIGIN_MASK]):
            raise PeerError(f"{message} does not count all messages of its own sender")

    def sent(self, message: Message, now: int) -> list[OrderEffect]:  # noqa: ARG002
        if not self._released(message.dot):
            self._release(message.dot)
        for key in self._keys[message.dot & ORIGIN_MASK]:
            self._clock[key] += 1
        effects: list[OrderEffect] = []
        if self._queue:
            self._scan(effects)
        return effects

    def receive(self, message: Message, via: int, now: int) -> list[OrderEffect]:  # noqa: ARG002
        dot = message.dot
        if self._released(dot) or dot in self._queued:
            return []
        effects: list[OrderEffect] = []
        if not self._deliver(message, effects):
            self._queue.append(message)
            self._queued.add(dot)
        elif self._queue:
            self._scan(effects)
        return effects

    def first_early(self, messages: Sequence[Message]) -> Message | None:
        """Of messages that come in this order, the first that would have to wait."""
        clock = list(self._clock)
        for message in messages:
            for key in self._keys[message.dot & ORIGIN_MASK]:
                clock[key] += 1
            if any(map(gt, message.context, clock)):
                return message
        return None

    def admit(self, member: int) -> None:
        """Nothing to agree on: a member has its place when it is first heard of."""

    def _released(self, dot: int) -> bool:
        origin = dot & ORIGIN_MASK
        if origin >= len(self._counts):
            self._counts += [0] * (origin + 1 - len(self._counts))
        return dot >> ORIGIN_BITS <= self._counts[origin] or dot in self._early

    def _release(self, dot: int) -> None:
        """Remember that `dot` was released."""
        origin, early = dot & ORIGIN_MASK, self._early
        following = pack(origin, self._counts[origin] + 1)
        if dot != following:
            early.add(dot)
            return
        following += STEP
        while early and following in early:
            early.remove(following)
            following += STEP
        self._counts[origin] = (following >> ORIGIN_BITS) - 1

    def _deliver(self, message: Message, effects: list[OrderEffect]) -> bool:
        """Deliver `message` if the clock is far enough, behind the doubts that it raises."""
        clock, stamp = self._clock, message.context
        if self._fifo and message.before >> ORIGIN_BITS != self._counts[message.dot & ORIGIN_MASK]:
            return False
        keys = self._keys[message.dot & ORIGIN_MASK]
        for key in keys:
            clock[key] += 1
        if any(map(gt, stamp, clock)):
            for key in keys:
                clock[key] -= 1
            return False
        self._release(message.dot)
        effects += [Doubt(doubtful.dot) for doubtful in self._detector.doubts(message, clock)]
        self._detector.remember(message)
        effects.append(message)
        return True

    def _scan(self, effects: list[OrderEffect]) -> None:
        """Go through the queue until a whole pass delivers nothing."""
        before = -1
        while before != len(self._queue):
            before = len(self._queue)
            survivors = []
            for message in self._queue:
                if self._deliver(message, effects):
                    self._queued.discard(message.dot)
                else:
                    survivors.append(message)
            self._queue = survivors


class StampTag:
    """A `core.tag.Tag` by stamps alone: an estimate. Stamps grow along happens-before, so whatever happened
    before is told to have; of two concurrent messages one is taken for a cause of the other where its sender
    had seen enough of others to cover it."""

    __slots__ = ("context", "dot")

    def __init__(self, dot: int, context: tuple[int, ...]) -> None:
        self.dot: Final = dot
        self.context: Final = context

    def before(self, other: "StampTag") -> bool:
        return self.context != other.context and not any(map(gt, self.context, other.context))

    def after(self, other: "StampTag") -> bool:
        return other.before(self)

    def concurrent(self, other: "StampTag") -> bool:
        return self.dot != other.dot and not self.before(other) and not other.before(self)


def predecessors(message: Message) -> None:
    """A clock that members share does not tell which messages it counts."""


def probabilistic(entries: int, keys: int, recent: int = RECENT, assign: Assign | None = None) -> Engine:
    """The engine with clocks of so many entries and keys, which remembers so many deliveries to doubt them;
    none: it doubts as algorithm 4 does."""
    if recent < 0:
        raise UsageError(f"--recent must not be negative: {recent}")
    clock = Keys(entries, keys, assign)
    return Engine(
        "probabilistic",
        lambda me, size: ProbabilisticTagger(me, size, clock),
        lambda me, size: ProbabilisticOrderer(me, size, clock, recent),
        predecessors,
        stamps_are_dots=False,
        entries=entries,
        exact=False,
    )
