"""Load made inside a node: messages at a rate, or as fast as they go.

A node that is asked over HTTP for each message measures HTTP. So it is asked once, and broadcasts by itself:
in batches, because a node writes its log once for everything that it is given together.

`pace` is arithmetic; the task around it waits and broadcasts. A node that cannot keep up is not pushed: each
batch waits for the one before it, and what was not sent in time is made up for later or not at all.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from msgspec import Struct

from thence.core.errors import UsageError
from thence.runtime.status import LoadStatus

BATCH: Final = 64
"""Messages per step: enough for the log's write to cost little, few enough for links to be served between."""
LEAST_WAIT_S: Final = 0.001
"""An event loop cannot wait for less (uvloop counts milliseconds): it would only spin. What becomes due
meanwhile goes together."""
ROUNDING: Final = 1e-6
"""A message is due so much of its interval early: a wait that ends in time must not be a hair short."""
MOST_BYTES: Final = 1024 * 1024
MOST_SECONDS: Final = 7 * 24 * 3600.0


class Load(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is asked for. `seconds`, `count` or both, whichever is reached first; a count of 0 stops."""

    rate: float = 0.0
    """Messages per second; 0: as fast as it goes."""
    seconds: float | None = None
    count: int | None = None
    bytes: int = 64
    """Per message."""
    group: str = ""
    """On an edge tree: where to; empty: the groups of the node in turn."""

    def checked(self) -> "Load":
        if not (math.isfinite(self.rate) and 0 <= self.rate <= 1e7):
            raise UsageError(f"a rate is 0 (as fast as it goes) to 10 million a second, not {self.rate}")
        if self.seconds is None and self.count is None:
            raise UsageError("a load needs an end: seconds or count")
        if self.seconds is not None and not 0 < self.seconds <= MOST_SECONDS:
            raise UsageError(f"a load takes up to a week, not {self.seconds} seconds")
        if self.count is not None and self.count < 0:
            raise UsageError(f"there are no {self.count} messages")
        if not 0 <= self.bytes <= MOST_BYTES:
            raise UsageError(f"a message of a load has 0 to {MOST_BYTES} bytes, not {self.bytes}")
        return self

    @property
    def total(self) -> float:
        """Messages, if nothing is late."""
        by_time = math.inf
        if self.rate and self.seconds is not None:
            by_time = math.ceil(self.rate * self.seconds)
        return min(by_time, math.inf if self.count is None else self.count)


def pace(load: Load, sent: int, elapsed_s: float) -> tuple[int, float]:
    """How many messages to send now and, if none, how long to wait; (0, 0) at the end."""
    left = load.total - sent
    if left <= 0 or (load.seconds is not None and elapsed_s >= load.seconds):
        return 0, 0.0
    if not load.rate:
        return int(min(left, BATCH)), 0.0
    due = int(elapsed_s * load.rate + ROUNDING) + 1 - sent
    if due > 0:
        return int(min(due, left, BATCH)), 0.0
    last_s = (load.total - 1) / load.rate  # beyond it the load would be over, with messages left
    return 0, max(sent / load.rate - elapsed_s, min(LEAST_WAIT_S, last_s - elapsed_s), 1e-6)


class Loader:
    """Runs one load at a time."""

    __slots__ = ("_begun", "_broadcast", "_clock", "_ended", "_failed", "_load", "_sent", "_sleep", "_task")

    def __init__(
        self,
        broadcast: Callable[[Sequence[bytes]], Awaitable[object]],
        clock: Callable[[], float] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`broadcast` takes a batch and returns when the node can take the next."""
        self._broadcast: Final = broadcast
        self._clock: Final = clock or asyncio.get_running_loop().time
        self._sleep: Final = sleep
        self._task: asyncio.Task[None] | None = None
        self._load: Load | None = None
        self._begun = self._ended = 0.0
        self._sent = 0
        self._failed: str | None = None

    @property
    def running(self) -> bool:
        return self._task is not None and not self._task.done()

    async def start(self, load: Load) -> None:
        """Begin; returns at once. A count of 0 ends the load that runs."""
        load.checked()
        if load.count == 0:
            await self.stop()
            return
        if self.running:
            raise UsageError("a load is running already; a count of 0 ends it")
        self._load, self._sent, self._failed = load, 0, None
        self._begun = self._clock()
        self._task = asyncio.ensure_future(self._run(load))

    async def stop(self) -> None:
        """End the load that runs, if one does."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def wait(self) -> None:
        """Until the load is over."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def status(self) -> LoadStatus | None:
        load = self._load
        if load is None:
            return None
        until = self._clock() if self.running else self._ended
        return LoadStatus(
            running=self.running, sent=self._sent, seconds=until - self._begun, rate=load.rate,
            count=load.count, limit_s=load.seconds, failed=self._failed,
        )  # fmt: skip

    async def _run(self, load: Load) -> None:
        filler = b"." * load.bytes
        try:
            while True:
                now, wait_s = pace(load, self._sent, self._clock() - self._begun)
                if now:
                    numbers = range(self._sent, self._sent + now)
                    await self._broadcast([(b"%d " % number + filler)[: load.bytes] for number in numbers])
                    self._sent += now
                elif not wait_s:
                    return
                await self._sleep(wait_s)  # even for 0: everything else in the node gets its turn
        except Exception as error:  # whatever it was, the node has met it too; the load tells its client
            self._failed = str(error) or type(error).__name__
        finally:
            self._ended = self._clock()
