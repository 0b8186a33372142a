"""A node's log in a simulated overlay: messages in memory, shared between nodes instead of copied.

Keeps what `core.history.History` promises and, beyond it, what collection and state transfer need: the oldest
messages can go, and a state can stand in for messages that never were here. It plays a log that is synced
with every step: a crash of its node forgets nothing. (Logs on a faulty disk: `sim.stores`.)
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK
from thence.core.errors import InvariantError
from thence.core.message import Message


class MemoryHistory:
    __slots__ = ("_at", "_first", "_floor", "_messages", "_places", "_vector", "size_bytes")

    def __init__(self, size: int) -> None:
        self._vector = [0] * size
        self._floor = [0] * size
        """Per member, up to where messages are not here although the vector counts them."""
        self._messages: list[Message] = []
        self._at: list[int] = []
        self._first = 0
        """How many messages were collected: the place of the first that is here."""
        self._places: list[list[int]] = [[] for _ in range(size)]
        """Per member, the places of its messages from the floor on."""
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def vector(self) -> tuple[int, ...]:
        return tuple(self._vector)

    def append(self, message: Message, now: int) -> None:
        origin, seq = message.dot & ORIGIN_MASK, message.dot >> ORIGIN_BITS
        if seq != self._vector[origin] + 1:
            raise InvariantError(f"message {seq} of member {origin} after {self._vector[origin]}")
        self._vector[origin] = seq
        self._places[origin].append(self._first + len(self._messages))
        self._messages.append(message)
        self._at.append(now)
        self.size_bytes += len(message.payload)

    def commit(self, now: int) -> None:
        """The step is over: it must not be forgotten. Memory never does."""

    def crash(self, now: int) -> None:
        """The node is down, and comes back with what its log knows."""

    def reaches(self, vector: Sequence[int]) -> bool:
        return all(floor <= had for floor, had in zip(self._floor, vector, strict=False))

    def missing(self, vector: Sequence[int]) -> Iterator[Message]:
        starts = [
            places[max(0, had - floor)]
            for places, floor, had, have in zip(self._places, self._floor, vector, self._vector, strict=True)
            if had < have and had - floor < len(places)
        ]
        if not starts:
            return
        for place in range(min(starts) - self._first, len(self._messages)):
            message = self._messages[place]
            if message.dot >> ORIGIN_BITS > vector[message.dot & ORIGIN_MASK]:
                yield message

    def collect(self, before: int, covered: Sequence[int]) -> int:
        """Drop messages from the front that came before this time and that a state stands in for."""
        until = bisect_left(self._at, before)
        count = 0
        for message in self._messages[:until]:
            origin, seq = message.dot & ORIGIN_MASK, message.dot >> ORIGIN_BITS
            if seq > covered[origin]:
                break
            if seq > self._floor[origin]:
                self._floor[origin] = seq
                del self._places[origin][0]
            self.size_bytes -= len(message.payload)
            count += 1
        del self._messages[:count]
        del self._at[:count]
        self._first += count
        return count

    def install(self, clock: Sequence[int]) -> None:
        """A state has come that reflects everything up to `clock`. What it is ahead of is not here; nor does
        what is here of such members help a node that lacks what lies between."""
        for origin, seq in enumerate(clock):
            if seq > self._vector[origin]:
                self._vector[origin] = self._floor[origin] = seq
                self._places[origin].clear()
