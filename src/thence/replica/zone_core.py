"""What a process of a topology is, as a function of what happened to it, in order.

It is built anew after a restart by letting the same things happen again (`zone_journal`). So nothing here may
depend on anything else: not on time, on links, nor on what others have by now. What is for a neighbour is
numbered in the order in which it came about, which is therefore the same each time.

State. `orderer`, `tagger`: rules and chains (`order.separator`). `inbox`: what the program may take, in
messages, and `waiting` in operations: those that a program sends to the same processes in one turn are one
message, a run (`core.runs`).
`streams`: by neighbour, the items for it, of which those that it has may be forgotten, and how many came from
it. `closed`: neighbours that the others go on without; `told`: by neighbour, what it said that it has closed,
after it had passed on what it had of them. `flushed`: closed ones of which everything is here that anywhere
is.

Invariant. A process is flushed only if each neighbour that lives and is a neighbour of both has told that it
has closed that one, and every other closed process of its own neighbourhood: it will pass on nothing more.
"""

from collections import deque
from collections.abc import Container, Iterable, Sequence
from typing import Final, NamedTuple

from thence.core.codec import Codec
from thence.core.dots import ORIGIN_MASK
from thence.core.errors import PeerError
from thence.core.machine import Forward, OrderEffect
from thence.core.message import Message
from thence.core.runs import payload_run, run_payload
from thence.core.varint import Reader, put
from thence.core.zones import CLOSED, HOP, PASSED
from thence.order.history import CausalHistory, KeptHistory, Rules
from thence.order.hops import COUNTER, read
from thence.order.separator import GatewayOrderer, KeptOrder, SeparatorOrderer, SeparatorTagger
from thence.order.topology import Topology


class Item(NamedTuple):
    """One that came, taken apart and checked."""

    kind: int
    message: Message | None = None
    closed: tuple[int, ...] = ()


class Stream:
    """Items for one neighbour, by number from 1 on; and how many came from it."""

    __slots__ = ("base", "bytes", "have", "items", "reached", "sent")

    def __init__(self) -> None:
        self.items: dict[int, tuple[int, bytes]] = {}
        """With the counter of the hop; 0: it is none."""
        self.sent = self.base = self.have = 0
        """`base`: so many the neighbour has."""
        self.reached = 0
        """The greatest counter of a hop that it has."""
        self.bytes = 0
        """Of the items that wait for it."""

    def add(self, counter: int, data: bytes) -> None:
        self.sent += 1
        self.bytes += len(data)
        self.items[self.sent] = counter, data

    def acked(self, have: int) -> list[int]:
        """The neighbour has so many: the counters of hops that it was not known to have."""
        had = [self.items.pop(number) for number in range(self.base + 1, have + 1)]
        fresh = [counter for counter, _ in had]
        self.bytes -= sum([len(data) for _, data in had])
        self.base = max(self.base, have)
        self.reached = max(self.reached, *fresh, 0)
        return fresh

    @property
    def newest_hop(self) -> int:
        """The greatest counter of a hop that is for the neighbour."""
        return max([self.reached, *[counter for counter, _ in self.items.values()]])

    @property
    def oldest_hop(self) -> int:
        """The least counter of a hop that the neighbour may lack; 0: it has all."""
        return next((counter for counter, _ in self.items.values() if counter), 0)


class KeptStream(NamedTuple):
    base: int
    have: int
    items: list[tuple[int, bytes]]
    reached: int = 0


class KeptCore(NamedTuple):
    """All of it, to be written down. Messages stand for their hops."""

    sent: int
    history: KeptHistory
    order: KeptOrder
    inbox: list[Message]
    streams: dict[int, KeptStream]
    closed: list[int]
    told: dict[int, list[int]]
    flushed: list[int]
    retained: dict[int, list[Message]]
    lonely: dict[int, list[int]]


