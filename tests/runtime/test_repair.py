"""Nodes that forgot: a damaged log that was repaired, and a machine that went down before it had synced.

What they lack comes back from the others, their own messages included; until then they do not send.
"""

import asyncio
import shutil
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from support.open_nodes import Group, delivered, run, until

from thence.core.errors import StorageError, UsageError
from thence.oplog.settings import Settings
from thence.runtime import folder as folders
from thence.runtime.application import OpenNode
from thence.runtime.folder import OPLOG
from thence.runtime.repair import repair

SMALL = {"log.segment_bytes": 4096, "drain_us": 500_000}
"""Several files, so that damage is anywhere in the log."""

EACH = 25
"""Messages that every member sends."""


def held(node: OpenNode) -> dict[int, bytes]:
    """The messages in a node's log."""
    return {stored.dot: stored.data for stored in node._host.running.machine.log.since(0)}


async def talk(nodes: list[OpenNode], rng: Random) -> None:
    """Everyone says something and hears everyone else."""
    readers = [node.events() for node in nodes]
    for i in range(EACH):
        for node in nodes:
            await node.broadcast(b"%d" % i + bytes(rng.randrange(200)))
    for reader in readers:
        await delivered(reader, EACH * (len(nodes) - 1))


async def everything_comes_back(group: Group, names: list[str], forgetful: str, **options: Any) -> None:
    """The forgetful one starts last; in the end all hold the same, and it counts on where it had been."""
    async with AsyncExitStack() as stack:
        others = [await stack.enter_async_context(group.open(name, settings=SMALL)) for name in names]
        there = held(others[0])
        back = await stack.enter_async_context(group.open(forgetful, settings=SMALL, **options))
        taking = asyncio.ensure_future(take_all(back))
        await until(lambda: held(back) == there)
        tag = await sent(back)
        assert back.name_of(tag) == (forgetful, EACH + 1), "a dot was used twice, or skipped"
        for node in others:
            await until(lambda: held(node) == held(back))  # noqa: B023
        taking.cancel()
        await asyncio.wait([taking])
    async with group.open(forgetful, settings=SMALL) as again:
        assert again.name_of(await again.broadcast(b"and again")) == (forgetful, EACH + 2), (
            "still recovering?"
        )


async def take_all(node: OpenNode) -> None:
    async for _ in node.events():
        pass


async def sent(node: OpenNode):  # type: ignore[no-untyped-def]  # a tag
    """Refused as long as the node is recovering."""
    while True:
        with suppress(StorageError):
            return await node.broadcast(b"back again")
        await asyncio.sleep(0.002)


def flip(folder: Path, rng: Random) -> Path:
    *_, newest = files = sorted((folder / OPLOG).glob("*.log"))
    file = rng.choice(files)
    data = bytearray(file.read_bytes())
    upto = len(data) // 2 if file == newest else len(data)  # the last write may have been torn by a crash
    data[rng.randrange(upto)] ^= 1 << rng.randrange(8)
    file.write_bytes(data)
    return file


