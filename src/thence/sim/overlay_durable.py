"""Nodes of a simulated overlay as live nodes are made: the durable replica over the real log, on bad disks.

`sim.overlay_node` puts the protocols together by hand and measures them. Here the same worlds and storms
drive what runs over TCP: `TreeReplica` and `EcoReplica`, with their log on a simulated disk. A crash is one
of the process or of the machine, which forgets what was not synced; a disk may be full for a while. Nodes
know all members from the beginning, as those of a live group do.
"""

from random import Random
from typing import BinaryIO

from thence.core.codec import Codec
from thence.core.errors import StorageError, UsageError
from thence.core.machine import Close, Effect, Packet
from thence.members.hyparview import HyParView
from thence.oplog.policy import Policy
from thence.order.engine import Engine
from thence.replica.eco import EcoReplica, LogStates
from thence.replica.live import tree_engine
from thence.replica.overlay import Overlay
from thence.replica.tree import StepHistory, TreeReplica
from thence.sim.overlay import OverlayRun
from thence.sim.overlay_app import Registers
from thence.sim.overlay_node import MembersWake, NodeEffect, OverlayNode, Witness
from thence.sim.overlay_settings import OverlaySettings
from thence.sim.overlay_store import RegisterKeeper, Rows, Store
from thence.spread.overlays import OverlayKind
from thence.spread.streams import Streams
from thence.trace.recorder import LEAVE

PROBE_US = 500_000
PROBE_NOTE = 2
READ_ON = 0.3
"""How often a packet is not the last one of its step."""

KEEP_SEGMENTS = 3
"""Above that, what nobody needs is collected: soon, so that short runs restart from what is left."""


