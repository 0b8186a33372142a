"""Sections 4.4 and 4.5 of the tagged causal broadcast document: dots and the dependency graph.

What the document says about cost is checked by counting looks at messages, never by a clock.
"""

import pytest
from support.literal import GraphMiddleware, literal_graph
from support.schedules import Model, weight

from thence.core.dots import origin_of
from thence.core.message import Message
from thence.order.engine import Engine
from thence.order.graph import GRAPH
from thence.order.vector import VECTOR

GRAPHS = [GRAPH, literal_graph()]
both_graphs = pytest.mark.parametrize("kind", GRAPHS, ids=lambda kind: kind.name)


@both_graphs
def test_the_dependencies_of_c2_in_figure_19(kind: Engine) -> None:
    """4.4.1, figure 19: C2 has seen A1, B1, A2 and C1, and names only A2 and C1."""
    model = Model(kind, 3)
    a, b, c = range(3)
    a1 = model.broadcast(a)
    model.deliver(a1, b)
    b1 = model.broadcast(b)
    model.deliver(b1, a)
    a2 = model.broadcast(a)
    c1 = model.broadcast(c)
    for name in (a1, b1, a2):
        model.deliver(name, c)
    c2 = model.broadcast(c)
    named = {model.named[dot] for dot in model.messages[c2].context}
    assert named == {a2, c1}
    assert model.spelled(model.messages[c2]) == frozenset({a1, b1, a2, c1})


@both_graphs
def test_a_context_is_as_large_as_there_are_concurrent_updates(kind: Engine) -> None:
    """4.4.1: one dot for each concurrent update delivered since the last send, however many members
    there are and however many messages went by."""
    for speakers in range(1, 8):
        model = Model(kind, 8)
        names = [model.broadcast(me) for me in range(speakers)]
        for name in names:
            model.deliver(name, 7)
        assert len(model.messages[model.broadcast(7)].context) == speakers
        follow_up = model.broadcast(7)
        assert len(model.messages[follow_up].context) == 1


@both_graphs
def test_messages_that_follow_each_other_cost_one_dot(kind: Engine) -> None:
    """4.4.1: what is in the past of something newer is not named again."""
    model = Model(kind, 6)
    for number in range(30):
        name = model.broadcast(number % 6)
        for me in range(6):
            if me != number % 6:
                model.deliver(name, me)
        assert len(model.messages[name].context) == min(number, 1)


@both_graphs
def test_a_context_is_never_larger_than_a_vector(kind: Engine) -> None:
    """4.4.1: at worst one dot per member, when all members send at once."""
    model = Model(kind, 5)
    for _ in range(3):
        names = [model.broadcast(me) for me in range(5)]
        for name in names:
            for me in range(5):
                if not name.startswith(b"%d/" % me):
                    model.deliver(name, me)
    message = model.messages[model.broadcast(0)]
    assert len(message.context) == 5
    assert {origin_of(dot) for dot in message.context} == set(range(5))


class Watched(Message):
    """A message that counts how often an orderer looks at its dot."""

    __slots__ = ("looks",)

    def __init__(self, message: Message) -> None:
        super().__init__(message.dot, message.context, message.payload, message.dest)
        self.looks = 0

    def __getattribute__(self, name: str) -> object:
        if name == "dot":
            self.looks += 1
        return super().__getattribute__(name)


def looks_at_the_rest(kind: Engine, crowd: int) -> int:
    """`crowd` members each have a message waiting for one that is missing, and so has one member
    more; only that one's missing message comes. How often were the others looked at meanwhile?"""
    orderer = kind.orderer(0, crowd + 2)
    waiting = []
    for me in range(1, crowd + 2):
        tagger = kind.tagger(me, crowd + 2)
        missing, message = tagger.tag(b"missing"), Watched(tagger.tag(b"waiting"))
        waiting.append(message)
        assert orderer.receive(message, me, 0) == []
    for message in waiting:
        message.looks = 0
    assert orderer.receive(missing, crowd + 1, 0) == [missing, waiting[-1]]
    assert orderer.waiting == crowd
    return sum(message.looks for message in waiting[:-1])


