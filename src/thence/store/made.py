"""Is this an operation that a store makes? What comes from another member may be anything, and a value of
another type would be met long after: by a command, a checkpoint, or when its operation is stable.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from thence.core.machine import NEVER
from thence.crdt import bits, steps
from thence.store import ops
from thence.store.ops import Part

TIME_MAX: Final = 1 << 62
"""Of a stamp: thousands of years from now. Beyond it a clock would soon have no numbers left."""

STRING_MAX: Final = 512 << 20
"""Bytes to which a write at an offset may extend a string, as Redis has it."""

BYTES: Final = frozenset({bytes})
TEXT: Final = frozenset({bytes, int})
"""Types of names, and of values."""


def is_made(time: int, parts: Sequence[Part]) -> bool:
    if not 0 <= time < TIME_MAX:
        return False
    if len(parts) == 1 and len(part := parts[0]) == 7 and part[0] == ops.SET and _is_plain(part):
        return True
    try:
        for part in parts:
            number, fresh, bound = part[1], part[3], part[4]
            if type(number) is not int or type(part[2]) is not bytes or not _TAILS[part[0]](part):
                return False
            if not 0 <= number < ops.DATABASES and (number != ops.ALL or part[0] not in WITHOUT_DATABASE):
                return False
            if not ((fresh == 0 or fresh == 1) and 0 <= bound <= NEVER):
                return False
    except (TypeError, ValueError, LookupError):
        return False
    return True


def _is_plain(part: Part) -> bool:
    """Of a SET, as most operations are: without a deadline, what is said below of it, in one go."""
    _, number, key, fresh, bound, value, until = part
    return (
        type(number) is int
        and 0 <= number < ops.DATABASES
        and type(key) is bytes
        and fresh == 0
        and bound == 0
        and type(value) in TEXT
        and until == NEVER
    )


WITHOUT_DATABASE: Final = frozenset({ops.FLUSH, ops.RETURNED})


def _assigns(part: Part) -> bool:
    return len(part) == 7 and type(part[5]) in TEXT and (part[6] == NEVER or _is_deadline(part[6]))


def _updates(part: Part) -> bool:
    return len(part) == 6 and _is_update(part[5])


def _has_deadline(part: Part) -> bool:
    return len(part) == 6 and _is_deadline(part[5])


def _names(part: Part) -> bool:
    if len(part) == 6:
        return type(part[5]) is bytes
    return len(part) > 6 and BYTES.issuperset(map(type, part[5:]))


def _fields(part: Part) -> bool:
    if len(part) == 7:
        return type(part[5]) is bytes and type(part[6]) in TEXT
    return _pairs(part) and TEXT.issuperset(map(type, part[6::2]))


def _scores(part: Part) -> bool:
    return _pairs(part) and all(map(_is_score, part[6::2]))


def _pairs(part: Part) -> bool:
    return len(part) > 6 and len(part) % 2 == 1 and BYTES.issuperset(map(type, part[5::2]))


def _updates_field(part: Part) -> bool:
    return len(part) == 7 and type(part[5]) is bytes and _is_update(part[6])


def _updates_score(part: Part) -> bool:
    update = part[6]
    return (
        len(part) == 7
        and type(part[5]) is bytes
        and len(update) == 2
        and update[0] in (steps.CLAIM, steps.ADD, steps.GREATER, steps.LESS)
        and _is_score(update[1])
    )


def _returns(part: Part) -> bool:
    return len(part) == 6 and bool(part[2].decode()) and type(part[5]) is int and part[5] >= 0


_TAILS: Final[dict[int, Callable[[Part], bool]]] = {
    ops.SET: _assigns, ops.UPDATE: _updates, ops.DELETE: _has_deadline, ops.STATE: _has_deadline,
    ops.SET_ADD: _names, ops.SET_REMOVE: _names,
    ops.FIELD_SET: _fields, ops.FIELD_UPDATE: _updates_field, ops.FIELD_REMOVE: _names,
    ops.SCORE_SET: _scores, ops.SCORE_UPDATE: _updates_score, ops.SCORE_REMOVE: _names,
    ops.FLUSH: lambda part: len(part) == 5, ops.REAP: _has_deadline, ops.RETURNED: _returns,
}  # fmt: skip
"""By code: what follows after the first five words."""


def _is_deadline(deadline: Any) -> bool:
    return type(deadline) is int and 0 <= deadline <= NEVER


def _is_score(score: Any) -> bool:
    return (type(score) is float or type(score) is int) and score == score


def _is_update(update: Any) -> bool:
    code, argument = update[0], update[1]
    if code == steps.INCR:
        return len(update) == 2 and type(argument) is int
    if code == steps.CLAIM:
        return len(update) == 2 and type(argument) in TEXT
    if code in (steps.APPEND, steps.INCR_FLOAT):
        return len(update) == 2 and type(argument) is bytes
    if code == steps.SET_RANGE:
        [part] = update[2:]
        return type(argument) is int and type(part) is bytes and 0 <= argument <= STRING_MAX - len(part)
    if code == steps.SET_BIT:
        return len(update) == 3 and type(argument) is int and 0 <= argument < STRING_MAX * 8
    return code == steps.BIT_FIELD and len(update) == 2 and all(map(_is_field, argument))


def _is_field(given: Any) -> bool:
    if not all(isinstance(word, int) for word in given):
        return False
    one = bits.FieldOp(*given)
    return 1 <= one.bits <= 64 and 0 <= one.offset <= STRING_MAX * 8 - one.bits and one.overflow <= bits.FAIL
