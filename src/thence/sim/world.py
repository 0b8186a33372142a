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

from thence.core.codec import Codec
from thence.core.errors import StorageError
from thence.core.machine import Ack, Batch, Effect, Packet, Phantom, Relay, Transmit
from thence.core.message import Message
from thence.replica.replica import Replica
from thence.sim.faults import BadDisk, Crash, Cut, Fault, Pause, Plan
from thence.sim.network import latency
from thence.sim.sessions import Carried, Change, Sessions
from thence.sim.settings import Settings
from thence.sim.stores import Stores
from thence.sim.workload import intervals

PACKET, WAKE, SEND, TAKE, LINK, PROBE, BEGIN, END, CONNECT = range(9)

What = Packet | Fault | Carried | Change | None

Event = tuple[int, int, int, int, int, What]
"""When, tie-breaker, what, which node, which peer (of a wake-up: which life of the node), with what."""

NAMES: dict[type, str] = {
    Message: "messages",
    Batch: "batches",
    Ack: "acks",
    Phantom: "phantoms",
    Relay: "relays",
}


PROBE_US = 1_000_000
"""How often a node that cannot write tries."""

DOWN_US = (100_000, 3_000_000)
"""How long it takes until a node is started again that stopped."""

BREAKS = 0.1
"""Of packets that a lossy network loses, the share that costs the whole link."""


class Progress(Enum):
    """How far a run has come: nothing left to happen, more to come, or too much of it too late."""

    OVER = auto()
    MORE = auto()
    LATE = auto()


