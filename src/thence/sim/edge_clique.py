"""A clique with vector clocks under the load of `sim.edge_steady`: what has no tree at all.

Every node sends each message to all others at once, over links as long as those of the tree, with a counter
per node; all hold it back until they have its past, and members take it. Nothing is lost, and no node fails.
"""

from heapq import heappop, heappush
from random import Random
from typing import Any, Final

from thence.core.message import Message
from thence.order.vector import VectorOrderer, VectorTagger
from thence.sim.edge_steady import EdgeLoad, members_of, spread_of
from thence.sim.edge_weather import MS, tree_of

COUNTER_BYTES: Final = 4


class SteadyClique:
    def __init__(self, load: EdgeLoad) -> None:
        self.load = load
        random = Random(f"{load.seed}/steady")
        parents = tree_of(load.nodes, load.degree, random, load.deep)
        self.members = members_of(load, parents, random)
        self._random = random
        self._names = list(parents)
        size = len(parents)
        self._taggers = [VectorTagger(me, size) for me in range(size)]
        self._orderers = [VectorOrderer(me, size) for me in range(size)]
        self._heap: list[tuple[int, int, int, Message | str]] = []
        """When, a number, at which node: a message arrives, or one to a group is due."""
        self._planned = 0
        self._sent: dict[int, tuple[int, frozenset[int]]] = {}
        """By message: when, and for which nodes."""
        self.delays: list[int] = []
        self.copies = 0

    def __call__(self) -> dict[str, Any]:
        load, index = self.load, {name: at for at, name in enumerate(self._names)}
        insiders = {
            group: frozenset([0, *[index[name] for name in names]]) for group, names in self.members.items()
        }
        for group, names in self.members.items():
            for name in names:
                self._at(self._random.randrange(load.interval_us), index[name], group)
        while self._heap:
            now, _, node, what = heappop(self._heap)
            if isinstance(what, Message):
                self._arrives(node, what, now)
                continue
            self._publish(node, insiders[what], now)
            if now + load.interval_us < load.span_us:
                self._at(now + load.interval_us, node, what)
        held = sum(orderer.waiting for orderer in self._orderers)
        return {
            "complete": not held, "why": f"{held} messages are held back" if held else "",
            "deliveries": len(self.delays), "messages": len(self._sent),
            **spread_of(self.delays),
            "head_bytes": float(COUNTER_BYTES * load.nodes), "items": self.copies,
            "seen": 1.0 if self._sent else 0.0,
        }  # fmt: skip

    def _at(self, when: int, node: int, what: Message | str) -> None:
        self._planned += 1
        heappush(self._heap, (when, self._planned, node, what))

    def _publish(self, node: int, members: frozenset[int], now: int) -> None:
        message = self._taggers[node].tag(b"")
        self._orderers[node].sent(message, now)
        self._sent[message.dot] = now, members
        for other in range(len(self._names)):
            if other != node:
                self.copies += 1
                self._at(now + 10 * MS + self._random.randrange(10 * MS), other, message)

    def _arrives(self, node: int, message: Message, now: int) -> None:
        for released in self._orderers[node].receive(message, 0, now):
            assert isinstance(released, Message)
            self._taggers[node].took(released)
            sent_at, members = self._sent[released.dot]
            if node in members:
                self.delays.append(now - sent_at)
