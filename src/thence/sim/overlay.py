"""One simulated run of an overlay, from settings to trace and outcome."""

import time
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import fmean
from typing import BinaryIO

from thence.core.codec import Codec
from thence.core.errors import UsageError
from thence.members.hyparview import HyParView
from thence.order.engines import PROBABILISTIC, chosen
from thence.sim.overlay_app import FakeApplication
from thence.sim.overlay_disk import DiskHistory
from thence.sim.overlay_history import MemoryHistory
from thence.sim.overlay_limits import Limits
from thence.sim.overlay_meter import Meter
from thence.sim.overlay_node import OverlayNode
from thence.sim.overlay_scenarios import OVERLAY_SCENARIOS
from thence.sim.overlay_settings import OverlaySettings, delays
from thence.sim.overlay_world import OverlayWorld
from thence.sim.recording import Recording
from thence.sim.run import Watcher, whole_trace
from thence.spread.overlays import OverlayKind, overlay
from thence.spread.streams import Streams

PATIENCE_US = 120_000_000
"""Two virtual minutes after the last happening and the last send: links are tried again every few seconds,
so that whatever is not delivered by then never will be."""

LOOK_US = 100_000
"""Virtual time between two looks at whether all is well."""


@dataclass(frozen=True, slots=True)
class OverlayOutcome:
    """What a run came to."""

    complete: bool
    """Every node that is up holds everything, and, of a tree, the branches are one."""
    why: str
    nodes: int
    """Nodes that are up at the end."""
    sends: int
    deliveries: int
    held: int
    """Messages that arrived before their causes: none, over streams."""
    duplicates: int
    doubts: int
    """Deliveries that were perhaps too early, as an engine that may err says."""
    packets: dict[str, int]
    bytes: dict[str, int]
    """On the wire, by layer, headers and checksums included."""
    latency_ms: float
    """Mean time from a send until every node that was there had the message."""
    resident_ms: float
    """The same of nodes that had been there for long enough to have read the past."""
    slowest_ms: float
    slowest: str
    healed_ms: tuple[float, ...]
    """After each mark of the plan: how long until the branches were one tree again."""
    settled_ms: tuple[float, ...]
    """The same, until the last time that they became one: after a change for a quicker way, mostly."""
    installs: int
    """States that stood in for messages."""
    log_bytes: int
    """In the logs and snapshots of all nodes, at the end."""
    virtual_ms: float
    cpu_seconds: float


