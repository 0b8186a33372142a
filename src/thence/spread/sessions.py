"""Full mesh over sessions: links that deliver in order until they break, and say so when they do.

What TCP gives. A sender streams its own messages to every peer; nothing is repeated by the clock, since
nothing is lost while a link is up, and everything not acknowledged may be lost when it goes down. After
that the two ends begin anew by saying what they have, and only what is missing travels.

State. Per peer a `_Link`: down, greeting (up, its first acknowledgement not there yet) or streaming; up to
where the peer has acknowledged, and up to where it was sent. `_recent`: the newest own messages, as many as a
window; older ones are in the history, and are read from there. `_received`: per origin, up to where messages
came in; `_kept`: up to where they are written down, which is what is acknowledged.

A node that may have forgotten messages of its own (`recovering`: its machine went down before they were
synced, or its log was damaged) must not count on from where its log ends. It hears from every peer how many
of them it has; whoever has more than the log gives them back, and they come in like any other message.

Invariants. To a streaming peer own messages go in order, without a gap, from the first that it lacks; at most
a window of them is unacknowledged. So a peer costs a window of memory, however slow it is and however long it
stays away, and a receiver holds at most a window from each sender. A message is acknowledged only when it
would survive a crash.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, Literal, NamedTuple

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK
from thence.core.errors import PeerError, UsageError
from thence.core.history import History
from thence.core.machine import NEVER, Ack, Forget, Packet, Relay, SpreadEffect, Transmit, Wake
from thence.core.message import Message
from thence.core.storage import ForgottenError
from thence.spread.relays import Relays

LinkState = Literal["down", "greeting", "streaming"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    ack_every_us: int = 20_000
    """An acknowledgement only frees a window and tells how far a peer is behind: rare is good enough."""
    window: int = 8192
    """Messages under way to one peer. More than a fast link carries between two acknowledgements."""
    window_bytes: int = 4 << 20
    """The same in bytes, for large messages: what one peer may cost in memory."""
    relay_after_us: int = 1_000_000
    """How long a link must be down before others are asked for what its other end sends: most come back. 0:
    nobody is ever asked."""
    relay_again_us: int = 2_000_000
    """How long to wait for something to come before the next one is asked."""

    def __post_init__(self) -> None:
        if self.ack_every_us < 1 or self.window < 4 or self.window_bytes < 4096:
            raise UsageError("session settings: need ack_every > 0, window >= 4, window_bytes >= 4096")
        if self.relay_after_us < 0 or self.relay_again_us < 1:
            raise UsageError("session settings: need relay_after >= 0, relay_again > 0")


class Progress(NamedTuple):
    """How far a peer has come with this node's own messages."""

    state: LinkState
    acked: int
    sent: int


class _Link:
    __slots__ = (
        "acked", "acked_bytes", "asked", "greeted", "has", "marks", "returned", "sent", "sent_bytes", "state",
        "theirs",
    )  # fmt: skip

    def __init__(self) -> None:
        self.state: LinkState = "down"
        self.theirs: tuple[int, ...] = ()
        """Its newest acknowledgement."""
        self.asked: set[int] = set()
        """Origins that it was asked to pass on, over the present link."""
        self.greeted = False
        """Has it said how much it has, knowing what this node has?"""
        self.has = 0
        """How much that was the last time: less than before if it forgot some as well."""
        self.returned = 0
        """Up to where its own messages were given back to it, over the present link."""
        self.acked = 0
        self.sent = 0
        self.acked_bytes = 0
        self.sent_bytes = 0
        self.marks: deque[tuple[int, int]] = deque()
        """Now and then: up to this counter, so many bytes were sent."""

    def begin(self, acked: int) -> None:
        self.acked = self.sent = acked
        self.acked_bytes = self.sent_bytes
        self.marks.clear()

    def sending(self, seq: int, size: int, mark_every: int) -> None:
        self.sent = seq
        self.sent_bytes += size
        if self.sent_bytes - (self.marks[-1][1] if self.marks else self.acked_bytes) >= mark_every:
            self.marks.append((seq, self.sent_bytes))

    def acknowledged(self, count: int) -> None:
        self.acked = count
        while self.marks and self.marks[0][0] <= count:
            self.acked_bytes = self.marks.popleft()[1]
        if count == self.sent:
            self.acked_bytes = self.sent_bytes


MOST_FORGOTTEN: Final = 1 << 32
"""Messages that a node can have sent since the backup that it was restored from. A peer that claims to have
more of them lies, and must neither stop the node nor let it wait."""

OVERHEAD: Final = 64
"""Bytes that a message takes up besides its payload, roughly."""


