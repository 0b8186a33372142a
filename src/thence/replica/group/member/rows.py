"""What one incarnation writes to its trace of what it sends, holds, delivers and holds for stable.

Of a run each operation has rows of its own. Invariant: of each origin stable messages are told in order, each
once; those that were in the state are not told again.
"""

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK
from thence.core.groups import Place
from thence.core.message import Message
from thence.replica.group.ledger.ledger import Ledger
from thence.replica.group.ledger.payloads import carries
from thence.replica.group.surroundings import Closed, Diary
from thence.trace.recorder import DELIVER, EVICT, LEAVE, SEND, STABLE


class MemberRows:
    __slots__ = ("_begun", "_diary", "_ledger", "_me", "_told", "writes")

    def __init__(self, me: str, diary: Diary, ledger: Ledger, stable: dict[str, int]) -> None:
        """`stable`: by name, what the state that this incarnation began with tells."""
        self._me = me
        self._diary = diary
        self._ledger = ledger
        self._begun = {name: count for name, count in stable.items() if name not in ledger.past}
        self._told: dict[int, int] = {}
        """By index, up to where messages were told as stable; before the first, as in the state."""
        self.writes = diary.writes

    def sent(self, message: Message, now: int) -> None:
        """Of a run, each operation follows from the one before it."""
        deps, carried = self._ledger.places(message.context), self._carries(message.payload)
        for seq in counters_of(message):
            self._diary.row(SEND, (self._me, seq), deps, now, carried)
            deps = ((self._me, seq),)

    def each(self, kind: int, message: Message, now: int) -> None:
        """Of a run, a row for each operation."""
        origin = self._ledger.names[message.dot & ORIGIN_MASK]
        size = len(message.payload) if kind == DELIVER else 0
        for seq in counters_of(message):
            self._diary.row(kind, (origin, seq), None, now, size=size)
            size = 0  # of all of them, with the first

    def stable_up_to(self, dot: int, now: int) -> None:
        """Of each origin messages become stable in order."""
        at, name = dot & ORIGIN_MASK, self._ledger.names[dot & ORIGIN_MASK]
        for seq in range(self._told.get(at, self._begun.get(name, 0)) + 1, (dot >> ORIGIN_BITS) + 1):
            self._diary.row(STABLE, (name, seq), None, now)
        self._told[at] = dot >> ORIGIN_BITS

    def _carries(self, payload: bytes) -> tuple[Place, ...]:
        return self._ledger.timelines.traced(carries(payload), self._ledger.count)

    def evicted(self, member: str, last: int, now: int) -> None:
        self._diary.row(EVICT, (member, last), None, now)

    def left(self, now: int) -> None:
        """What it still delivers concerns no application."""
        self._diary.row(LEAVE, None, None, now)
        self.close()

    def close(self) -> None:
        """Nothing that happens here from now on is for its trace."""
        self._diary = Closed()
        self.writes = self._diary.writes


def counters_of(message: Message) -> range:
    """The counters of its operations."""
    return range((message.before >> ORIGIN_BITS) + 1, (message.dot >> ORIGIN_BITS) + 1)
