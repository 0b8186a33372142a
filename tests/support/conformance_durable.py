"""What a durable replica must survive: it is killed at the worst moments and comes back from its log.

Each check is a function of the class, so that planted bugs can be put in its place. The first word of a
failure says what went wrong: `dot` (used twice), `lost`, `twice`, `stamp`, `trace`, `ack`, `stable`, `log`.
"""

from collections.abc import Callable
from random import Random

from support.conformance_replica import Rows
from thence.core.codec import Codec
from thence.core.dots import pack, seq_of
from thence.core.machine import Ack, Transmit
from thence.core.message import Message
from thence.oplog.log import OpLog
from thence.oplog.policy import Sync
from thence.oplog.settings import Settings
from thence.order.engines import ENGINES
from thence.replica.durable import DurableReplica
from thence.sim.disk import Disk
from thence.spread.mesh import Mesh
from thence.trace.recorder import DELIVER, RESTART, SEND, STABLE

SIZE = 3
DURABLE = ["graph", "vector"]


DurableCheck = Callable[[type[DurableReplica]], None]


class Machine:
    """One node with its disk; the application's position is kept beside it."""

    def __init__(self, make: type[DurableReplica], order: str) -> None:
        self.make = make
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
        self.node = self.make(0, SIZE, self.engine, spread, self.rows, self.log, self.taken, now)

    def commit(self, now: int) -> None:
        for effect in self.node.commit(now):
            if isinstance(effect, Sync):
                self.disk.sync(effect.file)
                self.log.synced(effect, now)

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


def check_what_was_committed_is_there_and_no_dot_is_used_twice(
    make: type[DurableReplica], order: str
) -> None:
    machine = Machine(make, order)
    before = machine.node.submit(b"mine", 0).message
    machine.commit(0)
    machine.crash(1)
    after = machine.node.submit(b"mine again", 2).message
    assert seq_of(after.dot) == seq_of(before.dot) + 1, "dot: not the next one"
    assert machine.engine.predecessors(after) == (before.dot,), "stamp: own messages are forgotten"


def check_what_was_not_committed_never_was(make: type[DurableReplica], order: str) -> None:
    """Nobody can have seen it: its effects leave after the commit."""
    machine = Machine(make, order)
    machine.node.submit(b"never sent", 0)
    machine.crash(1)
    assert seq_of(machine.node.submit(b"mine", 2).message.dot) == 1, "dot: of a message that never was"


def check_the_application_goes_on_after_its_position(make: type[DurableReplica], order: str) -> None:
    """What it had taken is in the past of its next message, what it had not comes once more."""
    machine = Machine(make, order)
    first, answer, second = others(order)
    for message in (first, answer, second):
        machine.node.receive(message.dot & 3, message, 0)
    machine.commit(0)
    assert machine.take(0).dot == first.dot, "order: something else came first"
    machine.crash(1)
    mine = machine.node.submit(b"mine", 2).message
    assert machine.engine.predecessors(mine) == (first.dot,), "stamp: not what the client had taken"
    waiting = [message.dot for message in machine.node.inbox]
    assert waiting == [answer.dot, second.dot], f"lost: or twice, {waiting}"
    while machine.node.inbox:
        machine.take(3)
    assert [row for row in machine.rows.rows if row[0] in (SEND, DELIVER, RESTART)] == [
        (DELIVER, first.dot), (RESTART, 0), (SEND, mine.dot), (DELIVER, answer.dot), (DELIVER, second.dot),
    ], "trace: not what the client saw"  # fmt: skip
    assert machine.rows.deps[0] == (first.dot,), (
        "trace: the frontier of the restart is what the client had seen"
    )


def acks(machine: Machine, now: int) -> list[Ack]:
    effects = machine.node.wake(now)
    return [e.packet for e in effects if isinstance(e, Transmit) and isinstance(e.packet, Ack)]


def check_what_is_held_is_not_acknowledged_until_it_is_kept(make: type[DurableReplica]) -> None:
    """It would be forgotten in a crash, and its sender must still have it then."""
    machine = Machine(make, "graph")
    first, answer, _ = others("graph")
    machine.node.receive(2, answer, 0)
    machine.commit(0)
    [ack] = acks(machine, 100_000)
    assert ack.received == (0, 0, 0), "ack: of what a crash would forget"
    assert ack.early == (answer.dot,), "ack: it is here, though: no need to repeat it at once"
    machine.node.receive(1, first, 200_000)
    machine.commit(200_000)
    [ack] = acks(machine, 300_000)
    assert (ack.received, ack.early) == ((0, 1, 1), ()), "ack: both are kept now"


