"""Fault: a durable replica is killed at the worst moments and comes back from its log."""

from random import Random

import pytest
from support.conformance_replica import Rows

from thence.core.codec import Codec
from thence.core.dots import pack, seq_of
from thence.core.machine import Ack, Transmit
from thence.core.message import Message
from thence.oplog.log import OpLog
from thence.oplog.settings import Settings
from thence.order.engines import ENGINES
from thence.replica.durable import DurableReplica
from thence.sim.disk import Disk
from thence.spread.mesh import Mesh
from thence.trace.recorder import DELIVER, RESTART, SEND, STABLE

SIZE = 3
DURABLE = ["graph", "vector"]


class Machine:
    """One node with its disk; the application's position is kept beside it."""

    def __init__(self, order: str) -> None:
        self.engine = ENGINES[order]
        self.disk = Disk(Random(1))
        self.rows = Rows()
        self.taken = 0
        self.start(0)

    def start(self, now: int) -> None:
        self.log = OpLog.open(self.disk, Settings(sync="always"), now, power_lost=True)
        self.log.boot(1, b"m", now)
        for me in range(SIZE):
            self.log.member(f"n{me}")
        self.log.sync(now)
        spread = Mesh(0, SIZE)
        self.node = DurableReplica(0, SIZE, self.engine, spread, self.rows, self.log, self.taken, now)

    def commit(self, now: int) -> None:
        self.node.commit(now)
        for sync in self.node.syncs:
            self.disk.sync(sync.file)
            self.log.synced(sync, now)
        self.node.syncs.clear()

    def take(self, now: int) -> Message:
        message = self.node.take(now).message
        self.taken = self.node.taken
        return message

    def crash(self, now: int) -> None:
        self.disk.crash(holes=True)
        self.start(now)
        self.node.restart(now)


def others(order: str) -> list[Message]:
    """n1 sends, n2 takes that and answers, n1 takes the answer and sends again."""
    one, two = ENGINES[order].tagger(1, SIZE), ENGINES[order].tagger(2, SIZE)
    first = one.tag(b"first")
    two.took(first)
    answer = two.tag(b"answer")
    one.took(answer)
    return [first, answer, one.tag(b"second")]


@pytest.mark.parametrize("order", DURABLE)
def test_what_was_committed_is_there_and_no_dot_is_used_twice(order: str) -> None:
    machine = Machine(order)
    before = machine.node.submit(b"mine", 0).message
    machine.commit(0)
    machine.crash(1)
    after = machine.node.submit(b"mine again", 2).message
    assert seq_of(after.dot) == seq_of(before.dot) + 1
    assert machine.engine.predecessors(after) == (before.dot,)


@pytest.mark.parametrize("order", DURABLE)
def test_what_was_not_committed_never_was(order: str) -> None:
    """Nobody can have seen it: its effects leave after the commit."""
    machine = Machine(order)
    machine.node.submit(b"never sent", 0)
    machine.crash(1)
    assert seq_of(machine.node.submit(b"mine", 2).message.dot) == 1


@pytest.mark.parametrize("order", DURABLE)
def test_the_application_goes_on_after_its_position(order: str) -> None:
    """What it had taken is in the past of its next message, what it had not comes once more."""
    machine = Machine(order)
    first, answer, second = others(order)
    for message in (first, answer, second):
        machine.node.receive(message.dot & 3, message, 0)
    machine.commit(0)
    assert machine.take(0).dot == first.dot
    machine.crash(1)
    mine = machine.node.submit(b"mine", 2).message
    assert machine.engine.predecessors(mine) == (first.dot,)
    assert [machine.take(3).dot, machine.take(3).dot] == [answer.dot, second.dot]
    assert not machine.node.inbox
    assert [row for row in machine.rows.rows if row[0] in (SEND, DELIVER, RESTART)] == [
        (DELIVER, first.dot), (RESTART, 0), (SEND, mine.dot), (DELIVER, answer.dot), (DELIVER, second.dot),
    ]  # fmt: skip
    assert machine.rows.deps[0] == (first.dot,), "the frontier of the restart is what the client had seen"


