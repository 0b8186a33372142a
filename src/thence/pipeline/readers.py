"""Reading one split: Parquet, JSON lines or CSV, each into Arrow tables and those into checked rows.

Our own readers and not Spark's, for two reasons: an unreadable row must be named by file and row, which
Spark's readers cannot do; and rows go straight into packed arrays, never through the JVM one by one.
A row's number in its file is worked out only when something is wrong with it.
"""

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from thence.core.errors import TraceError
from thence.pipeline.csv_rows import BOM
from thence.pipeline.files import Split, is_half_written, refused
from thence.pipeline.hive import with_partitions
from thence.pipeline.rows import FORMAT, NUMBERS, REQUIRED, TEXT, USED, RowError, Rows, check_columns, decode
from thence.trace.schema import Dot

BATCH_ROWS: Final = 1 << 20
CSV_ROWS: Final = 1 << 17
READ_BYTES: Final = 1 << 20

DOT_TYPE: Final = pa.struct([("origin", pa.string()), ("seq", pa.int64())])


class SplitRows(NamedTuple):
    """Some rows of a split, how to number them in their file, and whether the file's last line was torn."""

    rows: Rows
    number: Callable[[int], int]
    torn: int


def unreadable(path: str, number: int, what: str) -> TraceError:
    unit = "row" if path.lower().endswith(".parquet") else "line"
    return TraceError(f"{path}: {unit} {number}: {what}")


class LooseRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row as JSON may have it: like `trace.schema.Event`, but whatever is optional may be null too, and
    anything may be left to the folder's name."""

    node: str | None = None
    pos: int | None = None
    kind: str | None = None
    run: str | None = None
    group: str | None = None
    origin: str | None = None
    seq: int | None = None
    at_us: int | None = None
    deps: list[Dot] | None = None
    dest: list[str] | None = None
    process: str | None = None
    incarnation: int | None = None
    carries: list[Dot] | None = None
    channel: str | None = None


class TraceRow(LooseRow, frozen=True, kw_only=True):
    """A row that says all it must."""

    node: str
    pos: int
    kind: str


Tables = Iterator[tuple[pa.Table, Callable[[int], int], int]]
"""Tables with rows as they stand in the file, how to number them there, and how many last lines were torn."""


def tables(split: Split, columns: Sequence[str]) -> Tables:
    """The split's rows with those of the columns that it has; what its folders say has been filled in."""
    reader = {".parquet": _parquet, ".jsonl": _json_lines, ".csv": _csv}[split.suffix]
    try:
        for table, number, torn in reader(split, [name for name in columns if name in FORMAT]):
            try:
                yield with_partitions(table, split.hive, columns), number, torn
            except RowError as problem:
                raise unreadable(split.path, number(problem.index), problem.what) from None
    except OSError as error:
        raise refused(split.path, error) from error


def read(split: Split) -> Iterator[SplitRows]:
    """The split's rows, checked; raises TraceError naming file and row."""
    checked = USED if split.suffix == ".parquet" else (*USED, "at_us")  # there, types are all that is checked
    for table, number, torn in tables(split, checked):
        try:
            rows = decode(table)
        except RowError as problem:
            raise unreadable(split.path, number(problem.index), problem.what) from None
        yield SplitRows(rows, number, torn)


def _from(first: int) -> Callable[[int], int]:
    return lambda index: first + index


