"""A map of cells: a hash's fields, a sorted set's members and their scores.

A field holds its value once all of it is stable; before that an `Assignment`, if that is all that there is of
it, or a cell, which tells the same and more at length. `loose` names the fields that hold one of these. A
field without a value is not there.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from typing import Final, Generic, TypeVar

from thence.crdt.cell import Cell, Step, Update
from thence.crdt.mark import Mark, Stamp

V = TypeVar("V")


class Assignment(Generic[V]):
    """Of a field: it is not stable, and saw all that there was."""

    __slots__ = ("index", "mark", "value")

    def __init__(self, mark: Mark, index: int, value: V) -> None:
        self.mark = mark
        self.index = index
        self.value = value


HELD: Final = (Assignment, Cell)
"""Of what these hold something is not stable."""


class CellMap(Generic[V]):
    __slots__ = ("_step", "data", "loose")

    def __init__(self, step: Step) -> None:
        self._step: Final = step
        self.data: dict[bytes, V | Assignment[V] | Cell[V]] = {}
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
        return found.value if isinstance(found, HELD) else found

    def items(self) -> Iterator[tuple[bytes, V]]:
        for field, found in self.data.items():
            value = found.value if isinstance(found, HELD) else found
            assert value is not None
            yield field, value

    def assign(self, mark: Mark, index: int, field: bytes, value: V) -> None:
        found = self.data.get(field)
        if isinstance(found, Cell) or (isinstance(found, Assignment) and not found.mark.precedes(mark)):
            self._assign(mark, index, field, value)
            return
        self.data[field] = Assignment(mark, index, value)
        self.loose[field] = None

    def _assign(self, mark: Mark, index: int, field: bytes, value: V) -> None:
        """Among others."""
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
        left: dict[bytes, V | Assignment[V] | Cell[V]] = {}
        for field in self.loose:
            found = self.data[field]
            if isinstance(found, Assignment) and found.mark.precedes(mark):
                continue
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
            found = self.data.get(field)
            if isinstance(found, Assignment):
                if found.mark.stable:
                    self.data[field] = found.value
                    del self.loose[field]
            elif isinstance(found, Cell) and found.strip():
                assert found.base is not None
                self.data[field] = found.base
                del self.loose[field]

    def put(self, field: bytes, value: V | Cell[V]) -> None:
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
        cell: Cell[V]  # Cell[V](…) would cost more than all the rest
        if isinstance(found, Assignment):
            cell = Cell(self._step)
            cell.assign(found.mark, found.index, found.value)
        else:
            cell = Cell(self._step, found)
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

    def assign(self, mark: Mark, index: int, field: bytes, value: float) -> None:
        if self._index is None:
            super().assign(mark, index, field, value)
        else:
            self._assign(mark, index, field, value)

    def _leaves(self, field: bytes, cell: Cell[float]) -> None:
        if self._index is not None and cell.value is not None:
            del self._index[bisect_left(self._index, (cell.value, field))]

    def _comes(self, field: bytes, cell: Cell[float]) -> None:
        super()._comes(field, cell)
        if self._index is not None and cell.value is not None:
            insort(self._index, (cell.value, field))

    def _rebuilt(self) -> None:
        self._index = None
