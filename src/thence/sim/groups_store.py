"""A simulated process whose program is a store: random commands, each an operation of the group.

It does what `runtime/store_node.py` does on a live node: all commands of a turn are executed, then broadcast
in one step; operations that the group never had are not sent again as they were; keys are reaped. Clocks
differ.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from random import Random

from thence.core.errors import ApplicationError, ThenceError
from thence.core.groups import Place, process_of
from thence.replica.group.process.node import GroupNode
from thence.replica.group.surroundings import Applied, Orphan
from thence.replica.life_tag import LifeTag
from thence.sim.groups_fakes import NUMBER_BYTES, SimApplication
from thence.sim.groups_pasts import Pasts
from thence.store import commands, ops, snapshot
from thence.store.contents import Holding, contents
from thence.store.executor import Executor
from thence.store.ops import Part
from thence.store.replicated import again
from thence.store.state import StoreState

EPOCH_MS = 1_000_000
SKEW_MS = (-1500, 0, 0, 700)
REAP_AFTER_MS = 100
REAP_NEXT_MS = 1000

HEAD_BYTES = 4

KEYS = (b"a", b"b", b"c", b"{t}d")
NAMES = (b"x", b"y", b"z")

_ = commands


class SimStore(SimApplication):
    def __init__(self, name: str, pasts: Pasts, clock_us: Callable[[], int], seed: int | str) -> None:
        super().__init__(pasts)
        self._name = name
        self._random = Random(f"{seed}/store/{name}")
        self._wins = Random(f"{seed}/store").random() < 0.3
        self._skew = self._random.choice(SKEW_MS)
        self._clock = clock_us
        self._again: deque[tuple[Place, list[Part]]] = deque()
        self.payloads: dict[Place, bytes] = {}
        """Of every operation that took effect here at any time."""
        self._begin()

    def _begin(self) -> None:
        self.store = StoreState(f"{self._name}~0", self._wins)
        self._engine = Executor(self.store, self._now, Random(self._random.random()))
        self._client = self._engine.client("program")

    def _now(self) -> int:
        return self._clock() + (EPOCH_MS + self._skew) * 1000

    # Turns

    def compose(self, node: GroupNode, payload: bytes, count: int) -> list[bytes]:
        del payload
        if node.member is None or node.in_debt or node.member.view.leaving:
            return []
        if self.store.pending:
            raise ThenceError(f"{self._name}: operations took effect here and were never sent")
        engine = self._engine
        self.store.become(node.me)
        while self._again:
            engine.send_again(*self._again.popleft())
        rank = sorted(node.members).index(node.me) if node.me in node.members else 0
        upto = self._now() // 1000 - REAP_AFTER_MS - rank * REAP_NEXT_MS
        if self.store.space.overdue(upto):
            engine.perform([[ops.REAP, 0, b"", 0, 0, upto]])
        for _ in range(count):
            for words in command(self._random):
                engine.execute(self._client, words)
        made, engine.outbox = engine.outbox, []
        return made

    # `SimApplication`

    def begin(self) -> None:
        super().begin()
        self._again.clear()
        self._begin()

    def apply(self, one: Applied) -> None:
        super().apply(one)
        operation = one.operation
        payload = operation.payload[NUMBER_BYTES if self.numbered else 0 :]
        self.payloads[self.known_as(operation)] = payload
        self.store.deliver(*operation.dot, payload, one.tag)

    def stable(self, found: Sequence[LifeTag]) -> None:
        self.store.known(found)
        for tag in found:
            self.store.stable(*tag.dot)

    def state(self) -> bytes:
        order = super().state()
        return len(order).to_bytes(HEAD_BYTES, "big") + order + snapshot.dump(self.store)

    def install(self, state: bytes) -> None:
        end = HEAD_BYTES + int.from_bytes(state[:HEAD_BYTES], "big")
        super().install(state[HEAD_BYTES:end])
        try:
            snapshot.load(self.store, state[end:])
        except ThenceError as error:
            raise ApplicationError(f"a state that is none: {error}") from error

    def sends_again(self, orphan: Orphan) -> bool:  # noqa: ARG002
        return False

    def orphaned(self, orphan: Orphan) -> None:
        super().orphaned(orphan)
        if process_of(orphan.operation.dot[0]) == self._name:
            payload = orphan.operation.payload[NUMBER_BYTES if self.numbered else 0 :]
            kept, _ = again(payload)
            if kept:
                self._again.append((orphan.operation.dot, kept))

    # At rest

    def holds(self) -> list[Holding]:
        return list(contents(self.store))

    def keeps(self) -> int:
        """Operations of which more than their effect is kept."""
        return self.store.unstable + len(self.store.space.flight)


def command(random: Random) -> Iterator[list[bytes]]:
    """One at random, or a transaction."""
    if random.random() < 0.1:
        yield [b"MULTI"]
        for _ in range(random.randint(1, 3)):
            yield _one(random)
        yield [b"EXEC"]
    else:
        yield _one(random)


def _one(random: Random) -> list[bytes]:
    """Some are refused: of another kind, or of a key that is not there."""
    key, other, name = random.choice(KEYS), random.choice(KEYS), random.choice(NAMES)
    number = b"%d" % random.randrange(-3, 9)
    value = random.choice((number, name))
    soon = b"%d" % random.choice((200, 900, 4000))
    templates = (
        (b"SET", key, value), (b"SET", key, value, b"PX", soon), (b"SETNX", key, value),
        (b"INCRBY", key, number), (b"INCRBYFLOAT", key, b"0.5"), (b"APPEND", key, name),
        (b"SETRANGE", key, b"2", name),
        (b"SETBIT", key, b"5", b"1"), (b"GETDEL", key), (b"DEL", key), (b"DEL", key, other),
        (b"PEXPIRE", key, soon), (b"PERSIST", key), (b"RENAME", key, other),
        (b"COPY", key, other, b"REPLACE"),
        (b"SADD", key, name, value), (b"SADD", key, name), (b"SREM", key, name), (b"SPOP", key),
        (b"SMOVE", key, other, name), (b"HSET", key, name, value), (b"HINCRBY", key, name, number),
        (b"HDEL", key, name), (b"HSETNX", key, name, value), (b"ZADD", key, number, name),
        (b"ZADD", key, b"GT", number, name), (b"ZINCRBY", key, number, name), (b"ZREM", key, name),
        (b"ZPOPMIN", key), (b"FLUSHDB",), (b"MOVE", key, b"1"),
    )  # fmt: skip
    found = list(random.choice(templates))
    if found[0] == b"FLUSHDB" and random.random() < 0.8:
        found = [b"GET", key]
    return found
