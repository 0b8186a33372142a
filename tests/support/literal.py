"""Algorithms 2 to 5 of the tagged causal broadcast document, line by line, behind the engine interface.

Slow and close to the text on purpose: dots are pairs, contexts are sets, predecessors are a bit
string, names are the document's. They serve as the dumb twins of the fast engines, and as the proof
of what is wrong with the text: every mend is an `Erratum`, and each can be left out, alone, to see
the printed algorithm fail.
"""

from collections.abc import Collection
from enum import Enum
from functools import partial

from thence.core.dots import origin_of, pack, seq_of
from thence.core.machine import OrderEffect
from thence.core.message import Message
from thence.order.engine import Engine
from thence.order.graph import predecessors as graph_predecessors
from thence.order.vector import predecessors as vector_predecessors

Pair = tuple[int, int]


class Erratum(Enum):
    """What has to be mended, and where (numbers as in docs/ERRATA.md)."""

    COUNT_FROM_ONE = "1a: algorithm 4 names its first message 0, which algorithm 5 takes for delivered"
    CONTEXT_IS_SENT_DOT = "1b: algorithm 4 increments the dot before it becomes the context"
    CONTEXT_STAYS_WHOLE = "2: algorithm 5 hands the filtered context to the client"
    PENDING_ARE_KNOWN = "3: algorithm 3 counts messages received instead of remembering which"
    SURVIVORS_MOVE_DOWN = "4a: algorithm 3 compacts its queue in the wrong direction"
    DELIVERY_ADVANCES = "4b: algorithm 3 does not count a message that it delivers at once"
    NO_RECURSION = "5: algorithm 5 recurses along the graph"


ALL = frozenset(Erratum)


def to_pair(dot: int) -> Pair:
    return origin_of(dot), seq_of(dot)


def to_dots(pairs: Collection[Pair]) -> tuple[int, ...]:
    return tuple(sorted(pack(*pair) for pair in pairs))


class VectorClient:
    """Algorithm 2. Correct as printed, if line 6 is read as incrementing the own entry."""

    def __init__(self, me: int, size: int) -> None:
        self.i = me
        self.v = dict.fromkeys(range(size), 0)

    def tag(self, payload: bytes, dest: tuple[int, ...] = ()) -> Message:
        self.v[self.i] = self.v[self.i] + 1
        return Message(pack(self.i, self.v[self.i]), tuple(self.v.values()), payload, dest)

    def took(self, message: Message) -> None:
        j = origin_of(message.dot)
        self.v[j] = message.context[j]

    def recall(self, message: Message) -> None:
        raise NotImplementedError("restarts are not a part of the algorithm")

    def resume(self, own: int, context: tuple[int, ...]) -> None:
        raise NotImplementedError("restarts are not a part of the algorithm")

    def context(self) -> tuple[int, ...]:
        return tuple(self.v.values())

    def frontier(self) -> tuple[int, ...]:
        return to_dots([(j, seq) for j, seq in self.v.items() if seq])

    def admit(self, member: int) -> None:
        self.v[member] = 0


class VectorMiddleware:
    """Algorithm 3."""

    def __init__(self, me: int, size: int, mended: frozenset[Erratum]) -> None:
        self.i = me
        self.mended = mended
        self.v = dict.fromkeys(range(size), 0)
        self.r = dict.fromkeys(range(size), 0)
        self.dq: list[Message] = []
        self.client_queue: list[OrderEffect] = []

    @property
    def waiting(self) -> int:
        return len(self.dq)

    def words(self) -> int:
        return 0  # not a part of the algorithm

    def resume(self, counters: tuple[int, ...]) -> None:
        raise NotImplementedError("restarts are not a part of the algorithm")

    def check(self, message: Message) -> None:
        """Nor is distrust."""

    def stamp(self, message: Message) -> Message:
        return message

    def sent(self, message: Message, now: int) -> list[OrderEffect]:
        self.v[self.i] = self.v[self.i] + 1
        return []

    def receive(self, message: Message, via: int, now: int) -> list[OrderEffect]:
        self.client_queue = []
        j = origin_of(message.dot)
        if not self.is_duplicate(message):
            self.r[j] = self.r[j] + 1
            if self.deliverable(message):
                if Erratum.DELIVERY_ADVANCES in self.mended:
                    self.v[j] = self.v[j] + 1
                self.client_queue.append(message)
                self.deliver()
            else:
                self.dq.append(message)
        released, self.client_queue = self.client_queue, []
        return released

    def is_duplicate(self, message: Message) -> bool:
        j = origin_of(message.dot)
        if Erratum.PENDING_ARE_KNOWN in self.mended:
            pending = {waiting.dot for waiting in self.dq}
            return message.context[j] <= self.v[j] or message.dot in pending
        return not self.r[j] < message.context[j]

    def deliverable(self, message: Message) -> bool:
        j, v_m = origin_of(message.dot), message.context
        return v_m[j] == self.v[j] + 1 and all(v_m[k] <= self.v[k] for k in range(len(v_m)) if k != j)

    def deliver(self) -> None:
        dq = self.dq
        from_ = to = 0
        while True:
            if from_ >= len(dq):
                if to >= from_:
                    break
                del dq[to:]
                if len(dq) == 0:
                    break
                from_ = to = 0
            else:
                message = dq[from_]
                if self.deliverable(message):
                    j = origin_of(message.dot)
                    self.v[j] = self.v[j] + 1
                    self.client_queue.append(message)
                else:
                    if Erratum.SURVIVORS_MOVE_DOWN in self.mended:
                        dq[to] = dq[from_]
                    else:
                        dq[from_] = dq[to]
                    to = to + 1
                from_ = from_ + 1

    def admit(self, member: int) -> None:
        self.v[member] = self.r[member] = 0


