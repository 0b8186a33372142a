"""What one incarnation sends and gets over session links: links that keep the order until they break.

Nothing is repeated by the clock there. Whoever wants a member's messages gives it a number, in a receipt, and
gets them in order under that number, from the first that it lacks; it gives another number whenever it has
dropped something, and then they come again. A window of messages and bytes is under way at most: a receipt
frees it, and counts what was *delivered*, so a member that takes nothing costs a window, wherever it is. What
lies further back is read from the log.

The bytes are those of the log, with the sender's indices. Under each number the sender first says which names
they stand for. Where both have the same names at the same places, the receiver takes the bytes as they are.

State. Per process a link: the number that was given to it and what came under it (`incoming`), its newest
receipt, and what it was sent (`outgoing`). All of it is forgotten when the link breaks.

Invariants. Under one number messages of one origin go out in order and without a gap, each once. What comes
under a number that does not count any more is passed over.
"""

from collections import deque
from collections.abc import Iterator
from itertools import count, islice

from thence.core.codec import Codec
from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK
from thence.core.errors import PeerError
from thence.core.group_words import is_known
from thence.core.groups import Flow, Post, Receipt, process_of
from thence.core.message import Message
from thence.members.group import GroupView
from thence.members.spans import Spans
from thence.replica.group_ledger import Ledger
from thence.replica.group_settings import GroupSettings


class Wires:
    """What outlives an incarnation: to whom there are links, and the numbers that were given out."""

    __slots__ = ("numbers", "up", "used")

    def __init__(self) -> None:
        self.up: set[str] = set()
        self.used = False
        """Somebody says when links come and go; so where there is none, nothing needs to be sent."""
        self.numbers = count(1)


class Incoming:
    """What one member sends under one number."""

    __slots__ = ("_codec", "_ledger", "_mine", "_names", "_same", "number", "source")

    def __init__(self, number: int, source: str, ledger: Ledger) -> None:
        self.number = number
        self.source = source
        self._ledger = ledger
        self._names: list[str] = []
        self._mine: list[int] = []
        """The own indices of these names; -1: not asked for yet."""
        self._same = True
        self._codec = Codec(0, stamps_are_dots=True)

    def learn(self, first: int, names: tuple[str, ...]) -> None:
        """These names come next."""
        if first != len(self._names):
            raise PeerError(f"{self.source} names index {first} where {len(self._names)} is due")
        ledger = self._ledger
        for index, name in enumerate(names, first):
            # A name that nobody has used here yet gets the same index, if that is free.
            same = ledger.knows(name) or index == len(ledger.names)
            mine = ledger.number(name) if same else -1
            self._names.append(name)
            self._mine.append(mine)
            self._same = self._same and mine == index
        self._codec = Codec(len(self._names), stamps_are_dots=True)

    def read(self, body: bytes) -> Message:
        message = self._codec.decode(body)
        if type(message) is not Message or not is_known(message.payload):
            raise PeerError(f"{self.source} sends something else than a message")
        if self._same:
            return message
        context = tuple(sorted([self._own(dot) for dot in message.context]))
        return Message(self._own(message.dot), context, message.payload)

    def _own(self, dot: int) -> int:
        index = dot & ORIGIN_MASK
        mine = self._mine[index]
        if mine < 0:
            mine = self._mine[index] = self._ledger.number(self._names[index])
        return dot ^ index | mine


class Outgoing:
    """What one member is sent under one number."""

    __slots__ = (
        "_acked_bytes", "_filled", "_marks", "_sent_bytes", "acked", "number", "open", "ready", "relays",
        "sent", "to", "told",
    )  # fmt: skip

    def __init__(self, number: int, to: str, acked: int, filled: list["Outgoing"]) -> None:
        self._filled = filled
        """Of all members those for whom something is ready."""
        self.number = number
        self.to = to
        self.open = True
        """It is not, while the other is suspected: a leaver's leave may yet be heard of."""
        self.told = 0
        """How many names the other end knows."""
        self.ready: list[bytes] = []
        self.acked = self.sent = acked
        self.relays: dict[str, int] = {}
        """Of other origins: up to where they were passed on."""
        self._acked_bytes = self._sent_bytes = 0
        self._marks: deque[tuple[int, int]] = deque()
        """Now and then: up to this counter, so many bytes were sent."""

    def add(self, data: bytes) -> None:
        if not self.ready:
            self._filled.append(self)
        self.ready.append(data)

    def sending(self, seq: int, data: bytes, mark_every: int) -> None:
        self.add(data)
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


