"""A node of an edge tree and its sessions: what all rules of docs/protocols/edge.md look at and change."""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from thence.core.edge import (
    EdgeBody,
    EdgeDown,
    EdgeItem,
    EdgeNames,
    EdgePacket,
    EdgePiece,
    EdgeReset,
    EdgeRun,
    EdgeState,
    EdgeStatus,
    EdgeUp,
)
from thence.core.edge_codec import pieces_of, whole_body
from thence.core.errors import PeerError
from thence.core.groups import process_of
from thence.core.machine import NEVER
from thence.core.runs import span_of_payload
from thence.spread.edge_book import EdgeBook, EdgeEntry, EdgeHost, EdgeSettings, Pair

BODIES_MAX: Final = 1024
"""In one packet, those in runs counted: a receiver has other things to do between two of them. A longer run
is alone in its packet."""

BODY_BYTES_MAX: Final = 64 << 20
"""Of one that comes in pieces: what a log can hold."""

NAMES_MAX: Final = 1 << 20
"""That a peer may give out indices for in a session."""


class EdgeStream:
    """One end of a session."""

    __slots__ = (
        "bodies", "flight", "flight_bytes", "got", "heard", "heard_names", "left", "names", "pieces", "rest",
        "sent", "session", "who",
    )  # fmt: skip

    def __init__(self, who: str, session: int, now: int) -> None:
        self.who: Final = who
        self.session: Final = session
        self.heard = now
        """When the other end last said something."""
        self.sent = self.got = 0
        """Packets."""
        self.bodies: list[EdgeBody] = []
        """What this step has for it."""
        self.rest: deque[Iterator[tuple[EdgeBody, ...]]] = deque()
        """Bodies of packets that a turn had no room for, in order."""
        self.flight: deque[int] = deque()
        """Of each item that the other end is not known to have, the bytes of its payload."""
        self.flight_bytes = self.left = 0
        self.pieces = bytearray()
        """Of a body that is under way to this end, of which so many bytes are `left`."""
        self.names: dict[str, int] = {}
        self.heard_names: list[str] = []

    @property
    def peer(self) -> str:
        return process_of(self.who)

    def has_room(self, settings: EdgeSettings) -> bool:
        """For one more item, however large."""
        return len(self.flight) < settings.window and self.flight_bytes < settings.window_bytes

    def flies(self, body: EdgeBody) -> None:
        """This item is the next."""
        self.bodies.append(body)
        size = payload_bytes(body)
        self.flight.append(size)
        self.flight_bytes += size

    def arrived(self, lacking: int) -> None:
        """The other end has all but so many of the last items."""
        while len(self.flight) > max(0, lacking):
            self.flight_bytes -= self.flight.popleft()

    def join(self, piece: EdgePiece) -> EdgeBody | None:
        """The body, if this is the last of it."""
        if len(self.pieces) + len(piece.data) + piece.left > BODY_BYTES_MAX:
            raise PeerError("a body that no log could hold")
        if not piece.data or (self.pieces and self.left != len(piece.data) + piece.left):
            raise PeerError("a piece that does not fit")
        self.pieces += piece.data
        self.left = piece.left
        if self.left:
            return None
        data, self.pieces = bytes(self.pieces), bytearray()
        return whole_body(data)

    def index(self, name: str, fresh: list[str]) -> int:
        """What stands for a name; if it is new, the name joins `fresh`."""
        if name not in self.names:
            self.names[name] = len(self.names)
            fresh.append(name)
        return self.names[name]

    def learn(self, names: Iterable[str]) -> None:
        self.heard_names += names
        if len(self.heard_names) > NAMES_MAX:
            raise PeerError(f"more than {NAMES_MAX} names in a session")

    def name(self, index: int) -> str:
        if index >= len(self.heard_names):
            raise PeerError(f"index {index} of {len(self.heard_names)} names")
        return self.heard_names[index]

    def spell(self, origin: str, group: str) -> tuple[int, int]:
        """Indices for an item that is the next body."""
        fresh: list[str] = []
        indices = self.index(origin, fresh), self.index(group, fresh)
        if fresh:
            self.bodies.append(EdgeNames(tuple(fresh)))
        return indices


