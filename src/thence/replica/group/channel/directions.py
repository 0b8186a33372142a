"""One direction of a session link between two members: what is sent and what comes under one number.

The bytes are those of the log, with the sender's indices. Under each number the sender first says which names
they stand for. Where both have the same names at the same places, the receiver takes the bytes as they are.

A message that is larger than a packet travels in fragments: the sender cuts it, the receiver joins it. Order,
log, stability, relays and states know whole messages only: a message is cut where it leaves for one
member and joined before anything else looks at it. docs/protocols/runs.md, "Large operations".

Invariants. Under one number messages of one origin go out in order and without a gap, each once; a window of
messages and bytes is under way at most. The fragments of a message follow each other without a gap, and
nothing else comes between them; the last one makes the message whole, and its checksum is that of the
message. What has come of a message that is not whole is in no log and no receipt: when the number ends (a
link that broke, a member that is not believed any more, a restart), it is forgotten, and the message comes
again from its first byte.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar

from thence.core.codec import Codec
from thence.core.dots import ORIGIN_MASK
from thence.core.errors import PeerError
from thence.core.group_words import is_known
from thence.core.groups import OPERATION, RUN, Flow, Fragment, Receipt, process_of
from thence.core.message import Message
from thence.core.runs import span_of_payload
from thence.members.spans import Spans
from thence.replica.group.channel.stages import CHANNEL, ChannelStage
from thence.replica.group.ledger.backlog import Backlog
from thence.replica.group.ledger.ledger import Ledger
from thence.replica.group.settings import GroupSettings

Item = TypeVar("Item", bytes, str)

USUAL: Final = (bytes((OPERATION,)), bytes((RUN,)))
"""What most messages begin with."""

LETTER_BYTES: Final = 6
"""That a letter of a name takes at most, its share of the name's length included."""


class Fragmenting:
    """What leaves under one number: a large message at a time. Bytes are counted over all of them."""

    __slots__ = ("_acked", "_at", "_body", "_sent", "busy")

    def __init__(self) -> None:
        self._sent = self._acked = 0
        self.begin(b"")

    def begin(self, body: bytes) -> None:
        self._body, self._at = memoryview(body), 0
        self.busy = bool(body)
        """Not all of the message has left."""

    def due(self, stream: int, size: int, window: int) -> Iterator[Fragment]:
        """The fragments that may leave now, of so many bytes each."""
        body, total = self._body, len(self._body)
        while self._at < total and self._sent - self._acked < window:
            at, self._at = self._at, min(total, self._at + size)
            self.busy = self._at < total
            self._sent += self._at - at
            yield Fragment(stream, at, total, body[at : self._at])
        if self._at == total:
            self.begin(b"")

    def acknowledged(self, have: int) -> None:
        if not self._acked < have <= self._sent:
            raise PeerError(f"{have} bytes of fragments have come where {self._sent} were sent")
        self._acked = have


class Relay:
    """What one member is passed on of one origin."""

    __slots__ = ("backlog", "began", "last", "sent")

    def __init__(self, sent: int, backlog: Backlog) -> None:
        self.sent = sent
        self.began = sent
        """What it was sent when the last receipt came."""
        self.last = sent
        """Up to where it goes before the next receipt."""
        self.backlog = backlog


