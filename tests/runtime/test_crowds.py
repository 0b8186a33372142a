"""Many visitors: guests, strangers and few descriptors. Members and the disk must not notice them."""

import asyncio
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from support.live_links import (
    ANY,
    BRIEF,
    LOOPS,
    QUICK,
    SECRET,
    Node,
    Stranger,
    World,
    clock,
    free_addresses,
    run,
)
from support.processes import PATIENCE_S, eventually

from thence.core.errors import ThenceError
from thence.runtime import descriptors, door
from thence.runtime.address import Address
from thence.runtime.door import Door
from thence.runtime.handshake import read_refusal
from thence.runtime.hello import Identity, Introduction, RefusalError
from thence.runtime.open_links import OpenLinks
from thence.runtime.options import LinkSettings
from thence.runtime.pacing import LinkLimits
from thence.runtime.remote import Control
from thence.runtime.user_secret import user_secret

FEW = replace(QUICK, guests_max=4, guests_per_host_max=2)


def told(hello: Introduction) -> bytes:
    raise AssertionError("no peer asks for the group")


class Clock:
    def __init__(self) -> None:
        self.ahead_us = 0

    def __call__(self) -> int:
        return clock() + self.ahead_us


async def host(world: World, settings: LinkSettings, now: Clock, limits: LinkLimits = BRIEF) -> Node:
    node = Node(world, "a")
    me = Identity("test", "a", b"log of a", 1)
    node.links = OpenLinks(me, SECRET, ANY, settings, node, Random(1), now, node.log, told, limits=limits)
    world._nodes.append(node)
    await node.links.start()
    return node


async def visit(world: World, node: Node, name: str, where: str = "127.0.0.1") -> Stranger:
    visitor = Stranger(*await asyncio.open_connection(*node.links.address, local_addr=(where, 0)))
    world._strangers.append(visitor)
    await visitor.shake_hands(name, "a")
    await world.until(lambda: f"up {name}" in node.heard)
    return visitor


@pytest.mark.parametrize("loop", LOOPS)
def test_guests_are_limited_from_one_host_and_in_all_and_told_so(loop: str) -> None:
    async def story(world: World) -> None:
        a = await host(world, FEW, Clock())
        for name in "bc":
            await visit(world, a, name)
        with pytest.raises(
            RefusalError, match=r"a has no room for more than 2 guests from 127\.0\.0\.1: come"
        ):
            await visit(world, a, "d")
        for name, where in (("e", "127.0.0.2"), ("f", "127.0.0.3")):
            await visit(world, a, name, where)
        await world.until(lambda: len(a.heard) == 4)
        with pytest.raises(RefusalError, match="a has no room for more than 4 guests: come again later"):
            await visit(world, a, "g", "127.0.0.4")
        assert sorted(a.links.status()) == ["b", "c", "e", "f"]
        await world.until(lambda: "no room for more than 4 guests" in a.log)

    run(story, loop)


def test_a_guest_that_goes_makes_room() -> None:
    async def story(world: World) -> None:
        a = await host(world, FEW, Clock())
        b = await visit(world, a, "b")
        await visit(world, a, "c")
        await b.close()
        await world.until(lambda: "down b" in a.heard)
        await visit(world, a, "d")
        await world.until(lambda: "up d" in a.heard)

    run(story)


def test_the_guest_that_has_been_silent_for_longest_gives_way_but_none_that_speaks() -> None:
    async def story(world: World) -> None:
        now = Clock()
        a = await host(world, FEW, now)
        b, c = await visit(world, a, "b"), await visit(world, a, "c")
        await world.until(lambda: len(a.heard) == 2)
        now.ahead_us += FEW.silence_us
        c.send(b"\x02\x00\x00\x00\x01\x01")
        await world.until(lambda: a.packets)
        await visit(world, a, "d")
        assert "gives way" in str(read_refusal(await b.frame()))
        await world.until(lambda: "up d" in a.heard)
        assert sorted(a.links.status()) == ["c", "d"]
        with pytest.raises(RefusalError, match="no room"):
            await visit(world, a, "e")

    run(story)


def test_members_do_not_count_and_come_in_however_many_guests_there_are() -> None:
    async def story(world: World) -> None:
        a = await host(world, FEW, Clock())
        assert isinstance(a.links, OpenLinks)
        for name in "uvwxyz":  # somewhere else: it is they who dial
            a.links.know(name, Address("127.0.0.1", 1))
            a.links._peers[name].stop_dialling()
        for name in "bc":
            await visit(world, a, name)
        for name in "uvwxyz":
            await visit(world, a, name)
        await world.until(lambda: len(a.heard) == 8)
        with pytest.raises(RefusalError, match="no room for more than 2 guests"):
            await visit(world, a, "d")

    run(story)


