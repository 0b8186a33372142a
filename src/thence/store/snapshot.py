"""A store's state as bytes: to begin from elsewhere, or after a restart.

Magic, version, then chunks: length and CRC-32 (4 bytes each, little endian) before the bytes of each. The
first chunk is the header (clock, what was applied, unstable operations, reaps), the last the trailer (how
many records). Records are `[database, key, kind, …]`; entries that are not stable name their operation by its
place in the header. Anything left over is an error.
"""

from collections import deque
from collections.abc import Callable, Iterator
from struct import Struct
from typing import Any, Final
from zlib import crc32

from msgspec import DecodeError, msgpack

from thence.core.errors import StorageError
from thence.crdt.cell import Cell, Step
from thence.crdt.cells import CellMap, ScoreMap
from thence.crdt.deadline import NEVER, Deadline, Statement
from thence.crdt.mark import Mark
from thence.crdt.sets import AddWinsSet, Elements, RemoveWinsSet
from thence.crdt.steps import score_step, string_step
from thence.store.space import Slot, Space
from thence.store.state import SeenTag, StoreState

MAGIC: Final = b"thenceST"
VERSION: Final = 1
CHUNK_BYTES: Final = 256 << 10
_HEAD: Final = Struct("<II")

STRING: Final = 0
HASH: Final = 1
ZSET: Final = 2
SET: Final = 3
DEADLINE: Final = 4
PIECE: Final = 4096
"""Fields or elements in one record."""

Ref = Callable[[Mark | None], int | None]


def dump(state: StoreState) -> bytes:
    return b"".join(pieces(state))


def pieces(state: StoreState) -> Iterator[bytes]:
    """The state, piece by piece; nothing may change meanwhile."""
    space = state.space
    marks: dict[Mark, int] = {}
    table: list[Any] = []

    def ref(mark: Mark | None) -> int | None:
        if mark is None:
            return None
        if mark not in marks:
            marks[mark] = len(table)
            tag = mark.tag
            assert isinstance(tag, SeenTag)
            flight = [list(one) for one in space.flight[mark]] if mark in space.flight else None
            table.append([mark.time, mark.origin, mark.stable, tag.origin, tag.seq, tag.past, flight])
        return marks[mark]

    for mark in space.flight:
        ref(mark)
    chunks, count = list[bytes](), 0
    waiting, size = list[Any](), 0
    for record in _records(space, ref):
        waiting.append(record)
        count += 1
        size += _size(record)
        if size > CHUNK_BYTES // 2:
            chunks.append(_chunk(waiting))
            waiting, size = [], 0
    if waiting:
        chunks.append(_chunk(waiting))
    order = [[origin, [ref(mark) for _, mark in found]] for origin, found in state.order.items()]
    reaps = [[upto, ref(mark)] for upto, mark in space.reaps]
    header = [
        space.remove_wins, state.time, state.vector, state.contexts, table, reaps, order,
        list(space.lingering), space.reaped,
    ]  # fmt: skip
    yield MAGIC + bytes([VERSION])
    yield _chunk(header)
    yield from chunks
    yield _chunk([[-1, count]])


def _chunk(what: Any) -> bytes:
    data = msgpack.encode(what)
    return _HEAD.pack(len(data), crc32(data)) + data


def _size(record: list[Any]) -> int:
    value = record[3]
    return (
        32
        + len(record[1])
        + (len(value) * 48 if isinstance(value, list) else len(value) if isinstance(value, bytes) else 8)
    )


def _records(space: Space, ref: Ref) -> Iterator[list[Any]]:
    for number, database in enumerate(space.databases):
        for key, deadline in database.deadlines.items():
            yield [number, key, DEADLINE, _deadline(deadline, ref)]
        for key, slot in database.keys.items():
            if not isinstance(slot, Slot):
                yield [number, key, STRING, slot]
                continue
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


def load(state: StoreState, data: bytes) -> None:
    """Begin anew from this; from nothing if it is empty. `StorageError`: it is damaged, and nothing
    was changed."""
    fresh = Space(state.space.remove_wins)
    fresh.watched = state.space.watched
    if not data:
        state.space, state.vector, state.contexts, state.order = fresh, {}, {}, {}
        state.installed()
        return
    try:
        chunks = list(_chunks(data))
        header, records = chunks[0], chunks[1:-1]
        [[mark, count]] = chunks[-1]
        if mark != -1 or count != sum(map(len, records)):
            raise StorageError("a store's state that ends too early")
        _load(state, fresh, header, [record for chunk in records for record in chunk])
    except (DecodeError, ValueError, TypeError, IndexError, KeyError) as error:
        raise StorageError(f"a store's state that cannot be read: {error}") from error


def _chunks(data: bytes) -> Iterator[Any]:
    if data[: len(MAGIC)] != MAGIC:
        raise StorageError("this is no state of a store")
    if data[len(MAGIC)] != VERSION:
        raise StorageError(f"a store's state of version {data[len(MAGIC)]}: this one reads {VERSION}")
    at = len(MAGIC) + 1
    while at < len(data):
        if at + _HEAD.size > len(data):
            raise StorageError("a store's state that ends too early")
        size, check = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        chunk = data[at : at + size]
        if len(chunk) != size or crc32(chunk) != check:
            raise StorageError("a store's state that is damaged")
        at += size
        yield msgpack.decode(chunk)


def _load(state: StoreState, space: Space, header: list[Any], records: list[Any]) -> None:
    remove_wins, time, vector, contexts, table, reaps, order, lingering, reaped = header
    if remove_wins != space.remove_wins:
        raise StorageError("set-wins differs from that of the group")
    marks: list[Mark] = []
    for when, process, is_stable, origin, seq, past, flight in table:
        mark = Mark(when, process, SeenTag(origin, seq, past))
        mark.stable = is_stable
        marks.append(mark)
        if flight is not None:
            space.flight[mark] = [(number, key, index, part) for number, key, index, part in flight]
    space.reaps = [(upto, marks[at]) for upto, at in reaps]
    space.lingering = dict.fromkeys((number, key) for number, key in lingering)
    space.reaped = reaped
    for number, key, kind, value in records:
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
                slot.set = slot.set or (RemoveWinsSet() if remove_wins else AddWinsSet())
                _load_elements(slot.set, value, marks)
    state.space, state.time = space, max(state.time, time)
    state.vector, state.contexts = vector, contexts
    state.order = {origin: deque([(_seq(marks[at]), marks[at]) for at in found]) for origin, found in order}
    state.installed()


def _seq(mark: Mark) -> int:
    assert isinstance(mark.tag, SeenTag)
    return mark.tag.seq


def _load_cell(value: Any, step: Step, marks: list[Mark]) -> Any:
    if not isinstance(value, list):
        return value
    cell = Cell[Any](step, value[0])
    cell.candidates = [(marks[at].at(index), marks[at], found) for at, index, found in value[1]]
    cell.updates = [(marks[at].at(index), marks[at], tuple(found)) for at, index, found in value[2]]
    cell.restart()
    return cell


def _load_deadline(space: Space, number: int, key: bytes, value: Any, marks: list[Mark]) -> None:
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


def _load_elements(elements: Elements, value: Any, marks: list[Mark]) -> None:
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
