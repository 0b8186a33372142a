"""One node without an agreed view, and its operation log: what it must not forget is in the log first.

Over a tree messages carry their dot alone: the spread brings them in causal order. Over gossip they carry a
clock, and wait for their causes (`tree_order`). Own messages are appended when the client submits them,
others when they are released, and are passed on when they come, whatever the program here does; the
driver commits after each step, before the step's effects leave and before the client takes anything. So
whatever another node or the application has seen of this one is in the log. After a commit that failed the
replica is built anew.

What the application has taken is marked in the log, between its own messages as it happened, and committed
before it gets to see it. A bounded number of messages waits for it in memory, the others are read from the
log when it gets there.

The log outlives incarnations. A process that may have forgotten what it sent goes on with the same log under
another name (`become`): to that one its former self is a member like any other, whose messages may come
from neighbours. Which of them the program had sent itself, and so need not take, is in a note.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK, pack
from thence.core.errors import UsageError
from thence.core.groups import Place
from thence.core.machine import Effect, Packet, SpreadEffect, Wake
from thence.core.message import Message
from thence.core.tag import Tag
from thence.core.varint import Reader, put
from thence.oplog.log import Collected, OpLog
from thence.oplog.policy import Sync
from thence.oplog.record import SnapshotRef, Stored, Taken
from thence.oplog.state import covers
from thence.replica.group_parts import Application, Applied, Diary, Operation
from thence.replica.history import LogHistory, understood
from thence.replica.life_tag import LifeTag
from thence.replica.overlay import Overlay
from thence.replica.tree_order import TreeOrder, Unordered
from thence.trace import recorder as rows

PAST: Final = 8
"""The key of the note that says which messages were sent under former names: origin, up to which position."""

CODEC: Final = Unordered.codec
"""Of a tree whose messages carry nothing."""

INBOX_MAX: Final = 4096
"""Messages that wait for the application in memory: enough that reading the log back costs little each."""


class StepHistory(LogHistory):
    """The log, and what was appended to it since its last commit: a stream that begins in the middle of a
    step must not leave that out."""

    __slots__ = ("gathered",)

    def __init__(self, log: OpLog, order: TreeOrder | None = None) -> None:
        super().__init__(log, (order or Unordered()).codec)
        self.gathered: list[Message] = []

    def missing(self, vector: Sequence[int]) -> Iterator[Message]:
        known = len(vector)
        yield from super().missing(vector)
        for message in self.gathered:
            origin = message.dot & ORIGIN_MASK
            if origin >= known or message.dot >> ORIGIN_BITS > vector[origin]:
                yield message


class Merging(Application, Protocol):
    """A program, as a tree without tags sees it."""

    @property
    def holds(self) -> bool:
        """Is it a state?"""
        ...

    def doubted(self, doubts: Sequence[LifeTag], late: LifeTag) -> None:
        """These were perhaps applied too early: `late`, which they may follow from, comes now."""
        ...

    def merge(self, state: bytes) -> None:
        """Take a peer's state in: the same operations give the same state, whichever of them came one by
        one and whichever in a state. `ApplicationError`: it cannot."""
        ...


class TreeReplica:
    __slots__ = (
        "_application", "_called", "_diary", "_history", "_inbox_max", "_log", "_marked", "_me", "_names",
        "_overlay", "_past", "_positions", "_seen", "_shown", "_spilled", "alarms", "doubts", "inbox",
        "order", "taken",
    )  # fmt: skip

    def __init__(
        self,
        me: int,
        names: list[str],
        overlay: Overlay,
        diary: Diary,
        log: OpLog,
        history: StepHistory,
        application: "Merging",
        called: Callable[[int], str],
        inbox_max: int = INBOX_MAX,
        order: TreeOrder | None = None,
    ) -> None:
        """From what the log holds. `names`: of members, by index; it grows. `history`: what the overlay's
        streams read. `called`: the name of a neighbour. `order`: none, if nothing else is asked for."""
        self.order: Final[TreeOrder] = order or Unordered()
        self.doubts = 0
        """Deliveries that were doubted since this start."""
        self.alarms = False
        """Some were in this step."""
        self._application: Final = application
        self._called: Final = called
        self._me = me
        self._names: Final = names
        self._overlay: Final = overlay
        self._diary = diary
        self._log: Final = log
        self._history: Final = history
        self._inbox_max: Final = inbox_max
        self._shown: dict[int, int] = {}
        self._positions: deque[int] = deque()
        self.inbox: Final[deque[Message]] = deque()
        self._spilled = True  # the log holds more for the application than the inbox does
        self._seen: list[int] = []
        """By member: how many of its messages the client has sent or taken."""
        self._past: Final = _past(log)
        self.taken = self._marked = log.taken
        self._recover()
        self._refill()
        if application.holds:
            self._restore()

    # Recovery

    def _recover(self) -> None:
        kept, self._seen = self._before(), self._before()
        lately: deque[Stored] = deque(maxlen=self.order.remembers)
        for position, record in self._log.records(self._log.head):
            if isinstance(record, SnapshotRef):
                for clock in (kept, self._seen):
                    clock[:] = map(max, clock, wide(record.clock, len(clock)))
            elif isinstance(record, Stored):
                origin, seq = record.dot & ORIGIN_MASK, record.dot >> ORIGIN_BITS
                kept[origin] = seq
                if position <= self.taken or self.is_own(record.dot, position):
                    self._seen[origin] = seq
                if lately.maxlen and position <= self.taken and not self.is_own(record.dot, position):
                    lately.append(record)
        self._overlay.streams.recall(tuple(kept))
        self.order.resume(self._me, self._seen, kept, [self._understood(one) for one in lately])

    def _understood(self, stored: Stored) -> Message:
        return understood(self.order.codec, stored)

    def _restore(self) -> None:
        """What a program that is a state had: the newest state, and what it sent and took since."""
        snapshot = self._log.load()
        self._application.install(b"" if snapshot is None else snapshot.data)
        since = self._log.since(self._log.head if snapshot is None else snapshot.covers)
        had = [
            (self._understood(stored), self.is_own(stored.dot, stored.position))
            for stored in since
            if stored.position <= self.taken or self.is_own(stored.dot, stored.position)
        ]
        had += [
            (message, message.dot & ORIGIN_MASK == self._me)
            for message in self._history.gathered  # of the step that is under way
            if message.dot >> ORIGIN_BITS <= self._seen[message.dot & ORIGIN_MASK]
        ]
        for message, own in self._in_order(had):
            self._apply(message, own)

    def _in_order(self, messages: list[tuple[Message, bool]]) -> list[tuple[Message, bool]]:
        """As they were taken, if that was in causal order for certain. If not, by the sums of their clocks,
        which grow along happens-before, whatever was taken too early."""
        if not self.order.entries:
            return messages
        return sorted(messages, key=lambda each: (sum(each[0].context), *self.place(each[0].dot)))

    def _apply(self, message: Message, own: bool) -> None:
        operation = Operation(*self.place(message.dot), message.payload)
        self._application.apply(Applied(operation, own, self.tag_of(message), position=self.taken))

    def tag_of(self, message: Message) -> LifeTag | None:
        """What a program is told of a message's place among others; None: the order has no tags."""
        tag = self.order.tag_of(message)
        return None if tag is None else LifeTag(tag, self.order.name, self.place(message.dot), self)

    def _before(self) -> list[int]:
        """Counters of what came before the log's oldest record."""
        return list(wide(self._log.start, len(self._names)))

    def is_own(self, dot: int, position: int) -> bool:
        """Did the client send this, and so has seen it?"""
        origin = dot & ORIGIN_MASK
        return origin == self._me or position <= self._past.get(origin, 0)

    def tell_again(self, now: int) -> None:
        """After a restart, for a trace that passes over the rows that it has: what the log knows to have been
        sent and taken under this name, in that order."""
        born = max(self._past.values(), default=0)
        untaken: deque[tuple[int, Stored]] = deque()
        held, order = self._before(), self.order.anew()
        order.resume(self._me, held, held, ())
        for position, record in self._log.records(self._log.head):
            if isinstance(record, SnapshotRef):
                if position > born and not covers(held, record.clock):
                    # If the trace has it, no node holds more by that.
                    self._diary.row(rows.INSTALL, None, self._places(record.clock), now)
            elif isinstance(record, Taken):
                while untaken and untaken[0][0] <= record.upto:
                    stored = untaken.popleft()[1]
                    doubts = order.took(self._understood(stored)) if order.entries else []
                    if position > born:
                        self._tell_taken(stored.dot, doubts, now)
            elif isinstance(record, Stored):
                held[record.dot & ORIGIN_MASK] = record.dot >> ORIGIN_BITS
                own = self.is_own(record.dot, position)
                if record.dot & ORIGIN_MASK == self._me:
                    self._diary.row(rows.SEND, self.place(record.dot), None, now)
                elif not own:
                    untaken.append((position, record))
                if own and order.entries:
                    order.recall(self._understood(record))

    def _tell_taken(self, dot: int, doubts: Sequence[Message], now: int) -> None:
        """The program takes a message; before that, what it doubts now. Doubts that a trace has it is not
        told again: they come in no order of their own."""
        place = self.place(dot)
        if doubts and not self._diary.has_row(rows.DELIVER, place):
            for doubt in doubts:
                self._diary.row(rows.DOUBT, self.place(doubt.dot), None, now)
        self._diary.row(rows.DELIVER, place, None, now)

    # Names

    def admit(self) -> None:
        """There are more names than before."""
        self._seen += [0] * (len(self._names) - len(self._seen))
        self._overlay.streams.admit(len(self._names))

    def become(self, me: int, diary: Diary, now: int, ends: bool) -> None:
        """Go on under another name, admitted just now. Nothing of this step leaves before it is synced.
        `ends`: the former incarnation has been running until now."""
        position = self._log.note(PAST, b"")  # what comes before it came before
        self._past[self._me] = position
        out = bytearray()
        for origin, upto in self._past.items():
            put(out, origin)
            put(out, upto)
        self._log.note(PAST, bytes(out))
        self._log.insist()
        if ends:
            self._diary.row(rows.CRASH, None, None, now)
        self._me, self._diary = me, diary
        self._overlay.streams.become(me)
        self.order.become(me)
        self._diary.row(rows.INSTALL, None, self._places(self._seen), now)

    def place(self, dot: int) -> Place:
        return self._names[dot & ORIGIN_MASK], dot >> ORIGIN_BITS

    def _places(self, clock: Sequence[int]) -> tuple[Place, ...]:
        return tuple([(name, seq) for name, seq in zip(self._names, clock, strict=False) if seq])

    # Life

    @property
    def forgets(self) -> bool:
        """May the log be shortened, though nothing is known to be stable?"""
        return False

    def start(self, fresh: bool, now: int) -> list[Effect]:
        """The process was started: for the first time, or not."""
        if fresh:
            self._diary.row(rows.START, None, None, now)
        else:
            self._diary.row(rows.RESTART, None, self._places(self._seen), now)
        return self.resume(now)

    def resume(self, now: int) -> list[Effect]:
        """Outstanding wake-ups were lost: ask for what is needed."""
        return self.route(self._overlay.resume(now), now)

    def left(self, now: int) -> None:
        self._diary.row(rows.LEAVE, None, None, now)

    # Steps

    @property
    def sent(self) -> int:
        """Own messages."""
        return self._seen[self._me]

    def seen(self, origin: int) -> int:
        """How many messages of a member the client has sent or taken."""
        return self._seen[origin]

    @property
    def next_position(self) -> int:
        """Of the message that the application would take next; there must be one."""
        return self._positions[0]

    def submit(self, payload: bytes, now: int) -> tuple[Message, list[Effect]]:
        """The client sends."""
        self._seen[self._me] += 1
        message = self.order.tag(payload)
        self._mark_taken()
        self._append(message)
        self._diary.row(rows.SEND, self.place(message.dot), None, now)
        self._apply(message, True)
        for released in self.order.sent(message, now):
            self._released(released)
        return message, self.route(self._overlay.broadcast(message, now), now)

    def receive(self, peer: int, packet: Packet, now: int) -> list[Effect]:
        """The overlay gets a packet."""
        asked = self._overlay.receive(peer, packet, now)
        if isinstance(packet, Message) and self._diary.writes:
            fresh = any(isinstance(effect, Message) for effect in asked)
            if not fresh and self._overlay.streams.has(packet.dot):
                self._diary.row(rows.DUPLICATE, self.place(packet.dot), None, now)
        return self.route(asked, now)

    def route(self, asked: list[SpreadEffect], now: int) -> list[Effect]:
        """What the overlay makes of an input: new messages are written down, the rest is the driver's."""
        effects: list[Effect] = []
        for effect in asked:
            if isinstance(effect, Message):
                released = self.order.receive(effect, now)
                for message in released:
                    self._released(message)
                if not released:
                    self._diary.row(rows.HOLD, self.place(effect.dot), None, now)
            else:
                effects.append(effect)
        self._show(now)
        return effects

    def _released(self, message: Message) -> None:
        position = self._append(message)
        if self._spilled or len(self.inbox) >= self._inbox_max:
            self._spilled = True
        else:
            self.inbox.append(message)
            self._positions.append(position)

    def _append(self, message: Message) -> int:
        self._history.gathered.append(message)
        return self._log.append(message.dot, self.order.codec.encode(message))

    def take(self, now: int, seen: bool = False) -> None:
        """The client takes the next message. `seen`: it did before, and that was not written down."""
        self.taken, message = self._positions.popleft(), self.inbox.popleft()
        self._seen[message.dot & ORIGIN_MASK] = message.dot >> ORIGIN_BITS
        doubts = self.order.took(message)
        self._tell_taken(message.dot, doubts, now)
        if doubts:
            self._alarmed(message, doubts, seen)
        if not seen:
            self._apply(message, False)
        if self._spilled and not self.inbox:
            self._refill()

    def _alarmed(self, late: Message, doubts: list[Message], seen: bool) -> None:
        """What the program took before `late` may have been too early."""
        self.alarms = True
        self.doubts += len(doubts)
        tag = self.tag_of(late)
        if not seen and tag is not None:
            tags = map(self.tag_of, doubts)
            self._application.doubted([each for each in tags if each is not None], tag)

    def set_right(self) -> bool:
        """The program has taken what there was. Where some of that was doubted, a program that is a state
        begins anew, with everything that it took in order. Was something?"""
        alarms, self.alarms = self.alarms, False
        if alarms and self._application.holds:
            self._restore()
        return alarms

    def inner(self, place: Place) -> Tag | None:
        """`life_tag.Book`: of a message that was delivered here."""
        index = self._names.index(place[0]) if place[0] in self._names else -1
        if index < 0 or not 0 < place[1] <= self._seen[index]:
            raise UsageError(f"{place[0]}:{place[1]} was not delivered here")
        return self.order.tag_of(self.find(pack(index, place[1])))

    def find(self, dot: int) -> Message:
        """A message that the log holds, or that this step has brought."""
        for message in self._history.gathered:
            if message.dot == dot:
                return message
        before = list(wide(self._log.vector, len(self._names)))
        before[dot & ORIGIN_MASK] = (dot >> ORIGIN_BITS) - 1
        return next(self._history.missing(before))

    def commit(self, now: int) -> list[Sync | Wake]:
        """Write down what must not be forgotten. What is to be synced, before anything that follows from
        this step leaves the node, and when to wake the log."""
        self._mark_taken()
        effects = self._log.commit(now)
        self._history.gathered.clear()
        if self._spilled and not self.inbox:
            self._refill()
        return effects

    def collect(self, now: int) -> Collected:
        """Remove from the log what nobody needs any more."""
        return self._log.collect(now)

    def _mark_taken(self) -> None:
        if self.taken > self._marked:
            self._log.mark_taken(self.taken)
            self._marked = self.taken

    def _refill(self) -> None:
        """Read on where the inbox ends."""
        inbox, positions = self.inbox, self._positions
        for stored in self._log.since(max(self.taken, self._log.head)):
            if not self.is_own(stored.dot, stored.position):
                inbox.append(self._understood(stored))
                positions.append(stored.position)
                if len(inbox) >= self._inbox_max:
                    return
        self._spilled = any(message.dot & ORIGIN_MASK != self._me for message in self._history.gathered)

    # Rows for people who look at a tree

    def _show(self, now: int) -> None:
        """A row for every link that turns lazy, synchronising, eager, or goes."""
        if not self._diary.writes:
            return
        there = {
            peer: rows.EAGER if live else rows.SYNC if branch else rows.LAZY
            for peer, branch, live in self._overlay.streams.states()
        }
        if there == self._shown:
            return
        for peer, kind in there.items():
            if self._shown.get(peer) != kind:
                self._diary.row(kind, (self._called(peer), 1), None, now)
        for peer in self._shown:
            if peer not in there:
                self._diary.row(rows.UNLINK, (self._called(peer), 1), None, now)
        self._shown = there


def _past(log: OpLog) -> dict[int, int]:
    note = log.notes.get(PAST, b"")
    reader, found = Reader(note, 0, len(note)), dict[int, int]()
    while reader.at < reader.end:
        origin = reader.take()
        found[origin] = reader.take()
    return found


def wide(clock: Sequence[int], size: int) -> tuple[int, ...]:
    return tuple(clock) + (0,) * (size - len(clock))
