"""When a key expires: statements of deadlines, of which the longest concurrent one holds.

A statement that a later one or a reset covers stays until what covers it is stable: a reap that is concurrent
with the cover goes by what it saw (`seen_by`). A key whose statements are all stable and are one is in its
dictionary with the number alone; without a statement it never expires, and one of `NEVER` (PERSIST, and SET
without EX) is the same once it is stable.

While a member is away nothing becomes stable and covered statements gather: an operation that follows from
all before it (`_frontier`) looks at the live ones alone, and stability takes the covered ones from the front.
"""

from collections import deque

from thence.core.machine import NEVER
from thence.crdt.mark import Mark


class Statement:
    __slots__ = ("covers", "deadline", "mark")

    def __init__(self, mark: Mark | None, deadline: int, covers: list[Mark]) -> None:
        self.mark = mark
        """None: stable."""
        self.deadline = deadline
        self.covers = covers
        """What has covered it: of covers that follow each other, the first."""

    def precedes(self, mark: Mark) -> bool:
        return self.mark is None or self.mark.precedes(mark)


class Deadline:
    __slots__ = ("_frontier", "covered", "live")

    def __init__(self, base: int | None = None) -> None:
        self.live: list[Statement] = [] if base is None else [Statement(None, base, [])]
        self.covered: deque[Statement] = deque()
        self._frontier: list[Mark] | None = []
        """Operations that stated or covered, without those that others of them follow; None: not known."""

    def value(self) -> int:
        """The deadline in force; `NEVER` if there is none."""
        return max([one.deadline for one in self.live], default=NEVER)

    def state(self, mark: Mark, deadline: int) -> None:
        self.cover(mark)
        self.live.append(Statement(mark, deadline, []))

    def cover(self, mark: Mark) -> None:
        """A reset, or another statement."""
        frontier = self._frontier
        if frontier is None or not all(one.precedes(mark) for one in frontier):
            for one in self.covered:
                if one.precedes(mark) and not any(cover.precedes(mark) for cover in one.covers):
                    one.covers.append(mark)
            if frontier is not None:
                self._frontier = [one for one in frontier if not one.precedes(mark)] + [mark]
        else:
            self._frontier = [mark]
        left: list[Statement] = []
        for one in self.live:
            if one.precedes(mark):
                one.covers.append(mark)
                self.covered.append(one)
            else:
                left.append(one)
        self.live = left

    def seen_by(self, mark: Mark) -> int:
        """The deadline in the past of this operation."""
        found = [one.deadline for one in self.live if one.precedes(mark)]
        found += [
            one.deadline
            for one in self.covered
            if one.precedes(mark) and not any(cover.precedes(mark) for cover in one.covers)
        ]
        return max(found, default=NEVER)

    def statements(self) -> list[Statement]:
        return [*self.covered, *self.live]

    def put(self, statement: Statement) -> None:
        """As a snapshot has it."""
        (self.covered if statement.covers else self.live).append(statement)
        self._frontier = None

    def strip(self) -> int | None:
        """Something is stable. The deadline, if that is all that is left; `NEVER`: nothing at all is."""
        covered = self.covered
        while covered and any(cover.stable for cover in covered[0].covers):
            covered.popleft()
        if covered or not all(one.mark is None or one.mark.stable for one in self.live):
            return None
        return self.value()
