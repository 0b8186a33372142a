"""The listening side: binding an address, and bounding what strangers can cost.

Anybody can connect. Until a handshake is over, a connection costs a small buffer for a short time; their
number is capped, the oldest giving way, and what is logged about them is limited too, with a count of what
was left out.
"""

import asyncio
import errno
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from thence.core.errors import UsageError
from thence.runtime.address import Address
from thence.runtime.handshake import Acceptor, Judge
from thence.runtime.home import silence, watch
from thence.runtime.introductions import Identity, draw_nonce
from thence.runtime.link import Connection, End, Owner
from thence.runtime.pacing import Clock, LinkLimits
from thence.runtime.settings import LinkSettings

LINES: Final = 20
WINDOW_US: Final = 10_000_000
"""So many lines about strangers in so much time: a wrong secret shows at once, a port scan fills no disk."""

TURNS: Final = 5
"""One for the task that makes the transport, one for `connection_made`, and some to be on the safe side."""


class Log(Protocol):
    def info(self, event: str, **fields: object) -> None: ...

    def warn(self, event: str, **fields: object) -> None: ...


def reason_of(error: Exception) -> str:
    """What an operating system's error says, without its number."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, socket.gaierror):
        return "no such host"
    if isinstance(error, OSError) and error.errno is not None:
        # asyncio puts several failed attempts into one text of its own; the plain text is enough.
        return os.strerror(error.errno).lower()
    return str(error) or type(error).__name__


class Connections:
    """All that are not closed yet, so that somebody can wait for it."""

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
        "__weakref__", "_clock", "_instance", "_judge", "_left_out", "_limits", "_lines", "_log", "_me",
        "_owner", "_secret", "_server", "_settings", "_strangers", "_window_us",
    )  # fmt: skip

    def __init__(
        self,
        me: Identity,
        instance: bytes,
        secret: bytes,
        judge: Judge,
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
        self._server: asyncio.Server | None = None
        self._strangers: dict[Connection, None] = {}
        """Whose handshake is not over, oldest first."""
        self._lines = 0
        self._left_out = 0
        self._window_us = 0
        watch(self)

    def forked(self) -> None:
        if self._server is not None:
            silence(sock.fileno() for sock in self._server.sockets)

    async def start(self, address: Address) -> Address:
        """Says where it listens: with the port that the system chose, if it was to choose."""
        self._server = await bind(address, self._accept)
        return Address(address.host, self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Nobody comes in any more; those who are in stay."""
        if self._server is None:
            return
        # Event loops take a few turns from accepting a socket to `connection_made`. Who is on this way must
        # arrive before somebody closes all connections, or nobody would ever close it; and in some versions
        # of asyncio such a socket is lost if the server closes meanwhile. So first nobody is accepted.
        loop = asyncio.get_running_loop()
        for sock in self._server.sockets:
            with suppress(RuntimeError, NotImplementedError):  # loops that do not accept by a reader
                loop.remove_reader(sock.fileno())
        await _turns()
        self._server.close()
        await _turns()

    async def closed(self) -> None:
        """To be awaited when all connections are gone: some event loops wait for them here."""
        if self._server is not None:
            await self._server.wait_closed()

    def _accept(self) -> Connection:
        while len(self._strangers) >= self._limits.handshakes_most:
            next(iter(self._strangers)).end(End.LOST, "too many others want to shake hands")
        acceptor = Acceptor(self._me, self._instance, draw_nonce(), self._secret, self._judge)
        connection = Connection(self._owner, acceptor, self._settings, self._limits, self._clock)
        self._strangers[connection] = None
        return connection

    def forget(self, connection: Connection) -> bool:
        """It is over or its handshake is. Says whether it was a stranger until now."""
        return self._strangers.pop(connection, self) is None

    def tell(self, connection: Connection, end: End, why: str) -> None:
        """A line about a stranger that did not get in, unless there were many or it was us who left."""
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


async def _turns() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


async def bind(address: Address, accept: Callable[[], Connection]) -> asyncio.Server:
    loop = asyncio.get_running_loop()
    try:
        return await loop.create_server(accept, address.host, address.port)
    except (OSError, UnicodeError) as error:
        raise UsageError(f"cannot listen on {address}: {_why_not(error)}") from None


def _why_not(error: Exception) -> str:
    code = error.errno if isinstance(error, OSError) else None
    if code is None and "could not bind on any address" in str(error):
        code = errno.EADDRNOTAVAIL  # asyncio's own words for it from Python 3.12 on, without a number
    if code == errno.EADDRINUSE:
        return "the address is in use by another process"
    if code == errno.EADDRNOTAVAIL:
        return "it is no address of this machine"
    if code == errno.EACCES:
        return "the port needs privileges that this process does not have"
    return reason_of(error)
