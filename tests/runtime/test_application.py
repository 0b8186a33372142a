"""`thence.open`: a node inside a program, as a program meets it."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from support.changing import EitherPair
from support.failing_disk import FailingDisk
from support.mounts import small_disk
from support.open_nodes import Group, delivered, run, stable, until

import thence
from thence.core.errors import StorageError, UsageError
from thence.replica.events import Delivered
from thence.runtime import driver
from thence.runtime.application import OpenNode


@pytest.fixture
def pair(tmp_path: Path) -> Group:
    return Group(tmp_path, ["a", "b"])


def test_two_programs_talk_and_their_tags_say_what_caused_what(pair: Group) -> None:
    async def test() -> None:
        async with pair.open("a") as a, pair.open("b") as b:
            hello = await a.broadcast(b"hello")
            at_b = b.events()
            [first] = await delivered(at_b, 1)
            assert (first.payload, first.origin, first.seq) == (b"hello", "a", 1)
            answer = await b.broadcast(b"hello yourself")
            [second] = await delivered(a.events(), 1)
            assert (second.payload, second.origin, second.seq) == (b"hello yourself", "b", 1)
            assert second.tag is not None
            assert first.tag is not None
            assert hello.before(second.tag)
            assert second.tag.after(hello)
            assert first.tag.before(answer)
            assert a.name_of(second.tag) == ("b", 1)
            assert a.members == b.members == ("a", "b")

    run(test)


def test_what_a_program_has_not_taken_it_has_not_seen(pair: Group) -> None:
    """Its message is concurrent with what waits in its inbox, however long that has been there."""

    async def test() -> None:
        async with pair.open("a") as a, pair.open("b") as b:
            theirs = await a.broadcast(b"theirs")
            await until(lambda: b.status().inbox == 1)
            await b.broadcast(b"mine")
            [mine] = await delivered(a.events(), 1)
            assert mine.tag is not None
            assert mine.tag.concurrent(theirs)

    run(test)


def test_own_messages_do_not_come_back(pair: Group) -> None:
    async def test() -> None:
        async with pair.open("a") as a, pair.open("b") as b:
            for _ in range(3):
                await a.broadcast(b"mine")
            await b.broadcast(b"theirs")
            [event] = await delivered(a.events(), 1)
            assert event.payload == b"theirs"

    run(test)


def test_a_message_is_stable_when_all_have_taken_it(tmp_path: Path) -> None:
    async def test() -> None:
        group = Group(tmp_path, ["a", "b", "c"])
        async with AsyncExitStack() as stack:
            a, b, c = await group.open_all(stack)
            at_a = a.events()
            tag = await a.broadcast(b"x")
            await delivered(b.events(), 1)
            await a.until_stable(tag, at=2)
            await a.until_stable(tag, at=1)
            waiting = asyncio.ensure_future(a.until_stable(tag))
            await until(lambda: c.status().inbox == 1)
            assert not waiting.done(), "c has not taken it"
            [event] = await delivered(c.events(), 1)
            await waiting
            await a.until_stable(tag)
            assert (await stable(at_a, "a", 1)).tag.dot == tag.dot
            assert event.tag is not None
            await c.until_stable(event.tag)

    run(test)


@pytest.mark.parametrize("sync", ["always", "everysec", "no"])
def test_every_policy_delivers(pair: Group, sync: str) -> None:
    async def test() -> None:
        async with pair.open("a", sync=sync) as a, pair.open("b", sync=sync) as b:
            tags = await asyncio.gather(*[a.broadcast(b"%d" % i) for i in range(50)])
            events = await delivered(b.events(), 50)
            assert [event.payload for event in events] == [b"%d" % i for i in range(50)]
            assert [a.name_of(tag)[1] for tag in tags] == list(range(1, 51))

    run(test)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("inbox", [1, 5, 8192])
def test_events_go_on_after_a_position_without_gap_or_repeat(pair: Group, seed: int, inbox: int) -> None:
    """The program keeps the position of some event; whatever it took after that it sees again."""
    rng = Random(seed)
    options: dict[str, Any] = {"settings": {"application.inbox_max": inbox}}

    async def test() -> None:
        seen: list[bytes] = []
        position = 0
        async with pair.open("a") as a:
            sent = 0
            for _ in range(4):
                async with pair.open("b", **options) as b:
                    for _ in range(rng.randint(0, 12)):
                        await a.broadcast(b"%d" % sent)
                        sent += 1
                    if rng.random() < 0.5:
                        await b.broadcast(b"of b, in between")
                    events = b.events(after=position)
                    for event in await delivered(events, rng.randint(0, sent - len(seen))):
                        if rng.random() < 0.8:
                            seen.append(event.payload)
                            position = event.position
                        else:  # the program ends before it has written this down
                            break
            async with pair.open("b", **options) as b:
                events = b.events(after=position)
                seen += [event.payload for event in await delivered(events, sent - len(seen))]
        assert seen == [b"%d" % i for i in range(sent)]

    run(test)


def test_without_a_position_events_go_on_after_the_last_one_taken_and_with_it_after_that(pair: Group) -> None:
    """All that waited when the first of them was handed out were taken with it."""

    async def test() -> None:
        async with pair.open("a") as a:
            async with pair.open("b") as b:
                for i in range(6):
                    await a.broadcast(b"%d" % i)
                await until(lambda: b.status().inbox == 6)
                events = b.events()
                first = await delivered(events, 4)
                await a.broadcast(b"6")
                await until(lambda: b.status().inbox == 1)
                events.close()
                events = b.events()
                rest = await delivered(events, 2)
                assert b.position == rest[-1].position
                assert b.status().inbox == 1
            async with pair.open("b") as b:
                assert b.position == rest[-1].position
                events = b.events()
                [last] = await delivered(events, 1)
                events.close()
                again = await delivered(b.events(after=first[-1].position), 3)
        assert [event.payload for event in [*first, *rest, last]] == [b"%d" % i for i in range(7)]
        assert [event.payload for event in again] == [b"4", b"5", b"6"]

    run(test)


def test_a_position_amid_what_was_taken_at_once_goes_on_after_it_and_nothing_comes_twice(
    either: EitherPair,
) -> None:
    async def test() -> None:
        async with either.open("a") as a, either.open("b") as b:
            for i in range(6):
                await a.broadcast(b"%d" % i)
            await until(lambda: b.status().inbox == 6)
            events = b.events()
            first = await delivered(events, 3)
            events.close()
            events = b.events(after=first[1].position)
            rest = await delivered(events, 4)
            await a.broadcast(b"6")
            rest += await delivered(events, 1)
            assert [event.payload for event in first[:2] + rest] == [b"%d" % i for i in range(7)]

    run(test)


def test_what_was_taken_is_not_repeated_before_it_is_synced(
    either: EitherPair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FailingDisk(tmp_path / "b", monkeypatch)

    async def test() -> None:
        async with either.open("a") as a, either.open("b", sync="always") as b:
            await a.broadcast(b"0")
            events = b.events()
            [first] = await delivered(events, 1)
            for i in range(1, 3):
                await a.broadcast(b"%d" % i)
            await until(lambda: b.status().inbox == 2)
            disk.goes.clear()
            reading = asyncio.ensure_future(delivered(events, 1))
            await until(lambda: b.status().inbox == 0)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            events.close()
            events = b.events(after=first.position)
            reading = asyncio.ensure_future(delivered(events, 2))
            for _ in range(20):
                await asyncio.sleep(0)
            assert not reading.done()
            disk.goes.set()
            rest = await reading
            await a.broadcast(b"3")
            rest += await delivered(events, 1)
            assert [event.payload for event in rest] == [b"1", b"2", b"3"]

    run(test)


def test_a_repetition_goes_on_from_a_log_that_was_opened_again_and_ends_with_the_node(
    either: EitherPair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "PROBE_EVERY_US", 10_000)
    disk = FailingDisk(tmp_path / "b", monkeypatch)

    async def refused(b: OpenNode) -> None:
        with pytest.raises(StorageError):
            await b.broadcast(b"never")

    async def whole(a: OpenNode) -> None:
        async with either.open("b", sync="always") as b:
            for i in range(6):
                await a.broadcast(b"%d" % i)
            events = b.events()
            first = (await delivered(events, 6))[0]
            events.close()
            events = b.events(after=first.position)
            again = await delivered(events, 1)
            disk.full = True
            await refused(b)
            disk.full = False
            await until(lambda: b.status().log.trouble is None)
            again += await delivered(events, 1)
            disk.full = True
            await refused(b)
            disk.full = False
            await until(lambda: b.status().log.trouble is None)
            disk.full = True
            await refused(b)
            reading = asyncio.ensure_future(delivered(events, 1))
            for _ in range(20):
                await asyncio.sleep(0)
            disk.full = False
            again += await reading
            assert [event.payload for event in again] == [b"1", b"2", b"3"]
            disk.full = True
            await refused(b)
            disk.full = False
            await until(lambda: b.status().log.trouble is None)
            disk.fails = True
            await refused(b)
            with pytest.raises(StorageError, match="input/output error"):
                await delivered(events, 3)

    async def test() -> None:
        async with either.open("a") as a:
            with pytest.raises(StorageError, match="input/output error"):
                await whole(a)

    run(test)


def test_what_is_repeated_has_its_tag_as_long_as_it_is_not_stable(tmp_path: Path) -> None:
    async def test() -> None:
        group = Group(tmp_path, ["a", "b", "c"])  # c never comes: nothing becomes stable
        async with group.open("a") as a, group.open("b") as b:
            first, second = await a.broadcast(b"1"), await a.broadcast(b"2")
            await delivered(b.events(), 2)
            again = await delivered(b.events(after=0), 2)
            assert [event.tag.dot for event in again if event.tag] == [first.dot, second.dot]
            assert again[0].tag
            assert again[1].tag
            assert again[0].tag.before(again[1].tag)

    run(test)


def test_a_second_reader_is_refused_until_the_first_is_closed_and_misses_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        group = Group(tmp_path, ["a", "b", "c"])  # c never comes: nothing becomes stable
        async with group.open("a") as a, group.open("b") as b:
            first = b.events()
            waiting = asyncio.ensure_future(anext(first, None))
            await a.broadcast(b"1")
            event = await waiting
            assert isinstance(event, Delivered)
            with pytest.raises(UsageError, match="have a reader already"):
                b.events()
            waiting = asyncio.ensure_future(anext(first, None))
            await asyncio.sleep(0)
            with pytest.raises(UsageError, match="have a reader already"):
                b.events(after=0)
            await a.broadcast(b"2")
            event = await waiting
            assert isinstance(event, Delivered), "the first goes on"
            assert event.payload == b"2"
            waiting = asyncio.ensure_future(anext(first, None))
            await asyncio.sleep(0)
            first.close()
            assert await waiting is None
            await a.broadcast(b"3")
            second = b.events()
            assert [event.payload for event in await delivered(second, 1)] == [b"3"]
            second.close()
            replaying = b.events(after=0)
            await delivered(replaying, 1)
            replaying.close()
            assert await anext(replaying, None) is None, "it ends in the middle of a repetition as well"
            third = b.events(after=0)
            assert [event.payload for event in await delivered(third, 3)] == [b"1", b"2", b"3"]
            del third  # the program has dropped it
            await a.broadcast(b"4")
            assert [event.payload for event in await delivered(b.events(), 1)] == [b"4"]

    run(test)


def test_a_reader_that_stops_waiting_loses_nothing(pair: Group) -> None:
    async def test() -> None:
        async with pair.open("a") as a, pair.open("b") as b:
            events, got = b.events(), []
            for i in range(20):
                waiting = asyncio.ensure_future(anext(events))
                await asyncio.sleep(0)
                waiting.cancel()
                await asyncio.wait([waiting])
                if not waiting.cancelled():
                    got.append(waiting.result())
                await a.broadcast(b"%d" % i)
            seen = [event.payload for event in got if isinstance(event, Delivered)]
            seen += [event.payload for event in await delivered(events, 20 - len(seen))]
            assert seen == [b"%d" % i for i in range(20)]

    run(test)


def test_closing_ends_readers_and_waiters(tmp_path: Path) -> None:
    async def test() -> None:
        group = Group(tmp_path, ["a", "b"])
        async with group.open("a", settings={"drain_us": 0}) as a:
            tag = await a.broadcast(b"no other member is there")
            events = a.events()
            reading = asyncio.ensure_future(anext(events, None))
            waiting = asyncio.ensure_future(a.until_stable(tag))
            await asyncio.sleep(0)
        assert await reading is None
        assert await anext(events, None) is None
        with pytest.raises(UsageError, match="closed"):
            await waiting
        for call in (lambda: a.broadcast(b""), lambda: a.until_stable(tag)):
            with pytest.raises(UsageError, match="closed"):
                await call()
        with pytest.raises(UsageError, match="closed"):
            a.events()
        with pytest.raises(UsageError, match="opened once"):
            await a.__aenter__()

    run(test)


def test_an_error_in_the_program_closes_the_node_and_stays_the_error(pair: Group) -> None:
    async def test() -> None:
        async def program() -> None:
            async with pair.open("a", settings={"drain_us": 0}) as a:
                await a.broadcast(b"x")
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await program()
        async with pair.open("a", settings={"drain_us": 0}) as a:
            assert a.name_of(await a.broadcast(b"y")) == ("a", 2)

    run(test)


def test_wrong_use_is_told(tmp_path: Path) -> None:
    async def test() -> None:
        unopened = thence.open("a", data=tmp_path / "never")
        with pytest.raises(UsageError, match="not open"):
            await unopened.broadcast(b"")
        with pytest.raises(UsageError, match="not open"):
            unopened.events()
        async with thence.open("a", data=tmp_path / "a") as a:
            with pytest.raises(UsageError, match="bytes, not str"):
                await a.broadcast("text")  # type: ignore[arg-type]
            with pytest.raises(UsageError, match="an operation has up to"):
                await a.broadcast(bytes(64 << 20))
            with pytest.raises(UsageError, match="ahead of this log"):
                a.events(after=1 << 60)
            events = a.events()
            tag = await a.broadcast(b"x")
            for at in (0, 2, -1):
                with pytest.raises(UsageError, match="1 to 1 members"):
                    await a.until_stable(tag, at=at)
            await stable(events, "a", 1)
            waiting = asyncio.ensure_future(anext(events, None))
            await asyncio.sleep(0)
            with pytest.raises(UsageError, match="waits for its next event already"):
                await anext(events)
        assert await waiting is None

    run(test)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"order": "alphabetic"}, "order"),
        ({"sync": "sometimes"}, "sync"),
        ({"settings": {"window": 1}}, "mesh.window"),
        ({"settings": {"mesh.window": 1}}, "mesh.window"),
        ({"listen": "nowhere"}, "nowhere"),
        ({"members": {"b": "127.0.0.1:1"}}, "must name a as well"),
        ({"name": "a b"}, "no name for a node"),
    ],
)
def test_settings_that_make_no_sense_are_refused_before_anything_happens(
    tmp_path: Path, options: dict[str, object], complaint: str
) -> None:
    with pytest.raises(UsageError, match=complaint):
        thence.open(**{"name": "a", "data": tmp_path / "a", "listen": "127.0.0.1:1", **options})  # type: ignore[arg-type]
    assert not (tmp_path / "a").exists()


def test_what_a_log_no_longer_holds_is_named_not_skipped(pair: Group) -> None:
    """A position so old that what followed it was collected: a program must hear of that."""
    small: dict[str, Any] = {"settings": {"log.segment_bytes": 4096, "group.history_bytes": 1}}

    async def test() -> None:
        async with pair.open("a") as a, pair.open("b", **small) as b:
            events = b.events()
            for _ in range(30):
                tag = await a.broadcast(bytes(1000))
                await delivered(events, 1)
            await a.until_stable(tag)
            await stable(events, "a", 30)
            events.close()
            driver = b._host.running
            await until(
                lambda: driver.call(lambda machine, now: machine.checkpoint(now) and machine.log.head)
            )
            again = b.events(after=0)
            gap = await anext(again)
            assert isinstance(gap, thence.Gap)
            assert gap.first == {"a": 1}
            left = await delivered(again, 30 - gap.last["a"])
            assert [event.seq for event in left] == list(range(gap.last["a"] + 1, 31))
            await a.broadcast(b"goes on")
            assert [event.payload for event in await delivered(again, 1)] == [b"goes on"]

    run(test)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", "1m") as disk:
        yield disk


def test_a_full_disk_refuses_broadcasts_until_there_is_room_and_nothing_is_lost(
    tmp_path: Path, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "PROBE_EVERY_US", 10_000)

    async def test() -> None:
        group = Group(tmp_path, ["a", "b"])
        async with group.open("a", data=disk / "a") as a, group.open("b") as b:
            (disk / "ballast").write_bytes(bytes(800_000))
            sent = 0
            with suppress(StorageError):
                while True:
                    await a.broadcast(b"%d" % sent + bytes(2000))
                    sent += 1
            with pytest.raises(StorageError, match="nothing is written at present"):
                await a.broadcast(b"refused at once")
            for i in range(20):
                await b.broadcast(b"of b %d" % i)
            (disk / "ballast").unlink()
            await until(lambda: a.status().log.trouble is None)
            assert a.name_of(await a.broadcast(b"again")) == ("a", sent + 1)
            at_b = await delivered(b.events(), sent + 1)
            assert [event.seq for event in at_b] == list(range(1, sent + 2))
            assert at_b[-1].payload == b"again"
            at_a = await delivered(a.events(), 20)
            assert [event.payload for event in at_a] == [b"of b %d" % i for i in range(20)]

    run(test)
