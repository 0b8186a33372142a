"""HyParView: a few neighbours by link, some more nodes by name, and no contact is ever given up.

Section 2.1.2.1 of the ECO SYNC Tree document, which takes it from Leitão, Pereira and Rodrigues (2007). The
*active view* holds the neighbours, each with a link that is up in both directions; it changes only when
something happens. The *passive view* holds names of others, for when a neighbour is lost; shuffles keep it
fresh. How states, messages and departures fit together is told in docs/protocols/hyparview.md.

Invariants. A neighbour is announced by `NeighbourUp` once, and by `NeighbourDown` before it is again; in
between its link is up. Both ends of a link come to agree on being neighbours or not: a node that drops the
other says so and closes the link, and a link that goes down ends it for both. Views are bounded, hold no node
twice and never the node itself. A neighbour that vanished is tried again for as long as it is remembered, at
growing, jittered intervals, and is not refused then: so two halves find together again.
"""

from collections.abc import Mapping, Sequence
from random import Random

from thence.core.machine import NEVER, Transmit, Wake
from thence.core.overlay import (
    LEAVING,
    REPLACED,
    Accept,
    Disconnect,
    ForwardJoin,
    Join,
    MembersPacket,
    Neighbour,
    Refuse,
    Shuffle,
    ShuffleReply,
)
from thence.members.shuffles import Shuffles, jittered
from thence.members.views import (
    Close,
    Connect,
    LostNeighbours,
    MembersEffect,
    NeighbourDown,
    NeighbourUp,
    Passive,
    ViewSettings,
)

AT_ONCE = 2
"""Peers asked at a time to fill free places: one that hangs must not hold up the others, and a node that
asked for more than it has room for would have to drop nodes that agreed."""

ENOUGH_REFUSALS = 8
"""So many had no room since the last neighbour was lost: views are full nearly everywhere. A single free
place is left to a node that needs a neighbour; with more of them a node asks to be put between two others.
Waiting would bring a neighbour in the end, long after everything else has come to rest."""


