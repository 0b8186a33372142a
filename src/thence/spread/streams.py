"""Streams: what one node sends to a neighbour so that the other misses nothing and nothing comes too early.

The synchronisation of section 3.3.3 of the ECO SYNC Tree document, by itself: SYNC Tree, ECO SYNC Tree and
causal flood differ in which links carry streams, not in what a stream is. A link that carries them is a
*branch*, in both directions (`stream_link`). Per direction the receiver asks with its clock (`Graft`); the
sender answers with everything in its history that the clock lacks, causes first, in pieces (`Sync`), and from
the last piece on with every message as it comes.

Why that is causal. Over a link that delivers in order, the receiver gets the sender's messages in the order
in which the sender had them, without a gap, but for those that the receiver had when it asked. So whatever a
message follows from is here before it: the pair (origin, counter) on each message is enough.

Invariants. Messages of one origin are passed on in the order of their counters, each once; the clock alone
tells what is new, and counts no part of a run. A message that is not the next one of its origin shuts the ear
to that link (whatever comes after it may follow from what is missing) until a new graft is answered. At most
one stream is being caught up with at a time, so that two neighbours do not send the same past. Nothing is
queued for a peer: what it lacks is in the history. A live link that cannot take more falls back to that
(`hold`), whatever the other end thinks of it: to a receiver pieces and messages are the same, and a piece is
answered.
"""

from collections.abc import Callable, Iterator, Sequence

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK
from thence.core.errors import PeerError
from thence.core.history import History
from thence.core.machine import NEVER, NO_PEER, Packet, SpreadEffect, Transmit, Wake
from thence.core.message import Message
from thence.core.overlay import Graft, More, Prune, Resync, Sync
from thence.spread.stream_link import OVERHEAD, Link, StreamSettings, up_to_gap


