"""A durable replica that is tried (disk full, crashes, collection, small inbox) beside one that is not.

Both get the same: messages of two peers, and a client that sends and takes. Whatever happens to the tried
one, it must come out as if nothing had: the same counters, the same deliveries in the same order. After a
write that failed it is built from its log, and the step is taken again.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeVar

from support.conformance_replica import Rows
from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK, pack
from thence.core.errors import StorageError
from thence.core.groups import Place
from thence.core.machine import SpreadEffect
from thence.core.message import Message
from thence.oplog.log import OpLog
from thence.oplog.policy import DiskSync
from thence.oplog.record import Stored, Taken
from thence.oplog.settings import LogSettings
from thence.order.unordered import NONE
from thence.replica.tree import TreeReplica
from thence.replica.tree_history import StepHistory
from thence.sim.disk import Disk
from thence.sim.overlay_program import RegisterProgram
from thence.trace.recorder import DELIVER, SEND

SIZE = 3

Result = TypeVar("Result")


class Straight:
    """An overlay whose streams are as they should be: what comes, comes in the order of its origin, and
    counts once."""

    def __init__(self) -> None:
        self._clock = [0] * SIZE
        self.streams = self

    def recall(self, kept: tuple[int, ...]) -> None:
        self._clock = list(kept)

    def receive(self, packet: Message) -> list[SpreadEffect]:
        origin, seq = packet.dot & ORIGIN_MASK, packet.dot >> ORIGIN_BITS
        if seq <= self._clock[origin]:
            return []
        self._clock[origin] = seq
        return [packet]

    def broadcast(self, message: Message, now: int) -> list[SpreadEffect]:
        del message, now
        return []

    def resume(self, now: int) -> list[SpreadEffect]:
        del now
        return []

    def states(self) -> list[tuple[int, bool, bool]]:
        return []


class RowsDiary:
    """A diary whose rows are recorded by dots."""

    writes = True
    ended = False

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def is_ahead(self, count: Callable[[str], int]) -> bool:
        del count
        return False

    def has_row(self, kind: int, about: Place) -> bool:
        del kind, about
        return False

    def row(
        self, kind: int, about: Place | None, deps: tuple[Place, ...] | None, now: int, size: int = 0
    ) -> None:
        del size
        dot = 0 if about is None else pack(int(about[0][1:]), about[1])
        if deps is None:
            self._rows.record(kind, dot, now)
        else:
            self._rows.record_deps(kind, dot, tuple([pack(int(name[1:]), seq) for name, seq in deps]), now)


class Tried:
    """A replica as member 0, driven as checks like it."""

    def __init__(self, make: type[TreeReplica], rows: Rows, log: OpLog, inbox_max: int = 4096) -> None:
        self._overlay = Straight()
        overlay: Any = self._overlay
        diary: Any = RowsDiary(rows)
        names = [f"n{me}" for me in range(SIZE)]
        program = RegisterProgram(holds=False)
        self._replica = make(0, names, overlay, diary, log, StepHistory(log), program, str, inbox_max)
        self.commit, self.collect, self.resume = (
            self._replica.commit, self._replica.collect, self._replica.resume
        )  # fmt: skip

    @property
    def inbox(self) -> Sequence[Message]:
        return self._replica.inbox

    @property
    def taken(self) -> int:
        return self._replica.taken

    def context(self) -> tuple[int, ...]:
        """What the client has seen."""
        return tuple(self._replica._seen)

    def submit(self, payload: bytes, now: int) -> Message:
        return self._replica.submit([payload], now)[0]

    def receive(self, message: Message, now: int) -> None:
        self._replica.route(self._overlay.receive(message), now)

    def take(self, now: int) -> Message:
        message = self._replica.inbox[0]
        self._replica.take(now)
        return message

    def restart(self, now: int) -> None:
        self._replica.start(False, now)


class Node:
    """Member 0 with its disk, its log and its application, and what came in that is not in the log."""

    def __init__(
        self, make: type[TreeReplica], *, inbox_max: int = 4096, segment_bytes: int = 1 << 20
    ) -> None:
        self._make = make
        self._settings = LogSettings(sync="always", segment_bytes=segment_bytes, spacing=3)
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
        self.node = Tried(self._make, self.rows, self.log, self._inbox_max)

    # Steps

    def publish(self, payload: bytes, now: int) -> Message:
        message = self.step(lambda: self.node.submit(payload, now), now)
        self.sent_after.append(self.position)
        self.commit(now)
        return message

    def receive(self, message: Message, now: int) -> None:
        self.waits.append(message)
        self.step(lambda: self.node.receive(message, now), now)

    def take(self, count: int, now: int) -> None:
        def act() -> None:
            for _ in range(count):
                if self.node.inbox:
                    self.node.take(now)

        self.step(act, now)

    def all_have_it(self, now: int) -> None:
        """All that is in the log may go, as far as others are concerned."""
        self.log.mark_stable(self.log.vector)
        self.commit(now)

    def commit(self, now: int) -> None:
        self.step(lambda: None, now)

    def step(self, act: Callable[[], Result], now: int) -> Result:
        """A disk that fails is made well and the step repeated, by a replica that is built anew."""
        while True:
            rows = len(self.rows.rows)
            try:
                result = act()
                self.sync(self.node.commit(now), now)
            except StorageError:
                del self.rows.rows[rows:]
                self.build_anew(now)
                continue
            self.position = self.node.taken
            self.waits = [
                m for m in self.waits if m.dot >> ORIGIN_BITS > self.log.vector[m.dot & ORIGIN_MASK]
            ]
            return result

    def sync(self, effects: object, now: int) -> None:
        assert isinstance(effects, list)
        for effect in effects:
            if isinstance(effect, DiskSync):
                self.disk.sync(effect.file)
                self.log.synced(effect, now)

    def build_anew(self, now: int) -> None:
        self.disk.capacity = None
        self.disk.heal()
        self.start()
        self.node.resume(now)
        self._again(now)

    def _again(self, now: int) -> None:
        for message in self.waits:
            self.node.receive(message, now)

    def crash(self, now: int, power: bool) -> None:
        if power:
            self.disk.crash(holes=True)
        self.start()
        self.node.restart(now)
        self._again(now)
        self.commit(now)

    # What can be seen of it

    def context(self) -> tuple[int, ...]:
        return self.node.context()

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
    """Members 1 and 2, and what of theirs is under way."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._taggers = {peer: NONE.tagger(peer, SIZE) for peer in (1, 2)}
        self.under_way: list[Message] = []

    def send(self, peer: int) -> None:
        self.under_way.append(self._taggers[peer].tag(bytes(self._rng.choice((0, 20, 90)))))

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

    def __init__(self, make: type[TreeReplica], seed: int) -> None:
        self.rng = rng = Random(f"{seed}/none")
        self.plain = Node(make)
        self.tried = Node(make, inbox_max=rng.choice((1, 3, 4096)), segment_bytes=400)
        self.peers = Peers(rng)
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
        elif dice < 0.45:
            self.peers.send(rng.choice((1, 2)))
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
            for node in nodes:
                node.all_have_it(now)

    def compare(self) -> None:
        plain, tried = self.plain, self.tried
        assert tried.log.vector == plain.log.vector, "lost: or more than there was"
        assert tried.context() == plain.context(), "stamp: the client has seen something else"
        assert tried.untaken() == plain.untaken(), "lost: or twice, of what waits for the client"
        assert bool(tried.node.inbox) == bool(plain.node.inbox), "held: what is in the log is not offered"
        assert len(tried.node.inbox) <= max(1, tried._inbox_max), "memory: more than fits the inbox"
        for kind in (SEND, DELIVER):
            assert tried.rows.of(kind) == plain.rows.of(kind), "trace: not what the client saw"

    def _finish(self) -> None:
        """Everything arrives and is taken."""
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
        self._compare_marks()

    def _compare_marks(self) -> None:
        """The mark that counts for the first own messages may have been collected with what it covers."""
        marks, head = self.tried.marks(), self.tried.log.head
        sent_after = self.tried.sent_after[len(self.tried.sent_after) - len(marks) :]
        for mark, after in zip(marks, sent_after, strict=True):
            assert mark == after or (mark == 0 and after <= head), "marks: not as it happened"
