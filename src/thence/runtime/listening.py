"""The listening side: bounding what strangers can cost.

Any process can connect. Until a handshake is over, a connection costs a descriptor and a small buffer for a
short time; their number is capped, from one host and in all, the oldest giving way, and what is logged about
them is limited too, with a count of what was left out.
"""

import asyncio
from typing import Final, Protocol

from thence.runtime.address import Address
from thence.runtime.descriptors import share
from thence.runtime.door import Door
from thence.runtime.handshake import Acceptor, HandshakePolicy
from thence.runtime.hello import Identity, draw_nonce
from thence.runtime.home import silence, watch
from thence.runtime.link import Connection, End, Owner
from thence.runtime.options import LinkSettings
from thence.runtime.pacing import Clock, LinkLimits

LINES: Final = 20
WINDOW_US: Final = 10_000_000
"""So many lines about strangers in so much time: a wrong secret shows at once, a port scan fills no disk."""


class Log(Protocol):
    def info(self, event: str, **fields: object) -> None: ...

    def warn(self, event: str, **fields: object) -> None: ...


class Connections:
    """All that are not closed yet, so that their end can be awaited."""

    __slots__ = ("__weakref__", "_closing", "_none_left", "_open")

    def __init__(self) -> None:
        self._open: dict[Connection, None] = {}
        self._none_left = asyncio.Event()
        self._closing = False
        watch(self)

    def forked(self) -> None:
        for connection in self._open:
            connection.ended = True
        silence(connection.descriptor for connection in self._open)

    def add(self, connection: Connection) -> None:
        self._open[connection] = None
        if self._closing:
            connection.abort()

    def gone(self, connection: Connection) -> None:
        self._open.pop(connection, None)
        if not self._open:
            self._none_left.set()

    async def end_all(self, why: str, drain_us: int) -> None:
        """Lets what is buffered leave, but not for longer than `drain_us`."""
        self._closing = True
        for connection in list(self._open):
            connection.end(End.CLOSED, why)
        if not await self._empty_within(drain_us):
            for connection in list(self._open):
                connection.abort()
            await self._empty_within(drain_us)

    async def _empty_within(self, timeout_us: int) -> bool:
        self._none_left.clear()
        if self._open:
            try:
                async with asyncio.timeout(timeout_us / 1_000_000):
                    await self._none_left.wait()
            except TimeoutError:
                return False
        return True


class Listener:
    """Accepts connections and hands them to `owner` once their handshake is over."""

    __slots__ = (
        "_clock", "_door", "_instance", "_judge", "_left_out", "_limits", "_lines", "_log", "_me",
        "_owner", "_secret", "_settings", "_strangers", "_window_us",
    )  # fmt: skip

    def __init__(
        self,
        me: Identity,
        instance: bytes,
        secret: bytes,
        judge: HandshakePolicy,
        owner: Owner,
        settings: LinkSettings,
        limits: LinkLimits,
        clock: Clock,
        log: Log,
    ) -> None:
        self._me: Final = me
        self._instance: Final = instance
        self._secret: Final = secret
        self._judge: Final = judge
        self._owner: Final = owner
        self._settings: Final = settings
        self._limits: Final = limits
        self._clock: Final = clock
        self._log: Final = log
        self._door: Final = Door(self._accept, lambda why: log.warn("accepts no link at present", why=why))
        self._strangers: dict[Connection, str] = {}
        """Whose handshake is not over, oldest first, and from where they come."""
        self._lines = 0
        self._left_out = 0
        self._window_us = 0

    async def start(self, address: Address) -> Address:
        """Says where it listens: with the port that the system chose, if it was to choose."""
        return await self._door.open(address)

    async def stop(self) -> None:
        """No link comes in any more; those that are in stay."""
        await self._door.close()

    def _accept(self, host: str) -> Connection:
        try:
            return self._welcome(host)
        except Exception as error:
            self._owner.stops(error)
            raise ConnectionAbortedError("this node stops") from error

    def _welcome(self, host: str) -> Connection:
        most = share(self._limits.handshakes_most)
        near = [connection for connection, where in self._strangers.items() if where == host]
        if len(near) >= min(most, self._limits.handshakes_per_host_most):
            near[0].end(End.LOST, "too many others from there want to shake hands")
        while len(self._strangers) >= most:
            next(iter(self._strangers)).end(End.LOST, "too many others want to shake hands")
        acceptor = Acceptor(self._me, self._instance, draw_nonce(), self._secret, self._judge, host)
        connection = Connection(self._owner, acceptor, self._settings, self._limits, self._clock)
        self._strangers[connection] = host
        return connection

    def forget(self, connection: Connection) -> bool:
        """It is over or its handshake is. Says whether it was a stranger until now."""
        return self._strangers.pop(connection, None) is not None

    def tell(self, connection: Connection, end: End, why: str) -> None:
        """A line about a stranger that did not get in, unless there were many or this node closed it."""
        if end is End.CLOSED:
            return
        now = self._clock()
        if now - self._window_us >= WINDOW_US:
            if self._left_out:
                self._log.warn("more connections were not let in", count=self._left_out)
            self._lines = self._left_out = 0
            self._window_us = now
        if self._lines >= LINES:
            self._left_out += 1
            return
        self._lines += 1
        handshake = connection.handshake
        hello = handshake.hello if isinstance(handshake, Acceptor) else None
        claims = {"claims": hello.identity.name} if hello else {}
        self._log.warn("connection not let in", remote=connection.remote, end=end.value, why=why, **claims)
