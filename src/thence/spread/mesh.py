"""Full mesh: a sender brings its messages to every member itself.

The topology of the tagged causal broadcast document's experiments, made reliable: each member tells
the senders it heard from what it has of them, and a sender repeats what stays unacknowledged.

State. Outgoing: `_log`, own messages that a peer has not acknowledged, the first of them number
`_base + 1`; per peer a `_Link` with the acknowledged counter and the estimate of its round trip.
Incoming: per origin `_received`, the counter below which nothing is missing, and `_early`, the dots
above it that came before their turn; `_owed`, the peers that have sent something since they were
last told. Messages on the wire are `Message` and `Ack`.

Invariants. A message leaves the log only when every peer has acknowledged it. A dot is passed on to
the ordering engine exactly once. A wake-up is outstanding whenever something is owed or in the log,
and only then: a mesh at rest is silent.

Acknowledgements are cumulative with the early dots named, so that one lost message costs one repeat
and not everything behind it. They are sent together, once in `ack_every_us`. A repeat is due after a
time that follows the link's measured round trip (smoothed mean plus four deviations, never measured
on repeated messages) and doubles while a link stays silent: a slow link is not flooded with repeats,
and a cut one costs little.
"""

from dataclasses import dataclass

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK, pack
from thence.core.errors import PeerError, UsageError
from thence.core.machine import Ack, Packet, SpreadEffect, Transmit, Wake
from thence.core.message import Message
from thence.spread.spread import SpreadKind


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshSettings:
    ack_every_us: int = 50_000
    """Long enough to acknowledge several messages at once, short against a person's patience."""
    repeat_first_us: int = 400_000
    """Before a round trip was measured: above any round trip on Earth plus the wait for the ack."""
    repeat_min_us: int = 100_000
    """Two ack intervals: an acknowledgement is always given its chance."""
    repeat_max_us: int = 5_000_000
    """How long a healed link may go unnoticed."""
    burst: int = 512
    """Messages repeated to one peer at a time: a long outage must not fill the link's queue."""

    def __post_init__(self) -> None:
        if not 0 < self.ack_every_us < self.repeat_min_us <= self.repeat_max_us or self.burst < 1:
            raise UsageError("mesh settings: need 0 < ack_every < repeat_min <= repeat_max and burst >= 1")


NOTHING: frozenset[int] = frozenset()


class _Link:
    """What a sender knows of one receiver."""

    __slots__ = ("acked", "deviation", "early", "early_at", "mean", "repeat_us", "repeated", "repeated_at")

    def __init__(self, repeat_us: int) -> None:
        self.acked = 0
        self.early = NOTHING
        self.early_at = 0
        self.mean = 0
        self.deviation = 0
        self.repeat_us = repeat_us
        self.repeated = 0
        """The highest own counter that was ever repeated; round trips up to it tell nothing."""
        self.repeated_at = 0

    def measured(self, sample: int) -> None:
        if self.mean:
            self.deviation += (abs(sample - self.mean) - self.deviation) // 4
            self.mean += (sample - self.mean) // 8
        else:
            self.mean, self.deviation = max(sample, 1), sample // 2

    def progressed(self, settings: MeshSettings) -> None:
        """The link is alive: repeat after what its round trips suggest, no longer doubled."""
        due = self.mean + 4 * self.deviation if self.mean else settings.repeat_first_us
        self.repeat_us = min(max(due, settings.repeat_min_us), settings.repeat_max_us)


