"""A replica that survives crashes: what it must not forget is in its log first.

Messages carry their dot alone (`order/streamed.py`): the spread brings them in causal order. Own messages are
appended when the client submits them, others when they come; the driver calls `commit` after each step,
before it carries out the step's effects and before the client takes anything. So whatever another node or the
application has seen of this one is in the log. After a commit that failed the replica is built anew.

What the application has taken is marked in the log, between its own messages as it happened, and committed
before it gets to see it. What it has not taken, it has not seen: its next message does not follow from it. A
bounded number of messages waits for it in memory, the others are read from the log when it gets there.

Recovery needs nothing but the log. When its oldest messages are collected, what must be known of them is the
frontier of everything up to some position: it is noted whenever a segment begins, and collection stops at the
newest such position that the application has passed.
"""

from collections import deque
from typing import Final, Protocol

from thence.core.codec import Codec
from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK, newest_of
from thence.core.machine import Effect, OrderEffect, Wake
from thence.core.message import Message
from thence.core.varint import MAX_SEQ, Reader, put
from thence.oplog.log import Collected, OpLog
from thence.oplog.policy import Sync
from thence.oplog.record import Note, SnapshotRef, Stored, Taken
from thence.oplog.state import covers
from thence.order.streamed import STREAMED
from thence.replica.history import understood
from thence.replica.replica import Delivered, Replica
from thence.spread.spread import Spread
from thence.trace.recorder import DELIVER, INSTALL, Recorder

FRONTIER: Final = 1
"""The key of the notes that hold a frontier."""

REGAINING: Final = 4
"""The key of the notes that say: from this counter on, own messages in the log were given back by others."""

REGAINED: Final = 5
"""And up to this one."""

INBOX_MAX: Final = 4096
"""Messages that wait for the application in memory: enough that reading the log back costs little each."""


def noted_frontier(note: bytes) -> tuple[int, int, tuple[int, ...]]:
    """Up to which position, how many own messages there were, and the context that follows from all of it."""
    reader = Reader(note, 0, len(note))
    position, own = reader.take(), reader.take()
    return position, own, tuple([reader.take() for _ in range(reader.take())])


class DurableSpread(Spread, Protocol):
    def recall(self, kept: tuple[int, ...]) -> None:
        """The node starts: with so many messages of every member in its log."""
        ...


