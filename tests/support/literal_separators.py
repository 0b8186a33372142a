"""Rules R1 to R9 of the causal separators document, as printed, at the level of hops.

Names are the document's. Every mend is a switch, and can be left out to see the printed rules fail.
`appendix` takes R4, R6.2 and R6.3 as the appendix has them, which differ from the text's.
"""

from collections.abc import Collection, Iterable
from enum import Enum
from typing import NamedTuple

Uid = tuple[int, int]
Address = frozenset[int]


class Mend(Enum):
    """What has to be mended, and where (numbers as in docs/ERRATA.md)."""

    SAME_SENDER = "S1: R5's is-in compares counters of different senders"
    COVERED = "S7: an entry that is learnt never covers older ones of its sender"
    OTHERS = "S9: S must have been told, p included, which the appendix never records"
    RESIDUAL = "S11: R9 wants the whole address behind, also those who were told"
    OWN = "S12: the appendix never adds a message to D at its sender"


ALL = frozenset(Mend)


class Sent(NamedTuple):
    """A message of the extended communication graph."""

    uid: Uid
    A: Address
    H: dict[Uid, Address]


class Printed:
    """One process."""

    def __init__(
        self,
        me: int,
        separators: Iterable[tuple[Address, Address, Address]] = (),
        mends: Collection[Mend] = ALL,
        rules: Collection[int] = range(1, 10),
        appendix: bool = False,
    ) -> None:
        self.me = me
        self.separators = [(S, F, B) for S, F, B in separators if me in S]
        self.mends = mends
        self.rules = rules
        self.appendix = appendix
        self.c = 0
        self.H: dict[Uid, Address] = {}
        self.C: dict[Uid, Address] = {}
        self.D: set[Uid] = set()
        self.W: list[Sent] = []

    def send(self, A: Address) -> Sent:  # noqa: N803
        self.c += 1
        H = {n: A_n for n, A_n in self.H.items() if not self._left_out(n, A_n, A)}  # noqa: N806
        m = Sent((self.me, self.c), A, H)
        for n in self.H:  # R6.2
            self.C[n] |= A if self.appendix else A | {self.me}
        self.H[m.uid], self.C[m.uid] = A, frozenset()
        if not self.appendix or Mend.OWN in self.mends:
            self._delivered(m.uid)
        self._prune()
        return m

    def _left_out(self, n: Uid, A_n: Address, A_m: Address) -> bool:  # noqa: N803
        C = self.C[n]  # noqa: N806
        if 7 in self.rules and A_m <= C:
            return True
        if 9 not in self.rules:
            return False
        residual = Mend.RESIDUAL in self.mends
        told = {self.me} if Mend.OTHERS in self.mends else frozenset[int]()
        return any(
            C | told >= S and (A_n - C if residual else A_n) <= B and (A_m - C if residual else A_m) <= F
            for S, F, B in self.separators
        )

    def receive(self, m: Sent) -> list[Sent]:
        """What is delivered now."""
        self.W.append(m)
        found = []
        while ready := [each for each in self.W if self._deliverable(each)]:
            self.W.remove(ready[0])
            self._deliver(ready[0])
            found.append(ready[0])
        return found

    def _deliverable(self, m: Sent) -> bool:
        return all(self._is_in(i) for i, A_i in m.H.items() if self.me in A_i)

    def _is_in(self, m: Uid) -> bool:
        if 5 not in self.rules:
            return m in self.D
        if Mend.SAME_SENDER in self.mends:
            return any(n[0] == m[0] and m[1] <= n[1] for n in self.D)
        return any(m[1] <= n[1] for n in self.D)

    def _delivered(self, uid: Uid) -> None:
        if 5 in self.rules:
            self.D = {n for n in self.D if n[0] != uid[0]}
        self.D.add(uid)

    def _deliver(self, m: Sent) -> None:
        s_m, q = m.uid[0], self.me
        if self.appendix:
            for n in m.H:
                self.C.setdefault(n, frozenset())
            self.H |= m.H
            self.H[m.uid], self.C[m.uid] = m.A, frozenset()
        else:
            for n in self.H:
                if n[0] == s_m and n[1] < m.uid[1]:
                    self.C[n] |= m.A
            before = dict(self.H)
            for n in m.H:
                later = [A_i for i, A_i in before.items() if i[0] == n[0] and i[1] > n[1]]
                told = m.A.union({s_m}, *later)
                self.C[n] = self.C.get(n, frozenset()) | told
            self.H |= m.H
            if Mend.COVERED in self.mends:
                for i in m.H:
                    for n in self.H:
                        if n[0] == i[0] and n[1] < i[1]:
                            self.C[n] |= m.H[i]
            self.H[m.uid], self.C[m.uid] = m.A, frozenset({s_m, q})
        self._delivered(m.uid)
        self._prune()

    def _prune(self) -> None:
        if 8 in self.rules and not self.appendix:
            for n in [n for n, A_n in self.H.items() if A_n <= self.C[n]]:
                del self.H[n], self.C[n]
