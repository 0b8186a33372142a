"""A group of clients and orderers over a network made of lists, and the truth about what they did.

Nothing here has a clock: a schedule is a sequence of steps (a client sends, a queue moves, some
packet in flight arrives, is lost, repeated or doubled), and the driver of the model chooses the
next one. Every step is judged at once against `Truth`, which knows only what the clients saw.
Messages are told apart by their payloads, so that an engine cannot vouch for its own stamps.
"""

from collections import deque
from collections.abc import Callable
from itertools import count

from thence.core.machine import Forward, OrderEffect
from thence.core.message import Message
from thence.order.engine import Engine

ACTS = ("submit", "flush", "arrive", "duplicate", "lose", "repeat", "take")
"""The names of the steps that `Model.step` knows, for callers that draw them at random."""


class Truth:
    """End-to-end happens-before between sends (section 3.3), as sets, from sends and deliveries alone."""

    def __init__(self, size: int) -> None:
        self.past: dict[bytes, frozenset[bytes]] = {}
        self.seen: list[set[bytes]] = [set() for _ in range(size)]

    def sends(self, me: int, name: bytes) -> None:
        self.past[name] = frozenset(self.seen[me])
        self.seen[me].add(name)

    def takes(self, me: int, name: bytes) -> None:
        assert name in self.past, f"unsent: {name!r} delivered at {me}"
        assert name not in self.seen[me], f"twice: {name!r} delivered at {me}"
        missing = self.past[name] - self.seen[me]
        assert not missing, f"order: {name!r} delivered at {me} before {sorted(missing)}"
        self.seen[me].add(name)

    def reduced(self, past: frozenset[bytes]) -> set[bytes]:
        """The messages of `past` that are in the past of no other of them."""
        return {name for name in past if not any(name in self.past[other] for other in past)}


class Node:
    """One member: the two halves of its engine, the queues between them, and what passed there."""

    def __init__(self, engine: Engine, me: int, size: int) -> None:
        self.tagger = engine.tagger(me, size)
        self.orderer = engine.orderer(me, size)
        self.outbox: deque[bytes] = deque()
        self.inbox: deque[Message] = deque()
        self.received: set[bytes] = set()
        self.released: set[bytes] = set()
        """Own messages that left count as released: others may depend on them."""
        self.sends = count(1)


