"""Gossip: a new message goes to a few neighbours by chance, and what chance left out is asked for.

The dissemination that the probabilistic ordering document assumes (sections 1 and 2): rumours spread quickly
and in any order, and anti-entropy brings what they missed. A node passes a message on once, when it first
comes, to `fanout` of its neighbours. Every `period_us` it asks one of them, by chance, for what it lacks
(`Pull`, answered by `Sync`), and so it does with each new neighbour; after an alarm of the ordering engine it
asks all of them at once. A message that chance left out comes with an answer: liveness rests on these.

Nothing is causal here: a message may come before its causes, and before the one that its sender sent before
it. Order is for the engine above (`order/probabilistic.py`).

Invariants. Each message is given to the replica once, until a restart, or until the replica lets it go
(`forget`): then it counts as one that never came. `clock` counts what came without a gap, so that an answer
to it lacks nothing. What waits in the replica for its causes is not in the history: after a restart the clock
is the log's, and it is asked for again. Beyond a gap lies only what waits there: the replica bounds both. An
answer tells a log in its order: each of its messages can be released when it comes, and none has to wait.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK, STEP, pack
from thence.core.errors import PeerError, UsageError
from thence.core.history import History
from thence.core.machine import NEVER, Packet, SpreadEffect, Transmit, Wake
from thence.core.message import Message
from thence.core.overlay import Pull, Sync
from thence.spread.stream_link import OVERHEAD


@dataclass(frozen=True, slots=True, kw_only=True)
class GossipSettings:
    fanout: int = 3
    """Neighbours that a message is passed on to: with five, nearly all nodes hear a rumour, at two thirds of
    the packets of a flood."""
    period_us: int = 200_000
    """Between two questions: how late a message comes that chance left out, about."""
    answer_us: int = 2_000_000
    """A neighbour that has not answered by then may be asked again: it may be paused."""
    piece_bytes: int = 64 << 10

    def __post_init__(self) -> None:
        if min(self.fanout, self.period_us, self.answer_us, self.piece_bytes) < 1:
            raise UsageError("gossip: everything must be positive")


class KnownNeighbour:
    """What is known of one."""

    __slots__ = ("asked_until", "had", "held")

    def __init__(self) -> None:
        self.asked_until = 0
        """A question is open until then; 0: none is."""
        self.had = 0
        """So many of this node's own messages have been asked beyond by it, or sent to it, without a gap."""
        self.held = False
        """It takes no more at present, but what it asks for."""


