"""One simulated run from settings to trace and outcome."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import BinaryIO

from thence.core.codec import Codec
from thence.core.errors import UsageError
from thence.order.engine import SEPARATOR, Engine
from thence.order.engines import chosen
from thence.order.history import rules
from thence.order.topology import Topology
from thence.replica.replica import Replica
from thence.sim.faults import Plan
from thence.sim.judged import Judge, Judged
from thence.sim.recording import Recording
from thence.sim.scenarios import SCENARIOS, sending_us
from thence.sim.settings import SimSettings
from thence.sim.stamps import Sizes, StampMeter
from thence.sim.topologies import RANDOM, Setting, named
from thence.sim.world import RunProgress, World
from thence.sim.zoned import SimZones
from thence.spread.spreads import build
from thence.trace.recorder import Recorder

TRACE_FILE = "sim.parquet"

PATIENCE_US = 600_000_000
"""Ten virtual minutes after the last fault and the last send: lost packets are repeated every few
seconds, so that whatever is not delivered by then never will be."""

RULES_DEFAULT = "1-11"
WORD_MS = 200.0
"""Order separator: a few round trips, so that words are few beside messages."""

STEPS_PER_LOOK = 100_000
"""Events between two looks at the clock, the trace's memory and the progress display."""

Watcher = Callable[[int, int], None]
"""Is told now and then how many deliveries were made, of how many."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to."""

    complete: bool
    """Everything was delivered and became stable everywhere, and every node is drained."""
    why: str
    """What is missing, if it is not complete."""
    nodes: int
    sends: int
    deliveries: int
    stables: int
    held: int
    """Messages that arrived before their causes."""
    duplicates: int
    errors: int
    """Deliveries before their causes, by an engine that may err."""
    doubts: int
    """How often that engine doubted a delivery."""
    undoubted: int
    """Errors that it did not notice."""
    stamps: Sizes | None
    """Of hops, where messages are addressed."""
    packets: dict[str, int]
    bytes: dict[str, int]
    """On the wire, by kind of packet, headers and checksums included."""
    virtual_ms: float
    cpu_seconds: float