class EdgeParent(EdgeStream):
    __slots__ = (
        "beaten", "cursor", "down", "downs", "downs_root", "news_bytes", "since", "sub", "told", "up",
        "ups", "ups_root",
    )  # fmt: skip

    def __init__(self, who: str, session: int, now: int, base: int, chain: int) -> None:
        super().__init__(who, session, now)
        self.since: Final = now
        self.cursor = base
        """What is before it has gone up, or came down."""
        self.up = self.down = 0
        """Items so far."""
        self.beaten = self.news_bytes = 0
        """How many of those that came the parent was told of, and the bytes of the others."""
        self.ups = (0, *[-1] * (chain - 1))
        self.downs = (0,) * chain
        self.ups_root = self.downs_root = -1
        self.sub: set[str] = set()
        """Groups that the parent sends."""
        self.told: set[int] = set()
        """Requests made."""


class EdgeChild(EdgeStream):
    __slots__ = (
        "acked", "attached", "chain", "cursor", "downs", "downs_cut", "filter", "flushed", "home",
        "items", "looked", "passed", "passed_first", "past", "place", "rank", "skip", "status", "status_due",
        "sync", "told_home", "told_places", "transfer", "trouble", "ups", "ups_cut", "wants",
    )  # fmt: skip

    def __init__(self, who: str, session: int, now: int, rank: int, wants: Iterable[str], end: int) -> None:
        super().__init__(who, session, now)
        self.rank: Final = rank
        self.wants: set[str] = set(wants)
        self.filter: dict[Pair, int] = {}
        """What it had when it attached, or has from a state."""
        self.cursor = self.skip = self.passed = self.passed_first = 0
        """What is before the cursor was dealt with; before `skip` lies what it did not get, and before
        `passed` as much of that as what was sent may follow from. `passed_first`: but for what came from the
        parent, which has all that it follows from."""
        self.past = end
        """Before this position lies all of this log that the child's next item may follow from: what came
        from it, and what it was sent."""
        self.attached: Final = end
        self.chain: tuple[str, ...] = ()
        """Announced, this node first."""
        self.sync = False
        """It waits for a full state, before anything else."""
        self.transfer = -1
        """The position of that state."""
        self.ups: list[int] = [end]
        """By item that came up: where the log ended after it."""
        self.downs: list[int] = []
        """By item that went down: behind which position."""
        self.ups_cut = self.downs_cut = 0
        """Items that are not in these lists any more."""
        self.items = self.acked = 0
        """Down, and how many of those it says it has."""
        self.status: EdgeStatus | None = None
        self.status_due = NEVER
        self.trouble = ""
        """Why it cannot have what it asked for: its next packet ends the session."""
        self.flushed = 0
        """Items that were in packets."""
        self.looked: tuple[object, ...] = ()
        """What it was when it was last looked whether there is news for it."""
        self.place = self.home = ""
        """Where it is reached, and the process that it was told to be below."""
        self.told_home = ""
        self.told_places: dict[str, str] = {}


