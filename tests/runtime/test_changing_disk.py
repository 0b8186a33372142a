"""What happens to a node of a changing group when its disk is full, loses its end, or belongs to another."""

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from support.changing import Changing, Cut, Journal, agree, judged
from support.mounts import small_disk
from support.open_nodes import run, until

import thence
from thence import StorageError, UsageError
from thence.cli.main import main
from thence.core.groups import number_of
from thence.replica import steps
from thence.replica.group.lifecycle import checkpoints
from thence.runtime import driver


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", "1m") as disk:
        yield disk


def test_a_full_disk_refuses_broadcasts_until_there_is_room_and_nothing_is_lost(
    tmp_path: Path, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "PROBE_EVERY_US", 10_000)

    async def story() -> None:
        group = Changing(tmp_path, "ab", {"a": disk / "a"})
        first, second = Journal(), Journal()
        async with (
            group.open("a", application=first) as a,
            group.open("b", join="a", application=second) as b,
        ):
            await agree(a, b)
            (disk / "ballast").write_bytes(bytes(800_000))
            sent = 0
            with suppress(StorageError):
                while True:
                    await a.broadcast(b"%d " % sent + b"." * 2000)
                    sent += 1
            with pytest.raises(StorageError, match="nothing is written at present"):
                await a.broadcast(b"refused at once")
            assert a.status().state == "broken"
            for number in range(20):
                await b.broadcast(b"of b %d" % number)
            (disk / "ballast").unlink()
            await until(lambda: a.status().log.trouble is None)
            await a.broadcast(b"again")
            await agree(a, b)
            assert a.me == "a"
            assert sorted(first.lines) == sorted(second.lines)
            assert [line.split()[0] for line in second.lines if line.endswith(".")] == [
                str(number) for number in range(sent)
            ]

    run(story)


def test_one_that_lost_the_end_of_its_log_comes_back_as_another_and_nothing_is_sent_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = Changing(tmp_path, "abc")
    cut = Cut(group, monkeypatch)
    group.trace = tmp_path / "trace"
    books = {name: Journal() for name in "abc"}

    async def story() -> None:
        async with (
            group.open("a", application=books["a"]) as a,
            group.open("c", join="a", application=books["c"]) as c,
        ):
            async with group.open("b", join="a", application=books["b"]) as b:
                await agree(a, b, c)
                await b.broadcast(b"one")
                await agree(a, b, c)
                cut.remember("b")
                await b.broadcast(b"forgotten")
                await agree(a, b, c)
            cut.strike("b")
            books["b"] = Journal()
            async with group.open("b", application=books["b"]) as b:
                assert b.me == "b~2"
                await b.broadcast(b"two")
                await agree(a, b, c)
                assert a.members == ("a", "b~2", "c")
                lines = books["a"].lines
                assert sorted(lines) == ["forgotten", "one", "two"]
                assert books["b"].lines == books["c"].lines == lines

    run(story)
    assert judged(group.trace).flagged == ()


def test_after_a_power_cut_everywhere_the_node_that_keeps_most_goes_on_and_nothing_that_is_kept_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = Changing(tmp_path, "ab")
    cut = Cut(group, monkeypatch)
    group.trace = tmp_path / "trace"
    books = {name: Journal() for name in "ab"}

    async def story() -> None:
        async with (
            group.open("a", application=books["a"]) as a,
            group.open("b", join="a", application=books["b"]) as b,
        ):
            await a.broadcast(b"both")
            await agree(a, b)
            for host, peer in ((a, "b"), (b, "a")):
                host._host.fault("cut", peer, 0)
            await a.broadcast(b"only a")
            cut.remember("a")
            for number in range(5):
                await b.broadcast(b"only b %d" % number)
            cut.remember("b")
            await b.broadcast(b"too late")
        cut.strike("a", "b")
        for name in "ab":
            books[name] = Journal()
        nodes = [group.open(name, application=books[name]) for name in "ab"]
        a, b = await asyncio.gather(*[node.__aenter__() for node in nodes])
        await agree(a, b)
        await until(lambda: len(books["a"].lines) == len(books["b"].lines) == 7)
        assert a.members == ("a~2", "b~2")
        assert sorted(books["a"].lines) == ["both", "only a", *[f"only b {n}" for n in range(5)]]
        assert sorted(books["b"].lines) == sorted(books["a"].lines)
        await asyncio.gather(*[node.__aexit__(None, None, None) for node in nodes])

    run(story)
    assert judged(group.trace).flagged == ()


