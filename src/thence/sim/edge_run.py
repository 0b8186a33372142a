"""A storm over an edge tree, from what was asked for to trace and outcome: scenario `edge`."""

import math
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from thence.core.dots import pack
from thence.core.errors import UsageError
from thence.core.groups import Place, number_of, process_of
from thence.sim.edge_paths_storm import PathStorm
from thence.sim.edge_storm import EdgeStorm
from thence.sim.edge_weather import SECOND, EdgeWeather, draw_edge
from thence.sim.recording import tell_bytes
from thence.sim.registry import STEPS, tell
from thence.sim.run import whole_trace
from thence.trace.parquet import ParquetTrace
from thence.trace.recorder import KINDS, SEND, SUBSCRIBE, UNSUBSCRIBE, NodeColumns

EDGE, PATHS = "edge", "edge-paths"
SAYS = "nodes of an edge tree attach, publish to groups, join, leave, move, crash and return; then calm"
tell(STEPS, EDGE, SAYS)
TAKES = ("nodes", "interval_ms", "latency_ms", "take_ms", "payload_bytes", "delta", "groups", "seed")
"""What can be chosen about such a storm; the rest comes from the seed."""
PATHS_TAKES = tuple([name for name in TAKES if name != "take_ms"])
"""The same of the report's own scheme, which is for δ = 1."""


@dataclass(frozen=True, slots=True)
class EdgeOutcome:
    complete: bool
    """All are attached and joined, and have what the root has."""
    why: str
    seed: int
    spread: str
    kind: str
    nodes: int
    identities: int
    groups: int
    delta: int
    sends: int
    deliveries: int
    states: int
    crashes: int
    deaths: int
    losses: int
    moves: int
    entries: float
    """Per copy of a message, of `edge-paths`: numbers and barriers."""
    packets: dict[str, int]
    virtual_ms: float
    cpu_seconds: float


def edge_wanted(scenario: str, given: Mapping[str, object]) -> bool:
    return scenario == EDGE or given.get("spread") in (EDGE, PATHS)


def edge_weather(given: Mapping[str, object]) -> tuple[int, EdgeWeather]:
    """The seed, and the storm that it stands for, with what was given instead of what it draws."""
    chosen = {key: value for key, value in given.items() if value is not None}
    spread = chosen.pop("spread", EDGE)
    if spread not in (EDGE, PATHS):
        raise UsageError("scenario edge has --spread edge and edge-paths alone")
    if chosen.pop("order", "none") != "none":
        raise UsageError("an edge tree orders by the way that messages come: --order none")
    for key, value in chosen.items():
        if key not in (PATHS_TAKES if spread == PATHS else TAKES):
            raise UsageError(f"--spread {spread} has no --{key.replace('_', '-')} {value}")
    numbers = {key: value for key, value in chosen.items() if isinstance(value, int | float)}
    if any(not math.isfinite(number) or number < 0 for number in numbers.values()):
        raise UsageError("a number that is none, or negative")
    seed = int(numbers.get("seed", 1))
    drawn = draw_edge(seed)
    nodes = int(numbers.get("nodes", drawn.nodes))
    if not 1 <= nodes <= 2000 or not 0 <= numbers.get("delta", 1) <= 16 or not numbers.get("groups", 1):
        raise UsageError("need between 1 and 2000 --nodes, --delta up to 16, and --groups")
    delta = int(numbers.get("delta", 1 if spread == PATHS else drawn.settings.delta))
    if spread == PATHS and delta != 1:
        raise UsageError("path counters are safe for --delta 1 alone")
    settings = replace(drawn.settings, delta=delta)
    air = drawn.air
    if "latency_ms" in numbers:
        micros = max(1, round(numbers["latency_ms"] * 1000))
        air = replace(air, latency_us=micros, jitter_us=micros)
    return seed, replace(
        drawn,
        nodes=nodes,
        groups=int(numbers.get("groups", drawn.groups)),
        settings=settings,
        air=air,
        interval_us=max(1, round(numbers.get("interval_ms", drawn.interval_us / 1000) * 1000)),
        take_us=round(numbers.get("take_ms", drawn.take_us / 1000) * 1000),
        payload_bytes=int(numbers.get("payload_bytes", drawn.payload_bytes)),
    )


def simulate_edge(given: Mapping[str, object], folder: Path | None = None, run: str = "") -> EdgeOutcome:
    """Run, and leave the trace in `folder`, whole or not at all."""
    seed, drawn = edge_weather(given)
    paths = given.get("spread") == PATHS
    storm = PathStorm(seed, drawn) if paths else EdgeStorm(seed, drawn)
    with nullcontext() if folder is None else whole_trace(folder) as sink:
        started = time.process_time()
        storm.world.metered = sink is not None and not paths  # whose packets have no encoding
        why = storm()
        cpu = time.process_time() - started
        if sink is not None:
            write(storm, sink, run)
    world = storm.world
    entries = storm.world.entries if isinstance(storm, PathStorm) else []
    kinds = Counter(KINDS[kind] for diary in world.diaries.values() for kind, *_ in diary.rows)
    return EdgeOutcome(
        complete=not why, why=why, seed=seed, spread=PATHS if paths else EDGE,
        kind="static" if paths else drawn.kind, nodes=len(world.processes), identities=len(world.diaries),
        groups=drawn.groups, delta=drawn.settings.delta, sends=kinds["send"], deliveries=kinds["deliver"],
        states=kinds["subscribe"], crashes=storm.crashes, deaths=storm.deaths, losses=storm.losses,
        moves=storm.moves, entries=sum(entries) / max(1, len(entries)), packets=dict(world.packets),
        virtual_ms=world.now / 1000, cpu_seconds=cpu,
    )  # fmt: skip


def hours(outcome: EdgeOutcome) -> float:
    """That its nodes have lived."""
    return outcome.virtual_ms * outcome.nodes / (3600 * SECOND / 1000)


def write(storm: EdgeStorm | PathStorm, sink: BinaryIO, run: str = "") -> None:
    """The trace as Parquet. Identities get numbers of the trace's own, from 1: a dot of zero is none."""
    diaries = storm.world.diaries
    names = ["-", *sorted(diaries)]
    numbers = {name: number for number, name in enumerate(names)}
    codes: dict[str, int] = {}

    def dot(place: Place) -> int:
        return pack(numbers[place[0]], place[1])

    rows: dict[str, NodeColumns] = {}
    for identity, diary in diaries.items():
        columns = rows[identity] = NodeColumns()
        for kind, about, deps, at, _ in diary.rows:
            of_channel = kind in (SUBSCRIBE, UNSUBSCRIBE)
            channel = about[0] if of_channel and about else diary.channels.get(about or ("", 0), "")
            if channel and (of_channel or kind == SEND):
                columns.tell_channel(codes.setdefault(channel, len(codes)))
            named = dot(about) if about and not of_channel else 0
            if deps is None:
                columns.record(kind, named, at)
            else:
                columns.record_deps(kind, named, tuple(map(dot, deps)), at)
    lives = [(process_of(name), number_of(name)) for name in names]
    trace = ParquetTrace(sink, names, run, lives, channels=list(codes))
    try:
        for identity, columns in rows.items():
            trace.write(numbers[identity], columns)
        if storm.world.metered:
            tell_bytes(trace, diaries, storm.world.sent_bytes, numbers, storm.world.now)
    finally:
        trace.close()
