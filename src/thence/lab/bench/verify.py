"""`bench verify`: how fast traces are judged, on Spark and in one process. See `pipeline.bench`."""

from collections.abc import Iterator

from thence.lab.bench.record import Record
from thence.pipeline.bench import bench_verify


def bench(quick: bool) -> Iterator[Record]:
    for figure in bench_verify((10**6,) if quick else (10**6, 10**7, 3 * 10**7, 10**8)):
        yield Record(figure["name"], figure["value"], figure["unit"], figure["baseline"])
