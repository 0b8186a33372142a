"""Streams between nodes that a test connects as it likes: no membership, virtual time, links in order.

Every payload spells out what its sender held when it was sent, so that causal order is judged by what clients
saw and not by anything that the spread keeps.
"""

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from itertools import count
from typing import Any

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK, pack
from thence.core.errors import InvariantError
from thence.core.machine import Packet, SpreadEffect, Transmit, Wake
from thence.core.message import Message
from thence.core.overlay import Sync
from thence.sim.overlay_history import MemoryHistory

Make = Callable[[int, int, MemoryHistory], Any]
"""From index, size and log to a spread."""


class Grove:
    def __init__(self, make: Make, size: int, latency_us: int = 10_000) -> None:
        self.now = 0
        self.histories = [MemoryHistory(size) for _ in range(size)]
        self.nodes = [make(me, size, history) for me, history in enumerate(self.histories)]
        self.latency: dict[tuple[int, int], int] = {}
        self.fresh = 0
        self.duplicates = 0
        self.sent: list[tuple[int, int, int, Packet]] = []
        """Everything that was transmitted: when, from, to, what."""
        self.lose: Callable[[int, int, Packet], bool] = lambda _one, _other, _packet: False
        """Whether a packet vanishes, against what links promise."""
        self._latency = latency_us
        self._sessions: dict[tuple[int, int], object] = {}
        """Per direction, the link as the sender sees it."""
        self._heap: list[tuple[int, int, int, int, object, Any]] = []
        self._order = count()

    # What a test does

    def up(self, one: int, other: int) -> None:
        """A link appears; ends that have not noticed the loss of an older one are not told of it either."""
        session = object()
        for node, peer in ((one, other), (other, one)):
            self._sessions[node, peer] = session
        for node, peer in ((one, other), (other, one)):
            self._act(node, self.nodes[node].up(peer, self.now))

    def connect(self, edges: Iterable[tuple[int, int]]) -> None:
        for one, other in edges:
            self.up(one, other)

    def down(self, one: int, other: int) -> None:
        """Both notice; what was under way is lost."""
        self.lost_by(one, other)
        self.lost_by(other, one)

    def release(self, node: int, peer: int) -> None:
        """There is room again for what `node` sends to `peer`."""
        self._act(node, self.nodes[node].release(peer, self.now))

    def lost_by(self, node: int, peer: int) -> None:
        """Only one end notices."""
        if self._sessions.pop((node, peer), None) is not None:
            self._act(node, self.nodes[node].down(peer, self.now))

    def send(self, node: int) -> int:
        history = self.histories[node]
        vector = history.vector
        dot = pack(node, vector[node] + 1)
        message = Message(dot, (), ",".join(map(str, vector)).encode())
        history.append(message, self.now)
        self._act(node, self.nodes[node].broadcast(message, self.now))
        return dot

    def run(self, for_us: int) -> None:
        until = self.now + for_us
        steps = 0
        while self._heap and self._heap[0][0] <= until:
            self.now, _, node, peer, session, what = heappop(self._heap)
            steps += 1
            assert steps < 200_000, "busy: never comes to rest"
            if what is None:
                self._act(node, self.nodes[node].wake(self.now))
            elif self._sessions.get((node, peer)) is session:
                fresh = self._act(node, self.nodes[node].receive(peer, what, self.now))
                carried = (
                    1 if isinstance(what, Message) else len(what.messages) if isinstance(what, Sync) else 0
                )
                self.duplicates += carried - fresh
        self.now = until

    # What must be true

    def all_have_everything(self) -> None:
        vectors = [history.vector for history in self.histories]
        best = tuple(map(max, *vectors)) if len(vectors) > 1 else vectors[0]
        assert all(vector == best for vector in vectors), f"lost: {vectors}"

    def branches(self) -> set[tuple[int, int]]:
        return {(me, peer) for me, node in enumerate(self.nodes) for peer in node.branches}

    def live(self) -> set[tuple[int, int]]:
        return {(me, peer) for me, node in enumerate(self.nodes) for peer in node.live}

    def is_tree(self) -> bool:
        links = self.live()
        size = len(self.nodes)
        if len(links) != 2 * (size - 1) or any((b, a) not in links for a, b in links):
            return False
        found, ahead = {0}, [0]
        while ahead:
            node = ahead.pop()
            for a, b in links:
                if a == node and b not in found:
                    found.add(b)
                    ahead.append(b)
        return len(found) == size

    # Inner

    def _act(self, node: int, effects: list[SpreadEffect]) -> int:
        fresh = 0
        for effect in effects:
            if isinstance(effect, Message):
                fresh += 1
                self._deliver(node, effect)
            elif isinstance(effect, Transmit):
                for peer in effect.peers:
                    self._transmit(node, peer, effect.packet)
            elif isinstance(effect, Wake):
                assert effect.at >= self.now
                heappush(self._heap, (effect.at, next(self._order), node, -1, None, None))
        return fresh

    def _deliver(self, node: int, message: Message) -> None:
        held = self.histories[node].vector
        needed = [int(seq) for seq in message.payload.decode().split(",")]
        assert all(need <= have for need, have in zip(needed, held, strict=True)), "order: a cause is missing"
        origin, seq = message.dot & ORIGIN_MASK, message.dot >> ORIGIN_BITS
        assert held[origin] < seq, "twice: delivered before"
        try:
            self.histories[node].append(message, self.now)
        except InvariantError as error:
            raise AssertionError(f"order: {error}") from None
        self.fresh += 1

    def _transmit(self, node: int, peer: int, packet: Packet) -> None:
        session = self._sessions.get((node, peer))
        self.sent.append((self.now, node, peer, packet))
        if session is None or self.lose(node, peer, packet):
            return
        at = self.now + self.latency.get((node, peer), self._latency)
        heappush(self._heap, (at, next(self._order), peer, node, session, packet))
