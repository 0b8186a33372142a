"""`thence.open` where members come and go: what a program sees of joins, leaves, evictions and returns."""

import asyncio
import logging
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.changing import Changing, Journal, agree, happens, judged
from support.open_nodes import run, until

from thence import Delivered, Orphaned, Stable, UsageError, ViewChanged
from thence.replica.positions import PART_MAX


@pytest.fixture
def group(tmp_path: Path) -> Changing:
    return Changing(tmp_path, "abc")


def test_one_that_joins_gets_what_is_sent_from_then_on(group: Changing) -> None:
    async def story() -> None:
        async with group.open("a") as a:
            await a.broadcast(b"before")
            async with group.open("b", join="a") as b:
                assert b.members == ("a", "b")
                events = b.events()
                tag = await a.broadcast(b"after")
                came = await happens(events, lambda event: isinstance(event, Delivered))
                assert isinstance(came, Delivered)
                assert (came.payload, came.origin) == (b"after", "a")
                await a.until_stable(tag)
                await happens(events, lambda event: isinstance(event, Stable) and event.origin == "a")
                answer = await b.broadcast(b"answer")
                assert came.tag is not None
                assert came.tag.before(answer)

    run(story)


def test_a_joiner_begins_from_the_state_and_a_restart_from_its_own(group: Changing) -> None:
    async def story() -> None:
        first = Journal()
        async with group.open("a", application=first) as a:
            for number in range(3):
                await a.broadcast(b"a%d" % number)
            second = Journal()
            async with group.open("b", join="a", application=second) as b:
                assert second.lines == ["a0", "a1", "a2"]
                await b.broadcast(b"b0")
                await agree(a, b)
                assert first.lines == second.lines == ["a0", "a1", "a2", "b0"]
            await a.broadcast(b"a3")
            again = Journal()
            async with group.open("b", application=again) as b:
                await agree(a, b)
                assert b.me == "b"
                assert again.lines == ["a0", "a1", "a2", "b0", "a3"]

    run(story)


