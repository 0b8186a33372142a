"""The (N, R, K) clock: its special cases against clocks written plainly, its doubts, and its memory."""

from random import Random

import pytest
from support.conformance_probabilistic import NODES, PROBABILISTIC_CHECKS, drive
from support.schedules import ACTS, Model

from thence.core.dots import origin_of, pack, seq_of
from thence.core.errors import PeerError, UsageError
from thence.core.message import Message
from thence.order.engines import ENGINES
from thence.order.keys import Keys, numbered
from thence.order.probabilistic import probabilistic


@pytest.mark.parametrize("check", PROBABILISTIC_CHECKS)
def test_it_conforms(check: str) -> None:
    PROBABILISTIC_CHECKS[check](probabilistic)


EXACT = probabilistic(12, 1, 0, numbered(12, 1))
"""Enough entries for every member of the kit's groups: a vector clock."""


def test_with_an_entry_for_each_member_it_releases_what_the_vector_releases() -> None:
    rng = Random(5)
    acts = [(rng.choice(ACTS), rng.getrandbits(30)) for _ in range(400)]
    ours, theirs = (Model(engine, 4) for engine in (EXACT, ENGINES["vector"]))
    for model in (ours, theirs):
        for act, pick in acts:
            model.step(act, pick)
        model.finish()
    assert ours.moments == theirs.moments


def test_a_list_that_is_too_short_misses_errors() -> None:
    missed = 0
    for seed in range(10):
        traffic = drive(probabilistic(6, 2, 1), seed)
        missed += len(traffic.errors - traffic.doubts)
    assert missed > 0


def test_a_list_gives_fewer_alarms() -> None:
    """Algorithm 4 over-reports: it takes any message whose entries others have covered for late."""
    with_list = sum(drive(probabilistic(12, 2, 10_000), seed).alarms for seed in range(10))
    without = sum(drive(probabilistic(12, 2, 0), seed).alarms for seed in range(10))
    assert 0 < with_list < without


def test_a_message_that_comes_again_is_dropped() -> None:
    engine = probabilistic(4, 2)
    tagger, orderer = engine.tagger(1, 3), engine.orderer(0, 3)
    first, second = tagger.tag(b""), tagger.tag(b"")
    assert orderer.receive(second, 1, 0) == []
    assert orderer.receive(second, 2, 0) == []
    assert orderer.waiting == 1
    assert orderer.receive(first, 1, 0) == [first, second]
    assert orderer.receive(first, 2, 0) == orderer.receive(second, 2, 0) == []


def test_a_member_that_was_never_heard_of_takes_part() -> None:
    engine = probabilistic(4, 2)
    orderer, newcomer = engine.orderer(0, 2), engine.tagger(7, 8)
    message = newcomer.tag(b"")
    assert orderer.receive(message, 1, 0) == [message]


def test_an_orderer_goes_on_from_counters() -> None:
    """Entries are sums over members: which messages were released is enough to know the clock."""
    engine = probabilistic(6, 2)
    traffic = drive(engine, 3)
    counts = [0] * NODES
    for dot in traffic.pasts:
        counts[origin_of(dot)] = max(counts[origin_of(dot)], seq_of(dot))
    resumed = engine.orderer(0, NODES)
    resumed.resume(tuple(counts))
    following = traffic.taggers[1].tag(b"")
    assert resumed.receive(following, 1, 0) == traffic.orderers[0].receive(following, 1, 0)[-1:]
    tagger = engine.tagger(1, NODES)
    tagger.resume(seq_of(following.dot), traffic.taggers[1].context())
    assert tagger.tag(b"").context == traffic.taggers[1].tag(b"").context
    with pytest.raises(UsageError, match="cannot restart"):
        tagger.frontier()


@pytest.mark.parametrize(
    ("context", "says"), [((1, 1), "a clock of 2 entries, not 4"), ((0, 0, 0, 0), "its own sender")]
)
def test_a_stamp_that_no_correct_member_sends_is_refused(context: tuple[int, ...], says: str) -> None:
    with pytest.raises(PeerError, match=says):
        probabilistic(4, 2).orderer(0, 2).check(Message(pack(1, 1), context, b""))


def test_keys_of_a_member_are_what_its_messages_increment() -> None:
    message = probabilistic(9, 3).tagger(4, 5).tag(b"")
    assert tuple(entry for entry, count in enumerate(message.context) if count) == Keys(9, 3)[4]


def test_an_engine_is_made_for_a_member_of_the_group() -> None:
    with pytest.raises(ValueError, match="member 3 of 3"):
        probabilistic(4, 2).tagger(3, 3)
    with pytest.raises(UsageError, match="--recent must not be negative: -1"):
        probabilistic(4, 2, -1)