class OverlayRun:
    shared_clocks = False
    """Its nodes can order by clocks that members share."""

    def __init__(
        self,
        settings: OverlaySettings,
        trace: BinaryIO | None = None,
        run: str = "",
        kind: OverlayKind | None = None,
        views: type[HyParView] = HyParView,
        keeper: type[FakeApplication] = FakeApplication,
    ) -> None:
        self.patience_us = PATIENCE_US
        self.syncing_us = 0
        """Time that nodes spent synchronising, summed over them, as far as looks can tell."""
        self.log_bytes: dict[int, int] = {}
        """By second: what is in all logs and snapshots."""
        self.syncs: dict[int, int] = {}
        """By second: nodes that are synchronising, at worst."""
        self.sync_durations: dict[int, list[int]] = {}
        """By second: how long the synchronisations that began in it took, as far as looks can tell."""
        self._syncing_since: dict[int, int] = {}
        self._views = views
        self.settings = settings
        self.kind = kind or overlay(settings.spread)
        self.plan = OVERLAY_SCENARIOS.find(settings.scenario).plan(settings, Random(f"{settings.seed}/plan"))
        size = self.plan.size
        self.meter = Meter(size)
        self._engine = chosen(settings.order, settings.entries, settings.keys, settings.recent)
        if not self.kind.causal and self._engine.exact:
            raise UsageError(f"{self.kind.name} brings messages in any order: use --order {PROBABILISTIC}")
        if not self._engine.exact and not self.shared_clocks:
            raise UsageError(f"order {settings.order} needs nodes that are made like live ones")
        self._recording = Recording([f"n{node}" for node in range(size)], trace, run)
        self._columns = self._recording.columns
        codec = Codec(size, self._engine.stamps_are_dots, entries=self._engine.entries)
        self._histories: list[MemoryHistory] = [
            DiskHistory(size, codec, f"n{node}", settings.seed)
            if settings.durable and not self.kind.eco
            else MemoryHistory(size)
            for node in range(size)
        ]
        self._keepers = [
            keeper(size, history, columns, round(settings.ttl_ms * 1000))
            for history, columns in zip(self._histories, self._columns, strict=True)
        ]
        if self.kind.eco and self._engine.witness is not None:
            raise UsageError("a log that forgets cannot tell the tags of what it forgot: use --order none")
        self.world = OverlayWorld(
            plan=self.plan,
            delay=delays(settings),
            codec=codec,
            meter=self.meter,
            maker=self._make,
            recorders=list(self._columns),
            seed=settings.seed,
            interval_us=settings.interval_us,
            probability=settings.probability,
            payload=bytes(settings.payload_bytes),
            silence_us=round(settings.silence_ms * 1000),
            limits=self._limits(),
        )

    def _limits(self) -> Limits | None:
        settings = self.settings
        if not settings.bandwidth_mbit and not settings.handling_us:
            return None
        return Limits(self.plan.size, settings.bandwidth_mbit, settings.handling_us)

    def _make(self, node: int, contacts: tuple[int, ...], now: int) -> OverlayNode:
        def stream(purpose: str) -> Random:
            return Random(f"{self.settings.seed}/{purpose}/{node}/{now}")

        size, history = self.plan.size, self._histories[node]
        if any(history.vector):
            history.crash(now)
        return OverlayNode(
            node,
            size,
            self._engine,
            self._views(node, stream("members"), contacts),
            self.kind.make(node, size, history, stream("spread"), self._keepers[node]),
            history,
            self._columns[node],
            self.meter,
            self._keepers[node] if self.kind.eco else None,
            self.settings.shows_links,
        )

    def __call__(self, watcher: Watcher | None = None) -> OverlayOutcome:
        started = time.process_time()
        settled: dict[int, int] = {}
        """By mark: since when the branches are one tree, as far as was seen."""
        self._healed: dict[int, int] = {}
        try:
            over = self.plan.over_us
            while self.world.now < over + self.patience_us:
                self.world.run(self.world.now + LOOK_US)
                self._look(settled)
                self._recording.look()
                if watcher:
                    watcher(min(self.world.now, over) // 1_000_000, over // 1_000_000)
                if self.world.now >= over and not self.problems():
                    break
            self._recording.tell(self._totals(), self.world.now)
        finally:
            self._recording.close()
        return self._outcome(settled, time.process_time() - started)

    def _totals(self) -> list[dict[str, int]]:
        """What each node sent, what programs got, and the states that came where there are any."""
        size, eco = self.settings.payload_bytes, self.kind.eco
        delivered = self._recording.of_nodes("deliver")
        return [
            {"sent_bytes_total": sent, "delivered_bytes_total": size * count}
            | ({"state_bytes_total": keeper.state_bytes} if eco else {})
            for sent, count, keeper in zip(self.world.sent_bytes, delivered, self._keepers, strict=True)
        ]

    def _measure(self) -> None:
        """Nothing that the nodes could notice."""
        second = self.world.now // 1_000_000
        busy = {
            node
            for node, here in self.world.nodes.items()
            if isinstance(here.spread, Streams) and here.spread.syncing
        }
        self.syncing_us += len(busy) * LOOK_US
        self.syncs[second] = max(len(busy), self.syncs.get(second, 0))
        for node in busy:
            self._syncing_since.setdefault(node, self.world.now)
        for node in [node for node in self._syncing_since if node not in busy]:
            since = self._syncing_since.pop(node)
            self.sync_durations.setdefault(since // 1_000_000, []).append(self.world.now - since)
        if second not in self.log_bytes:
            self.log_bytes[second] = sum(self._keepers[node].size_bytes for node in self.world.nodes)

    def _look(self, settled: dict[int, int]) -> None:
        self._measure()
        past = [mark for mark in self.plan.marks if mark <= self.world.now]
        if not past:
            return
        if self.is_tree():
            settled.setdefault(past[-1], self.world.now)
            self._healed.setdefault(past[-1], self.world.now)
        else:
            settled.pop(past[-1], None)

    def is_tree(self) -> bool:
        """The branches, live in both directions, connect all nodes that are up, without a circle."""
        nodes = self.world.nodes
        links = {(node, peer) for node, here in nodes.items() for peer in here.live}
        if len(links) != 2 * (len(nodes) - 1) or any((peer, node) not in links for node, peer in links):
            return False
        return len(_reached(links, next(iter(nodes)))) == len(nodes) if nodes else True

    def problems(self) -> str:
        """What keeps the run from being complete."""
        nodes = self.world.nodes
        if asking := self.world.asking:
            return f"no node has answered {', '.join(f'n{node}' for node in sorted(asking))}"
        best = [max(column) for column in zip(*[here.history.vector for here in nodes.values()], strict=True)]
        behind = [f"n{node}" for node, here in nodes.items() if list(here.history.vector) != best]
        if behind:
            return f"messages are missing at {', '.join(behind[:5])}{' …' if len(behind) > 5 else ''}"
        has_states = self.kind.eco or not self._engine.exact
        if has_states and len({self._keepers[node].app.encode() for node in nodes}) > 1:
            return "the applications' states differ"
        if self.kind.tree and not self.is_tree():
            return "the branches are not one tree"
        return ""

    def _outcome(self, settled: dict[int, int], cpu: float) -> OverlayOutcome:
        found = [latency for second in self.meter.latencies().values() for latency in second]
        slowest, longest = self.meter.slowest()
        why = self.problems()
        return OverlayOutcome(
            complete=not why,
            why=why,
            nodes=len(self.world.nodes),
            sends=self._recording.count("send"),
            deliveries=self._recording.count("deliver"),
            held=self._recording.count("hold"),
            duplicates=sum(self.meter.duplicates.values()),
            doubts=self._recording.count("doubt"),
            packets=dict(self.meter.packets),
            bytes=dict(self.meter.bytes),
            latency_ms=fmean(found) / 1000 if found else 0.0,
            resident_ms=self.meter.resident_us() / 1000,
            slowest_ms=longest / 1000,
            slowest=slowest,
            healed_ms=tuple(
                [(self._healed[mark] - mark) / 1000 for mark in self.plan.marks if mark in self._healed]
            ),
            settled_ms=tuple([(settled[mark] - mark) / 1000 for mark in self.plan.marks if mark in settled]),
            installs=sum(keeper.installs for keeper in self._keepers),
            log_bytes=sum(keeper.size_bytes for keeper in self._keepers),
            virtual_ms=self.world.now / 1000,
            cpu_seconds=cpu,
        )


def simulate_overlay(
    settings: OverlaySettings,
    folder: Path | None = None,
    watcher: Watcher | None = None,
    run: str = "",
    runs: type[OverlayRun] = OverlayRun,
) -> OverlayOutcome:
    """Run, and leave the trace in `folder`, whole or not at all. The watcher is told virtual seconds."""
    if folder is None:
        return runs(settings)(watcher)
    with whole_trace(folder) as sink:
        return runs(settings, sink, run)(watcher)


def _reached(links: set[tuple[int, int]], start: int) -> set[int]:
    neighbours: dict[int, list[int]] = {}
    for node, peer in links:
        neighbours.setdefault(node, []).append(peer)
    found, ahead = {start}, [start]
    while ahead:
        for peer in neighbours.get(ahead.pop(), ()):
            if peer not in found:
                found.add(peer)
                ahead.append(peer)
    return found
