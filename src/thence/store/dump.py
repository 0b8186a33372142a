"""A store as commands, in the bytes in which a client sends them: they make it anew in an empty store, or in
Redis itself.

What a dump holds is what clients see at the moment in which it begins: of concurrent values and kinds the
visible one (`hidden` counts keys that had others), of a deadline its time. Tags and operations under way are
left out, so that what is made of it is another store, with writes of its own.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from thence.core.machine import NEVER
from thence.crdt.cells import CellMap, ScoreMap
from thence.crdt.deadline import Deadline
from thence.crdt.numbers import Value, double_text, text_of
from thence.store.copy_on_write import CopyOnWrite, Held
from thence.store.reply import encode
from thence.store.slots import Slot, State, moment, visible
from thence.store.space import Space

WORDS: Final = 1024
"""Of fields and values, or of elements, in one command."""

COMMAND_BYTES: Final = 1 << 20
"""Of one command that has several: a store takes operations up to some megabytes."""


class Dump:
    """One client's. `end` it, or keys that change are kept for it for ever."""

    __slots__ = ("_copy", "_database", "_now", "hidden", "keys")

    def __init__(self, space: Space, now: int) -> None:
        self._now: Final = now
        self._database = -1
        """The one that commands are about now; -1: none was chosen."""
        self.keys = self.hidden = 0
        self._copy: Final = CopyOnWrite(space, self._records, lambda record: len(record[1]))

    def next(self) -> bytes:
        """Some requests, whole; none: that was all."""
        parts: list[bytes] = []
        while not parts and (some := self._copy.some()) is not None:
            for number, requests in some:
                if number != self._database:
                    self._database = number
                    encode([b"SELECT", b"%d" % number], 2, parts)
                parts.append(requests)
        return b"".join(parts)

    def end(self) -> None:
        self._copy.end()

    def _records(
        self, number: int, key: bytes, found: Held | None, deadline: int | Deadline | None
    ) -> Iterator[tuple[int, bytes]]:
        until = moment(deadline)
        seen = None if found is None or until <= self._now else visible(found)
        if seen is None:
            return
        self.keys += 1
        self.hidden += isinstance(found, Slot) and len(found.kinds()) > 1
        for command in _commands(key, seen):
            yield number, _request(command)
        if until < NEVER:
            yield number, _request([b"PEXPIREAT", key, b"%d" % until])


def _commands(key: bytes, seen: State) -> Iterator[Sequence[bytes]]:
    if isinstance(seen, bytes | int):
        yield b"SET", key, text_of(seen)
        return
    if isinstance(seen, ScoreMap):
        name: bytes = b"ZADD"
        entries: list[tuple[bytes, ...]] = [(_text(score), member) for member, score in seen.items()]
    elif isinstance(seen, CellMap):
        name, entries = b"HSET", [(field, _text(value)) for field, value in seen.items()]
    else:
        name, entries = b"SADD", [(element,) for element in seen.elements()]
    for words in _parts(entries):
        yield [name, key, *words]


def _parts(entries: Iterable[tuple[bytes, ...]]) -> Iterator[list[bytes]]:
    words: list[bytes] = []
    size = 0
    for entry in entries:
        length = sum(map(len, entry))
        if words and (size + length > COMMAND_BYTES or len(words) + len(entry) > WORDS):
            yield words
            words, size = [], 0
        words += entry
        size += length
    if words:
        yield words


def _text(value: Value | float) -> bytes:
    return double_text(value) if isinstance(value, float) else text_of(value)


def _request(words: Sequence[bytes]) -> bytes:
    out: list[bytes] = []
    encode(words, 2, out)
    return b"".join(out)
