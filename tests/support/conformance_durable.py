"""What a durable replica must survive: it is killed at the worst moments and comes back from its log.

Each check is a function of the class, so that planted bugs can be put in its place. The first word of a
failure says what went wrong: `dot` (used twice), `lost`, `twice`, `stamp`, `trace`, `ack`, `stable`, `log`,
`memory`, `marks` (of what was taken), `refused` (and yet something changed), `collected` (too little, or more
than may go).
"""

from collections.abc import Callable
from random import Random

from support.conformance_replica import Rows
from support.disks import caught
from support.durable_twins import Node, Twins
from thence.core.codec import Codec
from thence.core.dots import pack, seq_of
from thence.core.errors import StorageError, UsageError
from thence.core.machine import Ack, Transmit
from thence.core.message import Message
from thence.oplog.log import OpLog
from thence.oplog.policy import Sync
from thence.oplog.settings import Settings
from thence.order.engines import ENGINES
from thence.replica.durable import FRONTIER, DurableReplica
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


def check_a_small_inbox_spills_and_is_filled_from_the_log(make: type[DurableReplica], order: str) -> None:
    for crashes in (False, True):
        node = Node(make, order, inbox_max=2)
        tagger = ENGINES[order].tagger(1, SIZE)
        sent = [tagger.tag(b"%d" % i) for i in range(7)]
        for message in sent[:5]:
            node.receive(message, 0)
        assert len(node.node.inbox) == 2, f"memory: {len(node.node.inbox)} messages in an inbox of 2"
        node.take(1, 0)
        for message in sent[5:]:
            node.receive(message, 0)
        if crashes:
            node.crash(0, power=True)
        assert len(node.node.inbox) <= 2, "memory: more than fits"
        node.take(10, 0)
        got = [dot for kind, dot in node.rows.rows if kind == DELIVER]
        assert got == [message.dot for message in sent], "lost: or twice, or in another order"
        node.receive(tagger.tag(b"one more"), 0)
        assert len(node.node.inbox) == 1, "held: it goes on"


def check_what_was_taken_is_marked_between_own_messages(make: type[DurableReplica], order: str) -> None:
    node = Node(make, order)
    tagger = ENGINES[order].tagger(1, SIZE)
    node.publish(b"before all", 0)
    for _ in range(3):
        node.receive(tagger.tag(b""), 0)
    node.node.take(0)
    node.node.take(0)
    node.position = node.node.taken
    node.publish(b"after two", 0)
    node.publish(b"still after two", 0)
    node.take(1, 0)
    node.publish(b"after three", 0)
    assert node.marks() == node.sent_after, f"marks: {node.marks()}, not {node.sent_after}"
    assert node.log.taken == node.position, "marks: the last one"


def _seen(node: Node) -> object:
    log = node.log
    records = [(position, record) for position, record in log.records(log.head)]
    stable = node.node.is_stable(pack(1, 1))
    return node.context(), node.untaken(), log.vector, log.taken, records, stable, node.node.waiting


def check_a_refused_message_was_never_sent(make: type[DurableReplica], order: str) -> None:
    """A disk that is full, or fails once, wherever in the write; also while marks wait to be written."""
    for room in (0, 10, 40, 80, None):
        node = Node(make, order)
        tagger = ENGINES[order].tagger(1, SIZE)
        for _ in range(3):
            node.receive(tagger.tag(b""), 0)
        node.publish(b"one", 0)
        node.node.take(0)  # and not marked yet
        node.position = node.node.taken
        before = _seen(node)
        if room is None:
            node.disk.fail("write")
        else:
            node.disk.capacity = sum(map(node.disk.size, node.disk.names())) + room
        assert caught(StorageError, lambda: node.node.publish([bytes(90), b"x"], 0)), "refused: it was not"  # noqa: B023
        assert _seen(node) == before, "refused: something has changed"
        assert not any(kind == SEND for kind, dot in node.rows.rows if seq_of(dot) > 1), "trace: it was sent"
        node.disk.capacity = None
        message = node.publish(b"two", 0)
        assert seq_of(message.dot) == 2, "dot: not the next one"
        assert node.marks()[-1] == node.position, "marks: what was taken is not marked"
        node.crash(0, power=True)
        assert seq_of(node.publish(b"three", 0).dot) == 3, "dot: not the next one after a crash"


