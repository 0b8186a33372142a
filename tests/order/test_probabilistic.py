"""The (N, R, K) clock: its special cases against clocks written plainly, its doubts, and its memory."""

from collections.abc import Callable
from random import Random

import pytest
from support.conformance import ENGINE_CHECKS
from support.schedules import ACTS, Model

from thence.core.dots import origin_of, pack, seq_of
from thence.core.errors import PeerError, UsageError
from thence.core.machine import Doubt, OrderEffect
from thence.core.message import Message
from thence.order.engine import Engine, Orderer
from thence.order.engines import ENGINES
from thence.order.keys import Keys, numbered
from thence.order.probabilistic import probabilistic

Place = Callable[[int], int]
"""Which entry of a plain clock a member has."""


class PlainClock:
    """One process with a clock of counters, an entry per member: everything at once, no queues apart."""

    def __init__(self, entries: int, place: Place) -> None:
        self.clock = [0] * entries
        self.place = place
        self.held: list[tuple[int, bytes, list[int]]] = []

    def send(self, me: int) -> tuple[list[int], list[bytes]]:
        self.clock[self.place(me)] += 1
        return list(self.clock), self.release()

    def ready(self, sender: int, stamp: list[int]) -> bool:
        own = self.place(sender)
        return all(
            mine >= (theirs - 1 if entry == own else theirs)
            for entry, (mine, theirs) in enumerate(zip(self.clock, stamp, strict=True))
        )

    def receive(self, sender: int, name: bytes, stamp: list[int]) -> list[bytes]:
        self.held.append((sender, name, stamp))
        return self.release()

    def release(self) -> list[bytes]:
        released = []
        while ready := [each for each in self.held if self.ready(each[0], each[2])]:
            self.held.remove(ready[0])
            self.clock[self.place(ready[0][0])] += 1
            released.append(ready[0][1])
        return released


NODES = 6

SPECIAL = [
    ("lamport", 1, lambda _: 0),
    ("plausible", 3, lambda member: member % 3),
    ("vector", NODES, lambda member: member),
]


class Traffic:
    """A group whose clients take everything at once; who released and doubted what when, and the truth."""

    def __init__(self, engine: Engine, size: int) -> None:
        self.taggers = [engine.tagger(me, size) for me in range(size)]
        self.orderers: list[Orderer] = [engine.orderer(me, size) for me in range(size)]
        self.flights: list[tuple[int, Message]] = []
        self.alarms = 0
        self.released: list[bytes] = []
        """By the last step."""
        self.known: list[set[int]] = [set() for _ in range(size)]
        self.held: list[set[int]] = [set() for _ in range(size)]
        self.pasts: dict[int, set[int]] = {}
        self.missing: dict[tuple[int, int], set[int]] = {}
        self.doubts: set[tuple[int, int]] = set()

    def send(self, me: int) -> Message:
        message = self.taggers[me].tag(b"")
        self.pasts[message.dot] = set(self.known[me])
        self.known[me].add(message.dot)
        self.held[me].add(message.dot)
        self._released(me, self.orderers[me].sent(message, 0))
        self.flights += [(peer, message) for peer in range(len(self.taggers)) if peer != me]
        return message

    def arrive(self, place: int) -> tuple[int, Message]:
        me, message = self.flights.pop(place)
        self._released(me, self.orderers[me].receive(message, 0, 0))
        return me, message

    def _released(self, me: int, effects: list[OrderEffect]) -> None:
        self.alarms += any(isinstance(effect, Doubt) for effect in effects)
        self.released = []
        for effect in effects:
            if isinstance(effect, Doubt):
                self.doubts.add((me, effect.dot))
                continue
            assert isinstance(effect, Message)
            lacking = self.pasts[effect.dot] - self.held[me]
            if lacking:
                self.missing[me, effect.dot] = lacking
            self.held[me].add(effect.dot)
            self.known[me] |= self.pasts[effect.dot] | {effect.dot}
            self.taggers[me].took(effect)
            self.released.append(b"%d" % effect.dot)

    @property
    def errors(self) -> set[tuple[int, int]]:
        return set(self.missing)