class Mesh:
    __slots__ = (
        "_base", "_early", "_links", "_log", "_me", "_owed", "_peers", "_received", "_sent_at",
        "_settings", "_wake_at",
    )  # fmt: skip

    def __init__(self, me: int, size: int, settings: MeshSettings | None = None) -> None:
        if not 0 <= me < size:
            raise ValueError(f"member {me} of {size}")
        self._settings = settings or MeshSettings()
        self._me = me
        self._peers = tuple(peer for peer in range(size) if peer != me)
        self._base = 0
        self._log: list[Message] = []
        self._sent_at: list[int] = []
        self._links = {peer: _Link(self._settings.repeat_first_us) for peer in self._peers}
        self._received = [0] * size
        self._early: dict[int, None] = {}
        self._owed: dict[int, None] = {}
        self._wake_at: int | None = None

    @property
    def drained(self) -> bool:
        return not (self._log or self._owed or self._early) and self._wake_at is None

    def broadcast(self, message: Message, now: int) -> list[SpreadEffect]:
        if not self._peers:
            return []
        self._log.append(message)
        self._sent_at.append(now)
        effects: list[SpreadEffect] = [Transmit(self._peers, message)]
        if self._wake_at is None:
            effects.append(self._rest(now))
        return effects

    def receive(self, peer: int, packet: Packet, now: int) -> list[SpreadEffect]:
        if peer not in self._links:
            raise PeerError(f"a packet from {peer}, who is not a peer")
        if type(packet) is Ack:
            self._acknowledged(peer, packet, now)
            return []
        if not isinstance(packet, Message):
            raise PeerError(f"a mesh has no use for a {type(packet).__name__}")
        effects: list[SpreadEffect] = [packet] if self._is_new(packet.dot) else []
        self._owed[peer] = None  # only now: garbage is owed no answer
        if self._wake_at is None:
            effects.append(self._rest(now))
        return effects

    def _is_new(self, dot: int) -> bool:
        origin, seq = dot & ORIGIN_MASK, dot >> ORIGIN_BITS
        received = self._received
        if origin >= len(received) or origin == self._me or seq < 1:
            raise PeerError(f"message {seq} of member {origin} cannot be")
        missing = received[origin] + 1
        if seq < missing or dot in self._early:
            return False
        if seq > missing:
            self._early[dot] = None
            return True
        received[origin] = seq
        early = self._early
        if early:
            dot = pack(origin, seq + 1)
            while dot in early:
                del early[dot]
                received[origin] += 1
                dot = pack(origin, received[origin] + 1)
        return True

    def _acknowledged(self, peer: int, ack: Ack, now: int) -> None:
        link = self._links[peer]
        me = self._me
        early = frozenset(dot for dot in ack.early if dot & ORIGIN_MASK == me)
        count = ack.received[me] if me < len(ack.received) else -1
        top = self._base + len(self._log)
        if not 0 <= count <= top or (early and max(early) > pack(me, top)):
            raise PeerError(f"member {peer} acknowledges what was never sent")
        if count < link.acked:
            return  # an older acknowledgement that was overtaken
        if count > link.acked:
            if count > max(link.repeated, self._base):
                link.measured(now - self._sent_at[count - self._base - 1])
            link.acked = count
            link.progressed(self._settings)
        link.early = early
        link.early_at = now

    def wake(self, now: int) -> list[SpreadEffect]:
        # The one asked for will come: were this one obeyed, it would ask for another, and each of the
        # two for the next. Half an interval of slack, for timers that fire early.
        if self._wake_at is None or now + self._settings.ack_every_us // 2 < self._wake_at:
            return []
        effects: list[SpreadEffect] = []
        if self._owed:
            effects.append(Transmit(tuple(self._owed), Ack(tuple(self._received), tuple(self._early))))
            self._owed.clear()
        self._forget()
        if self._log:
            self._repeat(now, effects)
            effects.append(self._rest(now))
        else:
            self._wake_at = None
        return effects

    def up(self, peer: int, now: int) -> list[SpreadEffect]:  # noqa: ARG002
        """Nothing: packets are lost one by one here, and repeated."""
        return []

    def down(self, peer: int, now: int) -> list[SpreadEffect]:  # noqa: ARG002
        """Nothing either."""
        return []

    def resume(self, now: int) -> list[SpreadEffect]:
        return [self._rest(now)] if self._wake_at is not None or self._log else []

    def _rest(self, now: int) -> Wake:
        self._wake_at = now + self._settings.ack_every_us
        return Wake(self._wake_at)

    def _forget(self) -> None:
        """Drop from the log what all members have."""
        if self._log:
            by_all = min([link.acked for link in self._links.values()])
            done = by_all - self._base
            if done > 0:
                del self._log[:done]
                del self._sent_at[:done]
                self._base = by_all

    def _repeat(self, now: int, effects: list[SpreadEffect]) -> None:
        """Send again what is due, peer by peer, oldest first, at most a burst for each."""
        base, top = self._base, self._base + len(self._log)
        for peer, link in self._links.items():
            if link.acked == top:
                continue
            again = link.repeated_at + link.repeat_us <= now
            first = link.acked if again else max(link.acked, link.repeated)
            # A peer that crashed since may have forgotten what came early: trusted only while it is fresh.
            early = link.early if now < link.early_at + 2 * link.repeat_us else NOTHING
            due = self._due(first - base, now - link.repeat_us, early)
            if due:
                if again and link.repeated > link.acked:
                    link.repeat_us = min(2 * link.repeat_us, self._settings.repeat_max_us)
                link.repeated = max(link.repeated, due[-1].dot >> ORIGIN_BITS)
                link.repeated_at = now
                to = (peer,)
                effects.extend([Transmit(to, message) for message in due])

    def _due(self, first: int, sent_before: int, early: frozenset[int]) -> list[Message]:
        """The messages from place `first` of the log on that should have been acknowledged."""
        due: list[Message] = []
        for i in range(first, len(self._log)):
            if self._sent_at[i] > sent_before or len(due) == self._settings.burst:
                break
            message = self._log[i]
            if message.dot not in early:
                due.append(message)
        return due


MESH = SpreadKind("mesh", Mesh)
