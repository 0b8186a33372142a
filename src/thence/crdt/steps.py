"""What an update makes of a value: of strings and fields (`string_step`), of scores (`score_step`).

An update is a tuple: its code, then its arguments. A value of None is absent. A step that Redis would refuse
leaves the value as it is.
"""

from math import isnan
from typing import Final

from thence.crdt.bits import change, set_bit
from thence.crdt.cell import Update
from thence.crdt.numbers import INT_MAX, INT_MIN, Value, added, decimal, decimal_text, packed, text_of

INCR: Final = 1
INCR_FLOAT: Final = 2
APPEND: Final = 3
SET_RANGE: Final = 4
SET_BIT: Final = 5
BIT_FIELD: Final = 6
CLAIM: Final = 7
"""The first holds: SETNX, HSETNX, ZADD NX."""
ADD: Final = 8
"""To a score."""
GREATER: Final = 9
LESS: Final = 10


def string_step(value: Value | None, update: Update) -> Value | None:
    code = update[0]
    if code == INCR:
        if value is None:
            value = 0
        if isinstance(value, int) and INT_MIN <= value + update[1] <= INT_MAX:
            return int(value + update[1])
        return value
    if code == CLAIM:
        claimed: Value = update[1]
        return claimed if value is None else value
    if code == APPEND:
        return packed(update[1] if value is None else text_of(value) + update[1])
    if code == INCR_FLOAT:
        before, more = decimal(b"0" if value is None else text_of(value)), decimal(update[1])
        if before is None or more is None:
            return value
        return packed(decimal_text(added(before, more)))
    text = b"" if value is None else text_of(value)
    if code == SET_RANGE:
        at, part = update[1], update[2]
        return packed(text[:at].ljust(at, b"\0") + part + text[at + len(part) :])
    if code == SET_BIT:
        return packed(set_bit(text, update[1], update[2]))
    if code == BIT_FIELD:
        return packed(change(text, update[1])[0])
    return value


def score_step(value: float | None, update: Update) -> float | None:
    code, score = update[0], float(update[1])
    if value is None:
        return score
    if code == ADD:
        total = value + score
        return value if isnan(total) else total
    if code == GREATER:
        return max(value, score)
    if code == LESS:
        return min(value, score)
    return value
