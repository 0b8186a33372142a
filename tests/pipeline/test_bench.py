"""The made-up trace of the benchmark is a valid one, whichever way it is cut."""

from pathlib import Path

import pytest

from thence.pipeline import bench, files
from thence.pipeline.judge import judge
from thence.pipeline.metrics import bench as timed
from thence.pipeline.metrics.tally import tally
from thence.pipeline.metrics.timed import pack_timed, read_timed
from thence.pipeline.outcome import Part
from thence.pipeline.pack import pack
from thence.pipeline.readers import read
from thence.pipeline.shards import Payload

pytestmark = pytest.mark.xdist_group("spark")  # kernels are compiled where the other tests need them too


@pytest.mark.parametrize("stables", [False, True])
@pytest.mark.parametrize("blocks", [1, 3])
def test_the_made_up_trace_is_valid(tmp_path: Path, stables: bool, blocks: int) -> None:
    events = bench.write_trace(tmp_path, 20_000, nodes=17, stables=stables)
    assert 19_000 < events <= 20_000
    payloads = []
    for split in files.cut(files.trace_files(tmp_path)):
        packed = [piece for some in read(split) for piece in pack(some.rows)]
        payloads += [Payload(piece.bucket, piece.payload) for piece in packed]
    found = [
        finding.what for number in range(blocks) for finding in judge(list(payloads), Part(number, blocks))
    ]
    assert found == ["run"]


def test_memory_of_the_whole_tree_is_watched() -> None:
    with bench.peak_memory(interval_s=0.001) as peak:
        ballast = bytearray(64 << 20)
        while peak[0] < len(ballast):
            pass
    assert peak[0] >= len(ballast)


def test_processor_time_is_told_apart() -> None:
    """What this process does is the driver's, and is in the sum of what an event costs."""
    before = bench.processor_time()
    while bench.processor_time()["driver"] < before["driver"] + 0.05:
        pass
    told = {record["name"]: record for record in bench.shares("x", 1000, before)}
    assert sorted(told) == ["x.cpu.driver", "x.cpu.java", "x.cpu.workers"]
    assert told["x.cpu.driver"]["value"] >= 50_000
    assert all(record["value"] <= record["baseline"] for record in told.values())


def test_the_made_up_trace_with_times_is_measured_whole(tmp_path: Path) -> None:
    events = timed.write_timed_trace(tmp_path, 20_000, nodes=17)
    payloads = [
        piece.payload
        for split in files.cut(files.trace_files(tmp_path))
        for rows, _ in read_timed(split)
        for piece in pack_timed(rows, 1)
    ]
    [whole] = [row for row in tally(payloads, 10**9) if (row.measure, row.by) == ("delivery", "run")]
    assert whole.number == events * 16 // 17
    assert whole.max < timed.LATENCY_MOST_US
    timed.measure_alone(tmp_path)
