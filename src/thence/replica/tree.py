"""One node without an agreed view, and its operation log: what it must not forget is in the log first.

Over a tree messages carry their dot alone: the spread brings them in causal order. Over gossip they carry a
clock, and wait for their causes (`tree_order`). Own messages are appended when the client submits them,
others when they are released, and are passed on when they come, whatever the program here does; the
driver commits after each step, before the step's effects leave and before the client takes anything. So
whatever another node or the application has seen of this one is in the log. After a commit that failed the
replica is built anew. A message is one operation or a run of them (`core.runs`), taken as a whole; programs
and traces are told of operations.

What the application has taken is marked in the log, between its own messages as it happened, and committed
before it gets to see it. What waits for it is in `tree_inbox`.

The log outlives incarnations. A process that may have forgotten what it sent goes on with the same log under
another name (`become`): to that one its former self is a member like any other, whose messages may come
from neighbours. Which of them the program had sent itself, and so need not take, is in a note.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK, pack
from thence.core.errors import UsageError
from thence.core.groups import Place
from thence.core.machine import Effect, Packet, SpreadEffect, Wake
from thence.core.message import Message
from thence.core.tag import Tag
from thence.oplog.log import Collected, OpLog
from thence.oplog.policy import DiskSync
from thence.oplog.record import SnapshotRef, Stored
from thence.replica.group.surroundings import Applied, Diary, Merging, Operation
from thence.replica.history import understood
from thence.replica.life_tag import LifeTag
from thence.replica.overlay import Overlay
from thence.replica.tree_history import PAST, StepHistory, put_past, take_past, wide
from thence.replica.tree_inbox import INBOX_MAX, TreeInbox
from thence.replica.tree_order import Clocked, TreeOrder, Unordered, brings, make_room
from thence.replica.tree_positions import position_of, positions_of
from thence.replica.tree_retold import Sending, Taking, retold
from thence.replica.tree_right import EarlierState, EarlierStates, in_order
from thence.replica.tree_rows import LinkRows
from thence.spread.streams import Streams
from thence.trace import recorder as rows

CODEC: Final = Unordered.codec
"""Of a tree whose messages carry nothing."""


class TreeReplica:
    __slots__ = (
        "_application", "_diary", "_earlier", "_goes_on", "_history", "_inbox", "_log", "_marked", "_me",
        "_names", "_overlay", "_past", "_rows", "_seen", "alarms", "doubts", "inbox", "order", "taken",
    )  # fmt: skip

    def __init__(
        self,
        me: int,
        names: list[str],
        overlay: Overlay,
        diary: Diary,
        log: OpLog,
        history: StepHistory,
        application: Merging,
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
        self._me = me
        self._names: Final = names
        self._overlay: Final = overlay
        if isinstance(overlay.streams, Streams) and isinstance(self.order, Clocked):
            overlay.streams.must_follow = self.order.must_follow
        self._diary = diary
        self._log: Final = log
        self._history: Final = history
        self._rows: Final = LinkRows(called)
        self._inbox: Final = TreeInbox(log, inbox_max, self._untaken)
        self.inbox: Final = self._inbox.messages
        self._earlier: Final = EarlierStates()
        self._seen: list[int] = []
        """By member: how many of its operations the client has sent or taken."""
        self._past: Final = take_past(log)
        self._goes_on = False
        """Has the trace all that this incarnation holds?"""
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
        self.order.resume(self._me, self._seen, kept, [self.understood(one) for one in lately])

    def understood(self, stored: Stored) -> Message:
        return understood(self.order.codec, stored)

    def _restore(self) -> None:
        """What a program that is a state had: the newest state, and what it sent and took since."""
        state = self._earlier.newest or self._log.load()
        self._application.install(b"" if state is None else state.data)
        since = self._log.since(self._log.head if state is None else state.covers)
        had = [
            (self.understood(stored), self.is_own(stored.dot, stored.position))
            for stored in since
            if stored.position <= self.taken or self.is_own(stored.dot, stored.position)
        ]
        had += [
            (message, message.dot & ORIGIN_MASK == self._me)
            for message in self._history.gathered  # of the step that is under way
            if message.dot >> ORIGIN_BITS <= self._seen[message.dot & ORIGIN_MASK]
        ]
        for message, own in in_order(had, self.place) if self.order.entries else had:
            self._apply(message, own)

    def _apply(self, message: Message, own: bool) -> None:
        """Own operations have the position of what was taken before them."""
        tag, origin, taken = self.tag_of(message), self.place(message.dot)[0], position_of(self.taken)
        for seq, position, payload in positions_of(message, self.taken):
            at = taken if own else position
            self._application.apply(Applied(Operation(origin, seq, payload), own, tag, position=at))

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
        """After a restart, for a trace that passes over the rows that it has: what the log tells."""
        first = [(name, 1) for name, _ in self._places(self._seen)]
        self._goes_on = self.order.entries > 0 and any(
            self._diary.has_row(kind, place) for kind in (rows.SEND, rows.DELIVER) for place in first
        )
        born = max(self._past.values(), default=0)
        for told in retold(
            self._log, self.order.anew(), self._me, self._before(), born, self.is_own, self.understood,
            self._seen, self._history.gathered,
        ):  # fmt: skip
            if isinstance(told, Sending):
                self._tell(rows.SEND, told.message, now)
            elif isinstance(told, Taking):
                self._tell_taken(told.message, told.doubts, now)
            else:  # if the trace has it, no node holds more by that
                self._diary.row(rows.INSTALL, None, self._places(told.clock), now)

    def _tell_taken(self, message: Message, doubts: Sequence[Message], now: int) -> None:
        """The program takes a message; before that, what it doubts now. Doubts that a trace has it is not
        told again: they come in no order of their own."""
        if doubts and not self._diary.has_row(rows.DELIVER, self.place(message.dot)):
            for doubt in doubts:
                self._diary.row(rows.DOUBT, self.place(doubt.dot), None, now)
        self._tell(rows.DELIVER, message, now)

    def _tell(self, kind: int, message: Message, now: int) -> None:
        """A row for each operation."""
        origin, last = self.place(message.dot)
        size = len(message.payload) if kind == rows.DELIVER else 0
        for seq in range((message.before >> ORIGIN_BITS) + 1, last + 1):
            self._diary.row(kind, (origin, seq), None, now, size=size)
            size = 0  # of all of them, with the first

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
        self._log.note(PAST, put_past(self._past))
        self._log.insist()
        if ends:
            self._diary.row(rows.CRASH, None, None, now)
        self._me, self._diary = me, diary
        self._overlay.streams.become(me)
        self.order.become(me)
        if self.order.entries:
            self._diary.row(rows.START, None, None, now)
            self.tell_again(now)
        else:
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
        elif not self._goes_on:
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
        """Own operations."""
        return self._seen[self._me]

    def seen(self, origin: int) -> int:
        """How many operations of a member the client has sent or taken."""
        return self._seen[origin]

    @property
    def next_position(self) -> int:
        """Of the message that the application would take next; there must be one."""
        return self._inbox.next_position

    def submit(self, run: Sequence[bytes], now: int) -> tuple[Message, list[Effect]]:
        """The client sends these, as one message."""
        self._seen[self._me] += len(run)
        message = self.order.tag(run)
        self._mark_taken()
        self._append(message)
        self._tell(rows.SEND, message, now)
        self._apply(message, True)
        self._earlier.count()
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
        crowded: set[int] = set()
        for effect in asked:
            if not isinstance(effect, Message):
                effects.append(effect)
            elif released := self.order.receive(effect, now):
                for message in released:
                    self._released(message)
            else:
                self._diary.row(rows.HOLD, self.place(effect.dot), None, now)
                if make_room(self.order, self._overlay.gossip):
                    crowded.add(effect.dot)
        if self._diary.writes:
            self._rows.show(self._diary, self._overlay.streams.states(), now)
        return [each for each in effects if not brings(each, crowded)] if crowded else effects

    def _released(self, message: Message) -> None:
        self._inbox.add(message, self._append(message))

    def _append(self, message: Message) -> int:
        self._history.gathered.append(message)
        return self._log.append(message.dot, self.order.codec.encode(message))

    def take(self, now: int, seen: bool = False) -> int:
        """The client takes the next message; how many operations that are. `seen`: it did before, and that
        was not written down."""
        self.taken, message = self._inbox.pop()
        self._seen[message.dot & ORIGIN_MASK] = message.dot >> ORIGIN_BITS
        doubts = self.order.took(message)
        self._tell_taken(message, doubts, now)
        if doubts:
            self._alarmed(message, doubts, seen)
        if not seen:
            self._apply(message, False)
        self._earlier.count()
        if self._inbox.is_dry:
            self._refill()
        return message.span

    def _alarmed(self, late: Message, doubts: list[Message], seen: bool) -> None:
        """What the program took before `late` may have been too early."""
        self.alarms = True
        self.doubts += len(doubts)
        self._earlier.doubted(doubts, self.order.doubts_all)
        tag = self.tag_of(late)
        if not seen and tag is not None:
            tags = map(self.tag_of, doubts)
            self._application.doubted([each for each in tags if each is not None], tag)

    def set_right(self) -> bool:
        """The program has taken what there was. Where some of that was doubted, a program that is a state
        begins anew from one that nothing late belongs into, with everything since in order. Was something?"""
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

    def commit(self, now: int) -> list[DiskSync | Wake]:
        """Write down what must not be forgotten. What is to be synced, before anything that follows from
        this step leaves the node, and when to wake the log."""
        self._mark_taken()
        effects = self._log.commit(now)
        self._history.gathered.clear()
        if self._inbox.is_dry:
            self._refill()
        if self._earlier.due and self._application.holds and not self.inbox:  # it has all that the log has
            vector = tuple(self._log.vector)
            self._earlier.keep(EarlierState(self._log.tail, vector, self._application.state()))
        return effects

    def collect(self, now: int) -> Collected:
        """Remove from the log what no node needs any more."""
        return self._log.collect(now)

    def _mark_taken(self) -> None:
        if self.taken > self._marked:
            self._log.mark_taken(self.taken)
            self._marked = self.taken

    def _refill(self) -> None:
        """Read on where the inbox ends."""
        gathered = (message.dot & ORIGIN_MASK != self._me for message in self._history.gathered)
        self._inbox.fill(max(self.taken, self._log.head), gathered)

    def _untaken(self, stored: Stored) -> Message | None:
        return None if self.is_own(stored.dot, stored.position) else self.understood(stored)
