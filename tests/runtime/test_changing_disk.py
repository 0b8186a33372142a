"""What happens to a node of a changing group when its disk is full, loses its end, or belongs to another."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from support.changing import Changing, Journal, agree
from support.mounts import small_disk
from support.open_nodes import run, until

import thence
from thence import StorageError, UsageError
from thence.runtime import group_driver


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", "1m") as disk:
        yield disk


def test_a_full_disk_refuses_broadcasts_until_there_is_room_and_nothing_is_lost(
    tmp_path: Path, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_driver, "PROBE_EVERY_S", 0.01)

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


def test_a_fixed_group_and_a_changing_one_do_not_take_each_others_folders(tmp_path: Path) -> None:
    group = Changing(tmp_path, "ab")

    async def story() -> None:
        async with group.open("a"):
            pass
        with pytest.raises(UsageError, match="is of a group whose members change"):
            async with thence.open("a", data=tmp_path / "a", members={"a": group.at["a"]}):
                raise AssertionError("it was let in")
        async with thence.open("b", data=tmp_path / "b", members={"b": group.at["b"]}) as fixed:
            with pytest.raises(UsageError, match="the group is fixed"):
                await fixed.leave()
            with pytest.raises(UsageError, match="the group is fixed, nobody can join it"):
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
