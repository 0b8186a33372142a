"""What a replica with stability must do beyond delivering: sweep, tell, ask, answer, and come to rest.

Each check is a function of the class, so that planted bugs can be put in its place.
"""

from itertools import product

from support.conformance_replica import ORDERING, REPLICA_CHECKS, ReplicaCheck, Rows
from support.schedules import portrait
from thence.core.dots import pack
from thence.core.errors import PeerError
from thence.core.machine import Ack, Batch, Effect, Phantom, Transmit, Wake
from thence.core.message import Message
from thence.order.engine import Engine, Tagger
from thence.order.engines import ENGINES
from thence.order.phantom_timer import PhantomSettings
from thence.replica.replica import Replica
from thence.spread.batched import Batched
from thence.spread.mesh import Mesh
from thence.trace.recorder import RESTART, STABLE

TELL = PhantomSettings().tell_every_us
ASK = PhantomSettings().ask_after_us


class Member:
    """Member 0 of a group, alone in a room: its wake-ups come, everything that it sends is kept."""

    def __init__(self, make: type[Replica], engine: Engine, size: int, stability: bool = True) -> None:
        self.rows = Rows()
        self.replica = make(0, size, engine, Mesh(0, size), self.rows, stability)
        self.others: list[Tagger] = [engine.tagger(me, size) for me in range(size)]
        self.now = 0
        self.alarms: list[int] = []
        self.phantoms: list[tuple[int, tuple[int, ...], Phantom]] = []
        """When, to whom, what."""

    def do(self, effects: list[Effect]) -> list[Effect]:
        for effect in effects:
            if isinstance(effect, Wake):
                self.alarms.append(effect.at)
            elif isinstance(effect.packet, Phantom):
                self.phantoms.append((self.now, effect.peers, effect.packet))
        return effects

    def run(self, until: int) -> None:
        while self.alarms and min(self.alarms) <= until:
            self.now = min(self.alarms)
            self.alarms.remove(self.now)
            self.do(self.replica.wake(self.now))
        self.now = until

    def receive(self, peer: int, message: Message) -> None:
        """A message of `peer` arrives and is taken."""
        self.do(self.replica.receive(peer, message, self.now))
        while self.replica.inbox:
            self.replica.take(self.now)

    def send(self) -> Message:
        message = self.replica.submit(b"", self.now).message
        self.do(self.replica.flush(self.now))
        return message

    def hear(self, peer: int, asks: bool = False) -> list[Effect]:
        """A phantom of `peer` comes."""
        return self.do(self.replica.receive(peer, Phantom(self.others[peer].context(), asks), self.now))

    def drained(self) -> bool:
        return self.replica.drained

    def told(self, asks: bool) -> list[tuple[int, ...]]:
        return [peers for _, peers, phantom in self.phantoms if phantom.asks == asks]


def check_tells_all(make: type[Replica]) -> None:
    """A listener tells all others what its client has taken, once, and in time."""
    for engine in ORDERING:
        member = Member(make, engine, 4)
        message = member.others[2].tag(b"")
        member.receive(2, message)
        member.run(2 * TELL + 1)
        assert member.told(asks=False) == [(1, 2, 3)], f"late: told to {member.told(asks=False)}"
        [(_, _, phantom)] = member.phantoms
        member.others[0].took(message)
        assert phantom.context == member.others[0].context(), "stamp: not what its client has seen"
        member.run(ASK - 1)
        assert len(member.told(asks=False)) == 1, "thrift: told again"


def check_tells_what_was_taken(make: type[Replica]) -> None:
    """What waits in the inbox is not told: the client has not seen it."""
    for engine in ORDERING:
        member = Member(make, engine, 2)
        member.do(member.replica.receive(1, member.others[1].tag(b""), 0))
        member.run(4 * TELL)
        assert member.told(asks=False) == [], "early: told before the client took it"
        member.replica.take(member.now)
        member.run(member.now + 2 * TELL + 1)
        assert len(member.told(asks=False)) == 1, "late: taken and not told"


def check_asks_the_silent(make: type[Replica]) -> None:
    """Who has been heard of is not asked; who holds the oldest open message back is."""
    for engine in ORDERING:
        member = Member(make, engine, 4)
        message = member.send()
        for me in (1, 3):
            member.others[me].took(message)
            member.hear(me)
        member.run(ASK + TELL)
        assert member.told(asks=True) == [(2,)], f"asks: {member.told(asks=True)} instead of member 2"


def check_answers(make: type[Replica]) -> None:
    """A member that asks is answered at once, and no other; a member that tells is not."""
    for engine in ORDERING:
        member = Member(make, engine, 3)
        assert member.hear(1) == [], "thrift: an answer without a question"
        effects = member.hear(2, asks=True)
        assert [effect.peers for effect in effects if isinstance(effect, Transmit)] == [(2,)], "answers: not"
        assert member.told(asks=False) == [(2,)], "answers: with a question"
        assert member.phantoms[0][2].context == member.others[0].context(), "stamp: of an answer"


def check_sweeps_in_batches(make: type[Replica]) -> None:
    """After half as many messages or phantoms as there are members, without any wake-up."""
    for engine, by_phantom in product(ORDERING, (False, True)):
        member = Member(make, engine, 4)
        first = member.send()
        for me in (1, 2, 3):
            member.others[me].took(first)
            if by_phantom:
                member.hear(me)
            else:
                member.receive(me, member.others[me].tag(b""))
        assert [tag.dot for tag in member.replica.stable] == [first.dot], "late: nothing was swept"
        assert [dot for _, dot in member.rows.of(STABLE)] == [first.dot], "trace: a stable message"
        assert member.replica.unstable == (0 if by_phantom else 3), "unstable: miscounted"


