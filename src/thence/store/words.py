"""Arguments of commands, read as Redis reads them, and its errors for those that cannot be."""

from collections.abc import Sequence
from typing import Final

from thence.core.machine import NEVER
from thence.crdt.numbers import INT_MAX, double, integer
from thence.store.reply import Fail

SYNTAX: Final = "ERR syntax error"
NOT_INTEGER: Final = "ERR value is not an integer or out of range"
NOT_FLOAT: Final = "ERR value is not a valid float"
NO_KEY: Final = "ERR no such key"


def number(word: bytes, error: str = NOT_INTEGER) -> int:
    value = integer(word)
    if value is None:
        raise Fail(error)
    return value


def real(word: bytes, error: str = NOT_FLOAT) -> float:
    value = double(word)
    if value is None:
        raise Fail(error)
    return value


def deadline(word: bytes, seconds: bool, absolute: bool, now: int, name: str, positive: bool = True) -> int:
    """In milliseconds since 1970."""
    value = number(word)
    bad = Fail(f"ERR invalid expire time in '{name}' command")
    if positive and value <= 0:
        raise bad
    if seconds:
        value *= 1000
    if abs(value) > INT_MAX:
        raise bad
    if not absolute:
        value += now
    if value > INT_MAX:
        raise bad
    return min(value, NEVER - 1)


class Options:
    """Words after the fixed ones, in any order; those that are not asked for are an error."""

    def __init__(self, words: Sequence[bytes]) -> None:
        self._words: Final = words
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self._words)

    def word(self) -> bytes:
        """The next one, as it is."""
        if self._at >= len(self._words):
            raise Fail(SYNTAX)
        self._at += 1
        return self._words[self._at - 1]

    def name(self) -> bytes:
        """The next one, upper case."""
        return self.word().upper()

    @property
    def left(self) -> int:
        return len(self._words) - self._at
