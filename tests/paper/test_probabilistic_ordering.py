"""The probabilistic ordering document: its examples and claims, and what fails as printed."""

from itertools import combinations, permutations
from random import Random

import pytest
from support.conformance_probabilistic import NODES, Traffic, drive
from support.literal_probabilistic import ALL, EndlessError, Mend, Process, set_of

from thence.core.machine import Doubt, OrderEffect
from thence.core.message import Message
from thence.order.engine import Engine
from thence.order.keys import Keys, numbered
from thence.order.probabilistic import probabilistic

P_I, P_J, P_K, P1, P2 = range(5)

SETS = {P_I: {0, 1}, P_J: {1, 2}, P_K: {2, 3}, P1: {0, 3}, P2: {1, 3}}
"""Of the examples. Printed, p_k has {3, 4}; with R = 4 entries run from 0 to 3, and {2, 3} is free."""

LEXICOGRAPHIC = [set(chosen) for chosen in combinations(range(4), 2)]


def example(recent: int = 10) -> Engine:
    return probabilistic(4, 2, recent, lambda member: LEXICOGRAPHIC.index(SETS[member]))


def doubts(effects: list[OrderEffect]) -> list[int]:
    return [effect.dot for effect in effects if isinstance(effect, Doubt)]


def messages(effects: list[OrderEffect]) -> list[OrderEffect]:
    return [effect for effect in effects if isinstance(effect, Message)]


def chain(engine: Engine) -> tuple[Message, Message]:
    """m of p_i, and m', which p_j sends after it has delivered m."""
    m = engine.tagger(P_I, 5).tag(b"m")
    tagger, orderer = engine.tagger(P_J, 5), engine.orderer(P_J, 5)
    assert orderer.receive(m, P_I, 0) == [m]
    tagger.took(m)
    return m, tagger.tag(b"m'")


def test_the_delivery_of_figure_1() -> None:
    """4.1.2: m carries [1, 1, 0, 0], m' [1, 2, 1, 0]; p_k delays m' until it has m."""
    engine = example()
    m, m_prime = chain(engine)
    assert (m.context, m_prime.context) == ((1, 1, 0, 0), (1, 2, 1, 0))
    p_k = engine.orderer(P_K, 5)
    assert p_k.receive(m_prime, P_J, 0) == []
    assert p_k.receive(m, P_I, 0) == [m, m_prime]


@pytest.mark.parametrize("recent", [10, 0], ids=["algorithm 5", "algorithm 4"])
def test_the_delivery_error_of_figure_2(recent: int) -> None:
    """4.1.2 and 4.2: m2 and m1 turn p_k's vector into [1, 1, 0, 2], which covers m's entries: m' is delivered
    without m. When m comes, that is noticed."""
    engine = example(recent)
    m, m_prime = chain(engine)
    m1, m2 = engine.tagger(P1, 5).tag(b"m1"), engine.tagger(P2, 5).tag(b"m2")
    p_k, client = engine.orderer(P_K, 5), engine.tagger(P_K, 5)
    for message in (m2, m1):
        assert p_k.receive(message, 0, 0) == [message]
        client.took(message)
    assert client.context() == (1, 1, 0, 2)
    assert p_k.receive(m_prime, P_J, 0) == [m_prime]
    effects = p_k.receive(m, P_I, 0)
    assert messages(effects) == [m]
    assert doubts(effects) == ([m_prime.dot] if recent else [m.dot])


@pytest.mark.parametrize("other", [P1, P2])
def test_one_concurrent_message_does_not_mislead(other: int) -> None:
    """4.1.2: if each set has at most one process, it takes two messages to cover a third."""
    engine = example()
    m, m_prime = chain(engine)
    p_k = engine.orderer(P_K, 5)
    p_k.receive(engine.tagger(other, 5).tag(b""), other, 0)
    assert p_k.receive(m_prime, P_J, 0) == []
    assert p_k.receive(m, P_I, 0) == [m, m_prime]


def test_one_concurrent_message_misleads_if_its_sender_has_the_same_keys() -> None:
    """Drawn at random, two members may have the same set; then the claim does not hold."""
    engine = probabilistic(4, 2, 10, lambda member: 0 if member in (P_I, P1) else member)
    m, m_prime = chain(engine)
    p_k = engine.orderer(P_K, 5)
    p_k.receive(engine.tagger(P1, 5).tag(b""), P1, 0)
    assert p_k.receive(m_prime, P_J, 0) == [m_prime]
    assert m_prime.dot in doubts(p_k.receive(m, P_I, 0))


