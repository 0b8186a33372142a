"""One incarnation in a changing group: rules 1 to 7, 9 to 14 and 16 to 19 of docs/protocols/membership.md.

Its parts are made here, and what it says and when: `receiving` (what comes), `delivery` (what that does),
`membership` (changes of the view), `stability`, and, as the one that others join through, `contact`.
*Delivered* means taken by the application: what was released and not taken waits in the inbox.

Invariants. Whatever leaves this member is in its log by then (the driver commits first). A message stays in
the log, for members that lack it, from its delivery to its stability. Replaying the log gives the same
member, but for rows, which fall back to what the messages tell.
"""

from collections.abc import Mapping, Sequence

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK, STEP
from thence.core.group_sizes import CONTEXT_MAX, small_max
from thence.core.groups import (
    CARRY,
    Data,
    Extent,
    Lineage,
    Offer,
    Piece,
    Post,
    Receipt,
    Running,
    Span,
    process_of,
    started,
)
from thence.core.message import Message
from thence.core.runs import in_runs, run_payload
from thence.core.tag import Tag
from thence.members.group import GroupView
from thence.members.operations import Operations
from thence.members.spans import Spans
from thence.oplog.log import OpLog
from thence.replica.group.channel.links import GroupLinks, Wires
from thence.replica.group.ledger.ledger import Ledger
from thence.replica.group.ledger.payloads import Carried, carry_payload
from thence.replica.group.ledger.state import MemberState, Sources
from thence.replica.group.member.delivery import Delivery
from thence.replica.group.member.membership import Membership
from thence.replica.group.member.receiving import APPLICATIONS, Receiving
from thence.replica.group.member.rows import MemberRows
from thence.replica.group.member.stability import Stability
from thence.replica.group.member.tag_book import TagBook
from thence.replica.group.receipts.passing import Passing
from thence.replica.group.receipts.peers import Peers
from thence.replica.group.receipts.schedule import ReceiptScheduler
from thence.replica.group.settings import GroupSettings
from thence.replica.group.surroundings import Application, Diary
from thence.replica.group.transfer.admission import Contact, StateSender
from thence.replica.group.transfer.carrying import Carrying
from thence.replica.group.transfer.handover import at_once, state_of
from thence.replica.group.transfer.reading import Reading
from thence.replica.life_tag import SentRuns
from thence.trace.recorder import DELIVER


