"""A node of a simulated run with addressed messages: an application in its zone, or a gateway between two.

It is a replica over addressed links, with destinations drawn for each message, words about what was delivered
(R11), and a death: links outlive their node, because a hop that was sent reaches every addressee that lives
(the document's assumption 1; on a network a view change sees to that).
"""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Final

from thence.core.dots import ORIGIN_MASK
from thence.core.errors import UsageError
from thence.core.machine import (
    NO_PEER,
    Effect,
    Forward,
    OrderEffect,
    Packet,
    Phantom,
    SpreadEffect,
    Transmit,
    Wake,
)
from thence.core.message import Message
from thence.order.engine import Engine
from thence.order.history import CausalHistory, Rules
from thence.order.hops import COUNTER, read
from thence.order.separator import (
    GatewayOrderer,
    SeparatorOrderer,
    SeparatorState,
    SeparatorTagger,
    separator,
)
from thence.order.topology import Topology
from thence.replica.replica import ClientDelivery, Replica
from thence.sim.stamps import StampMeter
from thence.spread.addressed import Addressed
from thence.trace.recorder import CRASH, DUPLICATE, HOLD, RESTART, NodeColumns

Draw = Callable[[int, Random], tuple[int, ...]]
"""The receivers of a message of this process."""


class Zoned(Replica):
    __slots__ = (
        "_draw", "_history", "_links", "_me", "_meter", "_newest", "_random", "_rows", "_told_at",
        "_topology", "_word_us", "asked", "away", "dead", "taken",
    )  # fmt: skip

    def __init__(
        self,
        me: int,
        topology: Topology,
        engine: Engine,
        columns: NodeColumns,
        draw: Draw,
        random: Random,
        word_us: int,
        meter: StampMeter | None = None,
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
        self.away = False
        """It joins its separator, and has not begun: it takes nothing."""
        self.asked = Counter[int]()
        """By process, deliveries that its messages ask for."""
        self.taken = 0
        assert isinstance(self._tagger, SeparatorTagger)
        assert isinstance(self._orderer, SeparatorOrderer)
        gateway = isinstance(self._orderer, GatewayOrderer)
        self._history: CausalHistory = self._orderer.history if gateway else self._tagger.history  # type: ignore[attr-defined]

    @property
    def history(self) -> CausalHistory:
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

    def take(self, now: int) -> ClientDelivery:
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
        if (self.dead or self.away) and isinstance(packet, Message):
            return effects
        self._route(self._links.receive(peer, packet, now), peer, effects, now)
        return effects

    def wake(self, now: int) -> list[Effect]:
        effects: list[Effect] = []
        self._route(self._links.wake(now), NO_PEER, effects, now)
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

    @property
    def gateway(self) -> GatewayOrderer:
        assert isinstance(self._orderer, GatewayOrderer)
        return self._orderer

    def may_lack(self, peer: int, upto: int) -> bool:
        """A neighbour, one of the hops that were sent to it, up to this counter."""
        return self._links.may_lack(peer, upto)

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
                self._route(self._links.send(effect.peers, effect.message, now), NO_PEER, effects, now)
            elif isinstance(effect, Message):
                self.inbox.append(effect)

    def _measure(self, message: Message) -> None:
        if self._meter:
            self._meter.hop(message)
            self._sample()

    def _sample(self) -> None:
        if self._meter:
            self._meter.histories[self._me][len(self._history)] += 1


class SimZones:
    """All nodes of a run, and what happens between them besides packets."""

    def __init__(
        self,
        topology: Topology,
        rules: Rules,
        draw: Draw,
        columns: list[NodeColumns],
        seed: int,
        word_us: int,
        meter: StampMeter | None = None,
    ) -> None:
        if rules.words and not word_us:
            raise UsageError("rule R11 needs --word-ms above 0")
        self.topology: Final = topology
        self.late: set[int] = set()
        """Applications that are not there yet."""
        self._shared: dict[int, dict[int, SeparatorState]] = {}
        """By member that joins, what other members gave it, from their adoption of it on."""
        self._random: Final = Random(f"{seed}/joins")
        self.engine: Final = separator(rules, lambda me, size: topology)  # noqa: ARG005
        self.nodes: Final = [
            Zoned(
                me, topology, self.engine, columns[me], self._present(draw), Random(f"{seed}/dest/{me}"),
                word_us if rules.words else 0, meter,
            )
            for me in range(len(topology))
        ]  # fmt: skip

    def _present(self, draw: Draw) -> Draw:
        def drawn(me: int, random: Random) -> tuple[int, ...]:
            dest = draw(me, random)
            if self.late:
                dest = tuple([process for process in dest if process not in self.late]) or (me,)
            return dest

        return drawn

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
        """Unless what it has would be nowhere then: those that joined its separator know nothing of what was
        sent before they were adopted."""
        if self._is_covered(node):
            self.nodes[node].die(now)

    def noticed(self, node: int, peer: int, now: int) -> list[Effect]:
        """A neighbour learns that a node is dead, and of the last hop that it sent here; or that it joins."""
        if self.nodes[peer].dead:
            return self.nodes[node].lost(peer, self.nodes[peer].newest(node), now)
        self._adopts(node, peer)
        return []

    # Joins (section 4.4)

    def awaits(self, node: int) -> None:
        """It joins later. A new zone is applications that are late, behind gateways that nothing crosses."""
        if not self.topology.is_gateway(node):
            self.late.add(node)
            return
        self.topology.awaits(node)
        self.nodes[node].away = True
        self._shared[node] = {}
        for member in self._members(node):
            self.nodes[member].history.use(self.topology.cuts(member))

    def joins(self, node: int, now: int, until: int) -> list[tuple[int, int]]:
        """Which neighbours are to adopt it, and when: members of its separator first. If another process sent
        to it before all of them have adopted it, one of them could forward that without an echo to it."""
        self.late.discard(node)
        if not self.topology.is_gateway(node):
            return []
        if not (members := self._givers(node)):
            raise UsageError(f"none of the separator of {self.topology.names[node]} is left to join")
        others = [peer for peer in self.topology.neighbours(node) if peer not in members]
        draw, middle = self._random.randint, (now + until) // 2
        first = [(peer, draw(now, middle)) for peer in members]
        return first + [(peer, draw(middle + 1, until + 1)) for peer in others]

    def _members(self, node: int) -> list[int]:
        members = self.topology.separators[self.topology.separator_of(node)].members
        return [member for member in members if member != node]

    def _givers(self, node: int) -> list[int]:
        """Members that live and are none that join with it."""
        nodes = self.nodes
        return [each for each in self._members(node) if not (nodes[each].dead or nodes[each].away)]

    def _adopts(self, node: int, joiner: int) -> None:
        nodes, shared = self.nodes, self._shared[joiner]
        if nodes[node].dead:
            return
        self.topology.adopts(node, joiner, nodes[node].history.counter)
        if nodes[joiner].away and node in self._givers(joiner):
            shared[node] = nodes[node].gateway.adopt()
            if shared.keys() >= {*self._givers(joiner)}:
                nodes[joiner].gateway.begin([*shared.values()])
                nodes[joiner].away = False

    def _is_covered(self, node: int) -> bool:
        """Is there another member of its separator that was there before, or knows all that this one does?"""
        if not self._shared or not self.topology.is_gateway(node):
            return True
        return any(each not in self._shared or self._knows(each, node) for each in self._givers(node))

    def _knows(self, joined: int, member: int) -> bool:
        """Have all adopted it, and has the other member nothing from before that?"""
        topology, nodes = self.topology, self.nodes
        for peer in topology.neighbours(joined):
            upto = topology.adopted(peer, joined)
            if not nodes[peer].dead and (upto is None or nodes[peer].may_lack(member, upto)):
                return False
        one, other = nodes[joined].gateway, nodes[member].gateway
        return not other.waiting and other.todo.keys() <= one.todo.keys()
