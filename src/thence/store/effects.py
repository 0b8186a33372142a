"""What commands do to keys: each part of an operation takes effect here at once, and travels.

All parts of one command or transaction are one operation, and share its mark; `end` makes its bytes, which
wait in `outbox` to be broadcast.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from thence.core.groups import Place
from thence.core.machine import NEVER
from thence.crdt import steps
from thence.crdt.cells import CellMap, ScoreMap
from thence.crdt.mark import Mark
from thence.crdt.numbers import Value
from thence.store import ops
from thence.store.ops import Part
from thence.store.reply import Fail
from thence.store.slots import State
from thence.store.state import StoreState

CONTENT: Final = frozenset(
    {ops.UPDATE, ops.SET_ADD, ops.FIELD_SET, ops.FIELD_UPDATE, ops.SCORE_SET, ops.SCORE_UPDATE}
)
OPERATION_MAX: Final = 60 << 20
"""Bytes of one operation: what the middleware's log holds in one record, less some for its head."""


class Effects:
    def __init__(self, state: StoreState, clock_us: Callable[[], int]) -> None:
        self.state: Final = state
        self.clock_us: Final = clock_us
        self.now = clock_us() // 1000
        """Of the command or transaction that is under way, in milliseconds."""
        self.outbox: list[bytes] = []
        self.made = 0
        """So many operations."""
        self._mark: Mark | None = None
        self._size = 0

    def end(self) -> Mark | None:
        """All parts since the last time are one operation: its mark, if there are any."""
        mark = self._mark
        if mark is not None:
            self._mark, self._size = None, 0
            self.outbox.append(self.state.finish(mark))
            self.made += 1
        return mark

    def emit(self, db: int, code: int, key: bytes, *words: Any) -> None:
        """Takes effect here, and travels."""
        if code in CONTENT:
            self.add(db, code, key, self.state.space.databases[db].get(key, self.now) is None, *words)
        else:
            self._add([code, db, key, 0, 0, *words], words)

    def add(self, db: int, code: int, key: bytes, absent: bool, *words: Any) -> None:
        """`emit` of content, where it is known whether the key is there."""
        self._add([code, db, key, int(absent), self._bound(db, key, absent), *words], words)

    def assign(self, db: int, key: bytes, value: Value, until: int = NEVER) -> None:
        """A SET, takes effect here, and travels."""
        self._put([ops.SET, db, key, 0, 0, value, until], 5 + len(value) if type(value) is bytes else 9)

    def increment(self, db: int, key: bytes, by: int, absent: bool) -> None:
        """`emit` of an increment, where it is known whether the key is there."""
        bound = self._bound(db, key, absent)
        self._put([ops.UPDATE, db, key, int(absent), bound, (steps.INCR, by)], 16)

    def _bound(self, db: int, key: bytes, absent: bool) -> int:
        """The deadline that an update is made under; 0: none."""
        database = self.state.space.databases[db]
        if absent or key not in database.deadlines:
            return 0
        held = database.deadline(key)
        return held if held < NEVER else 0

    def _add(self, part: Part, words: Iterable[Any]) -> None:
        size = 0
        for word in words:
            size += len(word) + 5 if type(word) is bytes else _size(word)
        self._put(part, size)

    def _put(self, part: Part, size: int) -> None:
        size += self._size + 32 + len(part[2])
        if size > OPERATION_MAX:
            raise Fail(f"ERR an operation of more than {OPERATION_MAX} bytes")
        self._size = size
        mark = self._mark
        if mark is not None:
            self.state.space.add(mark, part)
            return
        state = self.state
        mark = self._mark = state.begin(self.now)
        state.space.apply(mark, [part])

    def delete(self, db: int, key: bytes) -> None:
        self.emit(db, ops.DELETE, key, 0)

    def emptied(self, db: int, key: bytes, was: str) -> None:
        """A command has taken elements away. If none is left to be seen the key goes, whatever it hides: else
        it would turn into something else. Removes stay, where removes win."""
        database = self.state.space.databases[db]
        found = database.get(key, self.now)
        if kind(found) != was and (found is not None or key in database.deadlines):
            self.emit(db, ops.DELETE, key, 1)

    def remove(
        self, db: int, op: int, key: bytes, kind: str, found: CellMap[Any] | None, names: list[bytes]
    ) -> int:
        """Take these away, as many as are there."""
        there = [name for name in dict.fromkeys(names) if found is not None and name in found]
        if there:
            self.emit(db, op, key, *there)
            self.emptied(db, key, kind)
        return len(there)

    def perform(self, parts: list[Part]) -> None:
        """An operation that no client asked for."""
        self.now = self.clock_us() // 1000
        for part in parts:
            self.emit(part[1], part[0], part[2], *part[5:])
        self.end()

    def send_again(self, place: Place, parts: list[Part]) -> None:
        """What `replicated.again` keeps of an operation that the group never had, unless it was sent. A SET
        with a deadline is a claim, and states that deadline where the group has nothing under its key; once
        that is past it comes to nothing."""
        origin, seq = place
        if seq <= self.state.space.returned.get(origin, 0):
            return
        self.now = self.clock_us() // 1000
        self.emit(ops.ALL, ops.RETURNED, origin.encode(), seq)
        for part in parts:
            code, db, key = part[:3]
            if code != ops.SET:
                self.emit(db, code, key, *part[5:])
            elif part[6] > self.now:
                absent = self.state.space.databases[db].get(key, self.now) is None
                self.emit(db, ops.UPDATE, key, (steps.CLAIM, part[5]))
                if absent:
                    self.emit(db, ops.STATE, key, part[6])
        self.end()


def _size(word: Any) -> int:
    if isinstance(word, bytes):
        return len(word) + 5
    return sum(map(_size, word)) if isinstance(word, list | tuple) else 9


def kind(found: State | None) -> str:
    if found is None:
        return "none"
    if isinstance(found, bytes | int):
        return "string"
    if isinstance(found, ScoreMap):
        return "zset"
    return "hash" if isinstance(found, CellMap) else "set"
