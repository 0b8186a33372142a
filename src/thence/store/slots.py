"""What is held of one key, and the keys of one database.

Kinds of one key are independent states; visible is the first that has content, in the order string, hash,
sorted set, set. A key that is a string, all of it stable, is a value in its database's dictionary; one that
was set without a deadline and has nothing else that is not stable is an `Assigned`; an integer of which
nothing but increments is not stable is a `Counted`; any other is a `Slot`.
Deadlines are in a dictionary of their own.

Invariant: an `Assigned` has no entry among the deadlines: its SETs are all that was ever stated of it and is
not stable, and they say that it does not expire. Nor has a `Counted`, of which nothing was ever stated.
`Database.slot` makes of either what tells the same at length.
"""

from collections import deque
from collections.abc import Iterator

from thence.core.machine import NEVER
from thence.crdt.cell import Cell
from thence.crdt.cells import CellMap, ScoreMap
from thence.crdt.deadline import Deadline
from thence.crdt.mark import Mark
from thence.crdt.numbers import Value
from thence.crdt.sets import AddWinsSet, Elements, RemoveWinsSet
from thence.crdt.steps import INCR, string_step
from thence.store import ops
from thence.store.ops import Part
from thence.store.scan import ScanIndex

SPAN_MAX = 1 << 62
"""Sums of increments are far from where Redis refuses them."""

State = Value | CellMap[Value] | ScoreMap | Elements
"""What a command sees of a key."""


class Slot:
    __slots__ = ("hash", "set", "string", "zset")

    def __init__(self) -> None:
        self.string: Cell[Value] | Value | None = None
        self.hash: CellMap[Value] | None = None
        self.zset: ScoreMap | None = None
        self.set: Elements | None = None

    def visible(self) -> State | None:
        """None: there is nothing to be seen."""
        string = self.string
        if string is not None:
            value = string.value if isinstance(string, Cell) else string
            if value is not None:
                return value
        if (fields := self.hash) is not None and fields.data:
            return fields
        if (scores := self.zset) is not None and scores.data:
            return scores
        elements = self.set
        if type(elements) is AddWinsSet:
            return elements if elements.data else None
        return elements or None

    def kinds(self) -> list[tuple[str, State]]:
        """All that have content, the visible one first."""
        string = self.string.value if isinstance(self.string, Cell) else self.string
        found: list[tuple[str, State]] = [] if string is None else [("string", string)]
        if self.hash:
            found.append(("hash", self.hash))
        if self.zset:
            found.append(("zset", self.zset))
        if self.set:
            found.append(("set", self.set))
        return found

    def reset(self, mark: Mark, keeps_removes: bool) -> None:
        if isinstance(self.string, Cell):
            self.string.reset(mark)
        else:
            self.string = None
        if self.hash is not None:
            self.hash.reset(mark)
        if self.zset is not None:
            self.zset.reset(mark)
        if self.set is not None:
            self.set.reset(mark, keeps_removes)
        self.tidy()

    def forget(self, mark: Mark, index: int, part: Part) -> None:
        """An update has no effect any more."""
        code, stamp = part[0], mark.at(index)
        if code == ops.UPDATE and isinstance(self.string, Cell):
            self.string.forget(stamp)
        elif code == ops.SET_ADD and self.set is not None:
            for element in part[5:]:
                self.set.forget(mark, element)
        for cells, what in ((self.hash, code - ops.FIELD_SET), (self.zset, code - ops.SCORE_SET)):
            if cells is not None and what in (0, 1):
                for field in part[5:6] if what else part[5::2]:
                    cells.forget(stamp, field)
        self.tidy()

    def displace(self, mark: Mark, part: Part) -> None:
        """An update comes too late to have an effect; what it saw and replaces goes all the same, as where it
        came in time."""
        if part[0] == ops.SET_ADD and self.set is not None:
            for element in part[5:]:
                self.set.displace(mark, element)
        for cells, code in ((self.hash, ops.FIELD_SET), (self.zset, ops.SCORE_SET)):
            if cells is not None and part[0] == code:
                for field in part[5::2]:
                    cells.remove(mark, field)
        self.tidy()

    def tidy(self) -> None:
        if isinstance(self.string, Cell) and self.string.empty:
            self.string = None
        if self.hash is not None and self.hash.empty:
            self.hash = None
        if self.zset is not None and self.zset.empty:
            self.zset = None
        if self.set is not None and self.set.empty:
            self.set = None

    def strip(self, part: Part) -> None:
        """This part is stable."""
        code = part[0]
        if code <= ops.UPDATE:
            if isinstance(self.string, Cell) and self.string.strip():
                self.string = self.string.base
        elif code < ops.SET_ADD:
            pass
        elif code <= ops.SET_REMOVE:
            if self.set is not None:
                self.set.strip(part[5:])
                if self.set.empty:  # where removes win
                    self.set = None
        else:
            hashes = code <= ops.FIELD_REMOVE
            cells: CellMap[Value] | ScoreMap | None = self.hash if hashes else self.zset
            if cells is not None:
                what = code - (ops.FIELD_SET if hashes else ops.SCORE_SET)
                cells.strip(part[5::2] if what == 0 else part[5:6] if what == 1 else part[5:])

    @property
    def empty(self) -> bool:
        return self.string is None and self.hash is None and self.zset is None and self.set is None

    @property
    def plain(self) -> bool:
        """A string, all of it stable, and nothing else."""
        return self.hash is None and self.zset is None and self.set is None and type(self.string) is not Cell


