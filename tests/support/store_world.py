"""A group of stores without nodes: operations are delivered in causal order at any moment, become stable as
early as they can be, replicas begin anew from their own state or join from another's."""

from random import Random
from typing import Any

from support.store_model import Id, Model, Op
from thence.core.machine import NEVER
from thence.crdt import steps
from thence.crdt.bits import INCRBY, SAT
from thence.crdt.cells import CellMap
from thence.store import ops
from thence.store.ops import Part
from thence.store.slots import Assigned, Counted, Slot
from thence.store.snapshot import dump, load
from thence.store.state import StoreState

KEYS = (b"k", b"l")
NAMES = (b"x", b"y")


class Past:
    """`Cause`: what an operation saw, whole."""

    def __init__(self, op: Op) -> None:
        self.op = op

    def before(self, other: "Past", /) -> bool:
        return self.op.id in other.op.past

    def saw(self, origin: str, seq: int, /) -> bool:
        return (origin, seq) in self.op.past


class World:
    def __init__(self, seed: int, replicas: int, remove_wins: bool = False, expiry: bool = True) -> None:
        self.random = Random(seed)
        self.remove_wins = remove_wins
        self.expiry = expiry
        self.focus = False
        """Updates of one string, and little else."""
        self.counts = False
        """Increments of one key, deletes, and little else."""
        self.now = 1000
        self.ops: dict[Id, tuple[Op, bytes]] = {}
        self.messages: list[list[Id]] = []
        """Operations of one turn travel together, and share a tag."""
        self.stores: dict[str, StoreState] = {}
        self.seen: dict[str, dict[Id, None]] = {}
        self.announced: dict[str, set[Id]] = {}
        for number in range(replicas):
            self._add(f"{chr(97 + number)}")

    def _add(self, name: str) -> None:
        self.stores[name] = StoreState(name, self.remove_wins)
        self.seen[name] = {}
        self.announced[name] = set()

    def _clock(self, name: str) -> int:
        """Clocks differ."""
        return self.now + 500 * (ord(name) % 3)

    # What happens

    def step(self) -> None:
        chance = self.random.random()
        name = self.random.choice(sorted(self.stores))
        if chance < 0.45:
            self.turn(name)
        elif chance < 0.85:
            self.deliver(name)
        elif chance < 0.93:
            self.stabilise(name)
        elif chance < 0.96:
            self.restart(name)
        elif chance < 0.97 and len(self.stores) < 6:
            self.join(name)
        else:
            self.now += self.random.randrange(3)

    def make(self, name: str, parts: list[Part] | None = None, several: bool = False) -> Op:
        state = self.stores[name]
        mark = state.begin(self._clock(name))
        made: list[Part] = []
        for index in range(
            1 if parts is None and self.random.random() < 0.7 else 3 if parts is None else len(parts)
        ):
            part = self.part(state) if parts is None else parts[index]
            if made:
                state.space.add(mark, part)
            else:
                state.space.apply(mark, [part])
            made.append(part)
        past = frozenset(self.seen[name])
        payload = state.finish(mark)
        if not several:
            self.messages.append([])
        seq = 1 + max([seq for origin, seq in self.seen[name] if origin == name], default=0)
        op = Op((name, seq), mark.time, past, made)
        self.ops[op.id] = op, payload
        self.messages[-1].append(op.id)
        self.seen[name][op.id] = None
        if not several:
            state.deliver(name, seq, payload, Past(op))
        return op

    def turn(self, name: str) -> None:
        if self.random.random() < 0.8:
            self.make(name)
            return
        self.messages.append([])
        for _ in range(2):
            self.make(name, several=True)
        self._take(name, self.messages[-1])

    def take(self, name: str, op: Op) -> None:
        self._take(name, [op.id])

    def _take(self, name: str, message: list[Id]) -> None:
        tag = Past(self.ops[message[-1]][0])
        for id in message:
            self.stores[name].deliver(*id, self.ops[id][1], tag)
            self.seen[name][id] = None

    def part(self, state: StoreState) -> Part:
        random = self.random
        if self.focus and random.random() < 0.9:
            return [ops.UPDATE, 0, KEYS[0], 0, 0, (steps.APPEND, random.choice((b"a", b"b", b"1")))]
        key = random.choice(KEYS)
        found = state.space.databases[0].get(key, self.now)
        fresh = int(found is None)
        held = state.space.databases[0].deadline(key)
        bound = held if not fresh and held < NEVER else 0
        if self.counts and random.random() < 0.9:
            key = KEYS[0]
            fresh = int(state.space.databases[0].get(key, self.now) is None)
            if random.random() < 0.15:
                return [ops.DELETE, 0, key, 0, 0, 0]
            return [ops.UPDATE, 0, key, fresh, 0, (steps.INCR, random.choice((1, 7, -40, 300, 1 << 61)))]
        code = random.choice((
            ops.SET, ops.UPDATE, ops.UPDATE, ops.DELETE, ops.STATE, ops.SET_ADD, ops.SET_ADD, ops.SET_REMOVE,
            ops.FIELD_SET, ops.FIELD_UPDATE, ops.FIELD_REMOVE, ops.SCORE_SET, ops.SCORE_UPDATE,
            ops.SCORE_REMOVE, ops.FLUSH, ops.REAP,
        ))  # fmt: skip
        deadline = self.now + random.randrange(1, 6) if self.expiry and random.random() < 0.5 else NEVER
        if code == ops.REAP:
            return [ops.REAP, 0, b"", 0, 0, self.now] if self.expiry else [ops.DELETE, 0, key, 0, 0, 0]
        if code == ops.FLUSH:
            return [ops.FLUSH, 0, b"", 0, 0] if random.random() < 0.3 else [ops.DELETE, 0, key, 0, 0, 1]
        if code == ops.STATE:
            return [ops.STATE, 0, key, 0, 0, deadline]
        if code == ops.DELETE:
            return [ops.DELETE, 0, key, 0, 0, 0]
        head = [code, 0, key, fresh, bound]
        name = random.choice(NAMES)
        if code == ops.SET:
            return [code, 0, key, 0, 0, random.choice((b"v", b"w", 7, -1)), deadline]
        if code == ops.UPDATE:
            return [*head, self.string_update()]
        if code == ops.SET_ADD:
            return [*head, *sorted({name, random.choice(NAMES)})]
        if code in (ops.SET_REMOVE, ops.FIELD_REMOVE, ops.SCORE_REMOVE):
            return [code, 0, key, 0, 0, name]
        if code == ops.FIELD_SET:
            return [*head, name, random.choice((b"v", 5))]
        if code == ops.FIELD_UPDATE:
            return [*head, name, self.string_update()]
        if code == ops.SCORE_SET:
            return [*head, name, random.choice((1.5, -2.0, 8.0))]
        step = random.choice((steps.ADD, steps.GREATER, steps.LESS, steps.CLAIM))
        return [*head, name, (step, random.choice((0.1, 2.0, -3.0)))]

    def string_update(self) -> tuple[Any, ...]:
        random = self.random
        return random.choice((
            (steps.INCR, random.randrange(1, 5)), (steps.INCR, (1 << 63) - 5), (steps.INCR_FLOAT, b"0.5"),
            (steps.APPEND, random.choice((b"a", b"1"))), (steps.SET_RANGE, random.randrange(3), b"z"),
            (steps.SET_BIT, random.randrange(8), random.randrange(2)),
            (steps.CLAIM, random.choice((b"c", 3))),
            (steps.BIT_FIELD, [[INCRBY, 0, 4, 2, 9, SAT]]),
        ))  # fmt: skip

    def deliver(self, name: str) -> bool:
        seen = self.seen[name]
        ready = [
            message for message in self.messages
            if message[0] not in seen and self.ops[message[0]][0].past <= seen.keys()
        ]  # fmt: skip
        if ready:
            self._take(name, self.random.choice(ready))
        return bool(ready)

    def stabilise(self, name: str) -> None:
        """What everything still to come follows from: as early as it can be known."""
        seen = self.seen[name]
        missing = [op for id, (op, _) in self.ops.items() if id not in seen]
        for id in list(seen):
            if id in self.announced[name]:
                continue
            if all(id in other for other in self.seen.values()) and all(id in op.past for op in missing):
                self.announced[name].add(id)
                self.stores[name].stable(*id)

    def restart(self, name: str) -> None:
        old = self.stores[name]
        fresh = StoreState(name, self.remove_wins)
        load(fresh, dump(old))
        self.stores[name] = fresh

    def join(self, contact: str) -> None:
        name = chr(97 + len(self.stores))
        self._add(name)
        load(self.stores[name], dump(self.stores[contact]))
        self.seen[name] = dict(self.seen[contact])
        self.announced[name] = set(self.announced[contact])

    def settle(self) -> None:
        for name in self.stores:
            while self.deliver(name):
                pass

    # What must hold

    def check(self) -> None:
        for name in self.stores:
            self.check_one(name)

    def check_one(self, name: str) -> None:
        delivered = [self.ops[id][0] for id in self.seen[name]]
        database = self.stores[name].space.databases[0]
        for key in KEYS:
            model = Model(delivered, 0, key, self.remove_wins)
            shown = shows(database.keys.get(key))
            meant = {
                "string": model.string(), "hash": model.cells(ops.FIELD_SET),
                "zset": model.cells(ops.SCORE_SET), "set": model.elements(),
            }  # fmt: skip
            assert shown == meant, (name, key)
            assert database.deadline(key) == model.deadline(), (name, key)

    def check_stripped(self) -> None:
        """Everything was delivered everywhere and is stable: plain values are left."""
        for name, state in self.stores.items():
            self.stabilise(name)
            space = state.space
            assert not space.flight
            assert not space.swept
            assert not space.reaps
            assert state.unstable == 0
            for key, slot in space.databases[0].keys.items():
                assert not isinstance(slot, Assigned | Counted)
                if isinstance(slot, Slot):
                    assert not slot.empty, key
                    assert type(slot.string) in (int, bytes, type(None)), key
                    assert not any(
                        part.loose for part in (slot.hash, slot.zset, slot.set) if part is not None
                    )
            assert all(isinstance(one, int) for one in space.databases[0].deadlines.values())


