"""When a key expires: statements of deadlines, of which the longest concurrent one holds.

A statement that a later one or a reset covers stays until what covers it is stable: a reap that is concurrent
with the cover goes by what it saw (`seen_by`). A key whose statements are all stable and are one is in its
dictionary with the number alone; without a statement it never expires, and one of `NEVER` is the same once
it is stable.
"""

from typing import Final

from thence.crdt.mark import Mark

NEVER: Final = 1 << 62
"""Milliseconds; PERSIST, and SET without EX."""


class Statement:
    __slots__ = ("covers", "deadline", "mark")

    def __init__(self, mark: Mark | None, deadline: int, covers: list[Mark]) -> None:
        self.mark = mark
        """None: stable."""
        self.deadline = deadline
        self.covers = covers
        """What has covered it."""


class Deadline:
    __slots__ = ("statements",)

    def __init__(self, base: int | None = None) -> None:
        self.statements: list[Statement] = [] if base is None else [Statement(None, base, [])]

    def value(self) -> int:
        """The deadline in force; `NEVER` if there is none."""
        return max([one.deadline for one in self.statements if not one.covers], default=NEVER)

    def state(self, mark: Mark, deadline: int) -> None:
        self.cover(mark)
        self.statements.append(Statement(mark, deadline, []))

    def cover(self, mark: Mark) -> None:
        """A reset, or another statement."""
        for one in self.statements:
            if one.mark is None or one.mark.precedes(mark):
                one.covers.append(mark)

    def seen_by(self, mark: Mark) -> int:
        """The deadline in the past of this operation."""
        found = [
            one.deadline
            for one in self.statements
            if (one.mark is None or one.mark.precedes(mark))
            and not any(cover.precedes(mark) for cover in one.covers)
        ]
        return max(found, default=NEVER)

    def least(self) -> int:
        """No reap below this concerns the key."""
        return min([one.deadline for one in self.statements], default=NEVER)

    def strip(self) -> int | None:
        """Something is stable. The deadline, if that is all that is left; `NEVER`: nothing at all is."""
        left = [one for one in self.statements if not any(cover.stable for cover in one.covers)]
        self.statements = left
        if any(one.covers or not (one.mark is None or one.mark.stable) for one in left):
            return None
        return max([one.deadline for one in left], default=NEVER)
