"""What one member is sent over a session link, and what it lacks that is not in memory any more: that is read
from the log, a little in each step.

A member that was away for long lacks tens of thousands of messages. To read them at once, or to look for the
few of one origin among all others, would make everybody else's messages wait. So a reader stands where it is
until the next step, and everything that one step reads, for all members, comes out of one allowance.
"""

from collections import deque
from collections.abc import Generator, Iterator
from typing import TypeVar

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK
from thence.oplog.reading import OutOfReachError
from thence.oplog.record import Stored
from thence.replica.group_fragments import Fragmenting
from thence.replica.group_ledger import Ledger
from thence.replica.group_settings import GroupSettings

T = TypeVar("T")

KILOBYTE_BITS = 10


class Allowance:
    """Of one step. A message costs one, a large one as many as it has kilobytes."""

    __slots__ = ("left",)

    def __init__(self, messages: int) -> None:
        self.left = messages

    def spend(self, data: bytes) -> None:
        self.left -= 1 + (len(data) >> KILOBYTE_BITS)

    def spend_on(self, work: Generator[int, None, T]) -> tuple[T] | None:
        """Go on with something that yields what each of its items has cost, in bytes; what becomes of it, if
        that was all."""
        try:
            while self.left > 0:
                self.left -= 1 + (next(work) >> KILOBYTE_BITS)
        except StopIteration as end:
            return (end.value,)
        return None


class Backlog:
    """Messages of one origin, for one member."""

    __slots__ = ("_ledger", "_origin", "_rest", "dry")

    def __init__(self, ledger: Ledger, origin: str) -> None:
        self._ledger = ledger
        self._origin = origin
        self._rest: Iterator[Stored] | None = None
        self.dry = False
        """There was nothing left in the log when it was last asked."""

    def rewind(self) -> None:
        """What was found last was not used: look for it again."""
        self._rest = None

    def read(self, after: int, allowance: Allowance) -> Iterator[tuple[int, bytes]]:
        """Counters and bytes of the next messages above a counter, in order."""
        begun, self.dry = self._rest is None, False
        if self._rest is None:
            self._rest = self._ledger.near(self._origin, after)
        index = self._ledger.index(self._origin)
        try:
            for stored in self._rest:
                allowance.spend(stored.data)
                if stored.dot & ORIGIN_MASK == index and stored.dot >> ORIGIN_BITS > after:
                    yield stored.dot >> ORIGIN_BITS, stored.data
                if allowance.left <= 0:
                    return
        except OutOfReachError:
            begun = False  # what it stood before is stable by now, and was collected
        self._rest = None
        self.dry = begun  # else the log has grown since it was begun


class Relay:
    """What one member is passed on of one origin."""

    __slots__ = ("backlog", "began", "last", "sent")

    def __init__(self, sent: int, backlog: Backlog) -> None:
        self.sent = sent
        self.began = sent
        """What it was sent when the last receipt came."""
        self.last = sent
        """Up to where it goes before the next receipt."""
        self.backlog = backlog


class Outgoing:
    """What one member is sent under one number."""

    __slots__ = (
        "_acked_bytes", "_filled", "_marks", "_sent_bytes", "acked", "backlog", "fragments", "number", "open",
        "ready", "relayed_bytes", "relays", "sent", "to", "told",
    )  # fmt: skip

    def __init__(self, number: int, to: str, acked: int, filled: list["Outgoing"], backlog: Backlog) -> None:
        self.backlog = backlog
        """Own messages that it lacks and that are not in memory any more."""
        self._filled = filled
        """Of all members those for whom something is ready."""
        self.number = number
        self.to = to
        self.open = True
        """It is not, while the other is suspected: a leaver's leave may yet be heard of."""
        self.told = 0
        """How many names the other end knows."""
        self.ready: list[bytes] = []
        """To leave at the end of the step, or behind the large message that is under way."""
        self.fragments = Fragmenting()
        self.acked = self.sent = acked
        self.relays: dict[str, Relay] = {}
        """By origin, others' messages that are passed on."""
        self.relayed_bytes = 0
        """Of these, since the last receipt."""
        self._acked_bytes = self._sent_bytes = 0
        self._marks: deque[tuple[int, int]] = deque()
        """Now and then: up to this counter, so many bytes were sent."""

    def add(self, data: bytes) -> None:
        if not self.ready and not self.fragments.busy:
            self._filled.append(self)
        self.ready.append(data)

    def may_pass(self, relay: Relay, most: int) -> bool:
        """May one more message of this origin be passed on before the next receipt? Of each one may, however
        large those of others are: they may wait for it."""
        return self.relayed_bytes <= most or relay.sent == relay.began

    def offer(self, before: int, seq: int, data: bytes, settings: GroupSettings) -> None:
        """The next own message, to one that has everything up to the one before it, and room."""
        if (
            self.open
            and self.sent == before
            and before - self.acked < settings.window
            and self._sent_bytes - self._acked_bytes < settings.window_bytes
        ):
            self.sending(seq, data, settings.window_bytes // 16)

    def sending(self, seq: int, data: bytes, mark_every: int) -> None:
        if not self.ready:
            self._filled.append(self)
        self.ready.append(data)
        self.sent = seq
        self._sent_bytes += len(data)
        if self._sent_bytes - (self._marks[-1][1] if self._marks else self._acked_bytes) >= mark_every:
            self._marks.append((seq, self._sent_bytes))

    def acknowledged(self, seq: int) -> None:
        self.acked = max(self.acked, seq)
        self.sent = max(self.sent, seq)
        while self._marks and self._marks[0][0] <= seq:
            self._acked_bytes = self._marks.popleft()[1]
        if self.acked == self.sent:
            self._acked_bytes = self._sent_bytes

    def room(self, settings: GroupSettings) -> bool:
        return (
            self.sent - self.acked < settings.window
            and self._sent_bytes - self._acked_bytes < settings.window_bytes
        )
