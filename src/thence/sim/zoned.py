"""A node of a simulated run with addressed messages: an application in its zone, or a gateway between two.

It is a replica over addressed links, with destinations drawn for each message, words about what was delivered
(R11), and a death: links outlive their node, because a hop that was sent reaches every addressee that lives
(the document's assumption 1; on a network a view change sees to that).
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import Final

from thence.core.codec_hops import put_hop
from thence.core.dots import ORIGIN_MASK
from thence.core.errors import UsageError
from thence.core.machine import Effect, Forward, OrderEffect, Packet, Phantom, SpreadEffect, Transmit, Wake
from thence.core.message import Message
from thence.order.engine import Engine
from thence.order.history import History, Rules
from thence.order.hops import COUNTER, entries, read
from thence.order.separator import GatewayOrderer, SeparatorOrderer, SeparatorTagger, separator
from thence.order.topology import Topology
from thence.replica.replica import NOBODY, Delivered, Replica
from thence.spread.addressed import Addressed
from thence.trace.recorder import CRASH, DUPLICATE, HOLD, RESTART, Columns

Draw = Callable[[int, Random], tuple[int, ...]]
"""Whom a message of this process goes to."""


def mean(counts: Counter[int]) -> float:
    return sum(size * count for size, count in counts.items()) / (counts.total() or 1)


def together(counts: Iterable[Counter[int]]) -> Counter[int]:
    found = Counter[int]()
    for each in counts:
        found.update(each)
    return found


def quantile(counts: Counter[int], share: float) -> int:
    """The least size that so many are not above."""
    left = share * counts.total()
    for size in sorted(counts):
        left -= counts[size]
        if left <= 0:
            return size
    return 0


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a meter says of a whole run."""

    hops: int
    entries: float
    entries_p50: int
    entries_p99: int
    bytes: float
    bytes_p50: int
    bytes_p99: int
    history: float


class Meter:
    """Sizes of all stamps and histories of a run."""

    def __init__(self, topology: Topology) -> None:
        self.stamps: dict[int, Counter[int]] = {zone: Counter() for zone in range(len(topology.zones))}
        """By zone of the hop, how many had how many entries."""
        self.sizes = Counter[int]()
        """Of stamps, in bytes."""
        self.histories: dict[int, Counter[int]] = {process: Counter() for process in range(len(topology))}
        """By process, at each of its sends and deliveries."""

    def total(self) -> Sizes:
        entries = together(self.stamps.values())
        return Sizes(
            entries.total(), mean(entries), quantile(entries, 0.5), quantile(entries, 0.99),
            mean(self.sizes), quantile(self.sizes, 0.5), quantile(self.sizes, 0.99),
            mean(together(self.histories.values())),
        )  # fmt: skip

    def hop(self, message: Message) -> None:
        out = bytearray()
        put_hop(out, message.context, 0)
        self.sizes[len(out)] += 1
        self.stamps[message.context[0]][entries(message.context)] += 1


