"""A node of a trial whose program has no state: `thence.open` without an application, and `events()`.

It writes down what it is told (`heard.py`), and the position with it. Beside the program a tally is kept, as
at nodes whose program is one: what the group hands to joiners must not depend on which kind lets them in.
"""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from zlib import crc32

from thence.lab.chaos.heard import FirstLine, HeardFile, Missed, ToldLine
from thence.replica.events import Delivered, Gap
from thence.replica.group.surroundings import Applied, Operation, OperationRun
from thence.runtime import application
from thence.runtime.application import OpenNode
from thence.runtime.node import Node
from thence.runtime.program import Program
from thence.runtime.settings import NodeSettings

if TYPE_CHECKING:
    from thence.lab.chaos.expected import Tallying


class Accompanied(Program):
    """A program, and a tally that it knows nothing of."""

    def __init__(self, tally: "Tallying", *given: Any) -> None:
        super().__init__(*given)
        self._tally = tally

    def apply(self, one: Applied) -> None:
        self._tally.apply(one)
        super().apply(one)

    def deliver(self, event: Delivered, own: bool) -> None:
        self._tally.apply(Applied(Operation(event.origin, event.seq, event.payload), own, event.tag))
        super().deliver(event, own)

    def apply_run(self, run: OperationRun) -> None:
        for one in run.each():
            self._tally.apply(one)
        super().apply_run(run)

    def state_chunks(self) -> Iterator[bytes]:
        return iter((self._tally.state(),))

    def install(self, state: bytes) -> None:
        self._tally.install(state)

    def stepped(self, node: Node, now: int) -> None:
        self._tally.stepped(node, now)


def run(settings: NodeSettings, tally: "Tallying") -> int:
    """Until it has left, or is told to stop."""
    setattr(application, "Program", lambda *given: Accompanied(tally, *given))  # noqa: B010
    asyncio.run(_run(settings, tally))
    return 0


async def _run(settings: NodeSettings, tally: "Tallying") -> None:
    reading = asyncio.ensure_future(_read(settings, tally))
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, reading.cancel)
    with suppress(asyncio.CancelledError):
        await reading


async def _read(settings: NodeSettings, tally: "Tallying") -> None:
    async with OpenNode(settings) as node:
        record = HeardFile(settings.data)
        if record.position is None:
            record.write(FirstLine(node.position, tally.places))
        async for event in node.events(after=record.position):
            if isinstance(event, Delivered):
                what = crc32(event.payload, event.seq)
                record.write(ToldLine(event.position, event.origin, event.seq, what))
            elif isinstance(event, Gap):
                record.write(Missed(event.position, dict(event.first), dict(event.last)))
        record.close()
