"""Nodes of a simulated overlay as live nodes are made: the durable replica over the real log, on bad disks.

`sim.overlay_node` puts the protocols together by hand and measures them. Here the same worlds and storms
drive what runs over TCP: `TreeReplica` and `EcoReplica`, with their log on a simulated disk. A crash is one
of the process or of the machine, which forgets what was not synced; a disk may be full for a while. Nodes
know all members from the beginning, as those of a live group do. Messages carry no tags; a tree of
a group with tags is scenario `tree`.
"""

from collections.abc import Callable
from random import Random
from typing import BinaryIO

from thence.core.codec import Codec
from thence.core.dots import pack
from thence.core.errors import UsageError
from thence.core.machine import Close, Connect, Effect, Packet, Wake
from thence.members.hyparview import HyParView
from thence.oplog.log import OpLog
from thence.oplog.policy import Policy
from thence.order.streamed import STREAMED
from thence.replica.durable import DurableReplica
from thence.replica.eco import EcoReplica, LogStates
from thence.replica.fixed import FixedMachine
from thence.replica.live import Live
from thence.replica.overlay import Overlay
from thence.replica.tree import StepHistory, TreeReplica
from thence.sim.overlay import OverlayRun
from thence.sim.overlay_app import Registers
from thence.sim.overlay_node import MembersWake, NodeEffect, OverlayNode, Witness
from thence.sim.overlay_settings import TAGGED, OverlaySettings
from thence.sim.overlay_store import RegisterKeeper, Store
from thence.sim.step_node import Make
from thence.spread.overlays import OverlayKind
from thence.spread.streams import Streams
from thence.trace.recorder import LEAVE, Recorder

PROBE_US = 500_000
SOON_US = 1_000
READ_ON = 0.3
"""How often a packet is not the last one of its step."""

KEEP_SEGMENTS = 3
"""Above that, what nobody needs is collected: soon, so that short runs restart from what is left."""


class DurableNode(OverlayNode):
    """In the place of a node that is put together by hand: the steps of a live node."""

    __slots__ = ("_choked", "_collect_at", "_heal_at", "_linked", "_read", "_store")

    def __init__(self, store: Store, witness: Witness) -> None:
        self.me = store.node
        self.history = store  # type: ignore[assignment]  # what is asked of it is its vector
        self.keeper = None
        self._store = store
        self._witness = witness
        self._linked: dict[int, None] = {}
        self._read: tuple[int, list[Packet]] = -1, []
        """Packets of one peer whose step is still to come: as when a driver reads several at once."""
        self._choked: list[int] = []
        self._heal_at = 0
        self._collect_at = 0
        store.steps.taken = lambda dot, now: witness.delivered(self.me, dot, now)

    @property
    def overlay(self) -> Overlay:
        overlay = self._store.steps.machine.live.overlay
        assert overlay is not None
        return overlay

    @property
    def members(self) -> HyParView:  # type: ignore[override]  # it is another one after each rebuilding
        return self.overlay.members

    @property
    def spread(self) -> Streams:  # type: ignore[override]
        streams = self.overlay.streams
        assert isinstance(streams, Streams)
        return streams

    @property
    def replica(self) -> DurableReplica:
        return self._store.steps.machine.replica

    @property
    def _bad(self) -> bool:
        """It cannot write at present."""
        return not self._store.steps.runs

    # What happens to it

    def start(self, now: int) -> list[NodeEffect]:
        return self._after(self._store.boot(now), now)

    def leave(self, now: int) -> list[NodeEffect]:
        self._store.steps.trace.record(LEAVE, 0, now)
        return self._run(lambda machine, now: None, now)  # noqa: ARG005

    def linked(self, peer: int, now: int) -> list[NodeEffect]:
        if self._bad:
            return [Close(peer)]
        self._linked[peer] = None
        return [*self._read_on(now), *self._after(self._store.steps.link(peer, True, now), now)]

    def unlinked(self, peer: int, now: int) -> list[NodeEffect]:
        self._linked.pop(peer, None)
        if self._bad:
            return []
        return [*self._read_on(now), *self._after(self._store.steps.link(peer, False, now), now)]

    def packet(self, peer: int, packet: Packet, now: int) -> list[NodeEffect]:
        if self._bad or peer not in self._linked:
            return []
        out: list[NodeEffect] = [] if self._read[0] == peer else self._read_on(now)
        self._read = peer, [*self._read[1], packet]
        if self._store.random.random() < READ_ON:
            return [*out, Wake(now + SOON_US)]
        return [*out, *self._read_on(now)]

    def _read_on(self, now: int) -> list[NodeEffect]:
        """What was read and has had no step."""
        (peer, packets), self._read = self._read, (-1, [])
        if self._bad or not packets or peer not in self._linked:
            return []
        self._prepare(now)
        return self._after(self._store.steps.receive(peer, packets, now), now)

    def wake_members(self, now: int) -> list[NodeEffect]:
        if not self._bad:
            return self.wake_spread(now)
        if now >= self._heal_at:
            self._store.heal()
        return self._after(self._store.steps.probe(now), now)

    def wake_spread(self, now: int) -> list[NodeEffect]:
        if self._bad:
            return []
        out = self._read_on(now)
        self._prepare(now)
        return [*out, *self._after(self._store.steps.wake(now), now)]

    def send(self, payload: bytes, now: int) -> list[NodeEffect]:
        steps = self._store.steps
        if self._bad or steps.machine.refuses is not None:
            return []
        out = self._read_on(now)
        if steps.runs:
            self._prepare(now)
            effects = steps.send(payload, now)
            if effects is not None and steps.runs:
                self._witness.sent(pack(self.me, steps.log.vector[self.me]), now)
            out += self._after(effects or [], now)
        return out

    # Steps

    def _run(self, act: Callable[[FixedMachine, int], object], now: int) -> list[NodeEffect]:
        out = self._read_on(now)
        if self._bad:
            return out
        self._prepare(now)
        return [*out, *self._after(self._store.steps.run(act, now), now)]

    def _prepare(self, now: int) -> None:
        """The disk may be full by now; and now and then a neighbour takes no more for a while."""
        store, machine = self._store, self._store.steps.machine
        store.fill(now)
        random, names = store.random, store.steps.names
        if self._choked and random.random() < 0.3:
            machine.release(names[self._choked.pop()], now)
        elif random.random() < 0.05 and (live := self.overlay.streams.live):
            peer = random.choice(live)
            machine.hold(names[peer])
            self._choked.append(peer)

    def _after(self, effects: list[Effect], now: int) -> list[NodeEffect]:
        store, steps = self._store, self._store.steps
        out: list[NodeEffect] = list(effects)
        crowded = steps.runs and (steps.log.segments > KEEP_SEGMENTS or now >= self._collect_at)
        if crowded:
            self._collect_at = now + store.collect_every_us
            out += steps.run(lambda machine, now: machine.tidy(now), now)
        if steps.failed is not None:
            raise steps.failed
        if steps.began_anew:
            steps.began_anew = False
            self._read, self._choked = (-1, []), []
            out += [Close(peer) for peer in self._linked]
            self._linked.clear()
            if not steps.runs:
                self._heal_at = now + store.random.choice((100_000, 1_000_000, 4_000_000))
        if not steps.runs:
            return [*out, MembersWake(now + PROBE_US)]
        for peer, up in steps.wishes:
            if not up:
                self._linked.pop(peer, None)
            out.append(Connect(peer) if up else Close(peer))
        steps.wishes.clear()
        return out


