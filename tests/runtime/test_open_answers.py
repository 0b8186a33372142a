"""What becomes of an operation, as a program hears it: sent or not, definitely or not, and how far it got."""

import asyncio
from pathlib import Path

import pytest
from support.changing import Changing, Journal, agree
from support.failing_disk import FailingDisk
from support.open_nodes import run, until

from thence import Delivered, StorageError, UsageError


@pytest.fixture
def group(tmp_path: Path) -> Changing:
    return Changing(tmp_path, "abc")


def test_what_finds_no_room_on_the_disk_was_definitely_not_sent_and_its_counter_is_free(
    group: Changing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, book = FailingDisk(tmp_path / "a", monkeypatch), Journal()
    told: list[tuple[str, int, int]] = []

    async def story() -> None:
        async with group.open("a", application=book) as a:
            a.on_commit(lambda *run: told.append(run))
            first = a.broadcast_nowait(b"first")
            await a.committed(first)
            disk.full = True
            lost = [a.broadcast_nowait(b"lost"), a.broadcast_nowait(b"as well")]
            for dot in lost:
                with pytest.raises(StorageError, match="no space left") as raised:
                    await a.committed(dot)
                assert raised.value.definite
            with pytest.raises(StorageError) as refused:
                await a.broadcast(b"neither")
            assert refused.value.definite
            disk.full = False
            await until(lambda: a._host.running.trouble is None)
            again = a.broadcast_nowait(b"second")
            assert again == lost[0], "nothing was ever sent under it"
            await a.committed(again)
        assert book.lines == ["first", "second"]
        assert told == [("a", 1, 1), ("a", 2, 2)]

    run(story)


def test_what_a_failed_sync_leaves_is_not_definite_and_is_in_the_log_or_is_not(
    group: Changing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FailingDisk(tmp_path / "a", monkeypatch)

    async def story() -> None:
        node = group.open("a", sync="always", application=Journal())
        a = await node.__aenter__()
        disk.fails = True
        with pytest.raises(StorageError) as raised:
            await a.broadcast(b"perhaps")
        assert not raised.value.definite
        disk.fails = False
        with pytest.raises(StorageError):
            await node.__aexit__(None, None, None)
        book = Journal()
        async with group.open("a", sync="always", application=book) as again:
            await again.broadcast(b"after it")
        assert book.lines in (["perhaps", "after it"], ["after it"])

    run(story)


def test_to_give_up_waiting_for_an_answer_takes_nothing_back(group: Changing) -> None:
    async def story() -> None:
        book = Journal()
        async with group.open("a", application=book) as a:
            dot = a.broadcast_nowait(b"sent")
            waiting = asyncio.ensure_future(a.committed(dot))
            await asyncio.sleep(0)
            waiting.cancel()
            await a.committed(dot)
            with pytest.raises(UsageError, match="a:9 was not sent by this node"):
                await a.committed(("a", 9))
        assert book.lines == ["sent"]

    run(story)


def test_a_buffer_is_sent_as_it_was_when_it_was_handed_over(group: Changing) -> None:
    async def story() -> None:
        book = Journal()
        async with group.open("a", application=book) as a:
            buffer = bytearray(b"before")
            dot = a.broadcast_nowait(memoryview(buffer))
            buffer[:] = b"after!"
            await a.committed(dot)
            await a.broadcast(buffer)
            await a.broadcast(memoryview(b"xyz")[1:])
            with pytest.raises(UsageError, match="a payload is bytes, not str"):
                a.broadcast_nowait("text")  # type: ignore[arg-type]
        assert book.lines == ["before", "after!", "yz"]

    run(story)


def test_an_operation_reaches_some_members_and_then_all_also_by_name_and_after_a_restart(
    group: Changing,
) -> None:
    async def story() -> None:
        async with group.open("a", application=Journal()) as a:
            b = group.open("b", join="a", application=Journal())
            c = group.open("c", join="a", application=Journal())
            await b.__aenter__()
            await c.__aenter__()
            await agree(a, b, c)
            await c.__aexit__(None, None, None)
            tag = await a.broadcast(b"x")
            await a.reached(tag.dot, 2)
            waiting = asyncio.ensure_future(a.reached(tag, 3))
            await b.__aexit__(None, None, None)
            assert not waiting.done()
            async with group.open("b", application=Journal()) as b:
                await b.delivered(a.context())
                assert not waiting.done()
                async with group.open("c", application=Journal()):
                    await waiting
                    await b.reached(tag.dot, 3)
            with pytest.raises(UsageError, match="1 to 3 members, not 4"):
                await a.reached(tag, 4)

    run(story)


def test_an_operation_of_many_megabytes_is_one_operation(group: Changing) -> None:
    """To a member, to one that joins, and after a restart."""

    async def story() -> None:
        large, books = "x" * (20 << 20), [Journal(), Journal(), Journal(), Journal()]
        async with group.open("a", application=books[0]) as a:
            async with group.open("b", join="a", application=books[1]) as b:
                tag = await a.broadcast(large.encode())
                small = await b.broadcast(b"small")
                await agree(a, b)
                await b.until_stable(small)
                async with group.open("c", join="b", application=books[2]) as c:
                    await agree(a, b, c)
            assert a.tag(*tag.dot) == tag
        async with group.open("a", application=books[3]):
            pass
        assert [sorted(map(len, book.lines)) for book in books] == [[5, len(large)]] * 4

    run(story)


def test_a_carried_operation_tells_what_it_followed_from(group: Changing) -> None:
    class Contexts(Journal):
        def __init__(self) -> None:
            super().__init__()
            self.carried: list[Delivered] = []

        def apply(self, event: Delivered) -> None:
            super().apply(event)
            self.carried += [event] if event.carried else []

    async def story() -> None:
        book = Contexts()
        async with (
            group.open("a", application=book) as a,
            group.open("b", join="a", application=Journal(), settings={"allow_faults": True}) as b,
        ):
            seen = await a.broadcast(b"seen")
            await b.delivered(a.context())
            b._host.fault("cut", None, 0)
            await b.broadcast(b"alone")
            unseen = await a.broadcast(b"unseen")
            a.evict("b")
            await until(lambda: a.members == ("a",))
            b._host.fault("heal", None, 0)
            await until(lambda: bool(book.carried))
            [event] = book.carried
            assert event.payload == b"alone"
            assert dict(event.context)["a"] == seen.seq
            assert event.tag is not None
            assert unseen.before(event.tag), "by tags it follows from all that its node had seen when it came"

    run(story)