def drive(engine: Engine, seed: int) -> Traffic:
    """Messages under way overtake each other at random."""
    rng = Random(seed)
    traffic = Traffic(engine, NODES)
    for _ in range(400):
        if rng.random() < 0.2 or not traffic.flights:
            traffic.send(rng.randrange(NODES))
        else:
            traffic.arrive(rng.randrange(len(traffic.flights)))
    while traffic.flights:
        traffic.arrive(rng.randrange(len(traffic.flights)))
    return traffic


@pytest.mark.parametrize(
    ("entries", "place"), [case[1:] for case in SPECIAL], ids=[case[0] for case in SPECIAL]
)
@pytest.mark.parametrize("seed", range(8))
def test_a_special_case_is_the_clock_of_that_name(entries: int, place: Place, seed: int) -> None:
    """R = 1, K = 1, and R = N with K = 1: the same stamps, and the same releases at the same moments."""
    engine = probabilistic(entries, 1, assign=numbered(entries, 1))
    plain = [PlainClock(entries, place) for _ in range(NODES)]
    rng = Random(seed)
    traffic = Traffic(engine, NODES)
    for step in range(4000):
        if step < 400 and (rng.random() < 0.2 or not traffic.flights):
            me = rng.randrange(NODES)
            stamp, released = plain[me].send(me)
            assert list(traffic.send(me).context) == stamp
        elif traffic.flights:
            me, message = traffic.arrive(rng.randrange(len(traffic.flights)))
            name = b"%d" % message.dot
            released = plain[me].receive(origin_of(message.dot), name, list(message.context))
        else:
            break
        assert sorted(traffic.released) == sorted(released)
    assert not traffic.flights
    assert all(orderer.waiting == 0 for orderer in traffic.orderers)
    if entries == NODES:
        assert not traffic.errors
        assert not traffic.doubts


EXACT = probabilistic(12, 1, 0, numbered(12, 1))
"""Enough entries for every member of the kit's groups: a vector clock."""


@pytest.mark.parametrize("check", ENGINE_CHECKS)
def test_with_an_entry_for_each_member_it_conforms(check: str) -> None:
    ENGINE_CHECKS[check](EXACT)


def test_with_an_entry_for_each_member_it_releases_what_the_vector_releases() -> None:
    rng = Random(5)
    acts = [(rng.choice(ACTS), rng.getrandbits(30)) for _ in range(400)]
    ours, theirs = (Model(engine, 4) for engine in (EXACT, ENGINES["vector"]))
    for model in (ours, theirs):
        for act, pick in acts:
            model.step(act, pick)
        model.finish()
    assert ours.moments == theirs.moments


@pytest.mark.parametrize(("entries", "keys"), [(1, 1), (3, 2), (6, 2), (8, 3), (5, 5)])
@pytest.mark.parametrize("recent", [10_000, 0], ids=["algorithm 5", "algorithm 4"])
def test_no_error_goes_without_a_doubt(entries: int, keys: int, recent: int) -> None:
    """With the list, the early message is doubted by name; without it, all its late causes."""
    errors = 0
    for seed in range(10):
        traffic = drive(probabilistic(entries, keys, recent), seed)
        errors += len(traffic.errors)
        if recent:
            assert traffic.errors <= traffic.doubts
        else:
            late = {(me, dot) for (me, _), dots in traffic.missing.items() for dot in dots}
            assert late <= traffic.doubts
        assert all(orderer.waiting == 0 for orderer in traffic.orderers)
        assert all(len(held) == len(traffic.pasts) for held in traffic.held)
    assert errors > 20


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


def test_a_member_that_nobody_heard_of_takes_part() -> None:
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


def test_messages_of_a_forgetful_member_are_dropped() -> None:
    engine = probabilistic(6, 2)
    tagger, orderer = engine.tagger(1, 3), engine.orderer(0, 3)
    first, second = tagger.tag(b""), tagger.tag(b"")
    orderer.receive(second, 1, 0)
    orderer.drop(1)
    assert orderer.waiting == 0
    assert orderer.receive(first, 1, 0) == [first]
    assert orderer.receive(second, 1, 0) == [second]


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
