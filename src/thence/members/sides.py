"""Which of two sides returns to the other: rule 21 of docs/protocols/membership.md.

Two members have turned away from each other, or one from the other. Each hears of it by a notice, and each
decides by itself; since both compare the same two things, at most one of them returns.
"""

from collections.abc import Set
from enum import Enum, auto


class Course(Enum):
    """What a member that gets a notice does."""

    RETURN = auto()
    """Join their side, as a new incarnation."""
    SUSPECT = auto()
    """Go on without its sender."""
    ANSWER = auto()
    """Tell the other side that it must return."""
    WAIT = auto()
    """The sides look the same from here: a member that is on both will decide."""


def course(source: str, theirs: Set[str], side: Set[str], with_us: Set[str]) -> Course:
    """A notice of `source` says that `theirs` go on without this member, whose side is `side`; of these,
    `with_us` have not turned away from it."""
    if source in side:
        return Course.SUSPECT if len(side - theirs) > len(theirs) else Course.RETURN
    own, other = (-len(with_us), min(with_us)), (-len(theirs), min(theirs, default=""))
    if own == other:
        return Course.WAIT
    return Course.RETURN if own > other else Course.ANSWER
