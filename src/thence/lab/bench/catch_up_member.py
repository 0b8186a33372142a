"""A program with a node of a changing group inside it, for `bench catch-up`.

    python -m thence.lab.bench.catch_up_member NAME FOLDER ADDRESSES RATE

ADDRESSES are `name=host:port`, with commas; the first of them founds the group. It broadcasts RATE messages
a second, each with the time of its call, and sees how old those of the others are when `events()` hands them
out: the processes share the machine's monotonic clock. Time in which it was stopped is not made up for. Files
in FOLDER tell it what to do: `NAME.evict` names a process that the group is to go on without, `stop` ends it.
Then it prints when each message was sent and how long it took, by sender.
"""

import asyncio
import json
import sys
import time
from array import array
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import Final

import uvloop

import thence
from thence.core.errors import ThenceError
from thence.core.groups import process_of
from thence.replica.events import Delivered
from thence.runtime.application import OpenNode

PAYLOAD_BYTES: Final = 64
STAMP: Final = Struct("<q")
FILLER: Final = bytes(PAYLOAD_BYTES - STAMP.size)
TICK_S: Final = 0.001
BATCH: Final = 16
"""Messages at once: one that was held up does not make up for it in one go."""
LOOK_EVERY_S: Final = 0.05
UP, EVICT, STOP = "up", "evict", "stop"


class CatchUpProgram:
    def __init__(self, name: str, node: OpenNode, folder: Path, rate: float) -> None:
        self._name: Final = name
        self._node: Final = node
        self._folder: Final = folder
        self._rate: Final = rate
        self._over: Final = asyncio.Event()
        self._taken: Final[dict[str, tuple[array[int], array[int]]]] = {}
        self.sent = 0

    async def run(self) -> dict[str, object]:
        reading = asyncio.ensure_future(self._read())
        sending = asyncio.ensure_future(self._send())
        (self._folder / f"{self._name}.{UP}").touch()
        while not (self._folder / STOP).exists():
            evicted = self._folder / f"{self._name}.{EVICT}"
            if evicted.exists():
                who = evicted.read_text()
                evicted.unlink()
                self._node.evict(who)
            await asyncio.sleep(LOOK_EVERY_S)
        self._over.set()
        await sending
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading
        taken = {name: [sent.tolist(), took.tolist()] for name, (sent, took) in self._taken.items()}
        return {"sent": self.sent, "taken": taken}

    async def _send(self) -> None:
        last, owed = time.monotonic(), 0.0
        while not self._over.is_set():
            now = time.monotonic()
            owed, last = min(BATCH, owed + (now - last) * self._rate), now
            if owed >= 1:
                with suppress(ThenceError):  # one that has come back may have to wait
                    await asyncio.gather(*[self._broadcast() for _ in range(int(owed))])
                owed -= int(owed)
            await asyncio.sleep(TICK_S)

    async def _broadcast(self) -> None:
        await self._node.broadcast(STAMP.pack(time.monotonic_ns() // 1000) + FILLER)
        self.sent += 1

    async def _read(self) -> None:
        async for event in self._node.events():
            if isinstance(event, Delivered):
                at = STAMP.unpack_from(event.payload)[0]
                sent, took = self._taken.setdefault(process_of(event.origin), (array("q"), array("q")))
                sent.append(at)
                took.append(time.monotonic_ns() // 1000 - at)


async def main(name: str, folder: Path, addresses: str, rate: float) -> None:
    group = dict(one.split("=") for one in addresses.split(","))
    join = [] if name == next(iter(group)) else [next(iter(group.values()))]
    node = thence.open(
        name,
        listen=group[name],
        join=join,
        data=folder / name,
        sync="everysec",
        settings={"profile": "local"},
    )
    async with node:
        told = await CatchUpProgram(name, node, folder, rate).run()
    print(json.dumps(told))


def run(arguments: Sequence[str]) -> None:
    name, folder, addresses, rate = arguments
    uvloop.run(main(name, Path(folder), addresses, float(rate)))


if __name__ == "__main__":
    run(sys.argv[1:])
