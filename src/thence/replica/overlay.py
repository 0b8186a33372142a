"""A partial view and a stream over it as one spread: what a replica needs to know of overlays.

The view (`members/hyparview.py`) decides which peers links are kept to, the stream (`spread/streams.py` and
what is built on it) what goes over them. To a replica both are one spread; which links it wants opened and
closed it leaves in `wishes`, for the driver to fulfil after the step's packets have left.

Invariants. The stream is told of neighbours only, and each of its packets comes from one. Whatever still
comes over a link that this node has asked to close counts for nothing: the other end will see that it was
closed.
"""

from typing import Final, Literal, NamedTuple

from thence.core.machine import Connect, LinkEffect, Packet, SpreadEffect, Transmit, Wake
from thence.core.message import Message
from thence.core.overlay import MEMBERS_PACKETS
from thence.members.hyparview import HyParView
from thence.members.views import Close, MembersEffect, NeighbourDown, NeighbourUp
from thence.spread.gossip import Gossip
from thence.spread.streams import Streams
from thence.spread.sync_tree import SyncTree

Branch = Literal["lazy", "sync", "eager"]


class PeerProgress(NamedTuple):
    """How far a peer has come with this node's own messages."""

    acked: int
    sent: int


class Overlay:
    __slots__ = ("_linked", "members", "streams", "wishes")

    def __init__(self, members: HyParView, streams: Streams | Gossip) -> None:
        self.members: Final = members
        self.streams: Final = streams
        self.wishes: list[LinkEffect] = []
        self._linked: dict[int, None] = {}

    @property
    def gossip(self) -> Gossip | None:
        """What brings a message again that was forgotten; None: over these streams none is missed."""
        return self.streams if isinstance(self.streams, Gossip) else None

    # As a spread

    def broadcast(self, message: Message, now: int) -> list[SpreadEffect]:
        return self.streams.broadcast(message, now)

    def resume(self, now: int) -> list[SpreadEffect]:
        """At the start, and when wake-ups and wishes were lost."""
        self.wishes.clear()
        effects = self.streams.resume(now)
        self._membership(self.members.resume(now), effects, now)
        return effects

    def meet(self, peer: int, now: int) -> list[SpreadEffect]:
        """A contact, known by now."""
        effects: list[SpreadEffect] = []
        self._membership(self.members.meet(peer, now), effects, now)
        return effects

    def leave(self, now: int) -> list[SpreadEffect]:
        effects: list[SpreadEffect] = []
        self._membership(self.members.leave(now), effects, now)
        return effects

    def up(self, peer: int, now: int) -> list[SpreadEffect]:
        effects: list[SpreadEffect] = []
        self._linked[peer] = None
        self._membership(self.members.up(peer, now), effects, now)
        return effects

    def down(self, peer: int, now: int) -> list[SpreadEffect]:
        """A link broke, or could not be opened."""
        effects: list[SpreadEffect] = []
        self._linked.pop(peer, None)
        self._membership(self.members.down(peer, now), effects, now)
        return effects

    def receive(self, peer: int, packet: Packet, now: int) -> list[SpreadEffect]:
        if peer not in self._linked:
            return []
        if isinstance(packet, MEMBERS_PACKETS):
            effects: list[SpreadEffect] = []
            self._membership(self.members.receive(peer, packet, now), effects, now)
            return effects
        if peer not in self.members.neighbours:
            return []  # it was dropped while this was under way
        return self.streams.receive(peer, packet, now)

    def wake(self, now: int) -> list[SpreadEffect]:
        effects = self.streams.wake(now)
        self._membership(self.members.wake(now), effects, now)
        return effects

    def _membership(self, asked: list[MembersEffect], effects: list[SpreadEffect], now: int) -> None:
        for effect in asked:
            if isinstance(effect, Transmit | Wake):
                effects.append(effect)
            elif isinstance(effect, NeighbourUp):
                effects += self.streams.up(effect.peer, now)
            elif isinstance(effect, NeighbourDown):
                effects += self.streams.down(effect.peer, now)
            else:
                if isinstance(effect, Close):
                    self._linked.pop(effect.peer, None)
                self.wishes.append(effect)

    def wished(self) -> tuple[dict[int, bool], bool]:
        """Whose links are wanted from now on, or not any more. A link that is closed and wanted again in one
        step is closed first: then there is more to ask for at once."""
        wanted, again = dict[int, bool](), list[LinkEffect]()
        for wish in self.wishes:
            if not isinstance(wish, Connect):
                wanted[wish.peer] = False
            elif wanted.get(wish.peer, True):
                wanted[wish.peer] = True
            else:
                again.append(wish)
        self.wishes[:] = again
        return wanted, bool(again)

    def alarm(self, now: int) -> list[SpreadEffect]:
        """Something was delivered before its causes, perhaps: ask for whatever else is missing. What streams
        bring lacks nothing."""
        return self.streams.alarm(now) if isinstance(self.streams, Gossip) else []

    def hold(self, peer: int) -> None:
        """Too much waits to be sent to a peer: for a while it is sent nothing but what it asks for."""
        self.streams.hold(peer)

    def release(self, peer: int, now: int) -> list[SpreadEffect]:
        """There is room again."""
        return self.streams.release(peer, now)

    # What a driver and people ask

    @property
    def root(self) -> int:
        """The number of the node that beats; -1: the stream has no root."""
        return self.streams.root if isinstance(self.streams, SyncTree) else -1

    @property
    def parent(self) -> int | None:
        return self.streams.parent if isinstance(self.streams, SyncTree) else None

    def branches(self) -> dict[int, Branch]:
        """What the links to neighbours are used for."""
        return {
            peer: "eager" if live else "sync" if branch else "lazy"
            for peer, branch, live in self.streams.states()
        }

    def progress(self, peer: int) -> PeerProgress:
        """How far a peer is known to have come with this node's own messages, as far as this node sees to it
        itself: what goes by way of others is their business."""
        return PeerProgress(self.streams.fed(peer), self.streams.own)
