"""`bench oplog`: what the operation log costs over writing the messages to a plain file.

* `oplog.append`: CPU time per message of appending with a commit for every 64; nothing is synced but full
  segments. Baseline: the same messages joined, a plain write for every 64.
* `oplog.read`: CPU time per message of reading it all back with `since(0)`, checksums verified. Baseline:
  reading the plain file and cutting it into messages.
* `oplog.always`: elapsed time, the median, of one message appended, committed and synced. Baseline: a plain
  write and `fdatasync`.
* `oplog.reopen`: elapsed time of opening the log, all of it verified. Baseline: reading its files and their
  checksums.

CPU time where nothing is waited for, so that the rest of the machine matters less; elapsed time where waiting
is the point. What is read was written a moment before and is still in memory. Messages are of 64 bytes.
Subject and baseline take turns. The files are made where temporary files go: `TMPDIR` chooses the disk.
"""

import gc
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count as count_from
from pathlib import Path
from statistics import median
from zlib import crc32

from thence.core.dots import pack
from thence.lab.bench.record import Record
from thence.oplog.log import OpLog
from thence.oplog.policy import DiskSync
from thence.oplog.segment import CHUNK_BYTES
from thence.oplog.settings import LogSettings
from thence.runtime.files import DiskFiles, fdatasync

MESSAGE = bytes(range(64))
TOGETHER = 64
"""Messages in a commit."""
REPEATS = 5


def started(folder: Path, settings: LogSettings) -> tuple[DiskFiles, OpLog]:
    folder.mkdir()
    files = DiskFiles(folder)
    log = OpLog.open(files, settings, 0)
    log.boot(1, b"bench", 0)
    log.member("a")
    log.sync(0)
    return files, log


def emptied(folder: Path) -> None:
    if folder.exists():
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()


def cpu_us(work: Callable[[], int]) -> float:
    """CPU microseconds per message of what `work` does to so many."""
    gc.collect()
    begun = time.process_time_ns()
    messages = work()
    return (time.process_time_ns() - begun) / 1000 / messages


def elapsed_s(work: Callable[[], object]) -> float:
    gc.collect()
    begun = time.perf_counter_ns()
    work()
    return (time.perf_counter_ns() - begun) / 1e9


def append(log: OpLog, count: int) -> int:
    for first in range(1, count + 1, TOGETHER):
        for seq in range(first, min(first + TOGETHER, count + 1)):
            log.append(pack(0, seq), MESSAGE)
        log.commit(0)
    return count


def plain_append(path: Path, count: int) -> int:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        for first in range(0, count, TOGETHER):
            os.write(descriptor, b"".join([MESSAGE for _ in range(first, min(first + TOGETHER, count))]))
    finally:
        os.close(descriptor)
    return count


def read(log: OpLog) -> int:
    messages = 0
    for stored in log.since(0):
        messages += len(stored.data) == len(MESSAGE)
    return messages


def plain_read(path: Path) -> int:
    messages = 0
    with path.open("rb", buffering=0) as file:
        while window := file.read(CHUNK_BYTES):
            for at in range(0, len(window), len(MESSAGE)):
                messages += len(window[at : at + len(MESSAGE)]) == len(MESSAGE)
    return messages


def reopen(folder: Path, count: int) -> None:
    with DiskFiles(folder) as files:
        log = OpLog.open(files, LogSettings(sync="no"), 0)
        if log.vector != (count,):
            raise AssertionError(f"{count} messages were written, {log.vector} found")


def plain_reopen(folder: Path) -> None:
    for path in folder.iterdir():
        crc = 0
        with path.open("rb", buffering=0) as file:
            while window := file.read(CHUNK_BYTES):
                crc = crc32(window, crc)


def written_and_read(root: Path, count: int) -> Iterator[Record]:
    folder, plain = root / "log", root / "plain"
    best = dict.fromkeys(
        ("append", "read", "reopen", "plain append", "plain read", "plain reopen"), float("inf")
    )

    def note(name: str, value: float) -> None:
        best[name] = min(best[name], value)

    for _ in range(REPEATS):
        emptied(folder)
        files, log = started(folder, LogSettings(sync="no"))
        with files:
            note("append", cpu_us(lambda: append(log, count)))  # noqa: B023
            note("plain append", cpu_us(lambda: plain_append(plain, count)))
            note("read", cpu_us(lambda: read(log)))  # noqa: B023
            note("plain read", cpu_us(lambda: plain_read(plain)))
            log.close(0)
        note("reopen", elapsed_s(lambda: reopen(folder, count)))
        note("plain reopen", elapsed_s(lambda: plain_reopen(folder)))
    for name, unit in (("append", "us"), ("read", "us"), ("reopen", "s")):
        yield Record(f"oplog.{name}", best[name], unit, best[f"plain {name}"])


def always(root: Path, turns: int) -> Record:
    files, log = started(root / "always", LogSettings(sync="always"))
    descriptor = os.open(root / "plain-always", os.O_WRONLY | os.O_CREAT)
    seqs = count_from(1)

    def one() -> None:
        log.append(pack(0, next(seqs)), MESSAGE)
        for effect in log.commit(0):
            if isinstance(effect, DiskSync):
                files.sync(effect.file)
                log.synced(effect, 0)
        if log.durable != log.tail:
            raise AssertionError("a message was not synced")

    def plain() -> None:
        os.write(descriptor, MESSAGE)
        fdatasync(descriptor)

    try:
        taken: dict[Callable[[], None], list[int]] = {one: [], plain: []}
        for _ in range(turns):
            for work, times in taken.items():
                begun = time.perf_counter_ns()
                work()
                times.append(time.perf_counter_ns() - begun)
        return Record("oplog.always", median(taken[one]) / 1000, "us", median(taken[plain]) / 1000)
    finally:
        os.close(descriptor)
        files.close()


def bench(quick: bool) -> Iterator[Record]:
    with tempfile.TemporaryDirectory(prefix="thence-bench-") as folder:
        # First, while the disk has nothing else to do: the others leave it with much to write.
        yield always(Path(folder), 50 if quick else 2_000)
        yield from written_and_read(Path(folder), 20_000 if quick else 10**6)