def check_sweeps_at_wake_ups(make: type[Replica]) -> None:
    """What a batch was not filled for is found at the next wake-up."""
    for engine in ORDERING:
        member = Member(make, engine, 8)
        message = member.send()
        for me in range(1, 8):
            member.others[me].took(message)
        for me in (1, 1, 1, 2, 3, 4, 5, 6, 7):
            member.hear(me)
        assert not member.replica.stable, "early: the batch is not full"
        member.run(2 * TELL)
        assert [tag.dot for tag in member.replica.stable] == [message.dot], "late: nothing was swept"


def check_rests(make: type[Replica]) -> None:
    """Not drained while anything is open or to be told; silent when nothing is."""
    for engine in ORDERING:
        member = Member(make, engine, 2)
        member.receive(1, member.others[1].tag(b""))
        member.run(TELL // 2)  # acknowledged by now
        assert not member.drained(), "rest: drained with something to tell"
        member.run(60 * TELL)
        assert member.drained(), "rest: not drained"
        assert not member.alarms, "rest: it still asks for wake-ups"
        own = [member.send() for _ in range(3)][-1]
        assert len(member.alarms) == 2, f"silence: {len(member.alarms)} wake-ups, not spread's and herald's"
        member.do(member.replica.receive(1, Ack((3, 0), ()), member.now))
        member.run(member.now + TELL)
        assert len(member.alarms) == 1, f"silence: {len(member.alarms)} wake-ups, not the herald's alone"
        assert not member.drained(), "rest: drained with an open message"
        member.others[1].took(own)
        member.hear(1)
        assert member.replica.reached(own.dot) == 2, "reached: member 1 has told"


def check_restart(make: type[Replica]) -> None:
    """Back from a crash: the frontier is in the trace, and wake-ups are asked for anew."""
    for engine in ORDERING:
        member = Member(make, engine, 3)
        received = member.others[1].tag(b"")
        member.receive(1, received)
        own = member.send()
        member.alarms.clear()
        member.now = 100 * TELL
        member.do(member.replica.restart(member.now))
        [(kind, dot)] = member.rows.of(RESTART)
        frontier = {own.dot} if engine.stamps_are_dots else {own.dot, received.dot}
        assert (kind, dot, set(member.rows.deps[0])) == (RESTART, 0, frontier), "trace: the restart"
        member.run(member.now + ASK + 2 * TELL)
        assert member.told(asks=True), "silence: no question after the crash"
        member = Member(make, engine, 3)
        member.receive(1, member.others[1].tag(b""))
        member.run(TELL // 2)  # acknowledged by now: only the herald has something to do
        member.alarms.clear()
        member.do(member.replica.restart(member.now))
        member.run(member.now + 2 * TELL)
        assert member.told(asks=False), "silence: nothing told after the crash"


def check_garbage(make: type[Replica]) -> None:
    """Phantoms that cannot be are refused and leave no trace."""
    for engine in ORDERING:
        member = Member(make, engine, 3)
        before = portrait(member.replica)
        lie = (pack(7, 1),) if engine.stamps_are_dots else (0,) * 9
        for asks in (False, True):
            try:
                member.replica.receive(1, Phantom(lie, asks), 0)
            except PeerError:
                assert portrait(member.replica) == before, "garbage: it left a trace"
            else:
                raise AssertionError("garbage: a phantom that cannot be was believed")


def check_refused_messages(make: type[Replica]) -> None:
    """A message that no member can have sent is refused before any part takes note of it, alone or in a
    batch: the one that should have come in its place is taken."""
    for engine in ORDERING:
        dots, stamps = engine.stamps_are_dots, 2 if engine.name == "vector-e2e" else 1
        for lie in ((pack(7, 1),), (pack(0, 1),)) if dots else ((1,) * 9, (1, 1, 0) * stamps):
            replica = make(0, 3, engine, Batched(Mesh(0, 3), 1000), Rows())
            bad = Message(pack(1, 1), lie, b"")
            truth = Message(pack(1, 1), () if dots else (0, 1, 0) * stamps, b"")
            for packet in (bad, Batch((truth, bad))):
                before = portrait(replica)
                try:
                    replica.receive(1, packet, 0)
                except PeerError:
                    assert portrait(replica) == before, "garbage: it left a trace"
                else:
                    raise AssertionError("garbage: a message that cannot be was believed")
            replica.receive(1, truth, 0)
            assert [message.dot for message in replica.inbox] == [truth.dot], "lost: taken for known"


def check_without(make: type[Replica]) -> None:
    """Without stability there are no tags, no phantoms and no wake-ups for them."""
    for engine in (*ORDERING, ENGINES["none"]):
        member = Member(make, engine, 2, stability=False)
        message = member.send()
        assert len(member.alarms) == 1, "silence: wake-ups for phantoms"
        if engine.name != "none":
            assert member.hear(1, asks=True) == [], "thrift: an answer without knowledge"
        member.run(4 * TELL)
        assert member.phantoms == [], "thrift: phantoms"
        assert (member.replica.unstable, member.replica.reached(message.dot)) == (0, 1), "reached: guessed"


PHANTOM_CHECKS: dict[str, ReplicaCheck] = {
    "tells all": check_tells_all,
    "tells what was taken": check_tells_what_was_taken,
    "asks the silent": check_asks_the_silent,
    "answers": check_answers,
    "sweeps in batches": check_sweeps_in_batches,
    "sweeps at wake-ups": check_sweeps_at_wake_ups,
    "rests": check_rests,
    "restart": check_restart,
    "garbage": check_garbage,
    "refused messages": check_refused_messages,
    "without": check_without,
}

ALL_REPLICA_CHECKS = REPLICA_CHECKS | PHANTOM_CHECKS
