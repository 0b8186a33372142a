"""Where the rows of a trace come from on Spark: files that every task opens by itself, or a URL.

What only Spark can reach (`s3a://…`, `hdfs://…`) its own reader hands over, file by file; a file is then read
by one task, as one that lies in a folder of the worker. So rows are checked and numbered alike everywhere.
"""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, Final, Protocol
from urllib.parse import unquote

import msgspec
import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from thence.core.errors import TraceError
from thence.pipeline import files, frames
from thence.pipeline.files import Split, TraceFile
from thence.pipeline.locate import Suspect, look
from thence.pipeline.plan import buckets_for
from thence.pipeline.session import FAILURES, is_local, reason

FILES_MANY: Final = 256
"""Below that, looking into files one after another is over before a job of Spark has begun."""


class Input(Protocol):
    """A trace, found and cut. `buckets`: nodes of large runs are dealt into so many."""

    buckets: int

    def packed(self) -> DataFrame:
        """One row per packed piece."""
        ...

    def clues(self, suspect: Suspect) -> DataFrame:
        """What rows say about a suspect, in order: `task`, `pos`, `what`, `place`."""
        ...


def find(
    spark: SparkSession,
    path: str | Path,
    parallelism: int,
    split_bytes: int,
    split_rows: int,
    tolerant: bool,
    buckets: int | None = None,
) -> Input:
    """`buckets` forces a number of them."""
    if files.is_url(str(path)):
        return UrlInput(spark, str(path), tolerant, parallelism, buckets)
    splits = splits_of(spark, path, parallelism, split_bytes, split_rows, tolerant)
    tasks = files.share_out(splits, 2 * parallelism, split_bytes)
    return FileInput(spark, tasks, buckets or _buckets(sum(split.weight for split in splits), parallelism))


def splits_of(
    spark: SparkSession,
    path: str | Path,
    parallelism: int,
    split_bytes: int,
    split_rows: int,
    tolerant: bool = False,
) -> list[Split]:
    """How a trace's files are cut. Where many have to be looked into, tasks do it."""
    found = files.trace_files(place_of(spark, path))
    if len(found) < FILES_MANY:
        return files.cut(found, split_bytes, split_rows, tolerant=tolerant)
    step = -(-len(found) // (2 * parallelism))
    tasks = [found[first : first + step] for first in range(0, len(found), step)]
    rows = frames.cut_up(spark, tasks, split_bytes, split_rows, tolerant).orderBy("task").collect()
    errors = [row["error"] for row in rows if row["error"] is not None]
    if errors:
        raise TraceError(errors[0])
    return [split for row in rows for split in msgspec.msgpack.decode(row["splits"], type=list[Split])]


def place_of(spark: SparkSession, path: str | Path) -> Path:
    """The path by which tasks find it: those elsewhere run in folders of their own."""
    return Path(path) if is_local(spark) else Path(path).absolute()


def _buckets(weight: int, parallelism: int) -> int:
    return buckets_for(weight * files.SPLIT_ROWS // files.SPLIT_BYTES, parallelism)


class FileInput:
    def __init__(self, spark: SparkSession, tasks: list[list[Split]], buckets: int) -> None:
        self._spark = spark
        self._tasks = tasks
        self.buckets = buckets

    def packed(self) -> DataFrame:
        return frames.packed(self._spark, self._tasks, self.buckets)

    def clues(self, suspect: Suspect) -> DataFrame:
        return frames.clues(self._spark, self._tasks, suspect)


class UrlInput:
    def __init__(
        self, spark: SparkSession, url: str, tolerant: bool, parallelism: int, buckets: int | None
    ) -> None:
        self._files = _listing(spark, url)
        self._root = url
        self._tolerant = tolerant
        listed = self._files.select("path", "length").collect()
        self.weight = sum(row["length"] for row in listed)
        self.buckets = buckets or _buckets(self.weight, parallelism)
        names = [row["path"] for row in listed]
        for name in names:
            if os.path.splitext(name)[1].lower() not in files.SUFFIXES:
                raise TraceError(f"{name}: unknown kind of file (a trace holds .parquet, .jsonl and .csv)")
        if not names:
            raise TraceError(f"{url}: holds no trace files (.parquet, .jsonl or .csv)")

    def packed(self) -> DataFrame:
        buckets = self.buckets
        return self.mapped(lambda splits: frames.pieces(splits, buckets), frames.PIECE_TYPE, frames.PIECE)

    def mapped(
        self, work: Callable[[list[Split]], list[dict[str, Any]]], kind: pa.DataType, schema: str
    ) -> DataFrame:
        """What `work` makes of each file, a row for each of its results."""
        read = frames.arrow_function(self._reader(work, kind), schema)
        return self._files.select(F.inline(read("path", "content")))

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


def _listing(spark: SparkSession, url: str) -> DataFrame:
    """The files there, with their contents."""
    try:
        return spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(url)
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            raise TraceError(f"{url}: no such file or folder") from None
        raise
    except FAILURES as error:
        told = reason(error)
        if "No FileSystem for scheme" in told or "ClassNotFoundException" in told:
            scheme = url.partition(":")[0]
            raise OSError(
                f"this Spark has no file system for {scheme}://; --conf spark.jars.packages=… or "
                f"spark.hadoop.fs.{scheme}.impl=… brings one"
            ) from None
        raise


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
