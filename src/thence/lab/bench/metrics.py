"""`bench metrics`: how fast a trace is measured, and what the samples of a live node cost it."""

import asyncio
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import thence
from thence.lab.bench.record import Record
from thence.runtime.sampling import Sampling

SAMPLES = 2000


def bench(quick: bool) -> Iterator[Record | str]:
    yield "samples of a live node"
    yield Record(
        "metrics.sample", asyncio.run(_sample_us(SAMPLES // (10 if quick else 1))), "CPU µs per sample"
    )
    from thence.pipeline.metrics.bench import bench_metrics

    yield "traces of millions of events"
    for figure in bench_metrics((10**6,) if quick else (10**6, 10**7, 3 * 10**7)):
        yield Record(figure["name"], figure["value"], figure["unit"], figure["baseline"])


async def _sample_us(samples: int) -> float:
    """Of a node alone: its status, and the rows to the disk."""
    with tempfile.TemporaryDirectory(prefix="thence-bench-") as scratch:
        folder = Path(scratch)
        async with thence.open("a", data=folder / "data", settings={"http": "none"}) as node:
            inner = node._node
            assert inner is not None
            sampling = Sampling(folder, "a", 1, inner.clock, inner.status, inner.says)
            begin = time.process_time()
            for _ in range(samples):
                sampling.sample()
            return (time.process_time() - begin) * 1e6 / samples
