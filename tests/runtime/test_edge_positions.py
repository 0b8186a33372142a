"""Positions on an edge tree: a program goes on from one that it kept, however its node ended."""

import asyncio
import shutil
from pathlib import Path

import pytest
from support.edge_nodes import LINE, Edge, attached, edge
from support.open_nodes import delivered, run, until

from thence.core.errors import UsageError
from thence.replica.events import Delivered, Event, Gap
from thence.runtime.application import OpenNode


async def some(node: OpenNode, count: int, after: int | None = None, own: bool = False) -> list[Event]:
    events = node.events(after, own)
    found = [await anext(events) for _ in range(count)]
    events.close()
    return found


def said(events: list[Event]) -> list[bytes]:
    return [event.payload if isinstance(event, Delivered) else b"?" for event in events]


def test_a_program_goes_on_behind_any_message_of_a_run_and_another_time_from_the_first(
    tmp_path: Path,
) -> None:
    tree = Edge(tmp_path, LINE)

    async def test() -> None:
        async with tree.open("r") as r, tree.open("a") as a:
            async with tree.open("b", ["g", "h"]) as b:
                await attached(a, b)
                for group in ("g", "other", "h"):
                    await asyncio.gather(
                        *[r.multicast(b"%s%d" % (group.encode(), n), group=group) for n in range(3)]
                    )
                first = await some(b, 6)
                assert said(first) == [b"g0", b"g1", b"g2", b"h0", b"h1", b"h2"]
            places = [event.position for event in first if isinstance(event, Delivered)]
            assert places == sorted({*places})
            async with tree.open("b", ["g", "h"]) as b:
                await r.multicast(b"more", group="g")
                for at, place in enumerate([0, *places]):
                    again = await some(b, 7 - at, place)
                    assert said(again) == [b"g0", b"g1", b"g2", b"h0", b"h1", b"h2", b"more"][at:]
                assert [event.position for event in first] == places  # type: ignore[union-attr]
                with pytest.raises(UsageError, match="ahead of this log"):
                    b.events(places[-1] + (1 << 40))

    run(test)
    tree.judged()


def test_own_messages_stand_in_their_place_for_one_who_wants_them(tmp_path: Path) -> None:
    tree = Edge(tmp_path, LINE)

    async def test() -> None:
        async with tree.open("r") as r, tree.open("a") as a:
            async with tree.open("b", ["g"]) as b:
                await attached(a, b)
                events = b.events(0, own=True)
                await r.multicast(b"1", group="g")
                await until(lambda: b.status().inbox)
                await b.multicast(b"2", group="g")
                await until(lambda: edge(b).entries == edge(r).entries)
                found = [await anext(events) for _ in range(2)]
                assert said(found) == [b"1", b"2"]
                events.close()
                await b.multicast(b"3", group="g")
            async with tree.open("b", ["g"]) as b:
                assert said(await some(b, 3, 0, own=True)) == [b"1", b"2", b"3"]
                await r.multicast(b"4", group="g")
                assert said(await some(b, 2, 0)) == [b"1", b"4"]
                assert said(await some(b, 2, found[1].position, own=True)) == [b"3", b"4"]  # type: ignore[union-attr]

    run(test)
    tree.judged()


def test_what_came_while_a_group_was_joined_has_positions(tmp_path: Path) -> None:
    """It is told at the place of the state, and not as a part of what other groups had before."""
    tree = Edge(tmp_path, LINE)

    async def test() -> None:
        async with tree.open("r") as r, tree.open("a") as a:
            async with tree.open("b", ["h"]) as b:
                await attached(a, b)
                await r.multicast(b"before", group="g")
                await b.multicast(b"own", group="g")
                await b.join_group("g")
                await r.multicast(b"after", group="g")
                first = await some(b, 1)
                assert said(first) == [b"after"]
                await b.leave_group("g")
                await r.multicast(b"out", group="g")
                await b.join_group("g")
                await r.multicast(b"in", group="g")
                assert said(await some(b, 1)) == [b"in"]
            async with tree.open("b", ["g", "h"]) as b:
                assert said(await some(b, 2, 0)) == [b"after", b"in"]
                assert said(await some(b, 1, first[0].position)) == [b"in"]  # type: ignore[union-attr]

    run(test)
    tree.judged()


def test_a_position_of_another_identity_is_a_gap(tmp_path: Path) -> None:
    tree = Edge(tmp_path, LINE)

    async def test() -> None:
        async with tree.open("r") as r, tree.open("a") as a:
            async with tree.open("b", ["g"]) as b:
                await attached(a, b)
                await r.multicast(b"1", group="g")
                [one] = await some(b, 1)
            shutil.rmtree(tmp_path / "b")
            async with tree.open("b", ["g"]) as b:
                await attached(b)
                await r.multicast(b"2", group="g")
                gap, two = await some(b, 2, one.position)  # type: ignore[union-attr]
                assert isinstance(gap, Gap)
                assert said([two]) == [b"2"]
                assert said(await some(b, 1, gap.position)) == [b"2"]

    run(test)
    tree.judged()


def test_what_a_state_stood_in_for_is_a_gap_again(tmp_path: Path) -> None:
    """And what the program had by then is not told another time."""
    tree = Edge(tmp_path, LINE)
    brief: dict[str, object] = {"edge.keep_us": 0, "edge.linger_us": 1}

    async def test() -> None:
        async with tree.open("r", settings=brief) as r, tree.open("a", settings=brief) as a:
            async with tree.open("b", ["g"], settings=brief) as b:
                await attached(a, b)
                await r.multicast(b"1", group="g")
                await delivered(b.events(), 1)
            await until(lambda: not edge(a).children)
            for number in range(2, 5):
                await r.multicast(b"%d" % number, group="g")
            await until(lambda: edge(r).entries == 0)
            async with tree.open("b", ["g"], settings=brief) as b:
                first = await some(b, 1)
                await r.multicast(b"5", group="g")
                await some(b, 1)
                one, gap, five = await some(b, 3, 0)
                assert (said([one]), said([five])) == ([b"1"], [b"5"])
                assert isinstance(gap, Gap)
                assert (dict(gap.first), dict(gap.last)) == ({r.me: 2}, {r.me: 4})
                assert [gap] == first

    run(test)
    tree.judged()


def test_what_the_log_does_not_hold_any_more_is_a_gap(tmp_path: Path) -> None:
    tree = Edge(tmp_path, LINE)
    small: dict[str, object] = {"edge.keep_us": 0, "edge.history_bytes": 1, "log.segment_bytes": 4096}

    async def test() -> None:
        async with tree.open("r", settings=small) as r, tree.open("a", settings=small) as a:
            async with tree.open("b", ["g"], settings=small) as b:
                await attached(a, b)
                for number in range(8):
                    await r.multicast(b"%d" % number + bytes(2000), group="g")
                first = await some(b, 8)
                await until(lambda: edge(b).entries == 0)
                for _ in range(2):
                    b._host.running.run(lambda machine, now: machine.tidy(now))
            async with tree.open("b", ["g"], settings=small) as b:
                await attached(b)  # else its parent may forget the message before, and send a state
                await r.multicast(b"8", group="g")
                [gap] = await some(b, 1, 0)
                assert isinstance(gap, Gap)
                assert said(await some(b, 1, first[-1].position)) == [b"8"]  # type: ignore[union-attr]
                assert said(await some(b, 1, first[2].position)) == [b"?"]  # type: ignore[union-attr]

    run(test)
    tree.judged()