class Assigned:
    """A string whose content is that of one SET without a deadline, which is not stable: what most keys are
    that are written often. `before`: earlier ones that are not stable either, each of which the next one saw;
    they are statements that the key does not expire."""

    __slots__ = ("before", "index", "mark", "value")

    def __init__(self, mark: Mark, index: int, value: Value) -> None:
        self.mark = mark
        self.index = index
        self.value = value
        self.before: deque[Mark] | None = None


class Counted:
    """An integer and increments of it that are not stable. They are so small that their order does not
    matter: each is folded into the base when it is stable, whatever is before it."""

    __slots__ = ("base", "span", "updates", "value")

    def __init__(self, base: int | None) -> None:
        self.base = base
        self.value = base or 0
        self.updates: list[tuple[Mark, int, int]] = []
        """Index in the operation, and by how much."""
        self.span = abs(self.value)
        """No sum of some of them is larger."""

    def add(self, mark: Mark, index: int, by: int) -> bool:
        """Whether it has a place here."""
        span = self.span + abs(by)
        if span > SPAN_MAX:
            return False
        self.span = span
        self.value += by
        self.updates.append((mark, index, by))
        return True

    def settled(self, mark: Mark) -> bool:
        """One increment of this operation is stable. Whether all are."""
        updates = self.updates
        for at, (one, _, by) in enumerate(updates):
            if one is mark:
                self.base = (self.base or 0) + by
                del updates[at]
                break
        return not updates

    def cell(self) -> Cell[Value]:
        """What tells the same at length."""
        cell: Cell[Value] = Cell(string_step, self.base)
        for mark, index, by in self.updates:
            cell.update(mark, index, (INCR, by))
        return cell


def visible(found: Value | Assigned | Counted | Slot) -> State | None:
    """What a command sees of what is held."""
    if isinstance(found, Slot):
        return found.visible()
    return found.value if isinstance(found, (Assigned, Counted)) else found


def moment(deadline: int | Deadline | None) -> int:
    if deadline is None:
        return NEVER
    return deadline if isinstance(deadline, int) else deadline.value()


