"""Periodic pull: every now and then ask one neighbour, by chance, for what is missing here.

The document's second baseline (section 5.3.1): no node is ever sent what it has, and everything comes late. A
node asks with its clock and gets what the clock lacks, causes first; a large answer comes piece by piece,
each asked for. Only one question is open at a time, so that no two answers overlap.
"""

from dataclasses import dataclass
from random import Random

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK
from thence.core.errors import PeerError, UsageError
from thence.core.history import History
from thence.core.machine import NEVER, Packet, SpreadEffect, Transmit, Wake
from thence.core.message import Message
from thence.core.overlay import Pull, Sync
from thence.spread.stream_link import OVERHEAD


@dataclass(frozen=True, slots=True, kw_only=True)
class PullSettings:
    period_us: int = 200_000
    """The quicker of the document's two; the other is 1 s."""
    answer_us: int = 2_000_000
    """A neighbour that has not answered by then is asked no more this time: it may be paused."""
    piece_bytes: int = 64 << 10

    def __post_init__(self) -> None:
        if min(self.period_us, self.answer_us, self.piece_bytes) < 1:
            raise UsageError("pull settings: everything must be positive")


class PeriodicPull:
    __slots__ = (
        "_ask_at", "_asked", "_clock", "_history", "_me", "_peers", "_random", "_settings", "_until",
        "_wake_at",
    )  # fmt: skip

    def __init__(
        self, me: int, size: int, history: History, random: Random, settings: PullSettings | None = None
    ) -> None:
        if not 0 <= me < size:
            raise ValueError(f"member {me} of {size}")
        self._settings = settings or PullSettings()
        self._me = me
        self._history = history
        self._random = random
        self._clock = list(history.vector) + [0] * (size - len(history.vector))
        self._peers: dict[int, None] = {}
        self._asked: int | None = None
        self._ask_at = NEVER
        self._until = NEVER
        self._wake_at = NEVER

    @property
    def clock(self) -> tuple[int, ...]:
        return tuple(self._clock)

    @property
    def drained(self) -> bool:
        return True

    def resume(self, now: int) -> list[SpreadEffect]:  # noqa: ARG002
        return []

    def up(self, peer: int, now: int) -> list[SpreadEffect]:
        self._peers[peer] = None
        if self._ask_at == NEVER:
            self._ask_at = now + self._random.randrange(self._settings.period_us)
        return self._planned([], now)

    def down(self, peer: int, now: int) -> list[SpreadEffect]:
        self._peers.pop(peer, None)
        if peer == self._asked:
            self._asked = None
        return self._planned([], now)

    def broadcast(self, message: Message, now: int) -> list[SpreadEffect]:  # noqa: ARG002
        """It waits in the history until a neighbour asks."""
        self._clock[self._me] = message.dot >> ORIGIN_BITS
        return []

    def receive(self, peer: int, packet: Packet, now: int) -> list[SpreadEffect]:
        if peer not in self._peers:
            raise PeerError(f"a packet from {peer}, who is not a neighbour")
        if isinstance(packet, Pull):
            return [Transmit((peer,), self._answer(packet.clock))]
        if not isinstance(packet, Sync):
            raise PeerError(f"a pull has no use for a {type(packet).__name__}")
        if peer != self._asked:
            return []  # too late: another neighbour has been asked meanwhile
        effects = self._take(peer, packet)
        if packet.last:
            self._asked = None
        else:
            self._until = now + self._settings.answer_us
            effects.append(Transmit((peer,), Pull(tuple(self._clock))))
        return self._planned(effects, now)

    def _take(self, peer: int, answer: Sync) -> list[SpreadEffect]:
        clock = list(self._clock)
        for message in answer.messages:
            origin, seq = message.dot & ORIGIN_MASK, message.dot >> ORIGIN_BITS
            if origin >= len(clock) or origin == self._me or seq != clock[origin] + 1:
                raise PeerError(f"member {peer} answers with message {seq} of member {origin}")
            clock[origin] = seq
        self._clock = clock
        return list(answer.messages)

    def _answer(self, clock: tuple[int, ...]) -> Sync:
        piece: list[Message] = []
        size = 0
        for message in self._history.missing(clock):
            if size >= self._settings.piece_bytes:
                return Sync(0, tuple(piece), False)
            piece.append(message)
            size += len(message.payload) + OVERHEAD
        return Sync(0, tuple(piece), True)

    def wake(self, now: int) -> list[SpreadEffect]:
        if now >= self._wake_at:
            self._wake_at = NEVER
        effects: list[SpreadEffect] = []
        if self._until <= now:
            self._asked = None
        if self._asked is None and self._ask_at <= now:
            self._ask_at = NEVER
            if self._peers:
                self._asked = self._random.choice(list(self._peers))
                self._ask_at = now + self._settings.period_us
                self._until = now + self._settings.answer_us
                effects.append(Transmit((self._asked,), Pull(tuple(self._clock))))
        return self._planned(effects, now)

    def _planned(self, effects: list[SpreadEffect], now: int) -> list[SpreadEffect]:
        due = self._ask_at if self._asked is None else self._until
        if due < self._wake_at:
            self._wake_at = max(due, now)
            effects.append(Wake(self._wake_at))
        return effects
