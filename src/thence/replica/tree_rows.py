"""Rows of a node of a tree for people who look at it: what its links are used for."""

from collections.abc import Callable, Iterable
from typing import Final

from thence.replica.group.surroundings import Diary
from thence.trace import recorder as rows


class LinkRows:
    """A row for every link that turns lazy, synchronising, eager, or goes."""

    __slots__ = ("_called", "_shown")

    def __init__(self, called: Callable[[int], str]) -> None:
        """`called`: the name of a neighbour."""
        self._called: Final = called
        self._shown: dict[int, int] = {}

    def show(self, diary: Diary, states: Iterable[tuple[int, bool, bool]], now: int) -> None:
        """`states`: of each link, its peer, whether it is a branch, and whether it is live."""
        there = {
            peer: rows.EAGER if live else rows.SYNC if branch else rows.LAZY for peer, branch, live in states
        }
        if there == self._shown:
            return
        for peer, kind in there.items():
            if self._shown.get(peer) != kind:
                diary.row(kind, (self._called(peer), 1), None, now)
        for peer in self._shown:
            if peer not in there:
                diary.row(rows.UNLINK, (self._called(peer), 1), None, now)
        self._shown = there
