"""Nodes that were told where to ask find each other over loopback TCP and agree on one group."""

import asyncio
from collections.abc import Sequence
from random import Random

import pytest
from support.live_links import (
    ANY,
    BRIEF,
    QUICK,
    SECRET,
    Lines,
    World,
    clock,
    free_addresses,
    run,
)

from thence.core.errors import UsageError
from thence.runtime.address import Address
from thence.runtime.discovery import find_group
from thence.runtime.election import Open, put_answer
from thence.runtime.hello import Identity, Introduction
from thence.runtime.open_links import OpenLinks


@pytest.fixture(params=["asyncio", "uvloop"])
def loop(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def search(
    world: World, name: str, address: Address, join: Sequence[Address], *, secret: bytes = SECRET,
    log: Lines | None = None,
) -> Open:  # fmt: skip
    return await find_group(
        Identity("test", name, b"", 0), address, join, secret=secret, settings=QUICK, random=Random(1),
        clock=clock, log=log or Lines(world.changed), limits=BRIEF, round_us=10_000,
    )  # fmt: skip


def alone(name: str, address: Address) -> Open:
    """What one that is to found the group finds."""
    return Open(((name, address),), 0)


class Host:
    """A node of a changing group, as far as links go: it answers with the group that it was told."""

    def __init__(self, name: str, listen: Address, world: World, *members: tuple[str, Address]) -> None:
        self.log = Lines(world.changed)
        self.heard: list[str] = []
        self._world = world
        self._members = members
        self.links = OpenLinks(
            Identity("test", name, name.encode(), 1), SECRET, listen, QUICK, self, Random(1), clock,
            self.log, self._answer, limits=BRIEF,
        )  # fmt: skip

    def _answer(self, hello: Introduction) -> bytes:
        self.log.info("group told", to=hello.identity.name)
        return put_answer(Open(tuple(sorted(self._members)), 0))

    def admit(self, peer: Identity) -> str | None:
        return None

    def link_up(self, peer: str, now: int) -> None:
        self.heard.append(f"up {peer}")
        self._world.changed()

    def link_packets(self, peer: str, packets: list[bytes], now: int) -> None:
        """Nothing."""

    def link_down(self, peer: str, why: str, now: int) -> None:
        self.heard.append(f"down {peer}")
        self._world.changed()

    def link_bug(self, error: Exception) -> None:
        raise error


def test_of_three_that_name_each_other_one_founds_and_the_others_join_it(loop: str) -> None:
    async def test(world: World) -> None:
        at = free_addresses(3)
        hosts: list[Host] = []

        async def live(name: str, where: Address, *join: Address) -> Open:
            """Until it is a member, and then it answers as one: others may know only this one to ask."""
            found = await search(world, name, where, join)
            hosts.append(Host(name, where, world, *found.members))
            await hosts[-1].links.start()
            return found

        lives = live("c", at[0], at[1], at[2]), live("a", at[1], at[0]), live("b", at[2], at[1])
        try:
            assert set(await asyncio.gather(*lives)) == {alone("c", at[0])}, "members are joined"
        finally:
            for host in hosts:
                await host.links.close()

    run(test, loop)


def test_what_is_waited_for_is_said_and_found_when_it_comes(loop: str) -> None:
    async def test(world: World) -> None:
        at = sorted(free_addresses(2))
        log = Lines(world.changed)
        first = asyncio.create_task(search(world, "a", at[0], [at[1]], log=log))
        await world.until(lambda: f"no group yet waiting_for={at[1]} does not answer" in log)
        second = asyncio.create_task(search(world, "b", at[1], [at[0]]))
        assert await first == alone("a", at[0])
        host = Host("a", at[0], world, ("a", at[0]))
        await host.links.start()
        try:
            assert await second == alone("a", at[0])
            assert "group told to=b" in host.log
        finally:
            await host.links.close()
        assert len([line for line in log.lines if "does not answer" in line]) == 1, "said once, not per round"

    run(test, loop)


def test_a_node_may_name_itself_in_another_spelling(loop: str) -> None:
    async def test(world: World) -> None:
        address = free_addresses(1)[0]
        log = Lines(world.changed)
        join = [Address("localhost", address.port)]
        assert await search(world, "a", address, join, log=log) == alone("a", address)
        assert not log.lines

    run(test, loop)


def test_a_fixed_group_cannot_be_joined(loop: str) -> None:
    async def test(world: World) -> None:
        a, _ = await world.pair()
        with pytest.raises(UsageError, match="the group is closed, no other node can join it"):
            await search(world, "c", free_addresses(1)[0], [a.links.address])

    run(test, loop)


def test_one_that_no_node_knows_is_let_in_and_forgotten_when_it_goes(loop: str) -> None:
    """Whatever its name: a joiner dials, since its contact cannot know it."""

    async def test(world: World) -> None:
        at = free_addresses(3)
        b = Host("b", at[0], world)
        guests = [Host("a", at[1], world), Host("c", at[2], world)]
        for host in (b, *guests):
            await host.links.start()
        try:
            for guest in guests:
                guest.links.know("b", at[0], at_once=True)
            await world.until(lambda: sorted(b.heard) == ["up a", "up c"])
            assert b.links.linked("a")
            assert b.links.linked("c")
            for guest in guests:
                await guest.links.close()
            await world.until(lambda: len(b.heard) == 4)
            assert b.links.status() == {}
        finally:
            for host in (b, *guests):
                await host.links.close()

    run(test, loop)


def test_two_that_dial_each_other_at_once_end_up_with_one_link(loop: str) -> None:
    async def test(world: World) -> None:
        at = free_addresses(2)
        a, b = Host("a", at[0], world), Host("b", at[1], world)
        for host in (a, b):
            await host.links.start()
        try:
            a.links.know("b", at[1], at_once=True)
            b.links.know("a", at[0], at_once=True)
            await world.until(lambda: a.links.linked("b") and b.links.linked("a"))
        finally:
            for host in (a, b):
                await host.links.close()

    run(test, loop)


@pytest.mark.parametrize("second_asks", [False, True])
def test_two_of_one_name_are_both_told(loop: str, second_asks: bool) -> None:
    """Also the one that does not ask the other, and waits for a third."""

    async def test(world: World) -> None:
        at = free_addresses(3)
        results = await asyncio.gather(
            search(world, "a", at[0], [at[1]]),
            search(world, "a", at[1], [at[0] if second_asks else at[2]]),
            return_exceptions=True,
        )
        for result in results:
            assert isinstance(result, UsageError)
            assert "another node is called a too" in str(result)

    run(test, loop)


def test_one_with_another_secret_is_not_part_of_it(loop: str) -> None:
    async def test(world: World) -> None:
        at = free_addresses(2)
        logs = Lines(world.changed), Lines(world.changed)
        tasks = [
            asyncio.create_task(search(world, "a", at[0], [at[1]], log=logs[0])),
            asyncio.create_task(search(world, "b", at[1], [at[0]], secret=b"other", log=logs[1])),
        ]
        await world.until(lambda: all("secret" in log for log in logs))
        for task in tasks:
            assert not task.done()
            task.cancel()
        await asyncio.wait(tasks)

    run(test, loop)


def test_a_member_that_dials_too_early_is_told_to_wait(loop: str) -> None:
    async def test(world: World) -> None:
        at = free_addresses(2)
        task = asyncio.create_task(search(world, "b", at[0], [at[1]]))
        a = await world.node("a")
        a.links.add_peer("b", at[0])
        await world.until(lambda: "b is not a member of a group yet" in a.log)
        task.cancel()
        await asyncio.wait([task])
        b = await world.node("b", listen=at[0])
        b.links.add_peer("a", ANY)
        await world.until(lambda: a.heard == ["up b"])

    run(test, loop)


def test_garbage_does_not_disturb_a_search(loop: str) -> None:
    async def test(world: World) -> None:
        at = sorted(free_addresses(2))
        log = Lines(world.changed)
        first = asyncio.create_task(search(world, "a", at[0], [at[1]], log=log))
        await world.until(lambda: log.lines)
        reader, writer = await asyncio.open_connection(*at[0])
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
        second = asyncio.create_task(search(world, "b", at[1], [at[0]]))
        assert await first == alone("a", at[0])
        second.cancel()
        await asyncio.wait([second])

    run(test, loop)


def test_an_address_in_use_is_said_clearly(loop: str) -> None:
    async def test(world: World) -> None:
        a = await world.node("a")
        with pytest.raises(UsageError, match="in use"):
            await search(world, "b", a.links.address, [])

    run(test, loop)


def test_alone_without_a_contact_founds_a_group_of_one(loop: str) -> None:
    async def test(world: World) -> None:
        address = free_addresses(1)[0]
        assert await search(world, "a", address, []) == alone("a", address)

    run(test, loop)
