"""The key space: what operations on keys leave behind at one replica.

Invariants. Operations are applied in causal order, and marks become stable causes first. Nothing here depends
on a clock: a deadline that is past hides a key from commands (`exists`), and only a reap removes it.
`flight` has the parts of each unstable operation, and `swept` the keys that its flush or reap concerned: what
is to be looked at when it is stable.
"""

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import Final, Protocol

from thence.core.machine import NEVER
from thence.crdt.cell import Cell
from thence.crdt.cells import CellMap, ScoreMap
from thence.crdt.mark import Mark
from thence.crdt.numbers import Value
from thence.crdt.sets import AddWinsSet, RemoveWinsSet
from thence.crdt.steps import INCR, score_step, string_step
from thence.store import ops
from thence.store.ops import Part
from thence.store.slots import Assigned, Database, Slot


class Keeps(Protocol):
    """Looks at keys before they change: a state in the making."""

    def keep(self, number: int, key: bytes) -> None: ...


class Space:
    def __init__(self, remove_wins: bool = False) -> None:
        self.databases: Final = tuple(Database() for _ in range(ops.DATABASES))
        self.remove_wins: Final = remove_wins
        self.flight: dict[Mark, list[Part]] = {}
        """Unstable operations: their parts."""
        self.swept: dict[Mark, list[tuple[int, bytes]]] = {}
        """Of those that flush or reap: databases and keys that had a deadline."""
        self.reaps: list[tuple[int, Mark]] = []
        """Not stable."""
        self.due: list[tuple[int, int, bytes]] = []
        """A heap of deadlines, whether or not they still hold."""
        self.lingering: dict[tuple[int, bytes], None] = {}
        """Keys that have left the heap and whose statements a reap may still go by."""
        self.copies: list[Keeps] = []
        self.watched: dict[tuple[int, bytes], list[Callable[[], None]]] = {}
        self.reaped = 0
        self.returned: dict[str, int] = {}
        """Of incarnations that were evicted: up to where their process has made something of operations that
        the group never had."""

    # Effects

    def apply(self, mark: Mark, parts: list[Part]) -> None:
        """An operation, whole."""
        self.flight[mark] = parts
        if len(parts) == 1:  # as most have
            self._apply(mark, 0, parts[0])
            return
        for index, part in enumerate(parts):
            self._apply(mark, index, part)

    def add(self, mark: Mark, part: Part) -> None:
        """The next part of an operation that is being made, which has one."""
        parts = self.flight[mark]
        parts.append(part)
        self._apply(mark, len(parts) - 1, part)

    def _apply(self, mark: Mark, index: int, part: Part) -> None:
        code, number, key = part[0], part[1], part[2]
        if self.copies:
            self._keep(number, key)
        if code == ops.SET and part[6] == NEVER and not self.watched:
            if self.databases[number].assign(mark, index, key, part[5]):
                return
        elif code == ops.FLUSH:
            self._flush(mark, number)
            return
        elif code == ops.REAP:
            self._reap(mark, part[5])
            return
        elif code == ops.RETURNED:
            life = key.decode()
            self.returned[life] = max(self.returned.get(life, 0), part[5])
            return
        database, fresh, bound = self.databases[number], part[3], part[4]
        if code >= ops.SET_ADD and not (fresh or bound or self.watched):
            self._content(mark, index, database, key, code, part)
            return
        if code == ops.UPDATE and part[5][0] == INCR and not (bound or self.watched):  # noqa: SIM102
            if database.count(mark, index, key, part[5][1], fresh):
                return
        if self.watched and not (code == ops.SET_ADD and database.has(key, part[5:])):
            self._tell(number, key)
        if bound and any(upto >= bound and not reap.precedes(mark) for upto, reap in self.reaps):
            if isinstance(slot := database.keys.get(key), Slot):  # what it was made under is past, and gone
                slot.displace(mark, part)
                database.settle(key)
            return
        if fresh:
            self._reset(mark, database, key, False)
        if code == ops.SET:
            self._assign(mark, index, database, key, part[5])
            self._state(mark, number, key, part[6])
        elif code == ops.DELETE:
            self._reset(mark, database, key, bool(part[5]))
        elif code == ops.STATE:
            self._state(mark, number, key, part[5])
        else:
            self._content(mark, index, database, key, code, part)

    def _assign(self, mark: Mark, index: int, database: Database, key: bytes, value: Value) -> None:
        slot = database.slot(key)
        if not slot.plain:
            slot.reset(mark, False)
        cell = slot.string
        if not isinstance(cell, Cell):
            cell = slot.string = Cell(string_step)
        cell.assign(mark, index, value)

    def _content(self, mark: Mark, index: int, database: Database, key: bytes, code: int, part: Part) -> None:
        slot = database.slot(key)
        if code == ops.UPDATE:
            cell = slot.string
            if not isinstance(cell, Cell):
                cell = slot.string = Cell(string_step, cell)
            cell.update(mark, index, part[5])
        elif code <= ops.SET_REMOVE:
            elements = slot.set
            if elements is None:
                elements = slot.set = RemoveWinsSet() if self.remove_wins else AddWinsSet()
            change = elements.add if code == ops.SET_ADD else elements.remove
            if len(part) == 6:
                change(mark, part[5])
            else:
                for element in part[5:]:
                    change(mark, element)
        elif code <= ops.FIELD_REMOVE:
            if slot.hash is None:
                slot.hash = CellMap(string_step)
            _change(slot.hash, mark, index, code - ops.FIELD_SET, part)
        else:
            if slot.zset is None:
                slot.zset = ScoreMap(score_step)
            _change(slot.zset, mark, index, code - ops.SCORE_SET, part)
        if code in ops.REMOVES:
            slot.tidy()
            if slot.empty:
                database.settle(key)

    def _reset(self, mark: Mark, database: Database, key: bytes, keeps_removes: bool) -> None:
        found = database.changing(key)
        if isinstance(found, Slot):
            found.reset(mark, keeps_removes)
            if found.empty:
                database.settle(key)
        elif found is not None:
            del database.keys[key]
            database.scan.remove(key)
        if key in database.deadlines:
            database.statements(key).cover(mark)

    def _state(self, mark: Mark, number: int, key: bytes, deadline: int) -> None:
        self.databases[number].statements(key).state(mark, deadline)
        if deadline != NEVER:
            self.expect(deadline, number, key)

    def expect(self, deadline: int, number: int, key: bytes) -> None:
        heappush(self.due, (deadline, number, key))

    def _flush(self, mark: Mark, number: int) -> None:
        """A reset of every key: what is stable goes, of what is not the part that this operation saw."""
        chosen = range(ops.DATABASES) if number == ops.ALL else (number,)
        loose = dict.fromkeys((part[1], part[2]) for parts in self.flight.values() for part in parts)
        touched = self.swept.setdefault(mark, [])
        for each in chosen:
            database = self.databases[each]
            if self.watched:
                for key in database.keys:
                    self._tell(each, key)
            for at, key in loose:
                if at == each:
                    self._keep(at, key)
                    database.changing(key)
            if self.copies:
                for key in database.deadlines:
                    self._keep(each, key)
            old, database.keys = database.keys, {}
            for at, key in loose:
                slot = old.get(key) if at == each else None
                if isinstance(slot, Slot):
                    slot.reset(mark, False)
                    if not slot.empty:
                        database.keys[key] = slot
            for key in database.deadlines:
                database.statements(key).cover(mark)
                touched.append((each, key))
            database.scan.clear()

    def _reap(self, mark: Mark, upto: int) -> None:
        """Keys whose deadline, in the past of this operation, is not above `upto` are gone, and so are
        updates that did not see this and were made under such a deadline."""
        touched = self.swept.setdefault(mark, [])
        self.reaps.append((upto, mark))
        while self.due and self.due[0][0] <= upto:
            _, number, key = heappop(self.due)
            self.lingering[number, key] = None
        for number, key in list(self.lingering):
            database = self.databases[number]
            found = database.deadlines.get(key)
            if found is None:
                del self.lingering[number, key]
                continue
            self._keep(number, key)
            if database.statements(key).seen_by(mark) > upto:
                continue
            self.reaped += key in database.keys
            self._reset(mark, database, key, True)
            touched.append((number, key))
            if self.watched:
                self._tell(number, key)
        for late, parts in self.flight.items():
            if late.precedes(mark):
                continue
            for index, part in enumerate(parts):
                if 0 < part[4] <= upto:
                    database, key = self.databases[part[1]], part[2]
                    if isinstance(slot := database.keys.get(key), Slot):
                        self._keep(part[1], key)
                        slot.forget(late, index, part)
                        database.settle(key)

    # Stability

    def stabilise(self, mark: Mark) -> None:
        """Whatever is delivered from now on follows from this operation, and from what it follows from."""
        mark.stable = True
        databases = self.databases
        if self.copies:
            for part in self.flight.get(mark, ()):
                self._keep(part[1], part[2])
            for number, key in self.swept.get(mark, ()):
                self._keep(number, key)
        for part in self.flight.pop(mark, ()):
            if part[0] < ops.FLUSH:
                database, key = databases[part[1]], part[2]
                found = database.keys.get(key)
                if type(found) is Assigned and found.mark is mark:  # as `settled` would, of most
                    database.keys[key] = found.value
                else:
                    database.settled(mark, key, part)
        if self.swept:
            for number, key in self.swept.pop(mark, ()):
                databases[number].settled_statements(key)
        if self.reaps:
            self.reaps = [one for one in self.reaps if one[1] is not mark]

    # Queries

    def overdue(self, now: int) -> bool:
        """Is there a key to be reaped?"""
        while self.due and self.due[0][0] <= now:
            deadline, number, key = self.due[0]
            database = self.databases[number]
            held = database.deadline(key)
            if held <= now and key in database.keys:
                return True
            heappop(self.due)
            if key in database.deadlines:
                self.lingering[number, key] = None
                if deadline < held < NEVER:
                    heappush(self.due, (held, number, key))
        return False

    def hidden(self) -> Iterator[tuple[int, bytes]]:
        """Keys with content of several kinds."""
        for number, database in enumerate(self.databases):
            for key, slot in database.keys.items():
                if isinstance(slot, Slot) and len(slot.kinds()) > 1:
                    yield number, key

    def _keep(self, number: int, key: bytes) -> None:
        """It is about to change."""
        if number != ops.ALL:
            for copy in self.copies:
                copy.keep(number, key)

    def _tell(self, number: int, key: bytes) -> None:
        for each in self.watched.get((number, key), ()):
            each()


def _change(cells: CellMap[Value] | ScoreMap, mark: Mark, index: int, what: int, part: Part) -> None:
    if what == 0:
        for at in range(5, len(part), 2):
            cells.assign(mark, index, part[at], part[at + 1])
    elif what == 1:
        cells.update(mark, index, part[5], part[6])
    else:
        for field in part[5:]:
            cells.remove(mark, field)