class Database:
    __slots__ = ("deadlines", "keys", "scan")

    def __init__(self) -> None:
        self.keys: dict[bytes, Value | Assigned | Counted | Slot] = {}
        self.deadlines: dict[bytes, int | Deadline] = {}
        self.scan = ScanIndex()

    def deadline(self, key: bytes) -> int:
        return moment(self.deadlines.get(key))

    def get(self, key: bytes, now: int) -> State | None:
        """What a command sees at this time."""
        found = self.keys.get(key)
        if found is None or (key in self.deadlines and self.deadline(key) <= now):
            return None
        return visible(found)

    def has(self, key: bytes, elements: list[bytes]) -> bool:
        """Is there a set with all of these?"""
        found = self.keys.get(key)
        members = found.visible() if isinstance(found, Slot) else None
        return isinstance(members, AddWinsSet | RemoveWinsSet) and all(one in members for one in elements)

    def assign(self, mark: Mark, index: int, key: bytes, value: Value) -> bool:
        """A SET without a deadline, if that is all that there is about the key; else False, and nothing is
        changed."""
        if key in self.deadlines:
            return False
        keys = self.keys
        found = keys.get(key)
        if isinstance(found, Assigned):
            if found.mark is mark or not found.mark.precedes(mark):
                return False
            if found.before is None:
                found.before = deque()
            found.before.append(found.mark)
            found.mark, found.index, found.value = mark, index, value
            return True
        if isinstance(found, (Slot, Counted)):
            return False
        if found is None:
            self.scan.add(key)
        keys[key] = Assigned(mark, index, value)
        return True

    def count(self, mark: Mark, index: int, key: bytes, by: int, fresh: int) -> bool:
        """An increment, if all that there is about the key is an integer, and increments; else False, and
        nothing is changed."""
        keys = self.keys
        found = keys.get(key)
        if type(found) is Counted:
            return not fresh and found.add(mark, index, by)
        if key in self.deadlines or not (found is None or (type(found) is int and not fresh)):
            return False
        made = Counted(found)
        if not made.add(mark, index, by):
            return False
        if found is None:
            self.scan.add(key)
        keys[key] = made
        return True

    def visible(self, now: int) -> Iterator[bytes]:
        for key in self.keys:
            if self.get(key, now) is not None:
                yield key

    def slot(self, key: bytes) -> Slot:
        """To be changed."""
        found = self.keys.get(key)
        if isinstance(found, Slot):
            return found
        slot = Slot()
        if found is None:
            self.scan.add(key)
        elif isinstance(found, Assigned):
            cell = slot.string = Cell(string_step)
            cell.assign(found.mark, found.index, found.value)
            statements = self.deadlines[key] = Deadline()
            for mark in (*(found.before or ()), found.mark):
                statements.state(mark, NEVER)
        elif isinstance(found, Counted):
            slot.string = found.cell()
        else:
            slot.string = found
        self.keys[key] = slot
        return slot

    def changing(self, key: bytes) -> Value | Slot | None:
        """What there is of a key, ready for something else than an assignment."""
        found = self.keys.get(key)
        return self.slot(key) if isinstance(found, (Assigned, Counted)) else found

    def statements(self, key: bytes) -> Deadline:
        """To be changed."""
        self.changing(key)
        found = self.deadlines.get(key)
        if isinstance(found, Deadline):
            return found
        made = self.deadlines[key] = Deadline(found)
        return made

    def settled(self, mark: Mark, key: bytes, part: Part) -> None:
        """This part of an operation is stable."""
        found = self.keys.get(key)
        if isinstance(found, Assigned):
            if found.mark is mark:
                self.keys[key] = found.value
            elif found.before and found.before[0] is mark:
                found.before.popleft()
            return
        if isinstance(found, Counted):
            if found.settled(mark):
                self.keys[key] = found.value
            return
        if isinstance(found, Slot):
            found.strip(part)
            if found.set is None and found.hash is None and found.zset is None:
                self.settle(key)
        if key in self.deadlines:
            self.settled_statements(key)

    def settled_statements(self, key: bytes) -> None:
        statements = self.deadlines.get(key)
        if isinstance(statements, Deadline) and (base := statements.strip()) is not None:
            if base == NEVER:
                del self.deadlines[key]
            else:
                self.deadlines[key] = base

    def settle(self, key: bytes) -> None:
        """A key of which nothing is left goes; a string that is stable is its value alone."""
        slot = self.keys.get(key)
        if not isinstance(slot, Slot):
            return
        if slot.empty:
            del self.keys[key]
            self.scan.remove(key)
        elif slot.plain:
            assert isinstance(slot.string, bytes | int)
            self.keys[key] = slot.string
