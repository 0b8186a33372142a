"""A map of cells: a hash's fields, a sorted set's members and their scores.

A field holds its value once all of it is stable, and a cell before that; `loose` names those fields. A field
without a value is not there.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
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
        cell = self._cell(field)
        self._leaves(field, cell)
        cell.assign(mark, index, value)
        self._comes(field, cell)

    def update(self, mark: Mark, index: int, field: bytes, update: Update) -> None:
        cell = self._cell(field)
        self._leaves(field, cell)
        cell.update(mark, index, update)
        self._comes(field, cell)

    def remove(self, mark: Mark, field: bytes) -> None:
        if field in self.data:
            cell = self._cell(field)
            self._leaves(field, cell)
            cell.reset(mark)
            self._comes(field, cell)

    def reset(self, mark: Mark) -> None:
        left: dict[bytes, V | Cell[V]] = {}
        for field in self.loose:
            cell = self._cell(field)
            cell.reset(mark)
            if not cell.empty:
                left[field] = cell
        self.data = left
        self.loose = dict.fromkeys(left)
        self._rebuilt()

    def forget(self, stamp: Stamp, field: bytes) -> None:
        if field in self.loose:
            cell = self._cell(field)
            self._leaves(field, cell)
            cell.forget(stamp)
            self._comes(field, cell)

    def strip(self, fields: Iterable[bytes]) -> None:
        """Something in these is stable."""
        for field in fields:
            cell = self.data.get(field)
            if isinstance(cell, Cell) and cell.strip():
                assert cell.base is not None
                self.data[field] = cell.base
                del self.loose[field]

    def put(self, field: bytes, value: "V | Cell[V]") -> None:
        """As a snapshot has it."""
        self.data[field] = value
        if isinstance(value, Cell):
            self.loose[field] = None
        self._rebuilt()

    def _cell(self, field: bytes) -> Cell[V]:
        """To be changed."""
        found = self.data.get(field)
        if isinstance(found, Cell):
            return found
        cell: Cell[V] = Cell(self._step, found)  # Cell[V](…) would cost more than all the rest
        self.data[field] = cell
        self.loose[field] = None
        return cell

    def _leaves(self, field: bytes, cell: Cell[V]) -> None:
        """For an index: its value is about to change."""

    def _comes(self, field: bytes, cell: Cell[V]) -> None:
        """It has changed."""
        if cell.empty:
            del self.data[field], self.loose[field]

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

    def _leaves(self, field: bytes, cell: Cell[float]) -> None:
        if self._index is not None and cell.value is not None:
            del self._index[bisect_left(self._index, (cell.value, field))]

    def _comes(self, field: bytes, cell: Cell[float]) -> None:
        super()._comes(field, cell)
        if self._index is not None and cell.value is not None:
            insort(self._index, (cell.value, field))

    def _rebuilt(self) -> None:
        self._index = None
