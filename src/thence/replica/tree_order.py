"""How a node without an agreed view orders messages: not at all, or by clocks that members share.

A part of `replica/tree.py`, with the client's and the middleware's half of an engine. Over a tree messages
come in causal order, and carry nothing (`Unordered`). Over gossip they do not: each carries a clock of R
entries (`Clocked`, docs/protocols/probabilistic.md), and waits until the node's own is far enough. That may
err; what was taken too early is doubted when the program takes what it should have come after.

Invariants. Messages of one member are released in their order, so that counters per member, which the log
has, give both clocks back after a restart. Messages are taken in the order in which they were released: the
client's clock is not behind the stamp of what it has taken, and detection may look at what it took.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from thence.core.codec import Codec
from thence.core.codec_overlay import OPEN
from thence.core.dots import STEP, pack
from thence.core.errors import PeerError
from thence.core.machine import Packet
from thence.core.message import Message
from thence.core.overlay import Rumour
from thence.core.rumours import short, whole
from thence.core.tag import Tag
from thence.order.keys import Keys, drawn_by_name
from thence.order.probabilistic import (
    Detector,
    ProbabilisticOrderer,
    ProbabilisticTagger,
    StampTag,
    clock_of,
)


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

    def tag(self, payload: bytes) -> Message: ...

    def sent(self, message: Message, now: int) -> list[Message]:
        """It is about to leave; what need not wait any longer."""
        ...

    def receive(self, message: Message, now: int) -> list[Message]:
        """It came, for the first time; what is released."""
        ...

    def took(self, message: Message) -> list[Message]:
        """The client takes it; what of the last ones it doubts now."""
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
    codec = Codec(OPEN, stamps_are_dots=True)
    entries = keys = 0
    waiting = 0
    remembers = 0

    __slots__ = ("_dot",)

    def __init__(self) -> None:
        self._dot = 0

    def resume(self, me: int, seen: Sequence[int], kept: Sequence[int], taken: Iterable[Message]) -> None:  # noqa: ARG002
        self._dot = pack(me, seen[me])

    def anew(self) -> "Unordered":
        return Unordered()

    def recall(self, message: Message) -> None:
        """Nothing is remembered."""

    def become(self, me: int) -> None:
        self._dot = me

    def check(self, message: Message) -> None:
        """There is nothing to be wrong."""

    def tag(self, payload: bytes) -> Message:
        self._dot += STEP
        return Message(self._dot, (), payload)

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
        self._orderer.check(message)

    def tag(self, payload: bytes) -> Message:
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

    def tag_of(self, message: Message) -> StampTag:
        return StampTag(message.dot, message.context)

    def short(self, message: Message) -> Packet:
        return short(message)

    def whole(self, rumour: Rumour) -> Message | None:
        return whole(rumour, self._orderer.clock)