def test_guests_that_shake_hands_at_the_same_time_are_counted_too() -> None:
    async def story(world: World) -> None:
        a = await host(world, FEW, Clock())
        strangers = [await world.stranger(a) for _ in range(7)]
        visits = [each.shake_hands(name, "a") for each, name in zip(strangers, "bcdefgh", strict=True)]
        await asyncio.gather(*visits, return_exceptions=True)
        await world.until(lambda: len([line for line in a.log.lines if "no room" in line]) == 5)
        assert len(a.links.status()) == 2

    run(story)


def test_strangers_from_one_host_give_way_to_each_other_before_others_do() -> None:
    async def story(world: World) -> None:
        a = await host(world, QUICK, Clock(), LinkLimits(handshakes_most=8, handshakes_per_host_most=3))
        far = Stranger(*await asyncio.open_connection(*a.links.address, local_addr=("127.0.0.2", 0)))
        world._strangers.append(far)
        near = [await world.stranger(a) for _ in range(20)]
        await world.until(lambda: len([line for line in a.log.lines if "too many others from" in line]) == 17)
        for stranger in near[:17]:
            await stranger.until_closed()
        await far.shake_hands("b", "a")
        await world.until(lambda: a.heard == ["up b"])

    run(story)


@pytest.mark.parametrize("loop", LOOPS)
def test_without_descriptors_no_peer_is_accepted_for_a_while_and_that_is_said_once(
    loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "PAUSE_S", 0.01)

    async def story(world: World) -> None:
        paused: list[str] = []
        arrived = asyncio.Event()

        class Arrival(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                arrived.set()
                transport.close()

        def tell(why: str) -> None:
            paused.append(why)
            world.changed()

        entrance = Door(lambda _: Arrival(), tell)
        at = await entrance.open(ANY)
        monkeypatch.setattr(door, "limit", lambda: descriptors.RESERVE)
        refused = Stranger(*await asyncio.open_connection(*at))
        assert await refused.until_closed() == b""
        await refused.close()
        await world.until(lambda: paused)
        waits = [Stranger(*await asyncio.open_connection(*at)) for _ in range(3)]
        for each in waits[:2]:  # again and again, a little later
            await each.until_closed()
        assert not arrived.is_set()
        monkeypatch.setattr(door, "limit", descriptors.limit)
        await arrived.wait()
        for each in waits:
            await each.close()
        await entrance.close()
        [why] = paused
        assert "kept for the disk" in why

    run(story, loop)


DESCRIPTORS = 128
CROWD = 200


@contextmanager
def node(folder: Path, name: str, *flags: str) -> Iterator[Control]:
    """A process that may have few descriptors; what it says is in a file."""

    def few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))

    command = [sys.executable, "-m", "thence.cli.main", "node", "--name", name, "--data", str(folder / name)]
    with (folder / f"{name}.log").open("w") as log:
        process = subprocess.Popen(
            [*command, "--profile", "local", "--sync", "always", *flags], stderr=log, preexec_fn=few
        )
    try:
        eventually(lambda: well(folder / name))
        yield Control.of(folder / name, timeout_s=PATIENCE_S)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.wait()


def well(folder: Path) -> bool:
    try:
        return Control.of(folder).health() is None
    except ThenceError:
        return False


def test_a_crowd_of_guests_takes_neither_the_disk_nor_the_members_their_descriptors(tmp_path: Path) -> None:
    at = free_addresses(2)
    with (
        node(tmp_path, "a", "--listen", str(at[0])) as a,
        node(tmp_path, "b", "--listen", str(at[1]), "--join", str(at[0])) as b,
    ):

        async def crowd() -> None:
            guests = [await guest(at[0], number) for number in range(CROWD)]
            try:
                await asyncio.to_thread(still_well)
            finally:
                for each in guests:
                    await each.close()

        def still_well() -> None:
            seq = {}
            for control in (a, b):
                assert control.health() is None
                before = control.status().log
                for number in range(20):
                    _, seq[control.name] = control.broadcast(b"%d" % number * 1000)
                after = control.status().log
                assert after.syncs > before.syncs, "what was acknowledged was synced"
                assert after.trouble is None
            for control in (a, b):
                eventually(lambda control=control: all(  # type: ignore[misc]
                    control.status().clock[name] >= count for name, count in seq.items()
                ))  # fmt: skip
            assert open_descriptors(a.file.pid) <= DESCRIPTORS - descriptors.RESERVE

        asyncio.run(crowd())
    said = (tmp_path / "a.log").read_text()
    assert "a has no room for more than" in said
    assert "Traceback" not in said


async def guest(at: Address, number: int) -> Stranger:
    """From one of several hosts; let in or not, it stays as long as it may."""
    local = f"127.0.0.{2 + number % 20}"
    stranger = Stranger(*await asyncio.open_connection(*at, local_addr=(local, 0)))
    if number % 4:  # the others never say a word
        try:
            secret = user_secret(os.environ)
            await stranger.shake_hands(f"g{number}", "a", secret=secret, cluster="thence")
        except (RefusalError, OSError, EOFError):
            pass
    return stranger


def open_descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))
