"""Programs of a changing group that only read events: what they miss comes when their node is back."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.changing import Changing, Cut, agree
from support.open_nodes import run, until

from thence import Delivered, Gap, UsageError, ViewChanged
from thence.replica.events import Event
from thence.replica.positions import PART_MAX
from thence.runtime import program
from thence.runtime.application import OpenNode
from thence.runtime.reader import Events


@pytest.fixture
def group(tmp_path: Path) -> Changing:
    return Changing(tmp_path, "abc")


def cut_off(node: OpenNode, *peers: str) -> None:
    for peer in peers:
        node._host.fault("cut", peer, 0)


async def up_to(events: Events, payload: bytes) -> list[Event]:
    """What happens until this is delivered, but for what is stable."""
    found: list[Event] = []
    async for event in events:
        if isinstance(event, Delivered | Gap | ViewChanged):
            found.append(event)
        if isinstance(event, Delivered) and event.payload == payload:
            return found
    raise AssertionError("the events ended")


def said(events: Sequence[Event]) -> list[str]:
    return [event.payload.decode() for event in events if isinstance(event, Delivered)]


async def evicted_and_back(a: OpenNode, b: OpenNode, c: OpenNode) -> None:
    """c is cut off and evicted; five messages later it is back."""
    cut_off(c, "a", "b")
    a.evict("c")
    await until(lambda: "c" not in a.members and "c" not in b.members)
    for number in range(5):
        await a.broadcast(b"while away %d" % number)
    c._host.fault("mend", None, 0)
    await until(lambda: c.me == "c~2")


AWAY = [f"while away {number}" for number in range(5)]


def test_what_was_sent_while_a_node_was_evicted_comes_when_it_is_back(group: Changing) -> None:
    async def story() -> None:
        async with (
            group.open("a") as a,
            group.open("b", join="a") as b,
            group.open("c", join="ab") as c,
        ):
            await agree(a, b, c)
            events, elsewhere = c.events(), b.events()
            await a.broadcast(b"before")
            assert said(await up_to(events, b"before")) == ["before"]
            reading = asyncio.ensure_future(up_to(elsewhere, b"after"))  # what no reader takes is not stable
            await evicted_and_back(a, b, c)
            await a.broadcast(b"after")
            seen = await up_to(events, b"after")
            assert said(seen) == [*AWAY, "after"]
            assert not [event for event in seen if isinstance(event, Gap)]
            assert said(await reading) == ["before", *AWAY, "after"]
            positions = [event.position for event in seen if isinstance(event, Delivered)]
            assert positions == sorted(set(positions))

    run(story)


def test_what_a_program_has_seen_before_its_return_does_not_come_twice(group: Changing) -> None:
    """c hears b, and is evicted together with it. Two of three go on without the third, or the third without
    them: whichever side returns, what it had said is sent again, and each program hears of it once."""

    async def story() -> None:
        async with (
            group.open("a") as a,
            group.open("b", join="a") as b,
            group.open("c", join="ab") as c,
        ):
            await agree(a, b, c)
            heard: dict[str, list[str]] = {name: [] for name in "abc"}

            async def listen(name: str, node: OpenNode) -> None:
                async for event in node.events():
                    heard[name] += said([event])

            readers = [asyncio.ensure_future(listen(*each)) for each in zip("abc", (a, b, c), strict=True)]
            cut_off(a, "b", "c")
            await b.broadcast(b"of b")
            await c.broadcast(b"of c")
            await until(lambda: (heard["b"], heard["c"]) == (["of c"], ["of b"]))
            for who in "bc":
                a.evict(who)
            a._host.fault("mend", None, 0)
            await until(lambda: a.members == b.members == c.members and len(a.members) == 3)
            await until(lambda: len(heard["a"]) == 2)
            await a.broadcast(b"over")
            await until(lambda: heard["b"][-1:] == heard["c"][-1:] == ["over"])
            assert sorted(heard["a"]) == ["of b", "of c"]
            assert (heard["b"], heard["c"]) == (["of c", "over"], ["of b", "over"])
            for reader in readers:
                reader.cancel()
            await asyncio.gather(*readers, return_exceptions=True)

    run(story)


def test_what_was_missed_and_not_read_comes_after_a_restart_and_once(
    group: Changing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "TAKE_MAX", 2)

    async def story() -> None:
        async with group.open("a") as a, group.open("b", join="a") as b:
            reading = asyncio.ensure_future(up_to(b.events(), b"after"))
            async with group.open("c", join="ab") as c:
                await until(lambda: len(a.members) == len(b.members) == 3)
                await evicted_and_back(a, b, c)
                events = c.events()
                assert said(await up_to(events, b"while away 1")) == AWAY[:2]
            async with group.open("c") as c:
                events = c.events()
                assert said(await up_to(events, b"while away 3")) == AWAY[2:4]
            async with group.open("c") as c:
                await a.broadcast(b"after")
                assert said(await up_to(c.events(), b"after")) == ["while away 4", "after"]
            await reading

    run(story)


def test_what_was_missed_and_taken_with_what_was_read_comes_by_position(group: Changing) -> None:
    async def story() -> None:
        async with group.open("a") as a, group.open("b", join="a") as b:
            reading = asyncio.ensure_future(up_to(b.events(), b"after"))
            async with group.open("c", join="ab") as c:
                await until(lambda: len(a.members) == len(b.members) == 3)
                await evicted_and_back(a, b, c)
                events = c.events()
                read = await up_to(events, b"while away 1")
                assert said(read) == AWAY[:2]
                assert isinstance(read[-1], Delivered)
                events.close()
                events = c.events(after=read[-1].position)
                again = await up_to(events, b"while away 4")
                assert said(again) == AWAY[2:]
            async with group.open("c") as c:
                await a.broadcast(b"after")
                rest = await up_to(c.events(after=read[-1].position), b"after")
                assert said(rest) == [*AWAY[2:], "after"]
            await reading

    run(story)


def test_a_position_goes_on_over_a_return(group: Changing) -> None:
    async def story() -> None:
        async with group.open("a") as a, group.open("b", join="a") as b:
            reading = asyncio.ensure_future(up_to(b.events(), b"after"))
            async with group.open("c", join="ab") as c:
                await until(lambda: len(a.members) == len(b.members) == 3)
                events = c.events()
                await a.broadcast(b"first")
                await a.broadcast(b"before")
                old = [event for event in await up_to(events, b"before") if isinstance(event, Delivered)]
                await evicted_and_back(a, b, c)
                await a.broadcast(b"after")
                new = [event for event in await up_to(events, b"after") if isinstance(event, Delivered)]
            assert [event.payload.decode() for event in new] == [*AWAY, "after"]
            await reading
            async with group.open("c") as c:
                for kept, follow in ((old[-1], new), (new[1], new[2:]), (new[4], new[5:])):
                    again = await up_to(c.events(after=kept.position), b"after")
                    assert said(again) == [event.payload.decode() for event in follow]
                    positions = [event.position for event in again if isinstance(event, Delivered)]
                    assert positions == [event.position for event in follow]
                gap, *rest = await up_to(c.events(after=old[0].position), b"after")
                assert isinstance(gap, Gap)
                assert gap.first["a"] <= old[1].seq <= gap.last["a"]
                assert said(rest) == said(new)
                with pytest.raises(UsageError, match="ahead of this log"):
                    c.events(after=c.position + PART_MAX + 1)

    run(story)


def test_what_a_power_cut_takes_comes_again(
    group: Changing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = Cut(group, monkeypatch)

    async def story() -> None:
        async with group.open("a", sync="everysec") as a:
            async with group.open("c", join="a", sync="everysec") as c:
                events = c.events()
                await a.broadcast(b"kept")
                await up_to(events, b"kept")
                await agree(a, c)
                cut.remember("c")
                for number in range(5):
                    await a.broadcast(b"while away %d" % number)
                assert said(await up_to(events, b"while away 4")) == AWAY
                await agree(a, c)
            cut.strike("c")
            async with group.open("c", sync="everysec") as c:
                assert c.me == "c~2"
                await a.broadcast(b"after")
                assert said(await up_to(c.events(), b"after")) == [*AWAY, "after"]

    run(story)


def test_what_no_log_holds_any_more_is_named_before_anything_later(
    group: Changing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """a drops what all members have, and c forgets it."""
    cut = Cut(group, monkeypatch)
    short = {"log.segment_bytes": 4096, "group.history_bytes": 1}

    async def story() -> None:
        async with group.open("a", settings=short) as a:
            async with group.open("c", join="a", settings=short) as c:
                events = c.events()
                await a.broadcast(b"kept")
                await up_to(events, b"kept")
                await agree(a, c)
                cut.remember("c")
                for number in range(20):
                    last = await a.broadcast(bytes(1000) + b"%d" % number)
                await up_to(events, bytes(1000) + b"19")
                await a.until_stable(last)
                await agree(a, c)
                for _ in range(2):  # the newest states that were written down are kept with what follows them
                    a._host.running.call(lambda node, now: node.checkpoint(now))
                assert a.status().log.head > 0
            cut.strike("c")
            async with group.open("c", settings=short) as c:
                await a.broadcast(b"after")
                seen = [e for e in await up_to(c.events(), b"after") if not isinstance(e, ViewChanged)]
                gap = seen[0]
                assert isinstance(gap, Gap)
                place = a.name_of(last)
                named = range(gap.first["a"], gap.last["a"] + 1)
                assert gap.members == ("a",)
                missing = {event.seq for event in seen if isinstance(event, Delivered)}
                assert place[1] in named or place[1] in missing
                assert len(named) + len(missing) > 20
                assert len(named) > 10
                again = await up_to(c.events(after=gap.position), b"after")
                assert said(again) == said(seen)

    run(story)
