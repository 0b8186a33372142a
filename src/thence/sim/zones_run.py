"""A storm over processes of a topology, from what was asked for to trace and outcome: scenario `zones`."""

import time
from collections import Counter
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from thence.core.dots import pack
from thence.core.errors import UsageError
from thence.sim.recording import tell_bytes
from thence.sim.registry import STEPS, tell
from thence.sim.run import whole_trace
from thence.sim.zones_storm import ZoneStorm, draw_zones
from thence.trace.parquet import ParquetTrace
from thence.trace.recorder import KINDS, SEND, NodeColumns

ZONES = "zones"
SAYS = "processes of a topology as they ship: gateways die, crash and are cut off, disks fail; then calm"
tell(STEPS, ZONES, SAYS)


@dataclass(frozen=True, slots=True)
class ZonesOutcome:
    complete: bool
    """Every message is at each of its destinations that lives, and nothing is kept or held back."""
    why: str
    seed: int
    processes: int
    zones: int
    sends: int
    deliveries: int
    crashes: int
    deaths: int
    put_back: int
    packets: dict[str, int]
    virtual_ms: float
    cpu_seconds: float


def simulate_zones(given: Mapping[str, object], folder: Path | None = None, run: str = "") -> ZonesOutcome:
    """Run, and leave the trace in `folder`, whole or not at all. All but the seed is drawn from it."""
    chosen = {key: value for key, value in given.items() if value is not None}
    if chosen.pop("order", "separator") != "separator":
        raise UsageError(f"scenario {ZONES} has --order separator alone")
    seed = chosen.pop("seed", 1)
    if chosen:
        raise UsageError(f"scenario {ZONES} draws everything from --seed: there is no --{next(iter(chosen))}")
    assert isinstance(seed, int)
    storm = ZoneStorm(seed, draw_zones(seed))
    with nullcontext() if folder is None else whole_trace(folder) as sink:
        started = time.process_time()
        storm.world.metered = sink is not None
        why = storm()
        cpu = time.process_time() - started
        if sink is not None:
            write(storm, sink, run)
    world = storm.world
    kinds = Counter(KINDS[kind] for diary in world.diaries.values() for kind, *_ in diary.rows)
    return ZonesOutcome(
        complete=not why, why=why, seed=seed, processes=len(world.processes),
        zones=len(world.topology.zones), sends=kinds["send"], deliveries=kinds["deliver"],
        crashes=storm.crashes, deaths=storm.deaths, put_back=storm.backs, packets=dict(world.packets),
        virtual_ms=world.now / 1000, cpu_seconds=cpu,
    )  # fmt: skip


def hours(outcome: ZonesOutcome) -> float:
    """That its processes have lived."""
    return outcome.virtual_ms * outcome.processes / 3_600_000


def write(storm: ZoneStorm, sink: BinaryIO, run: str = "") -> None:
    """The trace as Parquet. Processes get numbers of the trace's own, from 1: a dot of zero is none."""
    world = storm.world
    names = ["-", *world.names]
    numbers = {name: number for number, name in enumerate(names)}
    trace = ParquetTrace(sink, names, run, addressed=True)
    try:
        for name, diary in world.diaries.items():
            columns = NodeColumns()
            for kind, about, _, at, _ in diary.rows:
                dot = pack(numbers[about[0]], about[1]) if about else 0
                if kind == SEND and about in diary.dests:
                    columns.record_dest(dot, tuple([numbers[each] for each in diary.dests[about]]), at)
                else:
                    columns.record(kind, dot, at)
            trace.write(numbers[name], columns)
        tell_bytes(trace, world.diaries, world.sent_bytes, numbers, world.now)
    finally:
        trace.close()
