"""Causal flood: every neighbour gets everything, as soon as both ends have synchronised.

The document's first baseline (section 5.3.1): the quickest way to all nodes, at the cost of every message
crossing every link, mostly in vain. A link is a branch from the moment that it is there; everything else is
`spread.streams`.
"""

from thence.core.machine import SpreadEffect
from thence.spread.streams import Streams


class Flood(Streams):
    __slots__ = ()

    def _appeared(self, peer: int, effects: list[SpreadEffect], now: int) -> None:
        # Both ends do the same: the versions are equal, and each answers the other's graft.
        self._begin(peer, effects, now)