class Model:
    """The group. `tag_at_flush` and `took_at_release` wire the halves together as section 3.6 warns
    against: stamps made from what the middleware did, not from what the client saw. Such a model is
    not `strict`: its stamps say too much, and it holds messages back for nothing."""

    def __init__(
        self,
        engine: Engine,
        size: int,
        *,
        tag_at_flush: bool = False,
        took_at_release: bool = False,
        strict: bool = True,
    ) -> None:
        self.engine = engine
        self.tag_at_flush = tag_at_flush
        self.took_at_release = took_at_release
        self.strict = strict
        self.nodes = [Node(engine, me, size) for me in range(size)]
        self.truth = Truth(size)
        self.flights: list[tuple[int, int, Message]] = []
        """Packets under way: to whom, from whom, what."""
        self.lost: list[tuple[int, int, Message]] = []
        self.messages: dict[bytes, Message] = {}
        self.named: dict[int, bytes] = {}
        self.moments: list[tuple[int, frozenset[bytes]]] = []
        """For every arrival, where it was and what it released."""

    # What a client does.

    def submit(self, me: int) -> bytes:
        """The client sends; the message waits in the outbox."""
        node = self.nodes[me]
        name = b"%d/%d" % (me, next(node.sends))
        self.truth.sends(me, name)
        if not self.tag_at_flush:
            self._tag(me, name)
        node.outbox.append(name)
        return name

    def take(self, me: int) -> bytes:
        """The client takes the next message from its inbox."""
        node = self.nodes[me]
        message = node.inbox.popleft()
        if not self.took_at_release:
            node.tagger.took(message)
        self.truth.takes(me, message.payload)
        self._check_stamp(message)
        return message.payload

    def callbacks(self, me: int, reply: Callable[[], bool]) -> None:
        """The callback model: everything released is handed over in a row, a callback may send, and
        what it sends leaves when the row is done."""
        while self.nodes[me].inbox:
            self.take(me)
            if reply():
                self.submit(me)
        self.flush_all(me)

    # What the middleware and the network do.

    def flush(self, me: int) -> None:
        """The middleware takes the next message from the outbox and broadcasts it."""
        node = self.nodes[me]
        name = node.outbox.popleft()
        if self.tag_at_flush:
            self._tag(me, name)
        message = self.messages[name]
        node.released.add(name)
        message = node.orderer.stamp(message)
        self._carry_out(me, node.orderer.sent(message, 0))
        self.flights.extend((peer, me, message) for peer in range(len(self.nodes)) if peer != me)

    def flush_all(self, me: int) -> None:
        while self.nodes[me].outbox:
            self.flush(me)

    def arrive(self, flight: int) -> frozenset[bytes]:
        """A packet arrives, for the first time or again; what the orderer released for it."""
        me, via, message = self.flights.pop(flight)
        node = self.nodes[me]
        node.received.add(message.payload)
        before = len(node.inbox)
        self._carry_out(me, node.orderer.receive(message, via, 0))
        batch = frozenset(released.payload for released in list(node.inbox)[before:])
        self.moments.append((me, batch))
        return batch

    def duplicate(self, flight: int) -> None:
        self.flights.append(self.flights[flight])

    def lose(self, flight: int) -> None:
        self.lost.append(self.flights.pop(flight))

    def repeat(self) -> None:
        """Lost packets are sent again."""
        self.flights.extend(self.lost)
        self.lost.clear()

    def admit(self) -> int:
        """A new member comes, known to all at once, and is sent everything from the beginning."""
        me, size = len(self.nodes), len(self.nodes) + 1
        for node in self.nodes:
            node.tagger.admit(me)
            node.orderer.admit(me)
        left = [(who, name) for who, node in enumerate(self.nodes) for name in sorted(node.released)]
        self.nodes.append(Node(self.engine, me, size))
        self.truth.seen.append(set())
        own = [(who, name) for who, name in left if name.startswith(b"%d/" % who)]
        self.flights.extend((me, who, self.messages[name]) for who, name in own)
        return me

    # Driving.

    def step(self, act: str, pick: int) -> None:
        """One step by its name; `pick` chooses among whatever there is to choose from. A step that
        is not possible now is passed over."""
        node = pick % len(self.nodes)
        if act == "submit":
            self.submit(node)
        elif act == "flush" and self.nodes[node].outbox:
            self.flush(node)
        elif act == "take" and self.nodes[node].inbox:
            self.take(node)
        elif act == "repeat":
            self.repeat()
        elif act in ("arrive", "duplicate", "lose") and self.flights:
            getattr(self, act)(pick % len(self.flights))

    def finish(self) -> None:
        """Faults stop: everything arrives and is taken. Then every node must have everything."""
        for me in range(len(self.nodes)):
            self.flush_all(me)
        self.repeat()
        while self.flights:
            self.arrive(0)
        for me, node in enumerate(self.nodes):
            while node.inbox:
                self.take(me)
        everything = set(self.truth.past)
        for me, seen in enumerate(self.truth.seen):
            assert seen == everything, f"lost: {me} never got {sorted(everything - seen)}"
        for me, node in enumerate(self.nodes):
            assert node.orderer.waiting == 0, f"rest: {me} says that {node.orderer.waiting} wait"
            fresh = self.engine.orderer(me, len(self.nodes))
            grown = weight(node.orderer) - weight(fresh)
            assert grown == 0, f"rest: the orderer of {me} keeps {grown} things for nothing"

    # One named event after another, for tests that tell a story.

    def broadcast(self, me: int) -> bytes:
        """Submit and flush in one."""
        name = self.submit(me)
        self.flush_all(me)
        return name

    def bring(self, name: bytes, me: int) -> frozenset[bytes]:
        """The packet with `name` for `me` arrives; what the orderer released for it."""
        for place, (to, _, message) in enumerate(self.flights):
            if to == me and message.payload == name:
                return self.arrive(place)
        raise AssertionError(f"{name!r} is not under way to {me}")

    def deliver(self, name: bytes, me: int) -> list[bytes]:
        """The packet arrives and the client takes whatever became deliverable."""
        self.bring(name, me)
        return [self.take(me) for _ in range(len(self.nodes[me].inbox))]

    def spelled(self, message: Message) -> frozenset[bytes] | None:
        """The past that a message's stamp and its sender's previous send spell out."""
        dots = self.engine.predecessors(message)
        if dots is None:
            return None
        me, number = message.payload.split(b"/")
        named = {self.named[dot] for dot in dots if dot in self.named}
        assert len(named) == len(dots), f"stamp: {message.payload!r} names messages never sent: {dots}"
        if int(number) > 1:
            named.add(b"%d/%d" % (int(me), int(number) - 1))
        return frozenset(named).union(*(self.truth.past[name] for name in named))

    # The checks of every step.

    def _tag(self, me: int, name: bytes) -> None:
        message = self.nodes[me].tagger.tag(name)
        assert message.dot not in self.named, f"dot: {name!r} has the dot of {self.named[message.dot]!r}"
        self.named[message.dot] = name
        self.messages[name] = message
        self._check_stamp(message)

    def _check_stamp(self, message: Message) -> None:
        """At the sender and at every delivery: what arrives is what the application gets to see."""
        told = self.spelled(message) if self.strict else None
        if told is None:
            return
        past, name = self.truth.past[message.payload], message.payload
        assert not past - told, f"stamp: {name!r} does not tell of {sorted(past - told)}"
        assert not told - past, f"stamp: {name!r} claims to follow {sorted(told - past)}"

    def _carry_out(self, me: int, effects: list[OrderEffect]) -> None:
        node = self.nodes[me]
        for effect in effects:
            if isinstance(effect, Message):
                name = effect.payload
                assert name in node.received, f"unsent: {me} releases {name!r}, which did not arrive"
                assert name not in node.released, f"twice: {me} releases {name!r}"
                missing = self.truth.past[name] - node.released
                assert not missing, f"order: {me} releases {name!r} before {sorted(missing)}"
                node.released.add(name)
                node.inbox.append(effect)
                if self.took_at_release:
                    node.tagger.took(effect)
            elif isinstance(effect, Forward):
                self.flights.extend((peer, me, effect.message) for peer in effect.peers)
        held = node.received - node.released
        waiting = node.orderer.waiting
        assert waiting >= len(held), f"lost: {me} forgot {len(held) - waiting} of {sorted(held)}"
        assert waiting <= len(held), f"waiting: {me} says that {waiting} wait, not {len(held)}"
        if self.strict and self.engine.prompt:
            idle = sorted(name for name in held if self.truth.past[name] <= node.released)
            assert not idle, f"held: {me} holds {idle} for nothing"


def portrait(thing: object) -> object:
    """The state of an object as nested tuples, to tell whether it changed."""
    if isinstance(thing, dict):
        return tuple((portrait(key), portrait(value)) for key, value in thing.items())
    if isinstance(thing, set | frozenset):
        return tuple(sorted(map(portrait, thing), key=repr))
    if isinstance(thing, list | tuple | deque):
        return tuple(map(portrait, thing))
    if type(thing).__module__ == "builtins" or callable(thing):
        return thing
    slots = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
    fields = {name: getattr(thing, name) for name in slots} | getattr(thing, "__dict__", {})
    return tuple((name, portrait(value)) for name, value in sorted(fields.items()))


def weight(thing: object) -> int:
    """How many values an object holds, all the way down: a leak shows as growth."""

    def leaves(state: object) -> int:
        return sum(map(leaves, state)) if isinstance(state, tuple) else 1

    return leaves(portrait(thing))
