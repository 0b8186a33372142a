"""Incomplete orders: chapter 6 of the causal separators document.

`Labels` orders hops of one label among themselves: each label has its own counters, history and deliveries.
One D for several labels with R5 would take a later hop of another label for an earlier one of this.

`Contexts` leaves it to the application which history a hop is sent with, and into which it takes a hop that
was delivered. Hops of one sender are then not ordered among themselves, so R5 and what follows from it
(R6.4, R11, and half of R6.3) are off. A process that was told of a hop knows it in the history that it took
that into, and perhaps not in the one that it takes the next hop into: so R7 and R9, which leave out what
the addressees know, are off as well. Histories are merged whole: who was told belongs to the history that
holds the hop which told.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, Generic

from thence.order.deliveries import Deliveries, Item
from thence.order.history import CausalHistory, Noted, Processes, Rules, SeparatorCut


class Labels(Generic[Item]):
    """One (c, H, C, D, W) per label."""

    __slots__ = ("_cuts", "_me", "_parts", "_rules")

    def __init__(self, me: int, rules: Rules, cuts: Iterable[SeparatorCut] = ()) -> None:
        self._me: Final = me
        self._rules: Final = rules
        self._cuts: Final = list(cuts)
        self._parts: dict[str, tuple[CausalHistory, Deliveries[Item]]] = {}

    def _of(self, label: str) -> tuple[CausalHistory, Deliveries[Item]]:
        if label not in self._parts:
            history = CausalHistory(self._me, self._rules, self._cuts)
            self._parts[label] = history, Deliveries(self._me, self._rules.fifo)
        return self._parts[label]

    def send(self, label: str, address: Processes) -> tuple[int, list[Noted]]:
        """The next hop of a label: its dot, which names it among hops of this label, and its stamp."""
        history, deliveries = self._of(label)
        hop, stamp = history.send(address)
        deliveries.mark(hop)
        return hop, stamp

    def offer(self, label: str, hop: int, stamp: Sequence[Noted], item: Item) -> bool:
        return self._of(label)[1].offer(hop, stamp, item)

    def pop(self, label: str) -> Item | None:
        return self._of(label)[1].pop()

    def deliver(self, label: str, hop: int, address: Processes, stamp: Iterable[Noted]) -> None:
        """What `pop` returned is taken."""
        self._of(label)[0].deliver(hop, address, stamp)


class Contexts(Generic[Item]):
    """Histories by name, as many as the application wants, with one counter and one D."""

    __slots__ = ("_counter", "_cuts", "_histories", "_me", "_rules", "deliveries")

    def __init__(self, me: int, rules: Rules, cuts: Iterable[SeparatorCut] = ()) -> None:
        self._me: Final = me
        self._rules: Final = replace(
            rules, fifo=False, covered=False, brief=False, separate=False, words=False
        )
        self._cuts: Final = list(cuts)
        self._counter = 0
        self._histories: dict[str, CausalHistory] = {}
        self.deliveries: Final = Deliveries[Item](me, fifo=False)

    def history(self, name: str) -> CausalHistory:
        if name not in self._histories:
            self._histories[name] = CausalHistory(self._me, self._rules, self._cuts)
        return self._histories[name]

    def send(self, name: str, address: Processes) -> tuple[int, list[Noted]]:
        """The next hop, which follows what is in this history."""
        history = self.history(name)
        history.counter = self._counter
        hop, stamp = history.send(address)
        self._counter = history.counter
        self.deliveries.mark(hop)
        return hop, stamp

    def took(self, name: str, hop: int, address: Processes, stamp: Iterable[Noted]) -> None:
        """A hop that was delivered, and what it follows, precede what is sent with this history."""
        self.history(name).deliver(hop, address, stamp)

    def merge(self, into: str, other: str) -> None:
        """What is in the other history precedes what is sent with this one."""
        self.history(into).merge(self.history(other).snapshot())
