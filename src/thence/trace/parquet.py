"""Columns of simulated nodes as one Parquet file, the same bytes for the same events.

Kept apart from the rest of this room because it needs pyarrow, which a live node never imports.
"""

from collections.abc import Mapping
from typing import BinaryIO, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK
from thence.trace.recorder import KINDS, DotLists, NodeColumns

Ints = npt.NDArray[np.int64]

DOT_TYPE: Final = pa.struct([("origin", pa.string()), ("seq", pa.int64())])

SCHEMA: Final = pa.schema(
    [
        pa.field("run", pa.dictionary(pa.int32(), pa.string())),
        pa.field("node", pa.dictionary(pa.int32(), pa.string())),
        pa.field("pos", pa.int64()),
        pa.field("kind", pa.dictionary(pa.int8(), pa.string())),
        pa.field("origin", pa.dictionary(pa.int32(), pa.string())),
        pa.field("seq", pa.int64()),
        pa.field("at_us", pa.int64()),
        pa.field("deps", pa.list_(DOT_TYPE)),
    ]
)

CHANGING: Final = pa.schema(
    [
        *SCHEMA,
        pa.field("process", pa.dictionary(pa.int32(), pa.string())),
        pa.field("incarnation", pa.int64()),
        pa.field("carries", pa.list_(DOT_TYPE)),
    ]
)
"""Of a group whose members return as new incarnations."""

ADDRESSED: Final = pa.schema([*SCHEMA, pa.field("dest", pa.list_(pa.string()))])
"""Of messages that not all members get."""

CHANNELS: Final = pa.schema([*CHANGING, pa.field("channel", pa.dictionary(pa.int32(), pa.string()))])
"""The same, where messages are addressed to channels."""

ROWS_PER_FLUSH: Final = 1 << 20
"""Columns are written out when all nodes together hold so many rows: bounds the memory of a run."""

ROWS_PER_GROUP: Final = 1 << 16
"""A row group repeats all names that it uses, so that nodes with few rows share one."""


