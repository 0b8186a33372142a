"""Sections 2.4.2.2 and 4.3 of the tagged causal broadcast document: delivery by vectors."""

from itertools import product

from support.schedules import Model

from thence.core.dots import pack
from thence.core.message import Message
from thence.order.vector import VECTOR, VectorOrderer


def test_the_execution_of_figure_14() -> None:
    """2.4.2.2, figure 14: the vectors are those of the text, b and c may be delivered in any order,
    and e, which arrives at P1 before d, waits for it."""
    model = Model(VECTOR, 3)
    p1, p2, p3 = range(3)
    a = model.broadcast(p1)
    assert model.deliver(a, p2) == [a]
    assert model.deliver(a, p3) == [a]
    b, c = model.broadcast(p2), model.broadcast(p3)
    assert model.deliver(c, p2) == [c]
    d = model.broadcast(p2)
    assert model.deliver(b, p3) == [b]
    assert model.deliver(d, p3) == [d]
    e = model.broadcast(p3)
    assert [model.messages[name].context for name in (a, b, c, d, e)] == [
        (1, 0, 0),
        (1, 1, 0),
        (1, 0, 1),
        (1, 2, 1),
        (1, 2, 2),
    ]
    assert model.deliver(b, p1) == [b]
    assert model.deliver(c, p1) == [c]
    assert model.deliver(e, p1) == []
    assert model.deliver(d, p1) == [d, e]
    model.finish()


def orderer_at(delivered: tuple[int, ...]) -> VectorOrderer:
    """An orderer that has delivered so many messages of each member, all unrelated."""
    orderer = VectorOrderer(0, len(delivered))
    for member, count in enumerate(delivered):
        for seq in range(1, count + 1):
            vector = tuple(seq if k == member else 0 for k in range(len(delivered)))
            message = Message(pack(member, seq), vector, b"")
            if member == 0:
                orderer.sent(message, 0)
            else:
                assert orderer.receive(message, member, 0) == [message]
    return orderer


def test_the_delivery_condition_is_exactly_the_documents() -> None:
    """4.3: deliverable iff it is the sender's next and no other entry is ahead. All small cases."""
    checked = 0
    for v_i in product(range(3), repeat=3):
        for v_m in product(range(4), repeat=3):
            for j in (1, 2):
                if v_m[j] <= v_i[j]:
                    continue  # a duplicate, or nothing at all
                message = Message(pack(j, v_m[j]), v_m, b"")
                deliverable = v_m[j] == v_i[j] + 1 and all(v_m[k] <= v_i[k] for k in range(3) if k != j)
                released = orderer_at(v_i).receive(message, j, 0)
                assert released == ([message] if deliverable else []), (v_i, v_m, j)
                checked += deliverable
    assert checked > 100


def test_a_client_counts_what_it_sends_before_it_stamps_and_what_it_takes() -> None:
    """4.3.1: the own entry is incremented before the vector is copied; a delivery sets its sender's."""
    tagger = VECTOR.tagger(1, 3)
    assert tagger.tag(b"").context == (0, 1, 0)
    tagger.took(Message(pack(2, 1), (0, 0, 1), b""))
    assert tagger.tag(b"").context == (0, 2, 1)


def test_one_delivery_may_free_the_whole_queue() -> None:
    """4.3.2: the queue is gone through again after a delivery, in whatever order messages came."""
    model = Model(VECTOR, 4)
    names = []
    for number in range(9):
        name = model.broadcast(number % 3)
        for me in range(3):
            if me != number % 3:
                model.deliver(name, me)
        names.append(name)
    for name in (names[5], names[8], names[1], names[7], names[3], names[6], names[2], names[4]):
        assert model.deliver(name, 3) == []
    assert model.nodes[3].orderer.waiting == 8
    assert model.deliver(names[0], 3) == names
    model.finish()