def test_algorithm_5_as_printed_misses_the_documents_own_error() -> None:
    """P3. At figure 2 m's entries are as high as m's timestamp, not above it."""
    engine = example()
    m, m_prime = chain(engine)
    m1, m2 = engine.tagger(P1, 5).tag(b"m1"), engine.tagger(P2, 5).tag(b"m2")
    for mends, found in ((ALL, [m_prime.dot]), (ALL - {Mend.EQUAL_IS_COVERED}, [])):
        p_k = Process(4, SETS.__getitem__, mends=mends)
        for message in (m2, m1, m_prime):
            assert p_k.arrive(message) == [message]
        assert p_k.algorithm_4(m)
        assert doubts(p_k.arrive(m)) == found


@pytest.mark.parametrize(("entries", "keys"), [(4, 1), (4, 2), (6, 3), (7, 4), (5, 5)])
def test_algorithm_3_mended_gives_the_sets_in_lexicographic_order(entries: int, keys: int) -> None:
    expected = [list(chosen) for chosen in combinations(range(entries), keys)]
    assert [set_of(number, keys, entries) for number in range(len(expected))] == expected
    ours = Keys(entries, keys, numbered(entries, keys))
    assert [list(ours[number]) for number in range(len(expected))] == expected


@pytest.mark.parametrize(
    "left_out",
    [{Mend.R_DECREASES}, {Mend.T_ADDS_UP}, {Mend.KEYS_DIFFER}, set(ALL)],
    ids=["P2a", "P2b", "P2c", "as printed"],
)
def test_algorithm_3_as_printed_gives_other_sets_or_does_not_end(left_out: set[Mend]) -> None:
    """P2. "This algorithm ensures that no peer has twice the same entry", and sets are distinct."""
    expected = [list(chosen) for chosen in combinations(range(6), 3)]
    wrong = 0
    for number, chosen in enumerate(expected):
        try:
            wrong += set_of(number, 3, 6, ALL - left_out) != chosen
        except EndlessError:
            wrong += 1
    assert wrong >= len(expected) // 2


def test_the_order_of_delivery_has_no_impact_on_the_vector() -> None:
    """5.1, proof of lemma 1: an entry is the number of messages of those who have it."""
    engine = example()
    sent = [engine.tagger(member, 5).tag(b"") for member in (P_I, P_J, P1, P2)]
    clocks = set()
    for arrivals in permutations(sent):
        client, orderer = engine.tagger(P_K, 5), engine.orderer(P_K, 5)
        for message in arrivals:
            assert orderer.receive(message, 0, 0)[-1] is message
            client.took(message)
        clocks.add(client.context())
    assert clocks == {(2, 3, 1, 2)}


def test_with_all_entries_as_keys_it_is_lamports_clock() -> None:
    """5.3: K = R merges all processes within one entry."""
    all_keys, one = drive(probabilistic(5, 5), 3), drive(probabilistic(1, 1), 3)
    assert all_keys.missing == one.missing
    assert all_keys.doubts == one.doubts
    assert one.errors


def test_as_many_entries_as_members_are_perfect_only_if_each_has_its_own() -> None:
    """5.3: "R = N we get the perfect solution" is about vector clocks, not about keys drawn at random."""
    assert not drive(probabilistic(NODES, 1, assign=numbered(NODES, 1)), 1).errors
    assert drive(probabilistic(NODES, 1), 1).errors


def test_every_message_is_delivered() -> None:
    """Lemma 1."""
    for seed in range(5):
        drive(probabilistic(7, 3), seed).check_rest()


def test_what_is_causally_ready_is_never_delayed() -> None:
    """Corollary 1, also after errors."""
    for seed in range(10):
        rng = Random(seed)
        traffic = Traffic(probabilistic(5, 2), NODES)
        for _ in range(500):
            if rng.random() < 0.2 or not traffic.flights:
                traffic.send(rng.randrange(NODES))
                continue
            place = rng.randrange(len(traffic.flights))
            me, message = traffic.flights[place]
            ready = traffic.pasts[message.dot] <= traffic.held[me]
            traffic.arrive(place)
            assert not ready or message.dot in traffic.held[me]