def test_only_successors_are_looked_at() -> None:
    """4.4.2: a delivery makes the graph look at what waits for it, the queue at everything there is,
    and at least twice, since a pass that delivered something is followed by another."""
    assert looks_at_the_rest(GRAPH, 50) == 0
    assert looks_at_the_rest(VECTOR, 50) >= 2 * 50


@pytest.mark.parametrize("length", [10, 40])
def test_a_backlog_costs_the_graph_a_constant_for_each_message(length: int) -> None:
    """4.4.2: the more is undelivered, the more a queue loses: a chain that arrived backwards costs
    the graph the same for each message, and the queue a pass for each."""
    looks = {}
    for kind in (GRAPH, VECTOR):
        tagger, orderer = kind.tagger(1, 2), kind.orderer(0, 2)
        first = tagger.tag(b"first")
        chain = [Watched(tagger.tag(b"")) for _ in range(length)]
        for message in reversed(chain):
            orderer.receive(message, 1, 0)
        for message in chain:
            message.looks = 0
        assert orderer.receive(first, 1, 0) == [first, *chain]
        looks[kind.name] = sum(message.looks for message in chain)
    assert looks["graph"] <= 3 * length
    assert looks["vector"] > length * length / 2


@both_graphs
def test_the_four_ways_a_message_can_arrive(kind: Engine) -> None:
    """4.5.2, figure 21: new and ready, new and too early, known only as a cause of another, or old:
    waiting already, or delivered. Old ones change nothing."""
    tagger, orderer = kind.tagger(1, 2), kind.orderer(0, 2)
    one, two, three = (tagger.tag(b"%d" % number) for number in range(3))
    at_rest = weight(orderer)
    assert orderer.receive(three, 1, 0) == []
    assert orderer.receive(three, 1, 0) == []
    assert orderer.waiting == 1
    assert orderer.receive(two, 1, 0) == []
    assert orderer.waiting == 2
    assert orderer.receive(one, 1, 0) == [one, two, three]
    for message in (one, two, three):
        assert orderer.receive(message, 1, 0) == []
    assert orderer.waiting == 0
    assert weight(orderer) == at_rest


def test_a_dot_goes_from_slot_to_received_to_gone() -> None:
    """4.4.3 and figure 20: a dot named before it came is a slot with successors; when it comes it
    keeps them; when delivered it leaves the graph."""
    tagger = GRAPH.tagger(1, 2)
    one, two, three = (tagger.tag(b"") for _ in range(3))
    orderer = literal_graph().orderer(0, 2)
    assert isinstance(orderer, GraphMiddleware)
    orderer.receive(three, 1, 0)
    assert {d: v.stage for d, v in orderer.g.items()} == {(1, 2): "slt", (1, 3): "rcv"}
    orderer.receive(two, 1, 0)
    assert {d: v.stage for d, v in orderer.g.items()} == {(1, 1): "slt", (1, 2): "rcv", (1, 3): "rcv"}
    assert orderer.g[1, 2].succ == {(1, 3)}
    assert orderer.g[1, 2].bits == 0b10
    orderer.receive(one, 1, 0)
    assert orderer.g == {}


@both_graphs
def test_own_messages_need_no_place_in_the_graph(kind: Engine) -> None:
    """4.5.2: the delivered vector knows about them; what follows them is not held for them."""
    model = Model(kind, 2)
    at_rest = weight(model.nodes[0].orderer)
    names = [model.broadcast(0) for _ in range(5)]
    assert weight(model.nodes[0].orderer) == at_rest
    for name in names:
        model.deliver(name, 1)
    answer = model.broadcast(1)
    assert model.deliver(answer, 0) == [answer]


@both_graphs
def test_a_diamond_is_delivered_once_both_sides_are(kind: Engine) -> None:
    """4.5.2: a message with two causes waits for both, in whichever order they come."""
    for flip in (False, True):
        model = Model(kind, 4)
        top = model.broadcast(0)
        sides = []
        for me in (1, 2):
            model.deliver(top, me)
            sides.append(model.broadcast(me))
        for name in sides:
            model.deliver(name, 0)
        bottom = model.broadcast(0)
        left, right = reversed(sides) if flip else sides
        assert model.deliver(bottom, 3) == []
        assert model.deliver(left, 3) == []
        assert model.deliver(top, 3) == [top, left]
        assert model.deliver(right, 3) == [right, bottom]
