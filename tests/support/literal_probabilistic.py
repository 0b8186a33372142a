"""Algorithms 1 to 5 of the probabilistic ordering document, line by line.

Names are the document's. Every mend is a switch, and can be left out to see the printed algorithm fail; with
all of them the process below is the dumb twin of the engine.
"""

from collections.abc import Callable, Collection
from enum import Enum
from math import comb

from thence.core.dots import origin_of
from thence.core.machine import Doubt, OrderEffect
from thence.core.message import Message


class Mend(Enum):
    """What has to be mended, and where (numbers as in docs/ERRATA.md)."""

    R_DECREASES = "P2a: algorithm 3 takes its binomials of R, which does not change, instead of r"
    T_ADDS_UP = "P2b: algorithm 3 compares the whole set_id with the sets of one entry, not of all so far"
    KEYS_DIFFER = "P2c: algorithm 3 lets the next key begin at the last one, which it then repeats"
    EQUAL_IS_COVERED = "P3: algorithm 5 asks for entries above the message's, before it is counted"


ALL = frozenset(Mend)


class EndlessError(Exception):
    """The loop goes on beyond the last entry."""


def set_of(set_id: int, K: int, R: int, mends: Collection[Mend] = ALL) -> list[int]:  # noqa: N803
    """Algorithm 3."""

    def c(k: int, r: int) -> int:
        return comb(r if Mend.R_DECREASES in mends else R, k)

    adds_up = Mend.T_ADDS_UP in mends
    a = [0] * K
    k, r = K - 1, R - 1
    t = c(k, r)
    sav = 0 if adds_up else t
    for i in range(K):
        while set_id >= t:
            a[i] += 1
            r -= 1
            if a[i] >= R or r < 0:
                raise EndlessError
            sav, t = t, c(k, r) + (t if adds_up else 0)
        t = sav
        if i < K - 1:
            a[i + 1] = a[i]
            if Mend.KEYS_DIFFER in mends:
                a[i + 1] += 1
                r -= 1
        k -= 1
        if adds_up and k >= 0:
            t += c(k, r)
    return a


class Process:
    """Algorithms 1, 2, 4 and 5 at one process. Messages are the engine's."""

    def __init__(
        self,
        R: int,  # noqa: N803
        f: Callable[[int], Collection[int]],
        listed: bool = True,
        mends: Collection[Mend] = ALL,
    ) -> None:
        self.v = [0] * R
        self.f = f
        self.listed = listed
        self.mends = mends
        self.l: list[Message] = []
        self.waiting: list[Message] = []

    def broadcast(self, i: int) -> tuple[int, ...]:
        """Algorithm 1: the timestamp of the message."""
        for x in self.f(i):
            self.v[x] = self.v[x] + 1
        return tuple(self.v)

    def ready(self, m: Message) -> bool:
        """What algorithm 2 waits for."""
        f = self.f(origin_of(m.dot))
        return all(
            self.v[x] >= m.context[x] - 1 if x in f else self.v[x] >= m.context[x] for x in range(len(self.v))
        )

    def algorithm_4(self, m: Message) -> bool:
        return not any(self.v[x] == m.context[x] - 1 for x in self.f(origin_of(m.dot)))

    def algorithm_5(self, m: Message) -> list[Message]:
        """Those in the list for which it reports an error."""
        f = self.f(origin_of(m.dot))
        equal = 0 if Mend.EQUAL_IS_COVERED in self.mends else 1
        if not all(self.v[x] >= m.context[x] + equal for x in f):
            return []
        return [mi for mi in self.l if all(mi.context[x] >= m.context[x] for x in f)]

    def arrive(self, m: Message) -> list[OrderEffect]:
        self.waiting.append(m)
        return self.go_on([m])

    def go_on(self, first: list[Message]) -> list[OrderEffect]:
        """Whatever waits goes on if it may: these first, then all in turns."""
        effects: list[OrderEffect] = []
        for turn in [first, *[list(self.waiting) for _ in self.waiting]]:
            for m in turn:
                if m in self.waiting and self.ready(m):
                    self.waiting.remove(m)
                    if self.listed:
                        effects += [Doubt(mi.dot) for mi in self.algorithm_5(m)]
                    elif self.algorithm_4(m):
                        effects.append(Doubt(m.dot))
                    for x in self.f(origin_of(m.dot)):
                        self.v[x] = self.v[x] + 1
                    self.l.append(m)
                    effects.append(m)
        return effects
