"""The steps on Spark: events or files to pieces, pieces to tallies and to rows that travel as they are."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.ipc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from thence.core.errors import TraceError
from thence.pipeline import files
from thence.pipeline.frames import arrow_function
from thence.pipeline.metrics.tally import tally
from thence.pipeline.metrics.timed import (
    COLUMNS,
    MESSAGE_KINDS,
    ROW_KINDS,
    ROWS,
    Piece,
    decode_timed,
    pack_timed,
    unpack_timed,
)
from thence.pipeline.readers import decoded
from thence.pipeline.rows import RowError
from thence.pipeline.session import cores

EVENTS_PER_PART: Final = 8_000_000
"""About 60 bytes each: what a task holds at once."""

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
TALLY: Final = (
    "array<struct<run string, `group` string, measure string, `by` string, node string, origin string, "
    "start_us bigint, count bigint, total bigint, p50 bigint, p90 bigint, p99 bigint, max bigint, "
    "payload binary>>"
)
TALLY_TYPE: Final = pa.struct(
    [
        *((name, pa.string()) for name in ("run", "group", "measure", "by", "node", "origin")),
        *((name, pa.int64()) for name in ("start_us", "count", "total", "p50", "p90", "p99", "max")),
        ("payload", pa.binary()),
    ]
)
ROW: Final = "array<struct<node string, pos bigint, kind string, origin string, seq bigint, at_us bigint>>"
ROW_TYPE: Final = pa.struct(
    [
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
    splits = files.cut(files.trace_files(Path(path)), split_bytes, split_rows)
    parallelism = cores(spark)
    tasks = files.share_out(splits, tasks_min=2 * parallelism, task_bytes=split_bytes)
    rows = sum(split.weight for split in splits) * files.SPLIT_ROWS // files.SPLIT_BYTES
    parts = max(parallelism, -(-rows // EVENTS_PER_PART))

    def read_task(numbers: pa.Array) -> pa.Array:
        return pa.array([_read(tasks[number], parts) for number in numbers.to_pylist()], PIECE_TYPE)

    read = arrow_function(read_task, PIECE)
    count = len(tasks)
    return spark.range(0, count, 1, count).select(F.inline(read("id"))), parts


def _read(splits: Sequence[files.Split], parts: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for split in splits:
        try:
            for rows, _, torn in decoded(split, decode_timed, COLUMNS):
                if torn:
                    found.append(Piece("", "", ROWS, 0, b"", torn=torn)._asdict())
                found.extend(piece._asdict() for piece in pack_timed(rows, parts))
        except TraceError as error:
            return [Piece("", "", ROWS, 0, b"", error=str(error))._asdict()]
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


def tallied(pieces: DataFrame, parts: int, bin_us: int) -> DataFrame:
    """What the messages of each part went through."""

    def work(batches: Iterator[tuple[pa.Array, ...]]) -> Any:
        runs: dict[tuple[str, str], list[Any]] = {}
        for run, group, payload in batches:
            scopes = zip(run.to_pylist(), group.to_pylist(), strict=True)
            for scope, binary in zip(scopes, payload, strict=True):
                runs.setdefault(scope, []).append(memoryview(binary.as_buffer()))
        told = [(*scope, *row) for scope in sorted(runs) for row in tally(runs.pop(scope), bin_us)]
        return _as_stream(told)

    chosen = pieces.where(f"part > {ROWS}").select("part", "run", "group", "payload")
    apart = chosen.repartitionById(parts, F.col("part")).groupBy("part")
    told = apart.agg(_aggregate(work)("run", "group", "payload").alias("told"))
    return told.select(F.inline(arrow_function(_from_stream, TALLY)("told")))


def _aggregate(work: Any) -> Any:
    def annotated(batches: Iterator[tuple[pa.Array, ...]]) -> Any:
        return work(batches)

    return arrow_function(annotated, "binary")


def _as_stream(rows: Sequence[tuple[Any, ...]]) -> bytes:
    """Rows as columns of Arrow: an aggregate gives back one value, which may stand for a million of them."""
    columns = zip(*rows, strict=True) if rows else [[] for _ in TALLY_TYPE]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, TALLY_TYPE, strict=True)]
    batch = pa.record_batch(arrays, names=[field.name for field in TALLY_TYPE])
    sink = pa.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def _from_stream(told: pa.Array) -> pa.Array:
    tables = [pyarrow.ipc.open_stream(stream.as_buffer()).read_all() for stream in told]
    return _lists([table.to_struct_array().combine_chunks() for table in tables], TALLY_TYPE)


def _lists(structs: list[Any], kind: pa.DataType) -> pa.ListArray:
    """Struct arrays as one array of lists."""
    offsets = [0]
    for struct in structs:
        offsets.append(offsets[-1] + len(struct))
    values = pa.concat_arrays([pa.array([], kind), *[struct.cast(kind) for struct in structs]])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)


def rows_of(pieces: DataFrame) -> DataFrame:
    """The rows that travel as they are, as rows."""
    unpacked = arrow_function(_unpacked, ROW)
    told = pieces.where(f"part = {ROWS} and length(payload) > 0")
    return told.select("run", "group", F.inline(unpacked("payload")))


def _unpacked(payloads: pa.Array) -> pa.Array:
    kinds = pa.array((*MESSAGE_KINDS, *ROW_KINDS))
    structs = []
    for payload in payloads:
        rows = unpack_timed(memoryview(payload.as_buffer()))
        names = pa.array(rows.names, pa.string())
        columns = [
            names.take(pa.array(rows.node)),
            pa.array(rows.rest),
            kinds.take(pa.array(rows.kind.astype("i8"))),
            names.take(pa.array(rows.origin, mask=rows.origin < 0)),
            pa.array(rows.seq, mask=rows.seq < 0),
            pa.array(rows.at, mask=rows.at < 0),
        ]
        structs.append(pa.StructArray.from_arrays(columns, fields=list(ROW_TYPE)))
    return _lists(structs, ROW_TYPE)


def unreadable(pieces: DataFrame) -> tuple[str | None, int]:
    """The first row that could not be read, and how many last lines were torn."""
    told = pieces.agg(F.min("error").alias("error"), F.sum("torn").alias("torn")).collect()[0]
    return told["error"], told["torn"] or 0
