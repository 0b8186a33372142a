"""A store inside a program: `thence.Store`.

    async with thence.Store("a", data="a/", join=["127.0.0.1:7102"]) as store:
        await store.execute("SADD", "s", "a")
        await store.smembers("s")

Every call is one command, or one transaction (`transaction`); it returns when its operation is in the log.
`LocalStores` is several stores in one test, without sockets.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Final

from thence.core.errors import UsageError
from thence.core.groups import Place
from thence.replica.life_tag import Sent
from thence.runtime.node import enter
from thence.runtime.opening import open_node
from thence.runtime.program_log import ProgramLog
from thence.runtime.running import wall_clock
from thence.runtime.store_node import StoreNode
from thence.store import commands
from thence.store.client import Client
from thence.store.executor import Executor
from thence.store.host import Alone, Later
from thence.store.reply import Fail, Reply
from thence.store.state import StoreState

_ = commands
Word = bytes | str | int | float


class StoreError(UsageError):
    """What a Redis client would be told: the text begins with its code."""


def words(given: Sequence[Word]) -> list[bytes]:
    return [one if isinstance(one, bytes) else str(one).encode() for one in given]


def told(reply: Reply) -> Reply:
    """As a program has it: an error is raised, simple strings are text."""
    if isinstance(reply, Fail):
        raise StoreError(reply.text)
    return reply


class Calls:
    """Commands as methods: `await store.hset("h", "field", "value")`."""

    async def execute(self, *given: Word) -> Reply:
        raise NotImplementedError

    async def get(self, key: Word) -> bytes | None:
        found: bytes | None = await self.execute("GET", key)
        return found

    async def set(self, key: Word, value: Word, *options: Word) -> bool:
        return bool(await self.execute("SET", key, value, *options) == "OK")

    async def incr(self, key: Word, by: int = 1) -> int:
        return int(await self.execute("INCRBY", key, by))

    async def delete(self, *keys: Word) -> int:
        return int(await self.execute("DEL", *keys))

    async def sadd(self, key: Word, *elements: Word) -> int:
        return int(await self.execute("SADD", key, *elements))

    async def srem(self, key: Word, *elements: Word) -> int:
        return int(await self.execute("SREM", key, *elements))

    async def smembers(self, key: Word) -> frozenset[bytes]:
        return frozenset(await self.execute("SMEMBERS", key))

    async def hset(self, key: Word, field: Word, value: Word) -> int:
        return int(await self.execute("HSET", key, field, value))

    async def hgetall(self, key: Word) -> dict[bytes, bytes]:
        return dict(await self.execute("HGETALL", key))

    async def zadd(self, key: Word, score: float, member: Word) -> int:
        return int(await self.execute("ZADD", key, score, member))

    async def zrange(self, key: Word, start: int = 0, end: int = -1) -> list[bytes]:
        return list(await self.execute("ZRANGE", key, start, end))


class OpenStore(Calls):
    """A node with a store, from `async with` to its end. Arguments are those of `thence.open`."""

    def __init__(
        self,
        name: str,
        *,
        data: str | Path,
        listen: str | None = None,
        join: Sequence[str] = (),
        members: Mapping[str, str] | None = None,
        sync: str | None = None,
        secret: str | None = None,
        set_wins: str | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        more = {**(settings or {}), **({} if set_wins is None else {"set_wins": set_wins})}
        self.settings: Final = open_node(
            name,
            data=data,
            listen=listen,
            join=join,
            members=members,
            sync=sync,
            secret=secret,
            settings=more,
        ).settings
        self._log: Final = ProgramLog(self.settings.log_level)
        self._store: StoreNode | None = None

    async def __aenter__(self) -> "OpenStore":
        store = self._store = StoreNode(self.settings, self._log, wall_clock())
        try:
            await enter(store)
        except BaseException:
            self._log.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        store = self.node
        try:
            await store.close()
        finally:
            self._log.close()
        if kind is None and store.node.failed is not None:
            raise store.node.failed

    @property
    def node(self) -> StoreNode:
        if self._store is None:
            raise UsageError("this store is not open: `async with thence.Store(…) as store`")
        return self._store

    async def execute(self, *given: Word) -> Reply:
        """The reply of one command; `StoreError` if it is an error."""
        [reply] = await self.transaction([given], alone=True)
        return told(reply)

    async def transaction(self, several: Sequence[Sequence[Word]], alone: bool = False) -> list[Reply]:
        """All commands as one operation; errors are among the replies."""
        store = self.node
        asked = [words(one) for one in several]
        future: asyncio.Future[list[Reply]] = asyncio.get_running_loop().create_future()

        def act() -> None:
            client = store.engine.client("program")
            try:
                replies = _run(store.engine, client, asked, alone)
            finally:
                store.engine.forget(client)
            if len(replies) == 1 and isinstance(replies[0], Later):
                store.wait(replies[0], lambda reply: _set(future, [reply]))
            else:
                store.soon_after(lambda sent: _when(sent, future, replies))

        store.soon(act)
        return await future


def _run(engine: Executor, client: Client, asked: list[list[bytes]], alone: bool) -> list[Reply]:
    if alone:
        return [engine.execute(client, asked[0])]
    engine.execute(client, [b"MULTI"])
    for one in asked:
        engine.execute(client, one)
    reply = engine.execute(client, [b"EXEC"])
    return list(told(reply))


def _when(
    sent: "asyncio.Future[Sequence[Sent]] | None", future: "asyncio.Future[list[Reply]]", replies: list[Reply]
) -> None:
    if sent is None or sent.done():
        _finish(sent, future, replies)
    else:
        sent.add_done_callback(lambda done: _finish(done, future, replies))


def _finish(
    sent: "asyncio.Future[Sequence[Sent]] | None", future: "asyncio.Future[list[Reply]]", replies: list[Reply]
) -> None:
    error = sent.exception() if sent is not None and not sent.cancelled() else None
    if error is not None and not future.done():
        future.set_exception(error)
    else:
        _set(future, replies)


def _set(future: "asyncio.Future[list[Reply]]", replies: list[Reply]) -> None:
    if not future.done():
        future.set_result(replies)


class LocalStores:
    """Several stores in one process without sockets: what one makes waits until it is delivered."""

    def __init__(
        self, *names: str, clock_us: Callable[[], int] | None = None, remove_wins: bool = False
    ) -> None:
        self._clock: Final = clock_us or wall_clock()
        self.stores: Final = {name: LocalStore(name, self, remove_wins) for name in names}
        self.made: Final[list[tuple[LocalTag, bytes]]] = []
        """That are not stable, causes first."""

    def __getitem__(self, name: str) -> "LocalStore":
        return self.stores[name]

    @property
    def clock_us(self) -> Callable[[], int]:
        return self._clock

    def sent(self, tag: "LocalTag", payload: bytes) -> None:
        self.made.append((tag, payload))

    def deliver(self, stable: bool = True) -> None:
        """Everything, everywhere; then all of it is stable, unless stores are not to know that yet."""
        for store in self.stores.values():
            for tag, payload in self.made:
                store.take(tag, payload)
        if not stable:
            return
        for store in self.stores.values():
            for tag, _ in self.made:
                store.state.stable(*tag.dot)
        self.made.clear()


class LocalTag:
    """`crdt.mark.Cause` among stores of one process: of each store, how much an operation saw."""

    __slots__ = ("dot", "past")

    def __init__(self, dot: Place, past: dict[str, int]) -> None:
        self.dot: Final = dot
        self.past: Final = past

    def before(self, other: "LocalTag", /) -> bool:
        return other.saw(*self.dot)

    def saw(self, origin: str, seq: int, /) -> bool:
        return seq <= self.past.get(origin, 0)


class LocalStore(Calls, Alone):
    def __init__(self, name: str, group: LocalStores, remove_wins: bool) -> None:
        self.state: Final = StoreState(name, remove_wins)
        self.engine: Final = Executor(self.state, group.clock_us, Random(0), self)
        self._had: Final[dict[str, int]] = {}
        self._client: Final = self.engine.client("program")
        self._group: Final = group

    def run(self, *given: Word) -> Reply:
        """A command, now."""
        reply = self.engine.execute(self._client, words(given))
        name, made = self.state.me, self.engine.outbox
        for payload in made:
            tag = LocalTag((name, self._had.get(name, 0) + 1), dict(self._had))
            self.take(tag, payload)
            self._group.sent(tag, payload)
        made.clear()
        if isinstance(reply, Later):
            found = reply.look()
            reply = reply.too_late() if found is None else found
        return told(reply)

    def take(self, tag: LocalTag, payload: bytes) -> None:
        origin, seq = tag.dot
        if seq > self._had.get(origin, 0):
            self.state.deliver(origin, seq, payload, tag)
            self._had[origin] = seq

    def merge(self, other: "LocalStore") -> None:
        """What the other store has and this one lacks comes here now, and nowhere else."""
        self._had.update(self.state.merge(self._had, other.state))

    async def execute(self, *given: Word) -> Reply:
        return self.run(*given)

    def delivered(self) -> dict[str, int]:
        return dict(self._had)

    def has_delivered(self, origin: str, seq: int) -> bool:
        return seq <= self._had.get(origin, 0)
