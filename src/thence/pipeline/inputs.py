"""Where the rows of a trace come from on Spark: files that every task opens by itself, or a URL.

What only Spark can reach (`s3a://…`, `hdfs://…`) its own reader hands over, file by file; a file is then read
by one task, as one that lies in a folder of the worker. So rows are checked and numbered alike everywhere.
"""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, Protocol
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from thence.core.errors import TraceError
from thence.pipeline import files, frames
from thence.pipeline.files import Split, TraceFile
from thence.pipeline.locate import Suspect, look
from thence.pipeline.session import is_local


class Input(Protocol):
    """A trace, found and cut."""

    def packed(self) -> DataFrame:
        """One row per packed piece."""
        ...

    def clues(self, suspect: Suspect) -> DataFrame:
        """What rows say about a suspect, in order: `task`, `pos`, `what`, `place`."""
        ...


def find(
    spark: SparkSession, path: str | Path, parallelism: int, split_bytes: int, split_rows: int, tolerant: bool
) -> Input:
    if files.is_url(str(path)):
        return UrlInput(spark, str(path), tolerant)
    # Tasks elsewhere run in folders of their own.
    place = Path(path) if is_local(spark) else Path(path).absolute()
    splits = files.cut(files.trace_files(place), split_bytes, split_rows, tolerant=tolerant)
    return FileInput(spark, files.share_out(splits, 2 * parallelism, split_bytes))


class FileInput:
    def __init__(self, spark: SparkSession, tasks: list[list[Split]]) -> None:
        self._spark = spark
        self._tasks = tasks

    def packed(self) -> DataFrame:
        return frames.packed(self._spark, self._tasks)

    def clues(self, suspect: Suspect) -> DataFrame:
        return frames.clues(self._spark, self._tasks, suspect)


class UrlInput:
    def __init__(self, spark: SparkSession, url: str, tolerant: bool) -> None:
        reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
        self._files = reader.load(url)
        self._root = url
        self._tolerant = tolerant
        names = [row["path"] for row in self._files.select("path").collect()]
        for name in names:
            if os.path.splitext(name)[1].lower() not in files.SUFFIXES:
                raise TraceError(f"{name}: unknown kind of file (a trace holds .parquet, .jsonl and .csv)")
        if not names:
            raise TraceError(f"{url}: holds no trace files (.parquet, .jsonl or .csv)")

    def packed(self) -> DataFrame:
        read = self._reader(frames.pieces, frames.PIECE_TYPE)
        return self._files.select(F.inline(frames.arrow_function(read, frames.PIECE)("path", "content")))

    def clues(self, suspect: Suspect) -> DataFrame:
        def look_in(splits: list[Split]) -> list[dict[str, Any]]:
            return [clue._asdict() for clue in look(splits, suspect)]

        function = frames.arrow_function(self._reader(look_in, frames.CLUE_TYPE), frames.CLUES)
        found = self._files.select(F.col("path").alias("task"), F.posexplode(function("path", "content")))
        return found.select("task", "pos", "col.*")

    def _reader(
        self, work: Callable[[list[Split]], list[dict[str, Any]]], kind: pa.DataType
    ) -> Callable[[pa.Array, pa.Array], pa.Array]:
        root, tolerant = self._root, self._tolerant

        def read(paths: pa.Array, contents: pa.Array) -> pa.Array:
            found = []
            for path, content in zip(paths.to_pylist(), contents, strict=True):
                with _as_file(root, path, content) as file:
                    rows = work(files.cut([file], 1 << 62, 1 << 62, tolerant=tolerant))
                    found.append([_renamed(row, str(file.path), path) for row in rows])
            return pa.array(found, kind)

        return read


@contextmanager
def _as_file(root: str, path: str, content: Any) -> Iterator[TraceFile]:
    """A file of this machine with these bytes."""
    with tempfile.TemporaryDirectory(prefix="thence-") as folder:
        file = Path(folder) / PurePosixPath(path).name
        file.write_bytes(memoryview(content.as_buffer()))
        below = path.partition(root.partition("://")[2].rstrip("/") + "/")[2]
        hive = tuple(pair for part in below.split("/")[:-1] for pair in files.partition_of(unquote(part)))
        yield TraceFile(file, hive)


def _renamed(row: dict[str, Any], here: str, path: str) -> dict[str, Any]:
    return {
        key: value.replace(here, path) if key in ("error", "place") and value else value
        for key, value in row.items()
    }
