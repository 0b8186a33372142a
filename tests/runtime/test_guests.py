"""A guest is linked to a node of a changing group while that node's disk lets it down."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest
from support.changing import Changing, agree
from support.failing_disk import FailingDisk
from support.live_links import ANY, BRIEF, QUICK, Node, World, clock
from support.open_nodes import run, until

from thence import Delivered, StorageError
from thence.runtime import driver
from thence.runtime.address import parse_address
from thence.runtime.application import OpenNode
from thence.runtime.hello import Identity, Introduction
from thence.runtime.open_links import OpenLinks

SECRET = "only for guests of this test"


def told(hello: Introduction) -> bytes:
    raise AssertionError("no peer asks for the group")


@asynccontextmanager
async def guest(at: OpenNode, address: str) -> AsyncIterator[Node]:
    """A process that knows the secret and is linked, but neither is a member nor asks to be one."""
    world = World()
    node = Node(world, "stranger")
    me = Identity("thence", "stranger", b"log of a stranger", 1)
    links = OpenLinks(me, SECRET.encode(), ANY, QUICK, node, Random(1), clock, node.log, told, limits=BRIEF)
    node.links = links
    await links.start()
    links.know(at.me, parse_address(address), at_once=True)
    await world.until(lambda: node.heard)
    await until(lambda: "stranger" in at._host.link_status())
    try:
        yield node
    finally:
        await links.close()


async def numbers(at: OpenNode, count: int) -> list[int]:
    """What a program reads, whatever else happens."""
    seen: list[int] = []
    events = at.events()
    while len(seen) < count:
        event = await anext(events)
        if isinstance(event, Delivered):
            seen.append(int(event.payload))
    return seen


def test_after_a_failed_sync_the_node_stops_and_tells_also_with_a_guest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = Changing(tmp_path, "a")
    disk = FailingDisk(tmp_path / "a", monkeypatch)

    async def whole() -> None:
        async with group.open("a", sync="always", secret=SECRET) as a, guest(a, group.at["a"]) as stranger:
            reading = asyncio.ensure_future(numbers(a, 1))
            disk.fails = True
            with pytest.raises(StorageError, match="input/output error"):
                await a.broadcast(b"never certain")
            with pytest.raises(StorageError, match="input/output error"):
                await reading
            assert a._host.stopping.is_set()
            assert "input/output error" in (a._host.health() or "")
            await until(lambda: "down a" in stranger.heard)

    async def story() -> None:
        with pytest.raises(StorageError, match="input/output error"):
            await whole()

    run(story)


def test_a_full_disk_does_not_end_the_reader_of_a_node_with_a_guest_and_everything_comes_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "PROBE_EVERY_US", 10_000)
    group = Changing(tmp_path, "ab")
    disk = FailingDisk(tmp_path / "a", monkeypatch)

    async def story() -> None:
        async with (
            group.open("a", secret=SECRET) as a,
            group.open("b", join="a", secret=SECRET) as b,
            guest(a, group.at["a"]) as stranger,
        ):
            for number in range(10):
                await b.broadcast(b"%d" % number)
            await until(lambda: a._host.running.machine.waiting)
            disk.full = True
            reading = asyncio.ensure_future(numbers(a, 30))
            await until(lambda: a.status().log.trouble is not None)
            await until(lambda: "down a" in stranger.heard)
            for number in range(10, 20):
                await b.broadcast(b"%d" % number)
            disk.full = False
            await until(lambda: a.status().log.trouble is None)
            for number in range(20, 30):
                await b.broadcast(b"%d" % number)
            assert await reading == list(range(30))
            await a.broadcast(b"30")
            assert await numbers(b, 1) == [30]
            await agree(a, b)

    run(story)
