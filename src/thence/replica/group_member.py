"""One incarnation in a changing group: rules 1 to 7, 9 to 14 and 16 to 19 of docs/protocols/membership.md.

Routes between ledger, peers, gate, view, operations, log and diary. *Delivered* means taken by the
application: what was released and not taken waits in the inbox, is not in the log and not in any receipt,
and is dropped with everything else that is pending when somebody is suspected. It comes again: whoever sent
it keeps it until it is stable, which it cannot be before it was taken here.

Invariants. Whatever leaves this member is in its log by then (the driver commits first). A message stays in
the log, for whoever lacks it, from its delivery to its stability. Replaying the log gives the same member,
but for rows, which fall back to what the messages tell.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK
from thence.core.errors import PeerError
from thence.core.group_sizes import CONTEXT_MAX, is_large, names_fit
from thence.core.groups import (
    ALL,
    CARRY,
    FLUSH,
    JOIN,
    LEAVE,
    OPERATION,
    RUN,
    STARTED,
    Data,
    Extent,
    Farewell,
    Flow,
    Fragment,
    FragmentReceipt,
    JoinRequest,
    Lineage,
    Offer,
    Piece,
    Place,
    Post,
    Receipt,
    Running,
    Span,
    number_of,
    plain,
    process_of,
    started,
    starts_named,
)
from thence.core.message import Message
from thence.core.runs import in_runs, payload_run, run_payload
from thence.core.tag import Tag
from thence.members.group import Changes, GroupView
from thence.members.operations import Operation, Operations
from thence.members.spans import Spans
from thence.oplog.log import OpLog
from thence.replica.group_carrying import Carrying
from thence.replica.group_gate import Gate
from thence.replica.group_handover import at_once, state_of
from thence.replica.group_ledger import Ledger
from thence.replica.group_lineage import Lineages
from thence.replica.group_links import Incoming, Links, Wires
from thence.replica.group_making import Making
from thence.replica.group_parts import Application, Applied, Closed, Diary, OperationRun, TakesRuns
from thence.replica.group_passing import Passing
from thence.replica.group_peers import Peers
from thence.replica.group_reading import Reading
from thence.replica.group_retained import operations_in, operations_of
from thence.replica.group_settings import GroupSettings
from thence.replica.group_state import (
    Carried,
    GroupState,
    Sources,
    carries,
    carry_payload,
    check_payload,
    encoding,
    flush_payload,
    join_payload,
    payload_carry,
    payload_flush,
    payload_join,
)
from thence.replica.group_tags import TagBook
from thence.replica.group_watch import Watch
from thence.replica.life_tag import LifeTag, SentRuns
from thence.replica.positions import PART_BITS, place_of
from thence.trace.recorder import DELIVER, DUPLICATE, EVICT, HOLD, SEND, STABLE
from thence.trace.recorder import LEAVE as LEAVE_ROW

LEAVERS_MAX = 64
"""More than ever leave at the same time."""

SWEEP_EVERY = 64
"""Messages after which to look for what has become stable, if nothing else is a reason before: looking costs
about as much as delivering one."""

APPLICATIONS = bytes((OPERATION,))
"""What an operation begins with."""


CHANGES_KEPT = 64


class Member:
    __slots__ = (
        "_application", "_begun", "_diary", "_freed", "_gate", "_last_part", "_log", "_passing", "_peers",
        "_position", "_posts", "_rows", "_runs", "_settings", "_start", "_took", "_watch", "_withheld",
        "abandoned_by", "book", "carrying", "changes", "inbox", "leavers", "ledger", "lineages", "links",
        "me", "operations", "reading", "unswept", "view",
    )  # fmt: skip

    def __init__(
        self,
        me: str,
        log: OpLog,
        state: GroupState,
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
        """`start`: the number of this start of the process; 0: nobody asks."""
        self.me = me
        self._position = place_of(number_of(me), 0)
        self._start = start
        self.inbox: deque[Message] = deque()
        self.ledger = ledger
        self.view = GroupView(
            me,
            set(state.view),
            set(state.suspects),
            dict(state.gone),
            dict(state.departing),
            {name: set(flushed) for name, flushed in state.flushed.items()},
            dict(state.addresses),
            dict(state.closing),
            Spans(state.closed),
            ledger.past,
            Spans(state.spent),
            set(state.unknown),
            set(state.abandoned),
        )
        self.operations = operations
        self.book = book
        self.carrying = Carrying(ledger, self.view, self.operations, state, settings.frame_bytes)
        self.reading = Reading(log, state, sum(ledger.counts))
        self.abandoned_by: set[str] = set()
        """Of a leaver's side: who runs no more, and will not hear its leave."""
        self.leavers: deque[str] = deque(maxlen=LEAVERS_MAX)
        """Who has left, the last of them: they may not know yet that they may go."""
        self._application = application
        self._runs = application.apply_run if isinstance(application, TakesRuns) else None
        self._diary = diary
        self._log = log
        self._settings = settings
        self._posts = posts
        self._peers = Peers(self.ledger, self.view, settings)
        self._gate = Gate(log, settings)
        self.links = Links(self.ledger, self.view, settings, posts, wires)
        self.lineages = Lineages(
            self.ledger, self.view, self._peers, self.links, posts, self._drop_pending, start
        )
        self.carrying.disowns = self.lineages.disowns
        self._passing = Passing(me, self.view, self._peers, self.links, settings, posts)
        self._watch = Watch(
            self.ledger, self.view, self._peers, self.links, self._gate, settings, posts, now, start
        )  # fmt: skip
        self.changes: deque[Changes] = deque(maxlen=CHANGES_KEPT)
        """Of the view, for the world to tell people of; the oldest go first where it does not."""
        self._withheld: dict[str, LifeTag] = {}
        """By origin, the last operation that is stable and was not told as that: somebody who may return has
        not had it. Only where that is waited for."""
        if settings.stable_waits:
            self._withhold([(operation.dot, None) for operation in operations.inherited])
        self.unswept = 1
        """What was delivered or heard since somebody last looked for what is stable."""
        self._begun = {name: count for name, count in state.stable.items() if name not in ledger.past}
        self._rows: dict[int, int] = {}
        """By index, up to where messages were told as stable; before the first, as in the state."""
        self._last_part = 0
        """Of the last message: how many operations it brought, if that is not one of its own name."""
        self._freed = self._took = 0
        """Bytes that were delivered since the last receipts, and messages."""

    # Sending and delivering

    def operations_of(self, payloads: Sequence[bytes], most: int, now: int) -> SentRuns:
        """Operations of the program, in as few messages as hold them. `most`: bytes of a payload."""
        sent = []
        for run in in_runs(payloads, min(most, self._settings.packet_bytes)):
            span = len(run)
            sent.append((self._send(run_payload(run), span, now), span))
        if self.view.suspects:
            self.flush(now)
        return SentRuns(self.me, self.book, sent, len(payloads))

    def broadcast(self, kind: int, body: bytes, now: int) -> None:
        """A message about the group."""
        self._send(bytes((kind,)) + body, 1, now)
        if self.view.suspects:
            self.flush(now)

    def _send(self, payload: bytes, span: int, now: int) -> Tag:
        """Rule 1: tagged with everything that was delivered here, delivered here, sent to all."""
        ledger = self.ledger
        if is_large(payload, self._settings.record_bytes) and len(ledger.tagger.frontier()) > CONTEXT_MAX:
            self.broadcast(CARRY, carry_payload(Carried([])), now)
        if unnamed := ledger.timelines.unnamed(self.me, ledger.counts[ledger.mine], self._start):
            payload = started(unnamed, payload)
        message = ledger.tagger.tag(payload, (), span)
        seq = message.dot >> ORIGIN_BITS
        ledger.orderer.sent(message, now)
        if self._diary.writes:
            self._tell_sent(message, now)
        data = ledger.write(message)
        if self.links.used:
            self.links.send(message.before >> ORIGIN_BITS, seq, data)
        else:
            named = ledger.named(message)
            for member in sorted((self.view.side - {self.me}) | self.view.departing.keys()):
                self._post(member, Data(self.me, member, (named,)))
        return self._delivered(message, now)

    def _tell_sent(self, message: Message, now: int) -> None:
        """Of a run, each operation follows from the one before it."""
        deps, carried = self.ledger.places(message.context), self._carries(message.payload)
        for seq in _seqs(message):
            self._diary.row(SEND, (self.me, seq), deps, now, carried)
            deps = ((self.me, seq),)

    def _tell_each(self, kind: int, message: Message, now: int) -> None:
        """Of a run, a row for each operation."""
        origin = self.ledger.names[message.dot & ORIGIN_MASK]
        for seq in _seqs(message):
            self._diary.row(kind, (origin, seq), None, now)

    def _tell_stable_up_to(self, dot: int, now: int) -> None:
        """Of each origin messages become stable in order."""
        at, name = dot & ORIGIN_MASK, self.ledger.names[dot & ORIGIN_MASK]
        for seq in range(self._rows.get(at, self._begun.get(name, 0)) + 1, (dot >> ORIGIN_BITS) + 1):
            self._diary.row(STABLE, (name, seq), None, now)
        self._rows[at] = dot >> ORIGIN_BITS

    def _carries(self, payload: bytes) -> tuple[Place, ...]:
        return self.ledger.timelines.traced(carries(payload), self.ledger.count)

    def take(self, now: int) -> None:
        """Rule 3: the application takes the next message."""
        message, ledger = self.inbox.popleft(), self.ledger
        ledger.tagger.took(message)
        if self._diary.writes:
            self._tell_each(DELIVER, message, now)
        data = ledger.write(message)
        if self.links.relaying:
            dot = message.dot
            before, seq = message.before >> ORIGIN_BITS, dot >> ORIGIN_BITS
            self.links.forward(ledger.names[dot & ORIGIN_MASK], before, seq, data)
        self._delivered(message, now)
        if self.view.suspects:
            self.flush(now)
        self._freed += len(data)
        self._took += message.span

    @property
    def position(self) -> int:
        """Of what was delivered last."""
        return self._position + place_of(0, self.ledger.delivered, self._last_part)

    def has_taken(self, now: int) -> None:
        """Others are to hear of it: soon, or at once if they may wait for room."""
        settings = self._settings
        if self._freed < settings.window_bytes // 4 and self._took < max(1, settings.window // 4):
            self._watch.news(now)
        else:
            self._watch.urgent(now)

    def read(self) -> None:
        """Rule 33: a program without a state takes the next of what it had missed."""
        reading = self.reading
        what = reading.read()
        if isinstance(what, Operation):
            self._application.missed(what, *self.missed(what, reading.count))
        else:
            self._application.lost(what, reading.holders, self._position)

    def missed(self, operation: Operation, count: int) -> tuple[LifeTag, int]:
        """Tag and position of what its program had missed, the `count`th of it."""
        inner = self.book.known((operation.origin, operation.seq))
        tag = LifeTag(inner, self.me, operation.dot, self.book)
        return tag, self._position + min(count, place_of(0, self.reading.begun))

    def replay(self, message: Message, now: int) -> None:
        """Rule 3 again, from the log, after a restart."""
        ledger = self.ledger
        if message.dot & ORIGIN_MASK == ledger.mine:
            self._tell_sent(message, now)
        else:
            self._tell_each(DELIVER, message, now)
        ledger.tagger.recall(message)
        ledger.orderer.sent(message, now)
        self._delivered(message, now)

    def _delivered(self, message: Message, now: int) -> Tag:
        """What a delivery does, whoever sent the message and whether or not it is for the first time."""
        ledger, payload = self.ledger, message.payload
        tag = ledger.see(message)
        self.unswept += 1
        kind = payload[0]
        if kind == STARTED:
            name, before = ledger.place(message.dot)[0], message.before >> ORIGIN_BITS
            for start in starts_named(payload):
                ledger.timelines.began(name, before, start)
            payload = plain(payload)
            kind = payload[0]
            self.lineages.judge()
            if name != self.me:
                # What waits, or is under way, may follow from what was sent under another start. Whoever sent
                # it hears of this start before it is asked for more.
                self._drop_pending()
        elif self.lineages.odd:
            self.lineages.judge()
        if kind == OPERATION:
            at = message.dot & ORIGIN_MASK
            origin, seq = ledger.names[at], message.dot >> ORIGIN_BITS
            operation = Operation(origin, seq, payload[1:])
            self._last_part = 0
            if self.reading.before is None and not self.operations.carried:  # none came before
                position = self._position + (ledger.delivered << PART_BITS)
                known = LifeTag(tag, self.me, (origin, seq), self.book)
                self._application.apply(Applied(operation, at == ledger.mine, known, False, position))
            elif self.operations.came(operation, ledger.timelines.exactly):
                self._apply(operation, at == ledger.mine, tag, 0)
        elif kind == RUN:
            self._apply_run(message, payload, tag)
        elif kind == CARRY:
            carried = payload_carry(payload)
            self.book.came(message)
            for part, named in enumerate(carried.operations, 1):
                place = ledger.timelines.exactly((named.origin, named.seq))
                operation = Operation(*place, named.payload, named.context)
                if self.operations.was_carried(operation, ledger.count):
                    ledger.timelines.carried(place)
                    self._apply(operation, False, tag, part, carried=True)
            self._last_part = len(carried.operations)
            self.carrying.came(ledger.place(message.dot), carried)
        else:
            self._last_part = 0
            self.book.came(message)
            self._membership(kind, message.dot, payload, now)
        return tag

    def _apply_run(self, message: Message, payload: bytes, tag: Tag) -> None:
        ledger, operations = self.ledger, self.operations
        own = message.dot & ORIGIN_MASK == ledger.mine
        self._last_part = message.span
        if self._runs is not None and self.reading.anew and not operations.carried:
            origin, first = ledger.names[message.dot & ORIGIN_MASK], (message.before >> ORIGIN_BITS) + 1
            position = self._position + place_of(0, ledger.delivered)
            self._runs(
                OperationRun(origin, first, payload_run(payload), tag, self.me, self.book, position, own)
            )
            return
        for part, operation in enumerate(operations_in(ledger.place(message.dot), payload), 1):
            if operations.came(operation, ledger.timelines.exactly):
                self._apply(operation, own, tag, part)

    def _apply(self, operation: Operation, own: bool, tag: Tag, part: int, carried: bool = False) -> None:
        again = self.reading.had((operation.origin, operation.seq), self.ledger.timelines.exactly)
        position = self._position + place_of(0, self.ledger.delivered, part)
        named = LifeTag(tag, self.me, operation.dot, self.book)
        self._application.apply(Applied(operation, own, named, again, position, carried))

    def _membership(self, kind: int, dot: int, payload: bytes, now: int) -> None:
        origin, seq = self.ledger.place(dot)
        own = origin == self.me
        names: tuple[str, ...] = ()
        past: tuple[Span, ...] = ()
        if kind == FLUSH:
            names, past = payload_flush(payload)
        elif kind == JOIN:
            names = (self._joins(origin, seq, payload, now),)
        changes = self.view.deliver(origin, seq, kind, names, self.ledger.count, past)
        if kind == LEAVE and not own:
            self.leavers.append(origin)
        if kind == LEAVE and own:
            self._peers.upto = self.links.upto = list(self.ledger.counts)
            self._diary.row(LEAVE_ROW, None, None, now)
            self._diary = Closed()  # what it still takes part in concerns nobody's application
        self._changed(changes, dot, now)

    def _joins(self, contact: str, seq: int, payload: bytes, now: int) -> str:
        joiner, address, since = payload_join(payload)
        if joiner not in self.view.past:
            self.view.addresses[joiner] = address
            self._watch.coming[joiner] = contact
        if since:  # all attempts before this one came to nothing, and it has nothing from before them
            self.view.closed.add(process_of(joiner), since, number_of(joiner) - 1)
            self.view.abandon(process_of(joiner), since)
        if contact == self.me:
            self._gate.opened(joiner, seq, now)
        return joiner

    def _changed(self, changes: Changes, dot: int, now: int) -> None:
        if not changes:
            return
        ledger, view = self.ledger, self.view
        for member in changes.joined:
            ledger.window.enter(ledger.number(member), dot)
        for member in changes.left + changes.evicted:
            ledger.window.drop(ledger.number(member))
        for member in changes.left + changes.suspected:
            self._peers.forget(member)
        for member in changes.evicted:
            self._peers.gone(member)
        if changes.suspected or changes.evicted:
            self._drop_pending()
        for member in changes.evicted:
            self._diary.row(EVICT, (member, view.gone[member].last), None, now)
        self.changes.append(changes)
        self._application.view_changed(tuple(sorted(view.view)), self.me)
        self.unswept += 1
        self.links.reconsider()
        self.lineages.judge()
        if self.links.used and (changes.suspected or changes.evicted):
            self._watch.urgent(now)
        else:
            self._watch.greet(changes.joined, now)
            self._watch.part(changes.left, now)

    def _drop_pending(self) -> None:
        """What was received and not delivered may have come from, or through, somebody who is not believed
        any more; if it is good, it comes again from somebody who is."""
        self.inbox.clear()
        self.ledger.orderer.forget(self.ledger.reached())
        self.links.dropped()

    def flush(self, now: int) -> None:
        """Rule 17: say whom this member suspects, before it accepts anything else."""
        owed = self.view.owed()
        if owed:
            self.broadcast(FLUSH, flush_payload(owed, ()), now)

    def arrived(self, now: int) -> None:
        """Rule 10: the state is installed. Others may wait for a flush of whoever is past here."""
        if self.view.suspects or len(self.view.past):
            self.broadcast(FLUSH, flush_payload(self.view.owed(), self.view.past), now)

    def suspect(self, members: list[str], now: int) -> None:
        if self.view.leaving:
            return
        self._changed(self.view.suspect(members), 0, now)
        self.flush(now)

    def ghosts(self, running: Running, now: int) -> None:
        """Rule 16: incarnations that their own process does not run, nor try to become, are dead."""
        process, known = running.process, (self.me, running.member, running.attempt)
        alike = [name for name in self.view.view if name.startswith(process) and name not in known]
        dead = [
            name
            for name in sorted(alike)
            if process_of(name) == process and number_of(name) <= running.highest and name in self.view.side
        ]
        if dead:
            self.abandoned_by.update(dead if self.view.leaving else ())
            self.suspect(dead, now)

    def knows_running(self, receipt: Receipt) -> bool:
        """Did the last receipt of its source say the same of what runs there?"""
        last = self._peers.last(receipt.source)
        return last is not None and last.running == receipt.running

    def trusts(self, peer: str) -> bool:
        """May this process pass on what another member said? It runs a member of this one's side."""
        return any(process_of(name) == peer for name in self.view.side)

    def deserted(self, now: int) -> bool:
        """Of a leaver: does nobody of its side run any more, or can nobody be heard? Then its leave will be
        stable late or never, and who was evicted must hear of it."""
        others = sorted(self.view.side - self.abandoned_by)
        return len(self._peers.silent(others, now - self._settings.unheard_us, now)) == len(others)

    @property
    def may_carry(self) -> bool:
        """Is there anything to carry, or to be said of it?"""
        carrying = self.carrying
        return bool(self.operations.orphans) or carrying.owes or carrying.unfinished

    def carry(self, now: int) -> None:
        """Rules 23 and 25: send again what the group never had, and say when that was all."""
        for carried in [] if self.view.leaving else self.carrying.due():
            self.broadcast(CARRY, carry_payload(carried), now)

    def _close(self, running: Running, now: int) -> None:
        """Rule 25. Of several who could say that those are closed who have forgotten something, one does."""
        view = self.view
        if view.leaving or not (view.suspects or view.strangers or self.carrying.ended):
            return
        settled = self.carrying.settled(running)
        if (spent := self.carrying.closable()) and min(view.side) == self.me:
            settled = settled._replace(closed=(*settled.closed, *spent))
        if settled.closed or settled.spent:
            self.broadcast(CARRY, carry_payload(settled), now)

    def bury(self, spans: tuple[Span, ...], now: int) -> None:
        self.broadcast(CARRY, carry_payload(Carried([], spans)), now)

    # Receiving

    def data(self, packet: Data, now: int) -> None:
        """Rule 2."""
        if self.links.used:
            raise PeerError(f"{packet.source} sends datagrams over a session link")
        if packet.target != self.me or packet.source not in self.view.side:
            return
        self._watch.heard(packet.source, now)
        for named in packet.messages:
            if len(self.inbox) + self.ledger.orderer.waiting >= self._settings.pending_max:
                break
            self.accept(self.ledger.message(named), now)

    def flow(self, peer: str, packet: Flow, now: int) -> None:
        """Rule 2, over a session link: the number says that it is meant for this incarnation, and by whom it
        was sent. What may come under it is bounded by the window that it has."""
        incoming = self._incoming(peer, packet.stream, now)
        if incoming is None:
            return
        if packet.names:
            incoming.learn(packet.first, packet.names)
        came = self.links.came if self._settings.rings else None
        for body in packet.bodies:
            message = incoming.read(body)
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
        self._posts.append(Post(peer, FragmentReceipt(packet.stream, incoming.fragments.came)))
        if whole is not None:
            self.flow(peer, Flow(packet.stream, 0, (), (whole,)), now)

    def _incoming(self, peer: str, stream: int, now: int) -> Incoming | None:
        """None: the number does not count any more."""
        incoming = self.links.numbered.get(stream)
        if incoming is None or incoming.source not in self.view.side:
            return None
        if process_of(incoming.source) != peer:
            raise PeerError(f"{peer} sends under the number that was given to {incoming.source}")
        self._watch.heard(incoming.source, now)
        return incoming

    def accept(self, message: Message, now: int) -> None:
        ledger, origin, seq = self.ledger, message.dot & ORIGIN_MASK, message.dot >> ORIGIN_BITS
        if seq <= ledger.counts[origin] or (origin in ledger.quiet and not ledger.counts[origin]):
            self._watch.news(now)  # its sender does not know that it is here
            if self._diary.writes:
                self._tell_each(DUPLICATE, message, now)
            return
        if origin in ledger.quiet or ledger.names[origin] in self.view.gone:
            raise PeerError(f"{ledger.place(message.dot)} comes after its last message was agreed on")
        if origin == ledger.mine:
            raise PeerError(f"{ledger.place(message.dot)} was never sent")
        ledger.orderer.check(message)
        if message.payload[:1] != APPLICATIONS:
            check_payload(message.payload)
        writes = self._diary.writes
        waiting = ledger.orderer.waiting if writes else 0
        released = ledger.orderer.receive(message, 0, now)
        self.inbox.extend(released)  # type: ignore[arg-type]  # messages all
        if writes and not released:  # it waits for its causes, or did already, or for the application
            self._tell_each(HOLD if ledger.orderer.waiting > waiting else DUPLICATE, message, now)

    def receipt(self, packet: Receipt, via: str, now: int) -> None:
        """Rule 5. It came over the link to the process `via`."""
        source, inside = packet.source, packet.source in self.view.side
        grown = None
        if passed := process_of(source) != via:
            known, whole = self._peers.last(source), self._peers.whole(packet)
            if whole is None:
                return
            # What it means for the counts who was past before is in the last receipt.
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
            few = max(1, 4 * SWEEP_EVERY // len(self.view.view))
            self.unswept += SWEEP_EVERY if self.view.leaving else few  # it has nothing else to wait for
        if self.links.used:
            served = self._watch.serves(packet)
            if self.links.receipt(packet):
                self.lineages.first_word(source)
                self._watch.greet([source], now)
                self._passing.greet(now)
            elif served and not packet.via:
                self._watch.greet([source], now)  # it hears of others from themselves again
            if packet.via == self.me:
                self._passing.asked(now)
        elif (inside or source in self.view.departing) and (data := self._peers.serve(self.me, packet, now)):
            self._post(source, data)
        for member in packet.unheard if inside else ():
            if member in self.view.side and (last := self._peers.last_word(member, source)):
                self._post(source, last)

    def lineage(self, packet: Lineage, highest: int) -> None:
        """Rule 31. `highest`: of the numbers that the process ever reserved, as far as its disk tells."""
        self.lineages.heard(packet, highest)

    def _spelled(self, receipt: Receipt) -> Receipt:
        """Somebody who is past to the source of a receipt may not be past here."""
        past = self.links.past_of(receipt)
        if not past.version:
            return receipt
        return receipt._replace(counts=receipt.counts | self._all_of(receipt, past), past=past.all)

    def _all_of(self, receipt: Receipt, past: Spans) -> dict[str, int]:
        """Those that are not counted one by one, since they are past."""
        return {name: ALL for name in self.ledger.spoken() if name not in receipt.counts and name in past}

    # Stability

    def sweep(self, now: int, least: int = SWEEP_EVERY) -> None:
        """Rule 7: announce what has become stable, if so much has happened that it is worth looking."""
        ledger = self.ledger
        if self.unswept < least or (ledger.window.unfinished and least > 1):
            return  # the rest of an unfinished look is for the next wake-up, once per step
        self._peers.settle()
        found = ledger.window.sweep(self._settings.step_max)
        self.unswept = int(ledger.window.unfinished)
        for tag in found if self._diary.writes else ():
            self._tell_stable_up_to(tag.dot, now)
        if found:
            self._tell_stable(found)
            self._log.mark_stable(ledger.stables())
        settled = self._settle(now) or bool(found) or bool(self._withheld)
        if settled and not (self.view.suspects or self.view.strangers):
            if self._withheld:
                self._application.stable(list(self._withheld.values()))
                self._withheld.clear()
            if self.operations.inherited:
                self.reading.cleared(ledger)
            ledger.settled()
            self.operations.inherited = []  # a state in the making may still read the old list

    def _tell_stable(self, found: Sequence[Tag]) -> None:
        told = self.book.swept(found)
        if self._settings.stable_waits and (self.view.suspects or self.view.strangers):
            self._withhold(told)
            return
        self._application.stable([LifeTag(tag, self.me, place, self.book) for place, tag in told])

    def _withhold(self, told: Iterable[tuple[Place, Tag | None]]) -> None:
        """It says the same of all before it of its origin."""
        for place, tag in told:
            last = self._withheld.get(place[0])
            if last is None or last.seq < place[1]:
                self._withheld[place[0]] = LifeTag(tag, self.me, place, self.book)

    def _settle(self, now: int) -> bool:
        """Rules 14 and 27: leavers whose leave everybody has are gone, and whoever is gone for good is past.
        Returns whether somebody is now."""
        ledger, view = self.ledger, self.view
        for member, seq in list(view.departing.items()):
            # One that settles may settle the eviction of another.
            if member in view.departing and ledger.stable(member) >= seq:
                self._changed(view.leave_is_stable(member, ledger.count), 0, now)
                if self.links.used and not view.leaving:
                    # It gets no receipts any more, and may not have heard from all who have its leave.
                    self._post(member, Farewell(self.me, member, seq))
        before = view.past.version
        for member in view.forget(ledger.stable) if view.gone or view.closing or view.strangers else ():
            ledger.forget(member)
            self._peers.gone(member)
        if view.past.version == before:
            return False
        # Of one that was closed before anything of it came the name may be known, from the table of a peer.
        unheard = [member for member in ledger.spoken() if member in view.past]
        for member in unheard:
            ledger.forget(member)
        if unheard and ledger.orderer.waiting:
            self._drop_pending()  # perhaps for one of these
        ledger.timelines.forget(view.past)
        self.operations.forget(view.past)
        return True

    def recovered(
        self, seen: list[int], stable: tuple[int, ...], notes: Mapping[int, bytes], now: int
    ) -> None:
        """The log was replayed: of what was seen so much had been announced, and these joiners had been heard
        of."""
        ledger = self.ledger
        self._gate.recall(notes)
        self.reading.recall(notes)
        past = [dot for dot in seen if dot >> ORIGIN_BITS <= _at(stable, dot & ORIGIN_MASK)]
        tags = [tag for tag in map(ledger.window.tag_of, past) if tag is not None]
        ledger.window.recall_stable(stable)
        for dot in past:
            self._tell_stable_up_to(dot, now)
        if self._settings.stable_waits:  # also what came before the state that the log goes on from
            held = [
                (dot, data)
                for dot, data in ledger.written(ledger.floor)
                if dot >> ORIGIN_BITS <= _at(stable, dot & ORIGIN_MASK)
            ]
            for dot, data in held:
                self._withhold([(operation.dot, None) for operation in operations_of(ledger, dot, data)])
        if tags:
            self._tell_stable(tags)
        self._settle(now)

    def mute(self) -> None:
        """Nothing that happens here from now on is for its trace."""
        self._diary = Closed()

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

    # Letting others in

    def admit(self, request: JoinRequest, now: int) -> None:
        """Rule 9: let somebody in, or go on handing over the state."""
        joiner, served = request.joiner, [request]
        if not self.view.knows_later(joiner):
            due = self._gate.next(request, now)
            served = [each for each in due if not self.view.knows_later(each.joiner)]
            for each in served:  # all of them before the state is made, which they share
                self.broadcast(JOIN, join_payload(each.joiner, each.address, each.since), now)
                self._log.insist()  # whoever forgot whom it let in could not say whom to look for
            if request not in served:
                self._post(joiner, Offer(self.me, joiner))
        elif joiner not in self.view.side or not self._gate.waits_for(joiner):
            return
        for each in served:
            if not self._gate.pieces(each, self._handed, self.ledger.sent, self.links.used, now):
                self._post(each.joiner, Offer(self.me, each.joiner))  # it is in the making
        self._post_pieces()

    def _post_pieces(self) -> None:
        for piece in self._gate.due(self.me):
            self._post(piece.joiner, piece)

    def _handed(self, request: JoinRequest) -> Making:
        state, sources = self._state(True, request.extent, not request.running.member)
        state.holders = tuple([name for name in state.holders if name != request.joiner])
        return Making(encoding(state, sources))

    @property
    def has_room(self) -> bool:
        """Can somebody be let in now?"""
        return self._gate.room > 0

    def can_name(self, joiner: str) -> bool:
        """Whoever is in a group is named in receipts, which must fit a packet."""
        past = [process for process, _, _ in self.view.past]
        return names_fit([joiner, *self.ledger.spoken(), *past], self._settings.frame_bytes)

    @property
    def expects_joiners(self) -> bool:
        """Somebody was let in here and was not heard of yet: a restart must still know that."""
        return self._gate.busy

    def state(self, joins: bool = False) -> GroupState:
        """Rule 10, for joiners; else for this member itself. All of it at once."""
        state, sources = self._state(joins)
        return at_once(state, sources) if joins else state

    def _state(
        self, joins: bool, extent: Extent | None = None, forgetful: bool = False
    ) -> tuple[GroupState, Sources]:
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
        watch = self._watch
        return min(watch.at, watch.hasty_at, self._passing.at)

    def tick(self, running: Running, now: int) -> None:
        """Rules 4 and 16: tell what was delivered; notice who is silent."""
        self.sweep(now, 1)
        self._gate.go_on()
        self._post_pieces()
        self._close(running, now)
        if now >= self._passing.at:
            self._passing.pass_on(now)
        if now < self._watch.at:
            if now >= self._watch.hasty_at:
                self._watch.tell_hasty(running, self.drained, now)
            return
        self._freed = self._took = 0
        self._watch.tell(running, self.drained, now)
        if missed := self._watch.missed(now):
            self.suspect(missed, now)

    def about(self, running: Running, now: int) -> Receipt:
        return self._watch.about(running, self.drained, now)

    # Links

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
            self._watch.urgent(now)
        else:
            self._watch.news(now)

    def committed(self) -> None:
        """The log was written: nothing has to be remembered for it."""
        self.ledger.fresh.clear()
        self._gate.step_over()
        self.carrying.step_over()

    def _post(self, member: str, packet: Data | Receipt | Offer | Piece | Farewell) -> None:
        self._posts.append(Post(process_of(member), packet))


def _seqs(message: Message) -> range:
    """The counters of its operations."""
    return range((message.before >> ORIGIN_BITS) + 1, (message.dot >> ORIGIN_BITS) + 1)


def _at(counts: Sequence[int], index: int) -> int:
    return counts[index] if index < len(counts) else 0
