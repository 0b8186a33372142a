"""States that a program had, so that setting it right need not go through the whole log.

Once there was an alarm, a state is kept in memory now and then, of a moment at which the program had taken
all that the log held. What it takes later can belong before something in there only by being late: then some
of that is doubted (invariant 4 of docs/protocols/probabilistic.md), and the state is dropped with the alarm.
So is every state if the doubts may not go back far enough. Hence no operation that came after a state which
is still kept happened before one in it, and the program is right if it begins from that state and gets all
that came since, in order.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK
from thence.core.groups import Place
from thence.core.message import Message

EVERY: Final = 1000
"""Messages between two states, at least."""
SHARE: Final = 256
"""And one for so many bytes of the last: large ones are made seldom."""
KEPT: Final = 2


class EarlierState(NamedTuple):
    covers: int
    """Where the log ended."""
    vector: tuple[int, ...]
    """What it held, by member."""
    data: bytes

    def has(self, dot: int) -> bool:
        origin = dot & ORIGIN_MASK
        return origin < len(self.vector) and dot >> ORIGIN_BITS <= self.vector[origin]


class EarlierStates:
    __slots__ = ("_kept", "_since", "_wanted")

    def __init__(self) -> None:
        self._kept: Final[deque[EarlierState]] = deque(maxlen=KEPT)
        self._since = 0
        """Messages since the last one was made."""
        self._wanted = False

    @property
    def newest(self) -> EarlierState | None:
        return self._kept[-1] if self._kept else None

    def count(self) -> None:
        """The program was given one more message."""
        self._since += 1

    def doubted(self, doubts: Sequence[Message], all_of_them: bool) -> None:
        """These were perhaps taken too early. `all_of_them`: nothing that is not among them was."""
        self._wanted = True
        while self._kept and not (all_of_them and not any(self._kept[-1].has(one.dot) for one in doubts)):
            self._kept.pop()

    @property
    def due(self) -> bool:
        size = len(self._kept[-1].data) if self._kept else 0
        return self._wanted and self._since >= max(EVERY, size // SHARE)

    def keep(self, state: EarlierState) -> None:
        self._kept.append(state)
        self._since = 0


def in_order(
    messages: Iterable[tuple[Message, bool]], place: Callable[[int], Place]
) -> list[tuple[Message, bool]]:
    """By the sums of their clocks, which grow along happens-before, whatever was taken too early."""
    return sorted(messages, key=lambda each: (sum(each[0].context), *place(each[0].dot)))
