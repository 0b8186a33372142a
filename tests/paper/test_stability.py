"""Chapter 5 of the tagged causal broadcast document: causal stability. Costs are counted, never timed."""

from random import Random
from typing import Any, cast

import pytest
from support.literal import Pair
from support.literal_stability import BitWalk, StabilityMatrix
from support.literal_witnesses import literal_walk
from support.witnesses import Model

from thence.core.dots import ORIGIN_MASK, pack
from thence.core.message import Message
from thence.order.engine import Engine
from thence.order.engines import ENGINES
from thence.order.matrix import Matrix
from thence.order.window import Window

A, B, C, D = range(4)
NOTHING: frozenset[Pair] = frozenset()

every_witness = pytest.mark.parametrize(
    "kind",
    [kind for kind in (*ENGINES.values(), literal_walk()) if kind.witness is not None],
    ids=lambda kind: kind.name,
)


# 5.1: what causal stability is.


@every_witness
def test_once_stable_nothing_concurrent_is_delivered(kind: Engine) -> None:
    """5.1, definition 1: at every client, whatever is delivered after m was announced follows m."""
    for seed in range(5):
        model = Model(kind, 4, Random(seed))
        stable: list[set[int]] = [set() for _ in range(4)]
        for _ in range(150):
            me = model.rng.randrange(4)
            places = model.deliverable()
            if places and model.rng.random() < 0.8:
                place = model.rng.choice(places)
                to, message = model.flights[place]
                assert stable[to] <= model.past[message.dot]
                model.take(place)
            else:
                model.send(me)
            stable[me].update(model.sweep(me))
        assert all(stable), "the run was too short to say anything"


@every_witness
def test_stability_is_a_property_of_a_node(kind: Engine) -> None:
    """5.1: a message may be stable at one node and not yet at another."""
    model = Model(kind, 3, Random(0))
    m = model.send(A)
    model.bring(m, B)
    model.bring(m, C)
    answers = [model.send(B), model.send(C)]
    for answer in answers:
        model.bring(answer, A)
    model.bring(answers[0], C)
    assert m.dot in model.sweep(A)
    assert m.dot in model.sweep(C), "C is one of those that it must be known to have reached"
    assert m.dot not in model.sweep(B), "of C's answer B has not heard"


@every_witness
def test_stability_is_more_than_having_been_received_everywhere(kind: Engine) -> None:
    """5.1: every member has delivered m, but something concurrent is still on its way to A: m is stable in
    the classical sense and not causally stable at A."""
    model = Model(kind, 3, Random(0))
    concurrent = model.send(B)
    m = model.send(A)
    for me in (B, C):
        model.bring(m, me)
    assert all(m.dot in client.seen for client in model.clients)
    model.bring(model.send(C), A)
    assert m.dot not in model.sweep(A)
    model.bring(concurrent, A)
    assert m.dot not in model.sweep(A), "B has sent that before it saw m"
    model.bring(model.send(B), A)
    assert m.dot in model.sweep(A)


@every_witness
def test_the_formula_asks_for_more_than_the_definition(kind: Engine) -> None:
    """5.1: the formula wants a *later* message from every other node, the sender of m included. The
    definition, 5.1.1 and the bits of 5.1.2 do not: all that m's sender sends later follows m anyway."""
    model = Model(kind, 3, Random(0))
    m = model.send(B)
    model.bring(m, C)
    model.bring(m, A)
    answer = model.send(C)
    model.bring(answer, A)
    later_than_m = {dot & ORIGIN_MASK for dot in model.clients[A].seen if m.dot in model.past[dot]}
    assert later_than_m == {C}, "by the formula not stable: nothing later of B was delivered"
    assert m.dot in model.sweep(A)
    model.finish()


# 5.1.1 and 5.2: vectors.


def test_low_is_what_all_members_have_delivered() -> None:
    """5.1.1: low(L, j) = 4 means that every member has delivered at least four messages of j; stable is
    what is not above it."""
    matrix = Matrix(A, 3)
    tags = [matrix.see(Message(pack(A, n), (n, 0, 0), b"")) for n in range(1, 7)]
    matrix.see(Message(pack(B, 1), (5, 1, 0), b""))
    matrix.see(Message(pack(C, 1), (4, 0, 1), b""))
    assert min(row[A] for row in matrix._rows) == 4
    assert matrix.sweep() == tags[:4]


