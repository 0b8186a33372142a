"""Whole nodes over a tree: real TCP, real logs, a few links per node; and what they promise all the same."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from support.live_history import read
from support.open_nodes import Group, delivered, run, stable, until

from thence.check.oracle import judge
from thence.runtime.application import OpenNode

TREE: dict[str, object] = {"spread": "tree"}
STREAMED: dict[str, object] = {"spread": "tree", "order": "none"}
"""Without tags: no view is agreed on."""


def links(node: OpenNode) -> int:
    return sum(member.link == "up" for member in node.status().members)


@pytest.mark.parametrize("order", ["graph", "vector", "none"])
def test_all_deliver_what_any_sends(tmp_path: Path, order: str) -> None:
    group = Group(tmp_path, ["a", "b", "c"])

    async def test() -> None:
        async with AsyncExitStack() as stack:
            nodes = await group.open_all(stack, settings={**TREE, "order": order}, trace=tmp_path / "trace")
            for node in nodes:
                for number in range(20):
                    await node._host.publish([b"%d" % number])
            for node in nodes:
                events = await delivered(node.events(), 40)
                for name in group.members:
                    assert [event.seq for event in events if event.origin == name] in ([], list(range(1, 21)))

    run(test)
    [verdict] = judge(read(tmp_path / "trace"))
    assert not any(verdict.violations.values()), verdict


def test_what_all_have_seen_becomes_stable_without_a_link_to_all(tmp_path: Path) -> None:
    group = Group(tmp_path, ["a", "b", "c", "d", "e", "f"])

    async def test() -> None:
        async with AsyncExitStack() as stack:
            nodes = await group.open_all(stack, settings={**TREE, "tree.neighbours": 2})
            await nodes[3].broadcast(b"x")
            readers = [asyncio.create_task(stable(node.events(), "d", 1)) for node in nodes]
            await asyncio.gather(*readers)
            assert all(links(node) < 5 for node in nodes), "all are linked to all"

    run(test)


def test_a_node_that_was_away_gets_what_it_missed_and_goes_on_counting(tmp_path: Path) -> None:
    group = Group(tmp_path, ["a", "b", "c"])

    async def test() -> None:
        async with group.open("a", settings=TREE) as a, group.open("b", settings=TREE) as b:
            async with group.open("c", settings=TREE) as c:
                await c.broadcast(b"before")
                await delivered(a.events(), 1)
                await delivered(b.events(), 1)
            for number in range(200):
                await a.broadcast(b"%d" % number)
            async with group.open("c", settings=TREE) as c:
                events = await delivered(c.events(), 200)
                assert [event.payload for event in events] == [b"%d" % number for number in range(200)]
                assert c.name_of(await c.broadcast(b"after")) == ("c", 2)
                assert (await delivered(b.events(), 201))[-1].payload == b"after"

    run(test)


def test_a_cut_that_divides_the_group_heals_when_it_is_mended(tmp_path: Path) -> None:
    names = ["a", "b", "c", "d"]
    group = Group(tmp_path, names)

    async def test() -> None:
        async with AsyncExitStack() as stack:
            nodes = await group.open_all(stack, settings={**TREE, "allow_faults": True})
            await nodes[0].broadcast(b"hello")
            for node in nodes[1:]:
                await delivered(node.events(), 1)
            for mine, other in ((0, 2), (0, 3), (1, 2), (1, 3)):
                nodes[mine]._host.fault("cut", names[other], 0)
            await nodes[0].broadcast(b"left")
            await nodes[3].broadcast(b"right")
            assert [event.payload for event in await delivered(nodes[1].events(), 1)] == [b"left"]
            assert [event.payload for event in await delivered(nodes[2].events(), 1)] == [b"right"]
            for mine, other in ((0, 2), (0, 3), (1, 2), (1, 3)):
                nodes[mine]._host.fault("mend", names[other], 0)
            assert [event.payload for event in await delivered(nodes[1].events(), 1)] == [b"right"]
            assert [event.payload for event in await delivered(nodes[2].events(), 1)] == [b"left"]
            assert [event.payload for event in await delivered(nodes[0].events(), 1)] == [b"right"]
            assert [event.payload for event in await delivered(nodes[3].events(), 1)] == [b"left"]
            await until(lambda: all(node.status().unstable == 0 for node in nodes))

    run(test)


async def send(node: OpenNode, payload: bytes) -> tuple[str, int]:
    """Without a tag."""
    [(place, _)] = await node._host.publish([payload])
    return place


def test_what_a_slow_neighbour_is_sent_waits_in_the_log_and_not_in_memory(tmp_path: Path) -> None:
    group = Group(tmp_path, ["a", "b"])

    async def test() -> None:
        settings = {**STREAMED, "allow_faults": True}
        async with group.open("a", settings=settings) as a, group.open("b", settings=settings) as b:
            await send(a, b"hello")
            events = b.events()
            await delivered(events, 1)
            a._host.fault("slow", "b", 500_000)
            most = 0
            for start in range(0, 60, 15):
                await a._host.publish([bytes([number]) * 100_000 for number in range(start, start + 15)])
                most = max(most, *[member.queued_bytes for member in a.status().members])
            payloads = [event.payload[:1] for event in await delivered(events, 60)]
            assert payloads == [bytes([number]) for number in range(60)]
            assert (1 << 20) < most < (4 << 20), "it was not slow, or nothing slowed its sender down"
            assert all(member.reconnects == 0 for member in a.status().members)

    run(test)


def test_messages_as_large_as_links_carry_come_with_the_past_as_well(tmp_path: Path) -> None:
    group = Group(tmp_path, ["a", "b"])
    settings = {**TREE, "links.frame_bytes_max": 1 << 17}
    large = bytes((1 << 17) - (32 << 10))
    middling = bytes(60_000)

    async def test() -> None:
        async with group.open("a", settings={**settings, "drain_us": 0}) as a:
            for payload in (middling, large, middling, large):
                await a.broadcast(payload)
            async with group.open("b", settings=settings) as b:
                got = [len(event.payload) for event in await delivered(b.events(), 4)]
                assert got == [60_000, len(large), 60_000, len(large)]

    run(test)
