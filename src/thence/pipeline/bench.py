"""How fast traces are verified: Spark end to end, against the same kernels in one process.

The trace is made up: a group in which the members send in turn and each delivers everything in the same
order, each message's tag naming the last one. That is the heaviest valid shape for the verifier (full
pasts, every message at every node) and takes no simulator to make.
"""

import os
import resource
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from thence.pipeline import files
from thence.pipeline.judge import judge
from thence.pipeline.pack import pack
from thence.pipeline.readers import read
from thence.pipeline.shards import Payload
from thence.trace.schema import COUNTING_KINDS

NODES: Final = 170
ROWS_PER_FILE: Final = 1 << 22
ROWS_PER_GROUP: Final = 1 << 20


def write_trace(folder: Path, events: int, nodes: int = NODES, *, stables: bool = False) -> int:
    """A valid trace of about so many events, as Parquet; how many it became.

    Message k is sent by node k mod n once that node has delivered messages 0 ... k-1; a message's stable
    row comes n messages later, when every node is known to have it.
    """
    per_message = nodes * (2 if stables else 1)
    messages = max(nodes, events // per_message)
    step = max(1, ROWS_PER_FILE // per_message)
    names = pa.array([f"n{i:03}" for i in range(nodes)])
    written = 0
    for first in range(0, messages, step):
        table = some_rows(first, min(first + step, messages), nodes, names, stables)
        pq.write_table(table, folder / f"part-{first:09}.parquet", row_group_size=ROWS_PER_GROUP)
        written += table.num_rows
    return written


def some_rows(first: int, last: int, nodes: int, names: pa.Array, stables: bool) -> pa.Table:
    message = np.repeat(np.arange(first, last), nodes)
    node = np.tile(np.arange(nodes), last - first)
    kind = np.where(message % nodes == node, 1, 2)
    pos = 2 * message
    if stables:
        ripe = message >= nodes
        message = np.concatenate([message, message[ripe] - nodes])
        pos = np.concatenate([pos, pos[ripe] + 1])
        node = np.concatenate([node, node[ripe]])
        kind = np.concatenate([kind, np.full(int(ripe.sum()), 3)])
    sends = kind == 1
    known = sends & (message > 0)
    previous = message[known] - 1
    offsets = np.zeros(len(kind) + 1, np.int32)
    np.cumsum(known, out=offsets[1:])
    dots = pa.StructArray.from_arrays(
        [_names(names, previous % nodes).cast(pa.string()), pa.array(previous // nodes + 1)],
        names=["origin", "seq"],
    )
    return pa.table(
        {
            "node": _names(names, node),
            "pos": pos,
            "kind": _names(pa.array(COUNTING_KINDS), kind),
            "origin": _names(names, message % nodes),
            "seq": message // nodes + 1,
            "deps": pa.ListArray.from_arrays(pa.array(offsets), dots, mask=pa.array(~sends)),
        }
    )


def _names(names: pa.Array, index: Any) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(index, pa.int16()), names)


def verify_alone(folder: Path) -> None:
    """The same work in one process, without Spark."""
    splits = files.cut(files.trace_files(folder))
    packed = [piece for split in splits for some in read(split) for piece in pack(some.rows)]
    payloads = [Payload(piece.bucket, piece.payload) for piece in packed]
    packed.clear()
    found = judge(payloads)
    assert [finding.what for finding in found] == ["run"], found


def bench_verify(sizes: Sequence[int] = (10**6, 10**7, 3 * 10**7)) -> list[dict[str, Any]]:
    """Events per second and peak memory on Spark, each with one process alone as baseline."""
    from thence.pipeline.session import session
    from thence.pipeline.verify import verify

    spark = session()
    records = []
    with tempfile.TemporaryDirectory(prefix="thence-bench-") as scratch:
        _warm_up(Path(scratch) / "small", lambda folder: verify(spark, folder))
        for size in sizes:
            folder = Path(scratch) / str(size)
            folder.mkdir()
            events = write_trace(folder, size)
            alone = seconds_of(partial(verify_alone, folder))
            before = processor_time()
            with peak_memory() as peak:
                on_spark = seconds_of(partial(_expect_ok, verify, spark, folder))
            name = f"verify.spark.{size}"
            records.append(record(name, events / on_spark, "events/s", events / alone))
            records += shares(name, events, before)
            records.append(record(f"{name}.memory", peak[0] / 2**20, "MiB", own_peak() / 2**20))
    return records


def _warm_up(folder: Path, on_spark: Callable[[Path], Any]) -> None:
    """Compile kernels and start all workers before the clock runs: large enough to be cut into blocks."""
    folder.mkdir()
    write_trace(folder, 2_500_000, stables=True)
    verify_alone(folder)
    for _ in range(2):
        on_spark(folder)


def _expect_ok(verify: Callable[..., Any], *arguments: Any) -> None:
    report = verify(*arguments)
    assert report.ok, report.to_json()


def seconds_of(work: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def record(name: str, value: float, unit: str, baseline: float) -> dict[str, Any]:
    return {
        "name": name,
        "value": round(value, 1),
        "unit": unit,
        "baseline": round(baseline, 1),
        "ratio": round(value / baseline, 3),
    }


def shares(name: str, events: int, before: dict[str, float]) -> list[dict[str, Any]]:
    """Whose processor time it was, for each event: Java's, that of Python's workers, the driver's."""
    after = processor_time()
    spent = {who: after[who] - before.get(who, 0.0) for who in after}
    total = sum(spent.values()) or 1.0
    return [
        record(f"{name}.cpu.{who}", 1e9 * spent[who] / events, "ns/event", 1e9 * total / events)
        for who in sorted(spent)
    ]


def processor_time() -> dict[str, float]:
    """Seconds that this process (`driver`), Java and what is below it (`workers`) have used so far."""
    tick = os.sysconf("SC_CLK_TCK")
    parent, used, java = {}, {}, set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            head, _, tail = stat.read_text().rpartition(")")
        except OSError:
            continue  # it ended while we looked
        fields, pid = tail.split(), int(stat.parent.name)
        parent[pid] = int(fields[1])
        used[pid] = sum(int(number) for number in fields[11:15]) / tick  # with children that have ended
        if head.endswith("(java"):
            java.add(pid)
    found = {"driver": 0.0, "java": 0.0, "workers": 0.0}
    for pid, seconds in used.items():
        if _below(pid, parent):
            found["driver" if pid == os.getpid() else "java" if pid in java else "workers"] += seconds
    return found


def own_peak() -> int:
    """The largest resident size that this process ever had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@contextmanager
def peak_memory(interval_s: float = 0.1) -> Iterator[list[int]]:
    """Watch the resident size of this process and all below it (Spark's Java and its workers)."""
    peak = [0]
    done = threading.Event()

    def watch() -> None:
        while not done.wait(interval_s):
            peak[0] = max(peak[0], _resident())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        done.set()
        watcher.join()


def _resident() -> int:
    """Resident bytes of this process's tree, from /proc; 0 where there is none."""
    parent, size = {}, {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        except OSError:
            continue  # it ended while we looked
        pid = int(fields["Pid"])
        parent[pid] = int(fields["PPid"])
        size[pid] = int(fields.get("VmRSS", "0 kB").split()[0]) * 1024
    return sum(size[pid] for pid in size if _below(pid, parent))


def _below(pid: int, parent: dict[int, int]) -> bool:
    while pid and pid != os.getpid():
        pid = parent.get(pid, 0)
    return bool(pid)
