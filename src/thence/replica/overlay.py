"""A partial view and a stream over it as one spread: what a replica needs to know of overlays.

The view (`members/hyparview.py`) decides whom links are kept to, the stream (`spread/streams.py` and what is
built on it) what goes over them. To a replica both are one spread; which links it wants opened and closed it
leaves in `wishes`, for the driver to fulfil after the step's packets have left.

Invariants. The stream is told of neighbours only, and each of its packets comes from one. Whatever still
comes over a link that this node has asked to close counts for nothing: the other end will see that it was
closed.

In a group whose members are all known, the root of a tree is the smallest node that its part of the overlay
can reach. So a root that is not the smallest member of all is cut off from the smaller ones, or they are
down: it looks for them, by chance and for as long as it is the root, and asks urgently. Two parts of a group,
however they came about and whatever their views remember, become one by that.

A node that may have forgotten messages of its own (`regain`) must learn what others have of it before it
counts on. It opens a link to every member in turn and asks for what its clock lacks (`Pull`), until each has
answered that there is nothing more. A link that comes up ends the one from before the fall: so whoever got a
message from this node directly has it written down by the time that it answers, and whoever got it from
others got it from one of those.
"""

from random import Random
from typing import Final, Literal, NamedTuple

from thence.core.machine import NEVER, Close, Connect, LinkEffect, Packet, SpreadEffect, Transmit, Wake
from thence.core.message import Message
from thence.core.overlay import MEMBERS_PACKETS, Pull, Sync
from thence.members.hyparview import HyParView
from thence.members.views import MembersEffect, NeighbourDown, NeighbourUp
from thence.spread.streams import Streams
from thence.spread.sync_tree import SyncTree

ASK_US: Final = 1_000_000
"""Between two looks for members that a node which may have forgotten something has not heard."""

ASK_AT_ONCE: Final = 8

SEEK_US: Final = 2_000_000
"""Between two tries of a root to find somebody smaller. Nobody seeks while all members are there."""


Branch = Literal["lazy", "sync", "eager"]
LinkState = Literal["down", "greeting", "streaming"]


class Progress(NamedTuple):
    """How far a peer has come with this node's own messages."""

    state: LinkState
    acked: int
    sent: int


