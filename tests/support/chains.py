"""Applications and gateways over a network made of lists: hops brought by hand, and what applications saw."""

from collections.abc import Callable, Iterable
from typing import Any

from thence.core.machine import Forward, OrderEffect
from thence.core.message import Message
from thence.order.hops import read
from thence.order.topology import Topology


class Chains:
    """`tagger` and `orderer` make the halves of a process from its index; a gateway has no tagger."""

    def __init__(
        self,
        topology: Topology,
        tagger: Callable[[int], Any],
        orderer: Callable[[int], Any],
    ) -> None:
        self.topology = topology
        self.index = {name: process for process, name in enumerate(topology.names)}
        self.taggers = {process: tagger(process) for process in topology.applications}
        self.orderers = [orderer(process) for process in range(len(topology))]
        self.flights: list[tuple[int, int, Message]] = []
        """To whom, from whom, what."""
        self.newest: dict[tuple[int, int], int] = {}
        self.got: dict[str, list[bytes]] = {name: [] for name in topology.names}
        self.dead: set[int] = set()

    def send(self, name: str, payload: bytes, *dest: str) -> None:
        me = self.index[name]
        message = self.taggers[me].tag(payload, tuple(sorted(self.index[each] for each in dest)))
        self.orderers[me].sent(message, 0)
        self._fly(me, sorted(read(self.topology, message).address), message)

    def _fly(self, me: int, peers: Iterable[int], message: Message) -> None:
        counter = read(self.topology, message).dot >> 20
        for peer in peers:
            self.newest[me, peer] = counter
            self.flights.append((peer, me, message))

    def counter(self, process: int) -> int:
        """Of its last hop."""
        half = self.taggers.get(process) or self.orderers[process]
        count: int = half.history.counter
        return count

    def bring(self, to: str, payload: bytes, via: str | None = None) -> None:
        """The first such hop arrives."""
        for flight in self.flights:
            peer, me, message = flight
            if self.topology.names[peer] == to and message.payload == payload:
                if via is not None and self.topology.names[me] != via:
                    continue
                self.flights.remove(flight)
                self._arrive(*flight)
                return
        raise AssertionError(f"nothing brings {payload!r} to {to}: {self.flights}")

    def _arrive(self, to: int, via: int, message: Message) -> None:
        if to not in self.dead:
            self._released(to, self.orderers[to].receive(message, via, 0))

    def _released(self, me: int, effects: list[OrderEffect]) -> None:
        for effect in effects:
            if isinstance(effect, Forward):
                self._fly(me, effect.peers, effect.message)
            elif isinstance(effect, Message):
                self.taggers[me].took(effect)
                self.got[self.topology.names[me]].append(effect.payload)

    def finish(self) -> None:
        """Everything that is under way arrives, oldest first."""
        while self.flights:
            self._arrive(*self.flights.pop(0))

    def die(self, name: str) -> None:
        self.dead.add(self.index[name])

    def notice(self, name: str, *by: str) -> None:
        """These learn that the process is dead, and of the last hop that it sent to them."""
        dead = self.index[name]
        for each in by:
            me = self.index[each]
            self._released(me, self.orderers[me].lost(dead, self.newest.get((dead, me), 0)))
