"""Chapter 3 of the tagged causal broadcast document: happens-before between what clients see.

One test for each claim that can be checked, for every engine that orders.
"""

import pytest
from support.applications import AddWinsSet, Monitor, Tags
from support.schedules import Model

from thence.order.engine import Engine
from thence.order.engines import ENGINES

ORDERING = [kind for kind in ENGINES.values() if kind.name != "none" and kind.prompt]

every_engine = pytest.mark.parametrize("kind", ORDERING, ids=lambda kind: kind.name)


def chat(kind: Engine) -> tuple[Model, list[bytes]]:
    """Ross (0), Rachel (1) and Phoebe (2) talk; Joey (3) reads. Nothing has reached Joey yet."""
    model = Model(kind, 4)
    late = model.broadcast(0)
    model.deliver(late, 1)
    model.deliver(late, 2)
    too_bad = model.broadcast(1)
    model.deliver(too_bad, 0)
    model.deliver(too_bad, 2)
    cancelled = model.broadcast(0)
    model.deliver(cancelled, 2)
    great = model.broadcast(2)
    return model, [late, too_bad, cancelled, great]


@every_engine
def test_joey_reads_the_conversation_in_the_order_of_its_causes(kind: Engine) -> None:
    """3.2: whatever overtakes on the way, no answer is read before what it answers."""
    model, talk = chat(kind)
    late, too_bad, cancelled, great = talk
    read = []
    for name in (late, great, cancelled, too_bad):
        read += model.deliver(name, 3)
    assert read == talk


def test_fifo_alone_confuses_joey() -> None:
    """3.2: the same arrivals keep every sender's own order, and still show joy before its reason."""
    model, (late, too_bad, cancelled, great) = chat(ENGINES["graph"])
    passing = ENGINES["none"].orderer(3, 4)
    read = []
    for name in (late, great, cancelled, too_bad):
        read += passing.receive(model.messages[name], 0, 0)
    assert read == [model.messages[name] for name in (late, great, cancelled, too_bad)]
    assert read.index(model.messages[late]) < read.index(model.messages[cancelled])


@every_engine
def test_receiving_orders_nothing(kind: Engine) -> None:
    """3.3: what the middleware received but the client has not got is not in the past of a send."""
    model = Model(kind, 4)
    cause = model.broadcast(0)
    model.deliver(cause, 1)
    effect = model.broadcast(1)
    assert model.bring(effect, 2) == frozenset()
    unrelated = model.broadcast(2)
    assert model.spelled(model.messages[unrelated]) == frozenset()
    assert model.deliver(unrelated, 3) == [unrelated]


@every_engine
def test_happens_before_is_the_closure_of_client_order_and_delivery(kind: Engine) -> None:
    """3.3: a send follows the client's earlier sends and deliveries, and what those follow."""
    model = Model(kind, 3)
    a1 = model.broadcast(0)
    model.deliver(a1, 1)
    b1 = model.broadcast(1)
    b2 = model.broadcast(1)
    model.deliver(a1, 2)
    model.deliver(b1, 2)
    c1 = model.broadcast(2)
    spelled = {name: model.spelled(model.messages[name]) for name in (a1, b1, b2, c1)}
    assert spelled == {
        a1: frozenset(),
        b1: frozenset({a1}),
        b2: frozenset({a1, b1}),
        c1: frozenset({a1, b1}),
    }


@every_engine
def test_a_stale_theoretical_price_is_recognised_by_its_tag(kind: Engine) -> None:
    """3.4.1: a theoretical price that does not follow the current option price is not shown, though
    causal order alone allows its delivery."""
    model, monitor = Model(kind, 3), Monitor(kind)
    what: dict[bytes, str] = {}

    def option(label: str) -> bytes:
        name = model.broadcast(0)
        what[name] = label
        return name

    def theoretical(label: str, behind: bytes) -> bytes:
        model.deliver(behind, 1)
        name = model.broadcast(1)
        what[name] = label
        return name

    o1 = option("O1")
    t1 = theoretical("T1", o1)
    o2 = option("O2")
    t2 = theoretical("T2", o2)
    o3 = option("O3")
    delivered = []
    for price in (o1, t1, o2, o3, t2):
        for name in model.deliver(price, 2):
            delivered.append(what[name])
            monitor.on(what[name], model.messages[name])
    assert delivered == ["O1", "T1", "O2", "O3", "T2"]
    assert monitor.shown == ["O1", "T1", "O2", "O3"]


@every_engine
def test_an_add_wins_over_a_concurrent_remove_everywhere(kind: Engine) -> None:
    """3.4.2, figure 16: replicas that get a concurrent add and remove in different orders agree, if
    they know that the two are concurrent; by the order of delivery alone they do not."""
    model = Model(kind, 3)
    sets = [AddWinsSet(kind) for _ in range(3)]
    last_delivered = [""] * 3

    def apply(me: int, name: bytes, what: str) -> None:
        sets[me].on(what, model.messages[name])
        last_delivered[me] = what

    def issue(me: int, what: str) -> bytes:
        name = model.broadcast(me)
        apply(me, name, what)
        return name

    def deliver(name: bytes, what: str, *members: int) -> None:
        for me in members:
            assert model.deliver(name, me) == [name]
            apply(me, name, what)

    p, q, r = range(3)
    deliver(issue(p, "add"), "add", q, r)
    deliver(issue(q, "remove"), "remove", p, r)
    assert ["a" in replica for replica in sets] == [False, False, False]
    add, remove = issue(p, "add"), issue(r, "remove")
    deliver(add, "add", q, r)
    deliver(remove, "remove", p, q)
    assert ["a" in replica for replica in sets] == [True, True, True]
    assert last_delivered == ["remove", "remove", "add"]


