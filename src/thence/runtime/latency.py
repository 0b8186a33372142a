"""How long a message waits between its arrival and its delivery: samples, for the metrics.

One message at a time is followed, so that a sample costs a comparison per step. What the program has taken by
then is counted, not named: repetitions after a broken link are never delivered, and followed, they would
crowd out all others.
"""

from collections.abc import Callable
from typing import Any, Final

from thence.replica.steps import Steps
from thence.runtime.pacing import Clock


class DeliveryLatency:
    __slots__ = ("_clock", "observe", "sample")

    def __init__(self, clock: Clock) -> None:
        self._clock: Final = clock
        self.observe: Callable[[int], None] = lambda _: None
        self.sample: tuple[int, int] | None = None
        """When a message arrived, and how many will have been taken when it is."""

    def look(self, steps: Steps[Any, Any]) -> None:
        """Was it taken?"""
        assert self.sample is not None
        at, upto = self.sample
        if steps.taken >= upto or not steps.machine.waiting:
            self.sample = None
            self.observe(self._clock() - at)
