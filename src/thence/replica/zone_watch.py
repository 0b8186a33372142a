"""Which member of a separator is taken for dead: one to which none of their neighbours has a link.

It asks all of them, and closes that member only when each one that lives has said within one question that
it, too, has lost it. So a member to which any other is linked is never closed, and one question that is not
answered by all is followed by another. Where no other member could answer, none is closed.

State. `down`: since when there is no link to a neighbour; None: there is one. `_asked`: by member, the number
of the question, when it was put, and who has answered that they lost it.
"""

from typing import Final

from thence.core.machine import NEVER


class Question:
    __slots__ = ("at", "lost", "number")

    def __init__(self, number: int, at: int) -> None:
        self.number: Final = number
        self.at: Final = at
        self.lost: Final[set[int]] = set()


class ZoneWatch:
    __slots__ = ("_asked", "_members", "_number", "_suspect_us", "down")

    def __init__(self, near: tuple[int, ...], members: tuple[int, ...], suspect_us: int, now: int) -> None:
        """`members`: the others of its separator. `suspect_us`: how long a link is down before the members
        are asked; 0: they never are."""
        self._suspect_us: Final = suspect_us
        self._members: Final = members
        self._asked: Final[dict[int, Question]] = {}
        self._number = 0
        self.down: Final[dict[int, int | None]] = dict.fromkeys(near, now)

    def link_up(self, peer: int) -> None:
        self.down[peer] = None
        self._asked.pop(peer, None)

    def link_down(self, peer: int, now: int) -> None:
        if self.down[peer] is None:
            self.down[peer] = now

    def has_lost(self, who: int, now: int) -> bool:
        """An answer. Half the time: the one that asks has waited for all of it."""
        since = self.down.get(who)
        return since is not None and now - since >= self._suspect_us // 2

    def forget(self, who: int) -> None:
        self._asked.pop(who, None)

    def _due(self, who: int) -> int:
        since = self.down[who]
        if since is None or not self._suspect_us:
            return NEVER
        question = self._asked.get(who)
        return since + self._suspect_us if question is None else question.at + self._suspect_us // 2

    def wake_at(self, closed: "dict[int, None]") -> int:
        return min([self._due(who) for who in self._members if who not in closed], default=NEVER)

    def questions(self, closed: "dict[int, None]", now: int) -> list[tuple[int, int]]:
        """Numbers of those to be put now, and the members that they are about."""
        found = []
        for who in self._members:
            if who not in closed and now >= self._due(who):
                self._number += 1
                self._asked[who] = Question(self._number, now)
                found.append((self._number, who))
        return found

    def answered(self, peer: int, number: int, who: int, lost: bool, others: set[int]) -> bool:
        """Is it certain that `who` is gone? `others`: those of its neighbours that live, without this
        process."""
        question = self._asked.get(who)
        if question is None or question.number != number or not lost:
            return False
        question.lost.add(peer)
        return self.down[who] is not None and bool(others) and question.lost >= others
