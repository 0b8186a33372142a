"""What comes from other members: rules 2 and 5 of docs/protocols/membership.md.

What was received is *pending* until its causes are there and the application takes it: it is not in the log
and not in any receipt, and is dropped when a member is suspected. It comes again: a member that has it keeps
it until it is stable, which it cannot be before it was taken here.
"""

from collections import deque

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK
from thence.core.errors import PeerError
from thence.core.groups import (
    ALL,
    OPERATION,
    Data,
    Flow,
    Fragment,
    FragmentReceipt,
    Post,
    Receipt,
    process_of,
)
from thence.core.message import Message
from thence.members.group import GroupView
from thence.members.spans import Spans
from thence.replica.group.channel.directions import Incoming
from thence.replica.group.channel.links import GroupLinks
from thence.replica.group.ledger.ledger import SWEEP_EVERY, Ledger
from thence.replica.group.ledger.payloads import check_payload
from thence.replica.group.member.rows import MemberRows
from thence.replica.group.receipts.lineage import Lineages
from thence.replica.group.receipts.passing import Passing
from thence.replica.group.receipts.peers import Peers
from thence.replica.group.receipts.schedule import ReceiptScheduler
from thence.replica.group.settings import GroupSettings
from thence.trace.recorder import DUPLICATE, HOLD

APPLICATIONS = bytes((OPERATION,))
"""What an operation begins with."""


