"""What a store must show, as a function of the operations that were delivered and of happens-before: nothing
here knows of an order of arrival, of stability or of what a replica keeps."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from thence.core.machine import NEVER
from thence.crdt.steps import score_step, string_step
from thence.store import ops
from thence.store.ops import Part

Id = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Op:
    id: Id
    time: int
    past: frozenset[Id]
    parts: list[Part]


@dataclass(frozen=True, slots=True, eq=False)
class Effect:
    """One part of an operation."""

    op: Op
    index: int

    @property
    def part(self) -> Part:
        return self.op.parts[self.index]

    @property
    def code(self) -> int:
        code: int = self.part[0]
        return code

    @property
    def stamp(self) -> tuple[int, str, int]:
        return self.op.time, self.op.id[0], self.index

    def before(self, other: "Effect") -> bool:
        if self.op is other.op:
            return self.index < other.index
        return self.op.id in other.op.past


class Model:
    """Of one key, given all effects that were delivered."""

    def __init__(self, delivered: Iterable[Op], database: int, key: bytes, remove_wins: bool) -> None:
        self._remove_wins = remove_wins
        everything = [Effect(op, index) for op in delivered for index in range(len(op.parts))]
        self._reaps = [one for one in everything if one.code == ops.REAP]
        self._here = [
            one for one in everything
            if one.code == ops.REAP
            or (one.code == ops.FLUSH and one.part[1] in (ops.ALL, database))
            or (one.code not in (ops.REAP, ops.FLUSH) and one.part[1] == database and one.part[2] == key)
        ]  # fmt: skip

    def _covers(self, later: Effect, one: Effect) -> bool:
        """Does the later effect remove what the earlier one left, as far as the key is concerned?"""
        if not one.before(later):
            return False
        if later.code == ops.REAP:
            if one.code == ops.SET_REMOVE:
                return False
            past = [each for each in self._here if each.before(later)]
            return bool(_deadline(self, past) <= later.part[5])
        if later.code == ops.DELETE:
            return not (one.code == ops.SET_REMOVE and later.part[5])
        return later.code in (ops.SET, ops.FLUSH) or bool(later.part[3])

    def _live(self, among: list[Effect], one: Effect) -> bool:
        return not any(self._covers(later, one) for later in among)

    def _dead(self, one: Effect) -> bool:
        """Made under a deadline that has passed, for a reap that it did not see and that did not see it."""
        return any(
            0 < one.part[4] <= reap.part[5] and not reap.before(one) and not one.before(reap)
            for reap in self._reaps
        )

    def deadline(self) -> int:
        return _deadline(self, self._here)

    def _cell(self, assigns: list[Effect], updates: list[Effect], removes: list[Effect],
              values: dict[Effect, Any], step: Any) -> Any:  # fmt: skip
        live = [
            one for one in [*assigns, *updates]
            if self._live(self._here, one) and not self._dead(one)
            and not any(one.before(later) for later in [*assigns, *removes])
        ]  # fmt: skip
        candidates = [one for one in live if one in assigns]
        value = values[max(candidates, key=lambda one: one.stamp)] if candidates else None
        for one in sorted([one for one in live if one in updates], key=lambda one: one.stamp):
            value = step(value, values[one])
        return value

    def string(self) -> Any:
        assigns = [one for one in self._here if one.code == ops.SET]
        updates = [one for one in self._here if one.code == ops.UPDATE]
        values = {one: one.part[5] for one in [*assigns, *updates]}
        return self._cell(assigns, updates, [], values, string_step)

    def cells(self, first: int) -> dict[bytes, Any]:
        """A hash or a sorted set, by the first of its codes."""
        found = {}
        step = string_step if first == ops.FIELD_SET else score_step
        sets = [one for one in self._here if one.code == first]
        updates = [one for one in self._here if one.code == first + 1]
        removes = [one for one in self._here if one.code == first + 2]
        names = {name for one in sets for name in one.part[5::2]} | {one.part[5] for one in updates}
        for name in sorted(names):
            assigns = [one for one in sets if name in one.part[5::2]]
            changes = [one for one in updates if one.part[5] == name]
            values = {one: one.part[6 + one.part[5::2].index(name) * 2] for one in assigns}
            values |= {one: one.part[6] for one in changes}
            value = self._cell(
                assigns, changes, [one for one in removes if name in one.part[5:]], values, step
            )
            if value is not None:
                found[name] = value
        return found

    def elements(self) -> set[bytes]:
        adds = [one for one in self._here if one.code == ops.SET_ADD]
        removes = [one for one in self._here if one.code == ops.SET_REMOVE]
        found = set()
        for element in {each for one in adds for each in one.part[5:]}:
            mine = [one for one in adds if element in one.part[5:]]
            dead = [one for one in mine if self._dead(one)]
            live = [
                one for one in mine
                if self._live(self._here, one) and one not in dead
                and not any(one.before(later) for later in dead)
            ]  # fmt: skip
            gone = [one for one in removes if element in one.part[5:]]
            if self._remove_wins:
                gone = [one for one in gone if self._live(self._here, one)]
                live = [one for one in live if all(each.before(one) for each in gone)]
            else:
                live = [one for one in live if not any(one.before(later) for later in gone)]
            if live:
                found.add(element)
        return found


def _deadline(model: Model, among: list[Effect]) -> int:
    statements = [one for one in among if one.code in (ops.SET, ops.STATE)]
    left = [
        one for one in statements
        if model._live(among, one) and not any(one.before(later) for later in statements)
    ]  # fmt: skip
    return max([one.part[6 if one.code == ops.SET else 5] for one in left], default=NEVER)
