"""Messages for one receiver travel together: a spread around a spread.

Whatever the inner spread transmits to a peer within `every_us` leaves as one packet. Order per peer stays
as it is, tags are made long before, so that nothing changes but the number of packets and a delay of at
most one tick. Acknowledgements and the like do not wait.

A tick is none of the inner spread's business, which might take it for a wake-up of its own that came a
little early. `_asked` holds the wake-ups that the inner spread has coming; every other one but a tick is
passed on, since the inner spread may have had a reason for it.
"""

from thence.core.errors import PeerError
from thence.core.machine import Batch, Packet, SpreadEffect, Transmit, Wake
from thence.core.message import Message
from thence.spread.spread import Spread


class Batched:
    __slots__ = ("_asked", "_every_us", "_inner", "_queued", "_wake_at")

    def __init__(self, inner: Spread, every_us: int) -> None:
        if every_us <= 0:
            raise ValueError(f"a batch every {every_us} µs")
        self._inner = inner
        self._every_us = every_us
        self._asked: list[int] = []
        self._queued: dict[int, list[Message]] = {}
        self._wake_at: int | None = None

    @property
    def drained(self) -> bool:
        return not self._queued and self._inner.drained

    def broadcast(self, message: Message, now: int) -> list[SpreadEffect]:
        return self._gather(self._inner.broadcast(message, now), now)

    def receive(self, peer: int, packet: Packet, now: int) -> list[SpreadEffect]:
        if not isinstance(packet, Batch):
            return self._gather(self._inner.receive(peer, packet, now), now)
        if not packet.messages:
            raise PeerError("a batch of nothing")
        effects = self._gather(self._inner.receive(peer, packet.messages[0], now), now)
        for message in packet.messages[1:]:
            try:
                effects += self._gather(self._inner.receive(peer, message, now), now)
            except PeerError:
                # What came before is taken, and would be lost if this were raised. The rest is not.
                break
        return effects

    def wake(self, now: int) -> list[SpreadEffect]:
        effects: list[SpreadEffect] = []
        tick = self._wake_at is not None and self._wake_at <= now
        coming = [at for at in self._asked if at > now]
        if not tick or len(coming) < len(self._asked):
            self._asked = coming
            effects += self._gather(self._inner.wake(now), now)
        if tick:
            self._wake_at = None
            for peer, messages in self._queued.items():
                packet = messages[0] if len(messages) == 1 else Batch(tuple(messages))
                effects.append(Transmit((peer,), packet))
            self._queued.clear()
        return effects

    def up(self, peer: int, now: int) -> list[SpreadEffect]:
        return self._gather(self._inner.up(peer, now), now)

    def down(self, peer: int, now: int) -> list[SpreadEffect]:
        self._queued.pop(peer, None)
        return self._gather(self._inner.down(peer, now), now)

    def resume(self, now: int) -> list[SpreadEffect]:
        self._asked.clear()
        effects = self._gather(self._inner.resume(now), now)
        if self._wake_at is not None:
            effects.append(self._rest(now))
        return effects

    def _gather(self, effects: list[SpreadEffect], now: int) -> list[SpreadEffect]:
        """Keep messages back for the next tick, let everything else pass."""
        passed: list[SpreadEffect] = []
        for effect in effects:
            if isinstance(effect, Transmit) and isinstance(effect.packet, Message):
                for peer in effect.peers:
                    self._queued.setdefault(peer, []).append(effect.packet)
                if self._wake_at is None:
                    passed.append(self._rest(now))
            else:
                if isinstance(effect, Wake):
                    self._asked.append(effect.at)
                passed.append(effect)
        return passed

    def _rest(self, now: int) -> Wake:
        self._wake_at = now + self._every_us
        return Wake(self._wake_at)
