"""One incarnation in a changing group: rules 1 to 7, 9 to 14 and 16 to 19 of docs/protocols/membership.md.

Routes between tagger, order, window, view, operations, log and diary. *Delivered* means taken by the
application: what was released and not taken waits in the inbox, is not in the log and not in any receipt, and
is dropped with everything else that is pending when somebody is suspected. It comes again: whoever sent it
keeps it until it is stable, which it cannot be before it was taken here.

Invariants. Whatever leaves this member is in its log by then (the driver commits first). A message is kept,
and sent to whoever lacks it, from its delivery to its stability. Replaying the log gives the same member, but
for rows, which fall back to what the messages tell.
"""

from collections import deque
from collections.abc import Mapping
from zlib import crc32

from thence.core.codec import Codec
from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK, pack
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
    process_of,
)
from thence.core.message import Message
from thence.members.group import Changes, GroupView
from thence.members.operations import Operation, Operations
from thence.oplog.log import OpLog
from thence.order.graph import GraphOrderer, GraphTagger
from thence.order.roster import Roster
from thence.replica.group_parts import Application, Closed, Diary
from thence.replica.group_settings import GroupSettings
from thence.replica.group_state import (
    GroupState,
    encode_state,
    names_payload,
    operations_payload,
    payload_names,
    payload_operations,
    read_watched,
    watched_note,
)
from thence.trace.recorder import DELIVER, EVICT, SEND, STABLE
from thence.trace.recorder import LEAVE as LEAVE_ROW

CODEC = Codec(ORIGIN_MASK + 1, stamps_are_dots=True)
"""The form of messages in the log: indices are the log's own."""

WATCHED = 1
"""Key of the note about joiners that were not heard of yet."""


class _Peer:
    """What is known of one member: when it was heard, what it acknowledged, what it was last sent."""

    __slots__ = ("heard_at", "held", "served")

    def __init__(self, now: int) -> None:
        self.heard_at = now
        self.held: dict[str, int] = {}
        self.served: dict[str, tuple[int, int]] = {}
        """Per origin: what it had, and when that was last found, or something sent for it."""