class Zoned(Replica):
    __slots__ = (
        "_draw", "_history", "_links", "_me", "_meter", "_newest", "_random", "_rows", "_told_at",
        "_topology", "_word_us", "asked", "dead", "taken",
    )  # fmt: skip

    def __init__(
        self,
        me: int,
        topology: Topology,
        engine: Engine,
        columns: Columns,
        draw: Draw,
        random: Random,
        word_us: int,
        meter: Meter | None = None,
    ) -> None:
        """`word_us`: words are so far apart, at least; 0: there are none."""

        def address(message: Message) -> tuple[int, ...]:
            return tuple(sorted(read(topology, message).address))

        self._links = Addressed(me, lambda message: message.context[COUNTER], address)
        # It asks for the group's size to list all peers, of which a node in a zone has no use.
        super().__init__(me, 1, engine, self._links, columns, stability=False)
        self._me: Final = me
        self._topology: Final = topology
        self._rows: Final = columns
        self._draw: Final = draw
        self._random: Final = random
        self._word_us: Final = word_us
        self._meter: Final = meter
        self._told_at: int | None = None
        self._newest: dict[int, int] = {}
        """By origin, the last message that the client took or sent."""
        self.dead = False
        self.asked = Counter[int]()
        """By process, deliveries that its messages ask for."""
        self.taken = 0
        assert isinstance(self._tagger, SeparatorTagger)
        assert isinstance(self._orderer, SeparatorOrderer)
        gateway = isinstance(self._orderer, GatewayOrderer)
        self._history: History = self._orderer.history if gateway else self._tagger.history  # type: ignore[attr-defined]

    @property
    def history(self) -> History:
        return self._history

    @property
    def drained(self) -> bool:
        return self._links.drained if self.dead else super().drained and self._told_at is None

    # What it does

    def broadcast(self, payload: bytes, now: int) -> list[Effect]:
        return self.multicast(payload, self._draw(self._me, self._random), now)

    def multicast(self, payload: bytes, dest: tuple[int, ...], now: int) -> list[Effect]:
        message = self._tagger.tag(payload, dest)
        self._rows.record_dest(message.dot, dest, now)
        self._newest[self._me] = message.dot
        self.asked.update([process for process in dest if process != self._me])
        self.outbox.append(message)
        self._measure(message)
        return self.flush(now)

    def take(self, now: int) -> Delivered:
        delivered = super().take(now)
        dot = delivered.message.dot
        self._newest[dot & ORIGIN_MASK] = dot
        self.taken += 1
        self._sample()
        return delivered

    def receive(self, peer: int, packet: Packet, now: int) -> list[Effect]:
        effects: list[Effect] = []
        if isinstance(packet, Phantom):
            if not self.dead:
                self._history.heard(peer, packet.context)
            return effects
        if self.dead and isinstance(packet, Message):
            return effects
        self._route(self._links.receive(peer, packet, now), peer, effects, now)
        return effects

    def wake(self, now: int) -> list[Effect]:
        effects: list[Effect] = []
        self._route(self._links.wake(now), NOBODY, effects, now)
        if self._told_at is not None and now >= self._told_at and not self.dead:
            self._told_at = None
            word = Phantom(self._word(), asks=False)
            effects.append(Transmit(tuple(self._topology.neighbours(self._me)), word))
        return effects

    def restart(self, now: int) -> list[Effect]:
        """Back with everything that was known."""
        if not self._topology.is_gateway(self._me):
            self._rows.record_deps(RESTART, 0, tuple(sorted(self._newest.values())), now)
        effects = self.resume(now)
        if self._told_at is not None:
            self._told_at = now + self._word_us
            effects.append(Wake(self._told_at))
        return effects

    # What happens to it

    def die(self, now: int) -> None:
        """For good. What it has sent is under way."""
        self.dead = True
        self._told_at = None
        self.inbox.clear()
        self._rows.record(CRASH, 0, now)

    def newest(self, peer: int) -> int:
        return self._links.newest(peer)

    def lost(self, process: int, newest: int, now: int) -> list[Effect]:
        """`process` is dead; the last hop that it sent here has this counter."""
        self._links.lost(process)
        effects: list[Effect] = []
        if not self.dead:
            assert isinstance(self._tagger, SeparatorTagger)
            assert isinstance(self._orderer, SeparatorOrderer)
            self._tagger.history.lose(process)
            self._release(self._orderer.lost(process, newest), effects, now)
        return effects

    def _word(self) -> tuple[int, ...]:
        assert isinstance(self._orderer, SeparatorOrderer)
        return self._orderer.word()

    def _route(self, asked: list[SpreadEffect], via: int, effects: list[Effect], now: int) -> bool:
        for effect in asked:
            if not isinstance(effect, Message):
                effects.append(effect)
                continue
            orderer = self._orderer
            assert isinstance(orderer, SeparatorOrderer)
            waiting, delivered = orderer.waiting, orderer.delivered
            released = orderer.receive(effect, via, now)
            if orderer.waiting > waiting:
                self._rows.record(HOLD, effect.dot, now)
            elif orderer.delivered == delivered:
                self._rows.record(DUPLICATE, effect.dot, now)
            else:
                self._release(released, effects, now)
                if self._topology.is_gateway(self._me):  # a witness has deliveries alone
                    self._sample()
                if self._word_us and self._told_at is None:
                    self._told_at = now + self._word_us
                    effects.append(Wake(self._told_at))
        return True

    def _release(self, released: list[OrderEffect], effects: list[Effect], now: int) -> None:
        for effect in released:
            if isinstance(effect, Forward):
                self._measure(effect.message)
                self._route(self._links.send(effect.peers, effect.message, now), NOBODY, effects, now)
            elif isinstance(effect, Message):
                self.inbox.append(effect)

    def _measure(self, message: Message) -> None:
        if self._meter:
            self._meter.hop(message)
            self._sample()

    def _sample(self) -> None:
        if self._meter:
            self._meter.histories[self._me][len(self._history)] += 1


class Zones:
    """All nodes of a run, and what happens between them besides packets."""

    def __init__(
        self,
        topology: Topology,
        rules: Rules,
        draw: Draw,
        columns: list[Columns],
        seed: int,
        word_us: int,
        meter: Meter | None = None,
    ) -> None:
        if rules.words and not word_us:
            raise UsageError("rule R11 needs --word-ms above 0")
        self.topology: Final = topology
        self.engine: Final = separator(rules, lambda me, size: topology)  # noqa: ARG005
        self.nodes: Final = [
            Zoned(
                me, topology, self.engine, columns[me], draw, Random(f"{seed}/dest/{me}"),
                word_us if rules.words else 0, meter,
            )
            for me in range(len(topology))
        ]  # fmt: skip

    def filter_at(self, gateways: list[int]) -> None:
        """R9 at these alone."""
        for node in range(len(self.nodes)):
            if node not in gateways:
                self.nodes[node].history.use(())

    @property
    def due(self) -> int:
        """Deliveries that were asked for, and were made, or can be: not at the dead."""
        asked = Counter[int]()
        for node in self.nodes:
            asked.update(node.asked)
        return sum(node.taken if node.dead else asked[me] for me, node in enumerate(self.nodes))

    def die(self, node: int, now: int) -> None:
        self.nodes[node].die(now)

    def noticed(self, node: int, dead: int, now: int) -> list[Effect]:
        """A neighbour of a dead node learns of it, and of the last hop that it sent here."""
        return self.nodes[node].lost(dead, self.nodes[dead].newest(node), now)
