"""Syncs that a log asks for, in a thread, since they may take as long as they like.

Invariant: a sync that failed is only forgiven if the log became durable otherwise; else there is no way to
know what the disk holds, and `broken` is called.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final

from thence.core.errors import StorageError
from thence.core.storage import Files
from thence.oplog.log import OpLog
from thence.oplog.policy import Sync
from thence.runtime.pacing import Clock


class Syncing:
    __slots__ = ("_broken", "_clock", "_counts", "_loop", "_synced", "_syncer", "_tasks", "count")

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
        self.count = 0

    def begin(self, log: OpLog, files: Files, sync: Sync) -> None:
        task = self._loop.create_task(self._sync(log, files, sync))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _sync(self, log: OpLog, files: Files, sync: Sync) -> None:
        try:
            await self._loop.run_in_executor(self._syncer, files.sync, sync.file)
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

    async def over(self) -> None:
        while self._tasks:  # one may ask for another
            await asyncio.wait(list(self._tasks))