class HyParView:
    __slots__ = (
        "_active", "_asked", "_contacts", "_effects", "_fill_at", "_fill_wait", "_links", "_lost", "_me",
        "_passive", "_random", "_refusals", "_refused", "_replies", "_settings", "_shuffles", "_wake_at",
    )  # fmt: skip

    def __init__(
        self, me: int, random: Random, contacts: Sequence[int] = (), settings: ViewSettings | None = None
    ) -> None:
        self._settings = settings or ViewSettings()
        self._me = me
        self._random = random
        self._contacts = tuple([peer for peer in contacts if peer != me])
        self._active: dict[int, None] = {}
        self._passive = Passive(me, self._settings.passive, random)
        self._lost = LostNeighbours(self._settings, random)
        self._links: dict[int, None] = {}
        self._asked: dict[int, tuple[Join | Neighbour, int]] = {}
        """By peer: what it was asked, and until when an answer is waited for."""
        self._replies: dict[int, ShuffleReply] = {}
        """What waits for a link to be opened."""
        self._refused: dict[int, None] = {}
        """Peers that had no room since the last shuffle."""
        self._refusals = 0
        """How many had none since a neighbour was lost."""
        self._shuffles = Shuffles(self._settings, random)
        self._fill_at = NEVER
        self._fill_wait = self._settings.retry_first_us
        self._wake_at = NEVER
        self._effects: list[MembersEffect] = []

    @property
    def active(self) -> tuple[int, ...]:
        return tuple(self._active)

    @property
    def neighbours(self) -> Mapping[int, None]:
        """The same, to look a peer up."""
        return self._active

    @property
    def contacts(self) -> tuple[int, ...]:
        return self._contacts

    @property
    def known(self) -> tuple[int, ...]:
        """All nodes worth asking after a restart, the likeliest first."""
        return tuple(dict.fromkeys([*self._active, *self._passive, *self._lost, *self._contacts]))

    @property
    def mentioned(self) -> tuple[int, ...]:
        """All nodes that this state names."""
        named = (*self.known, *self._links, *self._asked, *self._replies, *self._refused)
        return (*named, *self._shuffles.offered)

    def start(self, now: int) -> list[MembersEffect]:
        self._shuffles.plan(now)
        self._fill(now)
        return self._take(now)

    def resume(self, now: int) -> list[MembersEffect]:
        """Outstanding wake-ups, and whatever was asked of others, were lost."""
        for peer in tuple(self._asked):
            del self._asked[peer]
            self._failed(peer, now)
        self._replies.clear()
        self._fill_at = self._wake_at = NEVER
        return self.start(now)

    def meet(self, peer: int, now: int) -> list[MembersEffect]:
        """One more contact. If it was not known it may be of another overlay, and is looked for like one that
        was lost in a partition: even if views are full."""
        if peer != self._me and peer not in self.known:
            self._contacts = (*self._contacts, peer)
            self._lost.add(peer, now)
            self._fill(now)
        return self._take(now)

    def leave(self, now: int) -> list[MembersEffect]:
        """Go for good, and say so."""
        for peer in tuple(self._active):
            self._drop(peer, Disconnect(LEAVING, self._me))
        self._asked.clear()
        self._contacts = ()
        self._passive.clear()
        self._lost.clear()
        self._shuffles.at = self._fill_at = NEVER
        return self._take(now)

    def up(self, peer: int, now: int) -> list[MembersEffect]:
        """A link to `peer` is there, opened by either end."""
        self._links[peer] = None
        if peer in self._asked:
            self._send(peer, self._asked[peer][0])
        reply = self._replies.pop(peer, None)
        if reply is not None:
            self._send(peer, reply)
            self._close_idle(peer)
        return self._take(now)

    def down(self, peer: int, now: int) -> list[MembersEffect]:
        """The link to `peer` broke, or could not be opened."""
        self._links.pop(peer, None)
        self._replies.pop(peer, None)
        self._refused.pop(peer, None)  # it is not for want of room that it cannot be had
        if peer in self._active:
            del self._active[peer]
            self._effects.append(NeighbourDown(peer))
            self._lost.add(peer, now)
            self._shuffles.lost()
            self._refusals = 0
        if self._asked.pop(peer, None) is not None:
            self._failed(peer, now)
        self._passive.discard(peer)
        self._fill(now)
        return self._take(now)

    def receive(self, peer: int, packet: MembersPacket, now: int) -> list[MembersEffect]:
        match packet:
            case Join():
                self._joined(peer)
            case ForwardJoin():
                self._forwarded(peer, packet, now)
            case Neighbour():
                self._wanted(peer, packet)
            case Accept():
                self._accepted(peer, now)
            case Refuse():
                self._turned_down(peer, now)
            case Disconnect():
                self._dropped(peer, packet, now)
            case Shuffle():
                self._shuffling(peer, packet)
            case ShuffleReply():
                self._merge(packet.nodes, self._shuffles.offered)
        return self._take(now)

    def wake(self, now: int) -> list[MembersEffect]:
        if now >= self._wake_at:
            self._wake_at = NEVER
        for peer in [peer for peer, (_, until) in self._asked.items() if until <= now]:
            del self._asked[peer]
            self._failed(peer, now)
            self._passive.discard(peer)
            self._close_idle(peer)
        if self._shuffles.at <= now:
            self._shuffles.plan(now)
            self._refused.clear()
            if self._active:
                self._send(*self._shuffles.begin(self._me, self._active, self._passive))
        for peer in self._lost.due(now):
            if peer not in self._asked:
                self._ask(peer, Neighbour(True), now)
        self._fill(now)
        return self._take(now)

    # Packets

    def _joined(self, peer: int) -> None:
        self._send(peer, Accept())
        self._add(peer)
        for other in self._active:
            if other != peer:
                self._send(other, ForwardJoin(peer, self._settings.join_steps))

    def _forwarded(self, peer: int, packet: ForwardJoin, now: int) -> None:
        node, steps = packet
        if steps == self._settings.passive_steps and node not in self._active:
            self._passive.add(node)
        onward = [other for other in self._active if other not in (peer, node)]
        if steps and onward and len(self._active) > 1:
            self._send(self._random.choice(onward), ForwardJoin(node, steps - 1))
        elif node != self._me and node not in self._active and node not in self._asked:
            self._ask(node, Neighbour(False), now)

    def _wanted(self, peer: int, packet: Neighbour) -> None:
        if peer in self._active or packet.urgent or len(self._active) < self._settings.active:
            self._send(peer, Accept())
            self._add(peer)
        else:
            self._send(peer, Refuse())

    def _accepted(self, peer: int, now: int) -> None:
        self._add(peer)
        self._fill_wait = self._settings.retry_first_us
        self._fill(now)

    def _turned_down(self, peer: int, now: int) -> None:
        self._asked.pop(peer, None)
        self._refused[peer] = None
        self._refusals += 1
        self._passive.add(peer)
        self._close_idle(peer)
        self._fill(now)

    def _dropped(self, peer: int, packet: Disconnect, now: int) -> None:
        if peer in self._active:
            del self._active[peer]
            self._effects.append(NeighbourDown(peer))
            self._refusals = 0
        self._asked.pop(peer, None)
        if packet.reason == LEAVING:
            self._passive.discard(peer)
            self._lost.found(peer)
            self._contacts = tuple([contact for contact in self._contacts if contact != peer])
        else:
            self._passive.add(peer)
            self._refused[peer] = None
            self._fill(now, first=packet.instead)

    def _shuffling(self, peer: int, packet: Shuffle) -> None:
        onward = [other for other in self._active if other not in (peer, packet.origin)]
        if packet.steps and onward:
            nodes = packet.nodes
            self._send(self._random.choice(onward), Shuffle(packet.origin, packet.steps - 1, nodes))
        elif packet.origin != self._me:
            reply = ShuffleReply(self._passive.sample(len(packet.nodes) + 1))
            self._merge((packet.origin, *packet.nodes), reply.nodes)
            if packet.origin in self._links:
                self._send(packet.origin, reply)
            elif reply.nodes:
                self._replies[packet.origin] = reply
                self._effects.append(Connect(packet.origin))

    # Views

    def _add(self, peer: int) -> None:
        """A neighbour from here on; another one goes if there is no room."""
        self._asked.pop(peer, None)
        self._lost.found(peer)
        self._passive.discard(peer)
        self._refused.pop(peer, None)
        if peer in self._active:
            return
        if len(self._active) >= self._settings.active:
            victim = self._random.choice(list(self._active))
            self._drop(victim, Disconnect(REPLACED, peer))
            self._passive.add(victim)
            self._refused[victim] = None
        self._active[peer] = None
        self._effects.append(NeighbourUp(peer))

    def _drop(self, peer: int, farewell: Disconnect) -> None:
        del self._active[peer]
        self._effects.append(NeighbourDown(peer))
        self._send(peer, farewell)
        self._close_idle(peer)

    def _failed(self, peer: int, now: int) -> None:
        """A peer could not be reached. A contact is looked for until it is found: it may be on the other side
        of a partition that this node was born into."""
        if peer in self._contacts and peer not in self._lost and peer not in self._active:
            self._lost.add(peer, now)
        else:
            self._lost.failed(peer, now)

    def _merge(self, nodes: Sequence[int], sent: Sequence[int]) -> None:
        for node in nodes:
            if node not in self._active:
                self._passive.add(node, instead_of=sent)

    def _fill(self, now: int, first: int | None = None) -> None:
        """Ask a node to fill a free place; `first` if possible."""
        if self._active:
            self._fill_at = NEVER
        filling = [peer for peer in self._asked if peer not in self._lost]
        if len(self._active) + len(filling) >= self._settings.active or len(filling) >= AT_ONCE:
            self._fill_at = NEVER
            return
        urgent = not self._active
        taken = {self._me, *self._active, *self._asked}
        if first is not None and first not in taken:
            self._ask(first, Neighbour(urgent), now)
            return
        one_left = len(self._active) + len(filling) >= self._settings.active - 1
        if self._active and one_left and self._refusals >= ENOUGH_REFUSALS:
            return
        between = [peer for peer in self._refused if peer not in self._active and peer not in self._asked]
        if self._active and between and self._refusals >= ENOUGH_REFUSALS:
            # With two, it pays to be put between two neighbours that have none: no node loses one by it.
            self._ask(self._random.choice(between), Neighbour(True), now)
            return
        taken.update(self._refused)
        candidates = [peer for peer in self._passive if peer not in taken]
        if not candidates and self._active:
            # A small group has no other names to offer than the ones that it began with.
            candidates = [peer for peer in self._contacts if peer not in taken and peer not in self._lost]
        if candidates:
            self._ask(self._random.choice(candidates), Neighbour(urgent), now)
            self._fill_at = NEVER
        elif not self._active:
            self._beg(now)
        elif one_left:
            return  # one free place is nothing to make others change for
        elif between:
            self._ask(self._random.choice(between), Neighbour(True), now)
        else:
            self._shuffles.hurry(now)

    def _beg(self, now: int) -> None:
        """No candidate is left. A node that is alone tries all that it ever knew, for ever."""
        known = [peer for peer in self.known if peer not in self._asked]
        if now < self._fill_at != NEVER:
            return
        if not known:
            self._fill_at = NEVER
            return
        waited, self._fill_at = self._fill_at != NEVER, now + jittered(self._fill_wait, self._random)
        if waited or self._fill_wait == self._settings.retry_first_us:
            self._ask(self._random.choice(known), Join(), now)
            self._fill_wait = min(2 * self._fill_wait, self._settings.retry_most_us)

    # Links

    def _ask(self, peer: int, request: Join | Neighbour, now: int) -> None:
        self._asked[peer] = (request, now + self._settings.answer_us)
        if peer in self._links:
            self._send(peer, request)
        else:
            self._effects.append(Connect(peer))

    def _send(self, peer: int, packet: MembersPacket) -> None:
        if peer in self._links:
            self._effects.append(Transmit((peer,), packet))

    def _close_idle(self, peer: int) -> None:
        """Close a link that is needed no more."""
        if peer in self._links and not (peer in self._active or peer in self._asked or peer in self._replies):
            del self._links[peer]
            self._effects.append(Close(peer))

    def _take(self, now: int) -> list[MembersEffect]:
        """What was asked for, and the next wake-up if it is earlier than the one outstanding."""
        effects, self._effects = self._effects, []
        due = min(self._shuffles.at, self._fill_at, self._lost.next_due)
        if self._asked:
            due = min(due, *[until for _, until in self._asked.values()])
        if due < self._wake_at:
            self._wake_at = max(due, now)
            effects.append(Wake(self._wake_at))
        return effects
