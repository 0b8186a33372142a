"""Whether a node can write at present, whether it ever will again, and when to try.

A full disk is looked at again every second. Something that is `broken` stays so: the node must end.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from thence.core.errors import StorageError

PROBE_EVERY_S: Final = 1.0
"""How often a full disk is tried again."""


class Trouble:
    __slots__ = ("_loop", "_probe", "_timer", "broken", "why")

    def __init__(self, probe: Callable[[], None]) -> None:
        """`probe`: is there room again? It calls `begin` if not."""
        self._probe: Final = probe
        self._loop: Final = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self.why: StorageError | None = None
        """Why nothing is written at present."""
        self.broken: Final[asyncio.Future[StorageError]] = self._loop.create_future()
        """Done when nothing ever will be."""

    def begin(self, error: StorageError) -> None:
        self.why = error
        if self._timer is None:
            self._timer = self._loop.call_later(PROBE_EVERY_S, self._look)

    def _look(self) -> None:
        self._timer = None
        if not self.broken.done():
            self._probe()

    def last(self, error: StorageError) -> None:
        """It never ends."""
        self.why = error
        if not self.broken.done():
            self.broken.set_result(error)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
