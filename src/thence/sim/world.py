"""The event loop of a simulated group: one heap of things to come, virtual time, no threads.

Everything random comes from streams derived from the one seed, a stream per purpose, so that, say,
another latency model does not change when nodes send. Events at the same instant happen in the order
in which they were planned. A run is over when nothing is left to happen; since machines at rest ask
for no wake-ups, that is when all is delivered and drained, unless something is wrong.
"""

from collections import Counter
from collections.abc import Sequence
from enum import Enum, auto
from heapq import heappop, heappush
from random import Random

from thence.core.codec import Codec
from thence.core.machine import Ack, Batch, Effect, Packet, Phantom, Transmit
from thence.core.message import Message
from thence.replica.replica import Replica
from thence.sim.faults import Crash, Cut, Death, Fault, Plan, PlannedJoin
from thence.sim.network import latency
from thence.sim.settings import SimSettings
from thence.sim.virtual_time import EventWorld
from thence.sim.workload import intervals
from thence.sim.zoned import SimZones
from thence.trace.recorder import Recorder

PACKET, WAKE, SEND, TAKE, NOTICE, BEGIN, END = range(7)

What = Packet | Fault | None

Event = tuple[int, int, int, int, int, What]
"""When, tie-breaker, what, which node, which peer (of a wake-up: which life of the node; of a notice: which
dead one), with what."""

NAMES: dict[type, str] = {
    Message: "messages",
    Batch: "batches",
    Ack: "acks",
    Phantom: "phantoms",
}


class RunProgress(Enum):
    """How far a run has come: nothing left to happen, more to come, or too much of it too late."""

    OVER = auto()
    MORE = auto()
    LATE = auto()