class ZoneCore:
    __slots__ = (
        "_codec", "_topology", "closed", "flushed", "history", "inbox", "lonely", "me", "near", "orderer",
        "retained", "streams", "tagger", "told", "waiting",
    )  # fmt: skip

    def __init__(self, me: int, topology: Topology, rules: Rules, codec: Codec) -> None:
        self.me: Final = me
        self._topology: Final = topology
        self._codec: Final = codec
        gateway = topology.is_gateway(me)
        self.tagger: Final = SeparatorTagger(me, topology, rules)
        kind = GatewayOrderer if gateway else SeparatorOrderer
        self.orderer: Final = kind(me, topology, rules)
        self.history: Final[CausalHistory] = (
            self.orderer.history if isinstance(self.orderer, GatewayOrderer) else self.tagger.history
        )
        self.near: Final = tuple(sorted(topology.neighbours(me)))
        self.streams: Final = {peer: Stream() for peer in self.near}
        self.inbox: Final = deque[Message]()
        self.waiting = 0
        self.closed: Final[dict[int, None]] = {}
        self.told: Final[dict[int, set[int]]] = {peer: set() for peer in self.near}
        self.flushed: Final[dict[int, None]] = {}
        self.retained: Final[dict[int, dict[int, Message]]] = {}
        """By neighbour, its hops that some addressee may lack. Only `passes` depends on what is here."""
        self.lonely: Final[dict[int, set[int]]] = {}
        """By counter, addressees of hops of this process that no other one is known to have."""

    def shared(self, peer: int) -> list[int]:
        """Neighbours of this process and of another one."""
        theirs = set(self._topology.neighbours(peer))
        return [each for each in self.near if each in theirs]

    @property
    def active(self) -> bool:
        """Does this process forward what crosses its separator?"""
        return isinstance(self.orderer, GatewayOrderer) and self.orderer.active

    @property
    def forwards(self) -> int:
        """How many messages wait for that, here or at the active member."""
        return len(self.orderer.todo) if isinstance(self.orderer, GatewayOrderer) else 0

    # Items as bytes

    def parse(self, peer: int, data: bytes) -> Item:
        """`PeerError` if no correct neighbour says this; nothing changes."""
        if not data or data[0] not in (HOP, PASSED, CLOSED):
            raise PeerError("an item of no known kind")
        if data[0] == CLOSED:
            reader = Reader(data, 1, len(data))
            closed = tuple([reader.take() for _ in range(reader.take())])
            if reader.at != reader.end or not all(each == self.me or each in self.near for each in closed):
                raise PeerError("an item that closes a process which is not near")
            return Item(CLOSED, closed=closed)
        message = self._codec.decode(data[1:])
        if not isinstance(message, Message):
            raise PeerError("an item that is no message")
        if message.span > 1 and len(payload_run(message.payload)) != message.span:
            raise PeerError(f"a run that does not hold {message.span} operations")
        self.orderer.check(message)
        sender = read(self._topology, message).sender
        if sender not in self.near or (sender == peer) is not (data[0] == HOP):
            raise PeerError(f"a hop of process {sender} comes from process {peer}")
        return Item(data[0], message)

    # What happens to it

    def submit(self, payloads: Sequence[bytes], dest: tuple[int, ...]) -> Message:
        """`UsageError` if they cannot be addressed like that."""
        payload = payloads[0] if len(payloads) == 1 else run_payload(payloads)
        message = self.tagger.tag(payload, dest, len(payloads))
        self.orderer.sent(message, 0)
        self._send(read(self._topology, message).address, message)
        return message

    def came(self, peer: int, item: Item) -> None:
        """The next item of a neighbour."""
        self.streams[peer].have += 1
        if item.message is None:
            self.told[peer].update(item.closed)
            self._flush()
            return
        hop = read(self._topology, item.message)
        self.retained.setdefault(hop.sender, {})[item.message.context[COUNTER]] = item.message
        self._release(self.orderer.receive(item.message, hop.sender, 0))

    def heard(self, peer: int, hops: Iterable[int]) -> None:
        """R11."""
        self.history.heard(peer, hops)

    def took(self) -> Message:
        """The program takes the next message."""
        message = self.inbox.popleft()
        self.waiting -= message.span
        self.tagger.took(message)
        return message

    def passes(self) -> list[tuple[int, bytes]]:
        """What came of closed ones that an addressee may lack, and the addressees that it is passed on to."""
        found = []
        for sender in sorted(self.retained.keys() & self.closed.keys()):
            for _, message in sorted(self.retained[sender].items()):
                data = bytes((PASSED,)) + self._codec.encode(message)
                address = sorted(read(self._topology, message).address)
                found += [(peer, data) for peer in address if peer in self.streams]
        return found

    def close(self, who: int) -> None:
        """The others go on without this neighbour. Nothing that it says is heard from here on."""
        self.closed[who] = None
        stream = self.streams[who]
        stream.items.clear()
        stream.bytes, stream.base = 0, stream.sent
        self.history.lose(who)
        for counter in [counter for counter, peers in self.lonely.items() if who in peers]:
            self.lonely[counter].discard(who)
            if not self.lonely[counter]:
                del self.lonely[counter]

    def tell(self, passes: Iterable[tuple[int, bytes]]) -> None:
        """Pass these on, and say that it was closed."""
        for peer, data in passes:
            if peer not in self.closed:
                self.streams[peer].add(0, data)
        for peer in self.near:
            theirs = [each for each in self.shared(peer) if each in self.closed]
            if theirs and peer not in self.closed:
                out = bytearray((CLOSED,))
                put(out, len(theirs))
                for each in theirs:
                    put(out, each)
                self.streams[peer].add(0, bytes(out))
        self._flush()

    def _flush(self) -> None:
        """Is everything here by now that anywhere is of a closed process?"""
        for who in self.closed:
            if who in self.flushed:
                continue
            living = [peer for peer in self.shared(who) if peer not in self.closed]
            if all(
                self.told[peer].issuperset(self.closed.keys() & set(self.shared(peer))) for peer in living
            ):
                self.flushed[who] = None
                self._release(self.orderer.lost(who, self.orderer.last(who)))

    # Ways

    def _release(self, released: list[OrderEffect]) -> None:
        for effect in released:
            if isinstance(effect, Forward):
                self._send(effect.peers, effect.message)
            elif isinstance(effect, Message):
                self.inbox.append(effect)
                self.waiting += effect.span

    def _send(self, peers: Iterable[int], message: Message) -> None:
        data = bytes((HOP,)) + self._codec.encode(message)
        living = [peer for peer in sorted(peers) if peer not in self.closed]
        for peer in living:
            self.streams[peer].add(message.context[COUNTER], data)
        if living:
            self.lonely[message.context[COUNTER]] = set(living)

    def acked(self, peer: int, have: int) -> None:
        """A neighbour has so many items in its log. `PeerError`: there are not so many."""
        stream = self.streams[peer]
        if have > stream.sent:
            raise PeerError(f"item {have} of {stream.sent} is said to be there")
        for counter in stream.acked(have):
            self.lonely.pop(counter, None)

    def before(self, peer: int, able: Container[int]) -> int | None:
        """The first hop that another process must have before later ones may go to this neighbour: who has a
        later one waits for it, and if this process died it would be nowhere. `able`: neighbours that can be
        told at present; where none of a hop's addressees can, nothing waits for it."""
        for counter, peers in self.lonely.items():
            if peer not in peers and any(each in able for each in peers):
                return counter
        return None

    @property
    def floor(self) -> int:
        """Up to this one, all addressees have the hops that were sent here."""
        oldest = [hop for stream in self.streams.values() if (hop := stream.oldest_hop)]
        return min(oldest) - 1 if oldest else self.history.counter

    def settled(self, sender: int, floor: int) -> None:
        """All addressees have this neighbour's hops up to there."""
        hops = self.retained.get(sender, {})
        for counter in [counter for counter in hops if counter <= floor]:
            del hops[counter]

    # Over a restart

    def kept(self) -> KeptCore:
        streams = {
            peer: KeptStream(stream.base, stream.have, list(stream.items.values()), stream.reached)
            for peer, stream in self.streams.items()
        }
        return KeptCore(
            self.tagger.sent, self.tagger.history.kept(), self.orderer.kept(), list(self.inbox), streams,
            list(self.closed), {peer: sorted(told) for peer, told in self.told.items()}, list(self.flushed),
            {sender: list(hops.values()) for sender, hops in self.retained.items()},
            {counter: sorted(peers) for counter, peers in self.lonely.items()},
        )  # fmt: skip

    def restore(self, kept: KeptCore) -> None:
        self.tagger.restore(kept.sent, kept.history)
        self.orderer.restore(kept.order)
        self.inbox.extend(kept.inbox)
        self.waiting = sum([message.span for message in kept.inbox])
        for peer, told in kept.streams.items():
            stream = self.streams[peer]
            stream.base = stream.sent = told.base
            stream.have, stream.reached = told.have, told.reached
            for counter, data in told.items:
                stream.add(counter, data)
        self.closed.update(dict.fromkeys(kept.closed))
        self.flushed.update(dict.fromkeys(kept.flushed))
        for peer, closed in kept.told.items():
            self.told[peer].update(closed)
        self.lonely.update({counter: set(peers) for counter, peers in kept.lonely.items()})
        for sender, messages in kept.retained.items():
            self.retained[sender] = {message.context[COUNTER]: message for message in messages}


def origin_of(message: Message) -> int:
    return message.dot & ORIGIN_MASK


def operations_of(message: Message) -> list[bytes]:
    return [message.payload] if message.span == 1 else payload_run(message.payload)
