"""One incarnation in a changing group: rules 1 to 7, 9 to 14 and 16 to 19 of docs/protocols/membership.md.

Routes between ledger, peers, gate, view, operations, log and diary. *Delivered* means taken by the
application: what was released and not taken waits in the inbox, is not in the log and not in any receipt,
and is dropped with everything else that is pending when somebody is suspected. It comes again: whoever sent
it keeps it until it is stable, which it cannot be before it was taken here.

Invariants. Whatever leaves this member is in its log by then (the driver commits first). A message is kept,
and sent to whoever lacks it, from its delivery to its stability. Replaying the log gives the same member, but
for rows, which fall back to what the messages tell.
"""

from collections import deque
from collections.abc import Mapping

from thence.core.codec import Codec
from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK
from thence.core.errors import InvariantError
from thence.core.groups import (
    CARRY,
    FLUSH,
    JOIN,
    LEAVE,
    OPERATION,
    Data,
    JoinRequest,
    Named,
    Piece,
    Place,
    Post,
    Receipt,
    Running,
    number_of,
    process_of,
)
from thence.core.message import Message
from thence.members.group import Changes, GroupView
from thence.members.operations import Operation, Operations
from thence.oplog.log import OpLog
from thence.replica.group_gate import Gate
from thence.replica.group_ledger import Ledger
from thence.replica.group_parts import Application, Closed, Diary
from thence.replica.group_peers import Peers
from thence.replica.group_settings import GroupSettings
from thence.replica.group_state import (
    GroupState,
    encode_state,
    join_payload,
    names_payload,
    operations_payload,
    payload_join,
    payload_names,
    payload_operations,
)
from thence.trace.recorder import DELIVER, EVICT, SEND, STABLE
from thence.trace.recorder import LEAVE as LEAVE_ROW

CODEC = Codec(ORIGIN_MASK + 1, stamps_are_dots=True)
"""The form of messages in the log: indices are the log's own."""


