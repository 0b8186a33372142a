"""A store's state as bytes: to begin from elsewhere, or after a restart.

Magic, version, then chunks: length and CRC-32 (4 bytes each, little endian) before the bytes of each. The
first chunk is the header (clock, unstable operations, reaps), the last the trailer (how many records).
Records are `[database, key, kind, …]` in any order; entries that are not stable name their operation by its
place in the header. Anything left over is an error.

A state is that of the moment in which its first piece was asked for (`copy_on_write`). Each piece is bounded
work.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from struct import Struct
from typing import Any, Final
from zlib import crc32

from msgspec import DecodeError, msgpack

from thence.core.errors import StorageError
from thence.core.groups import process_of
from thence.core.machine import NEVER
from thence.crdt.cell import Cell, Step
from thence.crdt.cells import Assignment, CellMap, ScoreMap
from thence.crdt.deadline import Deadline, Statement
from thence.crdt.mark import Mark
from thence.crdt.sets import AddWinsSet, Elements, RemoveWinsSet
from thence.crdt.steps import score_step, string_step
from thence.store import ops
from thence.store.copy_on_write import CopyOnWrite, Held
from thence.store.ops import Part
from thence.store.slots import Assigned, Counted, Slot
from thence.store.space import Space
from thence.store.state import StoreState

MAGIC: Final = ops.STATE_MAGIC
VERSION: Final = 2
"""The first one also held what operations had seen, which is in tags."""
_HEAD: Final = Struct("<II")

STRING: Final = 0
HASH: Final = 1
ZSET: Final = 2
SET: Final = 3
DEADLINE: Final = 4
PIECE: Final = 4096
"""Fields or elements in one record."""

Ref = Callable[[Mark | None], Any]
Records = Iterator[list[Any]]


def dump(state: StoreState) -> bytes:
    return b"".join(pieces(state))


def pieces(state: StoreState) -> Generator[bytes, None, None]:
    """The state as it is now, piece by piece, while operations go on: the first piece is to be asked for at
    once. What it takes to begin is a list of all keys, and what is not stable."""
    space = state.space
    marks = {mark: at for at, mark in enumerate(space.flight)}

    def ref(mark: Mark | None) -> Any:
        """An operation that was in flight by its place, one that is stable by what it is."""
        if mark is None:
            return None
        at = marks.get(mark)
        return [mark.time, mark.name, mark.seq] if at is None else at

    table = [
        [mark.time, mark.name, mark.seq, parts, space.swept.get(mark)] for mark, parts in space.flight.items()
    ]
    order = [[origin, [ref(mark) for mark in found]] for origin, found in state.order.items()]
    reaps = [[upto, ref(mark)] for upto, mark in space.reaps]
    header = [space.remove_wins, state.time, table, reaps, order, list(space.lingering), space.reaped]
    if space.returned:
        header.append(space.returned)

    def write(number: int, key: bytes, found: Held | None, deadline: int | Deadline | None) -> Records:
        if deadline is not None:
            yield [number, key, DEADLINE, _deadline(deadline, ref)]
        if found is not None:
            yield from _records(number, key, found, ref)

    copy = CopyOnWrite(space, write, _size, _plain)
    try:
        yield MAGIC + bytes([VERSION]) + _chunk(header)
        count = 0
        while (records := copy.some()) is not None:
            count += len(records)
            yield _chunk(records) if records else b""
        yield _chunk([[-1, count]])
    finally:
        copy.end()


def _chunk(what: Any) -> bytes:
    data = msgpack.encode(what)
    return _HEAD.pack(len(data), crc32(data)) + data


def _plain(number: int, key: bytes, value: bytes) -> list[Any]:
    return [number, key, STRING, value]


def _size(record: list[Any]) -> int:
    value = record[3]
    return (
        32
        + len(record[1])
        + (len(value) * 48 if isinstance(value, list) else len(value) if isinstance(value, bytes) else 8)
    )


def _records(number: int, key: bytes, slot: Held, ref: Ref) -> Records:
    if isinstance(slot, Assigned):
        statements = [*(slot.before or ()), slot.mark]
        covers = [[ref(mark)] for mark in statements[1:]] + [[]]
        told = [[ref(mark), NEVER, by] for mark, by in zip(statements, covers, strict=True)]
        yield [number, key, DEADLINE, told]
        yield [number, key, STRING, [None, [[ref(slot.mark), slot.index, slot.value]], []]]
        return
    if isinstance(slot, Counted):
        yield [number, key, STRING, _cell(slot.cell(), ref)]
        return
    if not isinstance(slot, Slot):
        yield [number, key, STRING, slot]
        return
    if slot.string is not None:
        yield [number, key, STRING, _cell(slot.string, ref)]
    for kind, cells in ((HASH, slot.hash), (ZSET, slot.zset)):
        if cells is not None:
            for part in _cut([[field, _cell(found, ref)] for field, found in cells.data.items()]):
                yield [number, key, kind, part]
    if slot.set is not None:
        for part in _cut(_elements(slot.set, ref)):
            yield [number, key, SET, part]


def _cut(items: list[Any]) -> Iterator[list[Any]]:
    for at in range(0, len(items), PIECE):
        yield items[at : at + PIECE]


def _cell(found: Any, ref: Ref) -> Any:
    if isinstance(found, Assignment):
        return [None, [[ref(found.mark), found.index, found.value]], []]
    if not isinstance(found, Cell):
        return found
    return [
        found.base,
        [[ref(mark), stamp[2], value] for stamp, mark, value in found.candidates],
        [[ref(mark), stamp[2], update] for stamp, mark, update in found.updates],
    ]


def _deadline(deadline: int | Deadline, ref: Ref) -> Any:
    if isinstance(deadline, int):
        return deadline
    return [
        [ref(one.mark), one.deadline, [ref(each) for each in one.covers]] for one in deadline.statements()
    ]


def _elements(elements: Elements, ref: Ref) -> list[Any]:
    if isinstance(elements, AddWinsSet):
        return [
            [element, None if adds is None else [ref(mark) for mark in adds]]
            for element, adds in elements.data.items()
        ]
    return [
        [element, None if parts is None else _parts(*parts, ref)] for element, parts in elements.data.items()
    ]


def _parts(removes: list[Mark], adds: list[tuple[Mark, tuple[Mark, ...]]], ref: Ref) -> list[Any]:
    return [
        [ref(one) for one in removes],
        [[ref(one), [ref(each) for each in hidden]] for one, hidden in adds],
    ]


def load(state: StoreState, data: bytes | Iterable[bytes]) -> None:
    """Begin anew from this, whole or in pieces; from nothing if it is empty. `StorageError`: it is damaged,
    and nothing was changed."""
    fresh = Space(state.space.remove_wins)
    fresh.watched = state.space.watched
    try:
        _load(state, fresh, _chunks([data] if isinstance(data, bytes) else data))
    except (DecodeError, ValueError, TypeError, IndexError, KeyError, AttributeError) as error:
        raise StorageError(f"a store's state that cannot be read: {error}") from error


def _chunks(pieces: Iterable[bytes]) -> Iterator[Any]:
    """The version, then what each chunk holds."""
    data, at, version = bytearray(), 0, 0
    for piece in pieces:
        del data[:at]
        data += piece
        at = 0
        if not version:
            if len(data) <= len(MAGIC):
                continue
            version, at = data[len(MAGIC)], len(MAGIC) + 1
            if data[: len(MAGIC)] != MAGIC:
                raise StorageError("this is no state of a store")
            if version not in (1, VERSION):
                raise StorageError(f"a store's state of version {version}: this one reads {VERSION}")
            yield version
        while len(data) - at >= _HEAD.size:
            size, check = _HEAD.unpack_from(data, at)
            end = at + _HEAD.size + size
            if end > len(data):
                break
            chunk = bytes(memoryview(data)[end - size : end])
            if crc32(chunk) != check:
                raise StorageError("a store's state that is damaged")
            at = end
            yield msgpack.decode(chunk)
    if at < len(data):
        raise StorageError("a store's state that ends too early")


def of_version_1(header: list[Any]) -> list[Any]:
    """What operations had seen was in it, and keys that they concerned beside their parts."""
    remove_wins, time, _, _, table, *rest = header
    marks = []
    for when, _, stable, name, seq, _, flight in table:
        parts = None if flight is None else _in_place(flight)
        swept = None if flight is None else [[number, key] for number, key, _, part in flight if part is None]
        marks.append([when, stable, name, seq, parts, swept or None])
    return [remove_wins, time, marks, *rest]


def _in_place(flight: list[Any]) -> list[Part]:
    """Parts by their index; in between, as if nothing was there."""
    found = {index: part for _, _, index, part in flight if part is not None}
    return [found.get(index, [ops.FLUSH, 0, b"", 0, 0]) for index in range(max(found, default=-1) + 1)]


class Marks:
    """Operations that a state names."""

    def __init__(self, table: list[Any], space: Space) -> None:
        self._listed: list[Mark] = []
        self._stable: dict[tuple[str, int], Mark] = {}
        for when, name, seq, parts, swept in table:
            mark = Mark(when, process_of(name), None, name, seq)
            self._listed.append(mark)
            space.flight[mark] = parts
            if swept is not None:
                space.swept[mark] = [(number, key) for number, key in swept]

    def __getitem__(self, ref: Any) -> Mark:
        if isinstance(ref, int):
            return self._listed[ref]
        when, name, seq = ref
        mark = self._stable.get((name, seq))
        if mark is None:
            mark = self._stable[name, seq] = Mark(when, process_of(name), None, name, seq)
            mark.stable = True
        return mark


class FirstMarks(Marks):
    """In version 1 those that are stable were listed, too."""

    def __init__(self, table: list[Any], space: Space) -> None:
        super().__init__([], space)
        for when, stable, name, seq, parts, swept in table:
            mark = Mark(when, process_of(name), None, name, seq)
            mark.stable = stable
            self._listed.append(mark)
            if parts is not None:
                space.flight[mark] = parts
                space.swept.update({mark: [(number, key) for number, key in swept]} if swept else {})


def _load(state: StoreState, space: Space, chunks: Iterator[Any]) -> None:
    version = next(chunks, None)
    if version is None:
        state.installed(space, {})
        return
    header = next(chunks)
    remove_wins, time, table, reaps, order, lingering, reaped, *more = (
        header if version == VERSION else of_version_1(header)
    )
    if remove_wins != space.remove_wins:
        raise StorageError("set-wins differs from that of the group")
    marks = Marks(table, space) if version == VERSION else FirstMarks(table, space)
    space.reaps = [(upto, marks[at]) for upto, at in reaps]
    space.lingering = dict.fromkeys((number, key) for number, key in lingering)
    space.reaped = reaped
    if more:
        (space.returned,) = more
    count, said, databases = 0, -1, space.databases
    for records in chunks:
        if said >= 0:
            raise StorageError("a store's state that goes on behind its end")
        if records and records[0][0] == -1:
            said = records[0][1]
            continue
        count += len(records)
        for number, key, kind, value in records:
            if kind == STRING and type(value) is bytes and key not in databases[number].keys:
                databases[number].keys[key] = value  # most of them
            else:
                _load_record(space, number, key, kind, value, marks)
    if said != count:
        raise StorageError("a store's state that ends too early")
    state.time = max(state.time, time)
    state.installed(space, {origin: deque([marks[at] for at in found]) for origin, found in order})


def _load_record(space: Space, number: int, key: bytes, kind: int, value: Any, marks: Marks) -> None:
    database = space.databases[number]
    if kind == DEADLINE:
        _load_deadline(space, number, key, value, marks)
    elif kind == STRING and not isinstance(value, list):
        if isinstance(found := database.keys.get(key), Slot):
            found.string = value
        else:
            database.keys[key] = value
    else:
        slot = database.slot(key)
        if kind == STRING:
            slot.string = _load_cell(value, string_step, marks)
        elif kind == HASH:
            slot.hash = slot.hash or CellMap(string_step)
            for field, found in value:
                slot.hash.put(field, _load_cell(found, string_step, marks))
        elif kind == ZSET:
            slot.zset = slot.zset or ScoreMap(score_step)
            for field, found in value:
                slot.zset.put(field, _load_cell(found, score_step, marks))
        else:
            slot.set = slot.set or (RemoveWinsSet() if space.remove_wins else AddWinsSet())
            _load_elements(slot.set, value, marks)


def _load_cell(value: Any, step: Step, marks: Marks) -> Any:
    if not isinstance(value, list):
        return value
    cell = Cell[Any](step, value[0])
    cell.candidates = [(marks[at].at(index), marks[at], found) for at, index, found in value[1]]
    cell.updates = [(marks[at].at(index), marks[at], tuple(found)) for at, index, found in value[2]]
    cell.restart()
    return cell


def _load_deadline(space: Space, number: int, key: bytes, value: Any, marks: Marks) -> None:
    deadlines = space.databases[number].deadlines
    if isinstance(value, int):
        deadlines[key] = value
        space.expect(value, number, key)
        return
    found = deadlines[key] = Deadline()
    for at, deadline, covers in value:
        mark = None if at is None else marks[at]
        found.put(Statement(mark, deadline, [marks[each] for each in covers]))
        if deadline != NEVER:
            space.expect(deadline, number, key)


def _load_elements(elements: Elements, value: Any, marks: Marks) -> None:
    for element, found in value:
        if isinstance(elements, AddWinsSet):
            elements.data[element] = None if found is None else [marks[at] for at in found]
            if found is not None:
                elements.loose[element] = None
        elif found is None:
            elements.data[element] = elements.inside[element] = None
        else:
            removes = [marks[at] for at in found[0]]
            adds = [(marks[at], tuple([marks[each] for each in hidden])) for at, hidden in found[1]]
            elements.keep(element, removes, adds)
