"""What a program waits for at its node: that messages have come far enough, the next event, its turn.

Invariant: each waiter is answered once, at the latest when the node is closed or broken.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from types import TracebackType

from thence.core.errors import UsageError

Reached = Callable[[], bool]
"""Is it so far? `UsageError`: it never will be."""


class Waiters:
    """Futures of what is looked at again after each step."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: list[tuple[Reached, asyncio.Future[None]]] = []

    def add(self, reached: Reached) -> "asyncio.Future[None]":
        """Done when it is so far, perhaps at once."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        _look_at(reached, future)
        if not future.done():
            self.waiting.append((reached, future))
        return future

    def look(self) -> None:
        """Something has changed."""
        for reached, future in self.waiting:
            if not future.done():
                _look_at(reached, future)
        self.waiting = [waiting for waiting in self.waiting if not waiting[1].done()]

    def refuse(self, error: Exception) -> None:
        """Nothing comes any further."""
        waiting, self.waiting = self.waiting, []
        for _, future in waiting:
            if not future.done():
                future.set_exception(error)


def _look_at(reached: Reached, future: "asyncio.Future[None]") -> None:
    try:
        if reached():
            future.set_result(None)
    except UsageError as error:
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

    __slots__ = ("_future", "awaited")

    def __init__(self) -> None:
        self._future: asyncio.Future[None] | None = None
        self.awaited = False

    async def wait(self) -> None:
        if self._future is not None and not self._future.done():
            raise UsageError("this reader waits for its next event already")
        self._future = asyncio.get_running_loop().create_future()
        self.awaited = True
        await self._future

    def ring(self) -> None:
        if self._future is not None and not self._future.done():
            self._future.set_result(None)
        self._future, self.awaited = None, False
