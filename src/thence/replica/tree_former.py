"""What others have of a process that it does not know to have sent: docs/protocols/open-trees.md, "Which name
a process bears".

A process whose disk was put back, or lost, hears from its first neighbour of messages that it does not know
to have sent. Then it goes on under another name, once in a start. Broadcasts wait for that neighbour, for a
moment, and then until the program has what the neighbour has of former incarnations.
"""

from collections.abc import Sequence
from typing import Final

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK
from thence.core.errors import PeerError
from thence.core.groups import process_of
from thence.core.machine import Packet
from thence.core.message import Message
from thence.core.overlay import Graft, Pull, StatePiece, Sync
from thence.replica.tree import TreeReplica

GREET_US: Final = 2_000_000
"""How long broadcasts wait after a start for the first neighbour to say what it has of this node."""

MOST_AHEAD: Final = 1 << 32
"""Messages that a node can have sent since the backup that it was restored from. A peer that claims to have
more of them lies."""


class FormerSelf:
    __slots__ = ("_ahead", "_names", "_owed", "_process", "_replica", "_sent_before", "born", "greet_until")

    def __init__(self, process: str, names: Sequence[str], replica: TreeReplica, greet_until: int) -> None:
        """`names`: of members, by index; it grows."""
        self._process: Final = process
        self._names: Final = names
        self._replica: Final = replica
        self._ahead: Final[dict[str, str]] = {}
        """Peers that have more of this node's messages than its log, in words, where it is too late."""
        self._owed: dict[int, int] = {}
        """Of former incarnations: how many messages a neighbour has, where the program has seen fewer."""
        self._sent_before = 0
        self.born = False
        """It has taken another name in this start."""
        self.greet_until = greet_until

    def begun(self) -> None:
        """What was sent up to here was sent before this start, or this name."""
        self._sent_before = self._replica.sent

    @property
    def in_debt(self) -> bool:
        """It may be that others have messages of this process that it has forgotten; or they have, and what
        it sends now comes after them: the program takes them first."""
        if self._owed:
            seen = self._replica.seen
            self._owed = {origin: count for origin, count in self._owed.items() if seen(origin) < count}
        return bool(self.greet_until or self._owed)

    @property
    def waits_for(self) -> tuple[str, ...]:
        if self.greet_until:
            return ("a first neighbour",)
        return tuple([f"what it sent as {self._names[origin]}" for origin in self._owed])

    @property
    def behind(self) -> str | None:
        """Why the log is an old copy, if others say so and it is too late to take another name."""
        if not self._ahead:
            return None
        return (
            f"{'; '.join(self._ahead.values())}: its data folder was put back, and it has sent messages "
            "under numbers that were used before: give it an empty folder, and it is another incarnation"
        )

    def is_known_better(self, peer: str, packet: Packet, me: int) -> bool:
        """Does another node have more of this one than it has sent, so that it needs another name? A graft
        says how much it has. `PeerError`: it lies, or it is too late."""
        if isinstance(packet, Graft | Pull | StatePiece):
            most = packet.clock[me]
        elif isinstance(packet, Message):
            most = _own_counter(packet, me)
        elif isinstance(packet, Sync):
            most = max([_own_counter(message, me) for message in packet.messages], default=0)
        else:
            return False
        sent = self._replica.sent
        if most <= sent:
            return False
        why = f"{peer} has message {most} of {self._names[me]}, which has sent {sent}"
        if most > sent + MOST_AHEAD or self.born:
            raise PeerError(why)
        if sent > self._sent_before:
            self._ahead[peer] = why
            raise PeerError(why)
        return True

    def greeted(self, peer: str, packet: Packet, me: int) -> None:
        """The first neighbour's graft tells what it has of former incarnations."""
        if isinstance(packet, Graft | Pull):
            self._ahead.pop(peer, None)
            if self.greet_until:
                self.greet_until = 0
                self._owed = {
                    origin: count
                    for origin, count in enumerate(packet.clock)
                    if count and origin != me and process_of(self._names[origin]) == self._process
                }


def _own_counter(message: Message, me: int) -> int:
    return message.dot >> ORIGIN_BITS if message.dot & ORIGIN_MASK == me else 0
