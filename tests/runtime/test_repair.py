"""Nodes of a closed group that forgot: a damaged log, and a machine that went down before it had synced.

They return as new incarnations; what they lack comes from the others, their own messages included.
"""

import asyncio
import shutil
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest
from support.changing import Journal, agree
from support.open_nodes import Group, run

from thence.core.errors import UsageError
from thence.core.groups import process_of
from thence.oplog.settings import LogSettings
from thence.runtime import folder as folders
from thence.runtime.application import OpenNode
from thence.runtime.folder import OPLOG
from thence.runtime.incarnations import repair_shelf
from thence.runtime.repair import repair

SMALL = {"log.segment_bytes": 4096, "drain_us": 500_000}
"""Several files, so that damage is anywhere in the log."""

EACH = 25
"""Messages that every member sends."""


class Nodes:
    """Members that keep journals, in which everything is found in the end."""

    def __init__(self, folder: Path, names: list[str], **options: Any) -> None:
        self.group = Group(folder, names)
        self.journals: dict[str, Journal] = {}
        self._options = options
        self.expected: list[str] = []

    def open(self, name: str) -> OpenNode:
        self.journals[name] = Journal()
        return self.group.open(name, application=self.journals[name], settings=SMALL, **self._options)

    async def open_all(self, stack: AsyncExitStack) -> list[OpenNode]:
        return [await stack.enter_async_context(self.open(name)) for name in self.group.members]

    async def send(self, node: OpenNode, line: str) -> None:
        self.expected.append(line)
        await node.broadcast(line.encode())

    async def talk(self, nodes: list[OpenNode], rng: Random) -> None:
        """Every member says something and hears all others."""
        for i in range(EACH):
            for node in nodes:
                await self.send(node, f"{node.me} {i} {rng.randrange(200) * '.'}")
        await agree(*nodes)

    async def everything_comes_back(self, forgetful: str) -> None:
        """The forgetful one starts last. In the end all have applied the same, each once; it counts on as
        another incarnation, and does so after the next start."""
        async with AsyncExitStack() as stack:
            others = [
                await stack.enter_async_context(self.open(name))
                for name in self.group.members
                if name != forgetful
            ]
            back = await stack.enter_async_context(self.open(forgetful))
            assert back.me not in self.group.members
            await self.send(back, "back again")
            await agree(back, *others)
            for journal in self.journals.values():
                assert sorted(journal.lines) == sorted(self.expected)
            was = back.me
        async with self.open(forgetful) as again:
            assert again.me == was


def flip(folder: Path, rng: Random) -> Path:
    *_, newest = files = sorted((folder / OPLOG / "1").glob("*.log"))
    file = rng.choice(files)
    data = bytearray(file.read_bytes())
    upto = len(data) // 2 if file == newest else len(data)  # the last write may have been torn by a crash
    data[rng.randrange(upto)] ^= 1 << rng.randrange(8)
    file.write_bytes(data)
    return file