@pytest.mark.parametrize("naive", [False, True], ids=["tagged at the client", "tagged in the middleware"])
@every_engine
def test_a_second_level_of_tags_does_not_save_the_delay(kind: Engine, naive: bool) -> None:
    """3.5.1: an operation waits in the outbox while a concurrent one arrives. Stamped by the
    middleware it is held everywhere else for the sake of the other, whatever tags of its own the
    application carries in the payload. Tagged at the call it is not."""
    model = Model(kind, 3, tag_at_flush=naive, took_at_release=naive, strict=not naive)
    o_a = model.submit(0)
    o_b = model.broadcast(1)
    model.deliver(o_b, 0)
    model.flush(0)
    assert o_b not in model.truth.past[o_a]
    assert model.deliver(o_a, 2) == ([] if naive else [o_a])
    assert set(model.deliver(o_b, 2)) == ({o_a, o_b} if naive else {o_b})


def test_the_double_tagged_baseline_is_exact_and_late() -> None:
    """3.5.1: with a clock of its own in every message the application knows that the two operations
    are concurrent, and waits all the same."""
    model = Model(ENGINES["vector-e2e"], 3)
    o_a = model.submit(0)
    o_b = model.broadcast(1)
    model.deliver(o_b, 0)
    model.flush(0)
    assert model.spelled(model.messages[o_a]) == frozenset()
    assert model.deliver(o_a, 2) == []
    assert model.deliver(o_b, 2) == [o_b, o_a]
    assert len(model.flights) == 0 or all(len(m.context) == 6 for _, _, m in model.flights)


@pytest.mark.parametrize("naive", [False, True], ids=["tagged at the call", "tagged when dequeued"])
@every_engine
def test_an_answer_from_a_callback_does_not_follow_later_callbacks(kind: Engine, naive: bool) -> None:
    """3.6, callbacks: two messages are handed over in a row and the first is answered from its
    callback. Tagged only when the queue of sends is looked at, the answer follows both."""
    model = Model(kind, 4, tag_at_flush=naive, strict=not naive)
    cause = model.broadcast(0)
    answers = []
    for me in (1, 2):
        model.deliver(cause, me)
        answers.append(model.broadcast(me))
        assert model.bring(answers[-1], 3) == frozenset()
    model.bring(cause, 3)
    order = [message.payload for message in model.nodes[3].inbox]
    assert set(order) == {cause, *answers}
    replies = iter([False, True, False])
    model.callbacks(3, lambda: next(replies))
    told = model.spelled(model.messages[b"3/1"])
    assert told is not None
    assert model.truth.past[b"3/1"] == frozenset(order[:2])
    assert (order[2] in told) is naive


@pytest.mark.parametrize("naive", [False, True], ids=["tagged at the call", "tagged in the middleware"])
@every_engine
def test_a_send_does_not_follow_what_waits_in_the_inbox(kind: Engine, naive: bool) -> None:
    """3.6, two processes: a message ready in the delivery queue, which the client has not taken, is
    concurrent with what the client sends."""
    model = Model(kind, 3, tag_at_flush=naive, took_at_release=naive, strict=not naive)
    ready = model.broadcast(0)
    assert model.bring(ready, 1) == {ready}
    name = model.broadcast(1)
    assert model.truth.past[name] == frozenset()
    assert model.spelled(model.messages[name]) == ({ready} if naive else frozenset())
    assert model.deliver(name, 2) == ([] if naive else [name])


@every_engine
def test_a_tag_is_made_with_the_send_and_does_not_change_in_the_queue(kind: Engine) -> None:
    """3.7.1: the stamp belongs to the call; deliveries between the call and the network are not in it."""
    model = Model(kind, 2)
    model.submit(0)
    before = model.messages[b"0/1"].context
    model.deliver(model.broadcast(1), 0)
    model.flush(0)
    ((_, _, message),) = model.flights
    assert message.payload == b"0/1"
    assert message.context == before


@every_engine
def test_a_callback_that_sends_follows_what_it_was_called_for(kind: Engine) -> None:
    """3.7.1: the metadata at the client is updated before its action runs."""
    model = Model(kind, 2)
    question = model.broadcast(0)
    model.bring(question, 1)
    model.callbacks(1, lambda: True)
    assert model.spelled(model.messages[b"1/1"]) == frozenset({question})


@pytest.mark.parametrize("naive", [False, True], ids=["end to end", "internal"])
@every_engine
def test_two_sends_that_cross_stay_concurrent(kind: Engine, naive: bool) -> None:
    """3.7.1, figure 17: A's message reaches B before B's own is tagged inside. End-to-end tags keep
    the two concurrent at every application; internal ones order them."""
    model = Model(kind, 2, tag_at_flush=naive, took_at_release=naive, strict=not naive)
    msg_a = model.submit(0)
    msg_b = model.submit(1)
    model.flush(0)
    model.deliver(msg_a, 1)
    model.flush(1)
    tags = Tags(kind)
    for name in (msg_a, msg_b):
        tags.saw(model.messages[name])
    assert tags.concurrent(model.messages[msg_a], model.messages[msg_b]) is not naive