def _parquet(split: Split, wanted: Sequence[str]) -> Tables:
    try:
        plain = pq.ParquetFile(split.path)
        check_columns(plain.schema_arrow, {name for name, _ in split.hive})
        present = plain.schema_arrow.names
        # Text stays in the file's own dictionaries: few values stand for millions of rows.
        coded = [
            name
            for name in TEXT
            if name in present and not pa.types.is_null(plain.schema_arrow.field(name).type)
        ]
        file = pq.ParquetFile(split.path, metadata=plain.metadata, read_dictionary=coded)
    except RowError as problem:
        raise unreadable(split.path, 1, problem.what) from None
    except (pa.ArrowInvalid, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        if split.tolerant and is_half_written(split.path):
            yield _nothing(), _from(1), 1
            return
        raise TraceError(f"{split.path}: not a readable Parquet file: {error}") from error
    first = 1 + sum(file.metadata.row_group(group).num_rows for group in range(split.start))
    columns = [name for name in present if name in wanted]
    groups = list(range(split.start, split.end))
    try:
        for batch in file.iter_batches(BATCH_ROWS, row_groups=groups, columns=columns, use_threads=False):
            yield pa.Table.from_batches([batch]), _from(first), 0
            first += batch.num_rows
    except (pa.ArrowInvalid, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise unreadable(split.path, first, f"damaged file: {str(error).splitlines()[0]}") from error


def _nothing() -> pa.Table:
    return pa.table({"node": pa.array([], pa.string()), "pos": pa.array([], pa.int64()),
                     "kind": pa.array([], pa.string())})  # fmt: skip


def _json_lines(split: Split, wanted: Sequence[str]) -> Tables:
    data, torn = _whole_lines(split)
    if split.start == 0:
        data = data.removeprefix(BOM)

    def number(index: int) -> int:
        filled = [i for i, line in enumerate(data.split(b"\n")) if line.strip()]
        return _lines_before(split.path, _line_start(split.path, split.start)) + filled[index] + 1

    decoder = _decoder(split)
    try:
        events = decoder.decode_lines(data)
        yield _event_table(events, wanted), number, torn
    except (msgspec.MsgspecError, UnicodeDecodeError, OverflowError, pa.ArrowInvalid):
        index, what = _first_bad_line(data, decoder)
        raise unreadable(split.path, number(index), what) from None


def _lines_before(path: str, offset: int) -> int:
    with open(path, "rb") as file:
        return sum(block.count(b"\n") for block in _blocks(file, offset))


def _blocks(file: Any, size: int) -> Iterator[bytes]:
    while size > 0 and (block := file.read(min(size, READ_BYTES))):
        size -= len(block)
        yield block


def _line_start(path: str, offset: int) -> int:
    """Start of the first line that begins at or after the offset."""
    if offset == 0:
        return 0
    with open(path, "rb") as file:
        file.seek(offset - 1)
        place = offset - 1
        while block := file.read(READ_BYTES):
            found = block.find(b"\n")
            if found >= 0:
                return place + found + 1
            place += len(block)
    return place


def _whole_lines(split: Split) -> tuple[bytes, int]:
    """The lines that begin in the split; a last line without its newline is torn and left out."""
    start, end = _line_start(split.path, split.start), _line_start(split.path, split.end)
    with open(split.path, "rb") as file:
        file.seek(start)
        data = file.read(end - start)
    if not data or data.endswith(b"\n"):
        return data, 0
    return data[: data.rfind(b"\n") + 1], 1


def _decoder(split: Split) -> msgspec.json.Decoder[LooseRow]:
    told = {name for name, _ in split.hive}
    return msgspec.json.Decoder(LooseRow if told.intersection(REQUIRED) else TraceRow)


def _first_bad_line(data: bytes, decoder: msgspec.json.Decoder[LooseRow]) -> tuple[int, str]:
    for index, line in enumerate(line for line in data.split(b"\n") if line.strip()):
        try:
            _event_table([decoder.decode(line)], FORMAT)
        except msgspec.ValidationError as error:
            return index, str(error)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            return index, f"not JSON: {error}"
        except (OverflowError, pa.ArrowInvalid):
            return index, "a number does not fit into 64 bits"
    raise AssertionError("lines read one by one are as readable as together")


def _event_table(events: Sequence[LooseRow], wanted: Sequence[str]) -> pa.Table:
    """What no line has is left out: most traces have few of the columns, and need not pay for the others."""
    columns: dict[str, Any] = {}
    for name in wanted:
        values = list(map(attrgetter(name), events))
        if name in REQUIRED or _any(values):
            columns[name] = _event_column(name, values)
    return pa.table(columns)


def _any(values: list[Any]) -> bool:
    return bool(values) and (values[0] is not None or values.count(None) < len(values))


def _event_column(name: str, values: list[Any]) -> pa.Array:
    if name in TEXT:
        return pa.array(values, pa.string()).dictionary_encode()
    if name in NUMBERS:
        return pa.array(values, pa.int64())
    if name == "dest":
        return pa.array(values, pa.list_(pa.string()))
    return _dot_lists([None if dots is None else [(dot.origin, dot.seq) for dot in dots] for dots in values])


def _dot_lists(lists: list[list[tuple[str, int]] | None]) -> pa.Array:
    flat = [dot for dots in lists if dots for dot in dots]
    values = pa.StructArray.from_arrays(
        [pa.array([d[0] for d in flat], pa.string()), pa.array([d[1] for d in flat], pa.int64())],
        fields=list(DOT_TYPE),
    )
    offsets = np.zeros(len(lists) + 1, np.int32)
    np.cumsum([len(dots) if dots else 0 for dots in lists], out=offsets[1:])
    nulls = pa.array([dots is None for dots in lists], pa.bool_())
    return pa.ListArray.from_arrays(pa.array(offsets), values, mask=nulls)


def _csv(split: Split, wanted: Sequence[str]) -> Tables:
    with open(split.path, "rb") as file:
        header = _header(file, split)
        file.seek(split.start)
        data = file.read(split.end - split.start)
        torn = int(split.tolerant and bool(data) and not data.endswith(b"\n") and not file.read(1))
    if header is None:
        if split.tolerant:
            yield _nothing(), _from(1), 1
            return
        raise unreadable(split.path, 1, "no header")
    if torn:
        data = data[: data.rfind(b"\n") + 1]

    def number(line: int) -> int:
        return _lines_before(split.path, split.start) + line

    try:
        text = data.decode("utf-8-sig" if split.start == 0 else "utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise unreadable(split.path, number(line), f"not CSV: {error}") from error
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    lines: list[int] = []
    rows: list[list[str]] = []

    def numbered(lines: list[int]) -> Callable[[int], int]:
        return lambda index: number(lines[index])

    try:
        if split.start == 0:
            next(reader, None)
        for row in reader:
            if not row:
                continue  # an empty line is no row
            if len(row) != len(header):
                what = f"{len(row)} cells under {len(header)} columns"
                raise unreadable(split.path, number(reader.line_num), what)
            rows.append(row)
            lines.append(reader.line_num)
            if len(rows) == CSV_ROWS:
                yield _cells(split.path, header, rows, numbered(lines), wanted), numbered(lines), 0
                rows, lines = [], []
    except csv.Error as error:
        raise unreadable(split.path, number(reader.line_num + 1), f"not CSV: {error}") from error
    if not rows:
        lines = [1]  # so that a wrong header can be named
    yield _cells(split.path, header, rows, numbered(lines), wanted), numbered(lines), torn


def _header(file: Any, split: Split) -> list[str] | None:
    """The names of the columns: the first row, which may take more than one line."""
    text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
    try:
        return next(csv.reader(text, strict=True), None)
    except (csv.Error, UnicodeDecodeError) as error:
        raise unreadable(split.path, 1, f"not CSV: {error}") from error
    finally:
        text.detach()


def _cells(
    path: str, header: list[str], rows: list[list[str]], number: Callable[[int], int], wanted: Sequence[str]
) -> pa.Table:
    columns: dict[str, Any] = {}
    for index, name in enumerate(header):
        if name not in wanted:
            continue
        if name in columns:
            raise unreadable(path, 1, f"column {name!r} appears twice")
        cells = [row[index] or None for row in rows]
        try:
            columns[name] = _column(name, cells)
        except ValueError:
            bad = next(i for i, cell in enumerate(cells) if _unreadable_cell(name, cell))
            raise unreadable(path, number(bad), f"cannot read {cells[bad]!r} as {name}") from None
    return pa.table(columns)


def _column(name: str, cells: list[str | None]) -> pa.Array:
    if name in TEXT:
        return pa.array(cells, pa.string()).dictionary_encode()
    if name in NUMBERS:
        return pa.array(cells, pa.string()).cast(pa.int64())  # ArrowInvalid is a ValueError
    if name == "dest":
        return pa.array([cell.split() if cell else None for cell in cells], pa.list_(pa.string()))
    empty: list[tuple[str, int]] | None = [] if name == "deps" else None
    return _dot_lists([[_dot(word) for word in cell.split()] if cell else empty for cell in cells])


def _dot(word: str) -> tuple[str, int]:
    origin, colon, seq = word.rpartition(":")
    if not colon or not origin or not seq.isascii() or not seq.lstrip("-").isdigit():
        raise ValueError(word)
    if int(seq) >= 2**63:
        raise ValueError(word)
    return origin, int(seq)


def _unreadable_cell(name: str, cell: str | None) -> bool:
    try:
        _column(name, [cell])
    except ValueError:
        return True
    return False
