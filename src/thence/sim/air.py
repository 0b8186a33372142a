"""How packets travel between named processes, in virtual time.

Over links that lose, repeat, reorder and get cut, or over sessions that keep their order and lose everything
under way when they are cut (`sim.groups_links`). What becomes of a packet that arrives is for the world that
is made of this (`sim.step_world`).
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from random import Random
from typing import Any

from thence.sim.groups_links import SimLinks
from thence.sim.virtual_time import VirtualTime

Action = Callable[[], None]
Filter = Callable[[str, str, Any], Any]
"""From sender, receiver and packet to what is left of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Air:
    """How packets travel."""

    latency_us: int = 10_000
    jitter_us: int = 2_000
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    """Share of packets that are held up for up to eight latencies."""
    sessions: bool = False
    """Links keep their order and lose nothing while they are up."""
    links: bool = False
    """The same, and the ends are told when links come up and break. They break sometimes, the more often the
    larger the loss."""
    wire: bool = True
    """Packets travel as bytes; else as they are, which is faster."""
    starve: float = 0.0
    """Share of directions between two processes in which each packet takes up to a hundred latencies. Which
    ones these are changes every now and then."""


class Airways(VirtualTime):
    def __init__(
        self, seed: int | str, air: Air, codec: tuple[Callable[[Any], bytes], Callable[[bytes], Any]]
    ) -> None:
        super().__init__()
        self.air = air
        self.encode, self.decode = codec
        self.problem = ""
        """What stopped the world."""
        self.packets = Counter[str]()
        self.bytes = Counter[str]()
        self.metered = False
        """What each process sends is counted, also where packets do not travel as bytes."""
        self.sent_bytes = Counter[str]()
        self.cut: set[tuple[str, str]] = set()
        self.filter: Filter = lambda sender, receiver, packet: packet  # noqa: ARG005
        """For schedules written by hand: what arrives of a packet."""
        self._random = Random(f"{seed}/air")
        self._order: dict[tuple[str, str], int] = {}
        self._starving = Random(f"{seed}/starving")
        self._starved: dict[tuple[str, str], tuple[int, bool]] = {}
        self._links: SimLinks | None = None

    # Who is there

    def is_known(self, name: str) -> bool:
        raise NotImplementedError

    def life(self, name: str) -> int:
        """Which life of a process this is; -1: it does not run."""
        raise NotImplementedError

    def arrive(self, sender: str, receiver: str, packet: Any, data: bytes | None) -> bool:
        """Returns whether the receiver could make sense of it."""
        raise NotImplementedError

    def is_cut(self, one: str, other: str) -> bool:
        return (one, other) in self.cut

    # Time

    def at(self, when: int, action: Action) -> None:
        self._planned += 1
        heappush(self._heap, (max(when, self.now), self._planned, action))

    def run(self, until: int, stop: Callable[[], bool] | None = None, look_us: int = 250_000) -> bool:
        """Let things happen up to `until`, or until `stop` says so. Returns whether it did."""
        look = self.now + look_us
        while self._heap and self._heap[0][0] <= until and not self.problem:
            when = self._heap[0][0]
            if stop is not None and when > look:
                if stop():
                    return True  # the next thing still happens, if the world goes on
                look = when + look_us
            _, _, action = heappop(self._heap)
            self.now = when
            action()
        if not self.problem:
            self.now = max(self.now, until)
        return stop is not None and not self.problem and stop()

    # Packets

    def _transmit(self, sender: str, receiver: str, packet: Any) -> None:
        kept = self.filter(sender, receiver, packet)
        if kept is not None and self.is_known(receiver):
            self.forge(sender, receiver, kept)

    def forge(self, sender: str, receiver: str, packet: Any) -> None:
        """A packet is on its way, whatever the machine of its sender thinks of it."""
        kind = type(packet).__name__.lower()
        self.packets[kind] += 1
        air, chance = self.air, self._random.random
        data = self.encode(packet) if air.wire else None
        if data is not None:
            self.bytes[kind] += len(data)
        if self.metered:
            self.sent_bytes[sender] += len(self.encode(packet) if data is None else data)
        if (sender, receiver) in self.cut:
            self.packets["cut off"] += 1
            if self._links is not None:
                self._links.lost(sender, receiver)
            return
        if self._links is not None:
            self._links.breaks = air.loss / 20
            delay = air.latency_us + int(chance() * air.jitter_us)
            if air.starve:
                delay += self._starves(sender, receiver)
            if not self._links.transmit(sender, receiver, packet, data, delay):
                self.packets["unlinked"] += 1
            return
        for _ in range(2 if chance() < air.duplicate and not air.sessions else 1):
            if chance() < air.loss and not air.sessions:
                self.packets["lost"] += 1
                continue
            delay = air.latency_us + int(chance() * air.jitter_us)
            if chance() < air.reorder and not air.sessions:
                delay += int(8 * chance() * air.latency_us)
            when = self.now + delay
            if air.sessions:
                when = self._order[sender, receiver] = max(when, self._order.get((sender, receiver), 0))
            self.at(when, lambda: self._bring(sender, receiver, packet, data))

    def _starves(self, sender: str, receiver: str) -> int:
        """By how much longer a packet takes, where a direction starves."""
        random, pair = self._starving, (sender, receiver)
        until, starved = self._starved.get(pair, (0, False))
        if self.now >= until:
            starved = random.random() < self.air.starve
            self._starved[pair] = self.now + random.randrange(1, 200 * self.air.latency_us), starved
        return random.randrange(100 * self.air.latency_us) if starved else 0

    def _bring(self, sender: str, receiver: str, packet: Any, data: bytes | None) -> None:
        if self.life(receiver) < 0 or (self.air.sessions and (sender, receiver) in self.cut):
            return
        self.arrive(sender, receiver, packet, data)
