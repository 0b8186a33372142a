"""Columns of simulated nodes as one Parquet file, the same bytes for the same events.

Kept apart from the rest of this room because it needs pyarrow, which a live node never imports.
"""

from typing import BinaryIO, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK
from thence.trace.recorder import KINDS, Columns, DotLists

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
"""Of messages that not everyone gets."""

CHANNELS: Final = pa.schema([*CHANGING, pa.field("channel", pa.dictionary(pa.int32(), pa.string()))])
"""The same, where messages are addressed to channels."""

ROWS_PER_FLUSH: Final = 1 << 20
"""Columns are written out when all nodes together hold so many rows: bounds the memory of a run."""


class ParquetTrace:
    """Writes the events of one run, a row group per node and flush. `lives`: of a changing group, each name's
    process and incarnation. `addressed`: sends say to whom. `channels`: their names, if there are any."""

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
        self._addressed = addressed
        self._channels = None if channels is None else pa.array(channels, pa.string())
        if lives is None:
            self._schema = ADDRESSED if addressed else SCHEMA
        else:
            self._schema = CHANGING if channels is None else CHANNELS
        self._names = pa.array(names, pa.string())
        self._kinds = pa.array(KINDS, pa.string())
        self._run = pa.array([run], pa.string())
        self._writer = pq.ParquetWriter(sink, self._schema, compression="zstd", compression_level=1)

    def write(self, node: int, columns: Columns) -> None:
        """Write out one node's columns; the caller goes on with fresh ones."""
        rows = len(columns)
        if not rows:
            return
        kinds = np.frombuffer(columns.kinds, np.int8)
        dots = np.frombuffer(columns.dots, np.int64)
        about_message = dots != 0
        batch = pa.record_batch(
            [
                pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), self._run),
                pa.DictionaryArray.from_arrays(np.full(rows, node, np.int32), self._names),
                pa.array(np.arange(columns.first, columns.first + rows)),
                pa.DictionaryArray.from_arrays(kinds, self._kinds),
                pa.DictionaryArray.from_arrays(
                    pa.array((dots & ORIGIN_MASK).astype(np.int32), mask=~about_message), self._names
                ),
                pa.array(dots >> ORIGIN_BITS, mask=~about_message),
                pa.array(np.frombuffer(columns.at, np.int64)),
                self._lists(rows, columns.deps),
                *self._changing(node, rows, columns),
                *([self._members(rows, columns.dest)] if self._addressed else ()),
            ],
            schema=self._schema,
        )
        self._writer.write_batch(batch, row_group_size=rows)

    def _changing(self, node: int, rows: int, columns: Columns) -> list[pa.Array]:
        if self._lives is None:
            return []
        process, number = self._lives[node]
        said = pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), pa.array([process], pa.string()))
        changing = [said, pa.array(np.full(rows, number, np.int64)), self._lists(rows, columns.carries)]
        if self._channels is None:
            return changing
        code = np.full(rows, -1, np.int32)
        code[np.frombuffer(columns.channel_rows, np.int64)] = np.frombuffer(columns.channel_codes, np.int32)
        codes = pa.array(code, mask=code < 0)
        return [*changing, pa.DictionaryArray.from_arrays(codes, self._channels)]

    def _lists(self, rows: int, named: DotLists) -> pa.ListArray:
        """The named messages as one list column: an entry per row, null where none are named."""
        dots: Ints = np.frombuffer(named.dots, np.int64)
        origins = pa.DictionaryArray.from_arrays((dots & ORIGIN_MASK).astype(np.int32), self._names)
        values = pa.StructArray.from_arrays(
            [origins.dictionary_decode(), pa.array(dots >> ORIGIN_BITS)], fields=list(DOT_TYPE)
        )
        return _listed(rows, named, values)

    def _members(self, rows: int, named: DotLists) -> pa.ListArray:
        members: Ints = np.frombuffer(named.dots, np.int64)
        names = pa.DictionaryArray.from_arrays(members.astype(np.int32), self._names)
        return _listed(rows, named, names.dictionary_decode())

    def close(self) -> None:
        self._writer.close()


def _listed(rows: int, named: DotLists, values: pa.Array) -> pa.ListArray:
    naming: Ints = np.frombuffer(named.row, np.int64)
    sizes = np.zeros(rows, np.int64)
    sizes[naming] = np.diff(np.frombuffer(named.end, np.int64), prepend=0)
    offsets = np.zeros(rows + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    absent = np.ones(rows, np.bool_)
    absent[naming] = False
    return pa.ListArray.from_arrays(pa.array(offsets), values, mask=pa.array(absent))