class Run:
    """A world made from settings, its nodes' columns, and the trace that they are written to."""

    def __init__(
        self,
        settings: SimSettings,
        trace: BinaryIO | None = None,
        run: str = "",
        engine: Engine | None = None,
    ) -> None:
        self._zones: SimZones | None = None
        if settings.order == SEPARATOR and engine is None:
            zoned = named(settings.topology, settings.seed, settings.gateways)
            settings = replace(settings, topology=settings.topology or RANDOM, nodes=len(zoned.topology))
            self._recording = Recording(zoned.topology.names, trace, run, addressed=True)
            self._zones = self._in_zones(zoned, settings)
            engine = self._zones.engine
        engine = engine or chosen(settings.order, settings.entries, settings.keys, settings.recent)
        self.settings = settings
        size = settings.nodes
        if self._zones is None:
            self._recording = Recording([f"n{me}" for me in range(size)], trace, run)
        self._judge = None if engine.exact else Judge(size, named=settings.recent != 0)
        self._replicas: Sequence[Replica] = (
            self._zones.nodes if self._zones else [self._replica(me, engine) for me in range(size)]
        )
        self._stability = settings.stability and engine.witness is not None
        self.plan: Plan = SCENARIOS.find(settings.scenario).plan(settings, Random(f"{settings.seed}/plan"))
        codec = Codec(size, engine.stamps_are_dots, engine.hops, entries=engine.entries)
        columns = self._recording.columns
        self._world = World(settings, self.plan, self._replicas, codec, columns, self._zones)

    @property
    def zones(self) -> SimZones:
        """Of a run with addressed messages."""
        assert self._zones is not None
        return self._zones

    def _in_zones(self, zoned: Setting, settings: SimSettings) -> SimZones:
        topology = zoned.topology
        self.meter = StampMeter(topology)
        zones = SimZones(
            topology,
            rules(settings.rules or RULES_DEFAULT),
            zoned.draw,
            self._recording.columns,
            settings.seed,
            round(1000 * (WORD_MS if settings.word_ms is None else settings.word_ms)),
            self.meter,
        )
        if settings.filters is not None:
            names = settings.filters.split(",") if settings.filters else []
            zones.filter_at([_gateway(topology, name) for name in names])
        return zones

    def _replica(self, me: int, engine: Engine) -> Replica:
        settings = self.settings
        spread = build(settings.spread, me, settings.nodes, settings.batch_us)
        recorder: Recorder = self._recording.columns[me]
        if self._judge is not None:
            recorder = Judged(recorder, self._judge, me)
        return Replica(me, settings.nodes, engine, spread, recorder, settings.stability)

    def __call__(self, watcher: Watcher | None = None) -> Outcome:
        settings, world = self.settings, self._world
        # Poisson intervals are truncated at four means, so sending takes four times the mean at most.
        until = max(self.plan.over_us, 4 * sending_us(settings)) + PATIENCE_US
        total = self._zones.due if self._zones else settings.nodes * (settings.nodes - 1) * settings.messages
        started = time.process_time()
        progress = RunProgress.MORE
        try:
            while progress is RunProgress.MORE:
                progress = world.run(until, STEPS_PER_LOOK)
                self._recording.look()
                if watcher:
                    watcher(self._recording.count("deliver"), total)
            self._recording.tell(self._totals(), world.now)
        finally:
            self._recording.close()
        return self._outcome(progress, time.process_time() - started)

    def _totals(self) -> list[dict[str, int]]:
        """What each node sent, and what of it programs had asked for, at each delivery."""
        size = self.settings.payload_bytes
        delivered = self._recording.of_nodes("deliver")
        return [
            {"sent_bytes_total": sent, "delivered_bytes_total": size * count}
            for sent, count in zip(self._world.sent_bytes, delivered, strict=True)
        ]

    def _outcome(self, progress: RunProgress, cpu: float) -> Outcome:
        count = self._recording.count
        sends, deliveries = count("send"), count("deliver")
        due = self._zones.due if self._zones else sends * (self.settings.nodes - 1)
        named = self._recording.names
        undrained = [name for name, replica in zip(named, self._replicas, strict=True) if not replica.drained]
        problems = []
        if progress is RunProgress.LATE:
            problems.append(f"still busy at {self._world.now / 1e6:.0f} s of virtual time")
        if deliveries != due:
            problems.append(f"{deliveries} deliveries of {due}")
        stables = count("stable")
        if self._stability and stables != sends * self.settings.nodes:
            problems.append(f"{stables} became stable of {sends * self.settings.nodes}")
        if undrained:
            problems.append(f"not drained: {', '.join(undrained[:5])}{' …' if len(undrained) > 5 else ''}")
        return Outcome(
            complete=not problems,
            why="; ".join(problems),
            nodes=self.settings.nodes,
            sends=sends,
            deliveries=deliveries,
            stables=stables,
            held=count("hold"),
            duplicates=count("duplicate"),
            errors=self._judge.errors if self._judge else 0,
            doubts=count("doubt"),
            undoubted=self._judge.undoubted if self._judge else 0,
            stamps=self.meter.total() if self._zones else None,
            packets=dict(sorted(self._world.packets.items())),
            bytes=dict(sorted(self._world.bytes.items())),
            virtual_ms=self._world.now / 1000,
            cpu_seconds=cpu,
        )


def _gateway(topology: Topology, name: str) -> int:
    if name not in topology.names or not topology.is_gateway(topology.names.index(name)):
        raise UsageError(f"{name!r} is no gateway of this topology")
    return topology.names.index(name)


def simulate(
    settings: SimSettings, folder: Path | None = None, watcher: Watcher | None = None, run: str = ""
) -> Outcome:
    """Run, and leave the trace in `folder`, whole or not at all."""
    if folder is None:
        return Run(settings)(watcher)
    with whole_trace(folder) as sink:
        return Run(settings, sink, run)(watcher)


@contextmanager
def whole_trace(folder: Path) -> Iterator[BinaryIO]:
    """Where to write a trace: it is there when all of it is, or never."""
    target = trace_file(folder)
    partial = target.with_name(f".{TRACE_FILE}.{os.getpid()}")
    try:
        with partial.open("wb") as sink:
            yield sink
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def trace_file(folder: Path) -> Path:
    """Where the trace goes: an earlier trace of the simulator is replaced, anything else refused."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        others = sorted(path.name for path in folder.iterdir() if not path.name.startswith((".", "_")))
    except OSError as error:
        raise UsageError(f"cannot write a trace to {folder}: {error.strerror}") from error
    others = [name for name in others if name != TRACE_FILE]
    if others:
        raise UsageError(f"{folder} already holds {others[0]}: give --trace a folder of its own")
    return folder / TRACE_FILE