def test_the_example_of_the_stable_vector() -> None:
    """5.2: from [15, 9, 10, 12] to [16, 9, 10, 13], message 16 of peer 0 and 13 of peer 3 are stable."""
    matrix = StabilityMatrix(1, 4)
    matrix.v = [16, 9, 10, 13]
    matrix.m = [[16, 9, 10, 13], [16, 9, 10, 13], [15, 9, 10, 12], [16, 9, 10, 13]]
    matrix.sv = [15, 9, 10, 12]
    matrix.smap = {(0, 16): 1, (3, 13): 2}
    matrix.min = [2, 2, 2, 2]
    matrix.updatestability(2, (16, 9, 11, 13))
    assert matrix.sv == [16, 9, 10, 13]
    assert list(matrix.to_client) == [(0, 16), (3, 13)]


def test_the_example_of_the_stable_vector_from_the_start() -> None:
    """5.2: the same for our matrix, with all the messages that lead there."""
    matrix = Matrix(1, 4)
    clocks = ((15, 9, 10, 12), (16, 9, 10, 13))
    for origin, count in enumerate((16, 9, 10, 13)):
        for seq in range(1, count + 1):
            known = [min(have, seq - 1) for have in clocks[0]]
            known[origin] = seq
            matrix.see(Message(pack(origin, seq), tuple(known), b""))
    for origin in (0, 3):
        matrix.heard(origin, clocks[1])
    matrix.heard(2, clocks[0])
    matrix.sweep()
    assert matrix._stable == list(clocks[0])
    matrix.heard(2, clocks[1])
    assert [tag.dot for tag in matrix.sweep()] == [pack(0, 16), pack(3, 13)]
    assert matrix._stable == list(clocks[1])


def test_a_step_of_several_makes_all_of_them_stable() -> None:
    """5.2: entries that differ are the new stable messages; by more than one, all in between as well."""
    matrix = Matrix(A, 2)
    tags = [matrix.see(Message(pack(A, n), (n, 0), b"")) for n in range(1, 6)]
    tags.append(matrix.see(Message(pack(B, 1), (5, 1), b"")))
    assert matrix.sweep() == tags


def test_minima_are_looked_for_only_where_they_may_have_changed() -> None:
    """5.2.2: while a message's sender holds the minimum of no column, no column is looked at."""
    matrix = StabilityMatrix(D, 4)
    for n in range(1, 60):
        matrix.updatestability(B, (0, n, n - 1, 0))
        matrix.updatestability(C, (0, n, n, 0))
    assert matrix.columns_looked_at == 0, "A holds every minimum, and says nothing"
    matrix.updatestability(A, (1, 59, 59, 0))
    assert matrix.columns_looked_at == 4
    assert matrix.sv == [0, 59, 58, 0]


# 5.1.2 and 5.3: the graph.


@pytest.mark.parametrize("kind", [ENGINES["graph"], literal_walk()], ids=lambda kind: kind.name)
def test_a_delivery_counts_for_everything_that_it_follows(kind: Engine) -> None:
    """5.1.2: with a message of j, j is known to have delivered all its predecessors, the indirect
    ones too."""
    model = Model(kind, 4, Random(0))
    chain = []
    for number in range(6):
        chain.append(model.send(number % 2))
        model.bring(chain[-1], 1 - number % 2)
        model.bring(chain[-1], C)
    answer = model.send(C)
    assert len(answer.context) == 1
    model.bring(answer, A)
    model.sweep(A)
    assert all(model.clients[A].witness.reached(message.dot) == 3 for message in chain)


@every_witness
def test_stability_is_announced_in_causal_order(kind: Engine) -> None:
    """5.1.2: older ones first, however many become stable at once."""
    model = Model(kind, 3, Random(0))
    sent = []
    for number in range(12):
        sent.append(model.send(number % 2))
        for me in (1 - number % 2, C):
            model.bring(sent[-1], me)
    last = model.send(C)
    model.bring(last, A)
    assert model.sweep(A) == [message.dot for message in sent]