def test_changes_of_the_view_are_in_the_log_of_every_member(
    group: Changing, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with group.open("a") as a, group.open("b", join="a") as b:
            await b.leave()
            await until(lambda: a.members == ("a",))

    with caplog.at_level(logging.INFO, "thence"):
        run(story)
    told = [
        record.getMessage() for record in caplog.records if getattr(record, "event", "") == "view changed"
    ]
    assert '"view changed" joined=b members=2' in told
    assert '"view changed" left=b members=1' in told


class Shelves:
    """A large state: a line a chunk. What is applied while chunks are asked for shows in none of them."""

    def __init__(self, size: int = 0) -> None:
        self.lines = [f"line {number}" for number in range(size)]
        self.asked = 0

    def apply(self, event: Delivered) -> None:
        self.lines.append(event.payload.decode())

    def state_chunks(self) -> Iterator[bytes]:
        for at in range(len(self.lines)):  # as many as there are now
            self.asked += 1
            yield self.lines[at].encode().ljust(1000) + b"\n"

    def install_chunks(self, chunks: Iterator[bytes]) -> None:
        self.lines = [line.rstrip().decode() for line in b"".join(chunks).split(b"\n")[:-1]]


def test_a_joiner_and_a_restart_begin_from_a_state_in_chunks(group: Changing) -> None:
    async def story() -> None:
        first, second = Shelves(2000), Shelves()
        async with group.open("a", application=first) as a:
            joins = asyncio.ensure_future(group.open("b", join="a", application=second).__aenter__())
            meanwhile = 0
            while not joins.done():
                await a.broadcast(b"meanwhile %d" % meanwhile)
                meanwhile += 1
            b = await joins
            await agree(a, b)
            assert second.lines == first.lines
            assert first.asked > 4000, "chunks of the founder's first state, and of one for the joiner"
            await b.__aexit__(None, None, None)
            again = Shelves()
            async with group.open("b", application=again) as b:
                await agree(a, b)
                assert again.lines == first.lines

    run(story)


def test_one_that_reads_much_from_its_disk_leaves_turns_to_others_and_says_that_it_is_starting(
    group: Changing,
) -> None:
    async def story() -> None:
        sent = 2000
        async with group.open("a") as a:
            for _ in range(sent // 50):
                await asyncio.gather(*[a.broadcast(b"x") for _ in range(50)])
        said: list[str] = []
        again = group.open("a")

        async def ask() -> None:
            while True:
                said.append(again.status().state)
                await asyncio.sleep(0)

        asking = asyncio.ensure_future(ask())
        async with again:
            asking.cancel()
            assert said.count("starting") >= sent // 256
            assert again.status().state == "running"

    run(story)


def test_a_program_that_names_its_position_sees_each_message_once(group: Changing) -> None:
    async def story() -> None:
        async with group.open("a") as a:
            async with group.open("b", join="a") as b:
                for number in range(4):
                    await a.broadcast(b"%d" % number)
                events = b.events()
                got = [await happens(events, lambda event: isinstance(event, Delivered)) for _ in range(4)]
                kept = got[1]
                assert isinstance(kept, Delivered)
            await a.broadcast(b"4")
            async with group.open("b") as b:
                events = b.events(after=kept.position)
                got = [await happens(events, lambda event: isinstance(event, Delivered)) for _ in range(3)]
                assert [event.payload for event in got if isinstance(event, Delivered)] == [b"2", b"3", b"4"]
                events.close()
                with pytest.raises(UsageError, match="ahead of this log"):
                    b.events(after=b.position + PART_MAX + 1)

    run(story)


def test_one_that_leaves_is_gone_for_the_others_and_can_send_no_more(group: Changing) -> None:
    async def story() -> None:
        async with group.open("a") as a, group.open("b", join="a") as b:
            events = a.events()
            await b.broadcast(b"last words")
            leaving = asyncio.ensure_future(b.leave())
            await happens(events, lambda event: isinstance(event, Delivered) and event.origin == "b")
            await happens(events, lambda event: isinstance(event, ViewChanged) and event.members == ("a",))
            assert await leaving
            with pytest.raises(UsageError, match="it cannot send"):
                await b.broadcast(b"more")

    run(story)


def test_one_that_was_evicted_alive_returns_and_its_operations_with_it(
    group: Changing, tmp_path: Path
) -> None:
    group.trace = tmp_path / "trace"

    async def story() -> None:
        books = {name: Journal() for name in "abc"}
        async with (
            group.open("a", application=books["a"]) as a,
            group.open("b", join="a", application=books["b"]) as b,
            group.open("c", join="ab", application=books["c"]) as c,
        ):
            await agree(a, b, c)
            for peer in ("a", "b"):
                c._host.fault("cut", peer, 0)
            await c.broadcast(b"no member hears this")
            assert a.evict("c") == "c"
            while "c" in a.members or "c" in b.members:
                await asyncio.sleep(0.002)
            events = c.events()
            c._host.fault("mend", None, 0)
            orphan = await happens(events, lambda event: isinstance(event, Orphaned))
            assert isinstance(orphan, Orphaned)
            assert (orphan.payload, orphan.origin, orphan.again) == (b"no member hears this", "c", True)
            while "no member hears this" not in books["b"].lines:
                await asyncio.sleep(0.002)
            await agree(a, b, c)
            assert c.me == "c~2"
            assert a.members == ("a", "b", "c~2")
            assert books["a"].lines == books["b"].lines == books["c"].lines == ["no member hears this"]

    run(story)
    assert judged(group.trace).flagged == ()


def test_a_program_may_decline_to_send_again_what_the_group_never_had(group: Changing) -> None:
    """And what follows from that is not sent again either."""

    async def story() -> None:
        asked: list[Orphaned] = []

        def wanted(orphan: Orphaned) -> bool:
            asked.append(orphan)
            return orphan.payload != b"a lock that no process holds"

        async with (
            group.open("a") as a,
            group.open("b", join="a") as b,
            group.open("c", join="ab", send_again=wanted) as c,
        ):
            await agree(a, b, c)
            for peer in ("a", "b"):
                c._host.fault("cut", peer, 0)
            payloads = (b"first", b"a lock that no process holds", b"what was done with it")
            tags = [await c.broadcast(payload) for payload in payloads]
            assert a.evict("c") == "c"
            while "c" in a.members or "c" in b.members:
                await asyncio.sleep(0.002)
            events, elsewhere = c.events(), b.events()
            c._host.fault("mend", None, 0)
            told: list[Orphaned] = []
            while len(told) < 3:
                orphan = await happens(events, lambda event: isinstance(event, Orphaned))
                assert isinstance(orphan, Orphaned)
                told.append(orphan)
            assert [(orphan.payload, orphan.again) for orphan in told] == [
                (payloads[0], True), (payloads[1], False), (payloads[2], False),
            ]  # fmt: skip
            assert [orphan.payload for orphan in asked] == list(payloads)
            names = [c.name_of(tag) for tag in tags]
            assert [(orphan.origin, orphan.seq) for orphan in told] == names
            assert told[0].tag is not None
            assert told[2].tag is not None
            assert told[0].tag.before(told[2].tag), "they are the tags that they had"
            assert tags[0].before(told[1].tag)  # type: ignore[arg-type]
            await c.broadcast(b"go on")
            heard = [await happens(elsewhere, lambda event: isinstance(event, Delivered)) for _ in range(2)]
            assert [event.payload for event in heard] == [b"first", b"go on"]  # type: ignore[union-attr]

    run(story)


def test_the_last_one_does_not_leave_while_a_member_may_come_back_unless_it_is_forced(
    group: Changing,
) -> None:
    async def story() -> None:
        async with group.open("a", application=Journal()) as a:
            async with group.open("b", join="a", application=Journal()) as b:
                await agree(a, b)
            a.evict("b")
            await until(lambda: a.members == ("a",))
            with pytest.raises(UsageError, match="a is the last member, and what it has would be lost for b"):
                await a.leave()
            with pytest.raises(UsageError, match="z was not evicted"):
                a._host.bury("z")
            a._host.bury("b")  # its disk is lost
            await until(lambda: [member.name for member in a.status().members] == ["a"])
            assert await a.leave()

    run(story)


def test_the_last_one_leaves_by_force(group: Changing) -> None:
    async def story() -> None:
        hurry = {"group.leave_timeout_us": 200_000}
        async with group.open("a", application=Journal(), settings=hurry) as a:
            async with group.open("b", join="a", application=Journal()) as b:
                await agree(a, b)
            a.evict("b")
            await until(lambda: a.members == ("a",))
            assert not await a.leave(force=True), "no other member has what it sent"
            with pytest.raises(UsageError, match="it cannot send"):
                await a.broadcast(b"more")

    run(story)


def test_one_that_is_silent_is_evicted_by_a_majority_if_that_is_wanted_and_returns(group: Changing) -> None:
    async def story() -> None:
        silence = {"group.silence_us": 1_000_000}  # longer than a busy machine silences a or b
        async with (
            group.open("a", application=Journal(), settings=silence) as a,
            group.open("b", join="a", application=Journal(), settings=silence) as b,
            group.open("c", join="ab", application=Journal(), settings=silence) as c,
        ):
            await agree(a, b, c)
            for peer in ("a", "b"):
                c._host.fault("cut", peer, 0)
            await until(lambda: a.members == b.members == ("a", "b"))
            assert c.members == ("a", "b", "c"), "one alone is no majority"
            c._host.fault("mend", None, 0)
            await until(lambda: a.members == b.members == c.members == ("a", "b", "c~2"))

    run(story)


def test_many_large_messages_at_once_travel_in_frames_that_links_take(group: Changing) -> None:
    async def story() -> None:
        books = Journal(), Journal()
        small = {"links.frame_bytes_max": 65_536}
        async with group.open("a", application=books[0], settings=small) as a:
            await asyncio.gather(*[a.broadcast(b"%d " % n + b"." * 30_000) for n in range(20)])
            async with group.open("b", join="a", application=books[1], settings=small) as b:  # a large state
                await asyncio.gather(*[a.broadcast(b"%d " % n + b"." * 30_000) for n in range(20)])
                await agree(a, b)
                assert books[0].lines == books[1].lines
                assert len(books[1].lines) == 40
                large = "".join(random.Random(7).choices("abcdef", k=3_000_000))
                tag = await a.broadcast(large.encode())
                await asyncio.gather(*[b.broadcast(b"%d" % n) for n in range(20)])
                await agree(a, b)
                assert large in books[1].lines
                await a.until_stable(tag)
                with pytest.raises(UsageError, match="an operation has up to"):
                    await a.broadcast(bytes(1 << 26))  # what no record of the log holds

    run(story)


def test_what_makes_no_sense_is_refused_with_a_reason(group: Changing) -> None:
    async def story() -> None:
        async with group.open("a") as a:
            with pytest.raises(UsageError, match="a is this node itself: let it leave instead"):
                a.evict("a")
            with pytest.raises(UsageError, match=r"z is not a member, .*: no other node is a member"):
                a.evict("z")
            with pytest.raises(UsageError, match="no tag of this node"):
                a.name_of(object())  # type: ignore[arg-type]

    run(story)
