"""Bad weather in virtual time: links that lose, double, delay and cut off packets, nodes that pause.

Small enough to be read at a glance and independent of the simulator, so that a fault of the one
does not hide in the other.
"""

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from random import Random

from thence.core.machine import Packet, Transmit

SECOND = 1_000_000
Drop = Callable[[int, int, Packet, int], bool]
"""Of sender, receiver, packet and how many packets went over that link before: is it lost?"""


def nothing_drops(sender: int, receiver: int, packet: Packet, before: int) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    loss: float = 0.0
    duplicate: float = 0.0
    latency_us: tuple[int, int] = (1_000, 30_000)
    cuts: tuple[tuple[int, int, int, int], ...] = ()
    """From when, until when, sender, receiver."""
    pauses: tuple[tuple[int, int, int], ...] = ()
    """From when, until when, node."""
    drop: Drop = nothing_drops


class Air:
    """The events to come, the time, and the links between nodes."""

    def __init__(self, weather: Weather, rng: Random) -> None:
        self.now = 0
        self.weather = weather
        self.rng = rng
        self.sent: dict[tuple[int, int], int] = {}
        """Packets sent over each link, whatever became of them."""
        self._heap: list[tuple[int, int, int, Callable[[], None]]] = []
        self._planned = 0

    def plan(self, at: int, node: int, action: Callable[[], None]) -> None:
        """`node` does `action` at the time `at`, or later if it pauses then."""
        self._planned += 1
        heappush(self._heap, (at, self._planned, node, action))

    def transmit(self, sender: int, effect: Transmit, arrive: Callable[[int, int, Packet], None]) -> None:
        weather, rng = self.weather, self.rng
        for receiver in effect.peers:
            before = self.sent.get((sender, receiver), 0)
            self.sent[sender, receiver] = before + 1
            for _ in range(2 if rng.random() < weather.duplicate else 1):
                if self._cut(sender, receiver) or weather.drop(sender, receiver, effect.packet, before):
                    continue
                if rng.random() >= weather.loss:
                    at = self.now + rng.randint(*weather.latency_us)
                    self.plan(at, receiver, _arrival(arrive, sender, receiver, effect.packet))

    def _cut(self, sender: int, receiver: int) -> bool:
        return any(
            (sender, receiver) == (one, other) and at <= self.now < until
            for at, until, one, other in self.weather.cuts
        )

    def run(self, until: int = 600 * SECOND, events: int = 100_000) -> None:
        """Until nothing is left to happen; too long or too much is a failure."""
        for _ in range(events):
            if not self._heap:
                return
            at, _, node, action = heappop(self._heap)
            resumes = [end for start, end, who in self.weather.pauses if who == node and start <= at < end]
            if resumes:
                self.plan(max(resumes), node, action)
                continue
            assert at <= until, f"silence: still busy after {until // SECOND} s"
            self.now = at
            action()
        raise AssertionError(f"silence: still busy after {events} events")


def _arrival(
    arrive: Callable[[int, int, Packet], None], sender: int, receiver: int, packet: Packet
) -> Callable[[], None]:
    return lambda: arrive(sender, receiver, packet)
