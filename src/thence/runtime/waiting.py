"""What a program waits for at its node: that a message has come far enough, the next event, its turn.

Invariant: whoever waits is answered once, at the latest when the node is closed or broken.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Generic, TypeVar

from thence.core.errors import UsageError

T = TypeVar("T")

Settle = Callable[[T, int | None, "asyncio.Future[None]"], None]
"""Answers one that waits for a tag, and perhaps for a number of members, if it can."""


class Waiters(Generic[T]):
    """Who waits until messages are stable, or delivered at so many members."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: list[tuple[T, int | None, asyncio.Future[None]]] = []

    def add(self, tag: T, at: int | None, future: "asyncio.Future[None]") -> None:
        self._waiting.append((tag, at, future))

    def look(self, settle: Settle[T]) -> None:
        """Something has changed."""
        if self._waiting:
            for tag, at, future in self._waiting:
                if not future.done():
                    settle(tag, at, future)
            self._waiting = [waiting for waiting in self._waiting if not waiting[2].done()]

    def refuse(self, error: Exception) -> None:
        """Nothing comes any further."""
        waiting, self._waiting = self._waiting, []
        for _, _, future in waiting:
            if not future.done():
                future.set_exception(error)


class Turns:
    """At most so many at a time, in the order in which they came; `asyncio.Semaphore` looks at all whose turn
    it is for each of them."""

    __slots__ = ("_free", "_waiting")

    def __init__(self, most: int) -> None:
        self._free = most
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def __aenter__(self) -> None:
        if self._free and not self._waiting:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it was its turn already
                self._next()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._next()

    def _next(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


class Bell:
    """One that waits for its next event, and is rung when there may be one."""

    __slots__ = ("_future",)

    def __init__(self) -> None:
        self._future: asyncio.Future[None] | None = None

    @property
    def awaited(self) -> bool:
        return self._future is not None

    async def wait(self) -> None:
        if self._future is not None and not self._future.done():
            raise UsageError("this reader waits for its next event already")
        self._future = asyncio.get_running_loop().create_future()
        await self._future

    def ring(self) -> None:
        if self._future is not None and not self._future.done():
            self._future.set_result(None)
        self._future = None
