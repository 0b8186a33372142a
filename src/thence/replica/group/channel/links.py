"""The session links of one incarnation: links that keep the order until they break.

Nothing is retransmitted by the clock there. A receiver gives a member a number, in a receipt, and gets its
messages in order under that number, from the first that it lacks (`channel`); it gives another number
whenever it has dropped something, and then they come again. A receipt frees the window of a channel, and
counts what was *delivered*, so a member that takes nothing costs a window, wherever it is. What lies further
back is read from the log, a little in each step (`backlog`).

State. Per process a link: the number that was given to it and what came under it (`incoming`), its newest
receipt, and what it was sent (`outgoing`). All of it is forgotten when the link breaks.

Invariant. What comes under a number that does not count any more is passed over.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import count

from thence.core.groups import ALL, Flow, FragmentReceipt, Post, Receipt, process_of
from thence.members.group import GroupView
from thence.members.spans import Spans
from thence.replica.group.channel.directions import (
    GroupLink,
    Incoming,
    Outgoing,
    Relay,
)
from thence.replica.group.ledger.backlog import Allowance, Backlog
from thence.replica.group.ledger.ledger import Ledger
from thence.replica.group.settings import GroupSettings


class Wires:
    """What outlives an incarnation: processes that are linked, and the numbers that were given out."""

    __slots__ = ("numbers", "up", "used")

    def __init__(self) -> None:
        self.up: set[str] = set()
        self.used = False
        """The driver says when links come and go; so where there is none, nothing needs to be sent."""
        self.numbers = count(1)


class GroupLinks:
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
        self._links = {process: GroupLink() for process in sorted(wires.up)}
        self.numbered: dict[int, Incoming] = {}
        """What comes in, by the number that it comes under."""
        self._filled: list[Outgoing] = []
        self.lacking: dict[Outgoing, None] = {}
        """Channels that could be sent more in the next step, the one that was served longest ago first."""
        self.relaying: dict[Outgoing, None] = {}
        """Channels that messages of others are relayed over."""
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
        """Processes that are not listened to: they have gone on from something else (`lineage`)."""

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
        self._links[process] = GroupLink()

    def down(self, process: str) -> None:
        link = self._links.pop(process, None)
        if link is None:
            return
        link.breaks()
        if link.incoming is not None:
            del self.numbered[link.incoming.number]
        if link.outgoing is not None:
            self.relaying.pop(link.outgoing, None)

    def to(self, member: str) -> GroupLink | None:
        return self._links.get(process_of(member))

    # What comes in

    def opened(self, member: str, lends: bool = False) -> int:
        """The number under which a member should send; 0: it should not. `lends`: it is a lender."""
        link = self._links.get(process_of(member))
        if link is None or not (lends or member in self._view.side):
            return 0
        if process_of(member) in self.barred:
            return 0
        incoming = link.incoming
        if incoming is None or (incoming.source, incoming.lends) != (member, lends):
            if incoming is not None:
                del self.numbered[incoming.number]
            incoming = link.incoming = Incoming(
                next(self._wires.numbers), member, self._ledger, self._settings.record_bytes, lends
            )
            self.numbered[incoming.number] = incoming
        return incoming.number

    def lenders(self, origin: str) -> list[str]:
        """Unknown incarnations that take this one for a member and have more of another member: that one, or
        a member that it let in, let them in, and the JOIN is in what is lacking here. They serve this one as
        any member would: not if they have gone on from something else (`lineage`)."""
        view, has = self._view, self._ledger.count(origin)
        lasts = [link.last for link in self._links.values() if link.last is not None]
        return sorted(
            last.source
            for last in lasts
            if has < last.counts.get(origin, 0) < ALL
            and not (view.knows(last.source) or last.source in view.past or last.source in view.closed)
        )

    def asks(self, member: str, origins: Iterable[str]) -> None:
        """A receipt is about to ask a member to pass on messages of these."""
        link = self._links.get(process_of(member))
        if link is not None and link.incoming is not None and link.incoming.source == member:
            link.incoming.asked_for(origins)

    def hears(self, member: str) -> bool:
        """Do its messages come from itself? They do not if its process runs another incarnation by now, or
        has not heard of this one yet: then there is no receipt of its, or one that asks for others' messages
        alone. Nor if it suspects this one."""
        link = self._links.get(process_of(member))
        if link is None or link.incoming is None or link.incoming.source != member or link.incoming.lends:
            return False
        last = link.last
        if last is None or last.source != member:
            return False
        return self._ledger.me not in last.suspects and self._ledger.me not in last.unheard

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
        """An own message, to all that have everything up to the one before it."""
        settings, recent = self._settings, self._recent
        if not recent:
            self._before = before
        recent.append((seq, data))
        self._recent_bytes += len(data)
        while len(recent) > settings.window or self._recent_bytes > settings.window_bytes:
            self._before, gone = recent.popleft()
            self._recent_bytes -= len(gone)
        mark_every = settings.window_bytes // 16
        for link in self._links.values():
            outgoing = link.outgoing
            if outgoing is not None:
                outgoing.offer(before, seq, data, settings, mark_every)

    def forward(self, origin: str, before: int, seq: int, data: bytes) -> None:
        """A message of another was delivered: to all that want it from here and have everything up to the one
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
        """A receipt came over a link, perhaps passed on. Returns whether it is the first of its incarnation.
        A joiner got nothing of what it was told before it had its state: it is told again."""
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
        """What is past to its source. One that came over a link says what has become so since the last."""
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

    def _consider(self, link: GroupLink, receipt: Receipt) -> None:
        view, outgoing = self._view, link.outgoing
        if receipt.source not in view.side and receipt.source not in view.departing:
            link.hold()
            return
        has = receipt.counts.get(self._ledger.me, 0)
        if outgoing is None or (outgoing.number, outgoing.to) != (receipt.stream, receipt.source):
            if not receipt.stream:
                return
            backlog = Backlog(self._ledger, self._ledger.me)
            if outgoing is not None:
                self.relaying.pop(outgoing, None)
            outgoing = Outgoing(receipt.stream, receipt.source, has, self._filled, backlog)
            link.numbered(outgoing)
        else:
            link.believe()
            outgoing.acknowledged(has)
        self._pass_on(outgoing, receipt)
        if outgoing.sent < self._ledger.sent or outgoing.relays:
            self.lacking[outgoing] = None

    def _pass_on(self, outgoing: Outgoing, receipt: Receipt) -> None:
        """Others' messages, for a member that cannot hear them: a part of a window of each."""
        settings, ledger = self._settings, self._ledger
        for origin in [origin for origin in outgoing.relays if origin not in receipt.wants]:
            outgoing.relayed[origin] = outgoing.relays.pop(origin).sent
        outgoing.relayed_bytes = 0
        for origin in receipt.wants:
            has = receipt.counts.get(origin, 0)
            relay = outgoing.relays.get(origin)
            if relay is None:
                relay = outgoing.relays[origin] = Relay(has, Backlog(ledger, origin))
                relay.sent = outgoing.relayed.get(origin, 0)
            relay.sent = relay.began = max(relay.sent, has)
            relay.last = has + max(1, settings.window // 4)
        if outgoing.relays:
            self.relaying[outgoing] = None
        else:
            self.relaying.pop(outgoing, None)

    def _serve(self) -> None:
        """Send to members that lack something, as much as one step may read; next time others come first."""
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
        return not backlog.dry or bool(self._ledger.uncommitted)

    def gather(self) -> None:
        """The step is over: what is ready leaves, in one packet each if it fits."""
        if self.lacking:
            self._serve()
        if not self._filled:
            return
        known, most = len(self._ledger.names), self._settings.packet_bytes
        for outgoing in self._filled:
            process, ready = outgoing.process, outgoing.ready
            link = self._links.get(process)
            if link is not None and link.outgoing is outgoing:
                size = len(ready[0]) if len(ready) == 1 else sum(map(len, ready))
                if outgoing.told == known and size <= most and not outgoing.fragments.busy:
                    self._posts.append((process, Flow(outgoing.number, known, (), tuple(ready))))
                    ready.clear()
                else:
                    self._posts += [
                        (process, one) for one in outgoing.packets(self._ledger.names, self._settings)
                    ]
            else:
                ready.clear()
        self._filled.clear()
