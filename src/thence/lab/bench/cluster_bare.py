"""The baselines of `bench cluster`: processes that move bytes over loopback with uvloop and do nothing else.

    python -m thence.lab.bench.cluster_bare move ME PORTS RATE WARM_S SECONDS
    python -m thence.lab.bench.cluster_bare answer PORT
    python -m thence.lab.bench.cluster_bare ask PORT RATE WARM_S SECONDS

`move`: as many of these as there are ports, a connection between any two; each sends messages to all others,
one write per batch and connection, and cuts what it receives into messages and counts them. `ask` and
`answer`: an echo, and the time that its round trips take. Movers with a rate of 0 send as fast as the others
take it. What was measured is printed as one line of JSON.

Imports nothing of thence, so that memory and CPU time are those of the bare program.
"""

import asyncio
import json
import os
import sys
import time
from array import array
from collections.abc import Callable, Sequence
from struct import Struct
from typing import cast

import uvloop

HOST = "127.0.0.1"
PAYLOAD_BYTES = 64
BATCH = 64
"""Messages per write at most: what a node's own load generator hands over at once."""
TICK_S = 0.001
"""The finest sleep of uvloop: anything shorter is a loop that spins."""
TAIL_S = 0.3
"""A process goes on for so long after its measurement: the others began theirs a little later."""
PATIENCE_S = 20.0

LENGTH = Struct("<I")
STAMP = Struct("<q")
FRAME = LENGTH.pack(PAYLOAD_BYTES) + bytes(range(PAYLOAD_BYTES))


class BarePeer(asyncio.Protocol):
    """One connection: received bytes are cut into messages, `taken` gets those of one read."""

    def __init__(self, taken: Callable[[list[bytes]], None]) -> None:
        self._taken = taken
        self._rest = b""
        self._transport: asyncio.Transport | None = None
        self.room = asyncio.Event()
        """The other side takes more."""
        self.closed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one, and does not say so
        self.room.set()

    def data_received(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
        messages, at, end = [], 0, len(data)
        while end - at >= LENGTH.size:
            stop = at + LENGTH.size + LENGTH.unpack_from(data, at)[0]
            if stop > end:
                break
            messages.append(data[at + LENGTH.size : stop])
            at = stop
        self._rest = data[at:]
        self._taken(messages)

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def pause_writing(self) -> None:
        self.room.clear()

    def resume_writing(self) -> None:
        self.room.set()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        self._transport = None
        self.room.set()
        self.closed.set()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


async def dial(port: int, taken: Callable[[list[bytes]], None]) -> BarePeer:
    """Connect to a process that may not listen yet."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            loop = asyncio.get_running_loop()
            return (await loop.create_connection(lambda: BarePeer(taken), HOST, port))[1]
        except OSError:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(0.01)


async def send(rate: float, until: float, batch: Callable[[int], None]) -> None:
    """Call `batch` with what is due, until then; what was late is made up for."""
    begun, sent = time.monotonic(), 0
    while (now := time.monotonic()) < until:
        due = min(BATCH, int((now - begun) * rate) - sent)
        if due:
            batch(due)
            sent += due
        await asyncio.sleep(0 if due == BATCH else TICK_S)


class Mover:
    """One of the processes that send messages to each other."""

    def __init__(self) -> None:
        self.peers: list[BarePeer] = []
        self.sent = self.received = 0

    def taken(self, messages: list[bytes]) -> None:
        for message in messages:
            self.received += len(message) == PAYLOAD_BYTES

    def accepted(self) -> BarePeer:
        peer = BarePeer(self.taken)
        self.peers.append(peer)
        return peer

    async def run(self, me: int, ports: Sequence[int], rate: float, warm_s: float, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(self.accepted, HOST, ports[me])
        for port in ports[:me]:
            self.peers.append(await dial(port, self.taken))
        async with asyncio.timeout(PATIENCE_S):
            while len(self.peers) < len(ports) - 1:
                await asyncio.sleep(TICK_S)
        resident = resident_bytes()
        sending = asyncio.ensure_future(self._send(rate, time.monotonic() + warm_s + seconds + TAIL_S))
        await asyncio.sleep(warm_s)
        before = (time.monotonic(), time.process_time(), self.sent, self.received)
        await asyncio.sleep(seconds)
        after = (time.monotonic(), time.process_time(), self.sent, self.received)
        await sending
        for peer in self.peers:
            peer.close()
        server.close()
        names = ("seconds", "cpu_s", "sent", "received")
        measured = {name: now - then for name, then, now in zip(names, before, after, strict=True)}
        print(json.dumps({**measured, "resident_bytes": resident}))

    async def _send(self, rate: float, until: float) -> None:
        def batch(count: int) -> None:
            data = FRAME * count
            for peer in self.peers:
                peer.write(data)
            self.sent += count

        if rate:
            await send(rate, until, batch)
            return
        while time.monotonic() < until:
            for peer in self.peers:
                await peer.room.wait()
            batch(BATCH)
            await asyncio.sleep(0)


async def answer(port: int) -> None:
    """Echo whatever the first connection sends, until it closes."""
    accepted: list[Echo] = []

    def accept() -> Echo:
        accepted.append(Echo())
        return accepted[-1]

    server = await asyncio.get_running_loop().create_server(accept, HOST, port)
    async with asyncio.timeout(PATIENCE_S):
        while not accepted:
            await asyncio.sleep(TICK_S)
    await accepted[0].closed.wait()
    server.close()
    print(json.dumps({}))


class Echo(BarePeer):
    def __init__(self) -> None:
        super().__init__(lambda _: None)

    def data_received(self, data: bytes) -> None:
        self.write(data)


async def ask(port: int, rate: float, warm_s: float, seconds: float) -> None:
    """Send messages that bear the time of their making, and see how old they are when they come back."""
    begun = time.monotonic_ns() + int(warm_s * 1e9)
    taken_us = array("q")
    filler = bytes(PAYLOAD_BYTES - STAMP.size)
    length = LENGTH.pack(PAYLOAD_BYTES)

    def taken(messages: list[bytes]) -> None:
        now = time.monotonic_ns()
        for message in messages:
            sent = STAMP.unpack_from(message)[0]
            if sent >= begun:
                taken_us.append((now - sent) // 1000)

    peer = await dial(port, taken)

    def batch(count: int) -> None:
        stamped = [length + STAMP.pack(time.monotonic_ns()) + filler for _ in range(count)]
        peer.write(b"".join(stamped))

    await send(rate, begun / 1e9 + seconds, batch)
    await asyncio.sleep(TAIL_S)
    peer.close()
    print(json.dumps({"latencies_us": taken_us.tolist()}))


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main(arguments: Sequence[str]) -> None:
    what, *rest = arguments
    if what == "move":
        me, ports, *times = rest
        rate, warm_s, seconds = map(float, times)
        uvloop.run(Mover().run(int(me), [int(port) for port in ports.split(",")], rate, warm_s, seconds))
    elif what == "answer":
        uvloop.run(answer(int(rest[0])))
    else:
        rate, warm_s, seconds = map(float, rest[1:])
        uvloop.run(ask(int(rest[0]), rate, warm_s, seconds))


if __name__ == "__main__":
    main(sys.argv[1:])