class Overlay:
    __slots__ = (
        "_ask_at", "_linked", "_me", "_random", "_seek_at", "_unheard", "_wake_at", "members", "streams",
        "wishes",
    )  # fmt: skip

    def __init__(self, me: int, members: HyParView, streams: Streams, random: Random) -> None:
        self._me = me
        self._random = random
        self.members: Final = members
        self.streams: Final = streams
        self.wishes: list[LinkEffect] = []
        self._linked: dict[int, None] = {}
        self._seek_at = self._ask_at = self._wake_at = NEVER
        self._unheard: dict[int, None] = {}
        """Members that have not said yet what they have of this node, which may have forgotten it."""

    # As a spread

    @property
    def drained(self) -> bool:
        return self.streams.drained

    def recall(self, kept: tuple[int, ...]) -> None:
        self.streams.recall(kept)

    def broadcast(self, message: Message, now: int) -> list[SpreadEffect]:
        return self.streams.broadcast(message, now)

    def resume(self, now: int) -> list[SpreadEffect]:
        """At the start, and when wake-ups and wishes were lost."""
        self.wishes.clear()
        effects = self.streams.resume(now)
        self._seek_at, self._wake_at = now + self._jittered(), NEVER
        self._ask_at = now if self._unheard else NEVER
        self._membership(self.members.resume(now), effects, now)
        return self._planned(effects)

    def up(self, peer: int, now: int) -> list[SpreadEffect]:
        effects: list[SpreadEffect] = []
        self._linked[peer] = None
        self._membership(self.members.up(peer, now), effects, now)
        if peer in self._unheard:
            effects.append(Transmit((peer,), Pull(self.streams.clock)))
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
        if isinstance(packet, Pull):
            return [Transmit((peer,), self.streams.answer(packet.clock))]
        if isinstance(packet, Sync) and not packet.version:
            return self._given_back(peer, packet)
        if peer not in self.members.neighbours:
            return []  # it was dropped while this was under way
        return self.streams.receive(peer, packet, now)

    def wake(self, now: int) -> list[SpreadEffect]:
        if now >= self._wake_at:
            self._wake_at = NEVER
        effects = self.streams.wake(now)
        self._membership(self.members.wake(now), effects, now)
        if self._ask_at <= now:
            self._ask_at = now + ASK_US if self._unheard else NEVER
            self._ask(effects)
        if self._seek_at <= now:
            self._seek_at = now + self._jittered()
            self._seek(effects, now)
        return self._planned(effects)

    def _seek(self, effects: list[SpreadEffect], now: int) -> None:
        smaller = [peer for peer in range(self._me) if peer not in self.members.neighbours]
        if self.root == self._me and smaller:
            self._membership(self.members.seek(self._random.choice(smaller), now), effects, now)

    def _jittered(self) -> int:
        return SEEK_US // 2 + self._random.randrange(SEEK_US)

    def _planned(self, effects: list[SpreadEffect]) -> list[SpreadEffect]:
        due = min(self._seek_at if self._me else NEVER, self._ask_at)
        if due < self._wake_at:
            self._wake_at = due
            effects.append(Wake(due))
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

    def hold(self, peer: int) -> None:
        self.streams.hold(peer)

    def release(self, peer: int, now: int) -> list[SpreadEffect]:
        return self.streams.release(peer, now)

    # What this node may have forgotten

    def regain(self) -> None:
        """Before anything else happens."""
        self._unheard = dict.fromkeys(self.members.contacts)
        self.streams.regaining = True

    def regained(self) -> None:
        self.streams.regaining = False

    def _ask(self, effects: list[SpreadEffect]) -> None:
        """Links to some of those that were not heard; and once more, whoever did not answer."""
        linked = [peer for peer in self._unheard if peer in self._linked]
        if linked:
            effects.append(Transmit(tuple(linked), Pull(self.streams.clock)))
        others = [peer for peer in self._unheard if peer not in self._linked]
        chosen = self._random.sample(others, min(len(others), ASK_AT_ONCE))
        self.wishes += [Connect(peer) for peer in chosen]

    def _given_back(self, peer: int, answer: Sync) -> list[SpreadEffect]:
        if peer not in self._unheard:
            return []  # it was asked twice
        effects = self.streams.take_in(peer, answer.messages)
        if not answer.last:
            if answer.messages:
                effects.append(Transmit((peer,), Pull(self.streams.clock)))
            return effects
        del self._unheard[peer]
        if peer not in self.members.neighbours and not self.members.waits_for(peer):
            self._linked.pop(peer)
            self.members.forsake(peer)
            self.wishes.append(Close(peer))
        return effects

    # What a driver and people ask

    @property
    def root(self) -> int:
        return self.streams.root if isinstance(self.streams, SyncTree) else self._me

    @property
    def parent(self) -> int | None:
        return self.streams.parent if isinstance(self.streams, SyncTree) else None

    def branches(self) -> dict[int, Branch]:
        """What the links to neighbours are used for."""
        return {
            peer: "eager" if live else "sync" if branch else "lazy"
            for peer, branch, live in self.streams.states()
        }

    @property
    def recovering(self) -> bool:
        """Are there, or may there be, messages of this node that it does not have?"""
        return bool(self._unheard)

    @property
    def waiting_for(self) -> list[int]:
        return list(self._unheard)

    def progress(self, peer: int) -> Progress:
        """How far a peer is known to have come with this node's own messages, as far as this node sees to it
        itself: what goes by way of others is their business."""
        sent, fed = self.streams.clock[self._me], self.streams.fed(peer)
        live = peer in self.streams.live
        state: LinkState = "streaming" if live else "down" if fed == sent else "greeting"
        return Progress(state, fed, sent)