class GraphClient:
    """Algorithm 4."""

    def __init__(self, me: int, size: int, mended: frozenset[Erratum]) -> None:
        self.i = me
        self.mended = mended
        self.d: Pair = (me, 1 if Erratum.COUNT_FROM_ONE in mended else 0)
        self.ctxt: set[Pair] = set()

    def tag(self, payload: bytes, dest: tuple[int, ...] = ()) -> Message:
        d = self.d
        message = Message(pack(*d), to_dots(self.ctxt), payload, dest)
        self.d = (self.i, self.d[1] + 1)
        self.ctxt = {d} if Erratum.CONTEXT_IS_SENT_DOT in self.mended else {self.d}
        return message

    def took(self, message: Message) -> None:
        ctxt = {to_pair(p) for p in message.context}
        self.ctxt = {to_pair(message.dot)} | (self.ctxt - ctxt)

    def recall(self, message: Message) -> None:
        raise NotImplementedError("restarts are not a part of the algorithm")

    def resume(self, own: int, context: tuple[int, ...]) -> None:
        raise NotImplementedError("restarts are not a part of the algorithm")

    def context(self) -> tuple[int, ...]:
        return to_dots(self.ctxt)

    def frontier(self) -> tuple[int, ...]:
        return self.context()

    def admit(self, member: int) -> None:
        """A context names only those that sent something."""


class Vertex:
    """The record of a dot in the graph: a slot (nothing but successors) or a received message."""

    def __init__(self) -> None:
        self.stage = "slt"
        self.bits = 0
        self.pred: set[Pair] = set()
        self.succ: set[Pair] = set()
        self.msg: Message | None = None


class GraphMiddleware:
    """Algorithm 5, with a delivered dot removed from the graph as its description says."""

    def __init__(self, me: int, size: int, mended: frozenset[Erratum]) -> None:
        self.mended = mended
        self.g: dict[Pair, Vertex] = {}
        self.v = dict.fromkeys(range(size), 0)
        self.bit = {j: 2**j for j in range(size)}
        self.client_queue: list[OrderEffect] = []

    @property
    def waiting(self) -> int:
        return sum(vertex.stage == "rcv" for vertex in self.g.values())

    def words(self) -> int:
        return 0  # not a part of the algorithm

    def resume(self, counters: tuple[int, ...]) -> None:
        raise NotImplementedError("restarts are not a part of the algorithm")

    def check(self, message: Message) -> None:
        """Nor is distrust."""

    def stamp(self, message: Message) -> Message:
        return message

    def sent(self, message: Message, now: int) -> list[OrderEffect]:
        d = to_pair(message.dot)
        self.v[d[0]] = d[1]
        return []

    def receive(self, message: Message, via: int, now: int) -> list[OrderEffect]:
        self.client_queue = []
        d = to_pair(message.dot)
        if self.v[d[0]] < d[1] and not (d in self.g and self.g[d].stage == "rcv"):
            undelivered = {p for p in map(to_pair, message.context) if p[1] > self.v[p[0]]}
            for p in sorted(undelivered):
                self.g.setdefault(p, Vertex()).succ.add(d)
            vertex = self.g.setdefault(d, Vertex())
            vertex.stage, vertex.pred, vertex.msg = "rcv", undelivered, message
            vertex.bits = sum(self.bit[p[0]] for p in undelivered)
            if vertex.bits == 0:
                self.deliver(d)
        released, self.client_queue = self.client_queue, []
        return released

    def deliver(self, d: Pair) -> None:
        if Erratum.NO_RECURSION not in self.mended:
            for s in self.deliver_one(d):
                if self.lost_predecessor(s, d):
                    self.deliver(s)
            return
        ready = [d]
        for dot in ready:
            ready.extend(s for s in self.deliver_one(dot) if self.lost_predecessor(s, dot))

    def deliver_one(self, d: Pair) -> list[Pair]:
        """Lines 27 to 31; the successors, in an order that does not depend on hashing."""
        vertex = self.g.pop(d)
        assert vertex.msg is not None
        whole = vertex.msg
        if Erratum.CONTEXT_STAYS_WHOLE in self.mended:
            self.client_queue.append(whole)
        else:
            self.client_queue.append(Message(whole.dot, to_dots(vertex.pred), whole.payload, whole.dest))
        self.v[d[0]] = d[1]
        return sorted(vertex.succ)

    def lost_predecessor(self, s: Pair, d: Pair) -> bool:
        """Lines 33 and 34: clear the bit of d's sender at s; is s ready now?"""
        self.g[s].bits &= ~self.bit[d[0]]
        return self.g[s].bits == 0

    def admit(self, member: int) -> None:
        self.v[member] = 0
        self.bit[member] = 2**member


def literal_vector(*without: Erratum) -> Engine:
    """Algorithms 2 and 3, mended but for the errata named."""
    mended = ALL - set(without)
    return Engine(
        "literal-vector", VectorClient, partial(VectorMiddleware, mended=mended), vector_predecessors
    )


def literal_graph(*without: Erratum) -> Engine:
    """Algorithms 4 and 5, mended but for the errata named."""
    mended = ALL - set(without)
    return Engine(
        "literal-graph",
        partial(GraphClient, mended=mended),
        partial(GraphMiddleware, mended=mended),
        graph_predecessors,
    )