class _Kept:
    """A store as the run measures it."""

    def __init__(self, store: Store, size: int) -> None:
        self.store = store
        self.keeper = RegisterKeeper(size)
        self.before = 0
        self.replica: EcoReplica | None = None

    @property
    def app(self) -> Registers:
        return self.keeper.app

    @property
    def size_bytes(self) -> int:
        return self.store.size_bytes

    @property
    def installs(self) -> int:
        return self.before + (self.replica.installs if self.replica else 0)


class DurableOverlayRun(OverlayRun):
    """A run whose nodes are made like live ones, perhaps of other classes than ours."""

    def __init__(
        self,
        settings: OverlaySettings,
        trace: BinaryIO | None = None,
        run: str = "",
        kind: OverlayKind | None = None,
        views: type[HyParView] = HyParView,
        replica: type[TreeReplica] = TreeReplica,
        eco_replica: type[EcoReplica] = EcoReplica,
        policy: Policy = "always",
        overlays: type[Overlay] = Overlay,
        histories: type[StepHistory] = StepHistory,
    ) -> None:
        """With another `policy` than `always` machines forget, and the trace tells of what never was."""
        super().__init__(settings, trace, run, kind, views)
        if not self.kind.tree:
            raise UsageError(f"live nodes spread by trees, not by {self.kind.name}")
        if settings.order != STREAMED.name:
            raise UsageError(TAGGED)
        self._replica, self._eco_replica = replica, eco_replica
        self._overlays, self._step_histories = overlays, histories
        size = self.plan.size
        names = [f"n{node}" for node in range(size)]
        self.kept = [
            _Kept(Store(node, names, columns, settings, self.kind.eco, self._maker(node), policy), size)
            for node, columns in enumerate(self._columns)
        ]
        self._keepers = self.kept  # type: ignore[assignment]  # what is asked of it is the same

    def problems(self) -> str:
        nodes = self.world.nodes
        if why := super().problems():
            return why
        if waiting := [f"n{node}" for node in nodes if self.kept[node].store.steps.trace.gathered]:
            return f"rows are not written at {', '.join(waiting)}"
        recovering = [f"n{node}" for node in nodes if self.kept[node].store.steps.forgetful]
        if recovering and len(nodes) == self.plan.size:
            return f"{', '.join(recovering)} may still lack what they had sent"
        return ""

    def _make(self, node: int, contacts: tuple[int, ...], now: int) -> OverlayNode:  # noqa: ARG002
        return DurableNode(self.kept[node].store, self.meter)

    def _maker(self, node: int) -> Make:
        def make(log: OpLog, recorder: Recorder, now: int) -> Live:
            def stream(purpose: str) -> Random:
                return Random(f"{self.settings.seed}/{purpose}/{node}/{now}")

            size, kept = self.plan.size, self.kept[node]
            codec = Codec(size, STREAMED.stamps_are_dots)
            history = self._step_histories(log, codec)
            states = LogStates()
            streams = self.kind.make(node, size, history, stream("spread"), states)
            assert isinstance(streams, Streams)
            others = [peer for peer in range(size) if peer != node]
            views = self._views(node, stream("members"), others)
            overlay = self._overlays(node, views, streams, stream("seek"))
            if self.kind.eco:
                kept.before, kept.keeper = kept.installs, RegisterKeeper(size)
                kept.replica = replica = self._eco_replica(
                    node, size, overlay, recorder, log, history, states, kept.keeper, kept.store.ttl_us, now
                )
                made: TreeReplica = replica
            else:
                made = self._replica(node, size, overlay, recorder, log, history, log.taken)
            if kept.store.steps.forgetful:
                made.regain()
            return Live(made, overlay, codec)

        return make
