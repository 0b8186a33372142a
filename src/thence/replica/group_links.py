"""What one incarnation sends and gets over session links: links that keep the order until they break.

Nothing is repeated by the clock there. Whoever wants a member's messages gives it a number, in a receipt, and
gets them in order under that number, from the first that it lacks; it gives another number whenever it has
dropped something, and then they come again. A window of messages and bytes is under way at most: a receipt
frees it, and counts what was *delivered*, so a member that takes nothing costs a window, wherever it is. What
lies further back is read from the log, a little in each step (`group_backlog`).

The bytes are those of the log, with the sender's indices. Under each number the sender first says which names
they stand for. Where both have the same names at the same places, the receiver takes the bytes as they are.
A message that is larger than a packet travels in fragments (`group_fragments`).

State. Per process a link: the number that was given to it and what came under it (`incoming`), its newest
receipt, and what it was sent (`outgoing`). All of it is forgotten when the link breaks.

Invariants. Under one number messages of one origin go out in order and without a gap, each once. What comes
under a number that does not count any more is passed over.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Final, TypeVar

from thence.core.codec import Codec
from thence.core.dots import ORIGIN_MASK
from thence.core.errors import PeerError
from thence.core.group_words import is_known
from thence.core.groups import OPERATION, RUN, Flow, Fragment, FragmentReceipt, Post, Receipt, process_of
from thence.core.message import Message
from thence.core.runs import span_of_payload
from thence.members.group import GroupView
from thence.members.spans import Spans
from thence.replica.group_backlog import Allowance, Backlog, Outgoing, Relay
from thence.replica.group_fragments import Assembling
from thence.replica.group_ledger import Ledger
from thence.replica.group_settings import GroupSettings

Item = TypeVar("Item", bytes, str)

USUAL: Final = (bytes((OPERATION,)), bytes((RUN,)))
"""What most messages begin with."""

LETTER_BYTES: Final = 6
"""That a letter of a name takes at most, its share of the name's length included."""


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

    __slots__ = (
        "_codec", "_ledger", "_mine", "_names", "_origins", "_same", "fragments", "number", "source"
    )  # fmt: skip

    def __init__(self, number: int, source: str, ledger: Ledger, most: int) -> None:
        """`most`: bytes of a message."""
        self.number = number
        self.fragments = Assembling(most)
        self.source = source
        self._ledger = ledger
        self._origins = {ledger.number(source)}
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
            # A name that nobody has used here yet gets the same index, if that is free.
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


class Link:
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
    )

    def __init__(self) -> None:
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
        """Which incarnation was told who is past, and which version of that."""
        self.past = ("", Spans())
        """The same of the other end: who told it, and all that it told. A receipt says what is new."""
        self.passed: dict[str, Receipt] | None = None
        """Of each other member the newest receipt that is with the other end."""
        self.round = 0
        """Of what a collector has passed on: up to where the other end has it."""
        self.passed_at = 0
        """When everything was last told."""


