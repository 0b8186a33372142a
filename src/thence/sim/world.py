"""The event loop of a simulated group: one heap of things to come, virtual time, no threads.

Everything random comes from streams derived from the one seed, a stream per purpose, so that, say,
another latency model does not change when nodes send. Events at the same instant happen in the order
in which they were planned. A run is over when nothing is left to happen; since machines at rest ask
for no wake-ups, that is when all is delivered and drained, unless something is wrong.
"""

from collections import Counter
from enum import Enum, auto
from heapq import heappop, heappush
from random import Random

from thence.core.machine import Ack, Effect, Packet, Transmit
from thence.replica.replica import Replica
from thence.sim.faults import Cut, Pause, Plan
from thence.sim.network import latency
from thence.sim.settings import Settings
from thence.sim.workload import intervals

PACKET, WAKE, SEND, TAKE, CUT, MEND, PAUSE, RESUME = range(8)

Event = tuple[int, int, int, int, int, Packet | Cut | Pause | None]
"""When, tie-breaker, what, which node, which peer, with what."""


class Progress(Enum):
    """How far a run has come: nothing left to happen, more to come, or too much of it too late."""

    OVER = auto()
    MORE = auto()
    LATE = auto()


class World:
    """A group of replicas, the links between them, and what happens to both."""

    def __init__(self, settings: Settings, plan: Plan, replicas: list[Replica]) -> None:
        def stream(purpose: str) -> Random:
            return Random(f"{settings.seed}/{purpose}")

        self.now = 0
        self.packets = Counter[str]()
        self._settings = settings
        self._replicas = replicas
        self._heap: list[Event] = []
        self._planned = 0
        self._latency = latency(settings, plan.slow, stream("latency"))
        self._interval = intervals(settings, stream("interval"))
        self._chance = stream("loss").random
        self._hold_up = stream("take").random
        self._take_us = round(settings.take_ms * 1000)
        self._faulty = settings.loss > 0 or settings.duplicate > 0 or settings.reorder > 0
        self._cut = Counter[tuple[int, int]]()
        self._paused: dict[int, list[Event]] = {}
        self._to_send = [settings.messages] * settings.nodes
        self._payload = bytes(settings.payload_bytes)
        self._prepare(plan)

    def _prepare(self, plan: Plan) -> None:
        for node, replica in enumerate(self._replicas):
            replica.start(0)
            if self._to_send[node]:
                self._push(self._interval(), SEND, node)
        for cut in plan.cuts:
            self._push(cut.at_us, CUT, -1, what=cut)
            self._push(cut.until_us, MEND, -1, what=cut)
        for pause in plan.pauses:
            self._push(pause.at_us, PAUSE, pause.node, what=pause)
            self._push(pause.until_us, RESUME, pause.node, what=pause)

    def _push(
        self, at: int, kind: int, node: int, peer: int = -1, what: Packet | Cut | Pause | None = None
    ) -> None:
        self._planned += 1
        heappush(self._heap, (at, self._planned, kind, node, peer, what))

    def run(self, until_us: int, steps: int) -> Progress:
        """Let up to `steps` things happen, none after `until_us`."""
        heap, replicas, paused = self._heap, self._replicas, self._paused
        for _ in range(steps):
            if not heap:
                return Progress.OVER
            event = heappop(heap)
            now, _, kind, node, peer, what = event
            if now > until_us:
                heappush(heap, event)
                return Progress.LATE
            self.now = now
            if paused and node in paused and kind != RESUME:
                paused[node].append(event)
                continue
            replica = replicas[node]
            if kind == PACKET:
                effects = replica.receive(peer, what, now)  # type: ignore[arg-type]  # packets carry one
                if replica.inbox:
                    self._delivered(node, now)
            elif kind == WAKE:
                effects = replica.wake(now)
            elif kind == SEND:
                effects = self._send(node, now)
            else:
                self._other(kind, node, what)
                continue
            if effects:
                self._carry_out(node, effects, now)
        return Progress.MORE

    def _send(self, node: int, now: int) -> list[Effect]:
        self._to_send[node] -= 1
        if self._to_send[node]:
            self._push(now + self._interval(), SEND, node)
        return self._replicas[node].broadcast(self._payload, now)

    def _delivered(self, node: int, now: int) -> None:
        """The client takes what became deliverable: at once, or when it gets round to it."""
        replica = self._replicas[node]
        if self._take_us:
            self._push(now + int(self._hold_up() * self._take_us), TAKE, node)
        else:
            while replica.inbox:
                replica.take(now)

    def _other(self, kind: int, node: int, what: Packet | Cut | Pause | None) -> None:
        if kind == TAKE:
            replica = self._replicas[node]
            while replica.inbox:
                replica.take(self.now)
        elif kind == CUT:
            assert isinstance(what, Cut)
            self._cut.update(what.links)
        elif kind == MEND:
            assert isinstance(what, Cut)
            self._cut -= Counter(dict.fromkeys(what.links, 1))
        elif kind == PAUSE:
            self._paused.setdefault(node, [])
        else:
            for _, _, waiting, _, peer, packet in self._paused.pop(node, ()):
                self._push(self.now, waiting, node, peer, packet)

    def _carry_out(self, node: int, effects: list[Effect], now: int) -> None:
        for effect in effects:
            if type(effect) is Transmit:
                self._transmit(node, effect, now)
            else:
                self._push(effect.at, WAKE, node)  # type: ignore[union-attr]  # what is left is a Wake

    def _transmit(self, node: int, effect: Transmit, now: int) -> None:
        packet = effect.packet
        self.packets["acks" if type(packet) is Ack else "messages"] += len(effect.peers)
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
