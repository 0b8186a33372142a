"""Which hops were delivered here, and which wait: rules R3 and R5 of the causal separators document.

State. `newest`: by hop sender, the counter up to which everything addressed to this process was delivered;
without R5 also `_singly`, every hop. `_waiting`: hops whose predecessors were not delivered, each filed in
`_blocked` under the sender of one that is missing. `_ready`: hops that wait for nothing.

Invariant. `newest` has a counter c of s exactly if every hop of s to this process up to c was delivered: a
hop carries those before it, or its receiver was told of them.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, Generic, TypeVar

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK, pack
from thence.order.history import Noted

Item = TypeVar("Item")


class Deliveries(Generic[Item]):
    """One process's (D, W); an item is what comes with a hop."""

    __slots__ = ("_blocked", "_fifo", "_me", "_ready", "_singly", "_waiting", "newest")

    def __init__(self, me: int, fifo: bool = True, senders: Iterable[int] = ()) -> None:
        self._me: Final = me
        self._fifo: Final = fifo
        self.newest = dict.fromkeys(senders, 0)
        self._singly: set[int] = set()
        self._waiting: dict[int, tuple[Sequence[Noted], Item]] = {}
        self._blocked: dict[int, list[int]] = {}
        self._ready: deque[tuple[int, Item]] = deque()

    def __len__(self) -> int:
        """How many hops wait."""
        return len(self._waiting)

    def words(self) -> int:
        held = sum([3 + 3 * len(stamp) for stamp, _ in self._waiting.values()])
        return 2 * len(self.newest) + len(self._singly) + held

    def has(self, dot: int) -> bool:
        """R5: a later one of the same sender stands for it."""
        if not self._fifo:
            return dot in self._singly
        return dot >> ORIGIN_BITS <= self.newest.get(dot & ORIGIN_MASK, 0)

    def mark(self, dot: int) -> None:
        """The hop was delivered here, or sent (R4)."""
        sender, counter = dot & ORIGIN_MASK, dot >> ORIGIN_BITS
        self.newest[sender] = max(counter, self.newest.get(sender, 0))
        if not self._fifo:
            self._singly.add(dot)

    def offer(self, dot: int, stamp: Sequence[Noted], item: Item) -> bool:
        """A hop arrives; False: it was here before."""
        if dot in self._waiting or self.has(dot):
            return False
        missing = self._missing(stamp)
        if missing is None:
            self._ready.append((dot, item))
        else:
            self._waiting[dot] = stamp, item
            self._blocked.setdefault(missing, []).append(dot)
        return True

    def pop(self) -> Item | None:
        """The next hop to deliver, which counts as delivered from now on."""
        if not self._ready:
            return None
        dot, item = self._ready.popleft()
        self.mark(dot)
        for other in self._blocked.pop(dot & ORIGIN_MASK, ()):
            stamp, held = self._waiting[other]
            missing = self._missing(stamp)
            if missing is None:
                del self._waiting[other]
                self._ready.append((other, held))
            else:
                self._blocked.setdefault(missing, []).append(other)
        return item

    def _missing(self, stamp: Sequence[Noted]) -> int | None:
        """R3: a sender of which a hop is missing that this one follows."""
        me = self._me
        for noted in stamp:
            if me in noted.residual and not self.has(noted.hop):
                return noted.hop & ORIGIN_MASK
        return None

    def last(self, sender: int) -> int:
        """The counter of the last hop of a sender that is here, delivered or not."""
        held = [dot >> ORIGIN_BITS for dot in self._waiting if dot & ORIGIN_MASK == sender]
        return max([self.newest.get(sender, 0), *held])

    def held(self) -> list[Item]:
        """What waits, in the order in which it came."""
        return [item for _, item in self._waiting.values()]

    def word(self) -> tuple[int, ...]:
        """R11: the newest hop of each sender that was delivered here."""
        return tuple([pack(sender, count) for sender, count in sorted(self.newest.items()) if count])
