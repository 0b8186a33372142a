"""`spark.read.format("thence")`: traces and operation logs as DataFrames, through the Python Data Source API.

A source is asked for its schema and its partitions on the driver and for rows in tasks. It is not told which
columns a query needs, but a schema that the query gives names them; nor are filters taken from a query, since
Spark (4.3) keeps the first that was pushed into a source for all later scans of the same DataFrame, and
answers wrongly. Both are asked for by name, and then pay twice: what does not match is not read where folders
or row groups say enough, and is never a row of Java.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from thence.core.errors import UsageError
from thence.pipeline import files, log_source
from thence.pipeline.hive import extra_columns
from thence.pipeline.readers import tables, unreadable
from thence.pipeline.rows import RowError, check

DOTS: Final = "array<struct<origin: string, seq: bigint>>"
COLUMNS: Final = {
    "run": "string", "group": "string", "node": "string", "pos": "bigint", "kind": "string",
    "origin": "string", "seq": "bigint", "at_us": "bigint", "deps": DOTS, "dest": "array<string>",
    "process": "string", "incarnation": "bigint", "carries": DOTS, "channel": "string",
}  # fmt: skip
"""Of a trace, as docs/TRACES.md has them."""
FILTERED: Final = ("run", "group", "node", "kind")
"""What rows can be selected by. None of these is ever null."""
OR_EMPTY: Final = ("run", "group")
TASKS_MIN: Final = 8
BATCH_ROWS: Final = 1 << 16
"""Rows handed to Java at a time."""

Wanted = dict[str, frozenset[str]]
"""By column, the values that are asked for."""


def register(spark: SparkSession) -> None:
    """Make `format("thence")` known to this session."""
    spark.dataSource.register(ThenceSource)


class ThenceSource(DataSource):
    """Options: `path`; `rows`, trace or log; `split`, bytes to a task; of a trace `run`, `group`, `node` and
    `kind`, which select rows; of a log `stamps`."""

    @classmethod
    def name(cls) -> str:
        return "thence"

    def _path(self) -> Path:
        path = self.options.get("path")
        if not path:
            raise UsageError("which trace? spark.read.format('thence').load(PATH)")
        path = path.removeprefix("file://")
        if files.is_url(path):
            raise UsageError(f"{path}: only Spark can reach it: spark.read.parquet reads its Parquet files")
        return Path(os.path.abspath(path))

    def _is_log(self) -> bool:
        rows = self.options.get("rows", "trace")
        if rows not in ("trace", "log"):
            raise UsageError(f"rows is {rows!r}; it can be 'trace' or 'log'")
        return rows == "log"

    def schema(self) -> str:
        if self._is_log():
            return log_source.SCHEMA
        extra = dict.fromkeys(extra_columns(files.trace_files(self._path())), "string")
        return ", ".join(f"`{name.replace('`', '``')}` {kind}" for name, kind in (COLUMNS | extra).items())

    def reader(self, schema: StructType) -> DataSourceReader:
        split = self.options.get("split", str(files.SPLIT_BYTES))
        if not split.isascii() or not split.isdigit() or int(split) < 1:
            raise UsageError(f"split is {split!r}; it is how many bytes a task reads, from 1 on")
        split_bytes = int(split)
        if self._is_log():
            return log_source.LogReader(self._path(), schema, self.options.get("stamps", "dots"))
        wanted = {name: _values(name, self.options[name]) for name in FILTERED if name in self.options}
        return TraceReader(self._path(), schema, split_bytes, wanted)


class Splits(InputPartition):
    """What one task reads."""

    def __init__(self, splits: list[files.Split]) -> None:
        super().__init__(None)
        self.splits = splits


class TraceReader(DataSourceReader):
    """The rows of a trace, with the columns of `schema`."""

    def __init__(self, path: Path, schema: StructType, split_bytes: int, wanted: Wanted) -> None:
        self._path = path
        self._schema = schema
        self._split_bytes = split_bytes
        self._wanted = wanted

    def partitions(self) -> list[InputPartition]:
        found = files.trace_files(self._path)
        known = {*COLUMNS, *extra_columns(found)}
        for field in self._schema.fields:
            if field.name not in known:
                raise UsageError(f"a trace has no column {field.name!r}; it has {', '.join(sorted(known))}")
        rows = max(1, self._split_bytes * files.SPLIT_ROWS // files.SPLIT_BYTES)
        splits = files.cut(
            [file for file in found if _may_match(file.hive, self._wanted)], self._split_bytes, rows
        )
        if self._wanted:
            splits = [part for split in splits for part in _matching(split, self._wanted)]
        tasks = files.share_out(splits, TASKS_MIN, self._split_bytes)
        return [Splits(task) for task in tasks or [[]]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Splits)
        schema = to_arrow_schema(self._schema, timezone="UTC")
        columns = tuple({*schema.names, *self._wanted, "pos"})
        for split in partition.splits:
            for table, number, _ in tables(split, columns):
                try:
                    check(table)
                except RowError as problem:
                    raise unreadable(split.path, number(problem.index), problem.what) from None
                rows = _as_asked(_selected(table, self._wanted), schema)
                yield from rows.to_batches(max_chunksize=BATCH_ROWS)


def _values(name: str, option: str) -> frozenset[str]:
    """One value, or a JSON list of them."""
    if not option.startswith("["):
        return frozenset([option])
    try:
        return frozenset(msgspec.json.decode(option, type=list[str]))
    except msgspec.MsgspecError as error:
        raise UsageError(f"{name} is {option!r}; it can be one value, or a JSON list of them") from error


def _may_match(hive: files.Hive, wanted: Mapping[str, frozenset[str]]) -> bool:
    """Whether files in folders of these names can hold rows that are asked for."""
    return all(value is None or value in wanted.get(name, (value,)) for name, value in hive)


def _matching(split: files.Split, wanted: Wanted) -> Iterator[files.Split]:
    """The parts of a split whose row groups can hold such rows, as far as their statistics tell."""
    if split.suffix != ".parquet":
        yield split
        return
    meta = pq.read_metadata(split.path)
    place = {meta.schema.column(index).path: index for index in range(meta.num_columns)}
    for group in range(split.start, split.end):
        row_group = meta.row_group(group)
        if all(
            _overlaps(row_group.column(place[name]).statistics, name, values)
            for name, values in wanted.items()
            if name in place
        ):
            yield split._replace(start=group, end=group + 1, weight=split.weight // (split.end - split.start))


def _overlaps(found: Any, name: str, values: frozenset[str]) -> bool:
    if found is None or not found.has_min_max or (name in OR_EMPTY and "" in values):
        return True
    return any(found.min <= value <= found.max for value in values)


def _selected(table: pa.Table, wanted: Wanted) -> pa.Table:
    for name, values in wanted.items():
        if name in table.schema.names:
            column = _plain(table.column(name), name)
            table = table.filter(pc.is_in(column, pa.array(sorted(values), pa.string())))
        elif "" not in values:  # the column is absent, which for a run or a group is an empty name
            table = table.slice(0, 0)
    return table


def _plain(column: Any, name: str) -> Any:
    text = column.cast(pa.string())
    return pc.fill_null(text, "") if name in OR_EMPTY else text


def _as_asked(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The columns of the schema, in its types; what the file does not have is null, or empty."""
    found = []
    for field in schema:
        if field.name in OR_EMPTY and field.name in table.schema.names:
            found.append(_plain(table.column(field.name), field.name))
        elif field.name in OR_EMPTY:
            found.append(pa.repeat(pa.scalar("", pa.string()), table.num_rows))
        elif field.name not in table.schema.names:
            found.append(pa.nulls(table.num_rows, field.type))
        else:
            found.append(_cast(table.column(field.name), field.type))
    return pa.Table.from_arrays(found, schema=schema)


def _cast(column: Any, kind: pa.DataType) -> Any:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if column.type == kind:
        return column
    if pa.types.is_list(kind) and pa.types.is_struct(kind.value_type):
        return pa.chunked_array([_dots(chunk, kind) for chunk in column.chunks], kind)
    return column.cast(kind)


def _dots(lists: Any, kind: pa.DataType) -> Any:
    """Structs by their fields' names: other writers may have more of them, or another order."""
    if pa.types.is_null(lists.type):
        return pa.nulls(len(lists), kind)
    if pa.types.is_null(lists.type.value_type):
        return lists.cast(kind)
    values = lists.flatten()
    fields = [
        _cast(pa.chunked_array([pc.struct_field(values, field.name)]), field.type).combine_chunks()
        for field in kind.value_type
    ]
    offsets = np.zeros(len(lists) + 1, np.int32)
    np.cumsum(pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False), out=offsets[1:])
    structs = pa.StructArray.from_arrays(fields, fields=list(kind.value_type))
    return pa.ListArray.from_arrays(pa.array(offsets), structs, type=kind, mask=lists.is_null())
