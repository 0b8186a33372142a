"""Work that is put off so that it is done once for many: until the loop comes round, or a moment longer."""

import asyncio
from collections.abc import Callable
from typing import Final


class Deferral:
    __slots__ = ("_act", "_delay_s", "_later", "_loop", "_soon")

    def __init__(self, act: Callable[[], None], delay_s: float = 0.0) -> None:
        """`delay_s`: how long a moment is."""
        self._act: Final = act
        self._delay_s: Final = delay_s
        self._loop: Final = asyncio.get_running_loop()
        self._soon: asyncio.Handle | None = None
        self._later: asyncio.TimerHandle | None = None

    def soon(self) -> None:
        if self._soon is None:
            self._soon = self._loop.call_soon(self.now)

    def later(self) -> None:
        if self._later is None:
            self._later = self._loop.call_later(self._delay_s, self.now)

    def now(self) -> None:
        """All that was put off."""
        self.close()
        self._act()

    def close(self) -> None:
        for handle in (self._soon, self._later):
            if handle is not None:
                handle.cancel()
        self._soon = self._later = None