class Streams:
    """What the spreads over partial views have in common."""

    __slots__ = (
        "_clock", "_history", "_incoming", "_incoming_until", "_links", "_live", "_me", "_streams",
        "_waiting", "_wake_at", "must_follow",
    )  # fmt: skip

    def __init__(self, me: int, size: int, history: History, settings: StreamSettings | None = None) -> None:
        if not 0 <= me < size:
            raise ValueError(f"member {me} of {size}")
        self._streams = settings or StreamSettings()
        self._me = me
        self._history = history
        self._clock = list(history.vector) + [0] * (size - len(history.vector))
        self._links: dict[int, Link] = {}
        self._live: list[tuple[int, list[int]]] = []
        """The links that are live, with their clocks: what every message looks at."""
        self._incoming: int | None = None
        self._incoming_until = NEVER
        self._waiting: dict[int, None] = {}
        self._wake_at = NEVER
        self.must_follow: Callable[[Sequence[Message]], None] | None = None
        """`PeerError` for one that comes before what it follows from: no correct peer sends it."""

    # What every spread does

    @property
    def clock(self) -> tuple[int, ...]:
        return tuple(self._clock)

    def has(self, dot: int) -> bool:
        """Has this message come?"""
        return dot >> ORIGIN_BITS <= self._clock[dot & ORIGIN_MASK]

    @property
    def own(self) -> int:
        """Messages that this node has sent."""
        return self._clock[self._me]

    @property
    def branches(self) -> tuple[int, ...]:
        return tuple([peer for peer, link in self._links.items() if link.branch])

    @property
    def live(self) -> tuple[int, ...]:
        return tuple([peer for peer, _ in self._live])

    def states(self) -> Iterator[tuple[int, bool, bool]]:
        """Of each link: its peer, whether it is a branch, and whether this end is live."""
        return ((peer, link.branch, link.live) for peer, link in self._links.items())

    def fed(self, peer: int) -> int:
        """Up to which of this node's own messages `peer` has them, or is sent them right now; if it is not
        streamed to, that is not this node's business."""
        link = self._links.get(peer)
        if link is None or not link.branch or link.live:
            return self._clock[self._me]
        return 0 if link.clock is None else link.clock[self._me]

    @property
    def syncing(self) -> bool:
        """Some stream of this node, in or out, has not caught up."""
        return self._incoming is not None or any(
            link.branch and not link.live for link in self._links.values()
        )

    @property
    def drained(self) -> bool:
        return not self.syncing

    def recall(self, kept: tuple[int, ...]) -> None:
        """Back from disk: the clock is the log's. Whatever others lack is in the history."""
        self._clock = list(kept) + [0] * (len(self._clock) - len(kept))

    def admit(self, size: int) -> None:
        """So many members are known by now: their messages are counted."""
        for clock in (self._clock, *[link.clock for link in self._links.values() if link.clock is not None]):
            clock += [0] * (size - len(clock))

    def become(self, me: int) -> None:
        """From here on this node's own messages are those of another member."""
        self._me = me

    def resume(self, now: int) -> list[SpreadEffect]:
        """Outstanding wake-ups were lost."""
        self._wake_at = NEVER
        return self._planned([], now)

    def up(self, peer: int, now: int) -> list[SpreadEffect]:
        """Both ends begin anew, also if this one has not noticed that an older link was lost."""
        effects = self.down(peer, now)
        self._links[peer] = Link()
        self._appeared(peer, effects, now)
        return self._planned(effects, now)

    def down(self, peer: int, now: int) -> list[SpreadEffect]:
        """What was under way is gone; if the link comes back, both ends begin anew."""
        effects: list[SpreadEffect] = []
        if self._links.pop(peer, None) is not None:
            self._relist()
            self._leave_queue(peer, effects, now)
            self._vanished(peer, effects, now)
        return self._planned(effects, now)

    def hold(self, peer: int) -> None:
        """More waits to be sent to `peer` than is good. It has been sent everything up to here; what comes
        now it gets from the history, when `release` says that there is room."""
        link = self._links.get(peer)
        if link is not None and link.live:
            link.clock, link.live, link.held = list(self._clock), False, True
            link.renew(0)
            self._relist()

    def release(self, peer: int, now: int) -> list[SpreadEffect]:
        effects: list[SpreadEffect] = []
        link = self._links.get(peer)
        if link is not None and link.held and link.clock is not None:
            link.held = False
            link.renew(self._streams.window)
            self._feed(peer, link, effects)
        return self._planned(effects, now)

    def hears(self, peer: int, now: int) -> None:
        """A large message, or piece, is coming from there: it is not silent."""
        if peer == self._incoming:
            self._incoming_until = now + self._streams.sync_us

    def broadcast(self, message: Message, now: int) -> list[SpreadEffect]:  # noqa: ARG002
        self._clock[self._me] = message.dot >> ORIGIN_BITS
        effects: list[SpreadEffect] = []
        self._forward(message, NO_PEER, effects)
        return effects

    def receive(self, peer: int, packet: Packet, now: int) -> list[SpreadEffect]:
        link = self._links.get(peer)
        if link is None:
            raise PeerError(f"a packet from {peer}, who is not a neighbour")
        effects: list[SpreadEffect] = []
        if isinstance(packet, Message):
            self._check(peer, packet)
            if self.must_follow is not None and link.heard:
                self.must_follow(up_to_gap((packet,), self._clock))
            self._message(peer, link, packet, effects, now)
            return effects
        self._handle(peer, link, packet, effects, now)
        return self._planned(effects, now)

    def wake(self, now: int) -> list[SpreadEffect]:
        if now >= self._wake_at:
            self._wake_at = NEVER
        effects: list[SpreadEffect] = []
        if self._incoming_until <= now and self._incoming is not None:
            self._leave_queue(self._incoming, effects, now)
        self._tick(effects, now)
        return self._planned(effects, now)

    # What spreads add

    def _appeared(self, peer: int, effects: list[SpreadEffect], now: int) -> None:
        """A neighbour is there."""

    def _vanished(self, peer: int, effects: list[SpreadEffect], now: int) -> None:
        """It is gone."""

    def _unbranched(self, peer: int, effects: list[SpreadEffect], now: int) -> None:
        """The other end has pruned."""

    def _freed(self, effects: list[SpreadEffect], now: int) -> None:
        """Nothing is being caught up with, and no peer waits."""

    def _tick(self, effects: list[SpreadEffect], now: int) -> None:
        """Time has passed."""

    def _due(self, now: int) -> int:  # noqa: ARG002
        """When to be woken."""
        return NEVER

    # Packets

    def _handle(self, peer: int, link: Link, packet: Packet, effects: list[SpreadEffect], now: int) -> None:
        match packet:
            case Sync():
                self._synced(peer, link, packet, effects, now)
            case More():
                if link.clock is not None and not link.live and link.earn() > 0:
                    self._feed(peer, link, effects)
            case Graft():
                self._grafted(peer, link, packet, effects, now)
            case Prune():
                if packet.version > link.version:
                    self._cut(link, packet.version)
                    self._leave_queue(peer, effects, now)
                    self._unbranched(peer, effects, now)
            case Resync():
                if link.branch:
                    self._again(peer, link, effects, now)
            case _:
                raise PeerError(f"this spread has no use for a {type(packet).__name__}")

    def _message(
        self, peer: int, link: Link, message: Message, effects: list[SpreadEffect], now: int
    ) -> None:
        origin, seq = message.dot & ORIGIN_MASK, message.dot >> ORIGIN_BITS
        clock = self._clock
        had, before = clock[origin], message.before >> ORIGIN_BITS
        if seq <= had or not link.heard:
            return
        if before != had:
            link.heard = False  # where a part of a run is here, whatever else comes is worth no more
            if before > had:
                self._again(peer, link, effects, now)
            return
        clock[origin] = seq
        effects.append(message)
        self._forward(message, peer, effects)

    def _check(self, peer: int, message: Message) -> None:
        """Before anything of a packet takes effect: no peer can have more of this node than it has sent."""
        origin, seq = message.dot & ORIGIN_MASK, message.dot >> ORIGIN_BITS
        if origin >= len(self._clock) or (origin == self._me and seq > self._clock[origin]):
            raise PeerError(f"member {peer} has message {seq} of member {origin}, which cannot be")
        if message.before >> ORIGIN_BITS < self._clock[origin] < seq:
            raise PeerError(f"member {peer} has a run of member {origin} of which a part was here before")

    def _forward(self, message: Message, via: int, effects: list[SpreadEffect]) -> None:
        """To all live neighbours that did not have it when they asked."""
        dot = message.dot
        origin, seq = dot & ORIGIN_MASK, dot >> ORIGIN_BITS
        peers = tuple([peer for peer, clock in self._live if peer != via and clock[origin] < seq])
        if peers:
            effects.append(Transmit(peers, message))

    def _synced(self, peer: int, link: Link, sync: Sync, effects: list[SpreadEffect], now: int) -> None:
        for message in sync.messages:
            self._check(peer, message)
        if sync.version == link.grafted:
            link.heard = True
        if self.must_follow is not None and link.heard:
            self.must_follow(up_to_gap(sync.messages, self._clock))
        for message in sync.messages:
            self._message(peer, link, message, effects, now)
        if peer == self._incoming and sync.version == link.grafted:
            self._incoming_until = now + self._streams.sync_us
            if sync.last:
                self._leave_queue(peer, effects, now)
        if not sync.last:
            effects.append(Transmit((peer,), More()))

    def _grafted(self, peer: int, link: Link, graft: Graft, effects: list[SpreadEffect], now: int) -> None:
        if graft.version < link.version:
            return  # the other end will see what this one sent meanwhile, and follow
        if not self._history.reaches(graft.clock):
            self._beyond(peer)
        if graft.version > link.version or not link.branch:
            link.version = graft.version
            link.branch = True
            self._want(peer, link, effects, now)
        link.clock = [*graft.clock, *[0] * (len(self._clock) - len(graft.clock))]
        link.live = link.held = False
        link.renew(self._streams.window)
        self._relist()
        self._feed(peer, link, effects)

    def _beyond(self, peer: int) -> None:
        """It lacks what the history no longer holds."""
        raise PeerError(f"member {peer} lacks what this log no longer holds: it has lost what it had")

    # Streams out

    def _feed(self, peer: int, link: Link, effects: list[SpreadEffect]) -> None:
        """Send what the other end lacks, as far as it has room; live if that was all."""
        assert link.clock is not None
        clock, most = link.clock, self._streams.piece_bytes
        if not self._history.reaches(clock):
            # It has what is gone, from elsewhere, or it could not be gone: begin anew from what it has now.
            link.clock = None
            effects.append(Transmit((peer,), Resync()))
            return
        piece: list[Message] = []
        size = 0
        for message in self._history.missing(clock):
            cost = len(message.payload) + OVERHEAD
            if piece and size + cost > most:  # a large one goes alone
                self._piece(peer, link, piece, size, False, effects)
                if link.credit <= 0:
                    return
                piece, size = [], 0
            piece.append(message)
            size += cost
        self._piece(peer, link, piece, size, True, effects)
        link.live = True
        self._relist()

    def _piece(
        self, peer: int, link: Link, piece: list[Message], size: int, last: bool, effects: list[SpreadEffect]
    ) -> None:
        assert link.clock is not None
        for message in piece:
            link.clock[message.dot & ORIGIN_MASK] = message.dot >> ORIGIN_BITS
        link.spend(max(1, size // self._streams.piece_bytes))
        effects.append(Transmit((peer,), Sync(link.version, tuple(piece), last)))

    def _relist(self) -> None:
        self._live = [(peer, one.clock) for peer, one in self._links.items() if one.live and one.clock]

    # Streams in

    def _begin(self, peer: int, effects: list[SpreadEffect], now: int) -> None:
        """Make a link a branch."""
        link = self._links[peer]
        link.version += 1
        link.branch = True
        link.clock, link.live = None, False
        self._relist()
        self._want(peer, link, effects, now)

    def _again(self, peer: int, link: Link, effects: list[SpreadEffect], now: int) -> None:
        """The other end's stream has a gap: nothing of it counts until a new graft is answered."""
        link.heard = False
        self._leave_queue(peer, effects, now)
        self._begin(peer, effects, now)
        self._planned(effects, now)

    def _prune(self, peer: int, effects: list[SpreadEffect], now: int) -> None:
        """Make a link no branch."""
        link = self._links[peer]
        self._cut(link, link.version + 1)
        effects.append(Transmit((peer,), Prune(link.version)))
        self._leave_queue(peer, effects, now)

    def _cut(self, link: Link, version: int) -> None:
        link.version = version
        link.branch = False
        link.clock, link.live = None, False
        self._relist()

    def _want(self, peer: int, link: Link, effects: list[SpreadEffect], now: int) -> None:
        """Ask for the other end's stream, now or when its turn comes."""
        if self._incoming is not None and self._incoming != peer:
            self._waiting[peer] = None
            return
        self._incoming = peer
        self._incoming_until = now + self._streams.sync_us
        link.grafted = link.version
        effects.append(Transmit((peer,), Graft(link.version, tuple(self._clock))))

    def _leave_queue(self, peer: int, effects: list[SpreadEffect], now: int) -> None:
        """The turn of `peer` is over, or it need not wait for one any more."""
        self._waiting.pop(peer, None)
        if self._incoming != peer:
            return
        self._incoming, self._incoming_until = None, NEVER
        while self._waiting:
            following = next(iter(self._waiting))
            del self._waiting[following]
            link = self._links.get(following)
            if link is not None and link.branch and link.grafted != link.version:
                self._want(following, link, effects, now)
                return
        self._freed(effects, now)

    def _planned(self, effects: list[SpreadEffect], now: int) -> list[SpreadEffect]:
        due = min(self._incoming_until, self._due(now))
        if due < self._wake_at:
            self._wake_at = max(due, now)
            effects.append(Wake(self._wake_at))
        return effects
