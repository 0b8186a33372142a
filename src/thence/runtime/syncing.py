"""Syncs of a driver, in a thread, since one may take as long as it likes.

A sync that could not even be tried, for want of a descriptor, is no lost data: it is tried again.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final

from thence.core.errors import ThenceError
from thence.oplog.writer import untried
from thence.replica.step_outputs import BeginSync

AGAIN_S: Final = 0.2
"""How soon a sync that could not be tried is: calls may wait for it."""


class Syncs:
    def __init__(self, syncer: Executor, ended: Callable[[BeginSync, Exception | None], None]) -> None:
        """`ended`: this sync is over, or has failed."""
        self._syncer: Final = syncer
        self._loop: Final = asyncio.get_running_loop()
        self._ended: Final = ended
        self._under_way: Final[set[asyncio.Task[None]]] = set()
        self.closing = False
        """From here on none is tried again."""
        self.count = 0

    def begin(self, effect: BeginSync) -> None:
        task = self._loop.create_task(self._sync(effect))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _sync(self, effect: BeginSync) -> None:
        try:
            while not await self._tried(effect):
                await asyncio.sleep(AGAIN_S)
        except Exception as error:
            self._ended(effect, error)
        else:
            self.count += 1
            self._ended(effect, None)

    async def _tried(self, effect: BeginSync) -> bool:
        log, sync = effect
        try:
            await self._loop.run_in_executor(self._syncer, sync.carry_out, log.files)
        except ThenceError as error:
            if self.closing or not untried(error):
                raise
            return False
        return True

    async def over(self) -> None:
        while self._under_way:  # one may ask for another
            await asyncio.wait(list(self._under_way))
