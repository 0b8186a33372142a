"""Algorithms 2 to 5 of the tagged causal broadcast document as printed: what fails, and why.

Each story is played twice, with one mend left out and with all of them made. docs/ERRATA.md tells the
same in prose.
"""

import pytest
from support.conformance import GRAPH_CHECKS
from support.literal import Erratum, GraphMiddleware, VectorMiddleware, literal_graph, literal_vector
from support.schedules import Model

from thence.core.dots import pack
from thence.core.message import Message
from thence.order.engine import Engine

GRAPH_ERRATA = [
    (Erratum.COUNT_FROM_ONE, "alone", "lost"),
    (Erratum.CONTEXT_IS_SENT_DOT, "two queues", "stamp"),
    (Erratum.CONTEXT_STAYS_WHOLE, "two queues", "stamp"),
]
VECTOR_ERRATA = [
    (Erratum.PENDING_ARE_KNOWN, "two queues", "lost"),
    (Erratum.SURVIVORS_MOVE_DOWN, "two queues", "held"),
    (Erratum.DELIVERY_ADVANCES, "alone", "held"),
]
CASES = [(literal_graph(case[0]), *case) for case in GRAPH_ERRATA]
CASES += [(literal_vector(case[0]), *case) for case in VECTOR_ERRATA]


def mended_or_not(erratum: Erratum) -> pytest.MarkDecorator:
    literal = literal_vector if erratum in [case[0] for case in VECTOR_ERRATA] else literal_graph
    return pytest.mark.parametrize(
        ("kind", "mended"), [(literal(), True), (literal(erratum), False)], ids=["mended", "as printed"]
    )


@pytest.mark.parametrize(
    ("kind", "erratum", "check", "finds"), CASES, ids=[case[1].name.lower() for case in CASES]
)
def test_the_kit_refuses_the_printed_algorithm(
    kind: Engine, erratum: Erratum, check: str, finds: str
) -> None:
    with pytest.raises(AssertionError, match=f"^{finds}: "):
        GRAPH_CHECKS[check](kind)


@mended_or_not(Erratum.COUNT_FROM_ONE)
def test_message_zero_is_never_delivered(kind: Engine, mended: bool) -> None:
    """E1a. Counters start at 0, and so does the delivered vector: message 0 looks delivered."""
    tagger, orderer = kind.tagger(1, 2), kind.orderer(0, 2)
    zero, one = tagger.tag(b""), tagger.tag(b"")
    assert orderer.receive(zero, 1, 0) == ([zero] if mended else [])
    assert orderer.receive(one, 1, 0) == [one]


@mended_or_not(Erratum.CONTEXT_IS_SENT_DOT)
def test_a_second_message_waits_for_itself(kind: Engine, mended: bool) -> None:
    """E1b. The dot is incremented before it becomes the context: the next message names itself."""
    tagger, orderer = kind.tagger(1, 2), kind.orderer(0, 2)
    first, second = tagger.tag(b""), tagger.tag(b"")
    assert (second.dot in second.context) is not mended
    assert orderer.receive(first, 1, 0) == [first]
    assert orderer.receive(second, 1, 0) == ([second] if mended else [])


@mended_or_not(Erratum.CONTEXT_STAYS_WHOLE)
def test_the_application_cannot_tell_a_cause_from_a_concurrent_message(kind: Engine, mended: bool) -> None:
    """E2. Causes that were delivered already are filtered out of what the client gets: an answer
    looks as if it followed nothing."""
    model = Model(kind, 3, strict=False)
    question = model.broadcast(0)
    model.deliver(question, 1)
    answer = model.broadcast(1)
    model.deliver(question, 2)
    model.bring(answer, 2)
    (delivered,) = model.nodes[2].inbox
    assert model.spelled(delivered) == (frozenset({question}) if mended else frozenset())


