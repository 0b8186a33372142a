"""A fake node behind the real routes: what it was told is kept, what it tells can be set.

`serving` runs it on a loop in a thread, so that a test can be the blocking client. As a program
(`python -m support.controlled FOLDER NAME`) it is a process of its own, to be signalled.
"""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from thence.core.errors import StorageError, UsageError
from thence.replica.group.process.node import CLOSED
from thence.runtime.address import Address
from thence.runtime.control import ControlServer
from thence.runtime.http import ClientLimits
from thence.runtime.instruments import Instruments
from thence.runtime.load import Load, Loader
from thence.runtime.status import Faults, LogStatus, MemberStatus, Status

LOOPBACK = Address("127.0.0.1", 0)


class Lines:
    """A log that keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, dict[str, object]]] = []

    def info(self, event: str, **fields: object) -> None:
        self.told.append(("info", event, fields))

    def warn(self, event: str, **fields: object) -> None:
        self.told.append(("warn", event, fields))

    def error(self, event: str, **fields: object) -> None:
        self.told.append(("error", event, fields))


@dataclass
class FakeNode:
    name: str = "a"
    members: Sequence[str] = ("a", "b", "c")
    wrong: str | None = None
    disk_full: bool = False
    unstable: int = 0
    holding: list[str] = field(default_factory=list)
    cut: list[str] = field(default_factory=list)
    slow_us: dict[str, int] = field(default_factory=dict)
    payloads: list[bytes] = field(default_factory=list)
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    allow_faults: bool = True
    explode: bool = False
    secret: bytes = b"of this cluster"
    listens: Address = LOOPBACK
    limits: ClientLimits = field(default_factory=ClientLimits)

    def __post_init__(self) -> None:
        self.instruments = Instruments(self.status)
        self.loader: Loader | None = None
        self.uptime_s = 12.5

    def status(self) -> Status:
        if self.explode:
            raise RuntimeError("a bug")
        return Status(
            name=self.name, cluster="test", pid=os.getpid(), uptime_s=self.uptime_s, state="running", boot=1,
            members=[self._member(number, name) for number, name in enumerate(self.members)],
            sent=len(self.payloads), delivered=7, inbox=0, held=0, unstable=self.unstable,
            oldest_unstable_s=4.25 if self.unstable else None, holding_stability_back=list(self.holding),
            log=LogStatus(bytes=123_456, head=1, tail=20, durable=18, sync="everysec", trouble=self.wrong),
            faults=Faults(
                allowed=self.allow_faults, cut=self.cut,
                slow_ms={peer: delay / 1000 for peer, delay in self.slow_us.items()},
            ),
            load=self.loader.status() if self.loader else None,
        )  # fmt: skip

    def _member(self, number: int, name: str) -> MemberStatus:
        link: Literal["me", "cut", "up"] = "me" if name == self.name else "cut" if name in self.cut else "up"
        return MemberStatus(
            name=name, address=f"127.0.0.1:{7101 + number}", link=link, since_s=3.0,
            lag=0 if link == "me" else 5,
        )  # fmt: skip

    def metrics(self) -> str:
        return self.instruments.render()

    def health(self) -> str | None:
        return self.wrong

    async def broadcast(self, payload: bytes, group: str = "") -> tuple[str, int]:
        del group
        if self.disk_full:
            raise StorageError("no space left for the log")
        self.payloads.append(payload)
        return self.name, len(self.payloads)

    async def _broadcast_all(self, payloads: Sequence[bytes]) -> None:
        for payload in payloads:
            await self.broadcast(payload)

    async def load(self, load: Load) -> None:
        if self.loader is None:
            self.loader = Loader(self._broadcast_all)
        await self.loader.start(load)

    def fault(self, what: str, peer: str | None, delay_us: int) -> None:
        if peer is not None and peer not in self.members:
            raise UsageError(f"there is no member {peer!r}")
        peers = self.members if peer is None else [peer]
        if what == "cut":
            self.cut += [name for name in peers if name not in self.cut]
        elif what == "mend":
            self.cut = [name for name in self.cut if name not in peers]
            self.slow_us = {name: delay for name, delay in self.slow_us.items() if name not in peers}
        else:
            self.slow_us |= dict.fromkeys(peers, delay_us)

    def leave(self, force: bool) -> None:
        del force
        raise UsageError(CLOSED)

    def evict(self, who: str, force: bool) -> str:
        del who, force
        raise UsageError(CLOSED)

    def regroup(self, group: str, join: bool) -> None:
        raise UsageError(f"{group} {join}")

    def bury(self, who: str) -> None:
        del who
        raise UsageError(CLOSED)

    def stop(self) -> None:
        self.stopped.set()


async def run(node: FakeNode, folder: Path, log: Lines, started: threading.Event | None = None) -> None:
    """Until the node is told to stop."""
    server = ControlServer(
        node, folder, node.name, "test", node.secret, node.allow_faults, node.listens, log, node.limits
    )
    await server.start()
    if started is not None:
        started.set()
    try:
        await node.stopped.wait()
    finally:
        if node.loader is not None:
            await node.loader.stop()
        await server.close()


@contextmanager
def serving(folder: Path, node: FakeNode, log: Lines | None = None) -> Iterator[FakeNode]:
    folder.mkdir(parents=True, exist_ok=True)
    started = threading.Event()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(
        target=lambda: loop.run_until_complete(run(node, folder, log or Lines(), started))
    )
    thread.start()
    try:
        assert started.wait(10), "the fake node did not start"
        yield node
    finally:
        loop.call_soon_threadsafe(node.stopped.set)
        thread.join(10)
        assert not thread.is_alive(), "the fake node does not stop"
        loop.close()


def main(folder: str, name: str, *members: str) -> None:
    async def live() -> None:
        node = FakeNode(name, members or ("a", "b", "c"))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, node.stop)
        print("ready", flush=True)  # a reader of this line still has to wait for control.json
        await run(node, Path(folder), Lines())

    asyncio.run(live())


if __name__ == "__main__":
    main(*sys.argv[1:])
