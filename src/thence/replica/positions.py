"""Where a program of a group has come to: one number, that it keeps with its own state.

A position has 63 bits: the number of the incarnation, how many messages it had delivered, and, of a message
that carries several operations, which of them this is (from 1). Positions of later incarnations are higher.
"""

from typing import Final

ORDINAL_BITS: Final = 36
PART_BITS: Final = 12
LIFE_BITS: Final = ORDINAL_BITS + PART_BITS
PART_MAX: Final = (1 << PART_BITS) - 1


def place_of(life: int, ordinal: int, part: int = 0) -> int:
    """A position: of a part of a message, or of the whole of it."""
    return life << LIFE_BITS | ordinal << PART_BITS | min(part, PART_MAX)