class Receiving:
    __slots__ = (
        "_ledger", "_links", "_me", "_passing", "_peers", "_posts", "_rows", "_settings",
        "_view", "_watch", "inbox", "lineages",
    )  # fmt: skip

    def __init__(
        self,
        me: str,
        ledger: Ledger,
        view: GroupView,
        rows: MemberRows,
        peers: Peers,
        links: GroupLinks,
        watch: ReceiptScheduler,
        passing: Passing,
        settings: GroupSettings,
        posts: list[Post],
        start: int,
    ) -> None:
        self._me = me
        self._ledger = ledger
        self._view = view
        self._rows = rows
        self._peers = peers
        self._links = links
        self._watch = watch
        self._passing = passing
        self._settings = settings
        self._posts = posts
        self.inbox: deque[Message] = deque()
        """What may be taken."""
        self.lineages = Lineages(ledger, view, peers, links, posts, self.drop_pending, start)

    def data(self, packet: Data, now: int) -> None:
        """Rule 2."""
        if self._links.used:
            raise PeerError(f"{packet.source} sends datagrams over a session link")
        if packet.target != self._me or packet.source not in self._view.side:
            return
        self._watch.heard(packet.source, now)
        for named in packet.messages:
            if len(self.inbox) + self._ledger.orderer.waiting >= self._settings.pending_max:
                break
            self.accept(self._ledger.message(named), now)

    def flow(self, peer: str, packet: Flow, now: int) -> None:
        """Rule 2, over a session link: the number says that it is meant for this incarnation, and which
        member sent it. What may come under it is bounded by the window that it has."""
        incoming = self._incoming(peer, packet.stream, now)
        if incoming is None:
            return
        if packet.names:
            incoming.learn(packet.first, packet.names)
        came = self._links.came if self._settings.rings else None
        lends = incoming.lends
        for body in packet.bodies:
            message = incoming.read(body)
            if lends and message.dot & ORIGIN_MASK == incoming.own:
                continue  # it comes again, once its JOIN was delivered
            self.accept(message, now)
            if came is not None:
                origin = message.dot & ORIGIN_MASK
                came[origin] = max(came.get(origin, 0), message.dot >> ORIGIN_BITS)

    def fragment(self, peer: str, packet: Fragment, now: int) -> None:
        """The same, of a message that is larger than a packet: its sender hears of each."""
        incoming = self._incoming(peer, packet.stream, now)
        if incoming is None:
            return
        whole = incoming.fragments.add(packet)
        self._posts.append((peer, FragmentReceipt(packet.stream, incoming.fragments.came)))
        if whole is not None:
            self.flow(peer, Flow(packet.stream, 0, (), (whole,)), now)

    def _incoming(self, peer: str, stream: int, now: int) -> Incoming | None:
        """None: the number does not count any more."""
        incoming = self._links.numbered.get(stream)
        if incoming is None or not (incoming.lends or incoming.source in self._view.side):
            return None
        if process_of(incoming.source) != peer:
            raise PeerError(f"{peer} sends under the number that was given to {incoming.source}")
        if not incoming.lends:
            self._watch.heard(incoming.source, now)
        return incoming

    def accept(self, message: Message, now: int) -> None:
        ledger, origin, seq = self._ledger, message.dot & ORIGIN_MASK, message.dot >> ORIGIN_BITS
        if seq <= ledger.counts[origin] or (origin in ledger.settled and not ledger.counts[origin]):
            self._watch.news(now)  # its sender does not know that it is here
            if self._rows.writes:
                self._rows.each(DUPLICATE, message, now)
            return
        if origin in ledger.settled or ledger.names[origin] in self._view.gone:
            raise PeerError(f"{ledger.place(message.dot)} comes after its last message was agreed on")
        if origin == ledger.own_index:
            raise PeerError(f"{ledger.place(message.dot)} was never sent")
        ledger.orderer.check(message)
        if message.payload[:1] != APPLICATIONS:
            message.run = check_payload(message.payload)
        writes = self._rows.writes
        waiting = ledger.orderer.waiting if writes else 0
        released = ledger.orderer.receive(message, 0, now)
        if released:
            self.inbox.extend(released)  # type: ignore[arg-type]  # messages all
        elif writes:  # it waits for its causes, or did already, or for the application
            self._rows.each(HOLD if ledger.orderer.waiting > waiting else DUPLICATE, message, now)

    def receipt(self, packet: Receipt, via: str, now: int) -> None:
        """Rule 5. It came over the link to the process `via`."""
        source, inside = packet.source, packet.source in self._view.side
        grown = None
        if passed := process_of(source) != via:
            known, whole = self._peers.last(source), self._peers.whole(packet)
            if whole is None:
                return
            # What past incarnations mean for the counts is in the last receipt.
            grown = packet.counts if known is not None else None
            packet = whole
            if grown is not None and whole.past is not (known and known.past):
                more = self._all_of(whole, Spans(whole.past))
                packet, grown = whole._replace(counts=whole.counts | more), grown | more
        if grown is None:
            packet = self._spelled(packet)
        if not self.lineages.counted(packet, passed):
            return
        if inside:
            self._watch.heard(source, now)
            self._peers.hold(packet, packet.counts if grown is None else grown, now)
            self._passing.came(packet, via, now)
            few = max(1, 4 * SWEEP_EVERY // len(self._view.view))
            # A leaver has nothing else to wait for.
            self._ledger.unswept += SWEEP_EVERY if self._view.leaving else few
        elif passed and source not in self._view.view and source not in self._view.departing:
            self._passing.keep(packet, via)
        if self._links.used:
            served = self._watch.serves(packet)
            if self._links.receipt(packet):
                self.lineages.first_word(source)
                self._watch.greet([source], now)
                self._passing.greet(now)
            elif served and not packet.via:
                self._watch.greet([source], now)  # it hears of others from themselves again
            if packet.via == self._me:
                self._passing.asked(now)
        elif (inside or source in self._view.departing) and (
            data := self._peers.serve(self._me, packet, now)
        ):
            self._posts.append((process_of(source), data))
        for member in packet.unheard if inside else ():
            if member in self._view.side and (last := self._peers.last_word(member, source)):
                self._posts.append((process_of(source), last))

    def _spelled(self, receipt: Receipt) -> Receipt:
        """An incarnation that is past to the source of a receipt may not be past here."""
        past = self._links.past_of(receipt)
        if not past.version:
            return receipt
        return receipt._replace(counts=receipt.counts | self._all_of(receipt, past), past=past.all)

    def _all_of(self, receipt: Receipt, past: Spans) -> dict[str, int]:
        """Those that are not counted one by one, since they are past."""
        return {name: ALL for name in self._ledger.spoken() if name not in receipt.counts and name in past}

    def drop_pending(self) -> None:
        """What was received and not delivered may have come from, or through, a member that is not believed
        any more; if it is good, it comes again from another."""
        self.inbox.clear()
        self._ledger.orderer.forget(self._ledger.delivered_counts())
        self._links.dropped()
        self._passing.dropped()

    def knows_running(self, receipt: Receipt) -> bool:
        """Did the last receipt of its source say the same of what runs there?"""
        last = self._peers.last(receipt.source)
        return last is not None and last.running == receipt.running

    def trusts(self, peer: str) -> bool:
        """May this process pass on what another member said? It runs a member of this one's side."""
        return any(process_of(name) == peer for name in self._view.side)