def test_after_a_power_cut_one_goes_on_alone_if_no_other_ever_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = Changing(tmp_path, "ab")
    cut = Cut(group, monkeypatch)
    books = {name: Journal() for name in "ab"}

    async def story() -> None:
        async with (
            group.open("a", application=books["a"]) as a,
            group.open("b", join="a", application=books["b"]) as b,
        ):
            await a.broadcast(b"kept")
            await agree(a, b)
            cut.remember("a")
        cut.strike("a")
        books["a"] = Journal()
        hasty = {"group.patience_us": 50_000}
        async with group.open("a", application=books["a"], settings=hasty) as a:
            assert a.members == ("a~2",)
            assert books["a"].lines == ["kept"]
            # There is one after all, which has forgotten nothing: they find together again.
            async with group.open("b", application=books["b"]) as b:
                await until(lambda: len(a.members) == len(b.members) == 2)
                await agree(a, b)
                assert books["a"].lines == books["b"].lines == ["kept"]

    run(story)


@pytest.mark.parametrize("sync", ["no", "always"])
def test_a_member_writes_itself_down_and_its_log_stays_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync: str
) -> None:
    monkeypatch.setattr(checkpoints, "CHECKPOINT_BYTES", 4096)
    monkeypatch.setattr(steps, "TIDY_EVERY_US", 1)
    group = Changing(tmp_path, "ab")
    group.trace = tmp_path / "trace"
    books = {name: Journal() for name in "ab"}
    small = {"log.segment_bytes": 4096, "group.history_bytes": 1}

    def size(name: str) -> int:
        return sum(file.stat().st_size for file in (tmp_path / name / "oplog").rglob("*.log"))

    async def story() -> None:
        async with group.open("a", application=books["a"], settings=small, sync=sync) as a:
            async with group.open("b", join="a", application=books["b"], settings=small, sync=sync) as b:
                for number in range(200):
                    await a.broadcast(b"%d " % number + b"." * 400)
                await agree(a, b)
                # Of 90 kB; a state of 80 kB is written when the log has grown by its half, and two are kept.
                await until(lambda: size("a") < 65_000 and size("b") < 65_000)
            books["b"] = Journal()
            async with group.open("b", application=books["b"], settings=small, sync=sync) as b:
                await agree(a, b)
                assert [line.split()[0] for line in books["b"].lines] == [str(n) for n in range(200)]
                await b.broadcast(b"again")
                await agree(a, b)
                assert books["a"].lines == books["b"].lines

    run(story)
    assert judged(group.trace).flagged == ()


def test_one_that_lost_its_whole_disk_joins_with_a_number_that_no_side_of_a_split_can_know(
    tmp_path: Path,
) -> None:
    """More than were ever used, wherever: it grows with the clock."""
    group = Changing(tmp_path, "ab")
    books = {name: Journal() for name in "ab"}

    async def story() -> None:
        async with group.open("a", application=books["a"]) as a:
            async with group.open("b", join="a", application=books["b"]) as b:
                await b.broadcast(b"one")
                await agree(a, b)
            last = 1_000_000
            for again in (2, 3):
                shutil.rmtree(tmp_path / "b")
                books["b"] = Journal()
                async with group.open("b", join="a", application=books["b"]) as b:
                    assert number_of(b.me) > last
                    last = number_of(b.me)
                    await b.broadcast(b"%d" % again)
                    await until(lambda: len(a.members) == 2)
                    await agree(a, b)
                    assert a.members == ("a", b.me)
                    assert books["a"].lines == books["b"].lines

    run(story)


