"""A durable replica that is tried (disk full, crashes, collection, small inbox) beside one that is not.

Both get the same: messages of two peers, phantoms, and a client that sends and takes. Whatever happens to the
tried one, it must come out as if nothing had: the same contexts, the same deliveries in the same order, the
same announcements, the same tags. What it forgot it is told again, as links that begin anew do.
"""

from collections import deque
from random import Random

from support.conformance_replica import Rows
from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK
from thence.core.errors import StorageError
from thence.core.machine import Phantom
from thence.core.message import Message
from thence.oplog.log import OpLog
from thence.oplog.policy import Sync
from thence.oplog.record import Stored, Taken
from thence.oplog.settings import Settings
from thence.order.engine import Tagger
from thence.order.engines import ENGINES
from thence.replica.durable import DurableReplica
from thence.sim.disk import Disk
from thence.spread.mesh import Mesh
from thence.trace.recorder import DELIVER, SEND, STABLE

SIZE = 3


class Node:
    """Member 0 with its disk, its log and its application, and what came in that is not in the log."""

    def __init__(
        self, make: type[DurableReplica], order: str, *, inbox_max: int = 4096, segment_bytes: int = 1 << 20
    ) -> None:
        self._make = make
        self._engine = ENGINES[order]
        self._settings = Settings(sync="always", segment_bytes=segment_bytes, spacing=3)
        self._inbox_max = inbox_max
        self.disk = Disk(Random(1))
        self.rows = Rows()
        self.position = 0
        """What the application has taken; it keeps that itself."""
        self.waits: list[Message] = []
        """What arrived and may have to come again."""
        self.sent_after: list[int] = []
        """Of each own message: the position that the application had come to when it sent it."""
        self.start()

    def start(self) -> None:
        self.log = OpLog.open(self.disk, self._settings, 0, power_lost=True)
        self.log.boot(1, b"m", 0)
        for me in range(SIZE):
            self.log.member(f"n{me}")
        self.log.sync(0)
        self.node = self._make(
            0, SIZE, self._engine, Mesh(0, SIZE), self.rows, self.log, self.position, 0, True, self._inbox_max
        )

    # Steps; a disk that fails is made well and the step repeated, as after a roll back

    def publish(self, payload: bytes, now: int) -> Message:
        while True:
            try:
                published = self.node.publish([payload], now)
            except StorageError:
                self._trouble(now)
                continue
            self.sent_after.append(self.position)
            self._sync(published.log_effects, now)
            self.commit(now)
            return published.delivered[0].message

    def receive(self, message: Message, now: int) -> None:
        self.waits.append(message)
        self.node.receive(message.dot & ORIGIN_MASK, message, now)
        self.commit(now)

    def take(self, count: int, now: int) -> None:
        for _ in range(count):
            if self.node.inbox:
                self.node.take(now)
                self.position = self.node.taken
        self.commit(now)

    def hear(self, peer: int, context: tuple[int, ...], now: int) -> None:
        self.node.receive(peer, Phantom(context, asks=False), now)
        self.node.wake(now)
        self.commit(now)

    def commit(self, now: int) -> None:
        while True:
            try:
                self._sync(self.node.commit(now), now)
            except StorageError:
                self._trouble(now)
                continue
            self.waits = [
                m for m in self.waits if m.dot >> ORIGIN_BITS > self.log.vector[m.dot & ORIGIN_MASK]
            ]
            return

    def _sync(self, effects: object, now: int) -> None:
        assert isinstance(effects, list)
        for effect in effects:
            if isinstance(effect, Sync):
                self.disk.sync(effect.file)
                self.log.synced(effect, now)

    def _trouble(self, now: int) -> None:
        self.disk.capacity = None
        self.disk.heal()
        self.node.roll_back(now)
        self.node.resume(now)
        self._again(now)

    def _again(self, now: int) -> None:
        for message in self.waits:
            self.node.receive(message.dot & ORIGIN_MASK, message, now)

    def crash(self, now: int, power: bool) -> None:
        if power:
            self.disk.crash(holes=True)
        self.start()
        self.node.restart(now)
        self._again(now)
        self.commit(now)

    # What can be seen of it

    def context(self) -> tuple[int, ...]:
        return self.node._tagger.context()

    def untaken(self) -> list[int]:
        """What the application will get, in memory or not."""
        after = max(self.position, self.log.head)
        return [stored.dot for stored in self.log.since(after) if stored.dot & ORIGIN_MASK]

    def marks(self) -> list[int]:
        """Of each own message in the log: up to where it says that the application had come before."""
        found, taken = [], 0
        for _, record in self.log.records(self.log.head):
            if isinstance(record, Taken):
                taken = record.upto
            elif isinstance(record, Stored) and not record.dot & ORIGIN_MASK:
                found.append(taken)
        return found


