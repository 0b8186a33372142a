"""Columns that stand in the names of folders: `run=first/node=a/part.parquet`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thence.core.errors import TraceError
from thence.pipeline.files import Hive, TraceFile
from thence.pipeline.rows import DOTS, NUMBERS, TEXT, RowError


def extra_columns(files: Sequence[TraceFile]) -> list[str]:
    """Partition columns that the format does not know, in order."""
    return sorted({name for file in files for name, _ in file.hive} - {*TEXT, *NUMBERS})


def with_partitions(table: pa.Table, hive: Hive, wanted: Sequence[str]) -> pa.Table:
    """The table with what its folders say. They fill in where a row says nothing; a row that says something
    else is an error."""
    for name, value in hive:
        if name in DOTS or name == "dest":
            raise RowError(0, f"column {name!r} is a list, and no folder's name can be one")
        if name not in wanted or value is None:
            continue
        here = _typed(name, value)
        if name in table.schema.names:
            place = table.schema.get_field_index(name)
            table = table.set_column(place, name, _filled(table.column(place), here, name))
        else:
            table = table.append_column(name, _repeated(here, table.num_rows))
    return table


def _typed(name: str, value: str) -> pa.Scalar:
    if name not in NUMBERS:
        return pa.scalar(value, pa.string())
    try:
        return pa.scalar(int(value), pa.int64())
    except (ValueError, pa.ArrowInvalid, OverflowError):
        raise TraceError(f"a folder named {name}={value}: cannot read {value!r} as {name}") from None


def _repeated(value: pa.Scalar, rows: int) -> Any:
    if not pa.types.is_string(value.type):
        return pa.repeat(value, rows)
    return pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), pa.array([value.as_py()], pa.string()))


def _filled(column: Any, value: pa.Scalar, name: str) -> Any:
    said = column.drop_null()
    if pa.types.is_dictionary(said.type):
        said = said.cast(said.type.value_type)
    other = pc.not_equal(said.cast(value.type), value)
    if pc.any(other).as_py():
        at = np.flatnonzero(pc.is_valid(column).to_numpy())[int(np.argmax(other.to_numpy()))]
        told = said[int(np.argmax(other.to_numpy()))].as_py()
        raise RowError(int(at), f"{name} is {told!r} here and {value.as_py()!r} in the folder's name")
    return _repeated(value, len(column))
