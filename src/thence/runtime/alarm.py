"""One timer of the event loop for all that tasks wait for: it rings for whatever comes first."""

import asyncio
from collections.abc import Callable
from typing import Final

from thence.core.machine import NEVER
from thence.runtime.pacing import Clock


class Alarm:
    __slots__ = ("_clock", "_loop", "_ring", "_timer", "at")

    def __init__(self, clock: Clock, ring: Callable[[], None]) -> None:
        """`ring` sets it again if there is more to wait for."""
        self._clock: Final = clock
        self._ring: Final = ring
        self._loop: Final = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self.at = NEVER
        """When it rings."""

    def set(self, at: int) -> None:
        """Not later than that."""
        if self.at <= at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self.at = at
        self._timer = self._loop.call_later(max(0, at - self._clock()) / 1e6, self._rings)

    def _rings(self) -> None:
        self._timer, self.at = None, NEVER
        self._ring()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self.at = None, NEVER
