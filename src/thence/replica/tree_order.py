"""How a node without an agreed view orders messages: not at all, or by clocks that members share.

A part of `replica/tree.py`, with the client's and the middleware's half of an engine. Over a tree messages
come in causal order, and carry nothing (`Unordered`). Over gossip they do not: each carries a clock of R
entries (`Clocked`, docs/protocols/probabilistic.md), and waits until the node's own is far enough. That may
err; what was taken too early is doubted when the program takes what it should have come after.

Invariants. Messages of one member are released in their order, so that counters per member, which the log
has, give both clocks back after a restart. Messages are taken in the order in which they were released: the
client's clock is not behind the stamp of what it has taken, and detection may look at what it took.
"""

from collections.abc import Collection, Iterable, Sequence
from operator import sub
from typing import Final, Protocol

from thence.core.codec import Codec
from thence.core.codec_overlay import OPEN
from thence.core.dots import STEP, pack
from thence.core.errors import PeerError
from thence.core.machine import Effect, Packet, Transmit
from thence.core.message import Message
from thence.core.overlay import Rumour
from thence.core.rumours import short, whole
from thence.core.runs import in_runs, payload_run, run_payload, span_of_payload
from thence.core.tag import Tag
from thence.order.keys import Keys, drawn_by_name
from thence.order.probabilistic import (
    Detector,
    ProbabilisticOrderer,
    ProbabilisticTagger,
    StampTag,
    clock_of,
)
from thence.spread.gossip import Gossip

AHEAD_MOST: Final = 1 << 20
"""Messages that the past of one which comes may hold, in one entry, and that were not released here. A piece
of an answer (`spread.gossip`) has a few thousand."""

HELD_MOST: Final = 1024
"""Messages that wait for their causes: far more than come late in a group that is well."""
HELD_BYTES: Final = 16 << 20
"""Of their payloads."""


class TreeOrder(Protocol):
    name: str
    codec: Codec
    """Of packets, and of messages in the log."""
    entries: int
    """Of the clock in each message; 0: it has none."""
    keys: int

    @property
    def waiting(self) -> int:
        """Messages that wait for their causes."""
        ...

    @property
    def crowded(self) -> bool:
        """Do too many?"""
        ...

    def let_go(self) -> int:
        """One of them waits no longer, as if it had not come; its dot."""
        ...

    @property
    def remembers(self) -> int:
        """Of what was taken last, so many messages are wanted after a restart."""
        ...

    def resume(self, me: int, seen: Sequence[int], kept: Sequence[int], taken: Iterable[Message]) -> None:
        """After a start: what the client has seen and what the log holds, by member; and the last messages
        that the client took."""
        ...

    def anew(self) -> "TreeOrder":
        """One of the same kind that has seen nothing."""
        ...

    def recall(self, message: Message) -> None:
        """After a restart: the client had sent it."""
        ...

    def become(self, me: int) -> None:
        """From here on own messages are those of another member, which has sent none."""
        ...

    def check(self, message: Message) -> None:
        """`PeerError`: no correct member has sent this."""
        ...

    def runs(self, operations: Sequence[bytes]) -> Iterable[Sequence[bytes]]:
        """What is sent at once, as messages."""
        ...

    def tag(self, run: Sequence[bytes]) -> Message:
        """One of them."""
        ...

    def sent(self, message: Message, now: int) -> list[Message]:
        """It is about to leave; what need not wait any longer."""
        ...

    def receive(self, message: Message, now: int) -> list[Message]:
        """It came, for the first time; what is released."""
        ...

    def took(self, message: Message) -> list[Message]:
        """The client takes it; what of the last ones it doubts now."""
        ...

    @property
    def doubts_all(self) -> bool:
        """When it doubted something last, did it look back far enough?"""
        ...

    def tag_of(self, message: Message) -> Tag | None: ...

    def short(self, message: Message) -> Packet:
        """What is sent of a message that is new."""
        ...

    def whole(self, rumour: Rumour) -> Message | None:
        """The message that was sent like that; None: this node is too far behind to tell."""
        ...


class Unordered:
    """As messages come."""

    name = "none"
    codec = Codec(OPEN, stamps_are_dots=True, run_span=span_of_payload)
    entries = keys = 0
    waiting = 0
    crowded = False
    doubts_all = True
    remembers = 0

    __slots__ = ("_dot",)

    def __init__(self) -> None:
        self._dot = 0

    def let_go(self) -> int:
        raise AssertionError("nothing waits")

    def resume(self, me: int, seen: Sequence[int], kept: Sequence[int], taken: Iterable[Message]) -> None:  # noqa: ARG002
        self._dot = pack(me, seen[me])

    def anew(self) -> "Unordered":
        return Unordered()

    def recall(self, message: Message) -> None:
        """Nothing is remembered."""

    def become(self, me: int) -> None:
        self._dot = me

    def check(self, message: Message) -> None:
        """A run holds as many operations as it claims to."""
        if message.span > 1 and len(payload_run(message.payload)) != message.span:
            raise PeerError(f"a run that does not hold {message.span} operations")

    def runs(self, operations: Sequence[bytes]) -> Iterable[Sequence[bytes]]:
        return in_runs(operations)

    def tag(self, run: Sequence[bytes]) -> Message:
        self._dot += len(run) * STEP
        return Message(self._dot, (), run[0] if len(run) == 1 else run_payload(run), (), len(run))

    def sent(self, message: Message, now: int) -> list[Message]:  # noqa: ARG002
        return []

    def receive(self, message: Message, now: int) -> list[Message]:  # noqa: ARG002
        return [message]

    def took(self, message: Message) -> list[Message]:  # noqa: ARG002
        return []

    def tag_of(self, message: Message) -> None:
        """It has none."""

    def short(self, message: Message) -> Packet:
        return message

    def whole(self, rumour: Rumour) -> Message | None:
        del rumour
        raise PeerError("a rumour, over a tree without tags")