def shows(slot: Any) -> dict[str, Any]:
    if isinstance(slot, Assigned | Counted):
        slot = slot.value
    if not isinstance(slot, Slot):
        return {"string": slot, "hash": {}, "zset": {}, "set": set()}
    string = getattr(slot.string, "value", slot.string)
    return {
        "string": string, "hash": _items(slot.hash), "zset": _items(slot.zset),
        "set": set() if slot.set is None else set(slot.set.elements()),
    }  # fmt: skip


def _items(cells: CellMap[Any] | None) -> dict[bytes, Any]:
    return {} if cells is None else dict(cells.items())


def run(
    seed: int,
    replicas: int,
    steps_most: int,
    remove_wins: bool,
    expiry: bool = True,
    focus: bool = False,
    counts: bool = False,
) -> None:
    world = World(seed, replicas, remove_wins, expiry)
    world.focus, world.counts = focus, counts
    for _ in range(steps_most):
        world.step()
        if world.random.random() < (0.5 if focus or counts else 0.1):
            world.check_one(world.random.choice(sorted(world.stores)))
    world.check()
    world.settle()
    world.check()
    world.check_stripped()
    world.check()


def reap_beside_a_statement(early: bool) -> None:
    """A reap that did not see a longer deadline goes by what it saw, at every replica; whether or not that
    is stable where the longer one was stated."""
    world = World(0, 3)
    world.make("a", [[ops.SET_ADD, 0, b"k", 1, 0, b"x"], [ops.STATE, 0, b"k", 0, 0, world.now + 5]])
    for name in "bc":
        world.deliver(name)
    world.make("b", [[ops.STATE, 0, b"k", 0, 0, world.now + 900]])
    if early:
        world.stabilise("b")
    world.now += 10
    world.make("a", [[ops.REAP, 0, b"", 0, 0, world.now]])
    world.settle()
    world.check()
    world.check_stripped()
    world.check()


