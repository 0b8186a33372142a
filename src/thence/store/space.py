"""The key space: what operations on keys leave behind at one replica.

Kinds of one key are independent states; visible is the first that has content, in the order string, hash,
sorted set, set. A key that is a string, all of it stable, is a value in its database's dictionary; any other
is a `Slot`. Deadlines are in a dictionary of their own.

Invariants. Operations are applied in causal order, and marks become stable causes first. Nothing here depends
on a clock: a deadline that is past hides a key from commands (`exists`), and only a reap removes it.
`flight` names the keys that each unstable operation touched: what is to be looked at when it is stable.
"""

from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from typing import Final

from thence.crdt.cell import Cell
from thence.crdt.cells import CellMap, ScoreMap
from thence.crdt.deadline import NEVER, Deadline
from thence.crdt.mark import Mark
from thence.crdt.numbers import Value
from thence.crdt.sets import AddWinsSet, Elements, RemoveWinsSet
from thence.crdt.steps import score_step, string_step
from thence.store import ops
from thence.store.ops import Part
from thence.store.scan import ScanIndex

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
        if self.hash:
            return self.hash
        if self.zset:
            return self.zset
        return self.set or None

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
        if code in (ops.SET, ops.UPDATE):
            if isinstance(self.string, Cell) and self.string.strip():
                self.string = self.string.base
        elif code in (ops.SET_ADD, ops.SET_REMOVE):
            if self.set is not None:
                self.set.strip(part[5:])
        else:
            for cells, first in ((self.hash, ops.FIELD_SET), (self.zset, ops.SCORE_SET)):
                if cells is not None and first <= code <= first + 2:
                    cells.strip(part[5::2] if code == first else part[5:6] if code == first + 1 else part[5:])
        self.tidy()

    @property
    def empty(self) -> bool:
        return self.string is None and self.hash is None and self.zset is None and self.set is None

    @property
    def plain(self) -> bool:
        """A string, all of it stable, and nothing else."""
        return self.hash is None and self.zset is None and self.set is None and type(self.string) is not Cell


class Database:
    __slots__ = ("deadlines", "keys", "scan")

    def __init__(self) -> None:
        self.keys: dict[bytes, Value | Slot] = {}
        self.deadlines: dict[bytes, int | Deadline] = {}
        self.scan = ScanIndex()

    def deadline(self, key: bytes) -> int:
        found = self.deadlines.get(key)
        if found is None:
            return NEVER
        return found if isinstance(found, int) else found.value()

    def get(self, key: bytes, now: int) -> State | None:
        """What a command sees at this time."""
        found = self.keys.get(key)
        if found is None or (key in self.deadlines and self.deadline(key) <= now):
            return None
        return found.visible() if isinstance(found, Slot) else found

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
        else:
            slot.string = found
        self.keys[key] = slot
        return slot

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


