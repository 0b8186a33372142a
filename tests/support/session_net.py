"""Meshes over links that deliver in order until they break, and a dumb twin that looks at every packet.

The twin knows nothing of how a mesh works. Per pair it counts what left, what was acknowledged and what the
other end was handed, and says at the first packet that should not have been: `gap`, `twice`, `window`,
`bytes`, `ack`, `unlinked`, `rude` (before the greeting), `lost` (at the end).
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from random import Random

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK, pack
from thence.core.machine import Ack, Forget, Packet, SpreadEffect, Transmit, Wake
from thence.core.message import Message
from thence.spread.sessions import OVERHEAD, SessionMesh, SessionSettings

Make = Callable[..., SessionMesh]
Pair = tuple[int, int]


class Ledger:
    """A history that is a list; counts what is read from it."""

    def __init__(self, size: int) -> None:
        self.counters = [0] * size
        self.messages: list[Message] = []
        self.floor = [0] * size
        """Up to there it was collected."""
        self.read = 0

    @property
    def vector(self) -> tuple[int, ...]:
        return tuple(self.counters)

    def append(self, message: Message) -> None:
        self.messages.append(message)
        self.counters[message.dot & ORIGIN_MASK] = message.dot >> ORIGIN_BITS

    def lose(self, count: int) -> None:
        """The newest so many were not on the disk yet."""
        kept = self.messages[: max(0, len(self.messages) - count)]
        self.messages = []
        self.counters = [0] * len(self.counters)
        for message in kept:
            self.append(message)

    def reaches(self, vector: Sequence[int]) -> bool:
        return all(have >= floor for have, floor in zip(vector, self.floor, strict=True))

    def missing(self, vector: Sequence[int]) -> Iterator[Message]:
        assert self.reaches(vector), "reach: asked for what was collected"
        for message in list(self.messages):
            if message.dot >> ORIGIN_BITS > vector[message.dot & ORIGIN_MASK]:
                self.read += 1
                yield message


class End:
    """One end of a link, as the twin sees it: what this node sends to that peer."""

    def __init__(self) -> None:
        self.acked: int | None = None
        """None: the peer's greeting has not come."""
        self.sent: deque[tuple[int, int]] = deque()
        """Unacknowledged: counter and bytes."""

    def sending(self, seq: int, size: int, settings: SessionSettings) -> None:
        assert self.acked is not None, "rude: a message before the peer has said what it has"
        last = self.sent[-1][0] if self.sent else self.acked
        assert seq == last + 1, f"gap: message {seq} after {last}"
        assert len(self.sent) < settings.window, "window: too many messages under way"
        assert sum([one for _, one in self.sent]) < settings.window_bytes, "bytes: too many under way"
        self.sent.append((seq, size))

    def acknowledged(self, count: int) -> None:
        self.acked = count
        while self.sent and self.sent[0][0] <= count:
            self.sent.popleft()


