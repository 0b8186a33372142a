"""Processes that send hops to each other, by hand or at random, and the truth about their order.

A process is ours (`Mended`: `History` and `Deliveries`) or the document's (`literal_separators.Printed`).
Hops go where they are brought. What is delivered before a cause is noted, not raised: printed rules are
meant to fail.
"""

from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any, Protocol

from thence.core.dots import origin_of, seq_of
from thence.order import deliveries as our_deliveries
from thence.order import history as our_history
from thence.order.history import RULES, Noted, Rules, SeparatorCut

Address = frozenset[int]


class Sends(Protocol):
    @property
    def A(self) -> Address: ...  # noqa: N802

    @property
    def uid(self) -> tuple[int, int]: ...


class Process(Protocol):
    def send(self, A: Address, /) -> Any: ...  # noqa: N803

    def receive(self, m: Any, /) -> list[Any]: ...


class Hop:
    """What `Mended` sends."""

    def __init__(self, dot: int, address: Address, stamp: list[Noted]) -> None:
        self.dot, self.A, self.stamp = dot, address, stamp

    @property
    def uid(self) -> tuple[int, int]:
        return origin_of(self.dot), seq_of(self.dot)

    @property
    def H(self) -> dict[tuple[int, int], Address]:  # noqa: N802
        return {(origin_of(noted.hop), seq_of(noted.hop)): noted.residual for noted in self.stamp}


class Mended:
    """One process of ours."""

    def __init__(
        self,
        me: int,
        separators: Iterable[tuple[Address, Address, Address]] = (),
        rules: Rules = RULES["1-11"],
        module: Any = our_history,
        deliveries: Any = our_deliveries,
    ) -> None:
        """`module` and `deliveries`: where `CausalHistory` and `Deliveries` are taken from."""
        cuts = [SeparatorCut(S - {me}, F, B) for S, F, B in separators if me in S]
        self.history: our_history.CausalHistory = module.CausalHistory(me, rules, cuts)
        self.deliveries: our_deliveries.Deliveries[Hop] = deliveries.Deliveries(me, rules.fifo)
        self.words = rules.words

    def send(self, address: Address, /) -> Hop:
        dot, stamp = self.history.send(address)
        self.deliveries.mark(dot)
        return Hop(dot, address, stamp)

    def receive(self, hop: Hop, /) -> list[Hop]:
        found = []
        self.deliveries.offer(hop.dot, hop.stamp, hop)
        while (ready := self.deliveries.pop()) is not None:
            self.history.deliver(ready.dot, ready.A, ready.stamp)
            found.append(ready)
        return found


class HopWorld:
    def __init__(self, make: Callable[[int], Process]) -> None:
        self.make = make
        self.processes: dict[int, Any] = {}
        self.known: dict[int, set[tuple[int, int]]] = {}
        self.pasts: dict[tuple[int, int], set[tuple[int, int]]] = {}
        self.address: dict[tuple[int, int], Address] = {}
        self.got: dict[int, list[tuple[int, int]]] = {}
        self.early: list[tuple[int, tuple[int, int]]] = []
        """Process and hop: delivered before a cause."""

    def __getitem__(self, process: int) -> Any:
        if process not in self.processes:
            self.processes[process] = self.make(process)
            self.known[process], self.got[process] = set(), []
        return self.processes[process]

    def send(self, me: int, *to: int) -> Any:
        sent = self[me].send(frozenset(to))
        self.pasts[sent.uid] = set(self.known[me])
        self.address[sent.uid] = sent.A
        self.known[me].add(sent.uid)
        if me in sent.A:
            self.got[me].append(sent.uid)
        return sent

    def bring(self, sent: Any, *to: int) -> list[tuple[int, int]]:
        """The hop arrives at these; what they deliver."""
        found = []
        for process in to:
            for each in self[process].receive(sent):
                uid = each.uid
                missing = [
                    n for n in self.pasts[uid] if process in self.address[n] and n not in self.got[process]
                ]
                if missing:
                    self.early.append((process, uid))
                self.got[process].append(uid)
                self.known[process] |= self.pasts[uid] | {uid}
                found.append(uid)
        return found

    def pass_on(self, me: int, *to: int) -> Any:
        """Send, and let it arrive everywhere."""
        sent = self.send(me, *to)
        self.bring(sent, *[process for process in to if process != me])
        return sent

    @property
    def stuck(self) -> list[tuple[int, tuple[int, int]]]:
        """Hops that were not delivered where they should have been, once everything has arrived."""
        return [
            (process, uid)
            for uid, address in self.address.items()
            for process in sorted(address)
            if uid not in self.got.get(process, ())
        ]


Separators = list[tuple[Address, Address, Address]]


def graphs(random: Random) -> tuple[dict[int, list[int]], Separators]:
    """A connected graph, flat or sparse, and some of its separators in both directions."""
    size = random.randint(3, 9)
    flat = random.random() < 0.3
    links = {(a, random.randrange(a)) for a in range(1, size)}
    for _ in range(size * size if flat else random.randint(0, size)):
        a, b = random.sample(range(size), 2)
        links.add((max(a, b), min(a, b)))
    beside = {
        process: [other for other in range(size) if (max(process, other), min(process, other)) in links]
        for process in range(size)
    }
    found: Separators = []
    for _ in range(30):
        S = frozenset(random.sample(range(size), random.randint(1, min(3, size - 2))))  # noqa: N806
        parts = [*_parts(beside, S)]
        if len(parts) > 1 and len(found) < 12:
            count = random.randint(1, len(parts) - 1)
            F, B = frozenset().union(*parts[:count]), frozenset().union(*parts[count:])  # noqa: N806
            found += [(S, F, B), (S, B, F)]
    return beside, found


def _parts(beside: dict[int, list[int]], without: Address) -> Iterator[Address]:
    left = [process for process in beside if process not in without]
    while left:
        part, ends = {left[0]}, [left[0]]
        while ends:
            fresh = [each for each in beside[ends.pop()] if each not in without and each not in part]
            part.update(fresh)
            ends += fresh
        yield frozenset(part)
        left = [process for process in left if process not in part]


def campaign(make: Callable[[int, Separators], Process], seed: int, messages: int = 30) -> HopWorld:
    """Hops between neighbours at random, over links that keep no order; a quarter of them slow."""
    random = Random(seed)
    beside, separators = graphs(random)
    world = HopWorld(lambda me: make(me, separators))
    slow = {(a, b) for a in beside for b in beside[a] if random.random() < 0.25}
    flights: list[tuple[int, Any]] = []
    sent = 0
    while sent < messages or flights:
        if sent < messages and (random.random() < 0.35 or not flights):
            me = random.randrange(len(beside))
            to = random.sample(beside[me], random.randint(1, len(beside[me])))
            hop = world.send(me, *to)
            flights += [(process, hop) for process in to]
            sent += 1
            continue
        place = random.randrange(len(flights))
        process, hop = flights[place]
        if (hop.uid[0], process) in slow and random.random() < 0.9 and len(flights) > 3:
            continue
        del flights[place]
        world.bring(hop, process)
        if random.random() < 0.2:
            word(world, random.choice(list(beside)), beside)
    return world


def word(world: HopWorld, me: int, beside: dict[int, list[int]]) -> None:
    """R11, where the process has it."""
    if getattr(world[me], "words", False):
        said = world[me].deliveries.word()
        for other in beside[me]:
            world[other].history.heard(me, said)