class SessionMesh:
    __slots__ = (
        "_given", "_history", "_kept", "_links", "_me", "_owed", "_peers", "_received", "_recent",
        "_recent_bytes", "_recovering", "_relay_at", "_relays", "_settings", "_share", "_top", "_wake_at",
    )  # fmt: skip

    def __init__(
        self,
        me: int,
        size: int,
        history: History,
        settings: SessionSettings | None = None,
        recovering: bool = False,
    ) -> None:
        if not 0 <= me < size:
            raise ValueError(f"member {me} of {size}")
        self._settings = settings or SessionSettings()
        self._me = me
        self._history = history
        self._recovering = recovering
        self._peers = tuple([peer for peer in range(size) if peer != me])
        self._links = {peer: _Link() for peer in self._peers}
        self._top = 0
        self._given: int | None = None
        """Own messages that any other can have: those of earlier starts, and what a link was given since."""
        self._recent: deque[Message] = deque()
        self._recent_bytes = 0
        self._received = [0] * size
        self._kept = [0] * size
        self._owed: dict[int, int] = {}
        """Peers that were not told yet what came from them, and how much of a window that was, in bytes."""
        self._share = self._settings.window_bytes // self._settings.window
        """What a message counts at least: a window of small ones is a window too."""
        self._relays = Relays(self._settings.relay_after_us, self._settings.relay_again_us)
        self._relay_at = NEVER
        self._wake_at: int | None = None

    @property
    def drained(self) -> bool:
        return not self._owed and all(link.acked == self._top for link in self._links.values())

    @property
    def waiting_for(self) -> list[int]:
        """The peers that a recovering node must hear from before it can know what it has sent."""
        return [peer for peer, link in self._links.items() if not link.greeted] if self._recovering else []

    @property
    def recovering(self) -> bool:
        """Are there, or may there be, messages of this node that it does not have?"""
        if not self._recovering:
            return False
        return any(not link.greeted or link.has > self._top for link in self._links.values())

    def progress(self, peer: int) -> Progress:
        link = self._links[peer]
        return Progress(link.state, link.acked, link.sent)

    def recall(self, kept: tuple[int, ...], own: Sequence[Message], now: int) -> None:  # noqa: ARG002
        """Own messages need not be recalled: they are in the history. All links are down."""
        self._recent.clear()
        self._recent_bytes = 0
        self._owed.clear()
        self._wake_at = None
        self._relay_at = NEVER
        for peer, link in self._links.items():
            link.state = "down"
            link.begin(min(link.acked, kept[self._me]))
            self._relays.lost(peer, now)
        self._received = list(kept)
        self._kept = list(kept)
        self._top = kept[self._me]
        self._given = self._top if self._given is None else self._given

    def resume(self, now: int) -> list[SpreadEffect]:  # noqa: ARG002
        """All links are down, and whoever comes up is told everything."""
        return []

    def up(self, peer: int, now: int) -> list[SpreadEffect]:
        link = self._links[peer]
        link.state = "greeting"
        link.returned = 0
        link.asked.clear()
        self._owed.pop(peer, None)
        return [Transmit((peer,), self._ack()), *self._ask_later(now)]

    def down(self, peer: int, now: int) -> list[SpreadEffect]:
        link = self._links[peer]
        link.state = "down"
        link.greeted = False
        link.begin(link.acked)
        self._owed.pop(peer, None)
        self._relays.lost(peer, now)
        return self._ask_later(now)

    def broadcast(self, message: Message, now: int) -> list[SpreadEffect]:  # noqa: ARG002
        before = self._top
        self._top = self._kept[self._me] = message.dot >> ORIGIN_BITS
        size = len(message.payload) + OVERHEAD
        self._remember(message, size)
        settings = self._settings
        peers = []
        for peer, link in self._links.items():
            if link.sent == before and link.state == "streaming" and self._room(link):
                link.sending(self._top, size, settings.window_bytes // 16)
                peers.append(peer)
                self._given = self._top
        return [Transmit(tuple(peers), message)] if peers else []

    def receive(self, peer: int, packet: Packet, now: int) -> list[SpreadEffect]:
        link = self._links.get(peer)
        if link is None or link.state == "down":
            raise PeerError(f"a packet from {peer}, to whom there is no link")
        if isinstance(packet, Message):
            return self._message(peer, packet, now)
        if type(packet) is Ack:
            effects = self._acknowledged(peer, link, packet)
            link.theirs = packet.received
            return [*effects, *self._serve(peer, link)]
        if type(packet) is Relay:
            return self._asked(peer, link, packet)
        raise PeerError(f"a mesh has no use for a {type(packet).__name__}")

    def _message(self, peer: int, message: Message, now: int) -> list[SpreadEffect]:
        origin, seq = message.dot & ORIGIN_MASK, message.dot >> ORIGIN_BITS
        if origin != peer and not self._may_pass_on(peer, origin):
            raise PeerError(f"member {peer} speaks for member {origin}")
        missing = self._received[origin] + 1
        if origin not in (peer, self._me) and (seq > missing or self._links[origin].state != "down"):
            # Something in between was forgotten here since it was asked for; or its origin has come back, and
            # says itself what it has sent.
            return []
        if seq > missing:
            raise PeerError(f"member {peer} sends message {seq} where {missing} is due")
        effects: list[SpreadEffect] = []
        if seq == missing:
            self._received[origin] = seq
            effects.append(message)
        owed = self._owed.get(peer, 0) + max(len(message.payload) + OVERHEAD, self._share)
        self._owed[peer] = owed
        if self._wake_at is None:
            effects.append(self._rest(now))
        if owed > self._settings.window_bytes // 4:  # the sender should not have to wait for the clock
            del self._owed[peer]
            effects.append(Transmit((peer,), self._ack()))
        return effects

    def _acknowledged(self, peer: int, link: _Link, ack: Ack) -> list[SpreadEffect]:
        me = self._me
        count = ack.received[me] if me < len(ack.received) else -1
        if count > self._top + MOST_FORGOTTEN:
            raise PeerError(f"member {peer} claims to have {count} messages of a node that sent {self._top}")
        if count < 0 or (count > self._top and link.state == "streaming" and not self._recovering):
            raise PeerError(f"member {peer} acknowledges message {count} of {self._top}")
        if link.state == "greeting":
            return [*self._greeting(peer, link, ack), *self._return(peer, link, ack), *self._pump(peer, link)]
        if count < link.acked:
            raise PeerError(f"member {peer} acknowledges {count} after {link.acked}")
        if count > link.sent:
            link.begin(count)  # it held some of them from before the link
        else:
            link.acknowledged(count)
        if self._recovering:
            # Only now is it certain that the peer has dropped what it held: it has heard our greeting.
            link.greeted = True
            link.has = count
        return [*self._return(peer, link, ack), *self._pump(peer, link)]

    def _greeting(self, peer: int, link: _Link, ack: Ack) -> list[SpreadEffect]:
        """The first acknowledgement of a link is answered with one that knows of it."""
        count = ack.received[self._me]
        if count > (self._given or 0) and not self._recovering:
            raise ForgottenError(
                f"member {peer} has {count} messages of this node, which had sent {self._given or 0} when "
                "it was started and nothing since: its data folder was put back to an earlier state"
            )
        if not self._history.reaches(self._lacking(self._me, min(count, self._top))):
            raise PeerError(f"member {peer} has {count}, and what comes next is not kept here any more")
        link.state = "streaming"
        link.begin(count)
        effects = self._want(self._relays.reached(peer))
        if ack.received[peer] < self._received[peer]:
            # It has forgotten some of its own. Those that are in the log it will get back; the others wait
            # here for their causes, and nobody can promise that they will come.
            self._received[peer] = self._kept[peer]
            effects.append(Forget(peer))
        effects.append(Transmit((peer,), self._ack()))
        return effects

    def _return(self, peer: int, link: _Link, ack: Ack) -> list[SpreadEffect]:
        """Its own messages to a peer that has lost some, a window of them at most at a time."""
        had, here = max(ack.received[peer], link.returned), self._kept[peer]
        if had >= here or had - ack.received[peer] >= self._settings.window:
            return []
        effects: list[SpreadEffect] = []
        for message in self._written(peer, had, self._settings.window):
            effects.append(Transmit((peer,), message))
            link.returned = message.dot >> ORIGIN_BITS
        return effects

    def _pump(self, peer: int, link: _Link) -> list[SpreadEffect]:
        """Send what there is room for, of what the peer lacks and was not sent."""
        effects: list[SpreadEffect] = []
        to, mark_every = (peer,), self._settings.window_bytes // 16
        while link.sent < self._top and self._room(link):
            before = link.sent
            for message in self._from(before + 1):
                link.sending(message.dot >> ORIGIN_BITS, len(message.payload) + OVERHEAD, mark_every)
                effects.append(Transmit(to, message))
                self._given = max(self._given or 0, link.sent)
                if not self._room(link):
                    break
            if link.sent == before:
                break
        return effects

    def _from(self, seq: int) -> Iterator[Message]:
        """Own messages from this counter on, some of them at least."""
        first = self._top - len(self._recent) + 1
        if seq >= first:
            return islice(self._recent, seq - first, None)
        return self._written(self._me, seq - 1, min(first - seq, self._settings.window))

    def _written(self, origin: int, above: int, most: int) -> Iterator[Message]:
        """Messages of one origin above a counter, from the history."""
        return islice(self._history.missing(self._lacking(origin, above)), most)

    def _lacking(self, origin: int, above: int) -> list[int]:
        """The vector of a node that has everything but what this origin sent above a counter."""
        vector = list(self._history.vector)
        vector[origin] = above
        return vector

    def _room(self, link: _Link) -> bool:
        settings = self._settings
        return (
            link.sent - link.acked < settings.window
            and link.sent_bytes - link.acked_bytes < settings.window_bytes
        )

    def _remember(self, message: Message, size: int) -> None:
        recent = self._recent
        recent.append(message)
        self._recent_bytes += size
        while len(recent) > self._settings.window or self._recent_bytes > self._settings.window_bytes:
            self._recent_bytes -= len(recent.popleft().payload) + OVERHEAD

    def keep(self, dot: int, now: int) -> list[SpreadEffect]:
        origin = dot & ORIGIN_MASK
        self._kept[origin] = dot >> ORIGIN_BITS
        if origin == self._me:
            return self._regained(dot >> ORIGIN_BITS, now)
        # It may have been received, and held, long ago; and from somebody else.
        via = origin if self._links[origin].state != "down" else self._relays.asked_for(origin)
        if via >= 0:
            self._owed.setdefault(via, 0)
        elif not self._relays.wanted(origin):
            return []
        return [] if self._wake_at is not None else [self._rest(now)]

    def _regained(self, seq: int, now: int) -> list[SpreadEffect]:
        """An own message that was forgotten is back: those who gave it may go on, others may lack it. They
        get it from the history, when it is there."""
        self._top = seq
        self._given = max(self._given or 0, seq)
        self._owed.update(
            dict.fromkeys([p for p, link in self._links.items() if link.state == "streaming"], 0)
        )
        return [] if self._wake_at is not None else [self._rest(now)]

    def wake(self, now: int) -> list[SpreadEffect]:
        effects: list[SpreadEffect] = []
        if now >= self._relay_at:
            self._relay_at = NEVER
            effects += self._want(self._relays.asks(now, self._kept, self._streaming()))
            effects += self._ask_later(now)
        if self._wake_at is None or now + self._settings.ack_every_us // 2 < self._wake_at:
            return effects
        self._wake_at = None
        if self._owed:
            effects.append(Transmit(tuple(self._owed), self._ack()))
            self._owed.clear()
        for peer in self._streaming():
            if self._recovering:
                effects += self._pump(peer, self._links[peer])
            effects += self._serve(peer, self._links[peer])
        return effects

    # What others sent, for those who cannot reach them

    def _streaming(self) -> list[int]:
        return [peer for peer, link in self._links.items() if link.state == "streaming"]

    def _may_pass_on(self, peer: int, origin: int) -> bool:
        return origin in self._links[peer].asked or (origin == self._me and self._recovering)

    def _ask_later(self, now: int) -> list[SpreadEffect]:
        due = self._relays.due
        if due >= self._relay_at:
            return []
        self._relay_at = max(due, now + 1)
        return [Wake(self._relay_at)]

    def _want(self, peers: list[int]) -> list[SpreadEffect]:
        """Tell these what is wanted from them now."""
        effects: list[SpreadEffect] = []
        for peer in peers:
            origins = self._relays.wanted_from(peer)
            self._links[peer].asked.update(origins)
            effects += [Transmit((peer,), self._ack()), Transmit((peer,), Relay(origins))]
        return effects

    def _asked(self, peer: int, link: _Link, relay: Relay) -> list[SpreadEffect]:
        if peer in relay.origins or self._me in relay.origins:
            raise PeerError(f"member {peer} asks for messages of {peer} or {self._me}")
        if link.state != "streaming":
            raise PeerError(f"member {peer} asks before it says what it has")
        self._relays.wanted_by(peer, relay.origins)
        return self._serve(peer, link)

    def _serve(self, peer: int, link: _Link) -> list[SpreadEffect]:
        """Pass on what the peer has asked for and lacks, a part of a window of each origin."""
        effects: list[SpreadEffect] = []
        if not self._relays.serves(peer):
            return effects
        here = self._history.vector
        for origin, above, room in self._relays.gaps(peer, link.theirs, here, self._settings.window // 4):
            if self._history.reaches(self._lacking(origin, above)):
                for message in self._written(origin, above, room):
                    effects.append(Transmit((peer,), message))
                    self._relays.sent(peer, origin, message.dot >> ORIGIN_BITS)
        return effects

    def _ack(self) -> Ack:
        return Ack(tuple(self._kept), ())

    def _rest(self, now: int) -> Wake:
        self._wake_at = now + self._settings.ack_every_us
        return Wake(self._wake_at)