class Peers:
    """Members 1 and 2: what they send, and what they have seen."""

    def __init__(self, order: str, rng: Random) -> None:
        self._rng = rng
        self._taggers: dict[int, Tagger] = {peer: ENGINES[order].tagger(peer, SIZE) for peer in (1, 2)}
        self._unseen: dict[int, deque[Message]] = {1: deque(), 2: deque()}
        self.under_way: list[Message] = []

    def sent(self, message: Message) -> None:
        """By member 0."""
        for unseen in self._unseen.values():
            unseen.append(message)

    def see(self, peer: int, count: int) -> None:
        unseen = self._unseen[peer]
        for _ in range(min(count, len(unseen))):
            self._taggers[peer].took(unseen.popleft())

    def send(self, peer: int) -> None:
        message = self._taggers[peer].tag(bytes(self._rng.choice((0, 20, 90))))
        self.under_way.append(message)
        self._unseen[3 - peer].append(message)

    def context(self, peer: int) -> tuple[int, ...]:
        return self._taggers[peer].context()

    def arrive(self) -> Message | None:
        """The next of one of them: in its order, not in that of both."""
        if not self.under_way:
            return None
        peer = self._rng.choice(self.under_way).dot & ORIGIN_MASK
        message = next(m for m in self.under_way if m.dot & ORIGIN_MASK == peer)
        self.under_way.remove(message)
        return message


class Twins:
    """A schedule drawn from a seed, on both."""

    def __init__(self, make: type[DurableReplica], order: str, seed: int) -> None:
        self.rng = rng = Random(f"{seed}/{order}")
        self.plain = Node(make, order)
        self.tried = Node(make, order, inbox_max=rng.choice((1, 3, 4096)), segment_bytes=400)
        self.peers = Peers(order, rng)
        self.now = 0
        self.collected = 0
        self.failures = rng.random() < 0.7
        self.crashes = rng.random() < 0.7

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.now += 10_000
            if self.failures and self.rng.random() < 0.15:
                self._let_it_fail()
            if self.rng.random() < 0.1:
                self.collected += self.tried.node.collect(self.now).segments
            if self.crashes and self.rng.random() < 0.04:
                self.tried.disk.capacity = None
                self.tried.disk.heal()
                self.tried.crash(self.now, power=self.rng.random() < 0.5)
            self._step()
            self.compare()
        self._finish()

    def _let_it_fail(self) -> None:
        disk = self.tried.disk
        if self.rng.random() < 0.5:
            disk.capacity = sum(map(disk.size, disk.names())) + self.rng.choice((0, 30, 60))
        else:
            disk.fail("write", self.rng.choice((0, 0, 1)))

    def _step(self) -> None:
        rng, now, nodes = self.rng, self.now, (self.plain, self.tried)
        dice = rng.random()
        if dice < 0.25:
            payload = bytes(rng.choice((0, 20, 90)))
            one, other = (node.publish(payload, now) for node in nodes)
            assert one.dot == other.dot, "dot: not the next one"
            assert one.context == other.context, "stamp: not what the client had seen"
            self.peers.sent(one)
        elif dice < 0.45:
            peer = rng.choice((1, 2))
            self.peers.see(peer, rng.randint(0, 4))
            self.peers.send(peer)
        elif dice < 0.7:
            message = self.peers.arrive()
            if message is not None:
                for node in nodes:
                    node.receive(message, now)
        elif dice < 0.9:
            count = rng.randint(1, 3)
            for node in nodes:
                node.take(count, now)
        else:
            peer = rng.choice((1, 2))
            self.peers.see(peer, rng.randint(0, 20))
            for node in nodes:
                node.hear(peer, self.peers.context(peer), now)

    def compare(self) -> None:
        plain, tried = self.plain, self.tried
        assert tried.log.vector == plain.log.vector, "lost: or more than there was"
        assert tried.context() == plain.context(), "stamp: the client has seen something else"
        assert tried.untaken() == plain.untaken(), "lost: or twice, of what waits for the client"
        assert bool(tried.node.inbox) == bool(plain.node.inbox), "held: what is in the log is not offered"
        assert tried.node.waiting == plain.node.waiting, "held: other messages"
        assert len(tried.node.inbox) <= max(1, tried._inbox_max), "memory: more than fits the inbox"
        for kind in (SEND, DELIVER):
            assert tried.rows.of(kind) == plain.rows.of(kind), "trace: not what the client saw"

    def _finish(self) -> None:
        """Everything arrives, is taken and told: then both know the same about stability as well."""
        self.tried.disk.capacity = None
        self.tried.disk.heal()
        nodes = (self.plain, self.tried)
        while (message := self.peers.arrive()) is not None:
            for node in nodes:
                node.receive(message, self.now)
        for node in nodes:
            node.take(10_000, self.now)
            assert not node.untaken(), "lost: the client cannot get at it"
        self.compare()
        for peer in (1, 2):
            self.peers.see(peer, 10_000)
        for _ in range(2):
            for peer in (1, 2):
                for node in nodes:
                    node.hear(peer, self.peers.context(peer), self.now)
        stable = [sorted(dot for _, dot in node.rows.of(STABLE)) for node in nodes]
        assert len(stable[1]) == len(set(stable[1])), "twice: announced as stable"
        assert stable[1] == stable[0], "stable: not the same"
        assert self.tried.node.unstable == 0, "stable: something is left"
        assert self.tried.log.stable == self.plain.log.stable, "stable: not written down"
        self._compare_marks()

    def _compare_marks(self) -> None:
        """The mark that counts for the first own messages may have been collected with what it covers."""
        marks, head = self.tried.marks(), self.tried.log.head
        sent_after = self.tried.sent_after[len(self.tried.sent_after) - len(marks) :]
        for mark, after in zip(marks, sent_after, strict=True):
            assert mark == after or (mark == 0 and after <= head), "marks: not as it happened"