class DurableReplica(Replica):
    __slots__ = (
        "_codec", "_frontier", "_gathered", "_inbox_max", "_log", "_marked", "_me", "_noted", "_noting",
        "_positions", "_regained", "_regaining_noted", "_segment", "_size", "_spilled", "taken",
    )  # fmt: skip

    def __init__(
        self,
        me: int,
        size: int,
        spread: DurableSpread,
        recorder: Recorder,
        log: OpLog,
        taken: int,
        inbox_max: int = INBOX_MAX,
    ) -> None:
        """From what the log holds, for an application that has taken everything up to `taken`."""
        super().__init__(me, size, STREAMED, spread, recorder, stability=False)
        self._me = me
        self._size = size
        self._codec = Codec(size, STREAMED.stamps_are_dots)
        self._log = log
        self._positions: deque[int] = deque()
        self._inbox_max = inbox_max
        self._spilled = True  # the log holds more for the application than the inbox does
        self._gathered: list[Message] = []  # appended and not committed
        self._frontier = STREAMED.tagger(me, size)
        """Sees every message of the log, in its order, whether the application has taken it or not."""
        self._regained: list[tuple[int, int]] = []
        """Own messages that come to the application like those of others: above, up to."""
        self._noted: list[int] = []
        self._regaining_noted = True
        self._noting = False  # a frontier is gathered and not committed
        self._segment = -1  # the active segment may have no frontier: it gets one
        self.taken = taken
        self._marked = log.taken
        self._recover(spread)
        self._regained_up_to(log.vector[me] if me < len(log.vector) else 0)  # over, unless `regain` is called
        self._refill()

    # Recovery

    def _recover(self, spread: DurableSpread) -> None:
        log = self._log
        kept = self._before()
        for position, record in log.records(log.head):
            if isinstance(record, Note):
                self._recall(record)
            elif isinstance(record, SnapshotRef):
                self._recall_state(record.clock, kept)
            if not isinstance(record, Stored):
                continue
            message = understood(self._codec, record)
            self._frontier.recall(message)
            kept[message.dot & ORIGIN_MASK] = message.dot >> ORIGIN_BITS
            if position <= self.taken or self._own(message.dot):
                self._tagger.recall(message)
        spread.recall(tuple(kept))

    def _before(self) -> list[int]:
        """Counters of what came before the log's oldest record."""
        start = self._log.start
        return list(start) + [0] * (self._size - len(start))

    def _recall_state(self, clock: tuple[int, ...], kept: list[int]) -> None:
        """Here a state was written down that reflects everything up to `clock` (`replica/eco.py`)."""

    def tell_again(self, now: int) -> None:
        """After a restart, for a trace that passes over the rows that it has: what the log knows to have been
        sent and taken, in that order."""
        untaken: deque[tuple[int, int]] = deque()
        held = self._before()
        for position, record in self._log.records(self._log.head):
            if isinstance(record, SnapshotRef):
                if not covers(held, record.clock):  # if the trace has it, no node holds more by that
                    frontier = newest_of(record.clock)
                    self._recorder.record_deps(INSTALL, 0, frontier, now)
            elif isinstance(record, Taken):
                while untaken and untaken[0][0] <= record.upto:
                    self._recorder.record(DELIVER, untaken.popleft()[1], now)
            elif isinstance(record, Stored):
                held[record.dot & ORIGIN_MASK] = record.dot >> ORIGIN_BITS
                if self._own(record.dot):
                    self._record_sent(understood(self._codec, record), now)
                else:
                    untaken.append((position, record.dot))

    def _recall(self, note: Note) -> None:
        if note.key == FRONTIER:
            self._resume(note.data)
        elif note.key == REGAINING:
            self._regain(int.from_bytes(note.data, "little"))
        elif note.key == REGAINED:
            self._regained_up_to(int.from_bytes(note.data, "little"))

    def _own(self, dot: int) -> bool:
        """Did the client send this, and so has seen it, since the node last forgot anything?"""
        if dot & ORIGIN_MASK != self._me:
            return False
        return not any(above < dot >> ORIGIN_BITS <= upto for above, upto in self._regained)

    def _regain(self, above: int) -> None:
        self._regained_up_to(above)
        self._regained.append((above, MAX_SEQ))

    def _regained_up_to(self, upto: int) -> None:
        if self._regained and self._regained[-1][1] == MAX_SEQ:
            self._regained[-1] = (self._regained[-1][0], upto)

    @property
    def regaining(self) -> bool:
        """Own messages may still come, or wait for the application to take them."""
        return bool(self._regained) and self._regained[-1][1] == MAX_SEQ

    def regain(self) -> None:
        """The log may lack messages that this node has sent: until `regained`, those that others have come
        back as if they were others'. Part of the next commit."""
        self._regain(self._log.vector[self._me])
        self._regaining_noted = False

    def _note_regaining(self) -> None:
        self._log.note(REGAINING, self._regained[-1][0].to_bytes(8, "little"))

    def regained(self) -> bool:
        """Everything that others have is in the log: from now on the client may send, if it has taken it."""
        if any(message.dot & ORIGIN_MASK == self._me for message in self.inbox) or self._spilled:
            return False
        upto = self._log.vector[self._me]
        self._log.note(REGAINED, upto.to_bytes(8, "little"))
        self._regained_up_to(upto)
        return True

    def _resume(self, note: bytes) -> None:
        """What stood before this note may have been collected: begin with what it says."""
        position, own, context = noted_frontier(note)
        self._frontier.resume(own, context)
        self._noted.append(position)
        if position <= self.taken:
            self._tagger.resume(own, context)

    def _note_frontier(self) -> None:
        """The log has begun a segment: from here on it can be understood without the ones before."""
        out = bytearray()
        put(out, self._log.tail)
        put(out, self._log.vector[self._me])
        context = self._frontier.context()
        put(out, len(context))
        for entry in context:
            put(out, entry)
        self._log.note(FRONTIER, bytes(out))
        self._noted.append(self._log.tail)
        self._noting = True

    def collect(self, now: int) -> Collected:
        """Remove from the log what nobody needs any more."""
        if self.regaining:
            return Collected(0, 0)
        passed = [position for position in self._noted if position <= self._log.taken]
        collected = self._log.collect(now, passed[-1] if passed else 0)
        self._noted = [position for position in self._noted if position >= self._log.head]
        return collected

    # Steps

    @property
    def next_position(self) -> int:
        """Of the message that the application would take next; there must be one."""
        return self._positions[0]

    def take(self, now: int) -> Delivered:
        self.taken = self._positions.popleft()
        if self.inbox[0].dot & ORIGIN_MASK == self._me:
            self._tagger.recall(self.inbox[0])  # the next one counts on from it
        delivered = super().take(now)
        if self._spilled and not self.inbox:
            self._refill()
        return delivered

    def commit(self, now: int) -> list[Sync | Wake]:
        """Write down what must not be forgotten. What is to be synced, before anything that follows from
        this step leaves the node, and when to wake the log."""
        self._mark_taken()
        if self.regaining and not self._regaining_noted:
            self._note_regaining()
            self._regaining_noted = True
        effects = self._log.commit(now)
        for message in self._gathered:
            self._frontier.recall(message)
        self._gathered.clear()
        self._noting = False
        if self._segment != self._log.active:
            self._segment = self._log.active
            self._note_frontier()
        if self._spilled and not self.inbox:
            self._refill()
        return effects

    def _mark_taken(self) -> None:
        if self.taken > self._marked:
            self._log.mark_taken(self.taken)
            self._marked = self.taken

    def _write_down(self, message: Message) -> None:
        self._mark_taken()
        self._log.append(message.dot, self._codec.encode(message))
        self._gathered.append(message)

    def _release(self, released: list[OrderEffect], effects: list[Effect], now: int) -> None:  # noqa: ARG002
        for message in released:
            assert isinstance(message, Message)
            position = self._log.append(message.dot, message.wire or self._codec.encode(message))
            self._gathered.append(message)
            if self._spilled or len(self.inbox) >= self._inbox_max:
                self._spilled = True
            else:
                self.inbox.append(message)
                self._positions.append(position)

    def _refill(self) -> None:
        """Read on where the inbox ends."""
        inbox, positions = self.inbox, self._positions
        for stored in self._log.since(max(self.taken, self._log.head)):
            if not self._own(stored.dot):
                inbox.append(understood(self._codec, stored))
                positions.append(stored.position)
                if len(inbox) >= self._inbox_max:
                    return
        self._spilled = not all(self._own(message.dot) for message in self._gathered)