def check_a_held_message_is_forgotten_in_a_crash_and_comes_again(make: type[DurableReplica]) -> None:
    machine = Machine(make, "graph")
    first, answer, _ = others("graph")
    machine.node.receive(2, answer, 0)
    machine.commit(0)
    machine.crash(1)
    assert machine.node.waiting == 0, "log: something held was kept"
    machine.node.receive(1, first, 2)
    machine.node.receive(2, answer, 3)
    machine.commit(3)
    taken = [message.dot for message in machine.node.inbox]
    assert taken == [first.dot, answer.dot], "lost: what was held did not come again"


def check_own_messages_are_repeated_after_a_restart_until_everyone_has_them(
    make: type[DurableReplica],
) -> None:
    machine = Machine(make, "graph")
    message = machine.node.submit(b"mine", 0).message
    machine.commit(0)
    machine.crash(1)  # before a single copy left
    sent: set[int] = set()
    for now in range(0, 3_000_000, 50_000):
        for effect in machine.node.wake(now):
            if isinstance(effect, Transmit) and isinstance(effect.packet, Message):
                assert effect.packet.dot == message.dot, "log: another message"
                assert effect.packet.context == message.context, "log: another stamp"
                sent.update(effect.peers)
    assert sent == {1, 2}, f"lost: repeated to {sent} only"


def check_nothing_is_announced_as_stable_twice(make: type[DurableReplica], order: str) -> None:
    machine = Machine(make, order)
    first, answer, second = others(order)
    for message in (first, answer, second):
        machine.node.receive(message.dot & 3, message, 0)
    machine.commit(0)
    while machine.node.inbox:
        machine.take(0)
    machine.node.wake(2_000_000)
    machine.commit(2_000_000)
    announced = [dot for kind, dot in machine.rows.rows if kind == STABLE]
    assert announced == [first.dot, answer.dot], "stable: n2 is not known to have seen the last one"
    machine.crash(3_000_000)
    machine.node.wake(5_000_000)
    again = [dot for kind, dot in machine.rows.rows if kind == STABLE]
    assert again == announced, "twice: announced again after the restart"


def check_the_log_holds_messages_as_they_were_sent(make: type[DurableReplica]) -> None:
    machine = Machine(make, "graph")
    first, *_ = others("graph")
    machine.node.receive(1, first, 0)
    machine.commit(0)
    [stored] = list(machine.log.since(0))
    kept = Codec(SIZE, stamps_are_dots=True).decode(stored.data)
    assert isinstance(kept, Message), "log: no message"
    assert (stored.dot, kept.dot, kept.payload) == (pack(1, 1), pack(1, 1), b"first"), "log: another message"


def check_what_follows_from_the_log_is_not_held(make: type[DurableReplica], order: str) -> None:
    machine = Machine(make, order)
    first, answer, _ = others(order)
    machine.node.receive(1, first, 0)
    machine.commit(0)
    machine.take(0)
    machine.crash(1)
    machine.node.receive(2, answer, 2)
    assert [message.dot for message in machine.node.inbox] == [answer.dot], "held: its cause is in the log"


def for_all(check: Callable[[type[DurableReplica], str], None]) -> DurableCheck:
    def checked(make: type[DurableReplica]) -> None:
        for order in DURABLE:
            check(make, order)

    return checked


DURABLE_CHECKS: dict[str, DurableCheck] = {
    "committed": for_all(check_what_was_committed_is_there_and_no_dot_is_used_twice),
    "uncommitted": for_all(check_what_was_not_committed_never_was),
    "position": for_all(check_the_application_goes_on_after_its_position),
    "goes on": for_all(check_what_follows_from_the_log_is_not_held),
    "held": check_what_is_held_is_not_acknowledged_until_it_is_kept,
    "held and forgotten": check_a_held_message_is_forgotten_in_a_crash_and_comes_again,
    "repeated": check_own_messages_are_repeated_after_a_restart_until_everyone_has_them,
    "stable once": for_all(check_nothing_is_announced_as_stable_twice),
    "as sent": check_the_log_holds_messages_as_they_were_sent,
}
