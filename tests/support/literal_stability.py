"""Algorithms 7, 9 and 11 of the tagged causal broadcast document, as far as stability goes, line by line.

Slow and close to the text on purpose, like `support.literal`, and used in the same way: as dumb twins of
the witnesses, and to show what is wrong with the text. Every mend is a `Mend` and can be left out, alone.
Algorithm 9 is algorithm 11 without phantoms, but for one line (`LOOKS_AT_ITSELF`).
"""

from collections import deque
from dataclasses import dataclass
from enum import Enum

from support.literal import Pair


class Mend(Enum):
    """What has to be mended, and where (numbers as in docs/ERRATA.md)."""

    CONTEXT_STAYS_WHOLE = "2: algorithms 9 and 11 hand a filtered context, or none, to the client"
    NO_RECURSION = "5: deliver, updatestability and stabilize recurse along the graph"
    PHANTOMS_MAY_OVERTAKE = "9a: algorithm 11 drops a phantom that is ahead of its sender's messages"
    PHANTOM_CAUSES_WAIT = "9b: algorithm 11 passes over what a phantom names that is not delivered yet"
    PHANTOM_CAUSES_MAY_BE_GONE = (
        "9c: algorithm 11 looks up what a phantom names, which may be stable and gone"
    )
    PHANTOMS_TRAVEL = "9d: algorithm 11 checks a phantom where it was made, and sends it nowhere"
    LOOKS_AT_ITSELF = "S1: algorithm 9 never looks at the bits of the message that it delivers"
    OWN_ROW_GROWS_TOO = "S2: algorithm 7 forgets that a delivery changes two rows of its matrix"


ALL = frozenset(Mend)


@dataclass(eq=False, slots=True)
class Vertex:
    stage: str
    bits: int
    pred: set[Pair]
    succ: set[Pair]
    context: frozenset[Pair] = frozenset()


class BitWalk:
    """Algorithms 9 and 11 at the middleware of node i. `to_client` is the queue to its client."""

    def __init__(self, me: int, size: int, mended: frozenset[Mend] = ALL) -> None:
        self.i = me
        self.mended = mended
        self.g: dict[Pair, Vertex] = {}
        self.v = dict.fromkeys(range(size), 0)
        self.bit = {j: 1 << (size - 1 - j) for j in range(size)}
        """The first member has the most significant bit, as in figure 24."""
        self.all = (1 << size) - 1
        self.to_client: deque[tuple[str, Pair, frozenset[Pair]]] = deque()
        self.waiting: dict[int, list[tuple[Pair, frozenset[Pair]]]] = {}

    def dequeue_msg(self, d: Pair, context: frozenset[Pair]) -> None:
        self.v[d[0]] = d[1]
        open_ = {p for p in context if not self.stable(p)}
        for p in open_:
            self.g[p].succ.add(d)
        itself = Mend.LOOKS_AT_ITSELF in self.mended
        self.g[d] = Vertex("dlv", self.all if itself else self.all & ~self.bit[self.i], open_, set(), context)
        self.delivered(d, self.i)

    def receive(self, d: Pair, context: frozenset[Pair]) -> None:
        if self.v[d[0]] >= d[1] or (d in self.g and self.g[d].stage == "rcv"):
            return
        open_ = {p for p in context if not self.stable(p)}
        for p in open_:
            self.g.setdefault(p, Vertex("slt", 0, set(), set())).succ.add(d)
        missing = sum(self.bit[p[0]] for p in open_ if self.g[p].stage != "dlv")
        succ = self.g[d].succ if d in self.g else set()
        self.g[d] = Vertex("rcv", missing, open_, succ, context)
        if missing == 0:
            self.deliver(d)

    def dequeue_phantom(self, d: Pair, context: frozenset[Pair]) -> list[tuple[Pair, frozenset[Pair]]]:
        """The client tells: what leaves for the others."""
        if Mend.PHANTOMS_TRAVEL in self.mended:
            return [(d, context)]
        self.checkstability(d, context)
        return []

    def dequeue_stb(self, d: Pair) -> None:
        for s in self.g[d].succ:
            self.g[s].pred.discard(d)
        del self.g[d]

    def stable(self, d: Pair) -> bool:
        return d[1] <= self.v[d[0]] and (d not in self.g or self.g[d].stage == "stb")

    def deliver(self, d: Pair) -> None:
        if Mend.NO_RECURSION not in self.mended:
            for s in self.deliver_one(d):
                if self.lost_predecessor(s, d):
                    self.deliver(s)
            return
        ready = [d]
        for dot in ready:
            ready.extend(s for s in self.deliver_one(dot) if self.lost_predecessor(s, dot))

    def deliver_one(self, d: Pair) -> list[Pair]:
        vertex, (j, n) = self.g[d], d
        whole = Mend.CONTEXT_STAYS_WHOLE in self.mended
        self.to_client.append(("dlv", d, vertex.context if whole else frozenset(vertex.pred)))
        self.v[j] = n
        clear = self.bit[self.i] if Mend.LOOKS_AT_ITSELF in self.mended else self.bit[self.i] | self.bit[j]
        vertex.stage, vertex.bits = "dlv", self.all & ~clear
        self.delivered(d, j)
        return sorted(vertex.succ)

    def lost_predecessor(self, s: Pair, d: Pair) -> bool:
        self.g[s].bits &= ~self.bit[d[0]]
        return self.g[s].bits == 0

    def delivered(self, d: Pair, j: int) -> None:
        """Algorithm 11 walks from the message itself, algorithm 9 from its predecessors."""
        for p in [d] if Mend.LOOKS_AT_ITSELF in self.mended else sorted(self.g[d].pred):
            self.updatestability(~self.bit[j], p)

    def checkstability(self, d: Pair, context: frozenset[Pair]) -> None:
        """A phantom has come. Mended: of those that must wait, the first and the newest of each sender."""
        j = d[0]
        if Mend.PHANTOMS_MAY_OVERTAKE not in self.mended and d[1] != 1 + self.v[j]:
            return
        if self.counts(d, context):
            self.count(j, context)
        else:
            self.recheck()
            self.waiting[j] = [*self.waiting.get(j, [])[:1], (d, context)]

    def counts(self, d: Pair, context: frozenset[Pair]) -> bool:
        if Mend.PHANTOM_CAUSES_WAIT in self.mended:
            return all(p[1] <= self.v[p[0]] for p in context)
        return d[1] <= 1 + self.v[d[0]]

    def count(self, j: int, context: frozenset[Pair]) -> None:
        for p in sorted(context):
            gone = p[1] <= self.v[p[0]] and p not in self.g
            if p in self.g or (gone and Mend.PHANTOM_CAUSES_MAY_BE_GONE not in self.mended):
                self.updatestability(~self.bit[j], p)

    def recheck(self) -> None:
        for j in sorted(self.waiting):
            told = self.waiting.pop(j)
            for d, context in told:
                if self.counts(d, context):
                    self.count(j, context)
            if left := [one for one in told if not self.counts(*one)]:
                self.waiting[j] = left

    def updatestability(self, b: int, d: Pair) -> None:
        if Mend.NO_RECURSION not in self.mended:
            for p in self.cleared(b, d):
                self.updatestability(b, p)
            return
        walk = [d]
        for p in walk:
            walk.extend(self.cleared(b, p))

    def cleared(self, b: int, d: Pair) -> list[Pair]:
        """Clear a bit of d; where to walk on."""
        vertex = self.g[d]
        if vertex.stage != "dlv" or vertex.bits & b == vertex.bits:
            return []
        vertex.bits &= b
        if vertex.bits:
            return sorted(vertex.pred)
        self.stabilize(d)
        return []

    def stabilize(self, d: Pair) -> None:
        if Mend.NO_RECURSION not in self.mended:
            for p in sorted(self.g[d].pred):
                if self.g[p].stage != "stb":
                    self.stabilize(p)
            self.mark_stable(d)
            return
        path = [d]
        while path:
            open_ = [p for p in sorted(self.g[path[-1]].pred) if self.g[p].stage != "stb"]
            if open_:
                path.append(open_[0])
            else:
                self.mark_stable(path.pop())

    def mark_stable(self, d: Pair) -> None:
        self.g[d].stage = "stb"
        self.to_client.append(("stb", d, self.g[d].context))