class ParquetTrace:
    """Writes the events of one run, in row groups of whole nodes. `lives`: of a changing group, each name's
    process and incarnation. `addressed`: sends name receivers. `channels`: their names, if there are any."""

    def __init__(
        self,
        sink: BinaryIO,
        names: list[str],
        run: str = "",
        lives: list[tuple[str, int]] | None = None,
        addressed: bool = False,
        channels: list[str] | None = None,
    ) -> None:
        self._lives = lives
        self._channels = None if channels is None else pa.array(channels, pa.string())
        if lives is None:
            self._schema = ADDRESSED if addressed else SCHEMA
        else:
            self._schema = CHANGING if channels is None else CHANNELS
        self._names = pa.array(names, pa.string())
        self._kinds = pa.array(KINDS, pa.string())
        self._run = pa.array([run], pa.string())
        self._processes = pa.array(sorted({process for process, _ in lives or ()}), pa.string())
        self._process = {name: code for code, name in enumerate(self._processes.to_pylist())}
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0
        self._told: list[tuple[str, int, str, int, int]] = []
        self._writer = pq.ParquetWriter(sink, self._schema, compression="zstd", compression_level=1)

    def write(self, node: int, columns: NodeColumns) -> None:
        """Write out one node's columns; the caller goes on with fresh ones."""
        rows = len(columns)
        if not rows:
            return
        dots = np.frombuffer(columns.dots, np.int64)
        none = dots == 0
        made = {
            "run": np.zeros(rows, np.int32),
            "node": np.full(rows, node, np.int32),
            "pos": np.arange(columns.first, columns.first + rows),
            "kind": np.frombuffer(columns.kinds, np.int8),
            "origin": pa.array((dots & ORIGIN_MASK).astype(np.int32), mask=none),
            "seq": pa.array(dots >> ORIGIN_BITS, mask=none),
            "at_us": np.frombuffer(columns.at, np.int64),
            "deps": _dot_lists(rows, columns.deps),
            "dest": _listed(rows, columns.dest, pa.array(np.frombuffer(columns.dest.dots, np.int64))),
            "carries": _dot_lists(rows, columns.carries),
        }
        if self._lives is not None:
            process, number = self._lives[node]
            made["process"] = np.full(rows, self._process[process], np.int32)
            made["incarnation"] = np.full(rows, number, np.int64)
        if self._channels is not None:
            code = np.full(rows, -1, np.int32)
            code[np.frombuffer(columns.channel_rows, np.int64)] = np.frombuffer(
                columns.channel_codes, np.int32
            )
            made["channel"] = pa.array(code, mask=code < 0)
        self._waiting.append(pa.record_batch({name: made[name] for name in self._schema.names}))
        self._rows += rows
        if self._rows >= ROWS_PER_GROUP:
            self._write_out()

    def tell(self, node: int, first: int, values: Mapping[str, int], now: int) -> None:
        """Rows of kind `metric`, from a position on: names and values."""
        name = self._names[node].as_py()
        for pos, (what, value) in enumerate(values.items(), first):
            self._told.append((name, pos, what, value, now))
        if len(self._told) >= ROWS_PER_GROUP:
            self._write_told()

    def close(self) -> None:
        try:
            self._write_out()
            self._write_told()
        finally:
            self._writer.close()

    def _write_out(self) -> None:
        if self._waiting:
            table = pa.Table.from_batches(self._waiting).combine_chunks()
            self._waiting, self._rows = [], 0
            columns = [self._named(name, table.column(name).chunk(0)) for name in table.column_names]
            self._writer.write_batch(
                pa.record_batch(columns, schema=self._schema), row_group_size=table.num_rows
            )

    def _named(self, column: str, values: pa.Array) -> pa.Array:
        """A column with names for their numbers."""
        of = {
            "run": self._run, "node": self._names, "kind": self._kinds, "origin": self._names,
            "process": self._processes, "channel": self._channels,
        }.get(column)  # fmt: skip
        if of is not None:
            return pa.DictionaryArray.from_arrays(values, of)
        if not pa.types.is_list(values.type):
            return values
        inner = values.values
        if column == "dest":
            named = self._names.take(inner)
        else:
            named = pa.StructArray.from_arrays(
                [self._names.take(inner.field("origin")), inner.field("seq")], fields=list(DOT_TYPE)
            )
        return pa.ListArray.from_arrays(values.offsets, named, mask=values.is_null())

    def _write_told(self) -> None:
        if not self._told:
            return
        node, pos, origin, seq, at_us = zip(*self._told, strict=True)
        rows = len(self._told)
        self._told = []
        made = {
            "run": self._run.to_pylist() * rows, "node": node, "pos": pos, "kind": ["metric"] * rows,
            "origin": origin, "seq": seq, "at_us": at_us,
        }  # fmt: skip
        arrays = [
            pa.array(made[field.name], field.type) if field.name in made else pa.nulls(rows, field.type)
            for field in self._schema
        ]
        self._writer.write_batch(pa.record_batch(arrays, schema=self._schema))


def _dot_lists(rows: int, named: DotLists) -> pa.ListArray:
    """The named messages as one list column, with numbers for names."""
    dots: Ints = np.frombuffer(named.dots, np.int64)
    return _listed(
        rows, named, pa.StructArray.from_arrays([dots & ORIGIN_MASK, dots >> ORIGIN_BITS], ["origin", "seq"])
    )


def _listed(rows: int, named: DotLists, values: pa.Array) -> pa.ListArray:
    """A list for each row, null where none is named."""
    naming: Ints = np.frombuffer(named.row, np.int64)
    sizes = np.zeros(rows, np.int64)
    sizes[naming] = np.diff(np.frombuffer(named.end, np.int64), prepend=0)
    offsets = np.zeros(rows + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    absent = np.ones(rows, np.bool_)
    absent[naming] = False
    return pa.ListArray.from_arrays(pa.array(offsets), values, mask=pa.array(absent))
