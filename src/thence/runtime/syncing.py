"""Syncs that a log asks for, in a thread, since they may take as long as they like.

Invariant: a sync that failed is only forgiven if the log became durable otherwise; else there is no way to
know what the disk holds, and `broken` is called. One that could not even be tried, since no descriptor was
left, is tried again: until then nothing that waits for it leaves.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final

from thence.core.errors import StorageError, ThenceError
from thence.core.storage import Files
from thence.oplog.log import OpLog
from thence.oplog.policy import Sync
from thence.oplog.writer import untried
from thence.runtime.pacing import Clock

AGAIN_S: Final = 0.2
"""How soon a sync that could not be tried is: calls may wait for it, and a descriptor is soon free."""


class Syncing:
    __slots__ = ("_broken", "_clock", "_counts", "_ending", "_loop", "_synced", "_syncer", "_tasks", "count")

    def __init__(
        self,
        syncer: Executor,
        clock: Clock,
        counts: Callable[[OpLog], bool],
        synced: Callable[[OpLog, Sync], None],
        broken: Callable[[StorageError], None],
    ) -> None:
        """`counts`: is it still this log that matters?"""
        self._syncer: Final = syncer
        self._clock: Final = clock
        self._counts: Final = counts
        self._synced: Final = synced
        self._broken: Final = broken
        self._loop: Final = asyncio.get_running_loop()
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self._ending = False
        self.count = 0

    def begin(self, log: OpLog, files: Files, sync: Sync) -> None:
        task = self._loop.create_task(self._sync(log, files, sync))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _sync(self, log: OpLog, files: Files, sync: Sync) -> None:
        try:
            while not await self._tried(files, sync):
                await asyncio.sleep(AGAIN_S)
        except Exception as error:  # whatever it was, nothing has become durable
            if self._counts(log):
                why = error if isinstance(error, StorageError) else StorageError(str(error))
                log.sync_failed(sync, why, self._clock())
                if log.durable < sync.position:
                    self._broken(why)
            return
        if self._counts(log):
            self.count += 1
            self._synced(log, sync)

    async def _tried(self, files: Files, sync: Sync) -> bool:
        try:
            await self._loop.run_in_executor(self._syncer, files.sync, sync.file)
        except ThenceError as error:
            if self._ending or not untried(error):
                raise
            return False
        return True

    async def over(self) -> None:
        """None is under way any more, nor tried again."""
        self._ending = True
        while self._tasks:  # one may ask for another
            await asyncio.wait(list(self._tasks))
