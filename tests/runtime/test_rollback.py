"""Live nodes whose data folder is put back to an earlier state: they notice, and nothing is lost."""

import asyncio
import shutil
from pathlib import Path

import pytest
from support.changing import Changing, Journal, agree, judged
from support.open_nodes import run, until

from thence import UsageError
from thence.runtime.group_application import OpenGroupNode

MESSAGES = 30


@pytest.fixture
def group(tmp_path: Path) -> Changing:
    return Changing(tmp_path, "abc")


@pytest.mark.parametrize("stopped", [True, False], ids=["a folder at rest", "a folder in use"])
def test_a_folder_that_was_put_back_loses_nothing(
    group: Changing, tmp_path: Path, stopped: bool, capfd: pytest.CaptureFixture[str]
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
                await until(lambda: c.me == "c~2")
                sent += await send(c, "later", 3)
                await until(lambda: set(sent) <= set(journals["a"].lines))
                await agree(a, b, c)
                expected = sorted(["before", *names("lost"), *names("since"), *names("later", 3)])
                for journal in (*journals.values(), last):
                    assert sorted(journal.lines) == expected

    run(story)
    said = capfd.readouterr().err
    assert "this data folder was put back to an earlier state" in said
    assert "others_have=2..31" in said
    verdict = judged(group.trace)
    assert verdict.ok, verdict


def names(what: str, count: int = MESSAGES) -> list[str]:
    return [f"{what} {number}" for number in range(count)]


async def send(node: OpenGroupNode, what: str, count: int = MESSAGES) -> list[str]:
    for name in names(what, count):
        refused = await attempt(node, name)
        while refused:
            assert "put back to an earlier state" in refused
            await asyncio.sleep(0.01)  # until it has come back
            refused = await attempt(node, name)
    return names(what, count)


async def attempt(node: OpenGroupNode, payload: str) -> str:
    try:
        await node.broadcast(payload.encode())
    except UsageError as refused:
        return str(refused)
    return ""
