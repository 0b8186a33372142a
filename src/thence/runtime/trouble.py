"""Whether a node can write at present, whether it ever will again, and when to try.

Invariants. While nothing can be written nothing leaves: packets are dropped, links begin anew so that others
do not take what they miss for lost, and new calls are refused with the reason. Calls with messages in the
log are answered when what else was promised is kept. A full disk is looked at again every second; what is
*broken* stays so, and the node must end. No call is left without an answer.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from thence.core.errors import StorageError, ThenceError
from thence.runtime.asked import refused
from thence.runtime.home import FORKED, watch

PROBE_EVERY_S: Final = 1.0
"""How often a full disk is tried again."""


class Waiting(Protocol):
    """Calls that were not answered."""

    def refuse(self, error: ThenceError) -> None: ...


class Held(Waiting, Protocol):
    """Those whose messages are in the log, and what others should get of them."""

    def cut_off(self) -> None:
        """They will get it otherwise."""
        ...


class Trouble:
    __slots__ = (
        "__weakref__", "_asked", "_begin_anew", "_held", "_loop", "_probe", "_timer", "broken", "why",
    )  # fmt: skip

    def __init__(
        self, probe: Callable[[], None], held: Held, asked: Waiting, begin_anew: Callable[[str], None]
    ) -> None:
        """`probe`: is there room again? Then it calls `over`, else `goes_on`."""
        self._probe: Final = probe
        self._held: Final = held
        self._asked: Final = asked
        self._begin_anew: Final = begin_anew
        self._loop: Final = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self.why: ThenceError | None = None
        """Why nothing is written at present."""
        self.broken: Final[asyncio.Future[ThenceError]] = self._loop.create_future()
        """Done when nothing ever will be."""
        watch(self)

    def forked(self) -> None:
        self.why = StorageError(FORKED)

    def begin(self, error: StorageError) -> None:
        self.goes_on(error)
        self._held.cut_off()
        self._asked.refuse(refused(error))
        self._begin_anew(str(error))

    def goes_on(self, error: StorageError) -> None:
        self.why = error
        if self._timer is None:
            self._timer = self._loop.call_later(PROBE_EVERY_S, self._look)

    def _look(self) -> None:
        self._timer = None
        if not self.broken.done():
            self._probe()

    def over(self) -> None:
        self.why = None

    def last(self, error: ThenceError) -> None:
        """It is broken."""
        self.why = error
        if not self.broken.done():
            self.broken.set_result(error)
        self._held.refuse(refused(error, definite=False))
        self._asked.refuse(refused(error))
        self._begin_anew(str(error))

    def stop_looking(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self) -> None:
        unsure = StorageError("the node was closed before it was certain that this is written")
        unsure.definite = False
        self._held.refuse(unsure)
        self._asked.refuse(StorageError("the node was closed before this was written"))
        self.why = self.why or StorageError("this node is closed")
