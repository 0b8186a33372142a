"""A map of cells: a hash's fields, a sorted set's members and their scores.

A field holds its value once all of it is stable, and a cell before that; `loose` names those fields. A field
without a value is not there.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Final, Generic, TypeVar

from thence.crdt.cell import Cell, Step, Update
from thence.crdt.mark import Mark, Stamp

V = TypeVar("V")


class CellMap(Generic[V]):
    __slots__ = ("_step", "data", "loose")

    def __init__(self, step: Step) -> None:
        self._step: Final = step
        self.data: dict[bytes, V | Cell[V]] = {}
        self.loose: dict[bytes, None] = {}

    def __len__(self) -> int:
        return len(self.data)

    def __contains__(self, field: bytes) -> bool:
        return field in self.data

    @property
    def empty(self) -> bool:
        return not self.data

    def get(self, field: bytes) -> V | None:
        found = self.data.get(field)
        return found.value if isinstance(found, Cell) else found

    def items(self) -> Iterator[tuple[bytes, V]]:
        for field, found in self.data.items():
            value = found.value if isinstance(found, Cell) else found
            assert value is not None
            yield field, value

    def assign(self, mark: Mark, index: int, field: bytes, value: V) -> None:
        old = self.data.get(field)
        cell = old if isinstance(old, Cell) else self._loosen(field, None)
        before = cell.value if cell is old else old
        cell.assign(mark, index, value)
        self._changed(field, before, cell.value)  # type: ignore[arg-type]  # a cell's value, or what it was

    def update(self, mark: Mark, index: int, field: bytes, update: Update) -> None:
        old = self.data.get(field)
        cell = old if isinstance(old, Cell) else self._loosen(field, old)
        before = cell.value
        cell.update(mark, index, update)
        self._changed(field, before, cell.value)

    def remove(self, mark: Mark, field: bytes) -> None:
        old = self.data.get(field)
        if isinstance(old, Cell):
            before = old.value
            old.reset(mark)
            self._changed(field, before, old.value)
            if old.value is None:
                del self.data[field], self.loose[field]
        elif old is not None:
            self._changed(field, old, None)
            del self.data[field]

    def reset(self, mark: Mark) -> None:
        left: dict[bytes, V | Cell[V]] = {}
        for field in self.loose:
            cell = self.data[field]
            assert isinstance(cell, Cell)
            cell.reset(mark)
            if cell.value is not None:
                left[field] = cell
        self.data = left
        self.loose = dict.fromkeys(left)
        self._rebuilt()

    def forget(self, stamp: Stamp, field: bytes) -> None:
        cell = self.data.get(field)
        if isinstance(cell, Cell):
            before = cell.value
            cell.forget(stamp)
            self._changed(field, before, cell.value)
            if cell.value is None:
                del self.data[field], self.loose[field]

    def strip(self) -> bool:
        """Something in here is stable. Whether all of it is."""
        for field in list(self.loose):
            cell = self.data[field]
            assert isinstance(cell, Cell)
            if cell.strip():
                assert cell.base is not None
                self.data[field] = cell.base
                del self.loose[field]
        return not self.loose

    def put(self, field: bytes, value: "V | Cell[V]") -> None:
        """As a snapshot has it."""
        self.data[field] = value
        if isinstance(value, Cell):
            self.loose[field] = None
        self._rebuilt()

    def _loosen(self, field: bytes, base: "V | None") -> Cell[V]:
        cell = self.data[field] = Cell[V](self._step, base)
        self.loose[field] = None
        return cell

    def _changed(self, field: bytes, old: V | None, new: V | None) -> None:
        """For an index."""

    def _rebuilt(self) -> None:
        """For an index."""


class ScoreMap(CellMap[float]):
    """A sorted set: an index by score, then member, is made when it is first asked for."""

    __slots__ = ("_index",)

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        self._index: list[tuple[float, bytes]] | None = None

    @property
    def index(self) -> list[tuple[float, bytes]]:
        if self._index is None:
            self._index = sorted((score, member) for member, score in self.items())
        return self._index

    def _changed(self, field: bytes, old: float | None, new: float | None) -> None:
        index = self._index
        if index is None or old == new:
            return
        if old is not None:
            del index[bisect_left(index, (old, field))]
        if new is not None:
            insort(index, (new, field))

    def _rebuilt(self) -> None:
        self._index = None
