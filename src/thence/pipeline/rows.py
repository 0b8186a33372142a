"""A split's rows as typed arrays, checked: the one place that decides whether a row can be read.

Every reader hands over an Arrow table with the columns of the format; what follows is the same for all.
Names become small integers at once, since everything later compares them millions of times.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from thence.trace.schema import COUNTING_KINDS

# Names for readers: what arithmetic makes of element types is beyond a type checker.
I32 = npt.NDArray[Any]
I64 = npt.NDArray[Any]
U8 = npt.NDArray[Any]

START, SEND, DELIVER, STABLE, INSTALL, RESTART, LEAVE, CRASH, EVICT, SUBSCRIBE, UNSUBSCRIBE = range(11)
OTHER: Final = 11  # every kind for metrics: only its place counts
KIND_CODE: Final = {name: code for code, name in enumerate(COUNTING_KINDS)}
NEEDS_DOT: Final = (SEND, DELIVER, STABLE, EVICT)
NEEDS_DEPS: Final = (SEND, INSTALL, RESTART, SUBSCRIBE)
NEEDS_CHANNEL: Final = (SUBSCRIBE, UNSUBSCRIBE)


def of_kinds(*kinds: int) -> npt.NDArray[np.bool_]:
    """By code, whether it is one of these: looking kinds up takes a fraction of comparing them."""
    chosen = np.zeros(OTHER + 1, bool)
    chosen[list(kinds)] = True
    return chosen


TEXT: Final = ("run", "group", "node", "kind", "origin", "process", "channel")
NUMBERS: Final = ("pos", "seq", "at_us", "incarnation")
DOTS: Final = ("deps", "carries")
FORMAT: Final = (*TEXT, *NUMBERS, *DOTS, "dest")
REQUIRED: Final = ("node", "pos", "kind")
USED: Final = (
    "run", "group", "node", "pos", "kind", "origin", "seq", "deps", "dest",
    "process", "incarnation", "carries", "channel",
)  # fmt: skip


class RowError(Exception):
    """A row that cannot be read. `index` counts from 0 in the table at hand; the reader knows its place."""

    def __init__(self, index: int, what: str) -> None:
        super().__init__(what)
        self.index = index
        self.what = what


class Names:
    """Numbers for names, in order of appearance, each checked once."""

    def __init__(self) -> None:
        self.list: list[str] = []
        self._code: dict[str, int] = {}

    def codes(self, names: Iterable[str]) -> I32:
        found = []
        for name in names:
            code = self._code.get(name)
            if code is None:
                code = self._code[name] = len(self.list)
                self.list.append(name)
            found.append(code)
        return np.array(found, np.int32)

    def bad(self) -> dict[int, str]:
        """Names that no row may carry, with the reason."""
        bad = {}
        for code, name in enumerate(self.list):
            if not name:
                bad[code] = "an empty name"
            elif len(name.split()) != 1 or name != name.strip():
                bad[code] = f"white space in the name {name!r}"
        return bad


@dataclass
class Lists:
    """A list column, only its rows that are not null: list k belongs to row[k]; values lie end to end."""

    row: I64
    length: I64
    name: I32
    seq: I64


@dataclass
class Rows:
    """Rows of one split. Codes in `node`, `origin` and the lists index `names`; `scope` indexes `scopes`."""

    scopes: list[tuple[str, str]]
    scope: I32
    names: list[str]
    node: I32
    pos: I64
    kind: U8
    origin: I32
    seq: I64
    deps: Lists
    dest: Lists
    carries: Lists
    channel: Lists  # each a list of one
    process: I32 | None  # None: no row says anything; -1: this one does not
    incarnation: I64 | None
    others: list[str]  # the kinds that were passed over


def is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_null(kind)
    )


def is_whole(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_integer(kind) or pa.types.is_null(kind))


def is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_fixed_size_list(kind)
        or pa.types.is_list_view(kind)
        or pa.types.is_large_list_view(kind)
    )


def check_columns(schema: pa.Schema, known: Collection[str] = ()) -> None:
    """Missing columns and wrong types; they make the first row unreadable. `known`: from elsewhere."""
    for name in REQUIRED:
        if name not in schema.names and name not in known:
            raise RowError(0, f"missing column {name!r}")
    for name in schema.names:
        if name in USED and schema.names.count(name) > 1:
            raise RowError(0, f"column {name!r} appears twice")
    for column in schema:
        kind = column.type
        if column.name in TEXT and not is_text(kind):
            raise RowError(0, f"column {column.name!r} holds {kind}, not text")
        if column.name in NUMBERS and not is_whole(kind):
            raise RowError(0, f"column {column.name!r} holds {kind}, not whole numbers")
        if column.name in DOTS and not pa.types.is_null(kind):
            inner = kind.value_type if is_list(kind) else None
            if inner is None or not (
                pa.types.is_null(inner) or (pa.types.is_struct(inner) and _is_dot(inner))
            ):
                raise RowError(0, f"column {column.name!r} holds {kind}, not lists of (origin, seq)")
        texts = pa.types.is_null(kind) or (is_list(kind) and is_text(kind.value_type))
        if column.name == "dest" and not texts:
            raise RowError(0, f"column 'dest' holds {kind}, not lists of text")


def _is_dot(struct: pa.DataType) -> bool:
    fields = {struct.field(i).name: struct.field(i).type for i in range(struct.num_fields)}
    return "origin" in fields and "seq" in fields and is_text(fields["origin"]) and is_whole(fields["seq"])


def array_of(column: Any) -> Any:
    if isinstance(column, pa.ChunkedArray):
        if column.num_chunks == 1:
            return column.chunk(0)  # combining would copy it
        if pa.types.is_dictionary(column.type):
            column = column.unify_dictionaries()
        column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):  # what cannot be one array stays chunked even so
            column = pa.concat_arrays(column.chunks)
    return column


def text_codes(column: Any, names: Names) -> I32:
    """Codes of a text column; -1 is null."""
    array = array_of(column)
    if pa.types.is_null(array.type):
        return np.full(len(array), -1, np.int32)
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    values = array.dictionary.to_pylist()
    codes = names.codes("" if value is None else value for value in values)
    gone = np.array([value is None for value in values], bool)
    local = array.indices
    nulls = local.null_count
    index = (local.fill_null(0) if nulls else local).to_numpy(zero_copy_only=False)
    if not len(codes):
        return np.full(len(array), -1, np.int32)
    codes[gone] = -1
    found: I32 = codes[index]
    if nulls:
        found[local.is_null().to_numpy(zero_copy_only=False)] = -1
    return found


def whole_numbers(column: Any, name: str) -> I64:
    """Values of a whole-number column; -1 is null. A negative value is an error wherever it stands."""
    array = array_of(column)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_null(array.type):
        return np.full(len(array), -1, np.int64)
    nulls = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    if array.type == pa.uint64():
        large = pc.fill_null(pc.greater(array, pa.scalar(2**63 - 1, pa.uint64())), False).to_numpy(
            zero_copy_only=False
        )
        if large.any():
            raise RowError(int(np.argmax(large)), f"{name} does not fit into 64 bits")
    values = (array.fill_null(0) if nulls is not None else array).cast(pa.int64())
    found: I64 = values.to_numpy(zero_copy_only=False)
    if len(found) and found.min() < 0:
        first = int(np.argmax(found < 0))
        raise RowError(first, f"negative {name}: {found[first]}")
    if nulls is not None:
        found = np.where(nulls, np.int64(-1), found)
    return found


def _lists(column: Any, names: Names, column_name: str) -> Lists:
    none = Lists(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int64))
    if column is None:
        return none
    array = array_of(column)
    if pa.types.is_null(array.type) or len(array) == array.null_count:
        return none
    row = np.flatnonzero(array.is_valid().to_numpy(zero_copy_only=False)).astype(np.int64)
    if len(row) < len(array):
        array = array.filter(array.is_valid())
    length = pc.list_value_length(array).to_numpy(zero_copy_only=False).astype(np.int64)
    values = array.flatten()

    def owner(index: int) -> int:
        return int(row[np.searchsorted(np.cumsum(length), index, side="right")])

    if values.null_count:
        raise RowError(owner(_first_null(values)), f"null in {column_name}")
    if pa.types.is_null(values.type):  # all are empty, so that their writer could not tell of what
        return replace(none, row=row, length=length)
    if column_name == "dest":
        return Lists(row, length, text_codes(values, names), np.zeros(0, np.int64))
    code = text_codes(pc.struct_field(values, "origin"), names)
    try:
        seq = whole_numbers(pc.struct_field(values, "seq"), f"counter in {column_name}")
    except RowError as problem:
        raise RowError(owner(problem.index), problem.what) from None
    missing = (code < 0) | (seq < 0)
    if missing.any():
        raise RowError(owner(int(np.argmax(missing))), f"null in {column_name}")
    return Lists(row, length, code, seq)


def _first_null(values: Any) -> int:
    return int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))


def columns_of(table: pa.Table) -> Callable[[str], Any]:
    """A table's columns by name; of those that it has not, nulls."""
    present, none = set(table.schema.names), pa.nulls(table.num_rows)
    return lambda name: table.column(name) if name in present else none