class Gossip:
    __slots__ = (
        "_ask_at", "_clock", "_early", "_history", "_me", "_peers", "_random", "_settings", "_wake_at",
    )  # fmt: skip

    def __init__(
        self, me: int, size: int, history: History, random: Random, settings: GossipSettings | None = None
    ) -> None:
        if not 0 <= me < size:
            raise ValueError(f"member {me} of {size}")
        self._settings = settings or GossipSettings()
        self._me = me
        self._history = history
        self._random = random
        self._clock = list(history.vector) + [0] * (size - len(history.vector))
        self._early: set[int] = set()
        """Came beyond a gap."""
        self._peers: dict[int, KnownNeighbour] = {}
        self._ask_at = NEVER
        self._wake_at = NEVER

    # What a node asks of it

    @property
    def clock(self) -> tuple[int, ...]:
        return tuple(self._clock)

    def has(self, dot: int) -> bool:
        """Has this message come?"""
        return dot >> ORIGIN_BITS <= self._clock[dot & ORIGIN_MASK] or dot in self._early

    @property
    def own(self) -> int:
        """Messages that this node has sent."""
        return self._clock[self._me]

    @property
    def live(self) -> tuple[int, ...]:
        return tuple([peer for peer, about in self._peers.items() if not about.held])

    def states(self) -> Iterator[tuple[int, bool, bool]]:
        """Of each link, its peer; rumours may go over any."""
        return ((peer, True, not about.held) for peer, about in self._peers.items())

    def fed(self, peer: int) -> int:
        """Up to which of this node's own messages there is a neighbour that has them: the others are its
        business. Else what this one has."""
        about = self._peers.get(peer)
        if about is None or any(other.had >= self.own for other in self._peers.values()):
            return self.own
        return about.had

    @property
    def syncing(self) -> bool:
        return False

    @property
    def drained(self) -> bool:
        return not self._early

    def recall(self, kept: tuple[int, ...]) -> None:
        """Back from disk: the clock is the log's."""
        self._clock = list(kept) + [0] * (len(self._clock) - len(kept))

    def admit(self, size: int) -> None:
        """So many members are known by now: their messages are counted."""
        self._clock += [0] * (size - len(self._clock))

    def forget(self, dot: int) -> None:
        """The replica has let this message go, which it could not release: it will come with an answer. What
        came after it of its sender could not be released either."""
        origin, seq = dot & ORIGIN_MASK, dot >> ORIGIN_BITS
        self._early.discard(dot)
        for later in range(seq + 1, self._clock[origin] + 1):
            self._early.add(pack(origin, later))
        self._clock[origin] = min(self._clock[origin], seq - 1)

    def become(self, me: int) -> None:
        """From here on this node's own messages are those of another member."""
        self._me = me
        for about in self._peers.values():
            about.had = 0

    # What happens

    def resume(self, now: int) -> list[SpreadEffect]:
        self._wake_at = NEVER
        return self._planned([], now)

    def up(self, peer: int, now: int) -> list[SpreadEffect]:
        self._peers[peer] = KnownNeighbour()
        effects: list[SpreadEffect] = []
        self._ask(peer, effects, now)
        if self._ask_at == NEVER:
            self._ask_at = now + self._random.randrange(self._settings.period_us)
        return self._planned(effects, now)

    def down(self, peer: int, now: int) -> list[SpreadEffect]:
        self._peers.pop(peer, None)
        return self._planned([], now)

    def hold(self, peer: int) -> None:
        """Too much waits to be sent to a peer: it gets what it asks for, and no rumours."""
        if peer in self._peers:
            self._peers[peer].held = True

    def release(self, peer: int, now: int) -> list[SpreadEffect]:  # noqa: ARG002
        if peer in self._peers:
            self._peers[peer].held = False
        return []

    def hears(self, peer: int, now: int) -> None:
        """A large message, or answer, is coming from there: it need not be asked again."""
        about = self._peers.get(peer)
        if about is not None and about.asked_until:
            about.asked_until = now + self._settings.answer_us

    def broadcast(self, message: Message, now: int) -> list[SpreadEffect]:  # noqa: ARG002
        self._clock[self._me] = message.dot >> ORIGIN_BITS
        effects: list[SpreadEffect] = []
        self._pass_on(message, None, effects)
        return effects

    def receive(self, peer: int, packet: Packet, now: int) -> list[SpreadEffect]:
        about = self._peers.get(peer)
        if about is None:
            raise PeerError(f"a packet from {peer}, who is not a neighbour")
        effects: list[SpreadEffect] = []
        if isinstance(packet, Message):
            self._check(peer, packet)
            self._came(peer, packet, effects)
            return effects
        if isinstance(packet, Pull):
            about.had = max(about.had, packet.clock[self._me] if self._me < len(packet.clock) else 0)
            answer = self._answer(packet.clock)
            self._sent_to(about, answer.messages)
            return [Transmit((peer,), answer)]
        if not isinstance(packet, Sync):
            raise PeerError(f"gossip has no use for a {type(packet).__name__}")
        for message in packet.messages:
            self._check(peer, message)
        for message in packet.messages:
            self._came(peer, message, effects)
        if packet.last:
            about.asked_until = 0
        else:
            self._ask(peer, effects, now)
        return self._planned(effects, now)

    def alarm(self, now: int) -> list[SpreadEffect]:
        """Something was delivered too early: there may be more that is missing."""
        effects: list[SpreadEffect] = []
        for peer, about in self._peers.items():
            if about.asked_until <= now:
                self._ask(peer, effects, now)
        return self._planned(effects, now)

    def wake(self, now: int) -> list[SpreadEffect]:
        if now >= self._wake_at:
            self._wake_at = NEVER
        effects: list[SpreadEffect] = []
        if self._ask_at <= now:
            self._ask_at = now + self._settings.period_us if self._peers else NEVER
            idle = [peer for peer, about in self._peers.items() if about.asked_until <= now]
            if idle:
                self._ask(self._random.choice(idle), effects, now)
        return self._planned(effects, now)

    # Rumours

    def _check(self, peer: int, message: Message) -> None:
        """Before anything of a packet takes effect: no node has more of this one than it has sent."""
        origin, seq = message.dot & ORIGIN_MASK, message.dot >> ORIGIN_BITS
        if origin >= len(self._clock) or (origin == self._me and seq > self._clock[origin]):
            raise PeerError(f"member {peer} has message {seq} of member {origin}, which cannot be")

    def _came(self, peer: int, message: Message, effects: list[SpreadEffect]) -> None:
        clock, early, dot = self._clock, self._early, message.dot
        origin, seq = dot & ORIGIN_MASK, dot >> ORIGIN_BITS
        if seq <= clock[origin] or dot in early:
            return
        if seq > clock[origin] + 1:
            early.add(dot)
        else:
            clock[origin] = seq
            while (following := pack(origin, clock[origin] + 1)) in early:
                early.remove(following)
                clock[origin] += 1
        effects.append(message)
        self._pass_on(message, peer, effects)

    def _pass_on(self, message: Message, via: int | None, effects: list[SpreadEffect]) -> None:
        able = [peer for peer, about in self._peers.items() if peer != via and not about.held]
        if len(able) > self._settings.fanout:
            able = self._random.sample(able, self._settings.fanout)
        if able:
            effects.append(Transmit(tuple(able), message))
            for peer in able:
                self._sent_to(self._peers[peer], (message,))

    def _sent_to(self, about: KnownNeighbour, messages: tuple[Message, ...]) -> None:
        for message in messages:
            if message.dot == pack(self._me, about.had) + STEP:
                about.had += 1

    # Questions

    def _ask(self, peer: int, effects: list[SpreadEffect], now: int) -> None:
        self._peers[peer].asked_until = now + self._settings.answer_us
        effects.append(Transmit((peer,), Pull(tuple(self._clock))))

    def _answer(self, clock: tuple[int, ...]) -> Sync:
        piece: list[Message] = []
        size, most = 0, self._settings.piece_bytes
        for message in self._history.missing(clock):
            cost = len(message.payload) + OVERHEAD
            if piece and size + cost > most:
                return Sync(0, tuple(piece), False)
            piece.append(message)
            size += cost
        return Sync(0, tuple(piece), True)

    def _planned(self, effects: list[SpreadEffect], now: int) -> list[SpreadEffect]:
        if self._ask_at < self._wake_at:
            self._wake_at = max(self._ask_at, now)
            effects.append(Wake(self._wake_at))
        return effects