def bits_of(walk: BitWalk) -> dict[str, str]:
    """Stage and bit string of each dot, as figure 24 draws them: the observer's own bit left out."""
    return {f"{'ABCD'[d[0]]}{d[1]}": f"{vertex.stage} {vertex.bits >> 1:03b}" for d, vertex in walk.g.items()}


def test_the_evolution_of_the_graph_in_figure_24() -> None:
    """5.3.2: A1 and C1 are delivered, B2 waits for B1, A2 for B1, C2 for A2; then B1 comes. Strings name
    A, B and C only and no local bit is ever clear in them, so that the observer is a fourth member."""
    walk = BitWalk(D, 4)
    walk.receive((A, 1), NOTHING)
    walk.receive((C, 1), NOTHING)
    walk.receive((B, 2), frozenset([(B, 1)]))
    walk.receive((A, 2), frozenset([(A, 1), (B, 1)]))
    walk.receive((C, 2), frozenset([(A, 2), (C, 1)]))
    assert bits_of(walk) == {
        "A1": "dlv 011", "C1": "dlv 110", "B1": "slt 000", "B2": "rcv 010", "A2": "rcv 010", "C2": "rcv 100",
    }  # fmt: skip
    history = []
    mark = walk.updatestability

    def watched(b: int, d: Pair) -> None:
        history.append(bits_of(walk).get("B1"))
        mark(b, d)

    cast(Any, walk).updatestability = watched
    walk.receive((B, 1), NOTHING)
    delivered = ["ABC"[d[0]] + str(d[1]) for kind, d, _ in walk.to_client if kind == "dlv"]
    assert delivered == ["A1", "C1", "B1", "A2", "B2", "C2"]
    strings = [one for before, one in zip([None, *history], history, strict=False) if one != before]
    assert strings == ["dlv 111", "dlv 101", "dlv 001"], "its own delivery, then A2's; C2's makes it 0"
    assert bits_of(walk)["B1"] == "stb 000"
    stable = [d for kind, d, _ in walk.to_client if kind == "stb"]
    assert stable == [(B, 1)]
    walk.dequeue_stb((B, 1))
    assert "B1" not in bits_of(walk)
    assert walk.g[A, 2].pred == {(A, 1)}


def test_figure_24_and_our_window() -> None:
    """5.3.2: the same run, delivered in that order: B1 becomes stable with C2, and nothing else does."""
    window = Window(D, 4)
    a1, c1, b1, a2, b2, c2 = (pack(A, 1), pack(C, 1), pack(B, 1), pack(A, 2), pack(B, 2), pack(C, 2))
    for dot, context in ((a1, ()), (c1, ()), (b1, ()), (a2, (a1, b1)), (b2, (b1,))):
        window.see(Message(dot, context, b""))
        assert window.sweep() == []
    window.see(Message(c2, (c1, a2), b""))
    assert [tag.dot for tag in window.sweep()] == [b1]


# 5.4: phantoms.


@every_witness
def test_who_only_reads_holds_stability_back_unless_it_tells(kind: Engine) -> None:
    """5.4: many readers, few senders. Without phantoms nothing is stable anywhere, ever."""
    for tells in (False, True):
        model = Model(kind, 5, Random(0))
        for number in range(20):
            message = model.send(number % 2)
            for me in range(5):
                if me != number % 2:
                    model.bring(message, me)
        for me in range(2, 5):
            if tells:
                model.tell(me)
        model.hear_all()
        stable = [len(model.sweep(me)) for me in range(5)]
        assert stable == ([20, 19, 19, 19, 19] if tells else [0] * 5)


@every_witness
def test_a_phantom_is_no_message(kind: Engine) -> None:
    """5.4: it enters no graph and no context, and changes no tag."""
    model = Model(kind, 3, Random(0))
    m = model.send(A)
    model.bring(m, B)
    before = model.clients[A].tagger.context()
    for _ in range(3):
        model.tell(B)
    model.hear_all()
    assert len(model.clients[A].witness) == 1
    assert model.clients[A].tagger.context() == before
    following = model.send(A)
    assert ENGINES["graph" if kind.stamps_are_dots else kind.name].predecessors(following) == (m.dot,)
