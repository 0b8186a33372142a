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
    Node,
    World,
    clock,
    free_addresses,
    introduce,
    run,
)

from thence.core.errors import UsageError
from thence.runtime.address import Address
from thence.runtime.discovery import find_group
from thence.runtime.introductions import Identity


@pytest.fixture(params=["asyncio", "uvloop"])
def loop(request: pytest.FixtureRequest) -> str:
    return str(request.param)


Group = list[tuple[str, Address]]


async def search(
    world: World, name: str, address: Address, join: Sequence[Address], *, secret: bytes = SECRET,
    log: Lines | None = None,
) -> Group:  # fmt: skip
    return await find_group(
        Identity("test", name, b"", 0), address, join, secret=secret, settings=QUICK, random=Random(1),
        clock=clock, log=log or Lines(world.changed), limits=BRIEF, round_us=10_000,
    )  # fmt: skip


async def live(world: World, name: str, address: Address, join: Sequence[Address]) -> tuple[Group, Node]:
    """A whole start: finds the group, then links to it from the same address."""
    members = await search(world, name, address, join)
    node = await world.node(name, listen=address)
    for other, where in members:
        if other != name:
            node.links.add_peer(other, where)
    return members, node


def test_three_that_name_each_other_found_one_group_and_link(loop: str) -> None:
    async def test(world: World) -> None:
        at = free_addresses(3)
        results = await asyncio.gather(
            live(world, "c", at[0], at[1:]),
            live(world, "a", at[1], [at[0]]),
            live(world, "b", at[2], [at[1]]),
        )
        group = [("a", at[1]), ("b", at[2]), ("c", at[0])]
        assert [members for members, _ in results] == [group] * 3
        await world.until(lambda: all(len(node.heard) >= 2 for _, node in results))

    run(test, loop)


def test_what_is_waited_for_is_said_and_found_when_it_comes(loop: str) -> None:
    async def test(world: World) -> None:
        at = free_addresses(2)
        log = Lines(world.changed)
        first = asyncio.create_task(search(world, "a", at[0], [at[1]], log=log))
        await world.until(lambda: f"no group yet waiting_for={at[1]} does not answer" in log)
        # The second never gets an answer from the first once that has founded: nobody listens there then.
        second = asyncio.create_task(search(world, "b", at[1], [at[0]]))
        group = [("a", at[0]), ("b", at[1])]
        assert await first == group
        a = await world.node("a", listen=at[0])
        a.links.add_peer("b", at[1])
        assert await second == group
        await world.until(lambda: "group told to=b" in a.log)
        assert len([line for line in log.lines if "does not answer" in line]) == 1, "said once, not per round"

    run(test, loop)


def test_a_node_may_name_itself_in_another_spelling(loop: str) -> None:
    async def test(world: World) -> None:
        address = free_addresses(1)[0]
        log = Lines(world.changed)
        assert await search(world, "a", address, [Address("localhost", address.port)], log=log) == [
            ("a", address)
        ]
        assert not log.lines

    run(test, loop)


def test_a_running_group_that_lists_the_node_is_found(loop: str) -> None:
    async def test(world: World) -> None:
        at = free_addresses(1)[0]
        a, b = await world.pair()
        for node in (a, b):
            node.links.add_peer("c", at)
        group = await search(world, "c", at, [b.links.address])
        assert group == [("a", a.links.address), ("b", b.links.address), ("c", at)]
        assert a.heard == ["up b"]

    run(test, loop)


def test_a_running_group_that_does_not_list_the_node_is_an_error(loop: str) -> None:
    async def test(world: World) -> None:
        a, _ = await world.pair()
        with pytest.raises(UsageError, match="founded without c and cannot grow yet"):
            await search(world, "c", free_addresses(1)[0], [a.links.address])

    run(test, loop)


def test_a_name_that_a_running_group_has_elsewhere_is_an_error(loop: str) -> None:
    async def test(world: World) -> None:
        a, b = await world.pair()
        with pytest.raises(UsageError, match=f"a member b at {b.links.address}"):
            await search(world, "b", free_addresses(1)[0], [a.links.address, b.links.address])
        assert a.heard == ["up b"]

    run(test, loop)


@pytest.mark.parametrize("second_asks", [False, True])
def test_two_of_one_name_are_both_told(loop: str, second_asks: bool) -> None:
    """Also the one that does not ask the other, and waits for somebody else."""

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
        at = free_addresses(2)
        log = Lines(world.changed)
        first = asyncio.create_task(search(world, "a", at[0], [at[1]], log=log))
        await world.until(lambda: log.lines)
        reader, writer = await asyncio.open_connection(*at[0])
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
        second = asyncio.create_task(search(world, "b", at[1], [at[0]]))
        assert await first == [("a", at[0]), ("b", at[1])]
        second.cancel()
        await asyncio.wait([second])

    run(test, loop)


def test_an_address_in_use_is_said_clearly(loop: str) -> None:
    async def test(world: World) -> None:
        a = await world.node("a")
        with pytest.raises(UsageError, match="in use"):
            await search(world, "b", a.links.address, [])

    run(test, loop)


def test_alone_without_anybody_to_ask_founds_a_group_of_one(loop: str) -> None:
    async def test(world: World) -> None:
        address = free_addresses(1)[0]
        assert await search(world, "a", address, []) == [("a", address)]

    run(test, loop)


def test_introducing_and_finding_give_the_same_group(loop: str) -> None:
    """What links answer is what they were told."""

    async def test(world: World) -> None:
        nodes = [await world.node(name) for name in "abd"]
        introduce(*nodes)
        at = free_addresses(1)[0]
        for node in nodes:
            node.links.add_peer("c", at)
        for node in nodes:
            group = await search(world, "c", at, [node.links.address])
            assert [name for name, _ in group] == ["a", "b", "c", "d"]

    run(test, loop)
