"""`bench sim`: simulated deliveries per second of CPU time, trace on, 64 nodes; `stable`: with stability,
which doubles the rows of the trace.

The baseline pushes the same number of events through a bare heap: what any event loop in this
language must spend.
"""

import io
import time
from collections.abc import Iterator
from heapq import heappop, heappush
from random import Random

from thence.cli.bench.record import Record
from thence.sim.run import Run
from thence.sim.settings import Settings


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
        settings = Settings(nodes=64, messages=20 if quick else 200, order=order, stability=stability)
        trace = io.BytesIO()
        outcome = Run(settings, trace)()
        if not outcome.complete:
            raise AssertionError(outcome.why)
        baseline = bare_heap(outcome.deliveries, sum(outcome.packets.values()))
        rate = outcome.deliveries / outcome.cpu_seconds
        yield Record(f"sim.{label}.64", rate, "deliveries/cpu-s", baseline)
        yield Record(f"sim.{label}.64.trace", len(trace.getvalue()) / outcome.deliveries, "bytes/delivery")
