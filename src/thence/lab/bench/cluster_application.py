"""A program with a node inside it, one of those that `bench cluster` measures: latencies between them, and
what they cost.

    python -m thence.lab.bench.cluster_application NAME KIND MEMBERS DATA RATE WARM_S SECONDS

KIND `fixed`: the members are named; `changing`: the first founds the group, and the others join it.

It broadcasts payloads that bear the time of their own call of `broadcast`, and sees how old those of the
others are when `events()` hands them out: the processes are on one machine and share its monotonic clock.
Calls of one millisecond are made together, none waits for another. A rate of 0: as fast as it goes, but never
further than `BEHIND` messages ahead of the slowest member.

Every message of the measured time is counted, however late it is: the last one of a sender says that it is
the last, and a program that misses one of those ends with an error.
"""

import asyncio
import json
import sys
import time
from array import array
from collections.abc import Sequence
from struct import Struct
from typing import Final

import uvloop

import thence
from thence.replica.events import Delivered
from thence.runtime.application import OpenNode

PAYLOAD_BYTES: Final = 64
BATCH: Final = 64
TICK_S: Final = 0.001
"""The finest sleep of uvloop: anything shorter is a loop that spins."""
BEHIND: Final = 1024
PATIENCE_S: Final = 30.0

STAMP: Final = Struct("<cq")
WARM, MEASURED, LAST = b"w", b"m", b"l"
FILLER: Final = bytes(PAYLOAD_BYTES - STAMP.size)


class BenchProgram:
    def __init__(self, node: OpenNode, size: int) -> None:
        self._node: Final = node
        self._size: Final = size
        """Of the group."""
        self._phase = WARM
        self.taken_us: Final = array("q")
        """How old messages of their senders' measured time were."""
        self.delivered = 0
        """Messages of others during the own measured time, whenever they were sent."""
        self.sent = 0

    async def run(self, rate: float, warm_s: float, seconds: float) -> dict[str, object]:
        async with asyncio.timeout(PATIENCE_S):
            while not self._all_there():
                await asyncio.sleep(TICK_S)
        reading = asyncio.ensure_future(self._read())
        await self._send(rate, warm_s)
        self._phase = MEASURED
        begun, cpu_s, writes = time.monotonic(), time.process_time(), self._node.status().log.writes
        await self._send(rate, seconds)
        self._phase = LAST
        measured_s, cpu_s = time.monotonic() - begun, time.process_time() - cpu_s
        delivered, writes = self.delivered, self._node.status().log.writes - writes
        await self._broadcast()
        async with asyncio.timeout(PATIENCE_S):
            await reading
        return {
            "seconds": measured_s,
            "cpu_s": cpu_s,
            "writes": writes,
            "sent": self.sent,
            "delivered": delivered,
            "latencies_us": self.taken_us.tolist(),
        }

    def _all_there(self) -> bool:
        members = self._node.status().members
        return len(members) == self._size and all(member.link != "down" for member in members)

    async def _broadcast(self) -> None:
        await self._node.broadcast(STAMP.pack(self._phase, time.monotonic_ns()) + FILLER)
        self.sent += self._phase is MEASURED

    async def _send(self, rate: float, seconds: float) -> None:
        begun, sent = time.monotonic(), 0
        while (elapsed := time.monotonic() - begun) < seconds:
            due = min(BATCH, int(elapsed * rate) - sent) if rate else BATCH
            if not rate and self._ahead() > BEHIND:
                due = 0
            if due:
                await asyncio.gather(*[self._broadcast() for _ in range(due)])
                sent += due
            await asyncio.sleep(0 if due == BATCH else TICK_S)

    def _ahead(self) -> int:
        return max(member.lag for member in self._node.status().members)

    async def _read(self) -> None:
        """Until all other members have sent their last."""
        others = len(self._node.members) - 1
        async for event in self._node.events():
            if not isinstance(event, Delivered):
                continue
            phase, at = STAMP.unpack_from(event.payload)
            if phase == MEASURED:
                self.taken_us.append((time.monotonic_ns() - at) // 1000)
            elif phase == LAST:
                others -= 1
                if not others:
                    return
            self.delivered += self._phase is MEASURED


async def main(
    name: str, kind: str, members: str, data: str, rate: float, warm_s: float, seconds: float
) -> None:
    group = dict(member.split("=") for member in members.split(","))
    first = next(iter(group))
    node = thence.open(
        name,
        listen=group[name],
        members=group if kind == "fixed" else None,
        join=[group[first]] if kind == "changing" and name != first else (),
        data=data,
        sync="everysec",
        settings={"profile": "local"},
    )
    async with node:
        told = await BenchProgram(node, len(group)).run(rate, warm_s, seconds)
    print(json.dumps(told))


def run(arguments: Sequence[str]) -> None:
    name, kind, members, data, *times = arguments
    rate, warm_s, seconds = map(float, times)
    uvloop.run(main(name, kind, members, data, rate, warm_s, seconds))


if __name__ == "__main__":
    run(sys.argv[1:])
