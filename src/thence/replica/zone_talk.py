"""What a process of a topology and its neighbours say to each other over links: items, and how far they got.

A link begins with a greeting: what each end has of the other. A process that has just started sends nothing
and believes nothing before all of its neighbours that live have greeted, or some time has passed.

A hop is not sent to a neighbour while an earlier one, which was not for it, is nowhere else: if this process
were gone for good, those that have the later hop would wait for the earlier one for ever (`ZoneCore.before`).

What was delivered here (R11) each neighbour is told with what it is sent anyway, and not more often than each
half of `word_us`; one to which nothing went for one and a half gets a word by itself. It has what is news to
its receiver.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK
from thence.core.errors import PeerError
from thence.core.machine import NEVER
from thence.core.zones import ITEM_BYTES, ZoneHave, ZoneHello, ZoneItems, ZonePacket, ZoneWord
from thence.order.history import Rules
from thence.order.topology import Topology
from thence.replica.zone_core import Stream, ZoneCore


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneSettings:
    greet_us: int = 2_000_000
    """How long a start waits for all neighbours to say what they have of this process."""
    suspect_us: int = 10_000_000
    """How long a gateway is without a link to another of its separator before it asks for its death; 0: a
    person decides."""
    ack_us: int = 0
    """How late neighbours are told that their items came: others wait for that (`ZoneCore.before`)."""
    word_us: int = 200_000
    """Between two words to a neighbour (R11)."""
    window: int = 1024
    """Items under way to a neighbour."""
    packet_bytes: int = 1 << 20
    kept_most: int = 65_536
    """Items that wait for one neighbour before own messages are refused."""
    kept_bytes: int = 64 << 20
    """And how many bytes they have."""
    inbox_max: int = 8192
    """Operations that wait for the program before neighbours are asked to wait."""
    rules: Rules = Rules()  # noqa: RUF009


class ZoneSession:
    """A link to a neighbour."""

    __slots__ = (
        "behind", "early", "greeted", "next", "owes", "room", "told_room", "up", "word_at", "worded",
    )  # fmt: skip

    def __init__(self) -> None:
        self.up = False
        self.greeted = False
        """It has said what it has."""
        self.behind = False
        """It has forgotten something, and will end."""
        self.next = 1
        """Of items, the number of the next one over this link."""
        self.owes = False
        """It is to be told what came."""
        self.room = self.told_room = True
        """There is room for more items: at the other end; here, as it was told."""
        self.early: list[ZoneItems] = []
        """From before the other neighbours had greeted."""
        self.word_at = 0
        """When it may be told again of what was delivered here."""
        self.worded: dict[int, int] = {}
        """By hop sender, the newest hop that it was told of."""


class ZoneTalk:
    __slots__ = (
        "_gone", "_let", "_settings", "_topology", "_worded", "ack_at", "core", "greet_until", "posts",
        "sessions", "word_at",
    )  # fmt: skip

    def __init__(self, core: ZoneCore, topology: Topology, settings: ZoneSettings, now: int) -> None:
        self.core = core
        self._topology: Final = topology
        self._settings: Final = settings
        self.sessions: Final = {peer: ZoneSession() for peer in core.near}
        self.posts: list[tuple[str, ZonePacket]] = []
        self.greet_until = now + settings.greet_us if core.near and settings.greet_us else 0
        """0: it has begun."""
        self._gone: Final[set[int]] = set()
        """Neighbours that others have closed, of which this start need not wait to hear."""
        self.ack_at = NEVER
        self.word_at = NEVER
        """When words go by themselves to those to which nothing else went."""
        self._worded = core.orderer.delivered
        """So many hops were delivered when words were last said to all."""
        self._let: Final[dict[int, int]] = {}
        """By neighbour that has greeted since the start, the greatest counter of a hop that left for it."""

    def post(self, peer: int, packet: ZonePacket) -> None:
        self.posts.append((self._topology.names[peer], packet))

    def take_posts(self) -> list[tuple[str, ZonePacket]]:
        posts, self.posts = self.posts, []
        return posts

    # Greetings

    def begin(self, peer: int) -> None:
        """There is a link."""
        session = self.sessions[peer] = ZoneSession()
        session.up = True
        core, stream = self.core, self.core.streams[peer]
        self.post(
            peer,
            ZoneHello(
                self._topology.digest(), stream.sent, stream.base + 1, stream.have, core.floor,
                tuple(core.closed),
            ),
        )  # fmt: skip

    def end(self, peer: int) -> None:
        self.sessions[peer] = ZoneSession()

    def silent(self) -> list[int]:
        """Those that have not greeted, and live."""
        gone = self.core.closed.keys() | self._gone
        return [peer for peer, one in self.sessions.items() if not one.greeted and peer not in gone]

    @property
    def waits(self) -> bool:
        """For greetings."""
        return self.greet_until > 0

    def greeted(self, peer: int, hello: ZoneHello, now: int) -> str:
        """Returns why this process may not go on, if the greeting says so."""
        core, session, name = self.core, self.sessions[peer], self._topology.names[peer]
        stream = core.streams[peer]
        if hello.topology != self._topology.digest():
            raise PeerError(f"{name} has another topology")
        if core.me in hello.closed:
            raise PeerError(f"{name} greets a process that it has closed")
        if hello.have > stream.sent:
            return (
                f"{name} has {hello.have} of its packets, and its log knows of {stream.sent}: its data was "
                "lost, or put back to an earlier state. Put a whole copy back"
            )
        if hello.kept > stream.have + 1:
            return (
                f"it told {name} that it has {hello.kept - 1} packets, and its log has {stream.have}: its "
                "data was put back to an earlier state. Put a whole copy back"
            )
        if hello.have < stream.base or hello.sent < stream.have:
            session.behind = True  # it hears as much, and ends
            return ""
        session.greeted = session.owes = True
        self._let.setdefault(peer, 0)
        session.next = hello.have + 1
        core.acked(peer, hello.have)
        core.settled(peer, hello.floor)
        self._gone.update(hello.closed)
        self._news(now)
        return ""

    def go_on(self, now: int) -> Iterator[tuple[int, ZoneSession, ZoneItems]]:
        """What came meanwhile, once all have greeted, or have had the time to."""
        if not self.greet_until or (now < self.greet_until and self.silent()):
            return
        self.greet_until = 0
        for peer, session in self.sessions.items():
            early, session.early = session.early, []
            for packet in early:
                yield peer, session, packet

    # Items

    def fresh(self, peer: int, packet: ZoneItems) -> tuple[bytes, ...]:
        """Of these items, those that are not here."""
        stream = self.core.streams[peer]
        if packet.first > stream.have + 1 or packet.first < 1:
            raise PeerError(f"item {packet.first} comes after item {stream.have}")
        if packet.have > stream.sent:
            raise PeerError(f"item {packet.have} of {stream.sent} is said to be there")
        return packet.items[stream.have + 1 - packet.first :]

    def came(self, session: ZoneSession, now: int) -> None:
        """Items did, and are in the log when this step is over."""
        session.owes = True
        self.ack_at = min(self.ack_at, now + self._settings.ack_us)
        if self.core.orderer.delivered > self._worded:
            self._news(now)

    def acked(self, peer: int, packet: ZoneHave | ZoneItems) -> None:
        self.core.acked(peer, packet.have)
        self.core.settled(peer, packet.floor)
        self.sessions[peer].room = packet.room

    @property
    def _gated(self) -> bool:
        """Would others go on without this process? Not without the last gateway of a separator."""
        topology, core = self._topology, self.core
        if not topology.is_gateway(core.me):
            return True
        members = topology.separators[topology.separator_of(core.me)].members
        return any(each != core.me and each not in core.closed for each in members)

    def pump(self, now: int) -> None:
        """What neighbours are to have, as far as their windows reach; and what came."""
        core, gated = self.core, self._gated
        able = {peer for peer, session in self.sessions.items() if session.greeted and session.room}
        for peer in sorted(able):
            session, stream = self.sessions[peer], core.streams[peer]
            end = min(stream.sent, stream.base + self._settings.window)
            if session.next > end:
                continue
            first = core.before(peer, able) if gated else None
            while session.next <= end and (first is None or stream.items[session.next][0] <= first):
                self._post_items(peer, session, end, first, now)
        self._tell(now)

    def _post_items(self, peer: int, session: ZoneSession, end: int, before: int | None, now: int) -> None:
        stream, number = self.core.streams[peer], session.next
        items, size = list[bytes](), 0
        while session.next <= end and size < self._settings.packet_bytes:
            counter, data = stream.items[session.next]
            if before is not None and counter > before:
                break
            items.append(data)
            self._let[peer] = max(self._let[peer], counter)
            size += len(data) + ITEM_BYTES
            session.next += 1
        session.owes, session.told_room = False, self._room
        word = self._word(session, now)
        self.post(peer, ZoneItems(number, stream.have, self.core.floor, self._room, tuple(items), word))

    @property
    def _room(self) -> bool:
        return self.core.waiting <= self._settings.inbox_max

    def _tell(self, now: int) -> None:
        """What came, and whether there is room for more."""
        due, room = now >= self.ack_at, self._room
        if due:
            self.ack_at = NEVER
        for peer, session in self.sessions.items():
            if session.greeted and ((due and session.owes) or session.told_room is not room):
                session.owes, session.told_room = False, room
                word = self._word(session, now)
                self.post(peer, ZoneHave(self.core.streams[peer].have, self.core.floor, room, word))

    # Words (R11)

    def _news(self, now: int) -> None:
        self.word_at = min(self.word_at, now + self._settings.word_us)

    def _word(self, session: ZoneSession, now: int) -> tuple[int, ...]:
        """What was delivered here, as far as it is news to a neighbour, and it may be told."""
        if now < session.word_at or not self._settings.rules.words:
            return ()
        me, worded, news = self.core.me, session.worded, []
        for hop in self.core.orderer.word():
            sender, counter = hop & ORIGIN_MASK, hop >> ORIGIN_BITS
            if sender != me and counter > worded.get(sender, 0):
                worded[sender] = counter
                news.append(hop)
        if news:
            session.word_at = now + self._settings.word_us // 2
        return tuple(news)

    def say_words(self, now: int) -> None:
        """To those that were told nothing of late, if it is time."""
        if now < self.word_at:
            return
        self.word_at, self._worded = NEVER, self.core.orderer.delivered
        for peer, session in self.sessions.items():
            if not session.greeted:
                continue
            if now < session.word_at + self._settings.word_us:
                self._news(now)  # something may take it along until then
            elif word := self._word(session, now):
                self.post(peer, ZoneWord(word))

    # How it is

    @property
    def exposed(self) -> bool:
        """If this process were gone for good now, others could wait for a hop that no other process has."""
        core = self.core
        return any(
            counter < self._left(peer, stream)
            for peer, stream in core.streams.items()
            if peer not in core.closed
            for counter, peers in core.lonely.items()
            if peer not in peers
        )

    def _left(self, peer: int, stream: Stream) -> int:
        """The greatest counter of a hop that has left for a neighbour, or may have before the start."""
        let = self._let.get(peer)
        return stream.newest_hop if let is None else max(let, stream.reached)

    @property
    def drained(self) -> bool:
        """Do all neighbours that are linked have what was for them?"""
        return all(not self.core.streams[peer].items for peer, one in self.sessions.items() if one.greeted)