class Links:
    __slots__ = (
        "_before", "_filled", "_ledger", "_links", "_posts", "_recent", "_recent_bytes", "_settings",
        "_view", "_wires", "barred", "came", "lacking", "numbered", "relaying", "upto",
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
        self.numbered: dict[int, Incoming] = {}
        """What comes in, by the number that it comes under."""
        self._filled: list[Outgoing] = []
        self.lacking: dict[Outgoing, None] = {}
        """Who lacks something and could be sent it in the next step, whoever was served longest ago first."""
        self.relaying: dict[Outgoing, None] = {}
        """Who is passed on messages of others."""
        self._recent: deque[tuple[int, bytes]] = deque()
        """The newest own messages, as many as a window: what lies further back is read from the log."""
        self._recent_bytes = 0
        self._before = 0
        """The end of the last own message before those."""
        self.upto: list[int] | None = None
        """A leaver passes on only what it had delivered before its leave."""
        self.came: dict[int, int] = {}
        """Per index, up to where messages have come, delivered or not; in a tree."""
        self.barred: set[str] = set()
        """Processes that are not listened to: they have gone on from something else (`group_lineage`)."""

    @property
    def linked(self) -> Iterable[str]:
        return self._links.keys()

    def bar(self, process: str) -> None:
        self.barred.add(process)
        link = self._links.get(process)
        if link is not None and link.incoming is not None:
            del self.numbered[link.incoming.number]
            link.incoming = None

    @property
    def used(self) -> bool:
        return self._wires.used

    def up(self, process: str) -> None:
        self.down(process)
        self._links[process] = Link()

    def down(self, process: str) -> None:
        link = self._links.pop(process, None)
        if link is None:
            return
        if link.incoming is not None:
            del self.numbered[link.incoming.number]
        if link.outgoing is not None:
            self.relaying.pop(link.outgoing, None)

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
                del self.numbered[link.incoming.number]
            link.incoming = Incoming(
                next(self._wires.numbers), member, self._ledger, self._settings.record_bytes
            )
            self.numbered[link.incoming.number] = link.incoming
        return link.incoming.number

    def asks(self, member: str, origins: Iterable[str]) -> None:
        """A receipt is about to ask a member to pass on messages of these."""
        link = self._links.get(process_of(member))
        if link is not None and link.incoming is not None and link.incoming.source == member:
            link.incoming.asked_for(origins)

    def hears(self, member: str) -> bool:
        """Do its messages come from itself? They do not if its process runs another incarnation by now, or
        has not heard of this one yet: then there is no receipt of its. Nor if it suspects this one."""
        link = self._links.get(process_of(member))
        if link is None or link.incoming is None or link.incoming.source != member:
            return False
        last = link.last
        return last is not None and last.source == member and self._ledger.me not in last.suspects

    def audible(self) -> list[str]:
        """All members whose messages come from themselves."""
        found = [link.incoming.source for link in self._links.values() if link.incoming is not None]
        return sorted([member for member in found if self.hears(member)])

    def dropped(self) -> None:
        """What had come and was not delivered is lost: it must come again, under other numbers."""
        self.numbered.clear()
        self.came.clear()
        for link in self._links.values():
            link.incoming = None

    # What goes out

    def send(self, before: int, seq: int, data: bytes) -> None:
        """An own message, to all who have everything up to the one before it."""
        settings, recent = self._settings, self._recent
        if not recent:
            self._before = before
        recent.append((seq, data))
        self._recent_bytes += len(data)
        while len(recent) > settings.window or self._recent_bytes > settings.window_bytes:
            self._before, gone = recent.popleft()
            self._recent_bytes -= len(gone)
        for link in self._links.values():
            if (outgoing := link.outgoing) is not None:
                outgoing.offer(before, seq, data, settings)

    def forward(self, origin: str, before: int, seq: int, data: bytes) -> None:
        """A message of another was delivered: to all who want it from here and have everything up to the one
        before it. To the others it goes from the log."""
        most = self._settings.window_bytes // 4
        for outgoing in self.relaying:
            if not outgoing.open or (relay := outgoing.relays.get(origin)) is None:
                continue
            if self.upto is None and relay.sent == before < relay.last and outgoing.may_pass(relay, most):
                outgoing.add(data)
                outgoing.relayed_bytes += len(data)
                relay.sent = seq
            else:
                self.lacking[outgoing] = None

    def fragment_receipt(self, peer: str, receipt: FragmentReceipt) -> None:
        """A process wants more of the message that is under way to it."""
        link = self._links.get(peer)
        outgoing = None if link is None else link.outgoing
        if outgoing is None or outgoing.number != receipt.stream:
            return  # it does not count any more
        outgoing.fragments.acknowledged(receipt.came)
        if outgoing.fragments.busy and outgoing not in self._filled:
            self._filled.append(outgoing)

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
        link.said, link.past_said, link.passed, link.round = None, ("", 0), None, 0
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
        sent, side = self._ledger.sent, self._view.side
        for link in self._links.values():
            last, outgoing = link.last, link.outgoing
            if last is None:
                continue
            if outgoing is not None and outgoing.sent == sent and last.source in side:
                same = (outgoing.number, outgoing.to) == (last.stream, last.source)
                if same and outgoing.open and not (outgoing.relays or last.wants):
                    continue  # it has been sent everything, and wants nothing else
            self._consider(link, last)

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
            backlog = Backlog(self._ledger, self._ledger.me)
            if outgoing is not None:
                self.relaying.pop(outgoing, None)
            outgoing = link.outgoing = Outgoing(receipt.stream, receipt.source, has, self._filled, backlog)
        else:
            outgoing.open = True
            outgoing.acknowledged(has)
        self._pass_on(outgoing, receipt)
        if outgoing.sent < self._ledger.sent or outgoing.relays:
            self.lacking[outgoing] = None

    def _pass_on(self, outgoing: Outgoing, receipt: Receipt) -> None:
        """Others' messages, for one who cannot hear them: a part of a window of each."""
        settings, ledger = self._settings, self._ledger
        for origin in [origin for origin in outgoing.relays if origin not in receipt.wants]:
            del outgoing.relays[origin]
        outgoing.relayed_bytes = 0
        for origin in receipt.wants:
            has = receipt.counts.get(origin, 0)
            relay = outgoing.relays.get(origin)
            if relay is None:
                relay = outgoing.relays[origin] = Relay(has, Backlog(ledger, origin))
            relay.sent = relay.began = max(relay.sent, has)
            relay.last = has + max(1, settings.window // 4)
        if outgoing.relays:
            self.relaying[outgoing] = None
        else:
            self.relaying.pop(outgoing, None)

    def _serve(self) -> None:
        """Send to those who lack something, as much as one step may read; next time others come first."""
        allowance = Allowance(self._settings.step_max)
        for outgoing in list(self.lacking):
            if allowance.left <= 0:
                return
            del self.lacking[outgoing]
            link = self._links.get(process_of(outgoing.to))
            if link is None or link.outgoing is not outgoing or not outgoing.open:
                continue
            more = [self._pump(outgoing, allowance)]
            more += [self._relay(outgoing, origin, allowance) for origin in outgoing.relays]
            if any(more):
                self.lacking[outgoing] = None

    def _pump(self, outgoing: Outgoing, allowance: Allowance) -> bool:
        """Send what there is room for, of what the other lacks and was not sent. Is there more?"""
        settings, ledger = self._settings, self._ledger
        if outgoing.sent < ledger.sent and outgoing.room(settings):
            for seq, data in self._own(outgoing, allowance):
                outgoing.sending(seq, data, settings.window_bytes // 16)
                if not outgoing.room(settings):
                    break
        return outgoing.sent < ledger.sent and outgoing.room(settings) and self._may_find(outgoing.backlog)

    def _own(self, outgoing: Outgoing, allowance: Allowance) -> Iterator[tuple[int, bytes]]:
        """Own messages that the other was not sent, some of them at least."""
        if not self._recent or outgoing.sent < self._before:
            yield from outgoing.backlog.read(outgoing.sent, allowance)
            return
        for seq, data in self._recent:
            if seq > outgoing.sent:
                if allowance.left <= 0:
                    return
                allowance.spend(data)
                yield seq, data

    def _relay(self, outgoing: Outgoing, origin: str, allowance: Allowance) -> bool:
        relay, most = outgoing.relays[origin], self._settings.window_bytes // 4
        limits, index = self._ledger.counts if self.upto is None else self.upto, self._ledger.index(origin)
        limit = limits[index] if 0 <= index < len(limits) else 0
        last = min(relay.last, limit)
        if relay.sent < last and outgoing.may_pass(relay, most) and allowance.left > 0:
            for seq, data in relay.backlog.read(relay.sent, allowance):
                if seq > limit:
                    relay.backlog.rewind()
                    return False  # what lies between is stable, and need not be here any more
                outgoing.add(data)
                outgoing.relayed_bytes += len(data)
                relay.sent = seq
                if seq >= last or not outgoing.may_pass(relay, most):
                    break
        return relay.sent < last and outgoing.may_pass(relay, most) and self._may_find(relay.backlog)

    def _may_find(self, backlog: Backlog) -> bool:
        """Is it worth looking again in the next step? What this one delivered is not in the log yet."""
        return not backlog.dry or bool(self._ledger.fresh)

    def gather(self) -> None:
        """The step is over: what is ready leaves, in one packet each if it fits."""
        if self.lacking:
            self._serve()
        if not self._filled:
            return
        known, most = len(self._ledger.names), self._settings.packet_bytes
        for outgoing in self._filled:
            process, ready = process_of(outgoing.to), outgoing.ready
            link = self._links.get(process)
            if link is not None and link.outgoing is outgoing:
                fragments = outgoing.fragments
                if outgoing.told == known and not fragments.busy and sum(map(len, ready)) <= most:
                    self._posts.append(Post(process, Flow(outgoing.number, known, (), tuple(ready))))
                    ready.clear()
                else:
                    self._posts += [Post(process, packet) for packet in self._packets(outgoing)]
            else:
                ready.clear()
        self._filled.clear()

    def _packets(self, outgoing: Outgoing) -> Iterator[Flow | Fragment]:
        """What may leave of what is ready: what stands behind a large message waits until all of that has
        left. Names that the other end does not know yet go first, by themselves if there are many."""
        settings, ready = self._settings, outgoing.ready
        most, names = settings.packet_bytes, self._ledger.names[outgoing.told :]
        while True:
            if outgoing.fragments.busy:
                size, window = settings.fragment_bytes, settings.window_bytes
                yield from outgoing.fragments.due(outgoing.number, size, window)
            if outgoing.fragments.busy or not ready:
                return
            size = sum(map(len, ready))
            small = len(ready) if size <= most else _first_above(most, ready)
            if names and (LETTER_BYTES * sum(map(len, names)) + size > most):
                for some in _packed(names, most // LETTER_BYTES):
                    yield Flow(outgoing.number, outgoing.told, some, ())
                    outgoing.told += len(some)
                names = []
            for bodies in _packed(ready[:small], most):
                yield Flow(outgoing.number, outgoing.told, tuple(names), bodies)
                outgoing.told += len(names)
                names = []
            if small < len(ready):
                outgoing.fragments.begin(ready[small])
            del ready[: small + 1]


def _first_above(most: int, bodies: list[bytes]) -> int:
    """The place of the first that is larger."""
    return next((place for place, body in enumerate(bodies) if len(body) > most), len(bodies))


def _codec(size: int) -> Codec:
    return Codec(size, stamps_are_dots=True, span=span_of_payload)


def _packed(items: list[Item], most: int) -> Iterator[tuple[Item, ...]]:
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
