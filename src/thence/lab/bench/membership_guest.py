"""Nodes of a changing group inside one program, for `bench membership`: they join, tell how fast, and leave.

    python -m thence.lab.bench.membership_guest FOLDER CLUSTER SECRET JOIN RATE WARM_S SECONDS

joins and lets leave RATE guests a second (0: none), for that long, and prints what became of them as a line
of JSON. Guests are whole nodes, with a data folder, a log and TCP links each; they share an event loop, since
processes that start at such a rate would keep a small machine busy with nothing else.
"""

import asyncio
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import Final, NamedTuple

import uvloop

from thence.core.errors import ThenceError
from thence.local.ports import HOST, free_ports
from thence.runtime.drain import Drain
from thence.runtime.logs import StructuredLog
from thence.runtime.making import make_node
from thence.runtime.node import Node
from thence.runtime.running import wall_clock
from thence.runtime.sources import compose

PATIENCE_S: Final = 40.0
"""Less than the program that started this one has."""
TAIL_S: Final = 0.3
"""Guests go on for so long after the measurement: others look at their clocks a little later."""

BEGUN: Final = "begun"
"""The file that appears when the first guest is about to come."""

AT_ONCE: Final = 4
"""Guests on their way in or out. Where the machine cannot take more, the rate is lower, and told: more of
them would only keep each other from getting on."""


class GuestGroup(NamedTuple):
    """Where guests go."""

    cluster: str
    secret: Path
    join: tuple[str, ...]


class BenchGuest(Drain):
    """A node, and its application: which keeps the state that it is given."""

    def __init__(
        self,
        name: str,
        folder: Path,
        group: GuestGroup,
        log: StructuredLog,
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`more`: settings besides those of any guest."""
        self._state = b""
        self._member = asyncio.Event()
        flags = {
            "name": name, "listen": f"{HOST}:{free_ports(1)}", "join": ",".join(group.join),
            "cluster": group.cluster, "secret_file": group.secret, "data": folder / name,
            "profile": "local", "log.sync": "everysec", "log_level": "error", **more,
        }  # fmt: skip
        settings = replace(compose(flags, {}), http=None)  # they are not asked anything
        self.node: Final = make_node(settings, self, log, wall_clock())

    def state(self) -> bytes:
        return self._state

    def install(self, state: bytes) -> None:
        self._state = state

    def stepped(self, node: Node, now: int) -> None:
        del now
        if node.driver is not None and node.driver.machine.member is not None:
            self._member.set()

    async def join(self) -> float:
        """Seconds until the first message was sent."""
        begun = time.perf_counter()
        async with asyncio.timeout(PATIENCE_S):
            await self.node.start()
            await self._member.wait()
            await self.node.publish([b"here I am"])
        return time.perf_counter() - begun

    def has(self, clock: dict[str, int]) -> bool:
        assert self.node.driver
        member = self.node.driver.machine.member
        mine = member.ledger.vector() if member else {}
        return all(mine.get(name, 0) >= count for name, count in clock.items())

    @property
    def link_bytes(self) -> int:
        """In and out."""
        return sum(link.bytes_in + link.bytes_out for link in self.node.link_status().values())

    async def leave(self) -> float:
        """Seconds until it was gone, and all had its leave."""
        begun = time.perf_counter()
        async with asyncio.timeout(PATIENCE_S):
            self.node.leave()
            await self.node.stopping.wait()
        took_s = time.perf_counter() - begun
        await self.node.close()
        return took_s


def said() -> StructuredLog:
    """Where guests say what went wrong."""
    return StructuredLog("error", "text", sys.stderr)


class Visits:
    """Guests that come and go at a rate."""

    def __init__(self, folder: Path, group: GuestGroup) -> None:
        self._folder: Final = folder
        self._group: Final = group
        self._log: Final = said()
        self._guests: Final[set[asyncio.Task[None]]] = set()
        self._phase = ""
        self.joined: list[float] = []
        self.left: list[float] = []
        """Seconds that it took, of those that were over within the measurement."""

    async def run(self, rate: float, warm_s: float, seconds: float) -> dict[str, float]:
        (self._folder / BEGUN).touch()
        begun = time.perf_counter()
        came = 0
        while (elapsed := time.perf_counter() - begun) < warm_s + seconds + TAIL_S:
            self._phase = "measured" if warm_s <= elapsed < warm_s + seconds else ""
            if rate and came <= elapsed * rate and len(self._guests) < AT_ONCE:
                came += 1
                self._guests.add(asyncio.ensure_future(self._visit(f"{self._folder.name}-{came}")))
            for task in [task for task in self._guests if task.done()]:
                self._guests.discard(task)
                task.result()
            await asyncio.sleep(0.001)
        self._phase = ""
        await asyncio.gather(*self._guests)
        return {
            "seconds": seconds, "joins": len(self.joined), "leaves": len(self.left),
            "join_s": median(self.joined or [0.0]), "leave_s": median(self.left or [0.0]),
        }  # fmt: skip

    async def _visit(self, name: str) -> None:
        guest = BenchGuest(name, self._folder, self._group, self._log)
        try:
            took_s = await guest.join()
            if self._phase:
                self.joined.append(took_s)
            took_s = await guest.leave()
            if self._phase:
                self.left.append(took_s)
        except TimeoutError:
            raise ThenceError(f"{name} is {guest.node.state} after {PATIENCE_S:g} s") from None


def run(arguments: Sequence[str]) -> None:
    folder, cluster, secret, join, *times = arguments
    rate, warm_s, seconds = map(float, times)
    group = GuestGroup(cluster, Path(secret), tuple(join.split(",")))

    async def visits() -> dict[str, float]:
        return await Visits(Path(folder), group).run(rate, warm_s, seconds)

    print(json.dumps(uvloop.run(visits())))


if __name__ == "__main__":
    run(sys.argv[1:])
