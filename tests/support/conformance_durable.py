"""What a durable replica must survive: it is killed at the worst moments and comes back from its log.

Each check is a function of the class, so that planted bugs can be put in its place. The first word of a
failure says what went wrong: `dot` (used twice), `lost`, `twice`, `stamp` (of what the client has seen),
`trace`, `log`, `memory`, `marks` (of what was taken), `refused` (and yet something changed),
`collected` (too little, or more than may go).
"""

from collections.abc import Callable
from random import Random

from support.conformance_replica import Rows
from support.disks import caught
from support.durable_twins import Node, Tried, Twins
from thence.core.codec import Codec
from thence.core.dots import pack, seq_of
from thence.core.errors import StorageError
from thence.core.message import Message
from thence.oplog.log import OpLog
from thence.oplog.policy import DiskSync
from thence.oplog.record import Record, Stored
from thence.oplog.settings import LogSettings
from thence.order.unordered import NONE
from thence.replica.tree import TreeReplica
from thence.sim.disk import Disk
from thence.trace.recorder import DELIVER, RESTART, SEND

SIZE = 3

DurableCheck = Callable[[type[TreeReplica]], None]


class Machine:
    """One node with its disk."""

    def __init__(self, make: type[TreeReplica]) -> None:
        self.make = make
        self.disk = Disk(Random(1))
        self.rows = Rows()
        self.start(0)

    def start(self, now: int) -> None:
        self.log = OpLog.open(self.disk, LogSettings(sync="always"), now, power_lost=True)
        self.log.boot(1, b"m", now)
        for me in range(SIZE):
            self.log.member(f"n{me}")
        self.log.sync(now)
        self.node = Tried(self.make, self.rows, self.log)

    def commit(self, now: int) -> None:
        for effect in self.node.commit(now):
            if isinstance(effect, DiskSync):
                self.disk.sync(effect.file)
                self.log.synced(effect, now)

    def take(self, now: int) -> Message:
        message = self.node.take(now)
        self.commit(now)
        return message

    def crash(self, now: int) -> None:
        self.disk.crash(holes=True)
        self.start(now)
        self.node.restart(now)


def others() -> list[Message]:
    """n1 sends, n2 takes that and answers, n1 takes the answer and sends again."""
    one, two = NONE.tagger(1, SIZE), NONE.tagger(2, SIZE)
    first = one.tag(b"first")
    two.took(first)
    answer = two.tag(b"answer")
    one.took(answer)
    return [first, answer, one.tag(b"second")]


def check_what_was_committed_is_there_and_no_dot_is_used_twice(make: type[TreeReplica]) -> None:
    machine = Machine(make)
    before = machine.node.submit(b"mine", 0)
    machine.commit(0)
    machine.crash(1)
    after = machine.node.submit(b"mine again", 2)
    assert seq_of(after.dot) == seq_of(before.dot) + 1, "dot: not the next one"
    assert machine.rows.deps[0] == (before.dot,), "stamp: own messages are forgotten"


def check_what_was_not_committed_never_was(make: type[TreeReplica]) -> None:
    """No program can have seen it: its effects leave after the commit."""
    machine = Machine(make)
    machine.node.submit(b"never sent", 0)
    machine.crash(1)
    assert seq_of(machine.node.submit(b"mine", 2).dot) == 1, "dot: of a message that never was"


def check_the_application_goes_on_after_its_position(make: type[TreeReplica]) -> None:
    """What it had taken is in the past of its next message, what it had not comes once more."""
    machine = Machine(make)
    first, answer, second = others()
    for message in (first, answer, second):
        machine.node.receive(message, 0)
    machine.commit(0)
    assert machine.take(0).dot == first.dot, "order: something else came first"
    machine.crash(1)
    mine = machine.node.submit(b"mine", 2)
    assert machine.node.context() == (1, 1, 0), "stamp: not what the client had taken"
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


def check_the_log_holds_messages_as_they_were_sent(make: type[TreeReplica]) -> None:
    machine = Machine(make)
    first, *_ = others()
    machine.node.receive(first, 0)
    machine.commit(0)
    [stored] = list(machine.log.since(0))
    kept = Codec(SIZE, stamps_are_dots=True).decode(stored.data)
    assert isinstance(kept, Message), "log: no message"
    assert (stored.dot, kept.dot, kept.payload) == (pack(1, 1), pack(1, 1), b"first"), "log: another message"


