"""Nodes of a simulated overlay as live nodes are made: the machine that ships, over its log, on bad disks.

`sim.overlay_node` puts the protocols together by hand and measures them. Here the same worlds and storms
drive what runs over TCP: `OpenTree` in the steps of a live node (`replica.steps`). A crash is one of the
process or of the machine, which forgets what was not synced, so that the process comes back as another
incarnation; a disk may be full for a while, and with `slow` a sync takes its time. Nodes know the contacts
that they begin with, and learn of others as live nodes do. With `runs` programs send several operations in a
turn, some larger than a packet. Messages carry no tags; a tree of a group with tags is scenario `tree`.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import BinaryIO

from thence.core.dots import pack
from thence.core.errors import StorageError, UsageError
from thence.core.groups import Fragment, Place
from thence.core.machine import NEVER, Close, Connect, Packet, Transmit, Wake
from thence.members.hyparview import HyParView
from thence.oplog.policy import Policy
from thence.order.engines import PROBABILISTIC
from thence.order.probabilistic import ENTRIES, KEYS, RECENT
from thence.order.unordered import NONE
from thence.replica.group.settings import GroupSettings
from thence.replica.live_tree import LiveSettings
from thence.replica.open_tree import OpenTree
from thence.replica.overlay import Overlay
from thence.replica.send_queue import SendQueue
from thence.replica.step_outputs import BeginAnew, BeginSync, RefuseCalls, Release, Stop
from thence.replica.step_states import RUNS
from thence.replica.steps import Steps
from thence.sim.overlay import OverlayRun
from thence.sim.overlay_node import MembersWake, MessageObserver, NodeEffect, OverlayNode
from thence.sim.overlay_settings import TAGGED, OverlaySettings
from thence.sim.overlay_store import Store
from thence.spread.gossip import Gossip
from thence.spread.overlays import OverlayKind
from thence.spread.streams import Streams

PROBE_US = 500_000
SOON_US = 1_000
READ_ON = 0.3
"""How often a packet is not the last one of its step."""

KEEP_SEGMENTS = 3
"""Above that, what no node needs is collected: soon, so that short runs restart from what is left."""


class DurableNode(OverlayNode):
    """In the place of a node that is put together by hand: the steps of a live node."""

    __slots__ = (
        "_choked", "_collect_at", "_contacts", "_heal_at", "_linked", "_names", "_read", "_steps", "_store",
        "_syncs", "_wake_planned",
    )  # fmt: skip

    def __init__(
        self, store: Store, names: list[str], contacts: Sequence[str], witness: MessageObserver
    ) -> None:
        self.me = store.node
        self.history = store  # type: ignore[assignment]  # what is asked of it is its vector
        self.keeper = None
        self._store = store
        self._names = names
        self._contacts = contacts
        self._witness = witness
        self._steps: Steps[OpenTree, None] | None = None
        self._linked: dict[int, None] = {}
        self._read: tuple[int, list[Packet]] = -1, []
        """Packets of one peer whose step is still to come: as when a driver reads several at once."""
        self._choked: list[str] = []
        self._heal_at = self._collect_at = 0
        self._wake_planned = NEVER
        self._syncs: list[tuple[int, BeginSync]] = []
        """Under way, and when they are over."""

    @property
    def steps(self) -> Steps[OpenTree, None]:
        assert self._steps is not None
        return self._steps

    @property
    def overlay(self) -> Overlay:
        return self.steps.machine.overlay

    @property
    def members(self) -> HyParView:  # type: ignore[override]  # it is another one after each rebuilding
        return self.overlay.members

    @property
    def spread(self) -> Streams | Gossip:  # type: ignore[override]
        return self.overlay.streams

    @property
    def known(self) -> tuple[int, ...]:
        return tuple([self._index(name) for name in self.steps.machine.contacts])

    @property
    def live(self) -> tuple[int, ...]:
        called = self.steps.machine.processes.name
        return tuple([self._index(called(peer)) for peer in self.spread.live])

    def _index(self, name: str) -> int:
        return int(name[1:])

    @property
    def _bad(self) -> bool:
        """It cannot write at present."""
        return self.steps.state not in RUNS

    # What happens to it

    def start(self, now: int) -> list[NodeEffect]:
        first = self._store.begin()
        machine = self._store.make(self._contacts, now)
        self._steps = Steps(machine, self._remade, self._store.trace, SendQueue[None](GroupSettings()), now)
        self.steps.appetite = lambda: 1 << 10
        self.steps.tidies = False  # the world says when
        self.steps.run(lambda machine, now: machine.start(first, now), now)
        return self._after(now)

    def _remade(self, now: int) -> OpenTree:
        machine = self._store.make(self._contacts, now)
        machine.resume(now)
        return machine

    def leave(self, now: int) -> list[NodeEffect]:
        return self._run(lambda machine, now: machine.leave(now), now)

    def linked(self, peer: int, now: int) -> list[NodeEffect]:
        if self._bad:
            return [Close(peer)]
        if peer in self._linked:
            return []  # it was asked for once more, and is the same
        self._linked[peer] = None
        out = self._read_on(now)
        self.steps.link_up(f"n{peer}", now)
        return [*out, *self._after(now)]

    def unlinked(self, peer: int, now: int) -> list[NodeEffect]:
        self._linked.pop(peer, None)
        if self._bad:
            return []
        return self._run(lambda machine, now: machine.link_down(f"n{peer}", now), now, prepares=False)

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
        self.steps.receive(f"n{peer}", packets, now)
        return self._after(now)

    def wake_members(self, now: int) -> list[NodeEffect]:
        if not self._bad:
            return self.wake_spread(now)
        if now >= self._heal_at:
            self._store.heal()
        self.steps.probe(now)
        self._wake_planned = NEVER
        return self._after(now)

    def wake_spread(self, now: int) -> list[NodeEffect]:
        out = self._synced(now)
        if self._bad:
            return out
        out += self._read_on(now)
        self._prepare(now)
        if now >= self._wake_planned:  # else it was woken for something else
            self._wake_planned = NEVER
        self.steps.wake(now)
        return [*out, *self._after(now)]

    def send(self, payload: bytes, now: int) -> list[NodeEffect]:
        if self._bad:
            return []
        out = self._read_on(now)
        if not self._bad:
            self._prepare(now)
            for asked in self._store.turn(payload):
                self.steps.ask([self._store.program.writes(one) for one in asked], None)
            self.steps.settle(now)
            out += self._after(now)
        return out

    # Steps

    def _run(
        self, act: Callable[[OpenTree, int], object], now: int, prepares: bool = True
    ) -> list[NodeEffect]:
        out = self._read_on(now)
        if self._bad:
            return out
        if prepares:
            self._prepare(now)
        self.steps.run(act, now)
        return [*out, *self._after(now)]

    def _prepare(self, now: int) -> None:
        """The disk may be full by now; and now and then a neighbour takes no more for a while."""
        store, machine = self._store, self.steps.machine
        store.fill(now)
        if self._choked and store.random.random() < 0.3:
            machine.release(self._choked.pop(), now)
        elif store.random.random() < 0.05 and (live := self.live):
            peer = f"n{store.random.choice(live)}"
            machine.hold(peer)
            self._choked.append(peer)

    def _after(self, now: int) -> list[NodeEffect]:
        store, steps = self._store, self.steps
        out = self._carried_out(now)
        log = steps.machine.log
        if not self._bad and log is not None and (log.segments > KEEP_SEGMENTS or now >= self._collect_at):
            self._collect_at = now + store.collect_every_us
            out += self._synced(NEVER, now)
            steps.run(lambda machine, now: machine.tidy(now), now)
            out += self._carried_out(now)
        if not self._bad and steps.due:  # broadcasts that had to wait
            steps.settle(now)
            out += self._carried_out(now)
        if self._bad:
            return [*out, MembersWake(now + PROBE_US)]
        if steps.wake_at < self._wake_planned:
            self._wake_planned = steps.wake_at
            out.append(Wake(steps.wake_at))
        return out

    def _carried_out(self, now: int) -> list[NodeEffect]:
        steps, out = self.steps, list[NodeEffect]()
        while steps.effects:
            effect = steps.effects.popleft()
            if isinstance(effect, BeginSync):
                if takes := self._store.sync_takes():
                    self._syncs.append((now + takes, effect))
                    out.append(Wake(now + takes))
                else:
                    self._sync(effect, now)
            elif isinstance(effect, Release):
                out += self._released(effect, now)
            elif isinstance(effect, BeginAnew):
                self._read, self._choked = (-1, []), []
                out = [one for one in out if not isinstance(one, Transmit)]
                out += [Close(peer) for peer in self._linked]
                self._linked.clear()
                if self._bad:
                    self._heal_at = now + self._store.random.choice((100_000, 1_000_000, 4_000_000))
            elif isinstance(effect, Stop):
                raise effect.why
            else:
                assert isinstance(effect, RefuseCalls)
        return out

    def _sync(self, asked: BeginSync, now: int) -> None:
        try:
            asked.sync.carry_out(asked.log.files)
        except StorageError as error:
            self.steps.sync_failed(*asked, error, now)
        else:
            self.steps.synced(*asked, now)

    def _synced(self, upto: int, now: int | None = None) -> list[NodeEffect]:
        """Syncs that are over by then, and what they let go."""
        out, now = list[NodeEffect](), upto if now is None else now
        while self._syncs and self._syncs[0][0] <= upto:
            self._sync(self._syncs.pop(0)[1], now)
            out += self._carried_out(now)
        return out

    def _released(self, release: "Release[None]", now: int) -> list[NodeEffect]:
        out: list[NodeEffect] = [Transmit((self._index(name),), packet) for name, packet in release.posts]
        self._store.fragments += sum([isinstance(packet, Fragment) for _, packet in release.posts])
        for name, where in (release.links or {}).items():
            peer = self._index(name)
            if where is not None:
                out.append(Connect(peer))
            elif not self.steps.machine.linked(name):
                self._linked.pop(peer, None)
                out.append(Close(peer))
        for place in release.events:
            if (dot := self._dot(place)) is not None:
                self._witness.delivered(self.me, dot, now)
        for _, sent in release.answers:
            for place, _ in sent:
                if (dot := self._dot(place)) is not None:
                    self._witness.sent(dot, now)
        return out

    def _dot(self, place: Place) -> int | None:
        """Of what a first incarnation sent; others are not measured."""
        name, seq = place
        return pack(self._index(name), seq) if "~" not in name else None


class DurableOverlayRun(OverlayRun):
    """A run whose nodes are made like live ones, perhaps of other classes than ours."""

    shared_clocks = True

    def __init__(
        self,
        settings: OverlaySettings,
        trace: BinaryIO | None = None,
        run: str = "",
        kind: OverlayKind | None = None,
        views: type[HyParView] = HyParView,
        policy: Policy = "always",
        parts: LiveSettings | None = None,
        slow: bool = False,
        runs: bool = False,
    ) -> None:
        """With another `policy` than `always` machines forget, and the trace tells of what never was.
        `parts`: other classes than ours. `slow`: other things happen while a sync is under way. `runs`:
        several operations are sent in a turn, and packets are small."""
        super().__init__(settings, trace, run, kind, views)
        slow = slow or settings.slow
        if not self.kind.tree and self.kind.causal:
            raise UsageError(f"live nodes spread by trees or gossip, not by {self.kind.name}")
        if settings.order not in (NONE.name, PROBABILISTIC):
            raise UsageError(TAGGED)
        self._parts = parts or LiveSettings()
        if runs:
            random = Random(f"{settings.seed}/packets")
            packet, window = random.choice((200, 700, 1 << 20)), random.choice((3_000, 20_000, 1 << 20))
            self._parts = replace(self._parts, packet_bytes=packet, window_bytes=window)
        self.names = [f"n{node}" for node in range(self.plan.size)]
        """Of all incarnations that ever were, the first ones first."""
        self.kept = [
            Store(node, self, columns, settings, policy, slow, runs)
            for node, columns in enumerate(self._columns)
        ]
        self._keepers = self.kept  # type: ignore[assignment]  # what is asked of it is the same

    @property
    def fragments(self) -> int:
        """That were sent, of operations larger than a packet."""
        return sum(kept.fragments for kept in self.kept)

    def problems(self) -> str:
        if why := super().problems():
            return why
        if waiting := [f"n{node}" for node in self.world.nodes if self.kept[node].trace.gathered]:
            return f"rows are not written at {', '.join(waiting)}"
        return ""

    def _make(self, node: int, contacts: tuple[int, ...], now: int) -> OverlayNode:  # noqa: ARG002
        return DurableNode(self.kept[node], self.names, [f"n{peer}" for peer in contacts], self.meter)

    def live_settings(self, node: int, ttl_us: int, now: int) -> LiveSettings:
        random = Random(f"{self.settings.seed}/live/{node}/{now}")
        asked = self.settings
        return replace(
            self._parts, kind=self.kind, random=random, ttl_us=ttl_us, views=self._views, order=asked.order,
            entries=ENTRIES if asked.entries is None else asked.entries,
            keys=KEYS if asked.keys is None else asked.keys,
            recent=RECENT if asked.recent is None else asked.recent,
        )  # fmt: skip
