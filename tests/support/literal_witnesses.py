"""The printed stability algorithms (`support.literal_stability`) behind the interface of witnesses.

So that they pass, or with a mend left out fail, the same kit as ours. Their tags are what no algorithm
could be simpler than: the whole past, as a set.
"""

from dataclasses import replace
from functools import partial

from support.literal import to_dots, to_pair
from support.literal_stability import ALL, BitWalk, Mend, StabilityMatrix
from thence.core.dots import pack
from thence.core.message import Message
from thence.order.engine import Engine
from thence.order.graph import GRAPH
from thence.order.tags import TagSpill
from thence.order.vector import VECTOR


class PathTag:
    """A tag that knows its whole past, as a set of dots."""

    def __init__(self, message: Message, past: frozenset[int]) -> None:
        self.dot = message.dot
        self.context = message.context
        self.past = past

    def before(self, other: "PathTag") -> bool:
        return self.dot in other.past

    def after(self, other: "PathTag") -> bool:
        return other.dot in self.past

    def concurrent(self, other: "PathTag") -> bool:
        return self.dot != other.dot and not self.before(other) and not self.after(other)


class WalkWitness:
    """The bit walk behind the interface of witnesses: fed one delivery at a time."""

    def __init__(self, me: int, size: int, mended: frozenset[Mend]) -> None:
        if not 0 <= me < size:
            raise ValueError(f"member {me} of {size}")
        self.walk = BitWalk(me, size, mended)
        self.tags: dict[int, PathTag] = {}
        self.open: dict[int, None] = {}

    def __len__(self) -> int:
        return len(self.open)

    @property
    def drained(self) -> bool:
        return not self.open and not self.walk.waiting

    def see(self, message: Message) -> PathTag:
        d, context = to_pair(message.dot), frozenset(map(to_pair, message.context))
        past = frozenset(message.context).union(*(self.tags[p].past for p in message.context))
        (self.walk.dequeue_msg if d[0] == self.walk.i else self.walk.receive)(d, context)
        self.tags[message.dot] = PathTag(message, past)
        self.open[message.dot] = None
        return self.tags[message.dot]

    def heard(self, member: int, context: tuple[int, ...]) -> None:
        pairs = frozenset(map(to_pair, context))
        own = [p[1] for p in pairs if p[0] == member]
        for dot in context:  # the sender's newest message may be implied by what it names
            own += [to_pair(p)[1] for p in self.known_past(dot) if to_pair(p)[0] == member]
        self.walk.checkstability((member, max(own, default=0) + 1), pairs)

    def known_past(self, dot: int) -> frozenset[int]:
        return self.tags[dot].past if dot in self.tags else frozenset()

    def sweep(self) -> list[PathTag]:
        self.walk.recheck()
        found = [to_dots([d])[0] for kind, d, _ in self.walk.to_client if kind == "stb"]
        self.walk.to_client.clear()
        for dot in found:
            self.walk.dequeue_stb(to_pair(dot))
            del self.open[dot]
        return [self.tags[dot] for dot in found]

    def missing(self, dot: int) -> list[int]:
        bits = self.walk.g[to_pair(dot)].bits if to_pair(dot) in self.walk.g else 0
        return [j for j, bit in self.walk.bit.items() if bits & bit]

    def reached(self, dot: int) -> int:
        return len(self.walk.v) - len(self.missing(dot))

    def stow_in(self, attic: TagSpill, deep: int) -> None:
        raise NotImplementedError("the algorithm keeps everything")

    def resume(self, counters: tuple[int, ...]) -> None:
        raise NotImplementedError("restarts are not a part of the algorithm")

    def tag_of(self, dot: int) -> None:
        raise NotImplementedError("no test asks the algorithm")

    def recall_stable(self, counters: tuple[int, ...]) -> None:
        raise NotImplementedError("restarts are not a part of the algorithm")

    def words(self) -> int:
        return 0  # not a part of the algorithm

    def behind(self) -> list[int]:
        return sorted({q for dot in self.open for q in self.missing(dot)})

    def silent(self) -> list[int]:
        return self.missing(next(iter(self.open))) if self.open else []


class MatrixWitness:
    """Algorithm 7 behind the interface of witnesses, as far as a run without phantoms needs it."""

    def __init__(self, me: int, size: int, mended: frozenset[Mend]) -> None:
        self.matrix = StabilityMatrix(me, size, mended)
        self.tags: dict[int, PathTag] = {}

    def __len__(self) -> int:
        return len(self.matrix.smap) + len(self.matrix.to_client)

    @property
    def drained(self) -> bool:
        return len(self) == 0

    def see(self, message: Message) -> PathTag:
        j, n = to_pair(message.dot)
        self.matrix.updatestability(j, message.context)
        counters = list(message.context)
        counters[j] = n - 1
        past = frozenset(pack(k, seq) for k, top in enumerate(counters) for seq in range(1, top + 1))
        self.tags[message.dot] = PathTag(message, past)
        return self.tags[message.dot]

    def heard(self, member: int, context: tuple[int, ...]) -> None:
        raise AssertionError("algorithm 7 knows no phantoms")

    def sweep(self) -> list[PathTag]:
        found = [self.tags[pack(*d)] for d in self.matrix.to_client]
        self.matrix.to_client.clear()
        return found

    def reached(self, dot: int) -> int:
        j, n = to_pair(dot)
        return sum(row[j] >= n for row in self.matrix.m)

    def stow_in(self, attic: TagSpill, deep: int) -> None:
        raise NotImplementedError("the algorithm keeps everything")

    def resume(self, counters: tuple[int, ...]) -> None:
        raise NotImplementedError("restarts are not a part of the algorithm")

    def tag_of(self, dot: int) -> None:
        raise NotImplementedError("no test asks the algorithm")

    def recall_stable(self, counters: tuple[int, ...]) -> None:
        raise NotImplementedError("restarts are not a part of the algorithm")

    def words(self) -> int:
        return 0  # not a part of the algorithm

    def behind(self) -> list[int]:
        rows = enumerate(self.matrix.m)
        return [k for k, row in rows if any(row[j] < n for j, n in self.matrix.smap)]

    def silent(self) -> list[int]:
        for j, n in sorted(self.matrix.smap, key=self.matrix.smap.__getitem__):
            return [k for k, row in enumerate(self.matrix.m) if row[j] < n]
        return []


def literal_walk(*without: Mend) -> Engine:
    """The graph engine with algorithm 11 for a witness, mended but for what is named."""
    return replace(GRAPH, name="literal-walk", witness=partial(WalkWitness, mended=ALL - set(without)))


def literal_matrix(*without: Mend) -> Engine:
    """The vector engine with algorithm 7 for a witness, mended but for what is named."""
    return replace(VECTOR, name="literal-matrix", witness=partial(MatrixWitness, mended=ALL - set(without)))