class Clocked:
    """By clocks of so many entries, of which a member has so many keys: those that its name draws."""

    name = "probabilistic"

    __slots__ = ("_detector", "_keys", "_names", "_orderer", "_tagger", "codec", "entries", "keys",
                 "remembers")  # fmt: skip

    def __init__(self, entries: int, keys: int, recent: int, names: Sequence[str]) -> None:
        """`names`: of members, by index; it grows."""
        self._names: Final = names
        self._keys: Final = Keys(entries, keys, drawn_by_name(entries, keys, names))
        self._tagger = ProbabilisticTagger(0, 1, self._keys)
        self._orderer = ProbabilisticOrderer(0, 1, self._keys, 0, fifo=True)
        self._detector: Final = Detector(self._keys, recent)
        self.remembers = recent
        self.entries = entries
        self.keys = keys
        self.codec = Codec(OPEN, stamps_are_dots=False, entries=entries)

    @property
    def waiting(self) -> int:
        return self._orderer.waiting

    @property
    def crowded(self) -> bool:
        return self._orderer.waiting > HELD_MOST or self._orderer.waiting_bytes > HELD_BYTES

    def let_go(self) -> int:
        return self._orderer.let_go()

    def resume(self, me: int, seen: Sequence[int], kept: Sequence[int], taken: Iterable[Message]) -> None:
        size = max(me + 1, len(seen), len(kept))
        self._tagger = ProbabilisticTagger(me, size, self._keys)
        self._tagger.resume(seen[me], tuple(clock_of(self._keys, seen)))
        self._orderer = ProbabilisticOrderer(me, size, self._keys, 0, fifo=True)
        self._orderer.resume(tuple(kept))
        for message in taken:
            self._detector.remember(message)

    def anew(self) -> "Clocked":
        return Clocked(self.entries, self.keys, self.remembers, self._names)

    def recall(self, message: Message) -> None:
        self._tagger.recall(message)

    def become(self, me: int) -> None:
        clock = self._tagger.context()
        self._tagger = ProbabilisticTagger(me, me + 1, self._keys)
        self._tagger.resume(0, clock)

    def check(self, message: Message) -> None:
        """A stamp that counts far more than has been released here is a lie: an answer begins with what comes
        next here, and a rumour is understood only near this node's clock. It would be held for ever."""
        self._orderer.check(message)
        if max(map(sub, message.context, self._orderer.clock)) > AHEAD_MOST:
            raise PeerError(f"{message} counts more than {AHEAD_MOST} messages that are not here")

    def must_follow(self, messages: Sequence[Message]) -> None:
        """Of messages that come over a tree none has to wait."""
        early = self._orderer.first_early(messages)
        if early is not None:
            raise PeerError(f"{early} comes over a tree before what it follows from")

    def runs(self, operations: Sequence[bytes]) -> Iterable[Sequence[bytes]]:
        """Each by itself: a clock's entries count messages, and what is doubted is one."""
        return zip(operations)

    def tag(self, run: Sequence[bytes]) -> Message:
        [payload] = run
        return self._tagger.tag(payload)

    def sent(self, message: Message, now: int) -> list[Message]:
        return [one for one in self._orderer.sent(message, now) if isinstance(one, Message)]

    def receive(self, message: Message, now: int) -> list[Message]:
        return [one for one in self._orderer.receive(message, 0, now) if isinstance(one, Message)]

    def took(self, message: Message) -> list[Message]:
        self._tagger.took(message)
        found = self._detector.doubts(message, self._tagger.clock)
        self._detector.remember(message)
        return found

    @property
    def doubts_all(self) -> bool:
        return self._detector.is_complete

    def tag_of(self, message: Message) -> StampTag:
        return StampTag(message.dot, message.context)

    def short(self, message: Message) -> Packet:
        return short(message)

    def whole(self, rumour: Rumour) -> Message | None:
        return whole(rumour, self._orderer.clock)


def make_room(order: TreeOrder, gossip: Gossip | None) -> bool:
    """Where too much waits, gossip brings the oldest of it again. Only nodes that have room pass on what is
    to wait: else messages that none has room for would go round for ever. Was it needed?"""
    was_needed = False
    while gossip is not None and order.crowded:
        gossip.forget(order.let_go())
        was_needed = True
    return was_needed


def brings(effect: Effect, dots: Collection[int]) -> bool:
    """Does it send one of these messages on?"""
    return isinstance(effect, Transmit) and isinstance(effect.packet, Message) and effect.packet.dot in dots