class Net:
    """A group of meshes. Nothing happens by itself: whoever drives it says what is next."""

    def __init__(self, make: Make, size: int, settings: SessionSettings, seed: int = 0) -> None:
        self.rng = Random(seed)
        self.make = make
        self.size = size
        self.settings = settings
        self.now = 0
        self.ledgers = [Ledger(size) for _ in range(size)]
        self.meshes = [make(me, size, self.ledgers[me], settings) for me in range(size)]
        for me in range(size):
            self.meshes[me].recall((0,) * size, (), 0)
        self.handed = [[0] * size for _ in range(size)]
        """By receiver and origin: up to where messages were handed up."""
        self.unkept: list[list[Message]] = [[] for _ in range(size)]
        self.ends: dict[Pair, End] = {}
        """Of node and peer: the link that this end believes in."""
        self.wire: dict[Pair, deque[Packet]] = {}
        """Of sender and receiver: what is under way over a link that is not broken."""
        self.wakes: list[list[int]] = [[] for _ in range(size)]
        self._sent = 0
        self.transmitted: list[tuple[int, int, Packet]] = []
        """Everything that ever left: from, to, what."""

    @property
    def pairs(self) -> list[Pair]:
        return [(one, other) for one in range(self.size) for other in range(one + 1, self.size)]

    # What nodes do

    def may_send(self, me: int) -> bool:
        """A node that may have forgotten what it sent waits until it has it all back."""
        return not self.meshes[me].recovering and not any(m.dot & ORIGIN_MASK == me for m in self.unkept[me])

    def broadcast(self, me: int, payload: bytes = b"") -> Message:
        self._sent += 1  # no two messages are alike, whatever their dots
        context = (self._sent,)
        message = Message(pack(me, self.ledgers[me].counters[me] + 1), context, payload)
        self.ledgers[me].append(message)
        self.handed[me][me] = message.dot >> ORIGIN_BITS
        self._carry_out(me, self.meshes[me].broadcast(message, self.now))
        return message

    def keep(self, me: int, which: int = 0) -> None:
        """Write down the first unkept message of the origin of this one."""
        origin = self.unkept[me][which].dot & ORIGIN_MASK
        message = next(one for one in self.unkept[me] if one.dot & ORIGIN_MASK == origin)
        self.unkept[me].remove(message)
        self.ledgers[me].append(message)
        self._carry_out(me, self.meshes[me].keep(message.dot, self.now))

    def wake(self, me: int) -> None:
        self.now = max(self.now, min(self.wakes[me]))
        self.wakes[me].remove(min(self.wakes[me]))
        self._carry_out(me, self.meshes[me].wake(self.now))

    def crash(self, me: int, loses: int | None = None) -> None:
        """It comes back with what is in its ledger, and nobody has noticed yet. With `loses`, its machine
        went down and so much of that is gone: it knows, and does not forget that until it has it all back."""
        recovering = loses is not None or not self.may_send(me)
        for peer in range(self.size):
            self.ends.pop((me, peer), None)
            self.snap(me, peer)
        if loses is not None:
            self.ledgers[me].lose(loses)
        self.unkept[me].clear()
        self.handed[me] = list(self.ledgers[me].vector)
        self.wakes[me].clear()
        self.meshes[me] = self.make(me, self.size, self.ledgers[me], self.settings, recovering)
        self.meshes[me].recall(self.ledgers[me].vector, (), self.now)
        self._carry_out(me, self.meshes[me].resume(self.now))

    # What links do

    def connect(self, one: int, other: int) -> None:
        """Both ends are up."""
        for node, peer in ((one, other), (other, one)):
            self.ends[node, peer] = End()
            self.wire[node, peer] = deque()
        for node, peer in ((one, other), (other, one)):
            self._carry_out(node, self.meshes[node].up(peer, self.now))

    def deliver(self, sender: int, receiver: int) -> Packet:
        """The next packet of this link arrives."""
        packet = self.wire[sender, receiver].popleft()
        if isinstance(packet, Ack):
            self.ends[receiver, sender].acknowledged(packet.received[receiver])
        self._carry_out(receiver, self.meshes[receiver].receive(sender, packet, self.now))
        return packet

    def snap(self, one: int, other: int) -> None:
        """The link is broken: what is under way is lost. Neither end knows yet."""
        self.wire.pop((one, other), None)
        self.wire.pop((other, one), None)

    def down(self, node: int, peer: int) -> None:
        """This end notices."""
        del self.ends[node, peer]
        self._carry_out(node, self.meshes[node].down(peer, self.now))

    def break_link(self, one: int, other: int) -> None:
        self.snap(one, other)
        self.down(one, other)
        self.down(other, one)

    # To the end

    def settle(self, keep: bool = True) -> None:
        """Until nothing is left to happen over the links that there are."""
        for _ in range(100_000):
            flowing = [pair for pair, packets in self.wire.items() if packets]
            if flowing:
                self.deliver(*self.rng.choice(flowing))
            elif keep and any(self.unkept):
                self.keep(next(me for me in range(self.size) if self.unkept[me]))
            elif any(self.wakes):
                self.wake(min((min(wakes), me) for me, wakes in enumerate(self.wakes) if wakes)[1])
            else:
                return
        raise AssertionError("silence: never comes to rest")

    def check_everyone_has_everything(self) -> None:
        for me in range(self.size):
            for origin in range(self.size):
                sent = self.ledgers[origin].counters[origin]
                assert self.ledgers[me].counters[origin] == sent, f"lost: {me} lacks messages of {origin}"
            assert self.meshes[me].drained, f"rest: {me} is not drained"
            assert not self.meshes[me].recovering, f"rest: {me} still waits for what it forgot"
        known: dict[int, Message] = {}
        for ledger in self.ledgers:
            for message in ledger.messages:
                other = known.setdefault(message.dot, message)
                assert other.context == message.context, "dot: two messages bear the same"

    def _carry_out(self, me: int, effects: Sequence[SpreadEffect]) -> None:
        for effect in effects:
            if isinstance(effect, Message):
                self._handed(me, effect)
            elif isinstance(effect, Wake):
                self.wakes[me].append(effect.at)
            elif isinstance(effect, Forget):
                self.unkept[me] = [m for m in self.unkept[me] if m.dot & ORIGIN_MASK != effect.origin]
                self.handed[me][effect.origin] = self.ledgers[me].counters[effect.origin]
            else:
                self._transmit(me, effect)

    def _handed(self, me: int, message: Message) -> None:
        origin, seq = message.dot & ORIGIN_MASK, message.dot >> ORIGIN_BITS
        assert seq > self.handed[me][origin], f"twice: message {seq} of {origin} at {me}"
        assert seq == self.handed[me][origin] + 1, f"gap: message {seq} of {origin} at {me}"
        self.handed[me][origin] = seq
        self.unkept[me].append(message)

    def _transmit(self, me: int, effect: Transmit) -> None:
        packet = effect.packet
        assert len(set(effect.peers)) == len(effect.peers), "twice: the same peer"
        for peer in effect.peers:
            end = self.ends.get((me, peer))
            assert end is not None, f"unlinked: {me} sends to {peer}"
            if isinstance(packet, Ack):
                assert packet.received == self.ledgers[me].vector, "ack: not what is kept"
            elif isinstance(packet, Message):
                if packet.dot & ORIGIN_MASK == me:
                    end.sending(packet.dot >> ORIGIN_BITS, len(packet.payload) + OVERHEAD, self.settings)
                else:
                    assert packet.dot & ORIGIN_MASK == peer, "gap: a message of somebody else"
            self.transmitted.append((me, peer, packet))
            if (me, peer) in self.wire:
                self.wire[me, peer].append(packet)