class EdgeTree:
    __slots__ = (
        "alone", "asked", "asked_at", "behind", "book", "candidates", "children", "contacts", "copies",
        "desperate_at", "foreign", "full_at", "full_request", "guests", "home", "homing", "invited",
        "joins", "linger", "linked", "lost_at", "makes", "next_beat", "now", "outbox", "parent", "past",
        "patience_at", "pending", "place", "probe_at", "retry_at", "rooted_st", "settings", "shrunk",
        "st", "target", "tried", "waits_until", "wanted",
    )  # fmt: skip

    def __init__(self, book: EdgeBook, settings: EdgeSettings, contacts: tuple[str, ...], now: int) -> None:
        """`contacts`: processes that a node which was never attached may attach to, best first; it moves back
        under the first of them when it can."""
        self.book: Final = book
        self.settings: Final = settings
        self.contacts = contacts
        self.home = contacts[0] if contacts else ""
        self.place = ""
        """Where this process is reached."""
        self.foreign = ""
        """The root of another tree that was met, if so."""
        self.homing = ""
        """The node that it would move under."""
        self.now = now
        self.outbox: list[tuple[str, EdgePacket]] = []
        self.linked: set[str] = set()
        """Processes with a link to this one."""
        self.wanted: set[str] = set()
        """Processes that it needs a link to."""
        self.parent: EdgeParent | None = None
        self.children: dict[str, EdgeChild] = {}
        self.copies = self.alone = 0
        """Items that went down, and packets down without one: what they have is a status, but for names and
        places now and then."""
        self.st: list[int] = [book.base] * len(book.chain)
        """`st[k]`: entries before this position are known at the first k + 1 nodes of the chain."""
        self.rooted_st = book.base
        self.past = book.end
        """Before this position lies all of this log that the program may have been told of."""
        self.pending: dict[int, tuple[str, int, int, tuple[str, ...], bool]] = {}
        """By own request: the child, its session, its request, groups, whether it is for everything."""
        self.makes: list[EdgeEntry] = []
        """States that are still to be made, in the order in which they were asked for."""
        self.joins: dict[int, str] = {}
        self.asked_at: dict[int, int] = {}
        """By own request: when it was made. For metrics."""
        self.full_request = 0
        self.full_at = 0
        self.linger: dict[str, int] = {}
        self.shrunk = False
        self.behind = ""
        """Others have messages of this node that its log lacks, in words: it must not go on counting."""
        # Seeking a parent
        self.lost_at = now
        self.candidates: list[str] = []
        self.target: tuple[str, int, int] | None = None
        """An identity (or a contact), the session asked for, and until when its answer is waited for."""
        self.asked: tuple[str, ...] = ()
        """Groups in the last attachment."""
        self.tried: set[str] = set()
        self.probe_at = self.retry_at = self.patience_at = self.desperate_at = NEVER
        # Moving
        self.guests: dict[str, int] = {}
        """Processes that this node invites, with the session's number."""
        self.invited = ""
        """The node that it waits to be invited by."""
        self.waits_until = NEVER
        self.next_beat = now

    @property
    def host(self) -> EdgeHost:
        return self.book.host

    def stable(self, level: int) -> int:
        """Before this position everything is known at the first `level` nodes of the chain."""
        return self.book.end if level == 0 or self.book.root else self.st[level - 1]

    @property
    def at_root(self) -> int:
        return self.book.end if self.book.root else self.rooted_st

    def post(self, peer: str, packet: EdgePacket) -> None:
        self.outbox.append((peer, packet))

    def reset(self, peer: str, session: int, up: bool) -> None:
        self.post(peer, EdgeReset(session, up))

    def flush(self) -> None:
        """Each session's bodies as a packet."""
        if self.parent is not None and (self.parent.bodies or self.parent.rest):
            self._packet(self.parent, EdgeUp)
        for child in self.children.values():
            if child.bodies:
                self.copies += child.items - child.flushed
                self.alone += child.items == child.flushed
                child.flushed = child.items
            if child.bodies or child.rest:
                self._packet(child, EdgeDown)

    def _packet(self, stream: EdgeStream, kind: type[EdgeUp] | type[EdgeDown]) -> None:
        """What is for it, in as many packets as it takes, and as a turn has room for."""
        if stream.bodies:
            stream.rest.append(self._cut(stream.bodies))
            stream.bodies = []
        left = self.settings.turn_bytes
        while stream.rest and left > 0:
            some = next(stream.rest[0], None)
            if some is None:
                stream.rest.popleft()
                continue
            stream.sent += 1
            left -= sum(map(payload_bytes, some))
            self.post(stream.peer, kind(stream.session, stream.sent, some))

    def _cut(self, bodies: list[EdgeBody]) -> Iterator[tuple[EdgeBody, ...]]:
        """One that is too large for a packet is alone, and in pieces."""
        most = self.settings.packet_bytes
        for some in in_packets(bodies, most):
            if len(some) == 1 and payload_bytes(some[0]) > most:
                for piece in pieces_of(some[0], most):
                    yield (piece,)
            else:
                yield some

    @property
    def is_busy(self) -> bool:
        """Has the next turn something to go on with?"""
        if self.makes or (self.parent is not None and self.parent.rest):
            return True
        return any(child.rest for child in self.children.values())

    def want(self) -> set[str]:
        """Groups that must come here."""
        wanted = {*self.book.groups, *self.linger}
        for child in self.children.values():
            wanted |= child.wants
        for _, _, _, groups, _ in self.pending.values():
            wanted.update(groups)
        return wanted


def in_packets(bodies: list[EdgeBody], most: int) -> Iterator[tuple[EdgeBody, ...]]:
    """What a frame of a link can carry at once: in order, cut where the payloads come to too much."""
    if len(bodies) == 1:
        yield (bodies[0],)
        return
    begin = size = count = 0
    for at, body in enumerate(bodies):
        bytes_of, span = payload_bytes(body), span_of(body)
        if at > begin and (size + bytes_of > most or count + span > BODIES_MAX):
            yield tuple(bodies[begin:at])
            begin, size, count = at, 0, 0
        size += bytes_of
        count += span
    yield tuple(bodies[begin:])


def span_of(body: EdgeBody) -> int:
    """How many messages it is, or one."""
    return span_of_payload(body.payload) if isinstance(body, EdgeRun) else 1


def payload_bytes(body: EdgeBody) -> int:
    if isinstance(body, EdgeItem | EdgeRun):
        return len(body.payload)
    if isinstance(body, EdgePiece):
        return len(body.data)
    return sum(map(len, body.states)) if isinstance(body, EdgeState) else 0