class Member:
    __slots__ = (
        "_diary", "_index", "_kept", "_log", "_names", "_orderer", "_peers", "_receipt_at", "_receipt_wait",
        "_settings", "_tagger", "_transfers", "_upto", "_watched", "_window", "application", "counts",
        "inbox", "me", "operations", "posts", "view",
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
        self.application = application
        self.posts = posts
        self.inbox: deque[Message] = deque()
        self._log = log
        self._diary = diary
        self._settings = settings
        self._names = list(log.names)
        self._index = {name: index for index, name in enumerate(self._names)}
        self._kept: dict[int, Named] = {}
        self._peers: dict[str, _Peer] = {}
        self._transfers: dict[str, tuple[int, bytes]] = {}
        self._watched: dict[str, tuple[int, int]] = {}
        """Joiners that were let in and not heard of: the number of their join, and how long to wait."""
        self._upto: list[int] | None = None
        self._receipt_at = now
        self._receipt_wait = settings.receipt_every_us
        if not self._names or self._names[0] != me:
            raise InvariantError(f"the log of {me} belongs to somebody else")
        self._begin(state)

    def _begin(self, state: GroupState) -> None:
        size = len(self._names)
        self.counts = [state.counts.get(name, 0) for name in self._names]
        self.view = GroupView(
            self.me,
            set(state.view),
            set(state.suspects),
            dict(state.gone),
            dict(state.departing),
            {name: set(flushed) for name, flushed in state.flushed.items()},
        )
        self.operations = Operations(state.retained, state.carried, state.orphans)
        self._tagger = GraphTagger(0, size)
        self._tagger.resume(self.counts[0], self._dots(state.context))
        self._orderer = GraphOrderer(0, size)
        self._orderer.resume(tuple(self.counts))
        self._window = Roster(0, size)
        self._window.resume(tuple([state.stable.get(name, 0) for name in self._names]))
        for named in state.log:
            message = self._message(named)
            self._window.see(message)
            self._kept[message.dot] = named
        for index in range(1, size):
            self._window.drop(index)
        for member in sorted(self.view.view - {self.me}):
            self._window.enter(self._index[member])
            row = state.rows.get(member, {})
            self._window.known(self._index[member], [row.get(name, 0) for name in self._names])

    # Names

    def _number(self, name: str) -> int:
        """The index of an incarnation, which becomes known if it was not."""
        index = self._index.get(name)
        if index is None:
            index = self._index[name] = self._log.member(name)
            self._names.append(name)
            self.counts.append(0)
            self._orderer.admit(index)
            self._window.admit(index)
        return index

    def _dots(self, places: tuple[Place, ...]) -> tuple[int, ...]:
        return tuple(sorted([pack(self._number(name), seq) for name, seq in places]))

    def _place(self, dot: int) -> Place:
        return self._names[dot & ORIGIN_MASK], dot >> ORIGIN_BITS

    def _message(self, named: Named) -> Message:
        return Message(pack(self._number(named.origin), named.seq), self._dots(named.context), named.payload)

    def _named(self, message: Message) -> Named:
        context = tuple([self._place(dot) for dot in message.context])
        return Named(*self._place(message.dot), context, message.payload)

    def count(self, name: str) -> int:
        index = self._index.get(name)
        return 0 if index is None else self.counts[index]

    def vector(self) -> dict[str, int]:
        return {name: count for name, count in zip(self._names, self.counts, strict=True) if count}

    def frontier(self) -> tuple[Place, ...]:
        return tuple([self._place(dot) for dot in self._tagger.frontier()])

    # Sending and delivering

    def broadcast(self, kind: int, body: bytes, now: int) -> Place:
        """Rule 1: tagged with everything that was delivered here, delivered here, sent to all."""
        message = self._tagger.tag(bytes((kind,)) + body)
        self._orderer.sent(message, now)
        named = self._named(message)
        self._diary.row(SEND, (named.origin, named.seq), named.context, now)
        self._log.append(message.dot, CODEC.encode(message))
        targets = sorted((self.view.side - {self.me}) | self.view.departing.keys())
        for member in targets:
            self._post(member, Data(self.me, member, (named,)))
        self._delivered(message, named, now)
        self.flush(now)
        return named.origin, named.seq

    def take(self, now: int) -> None:
        """Rule 3: the application takes the next message."""
        message = self.inbox.popleft()
        self._tagger.took(message)
        named = self._named(message)
        self._diary.row(DELIVER, (named.origin, named.seq), None, now)
        self._log.append(message.dot, CODEC.encode(message))
        self._delivered(message, named, now)
        self.flush(now)
        self.news(now)

    def replay(self, message: Message, now: int) -> None:
        """Rule 3 again, from the log, after a restart."""
        named = self._named(message)
        own = named.origin == self.me
        self._diary.row(
            SEND if own else DELIVER, (named.origin, named.seq), named.context if own else None, now
        )
        self._tagger.recall(message)
        self._orderer.sent(message, now)
        self._delivered(message, named, now)

    def _delivered(self, message: Message, named: Named, now: int) -> None:
        """What a delivery does, whoever sent the message and whether or not it is for the first time."""
        origin = message.dot & ORIGIN_MASK
        self.counts[origin] = named.seq
        self._window.see(message)
        self._kept[message.dot] = named
        self._use(named.origin)
        kind = named.payload[0]
        if kind == OPERATION:
            operation = Operation(named.origin, named.seq, named.payload[1:])
            if self.operations.came(operation):
                self.application.apply(operation, named.origin == self.me)
        elif kind == CARRY:
            for operation in payload_operations(named.payload):
                if self.operations.was_carried(operation, self.count):
                    self.application.apply(operation, False)
        else:
            names = () if kind == LEAVE else payload_names(named.payload)
            if kind == JOIN and named.origin == self.me:
                until = now + self._settings.join_timeout_us
                self._watched.update(dict.fromkeys(names, (named.seq, until)))
            changes = self.view.deliver(named.origin, named.seq, kind, names, self.count)
            if kind == LEAVE and named.origin == self.me:
                self._upto = list(self.counts)
                self._diary.row(LEAVE_ROW, None, None, now)
                self._diary = Closed()  # what it still takes part in concerns nobody's application
            self._changed(changes, message.dot, now)

    def _changed(self, changes: Changes, dot: int, now: int) -> None:
        if not changes:
            return
        for member in changes.joined:
            self._window.enter(self._number(member), dot)
        for member in changes.left + changes.evicted:
            self._window.drop(self._number(member))
        for member in changes.left + changes.suspected + changes.evicted:
            if member in self._peers:
                self._peers[member].held.clear()
        if changes.suspected or changes.evicted:
            self.inbox.clear()
            self._orderer.forget(tuple(self.counts))
        for member in changes.evicted:
            self._diary.row(EVICT, (member, self.view.gone[member].last), None, now)
        self.application.view_changed(tuple(sorted(self.view.view)))
        self.news(now)

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

    def carry(self, now: int) -> None:
        """Rule 23: send again what the group never had, as far as it is certain that it never will."""
        if not self.view.leaving and (ready := self.operations.ready(self._may_go, self.count)):
            self.broadcast(CARRY, operations_payload(ready), now)

    def _may_go(self, origin: str) -> bool:
        if origin in self.view.gone:
            return True
        return not self.view.knows(origin) and not self.view.open

    # Receiving

    def data(self, packet: Data, now: int) -> None:
        """Rule 2."""
        if packet.target != self.me or packet.source not in self.view.side:
            return
        self._heard(packet.source, now)
        for named in packet.messages:
            if len(self.inbox) + self._orderer.waiting >= self._settings.pending_max:
                break
            if named.seq <= self.count(named.origin):
                self.news(now)  # its sender does not know that it is here
                continue
            if named.origin in self.view.gone:
                raise InvariantError(f"{named.origin}:{named.seq} comes after its last message was agreed on")
            message = self._message(named)
            self._orderer.check(message)
            self.inbox.extend([m for m in self._orderer.receive(message, 0, now) if isinstance(m, Message)])

    def receipt(self, packet: Receipt, now: int) -> None:
        """Rule 5."""
        source = packet.source
        if source in self.view.side:
            peer = self._heard(source, now)
            for name, count in packet.counts.items():
                if count > peer.held.get(name, 0):
                    peer.held[name] = count
            self._use(source)
        if source in self.view.side or source in self.view.departing:
            self._serve(source, packet, now)

    def _heard(self, member: str, now: int) -> _Peer:
        peer = self._peers.get(member)
        if peer is None:
            peer = self._peers[member] = _Peer(now)
        peer.heard_at = now
        if self._watched.pop(member, None) is not None:
            self._transfers.pop(member, None)
            self._log.note(WATCHED, watched_note(self.counts[0], list(self._watched)))
        return peer

    def _use(self, member: str) -> None:
        """A receipt counts once everything that its sender had sent by then was delivered here."""
        peer = self._peers.get(member)
        if peer and peer.held and self.count(member) >= peer.held.get(member, 0):
            row = [peer.held.get(name, 0) for name in self._names]
            self._window.known(self._index[member], row)

    def _serve(self, member: str, packet: Receipt, now: int) -> None:
        """Send what a member lacks: own messages and those of suspects and leavers soon, others' later."""
        limits = self.counts if self._upto is None else self._upto
        lacking = {
            name
            for name, count in zip(self._names, limits, strict=False)
            if count > packet.counts.get(name, 0)
        }
        if not lacking:
            return
        served = self._peers.setdefault(member, _Peer(now)).served
        urgent = self.view.suspects | set(packet.suspects) | self.view.departing.keys() | {self.me}
        due = set()
        for name in sorted(lacking):
            has = packet.counts.get(name, 0)
            wait = self._settings.repeat_us if name in urgent else self._settings.relay_us
            had, since = served.get(name, (-1, 0))
            if has > had:
                served[name] = (has, now)
            elif now - since >= wait:
                served[name] = (has, now)
                due.add(name)
        if due:
            self._send_again(member, due, packet.counts, limits)

    def _send_again(self, member: str, due: set[str], counts: dict[str, int], limits: list[int]) -> None:
        messages: list[Named] = []
        for named in self._kept.values():
            if named.origin in due and counts.get(named.origin, 0) < named.seq:
                index = self._index[named.origin]
                if index < len(limits) and named.seq <= limits[index]:
                    messages.append(named)
                    if len(messages) == self._settings.burst:
                        break
        if messages:
            self._post(member, Data(self.me, member, tuple(messages)))

    # Stability

    def sweep(self, now: int) -> None:
        """Rule 7: announce what has become stable."""
        found = self._window.sweep()
        for tag in found:
            self._diary.row(STABLE, self._place(tag.dot), None, now)
            self._kept.pop(tag.dot, None)
        if found:
            self._log.mark_stable([self._window.stable_up_to(index) for index in range(len(self._names))])
            if not self.view.suspects:
                # Whoever may come back, or be come back to, has what all members have.
                self.operations.forget(lambda place: place[1] <= self._stable(place[0]))
        self.settle(now)

    def _stable(self, name: str) -> int:
        index = self._index.get(name)
        return 0 if index is None else self._window.stable_up_to(index)

    def settle(self, now: int) -> None:
        """Rule 14: leavers whose leave everybody has are gone."""
        for member, seq in list(self.view.departing.items()):
            if self._window.stable_up_to(self._number(member)) >= seq:
                self._changed(self.view.leave_is_stable(member, self.count), 0, now)

    def recovered(self, stable: tuple[int, ...], notes: Mapping[int, bytes], now: int) -> None:
        """The log was replayed: this had been announced, and these joiners had been heard of."""
        if WATCHED in notes:
            upto, names = read_watched(notes[WATCHED])
            for joiner, (seq, _) in list(self._watched.items()):
                if seq <= upto and joiner not in names:
                    del self._watched[joiner]
        self._window.recall_stable(stable)
        for dot in list(self._kept):
            if dot >> ORIGIN_BITS <= self._window.stable_up_to(dot & ORIGIN_MASK):
                self._diary.row(STABLE, self._place(dot), None, now)
                del self._kept[dot]
        self.settle(now)

    @property
    def drained(self) -> bool:
        """Everything is delivered, stable and settled, as far as this member knows."""
        return (
            self._window.drained
            and not self.inbox
            and not self._orderer.waiting
            and not self.view.open
            and not self.view.departing
            and not self.operations.orphans
        )

    def trouble(self) -> str:
        """What keeps this member from being drained, for people."""
        parts = {
            "unstable": len(self._window),
            "behind": [self._names[index] for index in self._window.behind()],
            "to take": len(self.inbox),
            "waiting": self._orderer.waiting,
            "suspects": sorted(self.view.open),
            "departing": sorted(self.view.departing),
            "orphans": len(self.operations.orphans),
        }
        return ", ".join(f"{what} {value}" for what, value in parts.items() if value)

    @property
    def left_for_good(self) -> bool:
        """Rule 15: the own leave is stable."""
        return 0 < self.view.leaving <= self._window.stable_up_to(0)

    # Letting others in

    def admit(self, request: JoinRequest, now: int) -> None:
        """Rule 9: let somebody in, or go on handing over the state."""
        joiner = request.joiner
        if not self.view.knows_later(joiner):
            self.broadcast(JOIN, names_payload([joiner]), now)
        elif joiner not in self.view.side or joiner not in self._watched:
            return
        self._watched[joiner] = (self._watched[joiner][0], now + self._settings.join_timeout_us)
        transfer, data = self._transfers.get(joiner, (0, b""))
        if not data:
            data = encode_state(self.state(joiner))
            transfer = crc32(data) << 24 | len(data) & 0xFFFFFF
            self._transfers[joiner] = transfer, data
        offset = request.have if request.transfer == transfer else 0
        size = self._settings.piece_bytes
        for at in range(offset, min(len(data), offset + size * self._settings.pieces), size):
            piece = Piece(self.me, joiner, transfer, at, len(data), data[at : at + size])
            self._post(joiner, piece)

    def state(self, joiner: str) -> GroupState:
        """Rule 10."""
        others = self.view.view - {self.me, joiner}
        rows = {name: self._row(name) for name in sorted(others)}
        if self.me in self.view.view:
            rows[self.me] = self.vector()
        return GroupState(
            application=self.application.state(),
            counts=self.vector(),
            stable={
                name: stable
                for index, name in enumerate(self._names)
                if (stable := self._window.stable_up_to(index))
            },
            context=self.frontier(),
            log=list(self._kept.values()),
            view=self.view.view,
            suspects=self.view.suspects,
            gone=self.view.gone,
            departing=self.view.departing,
            flushed=self.view.flushed,
            rows=rows,
            retained=[Operation(*place, payload) for place, payload in self.operations.retained.items()],
            carried=self.operations.carried,
        )

    def _row(self, member: str) -> dict[str, int]:
        row = self._window.row(self._index[member])
        return {name: count for name, count in zip(self._names, row, strict=True) if count}

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
        settings = self._settings
        receipt = self.about(running)
        for member in sorted((self.view.view - {self.me}) | self.view.departing.keys()):
            self._post(member, receipt)
        longest = settings.receipt_idle_us if self.drained else settings.receipt_busy_us
        self._receipt_at = now + self._receipt_wait
        self._receipt_wait = min(2 * self._receipt_wait, longest)
        self._look_out(now)

    def about(self, running: Running) -> Receipt:
        return Receipt(self.me, self.vector(), tuple(sorted(self.view.suspects)), running)

    def _look_out(self, now: int) -> None:
        stuck = [joiner for joiner, (_, until) in self._watched.items() if now > until]
        for joiner in stuck:
            del self._watched[joiner]
            self._transfers.pop(joiner, None)
        if stuck := [joiner for joiner in stuck if joiner in self.view.side]:
            self.suspect(stuck, now)
        silence = self._settings.silence_us
        if silence is None or self.view.leaving:
            return
        others = sorted(self.view.side - {self.me})
        silent = [q for q in others if now - self._peers.setdefault(q, _Peer(now)).heard_at > silence]
        if silent and 2 * (len(others) + 1 - len(silent)) > len(self.view.view):
            self.suspect(silent, now)

    def _post(self, member: str, packet: Data | Receipt | Piece) -> None:
        self.posts.append(Post(process_of(member), packet))