@mended_or_not(Erratum.CONTEXT_STAYS_WHOLE)
def test_a_context_that_is_not_reduced_breaks_the_bit_string(kind: Engine, mended: bool) -> None:
    """E2 again. A client that gets filtered contexts cannot reduce its own: it names two dots of one
    origin, whose bits add up to the bit of another message, and the message waits for ever."""
    model = Model(kind, 3, strict=False)
    a1 = model.broadcast(0)
    model.deliver(a1, 1)
    a2 = model.broadcast(0)
    model.deliver(a2, 1)
    b1 = model.messages[model.broadcast(1)]
    assert b1.context == ((pack(0, 2),) if mended else (pack(0, 1), pack(0, 2)))
    orderer = model.nodes[2].orderer
    orderer.receive(b1, 1, 0)
    assert isinstance(orderer, GraphMiddleware)
    assert orderer.g[1, 1].bits == (orderer.bit[0] if mended else orderer.bit[1])
    orderer.receive(model.messages[a1], 0, 0)
    orderer.receive(model.messages[a2], 0, 0)
    assert orderer.waiting == (0 if mended else 1)


@mended_or_not(Erratum.PENDING_ARE_KNOWN)
def test_a_message_that_was_overtaken_is_taken_for_a_duplicate(kind: Engine, mended: bool) -> None:
    """E3. The second message raises the count of received ones to 1, which the first does not exceed."""
    tagger, orderer = kind.tagger(1, 2), kind.orderer(0, 2)
    first, second = tagger.tag(b""), tagger.tag(b"")
    assert orderer.receive(second, 1, 0) == []
    assert orderer.receive(first, 1, 0) == ([first, second] if mended else [])


@mended_or_not(Erratum.PENDING_ARE_KNOWN)
def test_a_duplicate_is_taken_for_new(kind: Engine, mended: bool) -> None:
    """E3, the other way: the third of three comes first, and twice. Its count, 3, exceeds what was
    counted, so it is queued a second time."""
    tagger, orderer = kind.tagger(1, 2), kind.orderer(0, 2)
    *_, third = (tagger.tag(b"") for _ in range(3))
    orderer.receive(third, 1, 0)
    orderer.receive(third, 1, 0)
    assert orderer.waiting == (1 if mended else 2)


@mended_or_not(Erratum.SURVIVORS_MOVE_DOWN)
def test_compaction_overwrites_the_survivor_with_the_delivered(kind: Engine, mended: bool) -> None:
    """E4a. After a delivery out of the middle of the queue, what must stay is replaced by what went."""
    ones, twos = kind.tagger(1, 3), kind.tagger(2, 3)
    orderer = kind.orderer(0, 3)
    assert isinstance(orderer, VectorMiddleware)
    first, second = ones.tag(b"first"), ones.tag(b"second")
    missing, survivor = twos.tag(b"missing"), twos.tag(b"survivor")
    orderer.receive(second, 1, 0)
    orderer.receive(survivor, 2, 0)
    assert orderer.receive(first, 1, 0) == [first, second]
    assert orderer.dq == ([survivor] if mended else [second])
    assert orderer.receive(missing, 2, 0) == ([missing, survivor] if mended else [missing])


@mended_or_not(Erratum.DELIVERY_ADVANCES)
def test_a_message_delivered_at_once_stops_its_sender(kind: Engine, mended: bool) -> None:
    """E4b. The delivered vector does not move, so the sender's next message is never the next."""
    tagger, orderer = kind.tagger(1, 2), kind.orderer(0, 2)
    first, second = tagger.tag(b""), tagger.tag(b"")
    assert orderer.receive(first, 1, 0) == [first]
    assert orderer.receive(second, 1, 0) == ([second] if mended else [])


def test_recursion_overflows_on_the_chain_that_a_partition_leaves() -> None:
    """E5. The depth of the recursion is the length of the chain."""
    chain_check = GRAPH_CHECKS["long chain"]
    with pytest.raises(RecursionError):
        chain_check(literal_graph(Erratum.NO_RECURSION))
    chain_check(literal_graph())


def test_recursion_is_right_while_the_stack_lasts() -> None:
    """E5 is about depth alone: on short chains the printed recursion orders correctly."""
    for name in ("two queues", "callbacks", "reversed", "reduced"):
        GRAPH_CHECKS[name](literal_graph(Erratum.NO_RECURSION))


def test_every_erratum_has_its_case() -> None:
    assert {case[1] for case in CASES} | {Erratum.NO_RECURSION} == set(Erratum)


def test_algorithm_2_is_right_as_printed() -> None:
    """If its line 6 is read as incrementing the own entry, as its description says."""
    tagger = literal_vector().tagger(1, 3)
    tagger.took(Message(pack(0, 1), (1, 0, 0), b""))
    assert tagger.tag(b"").context == (1, 1, 0)