def decode(table: pa.Table) -> Rows:
    """Check a table's rows and turn them into arrays; raises RowError for the first that cannot be read."""
    check_columns(table.schema)
    names, size = Names(), table.num_rows
    present, column = set(table.schema.names), columns_of(table)
    node = text_codes(column("node"), names)
    pos = whole_numbers(column("pos"), "position")
    kind, others = _kinds(column("kind"))
    origin = text_codes(column("origin"), names)
    seq = whole_numbers(column("seq"), "counter")
    deps = _lists(column("deps"), names, "deps")
    dest = _lists(column("dest"), names, "dest")
    carries = _lists(column("carries"), names, "carries")
    process = text_codes(column("process"), names) if "process" in present else None
    incarnation = whole_numbers(column("incarnation"), "incarnation") if "incarnation" in present else None
    _check_needed(node, pos, kind, origin, seq)
    channel = _channels(text_codes(column("channel"), names), kind)
    scopes, scope = scopes_of(column("run"), column("group"), size)
    rows = Rows(
        scopes, scope, names.list, node, pos, kind, origin, seq, deps, dest, carries, channel, process,
        incarnation, others,
    )  # fmt: skip
    _check_names(rows, names)
    return rows


def check(table: pa.Table) -> None:
    """Raise RowError for the first row of a column at hand that cannot be read; no column is needed."""
    names = Names()
    for name in table.schema.names:
        column = table.column(name)
        if name in ("node", "kind"):
            code = text_codes(column, Names() if name == "kind" else names)
            if len(code) and code.min() < 0:
                raise RowError(int(np.argmax(code < 0)), f"no {name}")
        elif name in ("pos", "seq", "incarnation"):
            whole = whole_numbers(column, {"pos": "position", "seq": "counter"}.get(name, name))
            if name == "pos" and len(whole) and whole.min() < 0:
                raise RowError(int(np.argmax(whole < 0)), "no position")
        elif name in (*DOTS, "dest"):
            _lists(column, names, name)


