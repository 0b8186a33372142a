"""What a replica must pass: the tags, the trace and the deliveries are what its *client* saw.

Each check is a function of the class, so that planted bugs can be put in its place.
"""

from collections.abc import Callable
from functools import partial
from itertools import product
from random import Random

from support.air import SECOND, Air, Weather
from support.schedules import Truth
from thence.core.machine import Effect, Packet, Transmit
from thence.core.message import Message
from thence.core.tag import Tag
from thence.order.engine import Engine
from thence.order.engines import ENGINES
from thence.replica.replica import ClientDelivery, Replica
from thence.spread.mesh import Mesh
from thence.trace.recorder import DELIVER, DUPLICATE, HOLD, SEND, STABLE, START

ReplicaCheck = Callable[[type[Replica]], None]

ORDERING = [kind for kind in ENGINES.values() if kind.name != "none"]


class Rows:
    """A recorder that keeps rows as tuples."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int]] = []
        self.deps: dict[int, tuple[int, ...]] = {}

    def record(self, kind: int, dot: int, now: int) -> None:
        self.rows.append((kind, dot))

    def record_deps(self, kind: int, dot: int, deps: tuple[int, ...], now: int) -> None:
        self.deps[dot] = deps
        self.record(kind, dot, now)

    def of(self, *kinds: int) -> list[tuple[int, int]]:
        return [row for row in self.rows if row[0] in kinds]


class Replicas:
    """A group of replicas in the air, with clients whose every call is written down beside them."""

    def __init__(
        self,
        make: type[Replica],
        engine: Engine,
        size: int,
        weather: Weather,
        seed: int,
        stability: bool = False,
    ) -> None:
        self.size = size
        self.stability = stability
        self.air = Air(weather, Random(seed))
        self.rows = [Rows() for _ in range(size)]
        self.replicas = [
            make(me, size, engine, Mesh(me, size), self.rows[me], stability) for me in range(size)
        ]
        self.tags: list[dict[bytes, Tag]] = [{} for _ in range(size)]
        self.truth = Truth(size)
        self.calls: list[list[tuple[int, int]]] = [[] for _ in range(size)]
        self.names: dict[int, bytes] = {}
        self.arrived: list[list[int]] = [[] for _ in range(size)]
        for replica in self.replicas:
            replica.start(0)

    def submit(self, me: int) -> None:
        name = b"%d/%d" % (me, len(self.calls[me]))
        self.truth.sends(me, name)
        delivered = self.replicas[me].submit(name, self.air.now)
        message = delivered.message
        self._keep(me, delivered)
        assert message.payload == name, "mixed up: another message was sent"
        self.names[message.dot] = name
        self.calls[me].append((SEND, message.dot))
        self._check_deps(me, message)

    def take(self, me: int) -> None:
        delivered = self.replicas[me].take(self.air.now)
        message = delivered.message
        self._keep(me, delivered)
        self.truth.takes(me, message.payload)
        self.calls[me].append((DELIVER, message.dot))

    def _keep(self, me: int, delivered: ClientDelivery) -> None:
        assert (delivered.tag is not None) == self.stability, "tag: there is one exactly with stability"
        if delivered.tag is not None:
            assert delivered.tag.dot == delivered.message.dot, "tag: of another message"
            assert delivered.tag.context == delivered.message.context, "tag: the context is not whole"
            self.tags[me][delivered.message.payload] = delivered.tag

    def flush(self, me: int) -> None:
        self._carry_out(me, self.replicas[me].flush(self.air.now))

    def _check_deps(self, me: int, message: Message) -> None:
        """The context in the trace, with the sender's previous send, spells out the past: no less,
        no more."""
        deps = self.rows[me].deps[message.dot]
        sends = [dot for kind, dot in self.calls[me] if kind == SEND]
        named = {self.names[dot] for dot in (*deps, *sends[-2:-1])}
        told = named.union(*(self.truth.past[name] for name in named))
        past = self.truth.past[message.payload]
        assert told == past, f"stamp: {message.payload!r} tells of {told ^ past} too much or too little"

    def _arrive(self, sender: int, me: int, packet: Packet) -> None:
        if isinstance(packet, Message):
            self.arrived[me].append(packet.dot)
        self._carry_out(me, self.replicas[me].receive(sender, packet, self.air.now))

    def _carry_out(self, me: int, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Transmit):
                self.air.transmit(me, effect, self._arrive)
            else:
                self.air.plan(
                    effect.at, me, lambda: self._carry_out(me, self.replicas[me].wake(self.air.now))
                )

    def finish(self) -> None:
        """Everything arrives; then clients take what is left, and all is judged."""
        self.air.run()
        for me, replica in enumerate(self.replicas):
            assert not replica.outbox, f"lost: {me} sits on its outbox"
            assert replica.drained == (not replica.inbox), f"rest: {me} is wrong about being drained"
            while replica.inbox:
                self.take(me)
            assert replica.drained, f"rest: {me} is not drained"
            assert replica.waiting == 0, f"rest: {replica.waiting} wait at {me}"
        for me, seen in enumerate(self.truth.seen):
            assert seen == set(self.truth.past), f"lost: {me} misses {len(self.truth.past) - len(seen)}"
            self._check_rows(me)

    def _check_rows(self, me: int) -> None:
        rows, arrived = self.rows[me], self.arrived[me]
        assert rows.rows[0] == (START, 0), "trace: it does not begin with the start"
        assert rows.of(SEND, DELIVER) == self.calls[me], f"trace: not what the client of {me} saw"
        assert len(rows.of(DUPLICATE)) == len(arrived) - len(set(arrived)), "trace: duplicates"
        held = [dot for _, dot in rows.of(HOLD)]
        assert len(held) == len(set(held)), "trace: a message held twice"


def bad_weather(seed: int) -> Weather:
    return Weather(loss=0.2 * (seed % 2), duplicate=0.1, latency_us=(1_000, 300_000))


def check_two_queues(make: type[Replica]) -> None:
    """Clients send and take when they like, the middleware looks into the outbox when it likes."""
    for engine, seed in product(ORDERING, range(6)):
        rng = Random(seed)
        group = Replicas(make, engine, 3, bad_weather(seed), seed)
        client = partial(send_or_take, group, rng)
        for me in range(3):
            for _ in range(40):
                at = rng.randrange(2 * SECOND)
                group.air.plan(at, me, partial(client, me))
                group.air.plan(at + rng.randrange(100_000), me, partial(group.flush, me))
            group.air.plan(2 * SECOND + 100_000, me, partial(group.flush, me))
        group.finish()


def send_or_take(group: Replicas, rng: Random, me: int) -> None:
    if group.replicas[me].inbox and rng.random() < 0.6:
        group.take(me)
    elif rng.random() < 0.5:
        group.submit(me)


def check_callbacks(make: type[Replica]) -> None:
    """Everything is taken as it is released, and the callback may send."""
    for engine, seed in product(ORDERING, range(6)):
        rng = Random(seed)
        group = Replicas(make, engine, 4, bad_weather(seed), seed)
        for _ in range(150):
            me = rng.randrange(4)
            group.air.plan(rng.randrange(2 * SECOND), me, partial(take_and_answer, group, rng, me))
        group.finish()


def take_and_answer(group: Replicas, rng: Random, me: int) -> None:
    while group.replicas[me].inbox:
        group.take(me)
        if rng.random() < 0.3:
            group.submit(me)
    if rng.random() < 0.2:
        group.submit(me)
    group.flush(me)


def check_broadcast(make: type[Replica]) -> None:
    """Without queues: what is broadcast is tagged and leaves at once."""
    rows = Rows()
    replica = make(0, 2, ENGINES["graph"], Mesh(0, 2), rows, False)
    effects = replica.broadcast(b"hello", 7)
    sent = [effect.packet for effect in effects if isinstance(effect, Transmit)]
    assert [packet.payload for packet in sent if isinstance(packet, Message)] == [b"hello"]
    assert [kind for kind, _ in rows.rows] == [SEND]
    assert not replica.drained, "rest: drained with a message unacknowledged"


def check_stability(make: type[Replica]) -> None:
    """Tags compare as happens-before; what is called stable is; in the end everything is, everywhere."""
    for engine, seed in product(ORDERING, range(5)):
        rng = Random(seed)
        group = Replicas(make, engine, 3, bad_weather(seed), seed, stability=True)
        for me in range(3):
            speaks = rng.random() < 0.7  # some only ever listen
            for _ in range(30):
                at = rng.randrange(3 * SECOND)
                if speaks:
                    group.air.plan(at, me, partial(take_and_answer, group, rng, me))
            for at in range(0, 8 * SECOND, 100_000):
                group.air.plan(at, me, partial(take_all, group, me))
        group.finish()
        for me in range(3):
            check_stable_rows(group, me)
            check_tags(group, me, rng)


def take_all(group: Replicas, me: int) -> None:
    while group.replicas[me].inbox:
        group.take(me)


def check_stable_rows(group: Replicas, me: int) -> None:
    """Each message once, held by then, and in the past of whatever is delivered later."""
    past, names, stable, seen = group.truth.past, group.names, set[bytes](), set[bytes]()
    for kind, dot in group.rows[me].of(SEND, DELIVER, STABLE):
        name = names[dot]
        if kind == STABLE:
            assert name in seen, f"stable: {name!r} at {me} before it was seen"
            assert name not in stable, f"stable: {name!r} at {me} twice"
            assert past[name] <= stable, f"stable: {name!r} at {me} before its causes"
            stable.add(name)
        else:
            if kind == DELIVER:
                assert stable <= past[name], f"stable: too early at {me} for {name!r}"
            seen.add(name)
    assert stable == set(past), f"rest: {len(past) - len(stable)} messages never became stable at {me}"
    assert {names[tag.dot] for tag in group.replicas[me].stable} == stable, "stable: not told"
    assert all(group.replicas[me].reached(dot) == group.size for dot in names), "reached: not everyone"


def check_tags(group: Replicas, me: int, rng: Random) -> None:
    past, tags = group.truth.past, group.tags[me]
    names = sorted(tags)
    for one, other in ((rng.choice(names), rng.choice(names)) for _ in range(300 if names else 0)):
        a, b = tags[one], tags[other]
        assert a.before(b) == (one in past[other]), f"tag: {one!r} before {other!r}"
        assert a.after(b) == (other in past[one]), f"tag: {one!r} after {other!r}"
        related = one == other or one in past[other] or other in past[one]
        assert a.concurrent(b) == (not related), f"tag: {one!r} and {other!r}"


REPLICA_CHECKS: dict[str, ReplicaCheck] = {
    "two queues": check_two_queues,
    "callbacks": check_callbacks,
    "broadcast": check_broadcast,
    "stability": check_stability,
}
