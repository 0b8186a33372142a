"""Operations that a program sends without waiting: those of one turn of the loop are one call, and one run.

Their names are known at once: nothing is sent between the moment in which an operation is gathered and the
step that sends it (`replica.steps`), so that it has the next counter. What becomes of them is known when that
step is in the log, and synced where the policy says so.

Invariants. At most `most` operations are gathered and not answered. Of those that were refused the reason is
kept for the last `KEPT` turns.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from thence.core.errors import ThenceError, UsageError
from thence.core.groups import Place
from thence.core.runs import RUN_BYTES
from thence.replica.life_tag import Sent

if TYPE_CHECKING:
    from thence.runtime.driver import Driver

OnCommit = Callable[[str, int, int], None]
"""Of which member, and the first and last counter."""

KEPT: Final = 64


class Gathered:
    """The operations of one turn."""

    __slots__ = ("call", "first", "me", "payloads")

    def __init__(self, me: str, first: int, payload: bytes) -> None:
        self.me: Final = me
        self.first: Final = first
        self.payloads: Final = [payload]
        self.call: asyncio.Future[list[Sent]] | None = None

    @property
    def last(self) -> int:
        return self.first + len(self.payloads) - 1

    def holds(self, dot: Place) -> bool:
        return dot[0] == self.me and self.first <= dot[1] <= self.last


class Gathering:
    def __init__(self, most: int, most_bytes: int) -> None:
        self._most: Final = most
        self._most_bytes: Final = min(most_bytes, RUN_BYTES)
        self._open: Gathered | None = None
        self._pending: deque[Gathered] = deque()
        self._refused: deque[tuple[Gathered, BaseException]] = deque(maxlen=KEPT)
        self._waiting = 0
        self._room: deque[asyncio.Future[None]] = deque()
        self.on_commit: list[OnCommit] = []

    @property
    def room(self) -> int:
        """So many more operations may be gathered before others are answered."""
        return self._most - self._waiting

    async def until_room(self) -> None:
        while self.room <= 0:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._room.append(future)
            await future

    def add(self, driver: "Driver[Any]", payload: bytes) -> Place:
        if len(payload) > self._most_bytes:
            raise UsageError(f"{len(payload)} bytes are too many without waiting: use broadcast()")
        if self.room <= 0:
            raise UsageError(f"{self._waiting} operations wait for their answers: await until_room() first")
        batch = self._open
        if batch is not None and driver.goes_on(batch.payloads):
            batch.payloads.append(payload)
        else:
            batch = self._begin(driver, payload)
        self._waiting += 1
        return batch.me, batch.last

    def _begin(self, driver: "Driver[Any]", payload: bytes) -> Gathered:
        if (why := driver.cannot_send) is not None:
            raise why
        machine = driver.machine
        batch = self._open = Gathered(machine.me, machine.sent + 1, payload)
        self._pending.append(batch)
        batch.call = driver.gather(batch.payloads)
        batch.call.add_done_callback(lambda call: self._answered(batch, call))
        return batch

    def _answered(self, batch: Gathered, call: "asyncio.Future[list[Sent]]") -> None:
        if self._open is batch:
            self._open = None
        self._pending.remove(batch)
        self._waiting -= len(batch.payloads)
        error = None if call.cancelled() else call.exception()
        if error is not None:
            self._refused.append((batch, error))
        else:
            again = [each for each in self._refused if not batch.holds((each[0].me, each[0].first))]
            self._refused = deque(again, KEPT)  # the same counters, of those that were never sent
            for told in self.on_commit:
                told(batch.me, batch.first, batch.last)
        while self._room and self.room > 0:
            waits = self._room.popleft()
            if not waits.done():
                waits.set_result(None)

    async def committed(self, dot: Place, sent: Callable[[Place], bool]) -> None:
        """Until it is in the log. `sent`: is it?"""
        for batch in self._pending:
            if batch.holds(dot):
                assert batch.call is not None
                await asyncio.shield(batch.call)
                return
        for batch, error in self._refused:
            if batch.holds(dot):
                raise error if isinstance(error, ThenceError) else UsageError(str(error))
        if not sent(dot):
            raise UsageError(f"{dot[0]}:{dot[1]} was not sent by this node")
