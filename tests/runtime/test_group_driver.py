"""The driver of a changing group keeps its promises: commit, then trace, then packets and answers."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pytest
from support.open_nodes import PATIENCE_S

from thence.core.errors import InvariantError, StorageError, UsageError
from thence.core.groups import Place
from thence.core.storage import DiskError
from thence.core.tag import Tag
from thence.oplog.policy import Policy
from thence.oplog.settings import Settings
from thence.replica.group import GroupNode
from thence.replica.group_parts import Operation
from thence.replica.group_settings import GroupSettings
from thence.runtime import trouble
from thence.runtime.diaries import Diaries
from thence.runtime.files import DiskFiles
from thence.runtime.folder import DataFolder
from thence.runtime.group_driver import GroupDriver
from thence.runtime.shelf import DiskShelf


class Program:
    """Applies, and wants nothing."""

    def __init__(self) -> None:
        self.applied: list[bytes] = []

    def apply(self, operation: Operation, own: bool, tag: Tag) -> None:
        if operation.payload == b"a bug":
            raise InvariantError("this cannot be")
        self.applied.append(operation.payload)

    def stable(self, place: Place, tag: Tag) -> None:
        """Nothing."""

    def state(self) -> bytes:
        return b""

    def install(self, state: bytes) -> None:
        self.applied.clear()

    def view_changed(self, members: tuple[str, ...]) -> None:
        """Nothing."""

    def orphaned(self, operation: Operation) -> None:
        """Nothing."""

    def taking(self, now: int) -> None:
        """Nothing."""

    def stepped(self, now: int) -> None:
        """Nothing."""


class Outlet:
    """Writes down what leaves, and why links began anew."""

    def __init__(self) -> None:
        self.left: list[str] = []
        self.anew: list[str] = []

    def send(self, process: str, packets: Sequence[bytes]) -> None:
        self.left += [process] * len(packets)

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

    def go(self, error: Exception | None = None) -> None:
        waiting, self._waiting = self._waiting, []
        for future, work in waiting:
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(work())


class Driven:
    """A process that founded a group, with a disk of its own and fakes around it."""

    def __init__(self, folder: Path, sync: Policy) -> None:
        self.program = Program()
        self.outlet = Outlet()
        self.syncer = Patient()
        self.trace = folder / "trace"
        self._now = 1_000_000
        self._folder = DataFolder(folder / "a", b"machine")
        self.shelf = DiskShelf(self._folder, "a", "town", Settings(sync=sync))
        self.diaries = Diaries(self.trace, self.shelf.boot())
        self.driver = GroupDriver(
            self.make, self.make(self.now()), self.shelf, self.diaries, self.outlet, self.program,
            self.now, self.syncer, always=sync == "always",
        )  # fmt: skip
        self.driver.call(lambda node, now: node.found(now))

    def make(self, now: int) -> GroupNode:
        return GroupNode("a", self.shelf, self.program, self.diaries, (), GroupSettings(), now)

    def now(self) -> int:
        self._now += 10
        return self._now

    @property
    def rows(self) -> int:
        return sum(file.read_bytes().count(b"\n") for file in self.trace.iterdir())

    async def turn(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    async def close(self) -> None:
        closing = asyncio.ensure_future(self.driver.close())
        while not closing.done():
            self.syncer.go()
            await asyncio.sleep(0.001)
        self.diaries.close()
        self.shelf.close(in_order=closing.result())
        self._folder.close()


def run(folder: Path, sync: Policy, story: Callable[[Driven], Awaitable[None]]) -> None:
    async def whole() -> None:
        driven = Driven(folder, sync)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await story(driven)
        finally:
            await driven.close()

    asyncio.run(whole())


def test_under_always_nothing_is_told_or_answered_before_it_is_synced(tmp_path: Path) -> None:
    async def story(driven: Driven) -> None:
        before = driven.rows
        asked = driven.driver.publish([b"one"])
        await driven.turn()
        assert driven.program.applied == [b"one"]
        assert not asked.done()
        assert driven.rows == before, "a trace must not know what the disk may forget"
        driven.syncer.go()
        assert await asked == [("a", 1)]
        assert driven.rows > before

    run(tmp_path, "always", story)


def test_under_the_weaker_policies_a_commit_is_enough(tmp_path: Path) -> None:
    async def story(driven: Driven) -> None:
        assert await driven.driver.publish([b"one", b"two"]) == [("a", 1), ("a", 2)]
        assert driven.driver.log is not None
        assert driven.driver.log.vector == (2,)

    run(tmp_path, "no", story)


def test_a_step_that_cannot_be_written_never_was_and_the_next_gets_its_dot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trouble, "PROBE_EVERY_S", 0.001)
    write = DiskFiles.write

    def full(files: DiskFiles, name: str, offset: int, data: bytes | bytearray) -> None:
        raise DiskError("no space", file=name, definite=True, full=True)

    async def story(driven: Driven) -> None:
        await driven.driver.publish([b"one"])
        rows = driven.rows
        monkeypatch.setattr(DiskFiles, "write", full)
        with pytest.raises(StorageError, match=r"nothing is written at present: .*no space"):
            await driven.driver.publish([b"lost"])
        with pytest.raises(StorageError, match="nothing is written at present"):
            driven.driver.call(lambda node, now: node.leave(now))
        assert driven.outlet.anew
        assert driven.rows == rows
        monkeypatch.setattr(DiskFiles, "write", write)
        while driven.driver.trouble is not None:
            await asyncio.sleep(0.001)
        assert await driven.driver.publish([b"two"]) == [("a", 2)]
        assert driven.program.applied == [b"one", b"two"]

    run(tmp_path, "no", story)


def test_after_a_failed_sync_or_a_bug_nothing_goes_on(tmp_path: Path) -> None:
    async def sync_fails(driven: Driven) -> None:
        asked = driven.driver.publish([b"one"])
        await driven.turn()
        driven.syncer.go(DiskError("the disk is gone", file="x"))
        with pytest.raises(StorageError, match="the disk is gone"):
            await asked
        assert "the disk is gone" in str(await driven.driver.broken)

    async def bug(driven: Driven) -> None:
        with pytest.raises(StorageError, match="this cannot be"):
            await driven.driver.publish([b"a bug"])
        assert isinstance(driven.driver.bug, InvariantError)
        assert driven.driver.broken.done()

    run(tmp_path / "sync", "always", sync_fails)
    run(tmp_path / "bug", "no", bug)


def test_what_makes_no_sense_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    async def story(driven: Driven) -> None:
        with pytest.raises(UsageError, match="is member already"):
            driven.driver.call(lambda node, now: node.found(now))
        assert await driven.driver.publish([b"one"]) == [("a", 1)]

    run(tmp_path, "no", story)