@pytest.mark.parametrize("kind", ["log", "snapshot"])
def test_a_damaged_log_or_state_is_kept_aside_and_the_node_comes_back_as_another(
    tmp_path: Path, kind: str
) -> None:
    group = Changing(tmp_path, "ab")
    books = {name: Journal() for name in "ab"}

    async def story() -> None:
        async with group.open("a", application=books["a"]) as a:
            async with group.open("b", join="a", application=books["b"]) as b:
                for number in range(20):
                    await b.broadcast(b"of b %d" % number)
                await agree(a, b)
            await a.broadcast(b"meanwhile")
            [file] = (tmp_path / "b" / "oplog" / "1").glob(f"*.{kind}")
            data = bytearray(file.read_bytes())
            data[len(data) // 2] ^= 0x10
            file.write_bytes(data)
            books["b"] = Journal()
            async with group.open("b", application=books["b"]) as b:
                assert b.me == "b~2"
                await b.broadcast(b"again")
                await agree(a, b)
                assert books["b"].lines == books["a"].lines
                assert len(books["a"].lines) == 22
                assert (tmp_path / "b" / "damaged-1" / file.name).read_bytes() == data

    run(story)


def test_a_damaged_log_of_one_that_is_alone_is_for_people_to_cut(tmp_path: Path) -> None:
    group = Changing(tmp_path, "a")

    async def story() -> None:
        async with group.open("a") as a:
            for number in range(20):
                await a.broadcast(b"%d" % number)
        [file] = (tmp_path / "a" / "oplog" / "1").glob("*.log")
        data = bytearray(file.read_bytes())
        data[len(data) - 300] ^= 0x10
        file.write_bytes(data)
        with pytest.raises(UsageError, match=r"`thence repair .*` cuts it off there"):
            async with group.open("a"):
                raise AssertionError("it was opened")
        assert main(["repair", str(tmp_path / "a")]) == 0
        book = Journal()
        async with group.open("a", application=book) as a:
            assert a.me == "a"
            assert 0 < len(book.lines) < 20
            assert book.lines == [str(number) for number in range(len(book.lines))]

    run(story)


def test_a_folder_of_another_process_or_cluster_is_refused(tmp_path: Path) -> None:
    group = Changing(tmp_path, "ab")

    async def story() -> None:
        async with group.open("a"):
            pass
        (tmp_path / "b").symlink_to(tmp_path / "a")
        for name, settings, why in (
            ("b", {}, "belongs to a, not to b"),
            ("a", {"cluster": "other"}, "belongs to the cluster 'thence', not to 'other'"),
        ):
            with pytest.raises(UsageError, match=why):
                async with group.open(name, settings=settings):
                    raise AssertionError("it was let in")

    run(story)


def test_a_closed_group_and_a_changing_one_do_not_take_each_others_folders(tmp_path: Path) -> None:
    group = Changing(tmp_path, "ab")

    async def story() -> None:
        async with group.open("a"):
            pass
        with pytest.raises(UsageError, match="is of a group whose members change"):
            async with thence.open("a", data=tmp_path / "a", members={"a": group.at["a"]}):
                raise AssertionError("it was let in")
        async with thence.open("b", data=tmp_path / "b", members={"b": group.at["b"]}) as closed:
            with pytest.raises(UsageError, match="the group is closed"):
                await closed.leave()
            with pytest.raises(UsageError, match="the group is closed"):
                closed.evict("a")
            with pytest.raises(UsageError, match="the group is closed, no other node can join it"):
                async with group.open("a", join="b", data=tmp_path / "c"):
                    raise AssertionError("it was let in")

    run(story)


def test_nodes_that_name_each_other_found_one_group(tmp_path: Path) -> None:
    group = Changing(tmp_path, "abc")

    async def story() -> None:
        nodes = [group.open(name, join="abc") for name in "abc"]
        opened = await asyncio.gather(*[node.__aenter__() for node in nodes])
        await agree(*opened)
        assert opened[0].members == ("a", "b", "c")
        await asyncio.gather(*[node.__aexit__(None, None, None) for node in nodes])

    run(story)


def test_a_name_that_is_taken_is_refused(tmp_path: Path) -> None:
    group = Changing(tmp_path, "abc")

    async def story() -> None:
        async with group.open("a"), group.open("b", join="a"):
            with pytest.raises(UsageError, match="the group has a member b at"):
                async with group.open("b", join="a", data=tmp_path / "c", listen=group.at["c"]):
                    raise AssertionError("it was let in")

    run(story)
