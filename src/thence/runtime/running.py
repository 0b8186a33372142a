"""One node as a process: its event loop, its clock, its signals, its exit code."""

import asyncio
import gc
import signal
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Final

from thence.runtime.drain import Drain
from thence.runtime.logs import StructuredLog
from thence.runtime.making import make_node
from thence.runtime.node import Node
from thence.runtime.pacing import Clock
from thence.runtime.settings import NodeSettings

GARBAGE_OBJECTS: Final = 50_000
"""Allocations between two looks for cycles. Steps make none; looking after every 700 costs a tenth."""


def wall_clock() -> Clock:
    """Microseconds since 1970 at the start and steady from there on: what is kept for later starts must be
    comparable with them, and what is measured must not jump."""
    offset = time.time_ns() - time.monotonic_ns()
    monotonic_ns = time.monotonic_ns
    return lambda: (monotonic_ns() + offset) // 1000


def run(settings: NodeSettings) -> int:
    """Until it is told to stop, or its disk fails."""
    log = StructuredLog(settings.log_level, settings.log_format, sys.stderr)
    try:
        with asyncio.Runner(loop_factory=_loop(log)) as runner:
            return runner.run(_run(settings, log))
    finally:
        log.close()


def _loop(log: StructuredLog) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The fastest event loop that there is here; None is asyncio's own, which does as well."""
    try:
        from uvloop import new_event_loop
    except ImportError as error:
        log.debug("uvloop is missing, asyncio's loop is used", why=str(error))
        return None
    return new_event_loop


async def _run(settings: NodeSettings, log: StructuredLog) -> int:
    gc.set_threshold(GARBAGE_OBJECTS, 20, 20)
    if settings.resp is not None:
        from thence.runtime.store_running import run_store

        return await run_store(settings, log)
    node = make_node(settings, Drain(), log, wall_clock())
    return await run_node(node, node.start)


async def run_node(node: Node, start: Callable[[], Coroutine[None, None, None]]) -> int:
    """From its start to its end, by a signal or by itself."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, node.stop)
    starting = asyncio.ensure_future(start())
    waiting = asyncio.ensure_future(node.stopping.wait())
    await asyncio.wait([starting, waiting], return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        await asyncio.wait([starting])
        return 0
    starting.result()
    await waiting
    await node.close()
    if node.failed is not None:
        raise node.failed
    return 0
