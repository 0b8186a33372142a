"""Operations that a program sends without waiting: those of one turn of the loop are one call, and one run.

Their names are known at once: nothing is sent between the moment in which an operation is gathered and the
step that sends it (`replica.steps`), so that it has the next counter. What becomes of them is known when that
step is in the log, and synced where the policy says so.

Invariants. At most `most` operations are gathered and not answered. Of those that were refused the reason is
kept for the last `KEPT` turns. An operation that joins a run costs a call and an entry in a list, and a run
has a future only where one waits for it.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from thence.core.errors import ThenceError, UsageError
from thence.core.groups import Place
from thence.core.runs import RUN_BYTES
from thence.replica.life_tag import Sent
from thence.replica.steps import Steps

if TYPE_CHECKING:
    from thence.runtime.driver import Driver

OnCommit = Callable[[str, int, int], None]
"""Of which member, and the first and last counter."""

KEPT: Final = 64


class Gathered:
    """The operations of one turn, and the driver's call for them (`driver.Call`)."""

    __slots__ = ("_by", "_ended", "error", "first", "me", "most", "payloads", "steps", "waits")

    def __init__(
        self, by: "Gathering", steps: Steps[Any, Any], place: Place, payload: bytes, most: int
    ) -> None:
        """`steps`: that it is asked of. `most`: operations that it may have."""
        self._by: Final = by
        self._ended = False
        self.steps: Final = steps
        self.most: Final = most
        self.me, self.first = place
        self.payloads: Final = [payload]
        self.error: Exception | None = None
        """Why they were refused."""
        self.waits: Sequence[asyncio.Future[None]] = ()

    @property
    def last(self) -> int:
        return self.first + len(self.payloads) - 1

    def holds(self, dot: Place) -> bool:
        return dot[0] == self.me and self.first <= dot[1] <= self.last

    def done(self) -> bool:
        return self._ended

    def set_result(self, sent: Sequence[Sent], /) -> None:  # noqa: ARG002
        self._ended = True
        self._by.answered(self)

    def set_exception(self, error: Exception, /) -> None:
        self._ended = True
        self.error = error
        self._by.answered(self)


class Gathering:
    def __init__(self, most: int) -> None:
        self._most: Final = most
        self.open: Gathered | None = None
        """The last run, to which more may be added as long as nothing has closed it."""
        self._pending: deque[Gathered] = deque()
        self._refused: deque[Gathered] = deque(maxlen=KEPT)
        self._others = 0
        """Operations of the others that are not answered."""
        self._room: deque[asyncio.Future[None]] = deque()
        self.on_commit: list[OnCommit] = []

    @property
    def room(self) -> int:
        """So many more operations may be gathered before others are answered."""
        return self._most - self._others - (len(self.open.payloads) if self.open is not None else 0)

    async def until_room(self) -> None:
        while self.room <= 0:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._room.append(future)
            await future

    def add(self, payload: bytes) -> Place | None:
        """To the run that is open, if nothing has closed it; None: it has to be asked for with `begin`."""
        if (
            (run := self.open) is None
            or run.steps.calls.last is not (payloads := run.payloads)
            or len(payloads) >= run.most
            or len(payload) > RUN_BYTES
        ):
            return None
        payloads.append(payload)
        return run.me, run.first + len(payloads) - 1

    def begin(self, driver: "Driver[Any]", payload: bytes) -> Place:
        if len(payload) > RUN_BYTES:
            raise UsageError(f"{len(payload)} bytes are too many without waiting: use broadcast()")
        if self._others >= self._most or (self.open is not None and self.room <= 0):
            waiting = self._most - self.room
            raise UsageError(f"{waiting} operations wait for their answers: await until_room() first")
        steps = driver.steps
        if (steps.calls.asked or steps.calls.queue.held) and steps.due:
            driver.settle()
        place = steps.next_place()
        if self.open is not None:
            self._others += len(self.open.payloads)
        run = self.open = Gathered(self, steps, place, payload, self._most - self._others)
        self._pending.append(run)
        driver.gather(run.payloads, run)
        return place

    def answered(self, run: Gathered) -> None:
        if self._pending[0] is run:
            self._pending.popleft()
        else:
            self._pending.remove(run)
        if self.open is run:
            self.open = None
        else:
            self._others -= len(run.payloads)
        if run.error is not None:
            self._refused.append(run)
        elif self._refused:
            again = [each for each in self._refused if not run.holds((each.me, each.first))]
            self._refused = deque(again, KEPT)  # the same counters, of those that were never sent
        if self.on_commit and run.error is None:  # not in the midst of a step, which it may add to
            asyncio.get_running_loop().call_soon(self._tell, run)
        for future in run.waits:
            if not future.done():
                future.set_result(None)
        while self._room and self.room > 0:
            waits = self._room.popleft()
            if not waits.done():
                waits.set_result(None)

    def _tell(self, run: Gathered) -> None:
        for told in self.on_commit:
            told(run.me, run.first, run.last)

    async def committed(self, dot: Place, sent: Callable[[Place], bool]) -> None:
        """Until it is in the log. `sent`: is it?"""
        for run in self._pending:
            if run.holds(dot):
                future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                run.waits = (*run.waits, future)
                await future
                if run.error is not None:
                    raise _told(run.error)
                return
        for run in self._refused:
            if run.holds(dot):
                assert run.error is not None
                raise _told(run.error)
        if not sent(dot):
            raise UsageError(f"{dot[0]}:{dot[1]} was not sent by this node")


def _told(error: Exception) -> ThenceError:
    return error if isinstance(error, ThenceError) else UsageError(str(error))


def copied(payload: object) -> bytes:
    """What becomes of a buffer later is not sent."""
    if not isinstance(payload, bytes | bytearray | memoryview):
        raise UsageError(f"a payload is bytes, not {type(payload).__name__}")
    return bytes(payload)
