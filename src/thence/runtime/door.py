"""Sockets that listen, and the accepting of connections.

Event loops would accept by themselves, each in its own way when no descriptor is left: one complains and
tries again, another takes connections in order to drop them. Here accepting pauses, says so, and goes on a
moment later; connections that come meanwhile wait. The last descriptors are for the disk: a connection that
would get one of them is not let in.

Invariant: when `close` has returned no connection arrives any more, and those on the way have arrived.
"""

import asyncio
import errno
import os
import socket
from collections.abc import Callable
from typing import Final

from thence.core.errors import UsageError
from thence.runtime.address import Address
from thence.runtime.descriptors import RESERVE, limit
from thence.runtime.home import silence, watch

BACKLOG: Final = 128
"""Connections that wait to be accepted; the system allows more than that only where it is told to."""
PAUSE_S: Final = 1.0
"""Handshakes and requests that are too slow end within some seconds, and give their descriptors back."""


class Door:
    __slots__ = ("__weakref__", "_arrivals", "_arrived", "_paused", "_said", "_timer", "sockets")

    def __init__(self, arrived: Callable[[str], asyncio.BaseProtocol], paused: Callable[[str], None]) -> None:
        """`arrived`: the protocol for a connection from this host. `paused` is told why none is accepted."""
        self._arrived: Final = arrived
        self._paused: Final = paused
        self.sockets: list[socket.socket] = []
        """That listen."""
        self._arrivals: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._said = False
        """That none is accepted, since one last was."""
        watch(self)

    def forked(self) -> None:
        silence(listening.fileno() for listening in self.sockets)

    async def open(self, address: Address) -> Address:
        """Says where it is: with the port that the system chose, if it was to choose."""
        self.sockets = await bound(address)
        self._attend()
        return Address(address.host, self.sockets[0].getsockname()[1])

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._leave()
        for listening in self.sockets:
            listening.close()
        self.sockets = []
        await asyncio.gather(*self._arrivals)

    def _attend(self) -> None:
        self._timer = None
        for listening in self.sockets:
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def _leave(self) -> None:
        for listening in self.sockets:
            asyncio.get_running_loop().remove_reader(listening)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(BACKLOG):
            try:
                arrived, where = listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:  # no descriptor, or no memory for it
                self._pause(reason_of(error))
                return
            if arrived.fileno() >= limit() - RESERVE:  # the system gives out the lowest that is free
                arrived.close()
                self._pause(f"all but the {RESERVE} descriptors that are kept for the disk are in use")
                return
            self._said = False
            task = asyncio.get_running_loop().create_task(self._arrive(arrived, where[0]))
            self._arrivals.add(task)
            task.add_done_callback(self._arrivals.discard)

    async def _arrive(self, arrived: socket.socket, host: str) -> None:
        try:
            arrived.setblocking(False)
            arrived.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await asyncio.get_running_loop().connect_accepted_socket(lambda: self._arrived(host), arrived)
        except OSError:  # it has gone already
            arrived.close()

    def _pause(self, why: str) -> None:
        self._leave()
        self._timer = asyncio.get_running_loop().call_later(PAUSE_S, self._attend)
        if not self._said:
            self._said = True
            self._paused(why)


async def bound(address: Address) -> list[socket.socket]:
    """Sockets that listen, one for each address that a name stands for."""
    loop = asyncio.get_running_loop()
    listening: list[socket.socket] = []
    try:
        found = await loop.getaddrinfo(*address, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, where in dict.fromkeys((each[0], each[4]) for each in found):
            listening.append(socket.create_server(where, family=family, backlog=BACKLOG))
            listening[-1].setblocking(False)
    except (OSError, UnicodeError) as error:
        for each in listening:
            each.close()
        raise UsageError(f"cannot listen on {address}: {_why_not(error)}") from None
    return listening


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


def _why_not(error: Exception) -> str:
    code = error.errno if isinstance(error, OSError) else None
    if code == errno.EADDRINUSE:
        return "the address is in use by another process"
    if code == errno.EADDRNOTAVAIL:
        return "it is no address of this machine"
    if code == errno.EACCES:
        return "the port needs privileges that this process does not have"
    return reason_of(error)
