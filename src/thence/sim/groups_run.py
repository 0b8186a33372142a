"""A storm over a group, from what was asked for to trace and outcome: scenarios `membership`, `closed`,
`tree`, `store`."""

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
from thence.replica.group.settings import Order
from thence.sim.groups_forgotten import SeenForgotten
from thence.sim.groups_storm import GroupStorm
from thence.sim.groups_weather import StormSettings, draw_all, draw_closed, draw_store, draw_tree
from thence.sim.recording import tell_bytes
from thence.sim.registry import STEPS, tell
from thence.sim.run import whole_trace
from thence.trace.parquet import ParquetTrace
from thence.trace.recorder import KINDS, NodeColumns
from thence.trace.schema import NO_OPERATION

MEMBERSHIP, CLOSED, TREE, STORE, STORM = "membership", "closed", "tree", "store", "storm"
DRAWS = {MEMBERSHIP: draw_all, CLOSED: draw_closed, TREE: draw_tree, STORE: draw_store}
ORDERS: dict[str, tuple[Order, ...]] = {
    MEMBERSHIP: ("graph",), CLOSED: ("graph", "vector"), TREE: ("graph", "vector"),
    STORE: ("graph",),
}  # fmt: skip
SAYS = {
    MEMBERSHIP: "members join, leave, crash, are evicted and return; then calm, and all must come right",
    CLOSED: "members that were named at the start crash, lose power and disks, and return",
    TREE: "either of these over a tree: few links each, and messages are passed on",
    STORE: "as membership, and programs are stores: all must hold the same in the end",
}
for _name, _says in SAYS.items():
    tell(STEPS, _name, _says)
SHARES = (None, CLOSED, None, CLOSED, MEMBERSHIP)
"""Of the seeds of scenario `storm`, in turns: which of these it is; None: neither."""

LARGE = 32
"""Processes from which on a storm is a gentle one."""

AIR = ("loss", "duplicate", "reorder")
TAKES = ("nodes", "interval_ms", "latency_ms", *AIR, "take_ms", "payload_bytes", "seed")
"""What can be chosen about such a storm; the rest comes from the seed."""


@dataclass(frozen=True, slots=True)
class GroupOutcome:
    complete: bool
    """All members have one view, delivered the same and are drained; nothing that a process had was lost."""
    why: str
    seed: int
    processes: int
    incarnations: int
    sends: int
    deliveries: int
    stables: int
    joins: int
    leaves: int
    evictions: int
    restarts: int
    carried: int
    """Operations that were sent again after a return."""
    waited: int
    """Broadcasts that waited behind such operations."""
    gave_up: int
    """Broadcasts that were refused instead: they waited for too long, or too many did."""
    reads: bool
    """Programs have no state, and read messages."""
    missed: int
    """Operations that such programs read after a return, since they had missed them."""
    forgotten: SeenForgotten
    """What processes forgot or declined of their own, as the trace names it: others may bring it late."""
    gaps: int
    """How often one was told that it will not get something."""
    packets: dict[str, int]
    bytes: dict[str, int]
    """On the wire, where the storm sends bytes at all (one in five does)."""
    virtual_ms: float
    cpu_seconds: float

    @property
    def nodes(self) -> int:
        return self.processes


def group_scenario(scenario: str, given: Mapping[str, object]) -> str | None:
    """Which kind of group this scenario is about, if it is about one. Of storms some seeds are, unless
    something was asked for that the laboratory's mesh alone has."""
    if scenario != STORM:
        return scenario if scenario in SAYS else None
    chosen = {key: value for key, value in given.items() if value is not None}
    seed, order, spread = chosen.pop("seed", 1), chosen.pop("order", "graph"), chosen.pop("spread", "mesh")
    assert isinstance(seed, int)
    kind = SHARES[seed % len(SHARES)]
    fits = kind is not None and order in ORDERS[kind]
    return kind if fits and spread == "mesh" and not chosen else None


