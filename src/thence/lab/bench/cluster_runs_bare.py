"""The floor of part `runs` of `bench cluster`: what a turn costs whose program does nothing else.

    python -m thence.lab.bench.cluster_runs_bare PORTS ME BYTES TURNS FILE

The first of the processes (ME is 0) does in each turn of its loop what a writer cannot do without: it writes
so many bytes to a file, and to a socket for each of the others, which write what a read brings to a file of
their own. A turn comes every `PACE_S`, about as a node's do, so that a receiver sleeps between two of them
and has to be woken. Each says CPU microseconds for a turn. Imports nothing of thence.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Sequence

import uvloop

HOST = "127.0.0.1"
PACE_S = 40e-6
READ_BYTES = 16 << 10
PATIENCE_S = 20.0


class BareReading(asyncio.BufferedProtocol):
    """One connection whose bytes go to a file."""

    def __init__(self, descriptor: int, total: int) -> None:
        self._buffer = memoryview(bytearray(READ_BYTES))
        self._descriptor = descriptor
        self._left = total
        self._at = 0
        self.begun_s = 0.0
        self.done = asyncio.Event()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if not self.begun_s:
            self.begun_s = time.process_time()
        os.pwrite(self._descriptor, bytes(self._buffer[:nbytes]), self._at)
        self._at += nbytes
        if self._at >= self._left:
            self.done.set()


async def receive(port: int, size: int, turns: int, descriptor: int) -> float:
    """CPU time of a turn, from the first bytes on."""
    reading = BareReading(descriptor, size * turns)
    server = await asyncio.get_running_loop().create_server(lambda: reading, HOST, port)
    await reading.done.wait()
    ended_s = time.process_time()
    server.close()
    return 1e6 * (ended_s - reading.begun_s) / turns


async def _dial(port: int) -> asyncio.Transport:
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return (await asyncio.get_running_loop().create_connection(asyncio.Protocol, HOST, port))[0]
        except OSError:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(0.01)


async def write(ports: Sequence[int], size: int, turns: int, descriptor: int) -> float:
    """CPU time of a turn; the wait for the next one is not counted."""
    peers = [await _dial(port) for port in ports]
    data, at = bytes(size), 0

    def nothing() -> None:
        """What is not written costs this."""

    def turn() -> None:
        nonlocal at
        os.pwrite(descriptor, data, at)
        for peer in peers:
            peer.write(data)
        at += size

    steps, took_s = 1_000, await _turns(nothing, turns, 1_000) / turns
    steps = int(steps * PACE_S / took_s)
    idle_s = await _turns(nothing, turns, steps)
    busy_s = await _turns(turn, turns, steps)
    for peer in peers:
        peer.close()
    return 1e6 * (busy_s - idle_s + await _turns(nothing, turns, 0)) / turns


async def _turns(act: Callable[[], None], turns: int, steps: int) -> float:
    """CPU time of so many turns of the loop with this in each, and a wait of so many steps."""
    begun_s, loop = time.process_time(), asyncio.get_running_loop()
    for _ in range(turns):
        loop.call_soon(act)
        await asyncio.sleep(0)
        for _ in range(steps):
            pass
    return time.process_time() - begun_s


def main(arguments: Sequence[str]) -> None:
    named, me, size, turns, file = arguments
    ports = [int(port) for port in named.split(",")]
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    if me == "0":
        cpu_us = uvloop.run(write(ports, int(size), int(turns), descriptor))
    else:
        cpu_us = uvloop.run(receive(ports[int(me) - 1], int(size), int(turns), descriptor))
    print(json.dumps({"cpu_us": cpu_us}))


if __name__ == "__main__":
    main(sys.argv[1:])