class World(EventWorld):
    """A group of replicas, the links between them, and what happens to both."""

    def __init__(
        self,
        settings: SimSettings,
        plan: Plan,
        replicas: Sequence[Replica],
        codec: Codec,
        recorders: Sequence[Recorder],
        zones: SimZones | None = None,
    ) -> None:
        """`zones`: of a run with addressed messages."""

        def stream(purpose: str) -> Random:
            return Random(f"{settings.seed}/{purpose}")

        super().__init__(recorders)
        self.packets = Counter[str]()
        self.bytes = Counter[str]()
        self.sent_bytes = [0] * settings.nodes
        self._encode = codec.encode
        self._settings = settings
        self._replicas = replicas
        self._latency = latency(settings, plan.slow, stream("latency"))
        self._interval = intervals(settings, stream("interval"))
        self._chance = stream("loss").random
        self._hold_up = stream("take").random
        self._take_us = round(settings.take_ms * 1000)
        self._faulty = settings.loss > 0 or settings.duplicate > 0 or settings.reorder > 0
        self._away: dict[int, list[Event]] = {}
        self._down: set[int] = set()
        self._lives = [0] * settings.nodes
        self._zones = zones
        self._to_send = [settings.messages] * settings.nodes
        if zones is not None:
            self._to_send = [
                0 if zones.topology.is_gateway(node) else count for node, count in enumerate(self._to_send)
            ]
        self._payload = bytes(settings.payload_bytes)
        self._prepare(plan)

    def _prepare(self, plan: Plan) -> None:
        for node in range(self._settings.nodes):
            self._replicas[node].start(0)
            if self._to_send[node]:
                self._push(self._interval(), SEND, node)
        for fault in plan.faults:
            if isinstance(fault, PlannedJoin):
                assert self._zones is not None
                self._zones.awaits(fault.node)
            node = -1 if isinstance(fault, Cut) else fault.node
            self._push(fault.at_us, BEGIN, node, what=fault)
            self._push(fault.until_us, END, node, what=fault)

    def run(self, until_us: int, steps: int) -> RunProgress:
        """Let up to `steps` things happen, none after `until_us`."""
        heap: list[Event] = self._heap
        replicas, away = self._replicas, self._away
        for _ in range(steps):
            if not heap:
                return RunProgress.OVER
            event = heappop(heap)
            now, _, kind, node, peer, what = event
            if now > until_us:
                heappush(heap, event)
                return RunProgress.LATE
            self.now = now
            if away and node in away and kind < BEGIN:
                self._missed(event)
                continue
            if kind == PACKET:
                replica = replicas[node]
                effects = replica.receive(peer, what, now)  # type: ignore[arg-type]  # packets carry one
                if replica.inbox:
                    self._delivered(node, now)
            elif kind == WAKE:
                if peer != self._lives[node]:
                    continue
                effects = replicas[node].wake(now)
            elif kind == SEND:
                effects = self._send(node, now)
            elif kind == TAKE:
                self._take(node, now)
                continue
            elif kind == NOTICE:
                assert self._zones is not None
                effects = self._zones.noticed(node, peer, now)
            else:
                assert isinstance(what, Fault)
                effects = self._begin(what) if kind == BEGIN else self._end(what)
            if effects:
                self._carry_out(node, effects, now)
        return RunProgress.MORE

    def _send(self, node: int, now: int) -> list[Effect]:
        if self._zones is not None and self._zones.nodes[node].dead:
            return []
        if self._zones is not None and node in self._zones.late:
            self._push(now + self._interval(), SEND, node)
            return []
        replica = self._replicas[node]
        waiting = len(replica.inbox)
        effects = replica.broadcast(self._payload, now)
        if len(replica.inbox) > waiting:  # an engine that may err: it took the message for others' causes
            self._delivered(node, now)
        self._to_send[node] -= 1
        if self._to_send[node]:
            self._push(now + self._interval(), SEND, node)
        return effects

    def _delivered(self, node: int, now: int) -> None:
        """The client takes what became deliverable: at once, or when it gets round to it."""
        if self._take_us:
            self._push(now + int(self._hold_up() * self._take_us), TAKE, node)
        else:
            self._take(node, now)

    def _take(self, node: int, now: int) -> None:
        replica = self._replicas[node]
        while replica.inbox:
            replica.take(now)
        replica.stable.clear()

    def _missed(self, event: Event) -> None:
        """Something happens to a node that is paused or down. A pause only puts it off; of one that is
        down, the client tries again later."""
        _, _, kind, node, _, _ = event
        if node not in self._down or kind in (SEND, TAKE, NOTICE):
            self._away[node].append(event)

    def _begin(self, fault: Fault) -> list[Effect]:
        if isinstance(fault, Cut):
            self._begin_cut(fault)
        elif isinstance(fault, Death):
            assert self._zones is not None
            self._zones.die(fault.node, self.now)
        elif isinstance(fault, PlannedJoin):
            assert self._zones is not None
            for peer, at in self._zones.joins(fault.node, self.now, fault.until_us):
                self._push(at, NOTICE, peer, fault.node)
        else:
            self._away.setdefault(fault.node, [])
            if isinstance(fault, Crash):
                self._down.add(fault.node)
                self._lives[fault.node] += 1
        return []

    def _end(self, fault: Fault) -> list[Effect]:
        if isinstance(fault, Cut):
            self._end_cut(fault)
            return []
        if isinstance(fault, PlannedJoin):
            return []
        if isinstance(fault, Death):
            assert self._zones is not None
            if not self._zones.nodes[fault.node].dead:
                return []
            for peer in self._zones.topology.neighbours(fault.node):
                self._push(self.now, NOTICE, peer, fault.node)
            return []
        for _, _, kind, node, peer, what in self._away.pop(fault.node, ()):
            self._push(self.now, kind, node, peer, what)
        if isinstance(fault, Crash):
            self._down.discard(fault.node)
            return self._replicas[fault.node].restart(self.now)
        return []

    def _carry_out(self, node: int, effects: list[Effect], now: int) -> None:
        for effect in effects:
            if type(effect) is Transmit:
                self._transmit(node, effect, now)
            else:
                self._push(effect.at, WAKE, node, self._lives[node])  # type: ignore[union-attr]  # what is left is a Wake

    def _transmit(self, node: int, effect: Transmit, now: int) -> None:
        packet, name = effect.packet, NAMES[type(effect.packet)]
        self.packets[name] += len(effect.peers)
        size = len(effect.peers) * len(self._encode(packet))
        self.bytes[name] += size
        self.sent_bytes[node] += size
        heap, latency, cut, planned = self._heap, self._latency, self._cut, self._planned
        if self._faulty or cut:
            self._transmit_badly(node, effect, now)
            return
        for peer in effect.peers:
            planned += 1
            heappush(heap, (now + latency(node, peer), planned, PACKET, peer, node, packet))
        self._planned = planned

    def _transmit_badly(self, node: int, effect: Transmit, now: int) -> None:
        settings, chance = self._settings, self._chance
        for peer in effect.peers:
            if self._cut and (node, peer) in self._cut:
                self.packets["cut off"] += 1
                continue
            copies = 2 if chance() < settings.duplicate else 1
            for _ in range(copies):
                if chance() < settings.loss:
                    self.packets["lost"] += 1
                    continue
                delay = self._latency(node, peer)
                if chance() < settings.reorder:
                    delay += int(4 * chance() * delay)
                self._push(now + delay, PACKET, peer, node, effect.packet)