def acks(machine: Machine, now: int) -> list[Ack]:
    effects = machine.node.wake(now)
    return [e.packet for e in effects if isinstance(e, Transmit) and isinstance(e.packet, Ack)]


def test_what_is_held_is_not_acknowledged_until_it_is_kept() -> None:
    """It would be forgotten in a crash, and its sender must still have it then."""
    machine = Machine("graph")
    first, answer, _ = others("graph")
    machine.node.receive(2, answer, 0)
    machine.commit(0)
    [ack] = acks(machine, 100_000)
    assert ack.received == (0, 0, 0)
    assert ack.early == (answer.dot,), "it is here, though: no need to repeat it at once"
    machine.node.receive(1, first, 200_000)
    machine.commit(200_000)
    [ack] = acks(machine, 300_000)
    assert ack.received == (0, 1, 1)
    assert ack.early == ()


def test_a_held_message_is_forgotten_in_a_crash_and_comes_again() -> None:
    machine = Machine("graph")
    first, answer, _ = others("graph")
    machine.node.receive(2, answer, 0)
    machine.commit(0)
    machine.crash(1)
    assert machine.node.waiting == 0
    machine.node.receive(1, first, 2)
    machine.node.receive(2, answer, 3)
    machine.commit(3)
    assert [machine.take(4).dot, machine.take(4).dot] == [first.dot, answer.dot]


def test_what_came_early_is_trusted_only_while_it_is_fresh() -> None:
    """The receiver may have crashed since, and forgotten it: a sender that relied on it would never end."""
    sender = Mesh(0, 2)
    tagger = ENGINES["graph"].tagger(0, 2)
    one, two = tagger.tag(b""), tagger.tag(b"")
    sender.broadcast(one, 0)
    sender.broadcast(two, 0)
    sender.receive(1, Ack((0, 0), (two.dot,)), 10_000)
    repeated: list[int] = []
    now = 0
    while two.dot not in repeated:
        now += 50_000
        assert now < 60_000_000, "never repeated"
        packets = [effect.packet for effect in sender.wake(now) if isinstance(effect, Transmit)]
        repeated += [packet.dot for packet in packets if isinstance(packet, Message)]
    assert repeated[0] == one.dot, "what is known to be missing comes first"


def test_own_messages_are_repeated_after_a_restart_until_everyone_has_them() -> None:
    machine = Machine("graph")
    message = machine.node.submit(b"mine", 0).message
    machine.commit(0)
    machine.crash(1)  # before a single copy left
    sent: set[int] = set()
    for now in range(0, 3_000_000, 50_000):
        for effect in machine.node.wake(now):
            if isinstance(effect, Transmit) and isinstance(effect.packet, Message):
                assert effect.packet.dot == message.dot
                assert effect.packet.context == message.context
                sent.update(effect.peers)
    assert sent == {1, 2}


@pytest.mark.parametrize("order", DURABLE)
def test_nothing_is_announced_as_stable_twice(order: str) -> None:
    machine = Machine(order)
    first, answer, second = others(order)
    for message in (first, answer, second):
        machine.node.receive(message.dot & 3, message, 0)
    machine.commit(0)
    while machine.node.inbox:
        machine.take(0)
    machine.node.wake(2_000_000)
    machine.commit(2_000_000)
    announced = [dot for kind, dot in machine.rows.rows if kind == STABLE]
    assert announced == [first.dot, answer.dot], "n2 is not known to have seen the last one"
    machine.crash(3_000_000)
    machine.node.wake(5_000_000)
    assert [dot for kind, dot in machine.rows.rows if kind == STABLE] == announced


def test_the_log_holds_messages_as_they_were_sent() -> None:
    machine = Machine("graph")
    first, *_ = others("graph")
    machine.node.receive(1, first, 0)
    machine.commit(0)
    [stored] = list(machine.log.since(0))
    kept = Codec(SIZE, stamps_are_dots=True).decode(stored.data)
    assert isinstance(kept, Message)
    assert (stored.dot, kept.dot, kept.payload) == (pack(1, 1), pack(1, 1), b"first")
