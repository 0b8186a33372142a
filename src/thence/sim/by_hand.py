"""A group whose packets are carried by hand: for examples, and for trying things out in a shell.

Nothing moves by itself. `send` lets a member broadcast; `carry` brings whatever one member has sent to
another, and returns what that one delivers; `settle` lets everything that is still under way arrive,
phantoms included, until nothing is left to do.
"""

from collections import deque
from typing import NamedTuple

from thence.core.machine import Packet, Transmit, Wake
from thence.core.message import Message
from thence.core.tag import Tag
from thence.order.engines import engine as find_engine
from thence.replica.replica import Replica
from thence.spread.mesh import Mesh
from thence.trace.recorder import NoRecorder


class Heard(NamedTuple):
    """What a member delivers."""

    message: Message
    tag: Tag


class ByHand:
    def __init__(self, *names: str, order: str = "graph") -> None:
        size, engine = len(names), find_engine(order)
        self._names = {name: me for me, name in enumerate(names)}
        self._replicas = [Replica(me, size, engine, Mesh(me, size), NoRecorder()) for me in range(size)]
        self._under_way: dict[tuple[int, int], deque[Packet]] = {}
        self._now = 0

    def send(self, name: str, payload: str) -> Tag:
        """`name` broadcasts; its own delivery is this one."""
        me = self._names[name]
        sent = self._replicas[me].submit(payload.encode(), self._now)
        self._carry_out(me, self._replicas[me].flush(self._now))
        assert sent.tag is not None
        return sent.tag

    def carry(self, sender: str, receiver: str) -> list[Heard]:
        """Everything under way from one to the other arrives; what the receiver delivers."""
        return self._carry(self._names[sender], self._names[receiver])

    def settle(self) -> dict[str, list[Heard]]:
        """Let time pass until nothing is left to do; what the members deliver meanwhile."""
        delivered: dict[str, list[Heard]] = {name: [] for name in self._names}
        while not all(replica.drained for replica in self._replicas) or any(self._under_way.values()):
            for sender, receiver in list(self._under_way):
                for name, me in self._names.items():
                    if me == receiver:
                        delivered[name] += self._carry(sender, receiver)
            self._now += 1_000_000
            for me, replica in enumerate(self._replicas):
                self._carry_out(me, replica.wake(self._now))
        return delivered

    def stable(self, name: str) -> list[Tag]:
        """What has become causally stable at `name` since the last time it was asked."""
        replica = self._replicas[self._names[name]]
        found = list(replica.stable)
        replica.stable.clear()
        return found

    def _carry(self, sender: int, receiver: int) -> list[Heard]:
        packets, replica = self._under_way.pop((sender, receiver), deque()), self._replicas[receiver]
        delivered = []
        for packet in packets:
            self._carry_out(receiver, replica.receive(sender, packet, self._now))
            while replica.inbox:
                taken = replica.take(self._now)
                assert taken.tag is not None
                delivered.append(Heard(taken.message, taken.tag))
        return delivered

    def _carry_out(self, me: int, effects: list[Transmit | Wake]) -> None:
        for effect in effects:
            if isinstance(effect, Transmit):
                for peer in effect.peers:
                    self._under_way.setdefault((me, peer), deque()).append(effect.packet)