def check_what_the_log_cannot_hold_changes_nothing(make: type[DurableReplica]) -> None:
    node = Node(make, "graph")
    node.publish(b"one", 0)
    before = _seen(node)
    assert caught(UsageError, lambda: node.node.publish([b"small", bytes(65 << 20)], 0)), (
        "refused: it was not"
    )
    assert _seen(node) == before, "refused: something has changed"
    assert seq_of(node.publish(b"two", 0).dot) == 2, "dot: not the next one"


def check_a_rolled_back_step_never_was(make: type[DurableReplica], order: str) -> None:
    """What came and could not be written down is not offered or counted, and welcome when it comes again."""
    node = Node(make, order, inbox_max=1)
    first, answer, second = others(order)
    node.receive(first, 0)
    node.take(1, 0)
    before = _seen(node)
    node.node.receive(2, answer, 0)
    node.node.receive(1, second, 0)
    node.disk.fail("write")
    assert caught(StorageError, lambda: node.node.commit(0)), "refused: it was not"
    node.node.roll_back(0)
    assert not node.node.inbox, "twice: what was forgotten is offered"
    assert _seen(node) == before, "refused: something has changed"
    node.receive(second, 0)
    assert node.node.waiting == 1, "order: its cause was forgotten"
    node.receive(answer, 0)
    node.take(5, 0)
    got = [dot for kind, dot in node.rows.rows if kind == DELIVER]
    assert got == [first.dot, answer.dot, second.dot], "lost: or twice, or in another order"


def check_an_announcement_whose_mark_was_lost_is_marked_again(make: type[DurableReplica], order: str) -> None:
    node = Node(make, order)
    for message in others(order):
        node.receive(message, 0)
    while node.node.inbox:
        node.node.take(0)
    node.position = node.node.taken
    node.node.wake(2_000_000)
    announced = node.rows.of(STABLE)
    assert announced, "stable: nothing to mark"
    node.disk.fail("write")
    assert caught(StorageError, lambda: node.node.commit(2_000_000)), "refused: it was not"
    node.node.roll_back(2_000_000)
    node.commit(2_000_000)
    node.crash(3_000_000, power=True)
    node.node.wake(5_000_000)
    assert node.rows.of(STABLE) == announced, "twice: announced again after the restart"


def _old_and_new(node: Node, order: str, fail_after: int | None = None) -> None:
    """A message of n2 that nothing follows from, and then many of n1; in the end everyone has seen all. The
    frontier holds the first and the last of them."""
    one, two = ENGINES[order].tagger(1, SIZE), ENGINES[order].tagger(2, SIZE)
    old = two.tag(b"old")
    node.receive(old, 0)
    segments = node.log.segments
    for _ in range(20):
        message = one.tag(bytes(30))
        node.receive(message, 0)
        two.took(message)
        node.take(2, 0)
        if node.log.segments > segments and fail_after is not None:
            segments = node.log.segments
            node.disk.fail("write", fail_after)
    node.disk.heal()
    one.took(old)
    node.hear(1, one.context(), 0)
    node.hear(2, two.context(), 0)


def check_a_frontier_that_was_not_written_allows_no_collection(
    make: type[DurableReplica], order: str
) -> None:
    """The first commit of a segment fails, and with it the note of what came before that segment."""
    for after in range(4):
        node, twin = Node(make, order, segment_bytes=300), Node(make, order)
        _old_and_new(node, order, after)
        _old_and_new(twin, order)
        assert node.node.collect(0).segments, "collected: nothing"
        node.crash(0, power=True)
        assert node.context() == twin.context(), "stamp: what came before the log is forgotten"