class StabilityMatrix:
    """Algorithm 7's lines 32 to 43 and 66 to 84. It knows no phantoms."""

    def __init__(self, me: int, size: int, mended: frozenset[Mend] = ALL) -> None:
        self.i = me
        self.mended = mended
        self.v = [0] * size
        self.m = [[0] * size for _ in range(size)]
        self.sv = [0] * size
        self.smap: dict[Pair, int] = {}
        self.min = [0] * size
        self.ctr = 0
        self.columns_looked_at = 0
        self.to_client: deque[Pair] = deque()

    def updatestability(self, j: int, v_m: tuple[int, ...]) -> None:
        self.v[j] = v_m[j]
        self.m[self.i] = list(self.v)
        if self.i != j:
            self.m[j] = list(v_m)
        self.ctr = self.ctr + 1
        self.smap[j, v_m[j]] = self.ctr
        self.look(j)

    def look(self, j: int) -> None:
        rows = {j, self.i} if Mend.OWN_ROW_GROWS_TOO in self.mended else {j}
        if rows & set(self.min):
            new = self.calculate_sv(rows)
            if new != self.sv:
                self.stabilize(
                    [(col, seq) for col in range(len(new)) for seq in range(self.sv[col] + 1, new[col] + 1)]
                )
                self.sv = new

    def stabilize(self, dots: list[Pair]) -> None:
        self.to_client.extend(sorted(dots, key=self.smap.__getitem__))
        for d in dots:
            del self.smap[d]

    def calculate_sv(self, rows: set[int]) -> list[int]:
        new = list(self.sv)
        for col in range(len(new)):
            if self.min[col] in rows:
                self.columns_looked_at += 1
                least, least_row = self.m[0][col], 0
                for row in range(1, len(self.m)):
                    if self.m[row][col] < least:
                        least, least_row = self.m[row][col], row
                new[col] = least
                self.min[col] = least_row
        return new
