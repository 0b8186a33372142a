"""The edge multicast report's rules for path counters (its section 6.1) as they are printed, mend by mend.

A grove of nodes without time: a test says which packets arrive, which are lost, and who seems silent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum

from thence.spread.edge_map import PathMap
from thence.spread.edge_paths import Numbers, PathCopy, PathNode, PathSettings


class Mend(Enum):
    ORIGIN = "a duplicate is known by its origin's number, not by counters of paths"
    ONE = "one entry that is next is enough; the others follow"
    HORIZON = "numbers are told beyond a neighbourhood of δ + 1"


ALL = frozenset(Mend)


class PrintedPaths(PathNode):
    """Each node that forwards adds its entry, up to 2δ + 1 hops from the receiver; the entries decide."""

    __slots__ = ("mends",)

    def __init__(self, me: str, tree: PathMap, mends: frozenset[Mend], radius: int) -> None:
        horizon = 4 if Mend.HORIZON in mends else 2
        super().__init__(me, tree, replace(PathSettings(), horizon=max(horizon, radius), radius=radius))
        self.mends = mends
        self.restart(0)

    def is_new(self, copy: PathCopy) -> bool:
        if Mend.ORIGIN in self.mends:
            return super().is_new(copy)
        own = copy.numbers.get(self.me, {})
        return not any(number <= self.had.get(who, 0) for who, number in own.items())

    def is_next(self, own: dict[str, int]) -> bool:
        if Mend.ONE in self.mends:
            return super().is_next(own)
        return bool(own) and all(number == self.had.get(who, 0) + 1 for who, number in own.items())

    def may_number(self, numbers: Numbers, receiver: str) -> bool:
        return self.me not in numbers.get(receiver, {})


class PathGrove:
    def __init__(
        self,
        parents: Mapping[str, str],
        groups: Mapping[str, Sequence[str]],
        mends: frozenset[Mend] = ALL,
        radius: int = 2,
    ) -> None:
        tree = PathMap(parents, groups)
        self.now = 1
        self.nodes = {name: PrintedPaths(name, tree, mends, radius) for name in parents}
        self.accepted: dict[str, list[str]] = {name: [] for name in parents}
        self._sent: dict[tuple[str, str], list[PathCopy]] = {}

    def silence(self, at: str, *others: str) -> None:
        """Exactly these seem to be silent to a node."""
        heard = self.nodes[at].heard
        for name in heard:
            heard[name] = self.now - (10**9 if name in others else 0)

    def publish(self, at: str, group: str, text: str) -> None:
        self.nodes[at].publish(group, text.encode(), self.now)
        self._collect(at)

    def _collect(self, at: str) -> None:
        node = self.nodes[at]
        self.accepted[at] += [record.payload.decode() for record in node.box]
        node.box.clear()
        for to, packet in node.outbox:
            if isinstance(packet, PathCopy):
                self._sent.setdefault((at, to), []).append(packet)
        node.outbox.clear()

    def bring(self, sender: str, to: str) -> None:
        """All copies that are under way; there must be one."""
        for copy in self._sent.pop((sender, to)):
            self.nodes[to].receive(sender, copy, self.now)
            self._collect(to)

    def lose(self, sender: str, to: str) -> None:
        self._sent.pop((sender, to))

    def repair(self, at: str) -> None:
        """A node repeats what is not acknowledged, to all that it does not find silent."""
        node = self.nodes[at]
        for record in node.log.values():
            record.sent_at = dict.fromkeys(record.numbers, -(10**9))
        node.beat_at = 0
        node.wake(self.now)
        self._collect(at)