class Member:
    __slots__ = (
        "_application", "_freed", "_gate", "_many", "_much", "_passing", "_peers", "_posts", "_rows",
        "_settings", "_small_max", "_start", "_took", "_watch", "_wires", "book", "carrying", "changes",
        "contact", "delivery", "inbox", "ledger", "lineages", "links", "me", "membership", "operations",
        "reading", "receiving", "stability", "view",
    )  # fmt: skip

    def __init__(
        self,
        me: str,
        log: OpLog,
        state: MemberState,
        ledger: Ledger,
        operations: Operations,
        book: TagBook,
        application: Application,
        diary: Diary,
        settings: GroupSettings,
        posts: list[Post],
        wires: Wires,
        now: int,
        start: int = 0,
    ) -> None:
        """`start`: the number of this start of the process; 0: it has none."""
        self.me = me
        self._start = start
        self.ledger = ledger
        self.view = GroupView(
            me,
            state.view,
            state.suspects,
            state.gone,
            state.departing,
            {name: set(flushed) for name, flushed in state.flushed.items()},
            dict(state.addresses),
            dict(state.closing),
            Spans(state.closed),
            ledger.past,
            Spans(state.spent),
            state.unknown,
            state.abandoned,
        )
        self.operations = operations
        self.book = book
        self.carrying = Carrying(ledger, self.view, self.operations, state, settings.frame_bytes)
        self.reading = Reading(log, state, sum(ledger.counts))
        self._application = application
        self._settings = settings
        self._posts = posts
        self._wires = wires
        self._rows = rows = MemberRows(me, diary, ledger, state.stable)
        self._peers = peers = Peers(ledger, self.view, settings)
        self._gate = gate = StateSender(log, settings)
        self.links = links = GroupLinks(ledger, self.view, settings, posts, wires)
        self._watch = watch = ReceiptScheduler(
            ledger, self.view, peers, links, gate, settings, posts, now, start
        )  # fmt: skip
        self._passing = passing = Passing(me, self.view, peers, links, settings, posts, watch.passes)
        self.receiving = receiving = Receiving(
            me, ledger, self.view, rows, peers, links, watch, passing, settings, posts, start
        )
        self.inbox = receiving.inbox
        self.lineages = receiving.lineages
        self.carrying.disowns = self.lineages.disowns
        self.membership = Membership(
            me, ledger, self.view, application, rows, peers, gate, links, watch, passing, receiving,
            self.broadcast, settings.unheard_us,
        )  # fmt: skip
        self.changes = self.membership.changes
        self.delivery = Delivery(
            me, ledger, operations, book, self.carrying, self.reading, application, receiving, self.membership
        )
        self.stability = Stability(
            me, log, ledger, self.view, operations, book, self.reading, application, rows, peers, links,
            self.membership, receiving, settings, posts,
        )  # fmt: skip
        self.contact = Contact(
            me, log, ledger, self.view, links, gate, settings, self._state, self.broadcast, self._post
        )
        self._freed = self._took = 0
        """Bytes that were delivered since the last receipts, and messages."""
        self._much, self._many = settings.window_bytes // 4, max(1, settings.window // 4)
        """Of each: others may wait for room."""
        self._small_max = small_max(settings.record_bytes)

    # Sending

    def operations_of(self, payloads: Sequence[bytes], most: int, now: int) -> SentRuns:
        """Operations of the program, in as few messages as hold them. `most`: bytes of a payload."""
        if len(payloads) == 1:
            sent = [(self._send(APPLICATIONS + payloads[0], 1, now), 1)]
        else:
            runs = in_runs(payloads, min(most, self._settings.packet_bytes))
            sent = [(self._send(run_payload(run), len(run), now, list(run)), len(run)) for run in runs]
        if self.view.suspects:
            self.membership.flush(now)
        return SentRuns(self.me, self.book, sent, len(payloads))

    def broadcast(self, kind: int, body: bytes, now: int) -> None:
        """A message about the group."""
        self._send(bytes((kind,)) + body, 1, now)
        if self.view.suspects:
            self.membership.flush(now)

    def _send(self, payload: bytes, span: int, now: int, run: list[bytes] | None = None) -> Tag:
        """Rule 1: tagged with everything that was delivered here, delivered here, sent to all."""
        ledger = self.ledger
        large = len(payload) > self._small_max
        if large and len(ledger.tagger.frontier()) > CONTEXT_MAX:
            self.broadcast(CARRY, carry_payload(Carried([])), now)
        if unnamed := ledger.timelines.unnamed(self.me, ledger.counts[ledger.own_index], self._start):
            payload = started(unnamed, payload)
        message = ledger.tagger.tag(payload, (), span)
        message.run = run
        seq = message.dot >> ORIGIN_BITS
        ledger.orderer.sent(message, now)
        if self._rows.writes:
            self._rows.sent(message, now)
        data = ledger.write(message)
        if self._wires.used:
            self.links.send(message.before >> ORIGIN_BITS, seq, data)
        else:
            named = ledger.named(message)
            for member in sorted((self.view.side - {self.me}) | self.view.departing.keys()):
                self._post(member, Data(self.me, member, (named,)))
        return self.delivery.deliver(message, now)

    # Delivering

    def take(self, now: int) -> None:
        """Rule 3: the application takes the next message."""
        message, ledger = self.inbox.popleft(), self.ledger
        ledger.tagger.took(message)
        if self._rows.writes:
            self._rows.each(DELIVER, message, now)
        data = ledger.write(message)
        if self.links.relaying:
            dot = message.dot
            before, seq = message.before >> ORIGIN_BITS, dot >> ORIGIN_BITS
            self.links.forward(ledger.names[dot & ORIGIN_MASK], before, seq, data)
        self.delivery.deliver(message, now)
        if self.view.suspects:
            self.membership.flush(now)
        self._freed += len(data)
        self._took += (message.dot - message.before) // STEP

    def has_taken(self, now: int) -> None:
        """Others are to hear of it: soon, or at once if they may wait for room."""
        if self._freed < self._much and self._took < self._many:
            self._watch.news(now)
        else:
            self._watch.urgent(now)

    def replay(self, message: Message, now: int) -> None:
        """Rule 3 again, from the log, after a restart."""
        ledger = self.ledger
        if message.dot & ORIGIN_MASK == ledger.own_index:
            self._rows.sent(message, now)
        else:
            self._rows.each(DELIVER, message, now)
        ledger.tagger.recall(message)
        ledger.orderer.sent(message, now)
        self.delivery.deliver(message, now)

    def recovered(
        self, seen: list[int], stable: tuple[int, ...], notes: Mapping[int, bytes], now: int
    ) -> None:
        """The log was replayed: of what was seen so much had been announced, and these joiners had been heard
        of."""
        self._gate.recall(notes)
        self.reading.recall(notes)
        self.stability.recovered(seen, stable, now)

    def mute(self) -> None:
        """Nothing that happens here from now on is for its trace."""
        self._rows.close()

    @property
    def drained(self) -> bool:
        """Everything is delivered, stable and settled, as far as this member knows."""
        return self.ledger.window.drained and not self.trouble()

    def trouble(self) -> str:
        """What keeps this member from being drained, for people."""
        ledger = self.ledger
        parts = {
            "unstable": len(ledger.window),
            "behind": [ledger.names[index] for index in ledger.window.behind()],
            "to take": len(self.inbox),
            "waiting": ledger.orderer.waiting,
            "suspects": sorted(self.view.open),
            "departing": sorted(self.view.departing),
            "orphans": len(self.operations.orphans),
        }
        return ", ".join(f"{what} {value}" for what, value in parts.items() if value)

    @property
    def left_for_good(self) -> bool:
        """Rule 15: the own leave is stable."""
        return 0 < self.view.leaving <= self.ledger.stable(self.me)

    # What it had, and others have not

    @property
    def may_carry(self) -> bool:
        """Is there anything to carry, or to be said of it?"""
        carrying = self.carrying
        return bool(self.operations.orphans) or carrying.must_announce or carrying.unfinished

    def carry(self, now: int) -> None:
        """Rules 23 and 25: send again what the group never had, and say when that was all."""
        for carried in [] if self.view.leaving else self.carrying.due():
            self.broadcast(CARRY, carry_payload(carried), now)

    def _close(self, running: Running, now: int) -> None:
        """Rule 25. Spent incarnations, which each member could close, are closed by the first of the side."""
        view = self.view
        if view.leaving or not (view.suspects or view.strangers or self.carrying.settled_before):
            return
        settled = self.carrying.settled(running)
        if (spent := self.carrying.closable()) and min(view.side) == self.me:
            settled = settled._replace(closed=(*settled.closed, *spent))
        if settled.closed or settled.spent:
            self.broadcast(CARRY, carry_payload(settled), now)

    def bury(self, spans: tuple[Span, ...], now: int) -> None:
        self.broadcast(CARRY, carry_payload(Carried([], spans)), now)

    # Letting others in

    @property
    def expects_joiners(self) -> bool:
        """A joiner was let in here and was not heard of yet: a restart must still know that."""
        return self._gate.busy

    def state(self) -> MemberState:
        """Rule 10, for joiners. All of it at once."""
        return at_once(*self._state(True))

    def written(self) -> tuple[MemberState, Sources]:
        """The same for this member itself: what is in its log is left out, and its program is still to be
        made."""
        return self._state(False)

    def _state(
        self, joins: bool, extent: Extent | None = None, forgetful: bool = False
    ) -> tuple[MemberState, Sources]:
        """`extent`: rule 33."""
        ledger, reading, program = self.ledger, self.reading, self._application
        return state_of(ledger, self.view, self.operations, reading, program, joins, extent, forgetful)

    # Time

    def news(self, now: int) -> None:
        """Something happened that others should hear of soon."""
        self._watch.news(now)

    @property
    def wake_at(self) -> int:
        if self.ledger.window.unfinished or self.links.lacking or self._gate.unfinished:
            return 0
        if self.carrying.unfinished and not self.view.leaving:
            return 0
        watch, at = self._watch, self._passing.at
        if watch.at < at:
            at = watch.at
        return watch.hasty_at if watch.hasty_at < at else at

    def tick(self, running: Running, now: int) -> None:
        """Rules 4 and 16: tell what was delivered; notice silent members."""
        self.stability.sweep(now, 1)
        self._gate.go_on()
        self.contact.post_pieces()
        self._close(running, now)
        if now >= self._passing.at:
            self._passing.pass_on(now)
        if now < self._watch.at:
            if now >= self._watch.hasty_at:
                self._watch.tell_hasty(running, self.drained, now)
            return
        self._freed = self._took = 0
        self._watch.tell(running, self.drained, now)
        if self._watch.branched:
            self._watch.branched = False
            self._passing.greet(now)
        if missed := self._watch.missed(now):
            self.membership.suspect(missed, now)

    def about(self, running: Running, now: int) -> Receipt:
        return self._watch.about(running, self.drained, now)

    # Links

    def lineage(self, packet: Lineage, highest: int) -> None:
        """Rule 31. `highest`: of the numbers that the process ever reserved, as far as its disk tells."""
        self.lineages.heard(packet, highest)

    def up(self, process: str, now: int) -> None:
        """A session link came up: its other end is told what is here, and says the same."""
        self.links.up(process)
        self._gate.relinked(process)
        self.lineages.link(process)
        known = self.view.view | self.view.departing.keys()
        self._watch.greet([name for name in sorted(known) if process_of(name) == process], now)

    def down(self, process: str, now: int) -> None:
        self.links.down(process)
        self.lineages.link(process)
        if self._settings.rings:  # others are to be asked for what came this way
            self._watch.soon(now)
        else:
            self._watch.news(now)

    def committed(self) -> None:
        """The log was written: nothing has to be remembered for it."""
        self.ledger.uncommitted.clear()
        if self._gate.spent:
            self._gate.step_over()
        if self.carrying.spent:
            self.carrying.step_over()

    def _post(self, member: str, packet: Data | Offer | Piece) -> None:
        self._posts.append((process_of(member), packet))
