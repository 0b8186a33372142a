"""Neighbours in a tree that take less than they are sent.

A mesh keeps to its windows. A live branch of a tree carries every message as it comes, and whatever its
other end does not take would pile up in memory. So above `MUCH_BYTES` a neighbour is *held*: it is sent
nothing more, and gets what comes from the log, at its own pace, once it has taken most of what waited.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from thence.replica.open_tree import OpenTree
from thence.runtime.driver import Driver

MUCH_BYTES: Final = 1 << 20
"""Waiting for one neighbour: some milliseconds of a good line, and all that a slow one costs in memory."""

LITTLE_BYTES: Final = 1 << 18
"""So little is left that the line would soon run dry."""

LOOK_S: Final = 0.01


class LinkBackpressure:
    def __init__(self, driver: Driver[OpenTree], queued: Callable[[str], int]) -> None:
        """`queued`: bytes that wait to be sent to a peer."""
        self._driver: Final = driver
        self._queued: Final = queued
        self._held: dict[str, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def sent(self, peer: str) -> None:
        """Something was sent to a neighbour."""
        if self._queued(peer) > MUCH_BYTES:
            self._driver.machine.hold(peer)
            self._held[peer] = None
            self._look_later()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._held.clear()

    def _look_later(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look)

    def _look(self) -> None:
        self._timer = None
        for peer in [peer for peer in self._held if self._queued(peer) <= LITTLE_BYTES]:
            del self._held[peer]
            self._driver.run(lambda machine, now, peer=peer: machine.release(peer, now))  # type: ignore[misc]
        if self._held:
            self._look_later()