def check_what_is_in_the_log_comes_once(make: type[TreeReplica]) -> None:
    """Its sender may not know, and send it again after a restart."""
    machine = Machine(make)
    first, answer, _ = others()
    machine.node.receive(first, 0)
    machine.commit(0)
    machine.take(0)
    machine.crash(1)
    machine.node.receive(first, 2)
    machine.node.receive(answer, 2)
    assert [message.dot for message in machine.node.inbox] == [answer.dot], "twice: it is in the log"


def check_a_small_inbox_spills_and_is_filled_from_the_log(make: type[TreeReplica]) -> None:
    for crashes in (False, True):
        node = Node(make, inbox_max=2)
        tagger = NONE.tagger(1, SIZE)
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
        for message in (tagger.tag(b"one"), tagger.tag(b"two"), tagger.tag(b"three")):
            node.node.receive(message, 0)
        node.node.take(0)
        node.node.take(0)
        node.commit(0)
        assert len(node.node.inbox) == 1, "held: what came in the same step"


def check_what_was_taken_is_marked_between_own_messages(make: type[TreeReplica]) -> None:
    node = Node(make)
    tagger = NONE.tagger(1, SIZE)
    node.publish(b"before all", 0)
    for _ in range(3):
        node.receive(tagger.tag(b""), 0)
    node.node.take(0)
    node.node.take(0)
    node.publish(b"after two", 0)
    node.publish(b"still after two", 0)
    node.take(1, 0)
    node.publish(b"after three", 0)
    assert node.marks() == node.sent_after, f"marks: {node.marks()}, not {node.sent_after}"
    assert node.log.taken == node.position, "marks: the last one"


def _seen(node: Node) -> tuple[object, object, object, object, list[tuple[int, Record]]]:
    log = node.log
    records = [(position, record) for position, record in log.records(log.head)]
    return node.context(), node.untaken(), log.vector, log.taken, records


def fails(node: Node, act: Callable[[], object]) -> None:
    """A step whose commit fails. What is seen then is what is in the log: the replica is built from it."""
    before, rows = _seen(node), len(node.rows.rows)

    def step() -> None:
        act()
        node.node.commit(0)

    assert caught(StorageError, step), "refused: it was not"
    del node.rows.rows[rows:]
    node.build_anew(0)
    after = _seen(node)
    assert after[:4] == before[:4], "refused: something has changed"
    assert [record for record in after[4] if isinstance(record[1], Stored)] == [
        record for record in before[4] if isinstance(record[1], Stored)
    ], "refused: something has changed"


def check_a_refused_message_was_never_sent(make: type[TreeReplica]) -> None:
    """A disk that is full, or fails once, wherever in the write; also with marks in it."""
    for room in (0, 10, 40, 80, None):
        node = Node(make)
        tagger = NONE.tagger(1, SIZE)
        for _ in range(3):
            node.receive(tagger.tag(b""), 0)
        node.publish(b"one", 0)
        if room is None:
            node.disk.fail("write")
        else:
            node.disk.capacity = sum(map(node.disk.size, node.disk.names())) + room

        def act(node: Node = node) -> None:
            node.node.take(0)
            node.node.submit(bytes(90), 0)

        fails(node, act)
        node.take(1, 0)
        message = node.publish(b"two", 0)
        assert seq_of(message.dot) == 2, "dot: not the next one"
        assert node.marks()[-1] == node.position, "marks: what was taken is not marked"
        node.crash(0, power=True)
        assert seq_of(node.publish(b"three", 0).dot) == 3, "dot: not the next one after a crash"


def check_a_step_that_failed_never_was(make: type[TreeReplica]) -> None:
    """What came and could not be written down is not offered or counted, and welcome when it comes again."""
    node = Node(make, inbox_max=1)
    first, answer, second = others()
    node.receive(first, 0)
    node.take(1, 0)
    node.disk.fail("write")

    def act() -> None:
        node.node.receive(answer, 0)
        node.node.receive(second, 0)

    fails(node, act)
    assert not node.node.inbox, "twice: what was forgotten is offered"
    node.receive(answer, 0)
    node.receive(second, 0)
    node.take(5, 0)
    got = [dot for kind, dot in node.rows.rows if kind == DELIVER]
    assert got == [first.dot, answer.dot, second.dot], "lost: or twice, or in another order"