class World:
    """A group of replicas, the links between them, and what happens to both."""

    def __init__(
        self,
        settings: Settings,
        plan: Plan,
        replicas: list[Replica],
        codec: Codec,
        stores: Stores | None = None,
    ) -> None:
        def stream(purpose: str) -> Random:
            return Random(f"{settings.seed}/{purpose}")

        self.now = 0
        self.packets = Counter[str]()
        self.bytes = Counter[str]()
        self._encode = codec.encode
        self._settings = settings
        self._replicas = replicas
        self._stores = stores
        self._heap: list[Event] = []
        self._planned = 0
        self._latency = latency(settings, plan.slow, stream("latency"))
        self._interval = intervals(settings, stream("interval"))
        self._chance = stream("loss").random
        self._hold_up = stream("take").random
        self._take_us = round(settings.take_ms * 1000)
        self._faulty = settings.loss > 0 or settings.duplicate > 0 or settings.reorder > 0
        self._cut = Counter[tuple[int, int]]()
        self._away: dict[int, list[Event]] = {}
        self._down: set[int] = set()
        self._lives = [0] * settings.nodes
        self._to_send = [settings.messages] * settings.nodes
        self._payload = bytes(settings.payload_bytes)
        self._trouble = stream("trouble")
        self._stalled: set[int] = set()
        """Nodes that cannot write at present."""
        self._sessions: Sessions | None = None
        if settings.links == "session":
            self._sessions = Sessions(
                settings.nodes, stream("sessions"), self._plan_change, self._plan_connect
            )
        self._prepare(plan)

    def _prepare(self, plan: Plan) -> None:
        for node in range(self._settings.nodes):
            if self._stores:
                self._carry_out(node, self._stores.nodes[node].boot(0), 0)
            else:
                self._replicas[node].start(0)
            if self._to_send[node]:
                self._push(self._interval(), SEND, node)
        for fault in plan.faults:
            node = -1 if isinstance(fault, Cut) else fault.node
            self._push(fault.at_us, BEGIN, node, what=fault)
            self._push(fault.until_us, END, node, what=fault)

    def _plan_change(self, at: int, node: int, peer: int, change: Change) -> None:
        self._push(at, LINK, node, peer, change)

    def _plan_connect(self, at: int, one: int, other: int) -> None:
        self._push(at, CONNECT, one, other)

    def _push(self, at: int, kind: int, node: int, peer: int = -1, what: What = None) -> None:
        self._planned += 1
        heappush(self._heap, (at, self._planned, kind, node, peer, what))

    def run(self, until_us: int, steps: int) -> Progress:
        """Let up to `steps` things happen, none after `until_us`."""
        heap, replicas, away, stores = self._heap, self._replicas, self._away, self._stores
        for _ in range(steps):
            if not heap:
                return Progress.OVER
            event = heappop(heap)
            now, _, kind, node, peer, what = event
            if now > until_us:
                heappush(heap, event)
                return Progress.LATE
            self.now = now
            if away and node in away and kind < BEGIN:
                self._missed(event)
                continue
            if type(what) is Carried:
                assert self._sessions
                if not self._sessions.arrives(node, peer, what):
                    continue
                what = what.packet
            if stores and kind < BEGIN:
                self._step(stores, kind, node, peer, what)
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
            elif kind == LINK:
                effects = self._link(node, peer, what, now)  # type: ignore[arg-type]  # links change
            elif kind == CONNECT:
                self._try_to_connect(node, peer, now)
                continue
            else:
                assert isinstance(what, Cut | Pause | Crash | BadDisk)
                effects = self._begin(what) if kind == BEGIN else self._end(what)
            if effects:
                self._carry_out(node, effects, now)
        return Progress.MORE

    def _step(self, stores: Stores, kind: int, at: int, peer: int, what: What) -> None:
        """Something happens to a durable node."""
        now, node, effects = self.now, stores.nodes[at], list[Effect]()
        if kind in (WAKE, PROBE) and peer != self._lives[at]:
            return
        if kind == PACKET:
            effects = node.receive(peer, [what], now)  # type: ignore[list-item]  # packets carry one
            if self._take_us and node.runs and node.machine.waiting:
                self._push(now + int(self._hold_up() * self._take_us), TAKE, at)
        elif kind == WAKE:
            effects = node.wake(now)
        elif kind == SEND:
            answered = node.send(self._payload, now)
            self._to_send[at] -= answered is not None
            if self._to_send[at]:
                self._push(now + self._interval(), SEND, at)
            effects = answered or []
        elif kind == TAKE:
            effects = node.take(now)
        elif kind == LINK:
            assert self._sessions
            if self._sessions.changed(at, peer, what):  # type: ignore[arg-type]  # links change
                effects = node.link(peer, what.up, now)  # type: ignore[union-attr]
        elif kind == PROBE:
            effects = node.probe(now)
        self._after_step(stores, at, effects, now)

    def _after_step(self, stores: Stores, at: int, effects: list[Effect], now: int) -> None:
        """Packets leave. A node whose disk fails it stalls, and tries again; or it must end, and is started
        again some time later."""
        node = stores.nodes[at]
        effects += stores.collect(at, now)
        if node.failed is not None:
            if not isinstance(node.failed, StorageError):
                raise node.failed
            node.failed = None
            self._stalled.discard(at)
            self._crash_now(at, now + self._trouble.randint(*DOWN_US))
            return
        if node.began_anew:
            node.began_anew = False
            self._unlink(at)
        if node.runs:
            self._stalled.discard(at)
        elif node.steps is not None:
            self._stalled.add(at)
            self._push(now + PROBE_US, PROBE, at, self._lives[at])
        if effects:
            self._carry_out(at, effects, now)

    def _send(self, node: int, now: int) -> list[Effect]:
        effects = self._replicas[node].broadcast(self._payload, now)
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
        if node not in self._down or kind in (SEND, TAKE):
            self._away[node].append(event)

    def _crash_now(self, node: int, until_us: int) -> None:
        crash = Crash(self.now, until_us, node)
        self._begin(crash, power=True)
        self._push(until_us, END, node, what=crash)

    def _unlink(self, node: int) -> None:
        """As a node that begins anew does: its ends are gone, the others will notice."""
        if self._sessions:
            self._sessions.crashed(self.now, node, self._settings.nodes)

    def _begin(self, fault: Fault, power: bool | None = None) -> list[Effect]:
        if isinstance(fault, BadDisk):
            if self._stores:  # not every engine's nodes have a disk
                self._stores.worsen(fault)
        elif isinstance(fault, Cut):
            self._cut.update(fault.links)
            if self._sessions:
                self._sessions.snap(self.now, fault.links)
        else:
            self._away.setdefault(fault.node, [])
            if isinstance(fault, Crash):
                self._down.add(fault.node)
                self._lives[fault.node] += 1
                self._unlink(fault.node)
                if self._stores:
                    self._stores.crash(fault.node, power)
        return []

    def _end(self, fault: Fault) -> list[Effect]:
        if isinstance(fault, BadDisk):
            if self._stores:
                self._stores.heal(fault.node)
            return []
        if isinstance(fault, Cut):
            self._cut -= Counter(dict.fromkeys(fault.links, 1))
            return []
        for _, _, kind, node, peer, what in self._away.pop(fault.node, ()):
            self._push(self.now, kind, node, peer, what)
        if isinstance(fault, Crash):
            self._down.discard(fault.node)
            if self._stores is None:
                return self._replicas[fault.node].restart(self.now)
            self._boot(self._stores, fault)
        return []

    def _boot(self, stores: Stores, fault: Crash) -> None:
        try:
            effects = stores.nodes[fault.node].boot(self.now)
        except StorageError:  # it is tried again, as long as it takes
            self._crash_now(fault.node, self.now + PROBE_US)
            return
        self._after_step(stores, fault.node, effects, self.now)

    def _link(self, node: int, peer: int, change: Change, now: int) -> list[Effect]:
        assert self._sessions
        if not self._sessions.changed(node, peer, change):
            return []
        replica = self._replicas[node]
        return replica.up(peer, now) if change.up else replica.down(peer, now)

    def _try_to_connect(self, one: int, other: int, now: int) -> None:
        assert self._sessions
        away = one in self._away or other in self._away
        away = away or one in self._stalled or other in self._stalled
        cut = (one, other) in self._cut or (other, one) in self._cut
        self._sessions.connecting(now, one, other, not (away or cut), self._latency(one, other))

    def _carry_out(self, node: int, effects: list[Effect], now: int) -> None:
        for effect in effects:
            if type(effect) is Transmit:
                self._transmit(node, effect, now)
            else:
                self._push(effect.at, WAKE, node, self._lives[node])  # type: ignore[union-attr]  # what is left is a Wake

    def _transmit(self, node: int, effect: Transmit, now: int) -> None:
        packet, name = effect.packet, NAMES[type(effect.packet)]
        self.packets[name] += len(effect.peers)
        self.bytes[name] += len(effect.peers) * len(self._encode(packet))
        if self._sessions:
            self._transmit_in_order(self._sessions, node, effect, now)
            return
        heap, latency, cut, planned = self._heap, self._latency, self._cut, self._planned
        if self._faulty or cut:
            self._transmit_badly(node, effect, now)
            return
        for peer in effect.peers:
            planned += 1
            heappush(heap, (now + latency(node, peer), planned, PACKET, peer, node, packet))
        self._planned = planned

    def _transmit_in_order(self, sessions: Sessions, node: int, effect: Transmit, now: int) -> None:
        for peer in effect.peers:
            if self._chance() < self._settings.loss * BREAKS:
                self.packets["broke a link"] += 1
                sessions.snap(now, [(node, peer)])
            sent = sessions.sending(node, peer, effect.packet, now + self._latency(node, peer))
            if sent is None:
                self.packets["lost"] += 1
            else:
                at, carried = sent
                self._push(at, PACKET, peer, node, carried)

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
