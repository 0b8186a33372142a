"""The end of a node: others should have what it sent, and it what is on its way to it.

Nodes that are stopped together would otherwise lose sight of each other's last messages: they are in logs,
and arrive after the next start, but a verdict on the trace before that misses them.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

LOOK_S: Final = 0.02

QUIET_S: Final = 0.2
"""Without a delivery for so long, nothing is on its way: a round trip, and nodes that are slow to stop."""


async def drained(limit_us: int, is_sent: Callable[[], bool], delivered: Callable[[], int]) -> None:
    """Until everything is sent and nothing more comes, but no longer than the limit."""
    loop = asyncio.get_running_loop()
    before, since = delivered(), loop.time()
    with suppress(TimeoutError):
        async with asyncio.timeout(limit_us / 1e6):
            while not is_sent() or loop.time() - since < QUIET_S:
                await asyncio.sleep(LOOK_S)
                if delivered() != before:
                    before, since = delivered(), loop.time()