def _old_and_new(node: Node, fail_after: int | None = None) -> None:
    """A message of n2, and then many of n1; in the end everyone has all. The frontier holds the first and the
    last of them."""
    one, two = NONE.tagger(1, SIZE), NONE.tagger(2, SIZE)
    old = two.tag(b"old")
    node.receive(old, 0)
    segments = node.log.segments
    for _ in range(20):
        message = one.tag(bytes(30))
        node.receive(message, 0)
        node.take(2, 0)
        if node.log.segments > segments and fail_after is not None:
            segments = node.log.segments
            node.disk.fail("write", fail_after)
    node.disk.heal()
    node.all_have_it(0)


def check_segments_of_marks_alone_are_collected_with_care(make: type[TreeReplica]) -> None:
    """No node sends for long: segments come and go by their age, with hardly anything in them."""
    for broken in (False, True):
        node = Node(make, segment_bytes=300)
        _old_and_new(node)
        before, begun = node.context(), {node.log.active}
        while len(begun) < 4:
            node.log.note(99, bytes(50))
            node.commit(0)
            node.node.collect(0)
            begun.add(node.log.active)
        if broken:
            node.disk.fail("write")
            fails(node, lambda node=node: node.log.note(99, b""))  # type: ignore[misc]
            node.node.collect(0)
        node.crash(0, power=True)
        assert node.context() == before, "stamp: what came before the log is forgotten"


def check_a_refused_message_is_in_no_frontier(make: type[TreeReplica]) -> None:
    node, twin = Node(make, segment_bytes=300), Node(make)
    node.disk.fail("write")
    fails(node, lambda: node.node.submit(b"refused", 0))
    for one in (node, twin):
        _old_and_new(one)
    assert node.node.collect(0).segments, "collected: nothing"
    node.crash(0, power=True)
    assert node.context() == twin.context(), "stamp: the frontier holds what never was"


def check_what_is_left_of_a_log_stands_alone(make: type[TreeReplica]) -> None:
    """Everything but the last segment is collected: own counter and what was seen go on from there."""
    node = Node(make, segment_bytes=300)
    for _ in range(3):
        node.publish(b"mine", 0)
    _old_and_new(node)
    before = node.context()
    assert node.node.collect(0).segments > 3, "collected: too little"
    node.crash(0, power=True)
    assert node.context() == before, "stamp: what came before the log is forgotten"
    assert seq_of(node.publish(b"", 0).dot) == 4, "dot: not the next one"


def check_nothing_is_collected_that_the_application_has_not_taken(make: type[TreeReplica]) -> None:
    node = Node(make, segment_bytes=300)
    tagger = NONE.tagger(1, SIZE)
    for _ in range(20):
        node.receive(tagger.tag(bytes(20)), 0)
    node.take(4, 0)
    node.all_have_it(0)
    node.node.collect(0)
    node.crash(0, power=True)
    node.take(100, 0)
    got = [seq_of(dot) for kind, dot in node.rows.rows if kind == DELIVER]
    assert got == list(range(1, 21)), "lost: what the client had not taken"


def check_whatever_happens_it_comes_out_like_its_twin(make: type[TreeReplica]) -> None:
    collected = 0
    for seed in range(25):
        twins = Twins(make, seed)
        try:
            twins.run(120)
        except AssertionError as error:
            raise AssertionError(f"{error} (seed {seed})") from error
        collected += twins.collected
    assert collected > 50, "collected: the schedules would prove little"


DURABLE_CHECKS: dict[str, DurableCheck] = {
    "committed": check_what_was_committed_is_there_and_no_dot_is_used_twice,
    "uncommitted": check_what_was_not_committed_never_was,
    "position": check_the_application_goes_on_after_its_position,
    "once": check_what_is_in_the_log_comes_once,
    "spill": check_a_small_inbox_spills_and_is_filled_from_the_log,
    "marks": check_what_was_taken_is_marked_between_own_messages,
    "refused": check_a_refused_message_was_never_sent,
    "failed": check_a_step_that_failed_never_was,
    "marks alone": check_segments_of_marks_alone_are_collected_with_care,
    "refused frontier": check_a_refused_message_is_in_no_frontier,
    "alone": check_what_is_left_of_a_log_stands_alone,
    "untaken": check_nothing_is_collected_that_the_application_has_not_taken,
    "twins": check_whatever_happens_it_comes_out_like_its_twin,
    "as sent": check_the_log_holds_messages_as_they_were_sent,
}