def cut(folder: Path, rng: Random) -> Path:
    """The newest part of the log never got to the disk."""
    file = sorted((folder / OPLOG / "1").glob("*.log"))[-1]
    data = file.read_bytes()
    file.write_bytes(data[: rng.randrange(len(data) // 4, len(data))])
    return file


@pytest.mark.parametrize("seed", range(8))
def test_a_damaged_log_is_mended_and_what_it_lacks_comes_back(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    nodes = Nodes(tmp_path, ["a", "b", "c"])

    async def test() -> None:
        async with AsyncExitStack() as stack:
            await nodes.talk(await nodes.open_all(stack), rng)
        flip(tmp_path / "a", rng)
        found = {file.name: file.read_bytes() for file in (tmp_path / "a" / OPLOG / "1").iterdir()}
        await nodes.everything_comes_back("a")
        [aside] = (tmp_path / "a").glob("damaged-*")
        assert {kept.name: kept.read_bytes() for kept in aside.iterdir()} == found, "the log as it was found"

    run(test)


def test_a_log_without_damage_is_left_alone(tmp_path: Path) -> None:
    group = Group(tmp_path, ["a"])

    async def test() -> None:
        async with group.open("a") as a:
            await a.broadcast(b"x")
        before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
        done = repair_shelf(tmp_path / "a", LogSettings(), 0, forgetful=False)
        assert done.damages == []
        assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before
        async with group.open("a") as a:
            assert a.name_of(await a.broadcast(b"y")) == ("a", 2)

    run(test)


def test_a_folder_that_is_in_use_is_not_repaired(tmp_path: Path) -> None:
    group = Group(tmp_path, ["a"])

    async def test() -> None:
        async with group.open("a"):
            with pytest.raises(UsageError, match="in use"):
                repair_shelf(tmp_path / "a", LogSettings(), 0, forgetful=False)

    run(test)
    with pytest.raises(UsageError, match="no data folder"):
        repair(tmp_path / "nowhere", LogSettings(), 0, forgetful=False)


def test_an_old_copy_is_made_fit_by_saying_that_it_is_one(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, ["a", "b"])

    async def test() -> None:
        async with AsyncExitStack() as stack:
            a, b = await nodes.open_all(stack)
            await nodes.send(a, "before")
            await agree(a, b)
        shutil.copytree(tmp_path / "a", tmp_path / "backup")
        async with AsyncExitStack() as stack:
            a, b = await nodes.open_all(stack)
            await nodes.send(a, "after")
            await agree(a, b)
        shutil.rmtree(tmp_path / "a")
        shutil.copytree(tmp_path / "backup", tmp_path / "a")
        repair_shelf(tmp_path / "a", LogSettings(), 0, forgetful=True)
        await nodes.everything_comes_back("a")

    run(test)


@pytest.fixture
def reboot(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From the next start on it is another boot of the machine."""

    def change() -> None:
        monkeypatch.setattr(folders, "machine_id", lambda: b"another boot of it")

    return change


@pytest.mark.parametrize("sync", ["everysec", "no"])
@pytest.mark.parametrize("seed", range(4))
def test_what_a_power_cut_forgot_comes_back(
    tmp_path: Path, seed: int, sync: str, reboot: Callable[[], None]
) -> None:
    rng = Random(seed)
    nodes = Nodes(tmp_path, ["a", "b", "c"], sync=sync)

    async def test() -> None:
        async with AsyncExitStack() as stack:
            await nodes.talk(await nodes.open_all(stack), rng)
            shutil.copytree(tmp_path / "a", tmp_path / "image")
        shutil.rmtree(tmp_path / "a")
        (tmp_path / "image").rename(tmp_path / "a")
        cut(tmp_path / "a", rng)
        reboot()
        await nodes.everything_comes_back("a")

    run(test)


def test_a_group_that_lost_its_power_goes_on_with_what_is_left(
    tmp_path: Path, reboot: Callable[[], None]
) -> None:
    """All machines together: all of them are other incarnations then, and agree."""
    nodes = Nodes(tmp_path, ["a", "b", "c"], sync="no")

    async def test() -> None:
        async with AsyncExitStack() as stack:
            await nodes.talk(await nodes.open_all(stack), Random(1))
            for name in "abc":
                shutil.copytree(tmp_path / name, tmp_path / f"image of {name}")
        for name in "abc":
            shutil.rmtree(tmp_path / name)
            (tmp_path / f"image of {name}").rename(tmp_path / name)
        cut(tmp_path / "b", Random(2))
        reboot()
        again = [nodes.open(name) for name in "abc"]
        await asyncio.gather(*[node.__aenter__() for node in again])
        await nodes.send(again[0], "all are back")
        await agree(*again)
        assert {process_of(name) for name in again[0].members} == {"a", "b", "c"}
        assert not {"a", "b", "c"} & {*again[0].members}
        for journal in nodes.journals.values():
            assert sorted(journal.lines) == sorted(nodes.expected)
        for node in again:
            await node.__aexit__(None, None, None)

    run(test)


def test_under_always_a_power_cut_forgets_nothing_and_no_member_waits(
    tmp_path: Path, reboot: Callable[[], None]
) -> None:
    group = Group(tmp_path, ["a", "b"])

    async def test() -> None:
        async with group.open("a", settings={"drain_us": 0}, sync="always") as a:
            await a.broadcast(b"one")
            shutil.copytree(tmp_path / "a", tmp_path / "image")
        shutil.rmtree(tmp_path / "a")
        (tmp_path / "image").rename(tmp_path / "a")
        reboot()
        async with group.open("a", settings={"drain_us": 0}, sync="always") as a:
            assert a.name_of(await a.broadcast(b"two")) == ("a", 2), "b need not be there"

    run(test)


def test_a_node_that_was_closed_in_order_forgets_nothing_either(
    tmp_path: Path, reboot: Callable[[], None]
) -> None:
    group = Group(tmp_path, ["a", "b"])

    async def test() -> None:
        async with group.open("a", settings={"drain_us": 0}, sync="no") as a:
            await a.broadcast(b"one")
        reboot()
        async with group.open("a", settings={"drain_us": 0}, sync="no") as a:
            assert a.name_of(await a.broadcast(b"two")) == ("a", 2), "b need not be there"

    run(test)