def check_segments_of_marks_alone_are_collected_with_care(make: type[DurableReplica], order: str) -> None:
    """Nobody sends for long: segments come and go by their age, with hardly anything in them. The note that
    tells what came before must not go with the one that it stands in."""
    for fails in (False, True):
        node = Node(make, order, segment_bytes=300)
        _old_and_new(node, order)
        before, begun = node.context(), {node.log.active}
        while len(begun) < 4:
            node.log.note(99, bytes(50))
            node.commit(0)
            node.node.collect(0)
            begun.add(node.log.active)
        if fails:
            node.disk.fail("write")
            assert caught(StorageError, lambda: node.node.commit(0)), "refused: it was not"  # noqa: B023
            node.node.roll_back(0)
            node.node.collect(0)
        node.crash(0, power=True)
        assert node.context() == before, "stamp: what came before the log is forgotten"


def check_a_refused_message_is_in_no_frontier(make: type[DurableReplica], order: str) -> None:
    node, twin = Node(make, order, segment_bytes=300), Node(make, order)
    node.disk.fail("write")
    assert caught(StorageError, lambda: node.node.publish([b"refused"], 0)), "refused: it was not"
    for one in (node, twin):
        _old_and_new(one, order)
    assert node.node.collect(0).segments, "collected: nothing"
    node.crash(0, power=True)
    assert node.context() == twin.context(), "stamp: the frontier holds what never was"


def check_a_log_that_begins_with_a_note_stands_alone(make: type[DurableReplica], order: str) -> None:
    """Everything but the last segment is collected: own counter, context and tags go on from the note."""
    node = Node(make, order, segment_bytes=300)
    for _ in range(3):
        node.publish(b"mine", 0)
    _old_and_new(node, order)
    node.hear(1, node.context(), 0)
    node.hear(2, node.context(), 0)
    before = node.context()
    assert node.node.collect(0).segments > 3, "collected: too little"
    notes = [record for _, record in node.log.records(node.log.head) if getattr(record, "key", 0) == FRONTIER]
    assert notes, "stamp: the log does not say what came before it"
    node.crash(0, power=True)
    assert node.context() == before, "stamp: what came before the log is forgotten"
    assert seq_of(node.publish(b"", 0).dot) == 4, "dot: not the next one"


def check_nothing_is_collected_that_the_application_has_not_taken(make: type[DurableReplica]) -> None:
    node = Node(make, "graph", segment_bytes=300)
    tagger = ENGINES["graph"].tagger(1, SIZE)
    for _ in range(20):
        node.receive(tagger.tag(bytes(20)), 0)
    node.take(4, 0)
    for peer in (1, 2):
        node.hear(peer, tagger.context(), 0)
    node.node.collect(0)
    node.crash(0, power=True)
    node.take(100, 0)
    got = [seq_of(dot) for kind, dot in node.rows.rows if kind == DELIVER]
    assert got == list(range(1, 21)), "lost: what the client had not taken"


def check_whatever_happens_it_comes_out_like_its_twin(make: type[DurableReplica], order: str) -> None:
    collected = 0
    for seed in range(25):
        twins = Twins(make, order, seed)
        try:
            twins.run(120)
        except AssertionError as error:
            raise AssertionError(f"{error} (seed {seed})") from error
        collected += twins.collected
    assert collected > 50, "collected: the schedules would prove little"


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
    "spill": for_all(check_a_small_inbox_spills_and_is_filled_from_the_log),
    "marks": for_all(check_what_was_taken_is_marked_between_own_messages),
    "refused": for_all(check_a_refused_message_was_never_sent),
    "too long": check_what_the_log_cannot_hold_changes_nothing,
    "roll back": for_all(check_a_rolled_back_step_never_was),
    "lost mark": for_all(check_an_announcement_whose_mark_was_lost_is_marked_again),
    "lost note": for_all(check_a_frontier_that_was_not_written_allows_no_collection),
    "marks alone": for_all(check_segments_of_marks_alone_are_collected_with_care),
    "refused frontier": for_all(check_a_refused_message_is_in_no_frontier),
    "alone": for_all(check_a_log_that_begins_with_a_note_stands_alone),
    "untaken": check_nothing_is_collected_that_the_application_has_not_taken,
    "twins": for_all(check_whatever_happens_it_comes_out_like_its_twin),
    "as sent": check_the_log_holds_messages_as_they_were_sent,
}