def cut(folder: Path, rng: Random) -> Path:
    """The newest part of the log never got to the disk."""
    file = sorted((folder / OPLOG).glob("*.log"))[-1]
    data = file.read_bytes()
    file.write_bytes(data[: rng.randrange(len(data) // 4, len(data))])
    return file


@pytest.mark.parametrize("seed", range(8))
def test_a_damaged_log_is_repaired_and_what_it_lacks_comes_back(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    group = Group(tmp_path, ["a", "b", "c"])

    async def test() -> None:
        async with AsyncExitStack() as stack:
            await talk(await group.open_all(stack, settings=SMALL), rng)
        before = {file.name: file.read_bytes() for file in (tmp_path / "a" / OPLOG).iterdir()}
        file = flip(tmp_path / "a", rng)
        flipped = file.read_bytes()
        with pytest.raises(UsageError, match="thence repair"):
            await group.open("a", settings=SMALL).__aenter__()
        done = repair(tmp_path / "a", Settings(), 0, forgetful=False)
        assert len(done.damages) >= 1
        assert file.name in done.damages[0]
        assert done.aside is not None
        aside = {kept.name: kept.read_bytes() for kept in done.aside.iterdir()}
        assert aside == {**before, file.name: flipped}, "the log as it was found"
        await everything_comes_back(group, ["b", "c"], "a")

    run(test)


def test_a_log_without_damage_is_left_alone(tmp_path: Path) -> None:
    group = Group(tmp_path, ["a"])

    async def test() -> None:
        async with group.open("a") as a:
            await a.broadcast(b"x")
        before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
        done = repair(tmp_path / "a", Settings(), 0, forgetful=False)
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
                repair(tmp_path / "a", Settings(), 0, forgetful=False)

    run(test)
    with pytest.raises(UsageError, match="no data folder"):
        repair(tmp_path / "nowhere", Settings(), 0, forgetful=False)


def test_an_old_copy_is_made_fit_by_saying_that_it_is_one(tmp_path: Path) -> None:
    """Without that its peers take it for what it is, and it does not get in."""
    group = Group(tmp_path, ["a", "b"])

    async def test() -> None:
        async with AsyncExitStack() as stack:
            a, b = await group.open_all(stack, settings=SMALL)
            await a.broadcast(b"before")
            await delivered(b.events(), 1)
        shutil.copytree(tmp_path / "a", tmp_path / "backup")
        for _ in range(2):
            async with AsyncExitStack() as stack:
                nodes = await group.open_all(stack, settings=SMALL)
                await nodes[0].broadcast(b"after")
                await delivered(nodes[1].events(), 1)
        boots = (tmp_path / "a" / "boots").read_text()
        shutil.rmtree(tmp_path / "a")
        shutil.copytree(tmp_path / "backup", tmp_path / "a")
        (tmp_path / "a" / "boots").write_text(boots)
        repair(tmp_path / "a", Settings(), 0, forgetful=True)
        async with group.open("b", settings=SMALL) as b, group.open("a", settings=SMALL) as a:
            with pytest.raises(StorageError, match="recovering"):
                await a.broadcast(b"too early")
            taking = asyncio.ensure_future(take_all(a))
            assert a.name_of(await sent(a)) == ("a", 4)
            await until(lambda: held(a) == held(b))
            taking.cancel()
            await asyncio.wait([taking])

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
    group = Group(tmp_path, ["a", "b", "c"])

    async def test() -> None:
        async with AsyncExitStack() as stack:
            nodes = await group.open_all(stack, settings=SMALL, sync=sync)
            await talk(nodes, rng)
            await until(lambda: all(len(held(node)) == 3 * EACH for node in nodes))
            shutil.copytree(tmp_path / "a", tmp_path / "image")
        shutil.rmtree(tmp_path / "a")
        (tmp_path / "image").rename(tmp_path / "a")
        cut(tmp_path / "a", rng)
        reboot()
        await everything_comes_back(group, ["b", "c"], "a", sync=sync)

    run(test)


def test_under_always_a_power_cut_forgets_nothing_and_nobody_waits(
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


def test_a_recovering_node_says_whom_it_waits_for_and_remembers_it(
    tmp_path: Path, reboot: Callable[[], None]
) -> None:
    group = Group(tmp_path, ["a", "b", "c"])

    async def test() -> None:
        async with AsyncExitStack() as stack:
            nodes = await group.open_all(stack, settings=SMALL)
            await talk(nodes, Random(1))
            shutil.copytree(tmp_path / "a", tmp_path / "image")
        shutil.rmtree(tmp_path / "a")
        (tmp_path / "image").rename(tmp_path / "a")
        reboot()
        for _ in range(2):  # and after another start, though the machine stayed up
            async with group.open("a", settings={"drain_us": 0}) as a, group.open("b", settings=SMALL):
                await until(lambda: waits_for(a, "c"))
        await everything_comes_back(group, ["b", "c"], "a")

    def waits_for(a: OpenNode, names: str) -> bool:
        future = a._host.running.publish([b"refused"])
        return f"waits for {names}" in str(future.exception() or "")

    run(test)
