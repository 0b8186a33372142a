"""The steps on Spark: events or files to pieces, pieces to tallies and to rows that travel as they are."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.ipc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from thence.core.errors import TraceError
from thence.pipeline import files, inputs
from thence.pipeline.frames import arrow_function, splits_of, tasks_of
from thence.pipeline.metrics.merge import SUMMARY as SUMMARY_TYPE
from thence.pipeline.metrics.merge import buckets_of, merged
from thence.pipeline.metrics.tally import tally
from thence.pipeline.metrics.timed import (
    COLUMNS,
    MESSAGE_KINDS,
    ROW_KINDS,
    ROWS,
    TimedPiece,
    decode_timed,
    pack_timed,
    read_timed,
    together,
)
from thence.pipeline.rows import RowError
from thence.pipeline.session import cores

EVENTS_PER_PART: Final = 8_000_000
"""About 130 bytes each: a gigabyte for a task, however large the trace, unless one member sends most of
it."""

PIECE: Final = (
    "array<struct<run string, `group` string, part int, events bigint, payload binary, torn int, "
    "error string>>"
)
PIECE_TYPE: Final = pa.list_(
    pa.struct(
        [
            ("run", pa.string()),
            ("group", pa.string()),
            ("part", pa.int32()),
            ("events", pa.int64()),
            ("payload", pa.binary()),
            ("torn", pa.int32()),
            ("error", pa.string()),
        ]
    )
)
DEALT: Final = "array<struct<bucket int, stream binary>>"
SUMMARY: Final = (
    "array<struct<run string, `group` string, measure string, `by` string, node string, origin string, "
    "start_us bigint, count bigint, mean double, p50 bigint, p90 bigint, p99 bigint, max bigint>>"
)
ROWS_SCHEMA: Final = pa.schema(
    [
        ("run", pa.string()),
        ("group", pa.string()),
        ("node", pa.string()),
        ("pos", pa.int64()),
        ("kind", pa.string()),
        ("origin", pa.string()),
        ("seq", pa.int64()),
        ("at_us", pa.int64()),
    ]
)


def read_pieces(
    spark: SparkSession,
    path: str | Path,
    split_bytes: int = files.SPLIT_BYTES,
    split_rows: int = files.SPLIT_ROWS,
) -> tuple[DataFrame, int]:
    """The pieces of a trace in files, and into how many parts its messages are cut."""
    if files.is_url(str(path)):
        remote = inputs.UrlInput(spark, str(path), False, cores(spark), 1)
        cut = _parts(remote.weight, cores(spark))
        return remote.mapped(lambda splits: _read(splits, cut), PIECE_TYPE, PIECE), cut
    parallelism = cores(spark)
    splits = inputs.splits_of(spark, path, parallelism, split_bytes, split_rows)
    tasks = files.share_out(splits, tasks_min=2 * parallelism, task_bytes=split_bytes)
    parts = _parts(sum(split.weight for split in splits), parallelism)

    def read_tasks(tasks: pa.Array) -> pa.Array:
        return pa.array([_read(splits_of(task), parts) for task in tasks], PIECE_TYPE)

    read = arrow_function(read_tasks, PIECE)
    return tasks_of(spark, tasks).select(F.inline(read("splits"))), parts


def _parts(weight: int, parallelism: int) -> int:
    rows = weight * files.SPLIT_ROWS // files.SPLIT_BYTES
    return max(parallelism, -(-rows // EVENTS_PER_PART))


def _read(splits: Sequence[files.Split], parts: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for split in splits:
        try:
            for rows, torn in read_timed(split):
                if torn:
                    found.append(TimedPiece("", "", ROWS, 0, b"", torn=torn)._asdict())
                found.extend(piece._asdict() for piece in pack_timed(rows, parts))
        except TraceError as error:
            return [TimedPiece("", "", ROWS, 0, b"", error=str(error))._asdict()]
    return found


def pieces_of(events: DataFrame, parts: int) -> DataFrame:
    """The pieces of events that are in a frame already: one with the columns of docs/TRACES.md, or some. A
    row that cannot be read ends the job."""

    def pack_batch(*columns: pa.Array) -> pa.Array:
        table = pa.table(dict(zip(COLUMNS, columns, strict=True)))
        try:
            found = [piece._asdict() for piece in pack_timed(decode_timed(table), parts)]
        except RowError as problem:
            row = table.slice(problem.index, 1).drop_columns("deps").to_pylist()[0]
            said = ", ".join(f"{key} {value!r}" for key, value in row.items() if value is not None)
            raise TraceError(f"{problem.what}: {said}") from None
        return pa.array([found, *[[]] * (table.num_rows - 1)][: table.num_rows], PIECE_TYPE)

    types = dict.fromkeys(COLUMNS, "string") | dict.fromkeys(("pos", "seq", "at_us"), "bigint")
    types["deps"] = "array<struct<origin:string,seq:bigint>>"
    chosen = [
        (F.col(f"`{name}`") if name in events.columns else F.lit(None)).cast(kind).alias(name)
        for name, kind in types.items()
    ]
    packed = arrow_function(_annotated(pack_batch), PIECE)
    return events.select(*chosen).select(F.inline(packed(*[f"`{name}`" for name in COLUMNS])))


def _annotated(function: Any) -> Any:
    """Spark tells the form of a function from the annotations of its arguments, one by one."""

    def annotated(
        run: pa.Array, group: pa.Array, node: pa.Array, pos: pa.Array, kind: pa.Array,
        origin: pa.Array, seq: pa.Array, at_us: pa.Array, deps: pa.Array,
    ) -> pa.Array:  # fmt: skip
        return function(run, group, node, pos, kind, origin, seq, at_us, deps)

    return annotated


def summarised(pieces: DataFrame, parts: int, bin_us: int) -> DataFrame:
    """What the messages of all parts went through, in the form of `summaries.SUMMARY`. Two steps: each part
    is tallied by a task, and what belongs together is put together by another one."""

    def tally_part(batches: Iterator[tuple[pa.Array, ...]]) -> Any:
        runs: dict[tuple[str, str], list[Any]] = {}
        for run, group, payload in batches:
            scopes = zip(run.to_pylist(), group.to_pylist(), strict=True)
            for scope, binary in zip(scopes, payload, strict=True):
                runs.setdefault(scope, []).append(memoryview(binary.as_buffer()))
        dealt: list[list[pa.Table]] = [[] for _ in range(parts)]
        for scope in sorted(runs):
            for heap, table in zip(
                dealt, buckets_of(*scope, tally(runs.pop(scope), bin_us), parts), strict=True
            ):
                heap.append(table)
        return [{"bucket": k, "stream": _as_stream(pa.concat_tables(t))} for k, t in enumerate(dealt) if t]

    chosen = pieces.where(f"part > {ROWS}").select("part", "run", "group", "payload")
    apart = chosen.repartitionById(parts, F.col("part")).groupBy("part")
    told = apart.agg(_aggregate(tally_part, DEALT)("run", "group", "payload").alias("told"))
    heaps = told.select(F.inline("told")).repartitionById(parts, F.col("bucket")).groupBy("bucket")
    merge = arrow_function(_merge, "binary")
    return heaps.agg(merge("stream").alias("told")).select(
        F.inline(arrow_function(_from_stream, SUMMARY)("told"))
    )


def _merge(batches: Iterator[pa.Array]) -> Any:
    return _as_stream(merged([_table(stream) for batch in batches for stream in batch]))


def _aggregate(work: Any, kind: str) -> Any:
    def annotated(batches: Iterator[tuple[pa.Array, ...]]) -> Any:
        return work(batches)

    return arrow_function(annotated, kind)


def _as_stream(table: pa.Table) -> bytes:
    """Columns of Arrow: an aggregate gives back one value, which may stand for a million rows."""
    sink = pa.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _table(stream: Any) -> pa.Table:
    return pyarrow.ipc.open_stream(stream.as_buffer()).read_all()


def _from_stream(told: pa.Array) -> pa.Array:
    structs = [_table(stream).to_struct_array().combine_chunks() for stream in told]
    return _lists(structs, pa.struct(list(SUMMARY_TYPE)))


def _lists(structs: list[Any], kind: pa.DataType) -> pa.ListArray:
    """Struct arrays as one array of lists."""
    offsets = [0]
    for struct in structs:
        offsets.append(offsets[-1] + len(struct))
    values = pa.concat_arrays([pa.array([], kind), *[struct.cast(kind) for struct in structs]])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)


class ToldRows(NamedTuple):
    """What pieces say besides messages."""

    rows: pa.Table
    """Those that travel as they are."""
    error: str | None
    """The first row that could not be read."""
    torn: int
    """Last lines without their ends."""


def told_rows(pieces: DataFrame) -> ToldRows:
    """Packed until here: they are few, and one look at the pieces is enough."""
    told = pieces.where(f"part = {ROWS}").select("run", "group", "payload", "torn", "error").toArrow()
    tables = [pa.table([[] for _ in ROWS_SCHEMA], schema=ROWS_SCHEMA)]
    for run, group, payload in zip(told["run"], told["group"], told["payload"], strict=True):
        if len(payload.as_buffer()):
            columns = _unpacked(payload)
            scope = [pa.repeat(name.cast(pa.string()), len(columns[0])) for name in (run, group)]
            tables.append(pa.table([*scope, *columns], schema=ROWS_SCHEMA))
    errors = [error for error in told["error"].to_pylist() if error is not None]
    torn = sum(one or 0 for one in told["torn"].to_pylist())
    rows = pa.concat_tables(tables).combine_chunks()  # Spark 4.3 reads no further than an empty chunk
    return ToldRows(rows, min(errors, default=None), torn)


def _unpacked(payload: pa.Scalar) -> list[pa.Array]:
    kinds = pa.array((*MESSAGE_KINDS, *ROW_KINDS))
    rows = together([memoryview(payload.as_buffer())])
    names = pa.array(rows.names, pa.string())
    return [
        names.take(pa.array(rows.node)),
        pa.array(rows.rest),
        kinds.take(pa.array(rows.kind.astype("i8"))),
        names.take(pa.array(rows.origin, mask=rows.origin < 0)),
        pa.array(rows.seq, mask=rows.seq < 0),
        pa.array(rows.at, mask=rows.at < 0),
    ]
