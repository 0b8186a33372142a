"""How long messages take from their arrival to their delivery: measured for one of each read.

Invariant: what is remembered is still to be delivered. Repeats after a broken link never are; kept, they
would crowd out all others.
"""

from collections.abc import Callable
from typing import Final

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK
from thence.oplog.log import OpLog

SAMPLES: Final = 1024
"""Messages whose latency is being measured at most."""


class Arrivals:
    __slots__ = ("_log", "at", "tell")

    def __init__(self, log: OpLog) -> None:
        self._log: Final = log
        self.at: Final[dict[int, int]] = {}
        """When messages arrived that were not taken yet, by dot."""
        self.tell: Callable[[int], None] = lambda _: None
        """How long one took."""

    @property
    def wanted(self) -> bool:
        """May another one be added?"""
        return len(self.at) < SAMPLES

    def add(self, dot: int, now: int) -> bool:
        """Unless it was here before."""
        origin, vector = dot & ORIGIN_MASK, self._log.vector
        is_new = origin < len(vector) and dot >> ORIGIN_BITS > vector[origin]
        if is_new:
            self.at[dot] = now
        return is_new

    def taken(self, dot: int, now: int) -> None:
        at = self.at.pop(dot, None)
        if at is not None:
            self.tell(now - at)
