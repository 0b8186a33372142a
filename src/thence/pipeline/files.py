"""Which files make up a trace, and how they are cut into pieces that are read independently.

A trace is one file or a folder of any layout. Parquet is cut at its row groups, JSON lines at byte
ranges, CSV at the ends of rows (`csv_rows`). Rows have no order across files, so any cut is as good as any
other: the cuts only have to be even.

A folder `key=value` below the trace is a Hive partition: the column `key` of all files in it.
"""

import errno
import os
import re
import stat
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from thence.core.errors import TraceError
from thence.pipeline.csv_rows import row_ends

SUFFIXES: Final = (".parquet", ".jsonl", ".csv")
SPLIT_BYTES: Final = 16 << 20
# Compressed Parquet grows when it is read; this many rows take about as long as SPLIT_BYTES of text.
SPLIT_ROWS: Final = 1 << 20
PARQUET: Final = b"PAR1"
HIVE_NULL: Final = "__HIVE_DEFAULT_PARTITION__"

REFUSED: Final = frozenset(
    {errno.EACCES, errno.EPERM, errno.ELOOP, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG}
)
"""What the trace's owner can put right. Anything else (a file that has vanished, a disk that fails) is
trouble of the machine, and says nothing about the trace."""

Hive = tuple[tuple[str, str | None], ...]


class TraceFile(NamedTuple):
    """A file of a trace, and what the folders around it say."""

    path: Path
    hive: Hive = ()


class Split(NamedTuple):
    """A piece of one file: row groups [start, end) of Parquet, bytes [start, end) of text. `tolerant`: what a
    killed writer left unfinished is passed over and counted."""

    path: str
    start: int
    end: int
    weight: int
    hive: Hive = ()
    tolerant: bool = False

    @property
    def suffix(self) -> str:
        return os.path.splitext(self.path)[1].lower()


def refused(path: object, error: OSError) -> Exception:
    """What to raise: an error about the trace if that is to blame, else what the machine said."""
    if error.errno in REFUSED:
        return TraceError(f"{path}: cannot be read: {error.strerror}")
    return error


def is_url(path: str) -> bool:
    """Whether a path names a file system that only Spark knows: s3a://…, hdfs://…"""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", path) is not None


def trace_files(trace: Path) -> list[TraceFile]:
    """Every file of the trace, in a fixed order; a file of an unknown kind is an error."""
    try:
        found = trace.stat()
    except FileNotFoundError:
        raise TraceError(f"{trace}: no such file or folder") from None
    except OSError as error:
        raise refused(trace, error) from error
    if stat.S_ISDIR(found.st_mode):
        files = sorted(_below(trace, (), ((found.st_dev, found.st_ino),)))
    else:
        files = [TraceFile(_regular(trace, found))]
    for file in files:
        if file.path.suffix.lower() not in SUFFIXES:
            raise TraceError(f"{file.path}: unknown kind of file (a trace holds .parquet, .jsonl and .csv)")
    if not files:
        raise TraceError(f"{trace}: holds no trace files (.parquet, .jsonl or .csv)")
    return files


def _below(folder: Path, hive: Hive, above: tuple[tuple[int, int], ...]) -> Iterator[TraceFile]:
    """`above`: the folders on the way here, which a link must not lead back to."""
    try:
        entries = list(folder.iterdir())
    except OSError as error:
        raise refused(folder, error) from error
    for entry in entries:
        if entry.name.startswith(("_", ".")):
            continue
        try:
            found = entry.stat()
        except FileNotFoundError:
            raise TraceError(f"{entry}: a link that leads nowhere") from None
        except OSError as error:
            raise refused(entry, error) from error
        if not stat.S_ISDIR(found.st_mode):
            yield TraceFile(_regular(entry, found), hive)
            continue
        place = (found.st_dev, found.st_ino)
        if place in above:
            raise TraceError(f"{entry}: a link that leads back to a folder above it")
        yield from _below(entry, hive + partition_of(entry.name), (*above, place))


def _regular(path: Path, found: os.stat_result) -> Path:
    if not stat.S_ISREG(found.st_mode):
        raise TraceError(f"{path}: not a file, but a pipe, a socket or a device")
    return path


def partition_of(name: str) -> Hive:
    key, equals, value = name.partition("=")
    if not key or not equals:
        return ()
    return ((unquote(key), None if value == HIVE_NULL else unquote(value)),)


def cut(
    files: Sequence[TraceFile],
    split_bytes: int = SPLIT_BYTES,
    split_rows: int = SPLIT_ROWS,
    *,
    tolerant: bool = False,
) -> list[Split]:
    """Cut the files into splits of about equal work."""
    splits: list[Split] = []
    for file in files:
        try:
            if file.path.suffix.lower() == ".parquet":
                splits.extend(_cut_parquet(file, split_rows, tolerant))
            else:
                splits.extend(_cut_text(file, split_bytes, tolerant))
        except OSError as error:
            raise refused(file.path, error) from error
    return splits


def _cut_text(file: TraceFile, split_bytes: int, tolerant: bool) -> Iterator[Split]:
    size = file.path.stat().st_size
    if file.path.suffix.lower() == ".csv":
        inner = row_ends(file.path, size, split_bytes)
    else:
        inner = list(range(split_bytes, size, split_bytes))
    for start, end in pairwise([0, *inner, size]):
        yield Split(str(file.path), start, end, end - start, file.hive, tolerant)


def _cut_parquet(file: TraceFile, split_rows: int, tolerant: bool) -> Iterator[Split]:
    path = str(file.path)
    try:
        meta = pq.read_metadata(path)
    except (pa.ArrowInvalid, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        if not (tolerant and is_half_written(path)):
            raise TraceError(f"{path}: not a readable Parquet file: {_first_line(error)}") from error
        yield Split(path, 0, 0, 0, file.hive, tolerant)
        return
    start = rows = 0
    for group in range(meta.num_row_groups):
        rows += meta.row_group(group).num_rows
        if rows >= split_rows or group + 1 == meta.num_row_groups:
            weight = rows * SPLIT_BYTES // SPLIT_ROWS
            yield Split(path, start, group + 1, weight, file.hive, tolerant)
            start, rows = group + 1, 0
    if meta.num_row_groups == 0:
        yield Split(path, 0, 0, 0, file.hive, tolerant)  # still read, so that its columns are checked


def is_half_written(path: str) -> bool:
    """Whether a Parquet file lacks the end that its writer puts there last."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - len(PARQUET)))
        return size < 3 * len(PARQUET) or file.read() != PARQUET


def _first_line(error: BaseException) -> str:
    return str(error).split("\n", 1)[0]


def share_out(splits: Sequence[Split], tasks_min: int, task_bytes: int = SPLIT_BYTES) -> list[list[Split]]:
    """Group splits into tasks: many small files share a task, so that a task's fixed cost is paid seldom."""
    total = sum(split.weight for split in splits)
    goal = max(1, min(task_bytes, total // max(1, tasks_min)))
    tasks: list[list[Split]] = []
    filled = goal
    for split in splits:
        if filled >= goal:
            tasks.append([])
            filled = 0
        tasks[-1].append(split)
        filled += max(split.weight, 1)
    return tasks
