"""The cell: one value under assignments, updates and resets; a string, a hash's field, a member's score.

Its value is what one Redis would hold after the same commands in an order that respects causality: first
everything that was overwritten or deleted, then the winning assignment, then every update that nothing has
overwritten, in the order of stamps. A step that Redis would refuse has no effect.

State: `base`, of operations that are stable; `candidates`, live assignments; `updates`, live updates in the
order of stamps. `value` is what a query gives.

Invariants: an assignment or a reset leaves nothing that it saw. Updates fold into the base from the front
only, once all before them are stable and no candidate is left: what comes later follows from what is stable,
so its stamp is greater. An empty cell has no value, and a cell with entries has one.
"""

from bisect import bisect
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from thence.crdt.mark import Mark, Stamp

V = TypeVar("V")
Update = tuple[Any, ...]
"""A code of `steps`, and its arguments."""

Step = Callable[[Any, Update], Any]
"""The value after an update."""


class Cell(Generic[V]):
    __slots__ = ("_at", "_behind", "_step", "_upto", "_value", "base", "candidates", "updates")

    def __init__(self, step: Step, base: V | None = None) -> None:
        self._step = step
        self.base = base
        self.candidates: list[tuple[Stamp, Mark, V]] = []
        self.updates: list[tuple[Stamp, Mark, Update]] = []
        self._value = base
        self._behind = False
        """`_value` is not up to date: it was not read since an update came between others."""
        self._at = 0
        self._upto = base
        """The value before the update at this place: what comes late mostly follows what came late before."""

    @property
    def value(self) -> V | None:
        if self._behind:
            value = self._upto
            for _, _, update in self.updates[self._at :]:
                value = self._step(value, update)
            self._value = value
            self._behind = False
        return self._value

    @property
    def empty(self) -> bool:
        return self.base is None and not self.candidates and not self.updates

    def reset(self, mark: Mark) -> None:
        """What this operation saw is gone."""
        self.base = None
        if self.candidates:
            self.candidates = [one for one in self.candidates if not one[1].precedes(mark)]
        if self.updates:
            self.updates = [one for one in self.updates if not one[1].precedes(mark)]
        self.restart()

    def assign(self, mark: Mark, index: int, value: V) -> None:
        if self.candidates or self.updates:
            self.reset(mark)
            self.candidates.append((mark.at(index), mark, value))
            self.restart()
        else:  # most of them
            self.base = None
            self.candidates.append((mark.at(index), mark, value))
            self._at, self._upto, self._value, self._behind = 0, value, value, False

    def update(self, mark: Mark, index: int, update: Update) -> None:
        stamp, updates = mark.at(index), self.updates
        if not updates or updates[-1][0] < stamp:
            updates.append((stamp, mark, update))
            if not self._behind:
                self._value = self._step(self._value, update)
            return
        place = bisect(updates, stamp, key=_stamp)
        if place < self._at:
            self.restart()
        for _, _, each in updates[self._at : place]:
            self._upto = self._step(self._upto, each)
        self._at, self._behind = place, True
        updates.insert(place, (stamp, mark, update))

    def forget(self, stamp: Stamp) -> None:
        """What was delivered with this stamp has no effect any more; what it replaced stays replaced."""
        self.candidates = [one for one in self.candidates if one[0] != stamp]
        self.updates = [one for one in self.updates if one[0] != stamp]
        self.restart()

    def strip(self) -> bool:
        """Something in here is stable. Whether all of it is: then the base is all that is left."""
        if self.candidates:
            best = max(self.candidates, key=_stamp)
            self.candidates = [one for one in self.candidates if one is best or not one[1].stable]
            if len(self.candidates) > 1 or not best[1].stable:
                return False
            self.base = best[2]
            self.candidates = []
        done = 0
        for _, mark, update in self.updates:
            if not mark.stable:
                break
            self.base = self._step(self.base, update)
            done += 1
        if done:
            del self.updates[:done]
            if self._at >= done:
                self._at -= done
            else:
                self._at, self._upto = 0, self.base
        return not self.updates

    def values(self) -> list[V]:
        """Concurrent assignments, the winner first."""
        return [one[2] for one in sorted(self.candidates, key=_stamp, reverse=True)]

    def restart(self) -> None:
        """The value is to be found from the first update on."""
        value = self.base
        if self.candidates:
            value = max(self.candidates, key=_stamp)[2]
        self._at, self._upto = 0, value
        self._value, self._behind = value, bool(self.updates)


def _stamp(entry: tuple[Stamp, Mark, Any]) -> Stamp:
    return entry[0]