class Outgoing:
    """What one member is sent under one number."""

    __slots__ = (
        "_acked_bytes", "_filled", "_marks", "_sent_bytes", "acked", "backlog", "fragments", "number", "open",
        "process", "ready", "relayed", "relayed_bytes", "relays", "sent", "to", "told",
    )  # fmt: skip

    def __init__(self, number: int, to: str, acked: int, filled: list["Outgoing"], backlog: Backlog) -> None:
        self.backlog = backlog
        """Own messages that it lacks and that are not in memory any more."""
        self._filled = filled
        """The channels, of all members, that have something ready."""
        self.number = number
        self.to = to
        self.process: Final = process_of(to)
        self.open = True
        """Does its link's stage say so? Kept here since it is asked with each message."""
        self.told = 0
        """How many names the other end knows."""
        self.ready: list[bytes] = []
        """To leave at the end of the step, or behind the large message that is under way."""
        self.fragments = Fragmenting()
        self.acked = self.sent = acked
        self.relays: dict[str, Relay] = {}
        """By origin, others' messages that are passed on."""
        self.relayed: dict[str, int] = {}
        """Up to where they were, of origins that are not wanted any more: each goes out once."""
        self.relayed_bytes = 0
        """Of these, since the last receipt."""
        self._acked_bytes = self._sent_bytes = 0
        self._marks: deque[tuple[int, int]] = deque()
        """Now and then: up to this counter, so many bytes were sent."""

    def add(self, data: bytes) -> None:
        if not self.ready and not self.fragments.busy:
            self._filled.append(self)
        self.ready.append(data)

    def may_pass(self, relay: Relay, most: int) -> bool:
        """May one more message of this origin be passed on before the next receipt? Of each one may, however
        large those of others are: they may wait for it."""
        return self.relayed_bytes <= most or relay.sent == relay.began

    def offer(self, before: int, seq: int, data: bytes, settings: GroupSettings, mark_every: int) -> None:
        """The newest own message: it leaves at once if all before it has, and there is room."""
        under_way = self._sent_bytes - self._acked_bytes
        if (
            self.sent == before
            and self.open
            and before - self.acked < settings.window
            and under_way < settings.window_bytes
        ):
            if not self.ready:  # as in `sending`
                self._filled.append(self)
            self.ready.append(data)
            self.sent = seq
            self._sent_bytes = sent = self._sent_bytes + len(data)
            if sent - (self._marks[-1][1] if self._marks else self._acked_bytes) >= mark_every:
                self._marks.append((seq, sent))

    def sending(self, seq: int, data: bytes, mark_every: int) -> None:
        if not self.ready:
            self._filled.append(self)
        self.ready.append(data)
        self.sent = seq
        self._sent_bytes += len(data)
        if self._sent_bytes - (self._marks[-1][1] if self._marks else self._acked_bytes) >= mark_every:
            self._marks.append((seq, self._sent_bytes))

    def acknowledged(self, seq: int) -> None:
        self.acked = max(self.acked, seq)
        self.sent = max(self.sent, seq)
        while self._marks and self._marks[0][0] <= seq:
            self._acked_bytes = self._marks.popleft()[1]
        if self.acked == self.sent:
            self._acked_bytes = self._sent_bytes

    def room(self, settings: GroupSettings) -> bool:
        return (
            self.sent - self.acked < settings.window
            and self._sent_bytes - self._acked_bytes < settings.window_bytes
        )

    def packets(self, names: Sequence[str], settings: GroupSettings) -> Iterator[Flow | Fragment]:
        """What may leave of what is ready: what stands behind a large message waits until all of that has
        left. Of all `names`, those that the other end does not know yet go first, by themselves if there are
        many."""
        ready, most, fragments = self.ready, settings.packet_bytes, self.fragments
        names = names[self.told :]
        while True:
            if fragments.busy:
                yield from fragments.due(self.number, settings.fragment_bytes, settings.window_bytes)
            if fragments.busy or not ready:
                return
            size = sum(map(len, ready))
            small = len(ready) if size <= most else _first_above(most, ready)
            if names and (LETTER_BYTES * sum(map(len, names)) + size > most):
                for some in _packed(names, most // LETTER_BYTES):
                    yield Flow(self.number, self.told, some, ())
                    self.told += len(some)
                names = ()
            for bodies in _packed(ready[:small], most):
                yield Flow(self.number, self.told, tuple(names), bodies)
                self.told += len(names)
                names = ()
            if small < len(ready):
                fragments.begin(ready[small])
            del ready[: small + 1]


class Assembling:
    """What comes under one number."""

    __slots__ = ("_data", "_have", "_most", "_total", "busy", "came")

    def __init__(self, most: int) -> None:
        """`most`: bytes of a message."""
        self._most: Final = most
        self._data: list[bytes | memoryview] = []
        self._total = self._have = 0
        self.busy = False
        """Something of a message has come, and not all."""
        self.came = 0
        """Bytes, of all messages."""

    def add(self, fragment: Fragment) -> bytes | None:
        """The message, if this makes it whole."""
        if not self._have:
            self._total = fragment.total
        if fragment.offset != self._have or fragment.total != self._total or not fragment.data:
            raise PeerError(
                f"a fragment from {fragment.offset} on, of {fragment.total}: "
                f"{self._have} bytes of {self._total} have come"
            )
        if self._total > self._most or self._have + len(fragment.data) > self._total:
            raise PeerError(f"a message of more than {min(self._total, self._most)} bytes")
        self._data.append(fragment.data)
        self._have += len(fragment.data)
        self.busy = self._have < self._total
        self.came += len(fragment.data)
        if self._have < self._total:
            return None
        whole = b"".join(self._data)
        self._data, self._have = [], 0
        return whole


class Incoming:
    """What one member sends under one number."""

    __slots__ = (
        "_codec", "_ledger", "_mine", "_names", "_origins", "_same", "fragments", "lends", "number", "own",
        "source",
    )  # fmt: skip

    def __init__(self, number: int, source: str, ledger: Ledger, most: int, lends: bool) -> None:
        """`most`: bytes of a message."""
        self.number = number
        self.lends = lends
        """The source is unknown here: only what it was asked to pass on counts, nothing of its own."""
        self.fragments = Assembling(most)
        self.source = source
        self._ledger = ledger
        self.own = ledger.number(source)
        self._origins = {self.own}
        """Whose messages may come: the source's own, and those that it was asked to pass on."""
        self._names: list[str] = []
        self._mine: list[int] = []
        """The own indices of these names; -1: not asked for yet."""
        self._same = True
        self._codec = _codec(0)

    def asked_for(self, origins: Iterable[str]) -> None:
        """The source is asked to pass on messages of these. They may still come when it is not any more."""
        self._origins.update([self._ledger.number(origin) for origin in origins])

    def learn(self, first: int, names: tuple[str, ...]) -> None:
        """These names come next."""
        if first != len(self._names):
            raise PeerError(f"{self.source} names index {first} where {len(self._names)} is due")
        ledger = self._ledger
        for index, name in enumerate(names, first):
            # A name that was not used here yet gets the same index, if that is free.
            same = ledger.knows(name) or index == len(ledger.names)
            mine = ledger.number(name) if same else -1
            self._names.append(name)
            self._mine.append(mine)
            self._same = self._same and mine == index
        self._codec = _codec(len(self._names))

    def read(self, body: bytes) -> Message:
        if self.fragments.busy:
            raise PeerError(f"{self.source} sends another message before the one under way is whole")
        message = self._codec.decode(body)
        if type(message) is not Message or (
            message.payload[:1] not in USUAL and not is_known(message.payload)
        ):
            raise PeerError(f"{self.source} sends something else than a message")
        if not self._same:
            context = tuple(sorted([self._own(dot) for dot in message.context]))
            message = Message(self._own(message.dot), context, message.payload, (), message.span)
        if message.dot & ORIGIN_MASK not in self._origins:
            raise PeerError(f"{self.source} passes on {self._ledger.place(message.dot)}, unasked")
        return message

    def _own(self, dot: int) -> int:
        index = dot & ORIGIN_MASK
        mine = self._mine[index]
        if mine < 0:
            mine = self._mine[index] = self._ledger.number(self._names[index])
        return dot ^ index | mine


class GroupLink:
    """To one process: what it is sent, and what comes from it."""

    __slots__ = (
        "incoming",
        "last",
        "outgoing",
        "passed",
        "passed_at",
        "past",
        "past_said",
        "round",
        "said",
        "said_at",
        "said_delivered",
        "stage",
    )

    def __init__(self) -> None:
        self.stage = CHANNEL.after(ChannelStage.DOWN, "a link comes up")
        """Of what is sent."""
        self.incoming: Incoming | None = None
        self.outgoing: Outgoing | None = None
        self.last: Receipt | None = None
        """The newest receipt that came over it and was meant for this incarnation."""
        self.said: object = None
        """What the last receipt over it said, in short."""
        self.said_at = 0
        self.said_delivered = -1
        """How many messages had been delivered then."""
        self.past_said = ("", 0)
        """Which incarnation was told what is past, and which version of that."""
        self.past = ("", Spans())
        """The same of the other end: its incarnation, and all that it told. A receipt says what is new."""
        self.passed: dict[str, Receipt] | None = None
        """Of each other member the newest receipt that is with the other end."""
        self.round = 0
        """Of what a collector has passed on: up to where the other end has it."""
        self.passed_at = 0
        """When everything was last told."""

    def _move(self, cause: str) -> None:
        self.stage = CHANNEL.after(self.stage, cause)
        if self.outgoing is not None:
            self.outgoing.open = self.stage is ChannelStage.OPEN

    def numbered(self, outgoing: Outgoing) -> None:
        """From here on it is sent what it lacks under this number."""
        self.outgoing = outgoing
        self._move("a receipt gives a number")

    def believe(self) -> None:
        if self.stage is ChannelStage.HELD:
            self._move("its member departs")

    def hold(self) -> None:
        if self.stage is ChannelStage.OPEN:
            self._move("its member is not believed")

    def breaks(self) -> None:
        self._move("the link breaks")


def _first_above(most: int, bodies: list[bytes]) -> int:
    """The place of the first that is larger."""
    return next((place for place, body in enumerate(bodies) if len(body) > most), len(bodies))


def _codec(size: int) -> Codec:
    return Codec(size, stamps_are_dots=True, span=span_of_payload)


def _packed(items: Sequence[Item], most: int) -> Iterator[tuple[Item, ...]]:
    """In order, several together up to a size; one that is larger goes alone."""
    if not items:
        return
    if sum(map(len, items)) <= most:
        yield tuple(items)
        return
    first = size = 0
    for place, item in enumerate(items):
        if place > first and size + len(item) > most:
            yield tuple(items[first:place])
            first, size = place, 0
        size += len(item)
    yield tuple(items[first:])