class DurableNode(OverlayNode):
    """In the place of a node that is put together by hand."""

    __slots__ = (
        "_bad",
        "_choked",
        "_collect_at",
        "_heal_at",
        "_linked",
        "_read",
        "_replica",
        "_store",
        "overlay",
    )

    def __init__(self, store: Store, replica: TreeReplica, overlay: Overlay, witness: Witness) -> None:
        assert isinstance(overlay.streams, Streams)
        self.me = store.node
        self.members = overlay.members
        self.spread = overlay.streams
        self.history = store  # type: ignore[assignment]  # what is asked of it is its vector
        self.keeper = None
        self.overlay = overlay
        self._replica = replica
        self._store = store
        self._witness = witness
        self._linked: dict[int, None] = {}
        self._read: list[Effect] = []
        """Of packets whose step goes on: as when a driver reads several at once."""
        self._choked: list[int] = []
        self._bad = False
        self._heal_at = 0
        self._collect_at = 0

    # What happens to it

    def start(self, now: int) -> list[NodeEffect]:
        if self._store.boots > 1:
            return self._step(self._replica.restart(now), now)
        self._replica.start(now)
        return self._step(self._replica.resume(now), now)

    def leave(self, now: int) -> list[NodeEffect]:
        self._store.rows.record(LEAVE, 0, now)
        return self._step([], now)

    def linked(self, peer: int, now: int) -> list[NodeEffect]:
        if self._bad:
            return [Close(peer)]
        self._linked[peer] = None
        return self._step(self._replica.up(peer, now), now)

    def unlinked(self, peer: int, now: int) -> list[NodeEffect]:
        self._linked.pop(peer, None)
        return self._step(self._replica.down(peer, now), now)

    def packet(self, peer: int, packet: Packet, now: int) -> list[NodeEffect]:
        if self._bad or peer not in self._linked:
            return []
        try:
            effects = self._replica.receive(peer, packet, now)
        except StorageError as error:
            return self._trouble(error, now)
        if self._store.random.random() < READ_ON:
            self._read += effects
            return []
        return self._step(effects, now)

    def wake_members(self, now: int) -> list[NodeEffect]:
        if self._bad:
            return self._probe(now)
        return self.wake_spread(now)

    def wake_spread(self, now: int) -> list[NodeEffect]:
        return self._step(self._replica.wake(now), now)

    def send(self, payload: bytes, now: int) -> list[NodeEffect]:
        if self._bad or self._replica.regaining:
            return []
        self._store.fill(now)
        try:
            published = self._replica.publish([payload], now)
            self._store.sync(published.log_effects, now)
        except StorageError as error:
            return self._trouble(error, now)
        for one in published.delivered:
            self._witness.sent(one.message.dot, now)
        return self._step(published.effects, now)

    # Steps

    def _step(self, effects: list[Effect], now: int) -> list[NodeEffect]:
        """Write it down, sync it, let the application take what is there; only then does anything leave."""
        if self._bad:
            return []
        effects, self._read = [*self._read, *effects], []
        store, replica = self._store, self._replica
        effects += self._choke(now)
        store.fill(now)
        try:
            store.sync(replica.commit(now), now)
            store.rows.settle()
            while replica.inbox:
                delivered = replica.take(now)
                self._witness.delivered(self.me, delivered.message.dot, now)
            store.taken = replica.taken
            replica.stable.clear()
            if replica.regaining and not self.overlay.recovering and replica.regained():
                store.forgetful = False
                store.given_back += store.log.vector[self.me] - store.fell_to
            if store.collects and (store.log.segments > KEEP_SEGMENTS or now >= self._collect_at):
                self._collect_at = now + store.collect_every_us
                replica.collect(now)
        except StorageError as error:
            return self._trouble(error, now)
        wishes, self.overlay.wishes = self.overlay.wishes, []
        for wish in wishes:
            if isinstance(wish, Close):
                self._linked.pop(wish.peer, None)
        return [*effects, *wishes]

    def _choke(self, now: int) -> list[Effect]:
        """Now and then a neighbour takes no more for a while."""
        random, effects = self._store.random, list[Effect]()
        if self._choked and random.random() < 0.3:
            effects = self._replica.release(self._choked.pop(), now)
        elif random.random() < 0.05 and (live := self.overlay.streams.live):
            peer = random.choice(live)
            self._replica.hold(peer)
            self._choked.append(peer)
        return effects

    def _trouble(self, error: StorageError, now: int) -> list[NodeEffect]:
        """The step never was; links begin anew when something can be written again."""
        if self._store.log.broken is not None:
            raise error
        self._bad = True
        self._read.clear()
        self._heal_at = now + self._store.random.choice((100_000, 1_000_000, 4_000_000))
        self._replica.roll_back(now)
        links = list(self._linked)
        self._linked.clear()
        for peer in links:
            self._replica.down(peer, now)
        return [*[Close(peer) for peer in links], MembersWake(now + PROBE_US)]

    def _probe(self, now: int) -> list[NodeEffect]:
        store = self._store
        if now >= self._heal_at:
            store.heal()
        try:
            store.log.note(PROBE_NOTE, b"")
            store.sync(self._replica.commit(now), now)
        except StorageError:
            self._replica.roll_back(now)
            return [MembersWake(now + PROBE_US)]
        self._bad = False
        return self._step(self._replica.resume(now), now)


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
        self._replica, self._eco_replica = replica, eco_replica
        self._overlays, self._step_histories = overlays, histories
        size = self.plan.size
        self._order: Engine = tree_engine(settings.order)
        names = [f"n{node}" for node in range(size)]
        self.kept = [
            _Kept(
                Store(node, names, Rows(node, size, self._order, columns), settings, self.kind.eco, policy),
                size,
            )
            for node, columns in enumerate(self._columns)
        ]
        self._keepers = self.kept  # type: ignore[assignment]  # what is asked of it is the same

    def problems(self) -> str:
        nodes = self.world.nodes
        if why := super().problems():
            return why
        if waiting := [f"n{node}" for node in nodes if self.kept[node].store.rows.waiting]:
            return f"rows are not written at {', '.join(waiting)}"
        recovering = [f"n{node}" for node in nodes if self.kept[node].store.forgetful]
        if recovering and len(nodes) == self.plan.size:
            return f"{', '.join(recovering)} may still lack what they had sent"
        return ""

    def _make(self, node: int, contacts: tuple[int, ...], now: int) -> OverlayNode:  # noqa: ARG002
        def stream(purpose: str) -> Random:
            return Random(f"{self.settings.seed}/{purpose}/{node}/{now}")

        size, kept = self.plan.size, self.kept[node]
        log = kept.store.open(now)
        history = self._step_histories(log, Codec(size, self._order.stamps_are_dots))
        states = LogStates()
        streams = self.kind.make(node, size, history, stream("spread"), states)
        assert isinstance(streams, Streams)
        others = [peer for peer in range(size) if peer != node]
        overlay = self._overlays(node, self._views(node, stream("members"), others), streams, stream("seek"))
        rows, store = kept.store.rows, kept.store
        if self.kind.eco:
            kept.before, kept.keeper = kept.installs, RegisterKeeper(size)
            kept.replica = replica = self._eco_replica(
                node, size, overlay, rows, log, history, states, kept.keeper, store.ttl_us, now
            )
            made: TreeReplica = replica
        else:
            made = self._replica(node, size, self._order, overlay, rows, log, history, store.taken, now)
        if store.forgetful:
            made.regain()
        return DurableNode(store, made, overlay, self.meter)
