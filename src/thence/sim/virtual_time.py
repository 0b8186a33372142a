"""One heap of things to come, and the time that it is: what all simulated worlds have.

Things at the same instant happen in the order in which they were planned. A world of named processes plans
actions (`sim.air`); one whose nodes are numbers, of which there are many, plans events that are tuples, and
its links are cut as its plan of faults says.
"""

from collections import Counter
from collections.abc import Sequence
from heapq import heappush
from typing import Any

from thence.sim.faults import Cut
from thence.trace.recorder import CUT, HEAL, Recorder


class VirtualTime:
    """`_heap`: when, in what order, and what: an action, or the fields of an event."""

    def __init__(self) -> None:
        self.now = 0
        self._heap: list[Any] = []
        self._planned = 0


class EventWorld(VirtualTime):
    """Its events: when, tie-breaker, what, which node, which peer or other number, with what."""

    def __init__(self, recorders: Sequence[Recorder]) -> None:
        super().__init__()
        self._recorders = recorders
        self._cut = Counter[tuple[int, int]]()
        """Directed links, by how many cuts there are of them at present."""

    def _push(self, at: int, kind: int, node: int, peer: int = -1, what: Any = None) -> None:
        self._planned += 1
        heappush(self._heap, (at, self._planned, kind, node, peer, what))

    def _is_there(self, node: int) -> bool:  # noqa: ARG002
        """Can it write into its trace?"""
        return True

    def _begin_cut(self, cut: Cut) -> None:
        self._cut.update(cut.links)
        self._tell(cut, CUT)

    def _end_cut(self, cut: Cut) -> None:
        self._cut -= Counter(dict.fromkeys(cut.links, 1))
        self._tell(cut, HEAL)

    def _tell(self, cut: Cut, kind: int) -> None:
        for node in cut.nodes:
            if self._is_there(node):
                self._recorders[node].record(kind, 0, self.now)