def weather(scenario: str, given: Mapping[str, object], rough: bool = False) -> tuple[int, StormSettings]:
    """The seed, and the storm that it stands for, with what was given instead of what it draws."""
    chosen = {key: value for key, value in given.items() if value is not None}
    engines = {"order": ORDERS[scenario], "spread": ("tree",) if scenario == TREE else ("mesh",)}
    for key, value in chosen.items():
        if key not in TAKES and value not in engines.get(key, ()):
            raise UsageError(f"scenario {scenario} has no --{key.replace('_', '-')} {value}")
    seed = chosen.get("seed", 1)
    assert isinstance(seed, int)
    drawn = DRAWS[scenario](seed)
    if chosen.get("order") in ("graph", "vector"):
        order: Order = "vector" if chosen["order"] == "vector" else "graph"
        drawn = replace(drawn, settings=replace(drawn.settings, order=order))
    numbers = {key: value for key, value in chosen.items() if isinstance(value, int | float)}
    if not all(math.isfinite(number) for number in numbers.values()):
        raise UsageError("a number that is none")
    for key in AIR:
        if not 0 <= numbers.get(key, 0) < 1:
            raise UsageError(f"--{key} is a share below 1, not {numbers[key]}")
    if not 1 <= numbers.get("nodes", 1) <= 1000 or min(numbers.values(), default=0) < 0:
        raise UsageError("need between 1 and 1000 --nodes, and nothing negative")
    air = drawn.air
    for key in AIR:
        if key in numbers:
            air = replace(air, **{key: float(numbers[key])})  # type: ignore[arg-type]  # all shares
    if "latency_ms" in numbers:
        micros = max(1, round(numbers["latency_ms"] * 1000))
        air = replace(air, latency_us=micros, jitter_us=micros)
    changes: dict[str, int] = {"rough": rough}
    for key, field in (("interval_ms", "interval_us"), ("take_ms", "take_us")):
        if key in numbers:
            changes[field] = max(field == "interval_us", round(numbers[key] * 1000))
    if "nodes" in numbers:
        changes["processes"] = int(numbers["nodes"])
        drawn = replace(drawn, partings=())
        if numbers["nodes"] > LARGE:
            changes["gentle"] = True
            drawn = replace(drawn, disks=(), sync="always", restores=())
            changes["founders"] = int(numbers["nodes"] / 2)
            air = replace(air, wire=False, links=True)
    if "payload_bytes" in numbers:
        changes["payload_bytes"] = int(numbers["payload_bytes"])
    return seed, replace(drawn, air=air, **changes)  # type: ignore[arg-type]  # whole numbers all


def simulate_group(
    scenario: str,
    given: Mapping[str, object],
    folder: Path | None = None,
    run: str = "",
    rough: bool = False,
) -> GroupOutcome:
    """Run, and leave the trace in `folder`, whole or not at all."""
    seed, drawn = weather(scenario, given, rough)
    storm = GroupStorm(seed, drawn)
    with nullcontext() if folder is None else whole_trace(folder) as sink:
        started = time.process_time()
        storm.world.metered = sink is not None
        why = storm()
        if sink is not None and storm.world.misled and not why:
            # Its states are right. But a trace names messages by counters, and some were given twice.
            storm = GroupStorm(seed, replace(drawn, restores=(), reads=drawn.reads or drawn.closed))
            storm.world.metered = True
            why = storm()
        cpu = time.process_time() - started
        if sink is not None:
            write(storm, sink, run)
    return _outcome(storm, why, cpu)


def _outcome(storm: GroupStorm, why: str, cpu: float) -> GroupOutcome:
    world = storm.world
    kinds = Counter(KINDS[kind] for diary in world.diaries.values() for kind, *_ in diary.rows)
    return GroupOutcome(
        complete=not why,
        why=why,
        seed=storm.seed,
        processes=len(world.names),
        incarnations=len(world.diaries),
        sends=kinds["send"],
        deliveries=kinds["deliver"],
        stables=kinds["stable"],
        joins=kinds["install"],
        leaves=kinds["leave"],
        evictions=kinds["evict"],
        restarts=kinds["restart"],
        carried=sum(len(process.application.orphans) for process in world.processes.values()),
        waited=sum(process.backlog.waited for process in world.processes.values()),
        gave_up=sum(process.backlog.gave_up for process in world.processes.values()),
        reads=storm.weather.reads,
        missed=sum(process.application.reader.late for process in world.processes.values()),
        forgotten=world.forgotten_in_trace(),
        gaps=sum(process.application.reader.gaps for process in world.processes.values()),
        packets=dict(world.packets),
        bytes=dict(world.bytes),
        virtual_ms=world.now / 1000,
        cpu_seconds=cpu,
    )


def write(storm: GroupStorm, sink: BinaryIO, run: str = "") -> None:
    """The trace as Parquet. Incarnations get numbers of the trace's own, from 1: a dot of zero is none."""
    diaries = storm.world.diaries
    spoken = {
        place[0]
        for diary in diaries.values()
        for _, about, deps, _, carries in diary.rows
        for place in (about or NO_OPERATION, *(deps or ()), *carries)
    }
    nothing = NO_OPERATION[0]
    names = [nothing, *sorted((spoken - {nothing}) | diaries.keys())]
    numbers = {name: number for number, name in enumerate(names)}

    def dot(place: Place) -> int:
        return pack(numbers[place[0]], place[1])

    trace = ParquetTrace(sink, names, run, [(process_of(name), number_of(name)) for name in names])
    try:
        for member, diary in diaries.items():
            columns = NodeColumns()
            for kind, about, deps, at, carries in diary.rows:
                columns.carry(tuple(map(dot, carries)))
                if deps is None:
                    columns.record(kind, dot(about) if about else 0, at)
                else:
                    columns.record_deps(kind, dot(about) if about else 0, tuple(map(dot, deps)), at)
            trace.write(numbers[member], columns)
        tell_bytes(trace, diaries, storm.world.sent_bytes, numbers, storm.world.now)
    finally:
        trace.close()