def _channels(code: I32, kind: U8) -> Lists:
    """Which rows name a channel."""
    lacking = of_kinds(*NEEDS_CHANNEL)[kind] & (code < 0)
    if lacking.any():
        first = int(np.argmax(lacking))
        raise RowError(first, f"{COUNTING_KINDS[kind[first]]} without channel")
    row = np.flatnonzero(code >= 0)
    return Lists(row, np.ones(len(row), np.int64), code[row], np.zeros(0, np.int64))


def _kinds(column: Any) -> tuple[U8, list[str]]:
    """Codes of the kinds, and the names of those that do not count."""
    kinds = Names()
    code = text_codes(column, kinds)
    if len(code) and code.min() < 0:
        raise RowError(int(np.argmax(code < 0)), "no kind")
    table = np.array([KIND_CODE.get(name, OTHER) for name in kinds.list] or [OTHER], np.uint8)
    return table[code], [name for name in kinds.list if name not in KIND_CODE]


def _check_needed(node: I32, pos: I64, kind: U8, origin: I32, seq: I64) -> None:
    for values, what in ((node, "no node"), (pos, "no position")):
        if len(values) and values.min() < 0:
            raise RowError(int(np.argmax(values < 0)), what)
    lacking = (origin < 0) | (seq < 0)
    if lacking.any():
        lacking &= of_kinds(*NEEDS_DOT)[kind]
        if lacking.any():
            first = int(np.argmax(lacking))
            name = next(name for name, code in KIND_CODE.items() if code == kind[first])
            raise RowError(first, f"{name} without {'origin' if origin[first] < 0 else 'seq'}")


def scopes_of(run: Any, group: Any, size: int) -> tuple[list[tuple[str, str]], I32]:
    """Pairs (run, group) and each row's pair. Null and absent mean the empty name."""
    names = Names()
    empty = int(names.codes([""])[0])
    pair = []
    for column in (run, group):
        code = text_codes(column, names)
        pair.append(np.where(code < 0, np.int32(empty), code))
    if not pair[0].any() and not pair[1].any():
        return [("", "")], np.zeros(size, np.int32)
    key = pair[0].astype(np.int64) * len(names.list) + pair[1]
    unique, scope = np.unique(key, return_inverse=True)
    width = len(names.list)
    return [(names.list[k // width], names.list[k % width]) for k in unique.tolist()], scope.astype(np.int32)


def _check_names(rows: Rows, names: Names) -> None:
    bad = names.bad()
    if not bad:
        return
    table = np.zeros(len(names.list), bool)
    table[list(bad)] = True
    hits = [(int(i), int(rows.node[i])) for i in np.flatnonzero(table[rows.node])[:1]]
    wanted = np.isin(rows.kind, NEEDS_DOT) & (rows.origin >= 0) & table[rows.origin]
    hits += [(int(i), int(rows.origin[i])) for i in np.flatnonzero(wanted)[:1]]
    if rows.process is not None:
        wanted = (rows.process >= 0) & table[rows.process]
        hits += [(int(i), int(rows.process[i])) for i in np.flatnonzero(wanted)[:1]]
    for lists in (rows.deps, rows.dest, rows.carries, rows.channel):
        for i in np.flatnonzero(table[lists.name])[:1]:
            owner = lists.row[np.searchsorted(np.cumsum(lists.length), i, side="right")]
            hits.append((int(owner), int(lists.name[i])))
    if hits:
        index, code = min(hits)
        raise RowError(index, bad[code])
