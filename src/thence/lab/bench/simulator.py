"""`bench sim`: simulated deliveries per second of CPU time, trace on, 64 nodes; `stable`: with stability,
which doubles the rows of the trace.

The baseline pushes the same number of events through a bare heap: what any event loop in this
language must spend.

`sim.group.runs.N`: the same of a closed group of three, whose members run the steps of live nodes and send N
operations each in every millisecond. Baseline: at one operation.
"""

import io
import time
from collections.abc import Iterator
from heapq import heappop, heappush
from random import Random
from typing import Final

from thence.lab.bench.record import Record
from thence.replica.group.settings import GroupSettings
from thence.sim.air import Air
from thence.sim.groups import GroupWorld
from thence.sim.run import Run
from thence.sim.settings import SimSettings

TURN_US: Final = 1_000
SETTLES_US: Final = 1_000_000
"""By then links are up, or what was sent is stable."""


def bare_heap(deliveries: int, packets: int) -> float:
    """Deliveries per CPU second if events cost nothing but their place in the heap."""
    random = Random(1).random
    heap: list[tuple[float, int, int, int, int, None]] = []
    started = time.process_time()
    for i in range(packets):
        heappush(heap, (random(), i, 0, 0, 0, None))
        if len(heap) > 4096:
            heappop(heap)
    return deliveries / (time.process_time() - started)


def bench(quick: bool) -> Iterator[Record]:
    for label, order, stability in (
        ("graph", "graph", False),
        ("vector", "vector", False),
        ("graph.stable", "graph", True),
        ("vector.stable", "vector", True),
    ):
        settings = SimSettings(nodes=64, messages=20 if quick else 200, order=order, stability=stability)
        trace = io.BytesIO()
        outcome = Run(settings, trace)()
        if not outcome.complete:
            raise AssertionError(outcome.why)
        baseline = bare_heap(outcome.deliveries, sum(outcome.packets.values()))
        rate = outcome.deliveries / outcome.cpu_seconds
        yield Record(f"sim.{label}.64", rate, "deliveries/cpu-s", baseline)
        yield Record(f"sim.{label}.64.trace", len(trace.getvalue()) / outcome.deliveries, "bytes/delivery")
    alone = 0.0
    for run in (1, 16):
        rate = group_rate(run, 200 if quick else 2_000)
        alone = alone or rate
        yield Record(f"sim.group.runs.{run}", rate, "deliveries/cpu-s", alone)


def group_rate(run: int, turns: int) -> float:
    """Deliveries per CPU second in a group whose members send so many operations in each of these turns."""
    names, sent = ("a", "b", "c"), 0
    air = Air(latency_us=500, jitter_us=0, links=True)
    world = GroupWorld(1, list(names), air, GroupSettings(), 0, "everysec", closed=True)
    for name in names:
        world.boot(name)
    world.run(world.now + SETTLES_US)

    def turn() -> None:
        nonlocal sent
        sent += 1
        for name in names:
            world.send(name, bytes(16), run)
        if sent < turns:
            world.at(world.now + TURN_US, turn)

    world.at(world.now, turn)
    started = time.process_time()
    world.run(world.now + turns * TURN_US + SETTLES_US)
    took = time.process_time() - started
    members = [process.node.member for process in world.processes.values() if process.node is not None]
    delivered = sum([sum(member.ledger.counts) for member in members if member is not None])
    if delivered < len(names) ** 2 * turns * run:
        raise AssertionError(f"{delivered} deliveries: some did not arrive")
    return delivered / took
