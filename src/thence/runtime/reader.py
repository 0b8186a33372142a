"""What a program reads: the events of a node, one after another.

Those of a repetition (`after` a position) come from the log first; then what happens.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from thence.core.errors import ApplicationError, InvariantError, StorageError, told
from thence.replica.contract import Machine
from thence.replica.events import Delivered, Event, Gap, Repeated
from thence.runtime.driver import Driver
from thence.runtime.node import Node
from thence.runtime.program import Program
from thence.runtime.waiting import Bell

if TYPE_CHECKING:
    from thence.runtime.application import OpenNode

GIVE_WAY: Final = 1024
"""Events handed out in a row before the node gets its turn."""


class Events:
    """What happens, one event after another, to the one reader that a node has at a time: it is the reader
    until it ends, is closed, or there is no reference to it any more."""

    def __init__(
        self, node: "OpenNode", host: Node, program: Program, bell: Bell, repeated: Iterator[Event | None]
    ) -> None:
        """`bell`: rings when there is something new to see. `repeated`: what comes first."""
        self._node: Final = node
        self._host: Final = host
        self._program: Final = program
        self._bell: Final = bell
        self.repeated: Iterator[Event | None] | None = repeated
        """Until all of it was handed out."""
        self._handed = 0
        self.ended = False

    def close(self) -> None:
        """It reads no more; another one may."""
        self.ended = True
        self._bell.ring()

    def __aiter__(self) -> "Events":
        return self

    async def __anext__(self) -> Event:
        self._handed += 1
        if self._handed % GIVE_WAY == 0:
            await asyncio.sleep(0)
        elif self.repeated is None and not self.ended and (event := self._node.at_hand()) is not None:
            return event
        try:
            found = await self._next()
        except (StorageError, InvariantError, ApplicationError):
            self.ended = True
            raise
        if found is None:
            self.ended = True
            raise StopAsyncIteration
        return found

    async def _next(self) -> Event | None:
        program, driver = self._program, self._host.running
        while self._node.reads(self):
            self._node.must_be_open()
            if self.repeated is not None and not program.repeats:
                for again in self.repeated:
                    if again is not None:
                        return again
                    if driver.trouble is not None:
                        break
                    await asyncio.sleep(0)
                    if not self._node.reads(self):
                        return None
                else:
                    self.repeated = None
            if self.repeated is None:
                if (event := program.next()) is not None:
                    return event
                program.hungry = True
                if driver.trouble is None and driver.machine.waiting:
                    driver.take()
                    if program.happened:
                        continue
            if driver.broken.done():
                raise told(driver.broken.result())
            if self._host.stopping.is_set():
                return None
            try:
                await self._bell.wait()
            finally:
                program.hungry = False
        return None


def told_again(
    driver: Driver[Any],
    replay: Callable[[int], Iterator[Repeated | None]],
    after: int,
    found: Iterator[Repeated | None],
) -> Iterator[Event | None]:
    """What comes after a position. The machine may be built anew meanwhile, or its log replaced by that
    of another incarnation: then it goes on there."""
    machine: Machine[Any] = driver.machine
    log = machine.log
    while True:
        for event in found:
            if isinstance(event, Delivered | Gap):
                after = event.position
            yield event
            if driver.machine is not machine or machine.log is not log:
                break
        else:
            return
        while driver.trouble is not None or driver.machine.log is None:
            yield None
        machine, log, found = driver.machine, driver.machine.log, replay(after)