class Member:
    __slots__ = (
        "_application", "_coming", "_diary", "_gate", "_log", "_peers", "_posts", "_receipt_at",
        "_receipt_wait", "_settings", "companions", "inbox", "ledger", "me", "operations", "view",
    )  # fmt: skip

    def __init__(
        self,
        me: str,
        log: OpLog,
        state: GroupState,
        application: Application,
        diary: Diary,
        settings: GroupSettings,
        posts: list[Post],
        now: int,
    ) -> None:
        self.me = me
        self.inbox: deque[Message] = deque()
        self.ledger = Ledger(me, log, state)
        self.view = GroupView(
            me,
            set(state.view),
            set(state.suspects),
            dict(state.gone),
            dict(state.departing),
            {name: set(flushed) for name, flushed in state.flushed.items()},
            dict(state.addresses),
        )
        self.operations = Operations(state.retained, state.carried, state.orphans)
        self.companions: set[str] = set()
        """Who leaves at the same time as this member."""
        self._application = application
        self._diary = diary
        self._log = log
        self._settings = settings
        self._posts = posts
        self._peers = Peers(self.ledger, self.view, settings)
        self._gate = Gate(log, settings)
        self._coming: dict[str, str] = {}
        """Joiners that were not heard here yet, and who let them in."""
        self._receipt_at = now
        self._receipt_wait = settings.receipt_every_us

    # Sending and delivering

    def broadcast(self, kind: int, body: bytes, now: int) -> Place:
        """Rule 1: tagged with everything that was delivered here, delivered here, sent to all."""
        message = self.ledger.tagger.tag(bytes((kind,)) + body)
        self.ledger.orderer.sent(message, now)
        named = self.ledger.named(message)
        self._diary.row(SEND, (named.origin, named.seq), named.context, now)
        self._log.append(message.dot, CODEC.encode(message))
        for member in sorted((self.view.side - {self.me}) | self.view.departing.keys()):
            self._post(member, Data(self.me, member, (named,)))
        self._delivered(message, named, now)
        self.flush(now)
        return named.origin, named.seq

    def take(self, now: int) -> None:
        """Rule 3: the application takes the next message."""
        message = self.inbox.popleft()
        self.ledger.tagger.took(message)
        named = self.ledger.named(message)
        self._diary.row(DELIVER, (named.origin, named.seq), None, now)
        self._log.append(message.dot, CODEC.encode(message))
        self._delivered(message, named, now)
        self.flush(now)
        self.news(now)

    def replay(self, message: Message, now: int) -> None:
        """Rule 3 again, from the log, after a restart."""
        named = self.ledger.named(message)
        own = named.origin == self.me
        about = (named.origin, named.seq)
        self._diary.row(SEND if own else DELIVER, about, named.context if own else None, now)
        self.ledger.tagger.recall(message)
        self.ledger.orderer.sent(message, now)
        self._delivered(message, named, now)

    def _delivered(self, message: Message, named: Named, now: int) -> None:
        """What a delivery does, whoever sent the message and whether or not it is for the first time."""
        tag = self.ledger.delivered(message, named)
        self._peers.use(named.origin)
        kind = named.payload[0]
        if kind == OPERATION:
            operation = Operation(named.origin, named.seq, named.payload[1:])
            if self.operations.came(operation):
                self._application.apply(operation, named.origin == self.me, tag)
        elif kind == CARRY:
            for operation in payload_operations(named.payload):
                if self.operations.was_carried(operation, self.ledger.count):
                    self._application.apply(operation, False, tag)
        else:
            self._membership(kind, message, named, now)

    def _membership(self, kind: int, message: Message, named: Named, now: int) -> None:
        own = named.origin == self.me
        names: tuple[str, ...] = ()
        if kind == FLUSH:
            names = payload_names(named.payload)
        elif kind == JOIN:
            names, addresses = payload_join(named.payload)
            self.view.addresses.update(addresses)
            self._coming.update(dict.fromkeys(names, named.origin))
            for joiner in names if own else ():
                self._gate.opened(joiner, named.seq, now)
        changes = self.view.deliver(named.origin, named.seq, kind, names, self.ledger.count)
        if kind == LEAVE and self.view.leaving:
            self.companions.update(self.view.departing)
        if kind == LEAVE and own:
            self._peers.upto = list(self.ledger.counts)
            self._diary.row(LEAVE_ROW, None, None, now)
            self._diary = Closed()  # what it still takes part in concerns nobody's application
        self._changed(changes, message.dot, now)

    def _changed(self, changes: Changes, dot: int, now: int) -> None:
        if not changes:
            return
        ledger, view = self.ledger, self.view
        for member in changes.joined:
            ledger.window.enter(ledger.number(member), dot)
        for member in changes.left + changes.evicted:
            ledger.window.drop(ledger.number(member))
        for member in changes.left + changes.suspected + changes.evicted:
            self._peers.forget(member)
        if changes.suspected or changes.evicted:
            self._drop_pending()
        for member in changes.evicted:
            self._diary.row(EVICT, (member, view.gone[member].last), None, now)
        self._application.view_changed(tuple(sorted(view.view)))
        self.news(now)

    def _drop_pending(self) -> None:
        """What was received and not delivered may have come from, or through, somebody who is not believed
        any more; if it is good, it comes again from somebody who is."""
        self.inbox.clear()
        self.ledger.orderer.forget(tuple(self.ledger.counts))

    def flush(self, now: int) -> None:
        """Rule 17: say whom this member suspects, before it accepts anything else."""
        owed = self.view.owed()
        if owed:
            self.broadcast(FLUSH, names_payload(owed), now)

    def suspect(self, members: list[str], now: int) -> None:
        if self.view.leaving:
            return
        self._changed(self.view.suspect(members), 0, now)
        self.flush(now)

    def ghosts(self, running: Running, now: int) -> None:
        """Rule 16: incarnations that their own process does not run, nor try to become, are dead."""
        dead = [
            name
            for name in sorted(self.view.side - {self.me, running.member, running.attempt})
            if process_of(name) == running.process and number_of(name) <= running.highest
        ]
        if dead:
            self.suspect(dead, now)

    def carry(self, now: int) -> None:
        """Rule 23: send again what the group never had, as far as it is certain that it never will."""
        if not self.view.leaving and (ready := self.operations.ready(self._may_go, self.ledger.count)):
            self.broadcast(CARRY, operations_payload(ready), now)

    def _may_go(self, origin: str) -> bool:
        return origin in self.view.gone or not (self.view.knows(origin) or self.view.open)

    # Receiving

    def data(self, packet: Data, now: int) -> None:
        """Rule 2."""
        if packet.target != self.me or packet.source not in self.view.side:
            return
        self._heard(packet.source, now)
        ledger = self.ledger
        for named in packet.messages:
            if len(self.inbox) + ledger.orderer.waiting >= self._settings.pending_max:
                break
            if named.seq <= ledger.count(named.origin):
                self.news(now)  # its sender does not know that it is here
                continue
            if named.origin in self.view.gone:
                raise InvariantError(f"{named.origin}:{named.seq} comes after its last message was agreed on")
            message = ledger.message(named)
            ledger.orderer.check(message)
            released = ledger.orderer.receive(message, 0, now)
            self.inbox.extend([ready for ready in released if isinstance(ready, Message)])

    def receipt(self, packet: Receipt, now: int) -> None:
        """Rule 5."""
        source, inside = packet.source, packet.source in self.view.side
        if inside:
            self._heard(source, now)
            self._peers.hold(packet, now)
        if (inside or source in self.view.departing) and (data := self._peers.serve(self.me, packet, now)):
            self._post(source, data)
        for member in packet.unheard if inside else ():
            if member in self.view.side and (last := self._peers.last_word(member, source)):
                self._post(source, last)

    def _heard(self, member: str, now: int) -> None:
        self._peers.heard(member, now)
        self._coming.pop(member, None)
        self._gate.arrived(member, self.ledger.counts[0])

    # Stability

    def sweep(self, now: int) -> None:
        """Rule 7: announce what has become stable."""
        ledger = self.ledger
        found = ledger.window.sweep()
        for tag in found:
            place = ledger.place(tag.dot)
            self._diary.row(STABLE, place, None, now)
            self._application.stable(place, tag)
            ledger.kept.pop(tag.dot, None)
        if found:
            self._log.mark_stable([ledger.window.stable_up_to(index) for index in range(len(ledger.names))])
            if not self.view.suspects:
                # Whoever may come back, or be come back to, has what all members have.
                self.operations.forget(lambda place: place[1] <= ledger.stable(place[0]))
        self._settle(now)

    def _settle(self, now: int) -> None:
        """Rule 14: leavers whose leave everybody has are gone."""
        for member, seq in list(self.view.departing.items()):
            if self.ledger.stable(member) >= seq:
                self._changed(self.view.leave_is_stable(member, self.ledger.count), 0, now)

    def recovered(self, stable: tuple[int, ...], notes: Mapping[int, bytes], now: int) -> None:
        """The log was replayed: this had been announced, and these joiners had been heard of."""
        ledger = self.ledger
        self._gate.recall(notes)
        ledger.window.recall_stable(stable)
        for dot in list(ledger.kept):
            if dot >> ORIGIN_BITS <= ledger.window.stable_up_to(dot & ORIGIN_MASK):
                self._diary.row(STABLE, ledger.place(dot), None, now)
                del ledger.kept[dot]
        self._settle(now)

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
        joiner = request.joiner
        if not self.view.knows_later(joiner):
            self.broadcast(JOIN, join_payload(joiner, request.address), now)
        elif joiner not in self.view.side or not self._gate.waits_for(joiner):
            return
        for piece in self._gate.pieces(self.me, request, lambda: encode_state(self.state(joiner)), now):
            self._post(joiner, piece)

    @property
    def expects_joiners(self) -> bool:
        """Somebody was let in here and was not heard of yet: a restart must still know that."""
        return self._gate.busy

    def state(self, joiner: str = "") -> GroupState:
        """Rule 10; without a joiner, for this member itself."""
        ledger, view = self.ledger, self.view
        rows = {name: ledger.row(name) for name in sorted(view.view - {self.me, joiner})}
        rows[self.me] = ledger.vector()
        return GroupState(
            application=self._application.state(),
            counts=ledger.vector(),
            stable={name: stable for name in ledger.names if (stable := ledger.stable(name))},
            context=ledger.frontier(),
            log=list(ledger.kept.values()),
            view=view.view,
            suspects=view.suspects,
            gone=view.gone,
            departing=view.departing,
            flushed=view.flushed,
            addresses=view.addresses,
            rows=rows,
            retained=[Operation(*place, payload) for place, payload in self.operations.retained.items()],
            carried=self.operations.carried,
        )

    # Time

    def news(self, now: int) -> None:
        """Something happened that others should hear of soon."""
        self._receipt_wait = self._settings.receipt_every_us
        self._receipt_at = min(self._receipt_at, now + self._receipt_wait)

    @property
    def wake_at(self) -> int:
        return self._receipt_at

    def tick(self, running: Running, now: int) -> None:
        """Rules 4 and 16: tell what was delivered; notice who is silent."""
        self.sweep(now)
        if now < self._receipt_at:
            return
        receipt = self.about(running, now)
        for member in sorted((self.view.view - {self.me}) | self.view.departing.keys()):
            self._post(member, receipt)
        settings = self._settings
        longest = settings.receipt_idle_us if self.drained else settings.receipt_busy_us
        self._receipt_at = now + self._receipt_wait
        self._receipt_wait = min(2 * self._receipt_wait, longest)
        self._look_out(now)

    def about(self, running: Running, now: int) -> Receipt:
        view = self.view
        others = sorted(view.side - {self.me} - self._coming.keys())
        unheard = [] if self.drained else self._peers.silent(others, now - self._settings.unheard_us, now)
        return Receipt(self.me, self.ledger.vector(), tuple(sorted(view.suspects)), tuple(unheard), running)

    def _look_out(self, now: int) -> None:
        stuck = [joiner for joiner in self._gate.overdue(now) if joiner in self.view.side]
        if stuck:
            self.suspect(stuck, now)
        silence = self._settings.silence_us
        if silence is None or self.view.leaving:
            return
        # A joiner says nothing while its state is on the way, however long that takes.
        coming = {joiner for joiner, contact in self._coming.items() if contact in self.view.side}
        others = sorted(self.view.side - {self.me} - coming)
        silent = self._peers.silent(others, now - silence, now)
        # A majority, so that two sides of a partition do not evict each other by themselves.
        if silent and 2 * (len(others) + 1 - len(silent)) > len(self.view.view - coming):
            self.suspect(silent, now)

    def _post(self, member: str, packet: Data | Receipt | Piece) -> None:
        self._posts.append(Post(process_of(member), packet))
