"""Neighbours in a tree that take less than they are sent.

A mesh keeps to its windows. A live branch of a tree carries every message as it comes, and whatever its
other end does not take would pile up in memory. So above `MUCH_BYTES` a neighbour is *held*: it is sent
nothing more, and gets what comes from the log, at its own pace, once it has taken most of what waited.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from thence.core.machine import Effect
from thence.replica.live import Live
from thence.runtime.pacing import Clock

MUCH_BYTES: Final = 1 << 20
"""Waiting for one neighbour: some milliseconds of a good line, and all that a slow one costs in memory."""

LITTLE_BYTES: Final = 1 << 18
"""So little is left that the line would soon run dry."""

LOOK_S: Final = 0.01


class Outlet(Protocol):
    def send(self, peer: int, packets: Sequence[bytes]) -> None: ...

    def queued(self, peer: int) -> int:
        """Bytes that wait to be sent to it."""
        ...


class Easing:
    def __init__(
        self,
        live: Live,
        outlet: Outlet,
        step: Callable[[list[Effect], int], None],
        clock: Clock,
    ) -> None:
        """`step`: what to do with effects."""
        self._live: Final = live
        self._outlet: Final = outlet
        self._queued: Final = outlet.queued
        self._step: Final = step
        self._clock: Final = clock
        self._held: dict[int, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def send(self, peer: int, packets: Sequence[bytes]) -> None:
        self._outlet.send(peer, packets)
        if self._queued(peer) > MUCH_BYTES:
            self._live.hold(peer)
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
            now = self._clock()
            self._step(self._live.release(peer, now), now)
        if self._held:
            self._look_later()
