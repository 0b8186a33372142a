"""How fast metrics are worked out: Spark end to end, against the same kernels in one process.

The trace is that of `bench verify` with times: a message is delivered up to 200 ms after it was sent, each
delivery by a chance of its own, so that no two distributions are alike.
"""

import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from thence.pipeline import bench, files
from thence.pipeline.metrics.tally import tally
from thence.pipeline.metrics.timed import pack_timed, read_timed

MESSAGE_EVERY_US = 1_000
LATENCY_MOST_US = 200_000


def write_timed_trace(folder: Path, events: int, nodes: int = bench.NODES) -> int:
    """A trace of about so many events, as Parquet; how many it became."""
    messages = max(nodes, events // nodes)
    step = max(1, bench.ROWS_PER_FILE // nodes)
    names = pa.array([f"n{number:03}" for number in range(nodes)])
    chance = np.random.default_rng(1)
    for first in range(0, messages, step):
        table = bench.some_rows(first, min(first + step, messages), nodes, names, False)
        took = chance.integers(1, LATENCY_MOST_US, table.num_rows)
        sends = pc.equal(table["kind"].cast(pa.string()), "send").to_numpy()
        at = table["pos"].to_numpy() // 2 * MESSAGE_EVERY_US + np.where(sends, 0, took)
        table = table.append_column("at_us", pa.array(at))
        pq.write_table(table, folder / f"part-{first:09}.parquet", row_group_size=bench.ROWS_PER_GROUP)
    return messages * nodes


def measure_alone(folder: Path) -> None:
    """The same work in one process, without Spark."""
    payloads = [
        piece.payload
        for split in files.cut(files.trace_files(folder))
        for rows, _ in read_timed(split)
        for piece in pack_timed(rows, 1)
        if piece.part == 0
    ]
    assert any(row.measure == "delivery" for row in tally(payloads, 1_000_000))


def bench_metrics(sizes: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Events per second and peak memory on Spark, each with one process alone as baseline."""
    from thence.pipeline.metrics.measured import measure
    from thence.pipeline.session import session

    spark = session()
    with tempfile.TemporaryDirectory(prefix="thence-bench-") as scratch:
        small = Path(scratch) / "small"
        small.mkdir()
        write_timed_trace(small, 1_000_000)
        measure_alone(small)
        for _ in range(2):  # kernels compiled, workers started
            measure(spark, small)
        for size in sizes:
            folder = Path(scratch) / str(size)
            folder.mkdir()
            events = write_timed_trace(folder, size)
            begin = time.process_time()
            alone = bench.seconds_of(partial(measure_alone, folder))
            spent = time.process_time() - begin
            before = bench.processor_time()
            with bench.peak_memory() as peak:
                on_spark = bench.seconds_of(partial(measure, spark, folder))
            yield {
                "name": f"metrics.alone.{size}",
                "value": events / spent,
                "unit": "events/CPU s",
                "baseline": None,
            }
            name = f"metrics.spark.{size}"
            yield bench.record(name, events / on_spark, "events/s", events / alone)
            yield from bench.shares(name, events, before)
            yield bench.record(f"{name}.memory", peak[0] / 2**20, "MiB", bench.own_peak() / 2**20)