class Link:
    __slots__ = ("incoming", "last", "outgoing", "past", "past_said", "said", "said_at")

    def __init__(self) -> None:
        self.incoming: Incoming | None = None
        self.outgoing: Outgoing | None = None
        self.last: Receipt | None = None
        """The newest receipt that came over it and was meant for this incarnation."""
        self.said: object = None
        """What the last receipt over it said, in short."""
        self.said_at = 0
        self.past_said = ("", 0)
        """Which incarnation was told who is past, and which version of that."""
        self.past = ("", Spans())
        """The same of the other end: who told it, and all that it told. A receipt says what is new."""


class Links:
    __slots__ = (
        "_filled", "_incoming", "_ledger", "_links", "_posts", "_recent", "_recent_bytes", "_settings",
        "_view", "_wires", "barred", "upto",
    )  # fmt: skip

    def __init__(
        self, ledger: Ledger, view: GroupView, settings: GroupSettings, posts: list[Post], wires: Wires
    ) -> None:
        self._ledger = ledger
        self._view = view
        self._settings = settings
        self._posts = posts
        self._wires = wires
        self._links = {process: Link() for process in sorted(wires.up)}
        self._incoming: dict[int, Incoming] = {}
        self._filled: list[Outgoing] = []
        self._recent: deque[tuple[int, bytes]] = deque()
        """The newest own messages, as many as a window: what lies further back is read from the log."""
        self._recent_bytes = 0
        self.upto: list[int] | None = None
        """A leaver passes on only what it had delivered before its leave."""
        self.barred: set[str] = set()
        """Processes that are not listened to: they have gone on from something else (`group_lineage`)."""

    @property
    def linked(self) -> list[str]:
        return list(self._links)

    def bar(self, process: str) -> None:
        self.barred.add(process)
        link = self._links.get(process)
        if link is not None and link.incoming is not None:
            del self._incoming[link.incoming.number]
            link.incoming = None

    @property
    def used(self) -> bool:
        return self._wires.used

    def up(self, process: str) -> None:
        self.down(process)
        self._links[process] = Link()

    def down(self, process: str) -> None:
        link = self._links.pop(process, None)
        if link is not None and link.incoming is not None:
            del self._incoming[link.incoming.number]

    def to(self, member: str) -> Link | None:
        return self._links.get(process_of(member))

    # What comes in

    def opened(self, member: str) -> int:
        """The number under which a member should send; 0: it should not."""
        link = self._links.get(process_of(member))
        if link is None or member not in self._view.side:
            return 0
        if process_of(member) in self.barred:
            return 0
        if link.incoming is None or link.incoming.source != member:
            if link.incoming is not None:
                del self._incoming[link.incoming.number]
            link.incoming = Incoming(next(self._wires.numbers), member, self._ledger)
            self._incoming[link.incoming.number] = link.incoming
        return link.incoming.number

    def incoming(self, number: int) -> Incoming | None:
        return self._incoming.get(number)

    def hears(self, member: str) -> bool:
        """Do its messages come from itself? They do not if its process runs another incarnation by now, or
        has not heard of this one yet: then there is no receipt of its."""
        link = self._links.get(process_of(member))
        if link is None or link.incoming is None or link.incoming.source != member:
            return False
        return link.last is not None and link.last.source == member

    def dropped(self) -> None:
        """What had come and was not delivered is lost: it must come again, under other numbers."""
        self._incoming.clear()
        for link in self._links.values():
            link.incoming = None

    # What goes out

    def send(self, seq: int, data: bytes) -> None:
        """An own message, to all who have everything before it."""
        settings = self._settings
        self._recent.append((seq, data))
        self._recent_bytes += len(data)
        while len(self._recent) > settings.window or self._recent_bytes > settings.window_bytes:
            self._recent_bytes -= len(self._recent.popleft()[1])
        for link in self._links.values():
            outgoing = link.outgoing
            if outgoing is None or not outgoing.open:
                continue
            if outgoing.sent == seq - 1 and outgoing.room(settings):
                outgoing.sending(seq, data, settings.window_bytes // 16)

    def receipt(self, receipt: Receipt) -> bool:
        """A receipt came over a link; it may be one that was passed on. Returns whether it is the first word
        of somebody. A joiner got nothing of what it was told before it had its state: it is told again."""
        link = self._links.get(process_of(receipt.source))
        if link is None or receipt.target != self._ledger.me:
            return False
        link.last = receipt
        before = link.outgoing.to if link.outgoing is not None else ""
        self._consider(link, receipt)
        if link.outgoing is None or link.outgoing.to == before:
            return False
        link.said, link.past_said = None, ("", 0)
        return True

    def past_of(self, receipt: Receipt) -> Spans:
        """Who is past to its source. One that came over a link says who has become so since the last."""
        link = self._links.get(process_of(receipt.source))
        if link is None or receipt.target != self._ledger.me:
            return Spans(receipt.past)
        source, past = link.past
        if source != receipt.source:
            past = Spans()
            link.past = receipt.source, past
        for span in receipt.past:
            past.add(*span)
        return past

    def reconsider(self) -> None:
        """The view has changed, or there is more to pass on."""
        for link in self._links.values():
            if link.last is not None:
                self._consider(link, link.last)

    def _consider(self, link: Link, receipt: Receipt) -> None:
        view, outgoing = self._view, link.outgoing
        if receipt.source not in view.side and receipt.source not in view.departing:
            if outgoing is not None:
                outgoing.open = False
            return
        has = receipt.counts.get(self._ledger.me, 0)
        if outgoing is None or (outgoing.number, outgoing.to) != (receipt.stream, receipt.source):
            if not receipt.stream:
                return
            outgoing = link.outgoing = Outgoing(receipt.stream, receipt.source, has, self._filled)
        else:
            outgoing.open = True
            outgoing.acknowledged(has)
        self._pump(outgoing)
        self._pass_on(outgoing, receipt)

    def _pump(self, outgoing: Outgoing) -> None:
        """Send what there is room for, of what the other lacks and was not sent."""
        settings = self._settings
        while outgoing.sent < self._ledger.sent and outgoing.room(settings):
            before = outgoing.sent
            for seq, data in self._own(before + 1):
                outgoing.sending(seq, data, settings.window_bytes // 16)
                if not outgoing.room(settings):
                    break
            if outgoing.sent == before:
                break

    def _own(self, seq: int) -> Iterator[tuple[int, bytes]]:
        """Own messages from this counter on, some of them at least."""
        first = self._ledger.sent - len(self._recent) + 1
        if seq >= first:
            return islice(self._recent, seq - first, None)
        me = self._ledger.me
        older = self._ledger.written(self._ledger.above({me: seq - 1}))
        return ((dot >> ORIGIN_BITS, data) for dot, data in islice(older, self._settings.window))

    def _pass_on(self, outgoing: Outgoing, receipt: Receipt) -> None:
        """Others' messages, for one who cannot hear them: a part of a window of each."""
        settings, ledger = self._settings, self._ledger
        for origin in [origin for origin in outgoing.relays if origin not in receipt.wants]:
            del outgoing.relays[origin]
        limits = ledger.counts if self.upto is None else self.upto
        for origin in receipt.wants:
            index = ledger.number(origin) if ledger.knows(origin) else len(limits)
            has = receipt.counts.get(origin, 0)
            sent = max(has, outgoing.relays.get(origin, 0))
            last = min(limits[index] if index < len(limits) else 0, has + max(1, settings.window // 4))
            size = 0
            for dot, data in ledger.written(ledger.above({origin: sent})) if sent < last else ():
                if dot >> ORIGIN_BITS > last or size > settings.window_bytes // 4:
                    break
                outgoing.add(data)
                sent, size = dot >> ORIGIN_BITS, size + len(data)
            outgoing.relays[origin] = sent

    def gather(self) -> None:
        """The step is over: what is ready leaves, in one packet each if it fits."""
        for outgoing in self._filled:
            link = self._links.get(process_of(outgoing.to))
            if link is not None and link.outgoing is outgoing:
                for bodies in _packed(outgoing.ready, self._settings.packet_bytes):
                    names = tuple(self._ledger.names[outgoing.told :])
                    flow = Flow(outgoing.number, outgoing.told, names, bodies)
                    self._posts.append(Post(process_of(outgoing.to), flow))
                    outgoing.told += len(names)
            outgoing.ready.clear()
        self._filled.clear()


def _packed(bodies: list[bytes], most: int) -> Iterator[tuple[bytes, ...]]:
    """In order, several together up to a size; one that is larger goes alone."""
    if sum(map(len, bodies)) <= most:
        yield tuple(bodies)
        return
    first = size = 0
    for place, body in enumerate(bodies):
        if place > first and size + len(body) > most:
            yield tuple(bodies[first:place])
            first, size = place, 0
        size += len(body)
    yield tuple(bodies[first:])
