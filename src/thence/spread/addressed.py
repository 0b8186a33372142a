"""Addressed links: a hop goes to its addressees alone, and is repeated to each until it was acknowledged.

State. `_unacked`: by peer, then by the hop's counter, the hop and when it was last sent. `_newest`: by peer,
the counter of the last hop to it. `_owed`: by peer, the hops that came from it since it was last told.
Messages on the wire are `Message` and `Ack`, which names hops.

Invariants. A hop is kept for a peer until that peer has acknowledged it, or is dead. Every hop that arrives
is acknowledged and passed on, also one that came before: the ordering engine has a counter per sender and
knows. A wake-up is outstanding whenever something is owed or unacknowledged, and only then.
"""

from collections.abc import Callable
from typing import Final

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK, pack
from thence.core.errors import PeerError
from thence.core.machine import Ack, Packet, SpreadEffect, Transmit, Wake
from thence.core.message import Message
from thence.spread.mesh import MeshSettings


class Addressed:
    __slots__ = (
        "_address", "_counter", "_lost", "_me", "_newest", "_owed", "_repeat_us", "_settings", "_unacked",
        "_wake_at",
    )  # fmt: skip

    def __init__(
        self,
        me: int,
        counter: Callable[[Message], int],
        address: Callable[[Message], tuple[int, ...]],
        settings: MeshSettings | None = None,
    ) -> None:
        """`counter`: of the hop that a message is; `address`: where it goes."""
        self._me: Final = me
        self._counter: Final = counter
        self._address: Final = address
        self._settings: Final = settings or MeshSettings()
        self._unacked: dict[int, dict[int, tuple[Message, int]]] = {}
        self._newest: dict[int, int] = {}
        self._repeat_us: dict[int, int] = {}
        self._owed: dict[int, list[int]] = {}
        self._lost: set[int] = set()
        self._wake_at: int | None = None

    @property
    def drained(self) -> bool:
        return not (self._unacked or self._owed) and self._wake_at is None

    def newest(self, peer: int) -> int:
        """The counter of the last hop that went to the peer; 0: none did."""
        return self._newest.get(peer, 0)

    def may_lack(self, peer: int, upto: int) -> bool:
        """Is a hop to the peer not acknowledged, of those up to this counter?"""
        return any(counter <= upto for counter in self._unacked.get(peer, ()))

    def broadcast(self, message: Message, now: int) -> list[SpreadEffect]:
        return self.send(self._address(message), message, now)

    def up(self, peer: int, now: int) -> list[SpreadEffect]:  # noqa: ARG002
        """Nothing: packets are lost one by one here, and repeated."""
        return []

    def down(self, peer: int, now: int) -> list[SpreadEffect]:  # noqa: ARG002
        """Nothing either."""
        return []

    def send(self, peers: tuple[int, ...], message: Message, now: int) -> list[SpreadEffect]:
        if self._lost:
            peers = tuple([peer for peer in peers if peer not in self._lost])
        if not peers:
            return []
        counter = self._counter(message)
        for peer in peers:
            self._unacked.setdefault(peer, {})[counter] = message, now
            self._newest[peer] = counter
        effects: list[SpreadEffect] = [Transmit(peers, message)]
        self._rest(now, effects)
        return effects

    def receive(self, peer: int, packet: Packet, now: int) -> list[SpreadEffect]:
        effects: list[SpreadEffect] = []
        if isinstance(packet, Ack):
            waiting = self._unacked.get(peer, {})
            for dot in packet.early:
                if dot & ORIGIN_MASK != self._me:
                    raise PeerError(f"process {peer} acknowledges what was never sent")
                waiting.pop(dot >> ORIGIN_BITS, None)
            self._repeat_us.pop(peer, None)
            if not waiting:
                self._unacked.pop(peer, None)
            return effects
        if not isinstance(packet, Message):
            raise PeerError(f"addressed links have no use for a {type(packet).__name__}")
        self._owed.setdefault(peer, []).append(pack(peer, self._counter(packet)))
        effects.append(packet)
        self._rest(now, effects)
        return effects

    def wake(self, now: int) -> list[SpreadEffect]:
        if self._wake_at is None or now < self._wake_at:
            return []
        self._wake_at = None
        effects: list[SpreadEffect] = [
            Transmit((peer,), Ack((), tuple(dots))) for peer, dots in self._owed.items()
        ]
        self._owed.clear()
        for peer, hops in self._unacked.items():
            self._repeat(peer, hops, now, effects)
        if self._unacked:
            self._rest(now, effects)
        return effects

    def _repeat(
        self, peer: int, hops: dict[int, tuple[Message, int]], now: int, effects: list[SpreadEffect]
    ) -> None:
        settings = self._settings
        after = self._repeat_us.get(peer, settings.repeat_first_us)
        due = [counter for counter, (_, sent) in hops.items() if sent + after <= now][: settings.burst]
        for counter in due:
            message, _ = hops[counter]
            hops[counter] = message, now
            effects.append(Transmit((peer,), message))
        if due:
            self._repeat_us[peer] = min(2 * after, settings.repeat_max_us)

    def lost(self, peer: int) -> None:
        """The peer is dead: nothing is kept for it, and nothing sent."""
        self._lost.add(peer)
        self._unacked.pop(peer, None)
        self._owed.pop(peer, None)
        self._repeat_us.pop(peer, None)

    def resume(self, now: int) -> list[SpreadEffect]:
        """The node is back from a crash: outstanding wake-ups were lost."""
        self._wake_at = None
        effects: list[SpreadEffect] = []
        if self._owed or self._unacked:
            self._rest(now, effects)
        return effects

    def _rest(self, now: int, effects: list[SpreadEffect]) -> None:
        if self._wake_at is None:
            self._wake_at = now + self._settings.ack_every_us
            effects.append(Wake(self._wake_at))
