"""Which files make up a trace, and how they are cut into pieces that are read independently.

A trace is one file or a folder of any layout. Parquet is cut at its row groups, JSON lines at byte
ranges; a CSV file stays whole, since a quoted cell may hold a newline. Rows have no order across files,
so any cut is as good as any other: the cuts only have to be even.
"""

import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from thence.core.errors import TraceError

SUFFIXES: Final = (".parquet", ".jsonl", ".csv")
SPLIT_BYTES: Final = 16 << 20
# Compressed Parquet grows when it is read; this many rows take about as long as SPLIT_BYTES of text.
SPLIT_ROWS: Final = 1 << 20


class Split(NamedTuple):
    """A piece of one file: row groups [start, end) of Parquet, bytes [start, end) of text."""

    path: str
    start: int
    end: int
    weight: int

    @property
    def suffix(self) -> str:
        return os.path.splitext(self.path)[1].lower()


def trace_files(trace: Path) -> list[Path]:
    """Every file of the trace, in a fixed order; a file of an unknown kind is an error."""
    if not trace.exists():
        raise TraceError(f"{trace}: no such file or folder")
    files = [trace] if trace.is_file() else sorted(_below(trace))
    for file in files:
        if file.suffix.lower() not in SUFFIXES:
            raise TraceError(f"{file}: unknown kind of file (a trace holds .parquet, .jsonl and .csv)")
    if not files:
        raise TraceError(f"{trace}: holds no trace files (.parquet, .jsonl or .csv)")
    return files


def _below(folder: Path) -> Iterator[Path]:
    for entry in folder.iterdir():
        if entry.name.startswith(("_", ".")):
            continue
        if entry.is_dir():
            yield from _below(entry)
        else:
            yield entry


def cut(files: Sequence[Path], split_bytes: int = SPLIT_BYTES, split_rows: int = SPLIT_ROWS) -> list[Split]:
    """Cut the files into splits of about equal work."""
    splits: list[Split] = []
    for file in files:
        if file.suffix.lower() == ".parquet":
            splits.extend(_cut_parquet(file, split_rows))
        else:
            size = file.stat().st_size
            step = split_bytes if file.suffix.lower() == ".jsonl" else max(size, 1)
            bounds = [*range(0, size, step), size] if size else [0, 0]
            splits.extend(Split(str(file), a, b, b - a) for a, b in pairwise(bounds))
    return splits


def _cut_parquet(file: Path, split_rows: int) -> Iterator[Split]:
    try:
        meta = pq.read_metadata(file)
    except (pa.ArrowInvalid, OSError) as error:
        raise TraceError(f"{file}: not a readable Parquet file: {_first_line(error)}") from error
    start = rows = 0
    for group in range(meta.num_row_groups):
        rows += meta.row_group(group).num_rows
        if rows >= split_rows or group + 1 == meta.num_row_groups:
            yield Split(str(file), start, group + 1, rows * SPLIT_BYTES // SPLIT_ROWS)
            start, rows = group + 1, 0
    if meta.num_row_groups == 0:
        yield Split(str(file), 0, 0, 0)  # still read, so that its columns are checked


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
