"""The interface of every way of spreading messages."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from thence.core.machine import Packet, SpreadEffect
from thence.core.message import Message


class Spread(Protocol):
    """One node's part in bringing every message to all members, over links that may lose, repeat and
    reorder. A `Message` among the effects is new here: it goes to the ordering engine."""

    @property
    def drained(self) -> bool:
        """Nothing is kept for a peer, nothing is owed, and no wake-up is outstanding."""
        ...

    def broadcast(self, message: Message, now: int) -> list[SpreadEffect]:
        """Bring a message of this node's own client to all members."""
        ...

    def receive(self, peer: int, packet: Packet, now: int) -> list[SpreadEffect]:
        """A packet arrives from `peer`. No effect that is a message: it was there before."""
        ...

    def up(self, peer: int, now: int) -> list[SpreadEffect]:
        """A link to `peer` is there. Until it goes down, whatever is transmitted to it arrives, in order.
        Spreads for links that lose packets singly are never told."""
        ...

    def down(self, peer: int, now: int) -> list[SpreadEffect]:
        """The link to `peer` broke. What was on its way may be lost."""
        ...

    def resume(self, now: int) -> list[SpreadEffect]:
        """The node is back from a crash: outstanding wake-ups were lost."""
        ...

    def wake(self, now: int) -> list[SpreadEffect]:
        """A wake-up asked for has come, or one that was not."""
        ...


@dataclass(frozen=True, slots=True)
class SpreadKind:
    """How to make the part of member `me` in a group of `size`."""

    name: str
    make: Callable[[int, int], Spread]
