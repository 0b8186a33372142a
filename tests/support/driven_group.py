"""A driver of a changing group between fakes: a disk of its own, syncs that finish when the test says so, and
wires that carry what leaves when the test says so."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

from support.open_nodes import PATIENCE_S
from thence.core.errors import InvariantError
from thence.core.groups import Place
from thence.core.tag import Tag
from thence.oplog.policy import Policy
from thence.oplog.settings import Settings
from thence.replica.group import GroupNode
from thence.replica.group_parts import Operation, Orphan
from thence.replica.group_settings import GroupSettings
from thence.runtime import diaries, group_driver, shelf
from thence.runtime.folder import DataFolder


class Program:
    """Applies, and wants nothing."""

    reads = False

    def __init__(self) -> None:
        self.applied: list[bytes] = []
        self.on_state: Callable[[], None] = lambda: None

    def apply(self, operation: Operation, own: bool, tag: Tag, again: bool) -> None:
        if operation.payload == b"a bug":
            raise InvariantError("this cannot be")
        self.applied.append(operation.payload)

    def stable(self, place: Place, tag: Tag) -> None:
        """Nothing."""

    def state(self) -> bytes:
        self.on_state()
        return b""

    def install(self, state: bytes) -> None:
        self.applied.clear()

    def view_changed(self, members: tuple[str, ...]) -> None:
        """Nothing."""

    def sends_again(self, orphan: Orphan) -> bool:
        del orphan
        return True

    def orphaned(self, orphan: Orphan) -> None:
        """Nothing."""

    def taking(self, now: int) -> None:
        """Nothing."""

    def stepped(self, now: int) -> None:
        """Nothing."""


class Outlet:
    """Writes down what leaves, and why links began anew."""

    def __init__(self) -> None:
        self.left: list[tuple[str, bytes]] = []
        self.anew: list[str] = []
        self.on_send: Callable[[Sequence[bytes]], None] = lambda _: None

    def send(self, process: str, packets: Sequence[bytes]) -> None:
        self.on_send(packets)
        self.left += [(process, packet) for packet in packets]

    def vouched(self, process: str, address: str) -> str | None:
        return address

    def begin_anew(self, why: str) -> None:
        self.anew.append(why)


class Patient(Executor):
    """Syncs when it is told to."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, work: Callable[..., Any], /, *words: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._waiting.append((future, lambda: work(*words, **named)))
        return future

    @property
    def asked(self) -> int:
        return len(self._waiting)

    def go(self, error: Exception | None = None) -> None:
        waiting, self._waiting = self._waiting, []
        for future, work in waiting:
            if error is not None:
                future.set_exception(error)
                continue
            try:
                future.set_result(work())
            except Exception as failed:  # e.g. its file is closed: as a thread would tell
                future.set_exception(failed)


class Driven:
    """A process with a disk of its own and fakes around it. It founds a group, unless it knows somebody."""

    def __init__(self, folder: Path, sync: Policy, name: str = "a", knows: tuple[str, ...] = ()) -> None:
        self.name = name
        self.program = Program()
        self.outlet = Outlet()
        self.syncer = Patient()
        self.trace = folder / "trace"
        self.tick_us = 10
        """What a look at the clock costs, beside the time that really passes."""
        self._ahead = 0
        self._knows = knows
        self._folder = DataFolder(folder / name, b"machine")
        self.shelf = shelf.DiskShelf(self._folder, name, "town", Settings(sync=sync))
        self.diaries = diaries.Diaries(self.trace, self.shelf.boot())
        self.driver = group_driver.GroupDriver(
            self.make, self.make(self.now()), self.shelf, self.diaries, self.outlet, self.program,
            self.now, self.syncer,
        )  # fmt: skip
        self.driver.call(lambda node, now: node.join(now) if knows else node.found(now))

    def make(self, now: int) -> GroupNode:
        swift = GroupSettings(receipt_every_us=1_000, receipt_busy_us=1_000, receipt_idle_us=10_000)
        return GroupNode(self.name, self.shelf, self.program, self.diaries, self._knows, swift, now)

    def now(self) -> int:
        self._ahead += self.tick_us
        return time.monotonic_ns() // 1000 + self._ahead

    @property
    def sees_both(self) -> bool:
        member = self.driver.node.member
        return member is not None and len(member.view.side) == 2

    def lines(self) -> list[str]:
        """Of the trace."""
        return [line for file in sorted(self.trace.iterdir()) for line in file.read_text().splitlines()]

    @property
    def rows(self) -> int:
        return len(self.lines())

    @property
    def sends(self) -> int:
        """Of which the trace knows."""
        return sum('"send"' in line for line in self.lines())

    async def turn(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    async def close(self) -> bool:
        closing = asyncio.ensure_future(self.driver.close())
        while not closing.done():
            self.syncer.go()
            await asyncio.sleep(0.001)
        self.diaries.close()
        self.shelf.close(in_order=closing.result())
        self._folder.close()
        return closing.result()


def run(folder: Path, sync: Policy, story: Callable[[Driven], Awaitable[None]]) -> None:
    async def whole() -> None:
        driven = Driven(folder, sync)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await story(driven)
        finally:
            await driven.close()

    asyncio.run(whole())


class Two:
    """a, which founded a group, and b, which joined it, with wires between them. Each has greeted the other,
    which has not taken it yet."""

    def __init__(self, folder: Path, sync: Policy) -> None:
        self.a = Driven(folder / "one", sync)
        self.b = Driven(folder / "two", sync, "b", ("a",))

    async def meet(self) -> None:
        self.a.driver.up("b")
        self.b.driver.up("a")
        while not all(one.sees_both for one in (self.a, self.b)):
            await self.carry()
        for one in (self.a, self.b):
            one.driver.publish([b"hello"])
        while not all(one.driver.node.waiting for one in (self.a, self.b)):  # then messages flow both ways
            await self.carry()

    async def carry(self) -> None:
        """Everything that is on its way arrives, and what is asked to be synced is."""
        for one in (self.a, self.b):
            one.syncer.go()
        await asyncio.sleep(0.001)
        for one, other in ((self.a, self.b), (self.b, self.a)):
            packets = [packet for _, packet in one.outlet.left]
            one.outlet.left.clear()
            if packets:
                other.driver.packets(one.name, packets, other.now())


def run_two(folder: Path, sync: Policy, story: Callable[[Two], Awaitable[None]]) -> None:
    async def whole() -> None:
        two = Two(folder, sync)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await two.meet()
                await story(two)
        finally:
            await two.a.close()
            await two.b.close()

    asyncio.run(whole())