class Space:
    def __init__(self, remove_wins: bool = False) -> None:
        self.databases: Final = tuple(Database() for _ in range(ops.DATABASES))
        self.remove_wins: Final = remove_wins
        self.flight: dict[Mark, list[tuple[int, bytes, int, Part | None]]] = {}
        """Unstable operations: database, key, index and the part itself; None, where a flush or a reap
        concerned the key."""
        self.reaps: list[tuple[int, Mark]] = []
        """Not stable."""
        self.due: list[tuple[int, int, bytes]] = []
        """A heap of deadlines, whether or not they still hold."""
        self.lingering: dict[tuple[int, bytes], None] = {}
        """Keys that have left the heap and whose statements a reap may still go by."""
        self.watched: dict[tuple[int, bytes], list[Callable[[], None]]] = {}
        self.reaped = 0

    # Effects

    def apply(self, mark: Mark, parts: Sequence[Part], first: int = 0) -> None:
        for index, part in enumerate(parts, first):
            code = part[0]
            if code == ops.FLUSH:
                self._flush(mark, part[1])
            elif code == ops.REAP:
                self._reap(mark, part[5])
            else:
                self._apply(mark, index, part)

    def _apply(self, mark: Mark, index: int, part: Part) -> None:
        code, number, key, fresh, bound = part[:5]
        database = self.databases[number]
        touched = self.flight.get(mark)
        if touched is None:
            touched = self.flight[mark] = []
        touched.append((number, key, index, part))
        if self.watched:
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
        elif code in (ops.SET_ADD, ops.SET_REMOVE):
            elements = slot.set
            if elements is None:
                elements = slot.set = RemoveWinsSet() if self.remove_wins else AddWinsSet()
            change = elements.add if code == ops.SET_ADD else elements.remove
            for element in part[5:]:
                change(mark, element)
        elif code in (ops.FIELD_SET, ops.FIELD_UPDATE, ops.FIELD_REMOVE):
            if slot.hash is None:
                slot.hash = CellMap(string_step)
            _change(slot.hash, mark, index, code - ops.FIELD_SET, part)
        else:
            if slot.zset is None:
                slot.zset = ScoreMap(score_step)
            _change(slot.zset, mark, index, code - ops.SCORE_SET, part)
        slot.tidy()
        if slot.empty:
            database.settle(key)

    def _reset(self, mark: Mark, database: Database, key: bytes, keeps_removes: bool) -> None:
        found = database.keys.get(key)
        if isinstance(found, Slot):
            found.reset(mark, keeps_removes)
            if found.empty:
                database.settle(key)
        elif found is not None:
            del database.keys[key]
            database.scan.remove(key)
        if key in database.deadlines:
            _statements(database, key).cover(mark)

    def _state(self, mark: Mark, number: int, key: bytes, deadline: int) -> None:
        _statements(self.databases[number], key).state(mark, deadline)
        if deadline != NEVER:
            self.expect(deadline, number, key)

    def expect(self, deadline: int, number: int, key: bytes) -> None:
        heappush(self.due, (deadline, number, key))

    def _flush(self, mark: Mark, number: int) -> None:
        """A reset of every key: what is stable goes, of what is not the part that this operation saw."""
        chosen = range(ops.DATABASES) if number == ops.ALL else (number,)
        loose = dict.fromkeys((at, key) for keys in self.flight.values() for at, key, *_ in keys)
        touched = self.flight.setdefault(mark, [])
        for each in chosen:
            database = self.databases[each]
            if self.watched:
                for key in database.keys:
                    self._tell(each, key)
            old, database.keys = database.keys, {}
            for at, key in loose:
                slot = old.get(key) if at == each else None
                if isinstance(slot, Slot):
                    slot.reset(mark, False)
                    if not slot.empty:
                        database.keys[key] = slot
            for key in database.deadlines:
                _statements(database, key).cover(mark)
                touched.append((each, key, 0, None))
            database.scan.clear()

    def _reap(self, mark: Mark, upto: int) -> None:
        """Keys whose deadline, in the past of this operation, is not above `upto` are gone, and so are
        updates that did not see this and were made under such a deadline."""
        touched = self.flight.setdefault(mark, [])
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
            statements = _statements(database, key)
            if statements.seen_by(mark) > upto:
                continue
            self.reaped += key in database.keys
            self._reset(mark, database, key, True)
            touched.append((number, key, 0, None))
            if self.watched:
                self._tell(number, key)
        for late, keys in self.flight.items():
            if late.precedes(mark):
                continue
            for number, key, index, part in keys:
                slot = self.databases[number].keys.get(key)
                if part is not None and 0 < part[4] <= upto and isinstance(slot, Slot):
                    slot.forget(late, index, part)
                    self.databases[number].settle(key)

    # Stability

    def stabilise(self, mark: Mark) -> None:
        """Whatever is delivered from now on follows from this operation, and from what it follows from."""
        mark.stable = True
        for number, key, _, part in self.flight.pop(mark, ()):
            database = self.databases[number]
            slot = database.keys.get(key)
            if isinstance(slot, Slot) and part is not None:
                slot.strip(part)
                database.settle(key)
            statements = database.deadlines.get(key)
            if isinstance(statements, Deadline) and (base := statements.strip()) is not None:
                if base == NEVER:
                    del database.deadlines[key]
                else:
                    database.deadlines[key] = base
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

    def _tell(self, number: int, key: bytes) -> None:
        for each in self.watched.get((number, key), ()):
            each()


def _statements(database: Database, key: bytes) -> Deadline:
    found = database.deadlines.get(key)
    if isinstance(found, Deadline):
        return found
    made = database.deadlines[key] = Deadline(found)
    return made


def _change(cells: CellMap[Value] | ScoreMap, mark: Mark, index: int, what: int, part: Part) -> None:
    if what == 0:
        for at in range(5, len(part), 2):
            cells.assign(mark, index, part[at], part[at + 1])
    elif what == 1:
        cells.update(mark, index, part[5], part[6])
    else:
        for field in part[5:]:
            cells.remove(mark, field)
