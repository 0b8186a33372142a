"""`cluster.always`: how long `broadcast` takes when it returns from the disk, against nothing but the disk.

One node alone in its group, so that only one process syncs. In turns, in the same folder: a broadcast, and as
many bytes as the log grew by at it, appended to a plain file and synced.
"""

import asyncio
import os
import time
from pathlib import Path
from statistics import median

import uvloop

import thence
from thence.core.errors import ThenceError
from thence.lab.bench.record import Record
from thence.runtime.files import fdatasync

PAYLOAD = bytes(range(64))
WARM_TURNS = 16
PATIENCE_S = 600.0
"""Half a second for each of 500 turns would be a third of it."""


def always(folder: Path, turns: int) -> Record:
    return uvloop.run(_in_time(folder, turns))


async def _in_time(folder: Path, turns: int) -> Record:
    """A disk that takes no writes would keep `broadcast` waiting for ever."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await _always(folder, turns)
    except TimeoutError:
        raise ThenceError(f"the disk of {folder} has not taken {turns} syncs in {PATIENCE_S:g} s") from None


async def _always(folder: Path, turns: int) -> Record:
    ours: list[int] = []
    plain: list[int] = []
    descriptor = os.open(folder / "plain", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        settings = {"profile": "local"}
        async with thence.open("a", data=folder / "alone", sync="always", settings=settings) as node:
            before = node.status().log.bytes
            for _ in range(WARM_TURNS):
                await node.broadcast(PAYLOAD)
            data = bytes((node.status().log.bytes - before) // WARM_TURNS)
            for _ in range(turns):
                begun = time.perf_counter_ns()
                await node.broadcast(PAYLOAD)
                between = time.perf_counter_ns()
                os.write(descriptor, data)
                fdatasync(descriptor)
                plain.append(time.perf_counter_ns() - between)
                ours.append(between - begun)
    finally:
        os.close(descriptor)
    return Record("cluster.always", median(ours) / 1000, "us", median(plain) / 1000)