def set_over_set(early: bool) -> None:
    """A SET over one that is not stable, beside a third that did not see it."""
    world = World(0, 3)
    first = world.make("a", [_set(b"v")])
    for name in "bc":
        world.take(name, first)
    over = world.make("b", [_set(b"w")])
    beside = world.make("c", [_set(b"x")])
    world.take("a", over)
    if early:
        world.stabilise("a")
    world.take("a", beside)
    world.check_one("a")
    world.settle()
    world.check()
    world.check_stripped()
    world.check()


def reap_beside_set_over_set() -> None:
    """A reap goes by a SET that it saw and another has replaced since: the key did not expire for it."""
    world = World(0, 4)
    base = world.make("a", [_set(b"v")])
    for name in "bcd":
        world.take(name, base)
    for name in "abcd":
        world.stabilise(name)
    short = world.make("c", [[ops.STATE, 0, b"k", 0, 0, world.now + 5]])
    first = world.make("a", [_set(b"w")])
    world.take("b", first)
    over = world.make("b", [_set(b"x")])
    shorter = world.make("b", [[ops.STATE, 0, b"k", 0, 0, world.now + 2]])
    world.take("d", short)
    world.take("d", first)
    reap = world.make("d", [[ops.REAP, 0, b"", 0, 0, world.now + 10]])
    for one in (over, short, reap, shorter):
        world.take("a", one)
        world.check_one("a")
    world.settle()
    world.check()
    world.check_stripped()
    world.check()


def _set(value: bytes) -> Part:
    return [ops.SET, 0, b"k", 0, 0, value, NEVER]
