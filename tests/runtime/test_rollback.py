"""Live nodes whose data folder is put back to an earlier state: they notice, and nothing is lost."""

import asyncio
import shutil
from pathlib import Path

import pytest
from support.changing import Changing, Journal, agree, judged
from support.open_nodes import Group, run, until

from thence import UsageError
from thence.oplog.settings import LogSettings
from thence.runtime.application import OpenNode
from thence.runtime.incarnations import repair_shelf

MESSAGES = 30


@pytest.fixture
def group(tmp_path: Path) -> Changing:
    return Changing(tmp_path, "abc")


@pytest.mark.parametrize("stopped", [True, False], ids=["a folder at rest", "a folder in use"])
def test_a_folder_that_was_put_back_loses_nothing(
    group: Changing, tmp_path: Path, stopped: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Thirty messages after the copy, thirty others after it was put back: all of them everywhere, once."""
    group.trace = tmp_path / "trace"
    backup = tmp_path / "backup"

    async def story() -> None:
        journals = {name: Journal() for name in "ab"}
        async with (
            group.open("a", application=journals["a"]) as a,
            group.open("b", join="a", application=journals["b"]) as b,
        ):
            async with group.open("c", join="a", application=Journal()) as c:
                await c.broadcast(b"before")
                await agree(a, b, c)
                if not stopped:
                    shutil.copytree(group.data["c"], backup)
                    await send(c, "lost")
            if stopped:
                shutil.copytree(group.data["c"], backup)
                async with group.open("c", application=Journal()) as c:
                    await send(c, "lost")
                    await agree(a, b, c)
            shutil.rmtree(group.data["c"])
            shutil.copytree(backup, group.data["c"])
            last = Journal()
            async with group.open("c", application=last) as c:
                sent = await send(c, "since")
                await until(lambda: (now := c.status().group) is not None and now.incarnation[:2] == "c~")
                sent += await send(c, "later", 3)
                await until(lambda: set(sent) <= set(journals["a"].lines))
                await agree(a, b, c)
                expected = sorted(["before", *names("lost"), *names("since"), *names("later", 3)])
                for journal in (*journals.values(), last):
                    assert sorted(journal.lines) == expected

    run(story)
    said = caplog.text
    assert "this data folder was put back to an earlier state" in said
    assert "others_have=2..31" in said
    verdict = judged(group.trace)
    assert verdict.ok, verdict


def test_an_incarnation_that_has_ended_does_not_begin_again_in_its_trace(
    group: Changing, tmp_path: Path
) -> None:
    """Its folder is put back twice; at the second time it is known to lack its end."""
    group.trace, backup = tmp_path / "trace", tmp_path / "backup"

    async def puts_back(a: OpenNode, forgetful: bool) -> None:
        shutil.rmtree(group.data["c"])
        shutil.copytree(backup, group.data["c"])
        if forgetful:
            repair_shelf(group.data["c"], LogSettings(), 0, forgetful)
        async with group.open("c", application=Journal()) as c:
            await until(lambda: (now := c.status().group) is not None and now.incarnation[:2] == "c~")
            await send(c, "since", 3)
            await agree(a, c)

    async def story() -> None:
        async with group.open("a", application=Journal()) as a:
            async with group.open("c", join="a", application=Journal()) as c:
                await c.broadcast(b"before")
                await agree(a, c)
            shutil.copytree(group.data["c"], backup)
            async with group.open("c", application=Journal()) as c:
                await send(c, "lost", 3)
                await agree(a, c)
            await puts_back(a, forgetful=False)
            await puts_back(a, forgetful=True)

    run(story)
    verdict = judged(group.trace)
    assert verdict.ok, verdict


def names(what: str, count: int = MESSAGES) -> list[str]:
    return [f"{what} {number}" for number in range(count)]


async def send(node: OpenNode, what: str, count: int = MESSAGES) -> list[str]:
    for name in names(what, count):
        refused = await attempt(node, name)
        while refused:
            assert "put back to an earlier state" in refused
            await asyncio.sleep(0.01)  # until it has come back
            refused = await attempt(node, name)
    return names(what, count)


async def attempt(node: OpenNode, payload: str) -> str:
    try:
        await node.broadcast(payload.encode())
    except UsageError as refused:
        return str(refused)
    return ""


def test_a_node_of_a_closed_group_that_was_put_back_returns_as_a_new_incarnation(tmp_path: Path) -> None:
    """It has sent others, and as many, before it meets any other; and those were started anew, too."""
    group = Group(tmp_path, ["a", "c"])
    backup, journals = tmp_path / "backup", {name: Journal() for name in "ac"}

    def opened(name: str) -> OpenNode:
        journals[name] = Journal()
        return group.open(name, application=journals[name])

    async def before() -> None:
        async with opened("a"):
            async with opened("c") as c:
                await c.broadcast(b"before")
                await until(lambda: journals["a"].lines == ["before"])
            shutil.copytree(tmp_path / "c", backup)
            async with opened("c") as c:
                await send(c, "lost")
                await until(lambda: len(journals["a"].lines) == 1 + MESSAGES)

    async def after() -> None:
        async with opened("c") as c:
            await send(c, "since", 2 * MESSAGES)
            async with opened("a") as a:
                await until(lambda: (now := c.status().group) is not None and now.incarnation[:2] == "c~")
                await send(c, "later", 3)
                await agree(a, c)

    run(before)
    shutil.rmtree(tmp_path / "c")
    shutil.copytree(backup, tmp_path / "c")
    run(after)
    expected = sorted(["before", *names("lost"), *names("since", 2 * MESSAGES), *names("later", 3)])
    assert sorted(journals["a"].lines) == sorted(journals["c"].lines) == expected
