"""Stages: a part that is in one of a few states says so by an enum, and a table says what may follow what.

The table stands at the head of the module that owns it, and the part changes its stage through it alone. A
change that the table lacks is a bug, and stops the node. `scripts/stages.py` writes the diagrams in `docs/`
from the same tables.
"""

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Final, Generic, NamedTuple, TypeVar

from thence.core.errors import InvariantError


class Stage(Enum):
    """Base of the enums. The value of a member is its word for people; what it means is the docstring
    below it."""

    __hash__ = object.__hash__  # the one of Enum costs a call in Python, and members are never equal copies


S = TypeVar("S", bound=Stage)


class Transition(NamedTuple, Generic[S]):
    before: S
    cause: str
    after: S


class Transitions(Generic[S]):
    """The table of one enum. Rows are (before, cause, after), where `before` may be several stages. One
    cause leads from a stage to one other, so a table is a function of both."""

    __slots__ = ("_after", "_follows", "first", "rows", "title")

    def __init__(
        self, title: str, first: S | tuple[S, ...], rows: Iterable[tuple[S | tuple[S, ...], str, S]]
    ) -> None:
        """`first`: where a part may begin."""
        self.title: Final = title
        self.first: Final = first if isinstance(first, tuple) else (first,)
        self.rows: Final = tuple(_spelled(rows))
        self._after = {(row.before, row.cause): row.after for row in self.rows}
        self._follows = {(row.before, row.after) for row in self.rows}
        if len(self._after) < len(self.rows):
            raise InvariantError(f"{title}: one cause leads from one stage to two")

    def move(self, before: S, after: S) -> S:
        """`after`, if that may follow. To stay is a transition as any other: the table has it or not."""
        if (before, after) not in self._follows:
            raise InvariantError(f"{self.title}: {after.value} does not follow {before.value}")
        return after

    def after(self, before: S, cause: str) -> S:
        """Where a cause leads."""
        found = self._after.get((before, cause))
        if found is None:
            raise InvariantError(f"{self.title}: {cause!r} means nothing to one that is {before.value}")
        return found

    def may_follow(self, before: S, after: S) -> bool:
        return (before, after) in self._follows

    @property
    def stages(self) -> tuple[S, ...]:
        """All of the enum, whether the table has them or not."""
        return tuple(type(self.first[0]))

    def unreached(self) -> list[S]:
        """Stages that no way leads to: there should be none."""
        found = dict.fromkeys(self.first)
        while more := {
            row.after: None for row in self.rows if row.before in found and row.after not in found
        }:
            found |= more
        return [stage for stage in self.stages if stage not in found]


def _spelled(rows: Iterable[tuple[S | tuple[S, ...], str, S]]) -> Iterator[Transition[S]]:
    for before, cause, after in rows:
        for one in before if isinstance(before, tuple) else (before,):
            yield Transition(one, cause, after)
