"""What the probabilistic engine must pass, whatever its code looks like: each check takes the function that
makes the engine."""

from collections.abc import Callable
from itertools import combinations
from math import comb
from random import Random
from typing import Any

from support.conformance import ENGINE_CHECKS
from support.literal_probabilistic import Process
from thence.core.dots import origin_of
from thence.core.machine import Doubt, OrderEffect
from thence.core.message import Message
from thence.order.engine import Engine, Orderer
from thence.order.keys import Keys, numbered

Make = Callable[..., Engine]
"""`probabilistic`, with entries, keys, recent, assign."""

Place = Callable[[int], int]
"""Which entry of a plain clock a member has."""

NODES = 6


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


class Traffic:
    """A group whose clients take everything at once; who released and doubted what when, and the truth."""

    def __init__(self, engine: Engine, size: int) -> None:
        self.taggers = [engine.tagger(me, size) for me in range(size)]
        self.orderers: list[Orderer] = [engine.orderer(me, size) for me in range(size)]
        self.flights: list[tuple[int, Message]] = []
        self.alarms = 0
        self.effects: list[OrderEffect] = []
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
        self.effects = effects
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

    def check_rest(self) -> None:
        """Everything arrived: every member has it."""
        assert not self.flights
        for me, held in enumerate(self.held):
            assert len(held) == len(self.pasts), f"lost: {me} has {len(held)} of {len(self.pasts)}"
            assert self.orderers[me].waiting == 0, f"rest: {self.orderers[me].waiting} wait at {me}"


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


def check_special_case(make: Make, entries: int, place: Place, seed: int) -> None:
    """With one key per member: the same stamps as a clock written plainly, and the same releases."""
    engine = make(entries, 1, assign=numbered(entries, 1))
    plain = [PlainClock(entries, place) for _ in range(NODES)]
    rng = Random(seed)
    traffic = Traffic(engine, NODES)
    for step in range(4000):
        if step < 400 and (rng.random() < 0.2 or not traffic.flights):
            me = rng.randrange(NODES)
            stamp, released = plain[me].send(me)
            assert list(traffic.send(me).context) == stamp, f"stamp: {me} is at {stamp}"
        elif traffic.flights:
            me, message = traffic.arrive(rng.randrange(len(traffic.flights)))
            name = b"%d" % message.dot
            released = plain[me].receive(origin_of(message.dot), name, list(message.context))
        else:
            break
        assert sorted(traffic.released) == sorted(released), f"released: {me} releases {released}"
    traffic.check_rest()
    if entries == NODES:
        assert not traffic.errors, "order: a vector clock errs"
        assert not traffic.doubts, "doubt: a vector clock is doubted"


def check_special_cases(make: Make) -> None:
    for seed in range(3):
        check_special_case(make, 1, lambda _: 0, seed)
        check_special_case(make, 3, lambda member: member % 3, seed)
        check_special_case(make, NODES, lambda member: member, seed)


def told(effects: list[OrderEffect]) -> list[tuple[bool, int]]:
    return [(isinstance(effect, Doubt), effect.dot) for effect in effects if not hasattr(effect, "peers")]


def check_twin(make: Make) -> None:
    """The same effects as the document's algorithms, mended, line by line."""
    for seed in range(6):
        rng = Random(seed)
        entries = rng.randint(3, 14)
        keys = rng.randint(1, min(4, entries))
        listed = seed % 3 > 0
        engine, sets = make(entries, keys, 10_000 if listed else 0), Keys(entries, keys)
        twins = [Process(entries, sets.__getitem__, listed) for _ in range(NODES)]
        traffic = Traffic(engine, NODES)
        for step in range(1000):
            if step < 300 and (rng.random() < 0.2 or not traffic.flights):
                me = rng.randrange(NODES)
                sent = traffic.send(me)
                assert sent.context == twins[me].broadcast(me), f"stamp: {sent}"
                expected = twins[me].go_on([])
            elif traffic.flights:
                me, message = traffic.arrive(rng.randrange(len(traffic.flights)))
                expected = twins[me].arrive(message)
            else:
                break
            assert told(traffic.effects) == told(expected), f"twin: {told(traffic.effects)}"
        traffic.check_rest()


def check_doubts(make: Make) -> None:
    """No error goes without a doubt: with the list, the early message is named; without it, its causes."""
    for entries, keys in ((1, 1), (3, 2), (6, 2), (8, 3), (5, 5)):
        for seed in range(4):
            traffic = drive(make(entries, keys, 10_000), seed)
            traffic.check_rest()
            missed = traffic.errors - traffic.doubts
            assert not missed, f"undoubted: {sorted(missed)}"
            traffic = drive(make(entries, keys, 0), seed)
            late = {(me, dot) for (me, _), dots in traffic.missing.items() for dot in dots}
            assert late <= traffic.doubts, f"undoubted: late messages {sorted(late - traffic.doubts)}"
            assert traffic.errors, "errors: there are none to doubt"
            kept = max(orderer.words() for orderer in traffic.orderers) - entries - NODES
            assert kept == 0, f"rest: {kept} words are kept for nothing"


def check_again(make: Make) -> None:
    """What comes again is dropped, while it waits, and after it was released in or out of turn."""
    for seed in range(4):
        rng = Random(seed)
        traffic = Traffic(make(5, 2), NODES)
        for _ in range(400):
            if rng.random() < 0.15 or not traffic.flights:
                traffic.send(rng.randrange(NODES))
                continue
            place = rng.randrange(len(traffic.flights))
            again = traffic.flights[place]
            traffic.arrive(place)
            before = traffic.orderers[again[0]].waiting
            effects = traffic.orderers[again[0]].receive(again[1], 0, 0)
            assert not effects, f"twice: {again[1]} releases {effects}"
            assert traffic.orderers[again[0]].waiting == before, f"waiting: {again[1]} waits twice"


def check_exact(make: Make) -> None:
    """With an entry for each member it is an engine like any other."""
    for check in ENGINE_CHECKS.values():
        check(make(12, 1, 0, numbered(12, 1)))


PROBABILISTIC_CHECKS: dict[str, Callable[[Make], None]] = {
    "special cases": check_special_cases,
    "twin": check_twin,
    "doubts": check_doubts,
    "again": check_again,
    "exact": check_exact,
}


def check_sets(module: Any) -> None:
    """Sets are numbered in lexicographic order."""
    for entries in range(1, 8):
        for keys in range(1, entries + 1):
            expected = list(combinations(range(entries), keys))
            found = [module.unrank(number, entries, keys) for number in range(len(expected))]
            assert found == expected, f"sets: {found}"


def check_drawn(module: Any) -> None:
    """Every node draws the same for a member, and members draw from all sets."""
    here, there = module.Keys(7, 3), module.Keys(7, 3)
    forwards = [here[member] for member in range(300)]
    backwards = [there[member] for member in reversed(range(300))]
    assert forwards == backwards[::-1], "drawn: nodes do not agree"
    assert len(set(forwards)) == comb(7, 3), f"drawn: {len(set(forwards))} of {comb(7, 3)} sets"


KEYS_CHECKS: dict[str, Callable[[Any], None]] = {"sets": check_sets, "drawn": check_drawn}
