"""Whole nodes: whose folder it is, who is let in, and what people are told when it is the wrong one."""

import asyncio
import logging
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.live_links import Stranger, free_addresses
from support.open_nodes import Group, delivered, run, until
from support.processes import PATIENCE_S

from thence.core.errors import PeerError, UsageError
from thence.core.groups import process_of
from thence.runtime import hello as introductions
from thence.runtime.application import OpenNode
from thence.runtime.folder import OPLOG, DataFolder

ALONE = {"drain_us": 0}


class Said:
    """What nodes told their programs' log."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog

    def __call__(self, *parts: str) -> bool:
        """Has any line all of these in it?"""
        return any(all(part in record.getMessage() for part in parts) for record in self._caplog.records)


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Said:
    caplog.set_level(logging.INFO, "thence")
    return Said(caplog)


@pytest.fixture
def group(tmp_path: Path) -> Group:
    return Group(tmp_path, ["a", "b"])


async def talked(group: Group) -> None:
    """a and b have met."""
    async with group.open("a") as a, group.open("b") as b:
        await a.broadcast(b"x")
        await delivered(b.events(), 1)


@pytest.mark.parametrize(
    ("name", "settings", "members", "why"),
    [
        ("b", {}, None, "this data folder belongs to a, not to b"),
        ("a", {"cluster": "other"}, None, "belongs to the cluster 'thence', not to 'other'"),
        ("a", {}, ["a", "b", "c"], "knows a group of a, b: members must be the same"),
        ("a", {}, ["a"], "knows a group of a, b: members must be the same"),
    ],
)
def test_a_folder_of_another_is_refused_and_stays_its_owners(
    group: Group, name: str, settings: dict[str, object], members: list[str] | None, why: str
) -> None:
    options: dict[str, object] = {"settings": {**ALONE, **settings}, "data": group.folder / "a"}
    if members is not None:
        options["members"] = {each: f"127.0.0.1:{i + 1}" for i, each in enumerate(members)}
        options["listen"] = "127.0.0.1:1"

    async def test() -> None:
        async with group.open("a", settings=ALONE) as a:
            await a.broadcast(b"first")
        with pytest.raises(UsageError, match=why):
            await group.open(name, **options).__aenter__()  # type: ignore[arg-type]
        async with group.open("a", settings=ALONE) as a:
            assert a.name_of(await a.broadcast(b"second")) == ("a", 2)

    run(test)


@pytest.mark.parametrize("second", ["a", "b"])
def test_a_second_node_with_a_name_is_refused_while_the_first_runs(
    tmp_path: Path, said: Said, second: str
) -> None:
    """Whichever side dials; the one with the smaller name does."""
    group = Group(tmp_path, ["a", "b"])
    impostor = {**group.members, second: str(free_addresses(1)[0])}

    async def test() -> None:
        async with group.open("a", settings=ALONE) as a, group.open("b", settings=ALONE) as b:
            await until(lambda: a.status().members[1].link == b.status().members[0].link == "up")
            bad = group.open(
                second, listen=impostor[second], members=impostor, data=tmp_path / "impostor", settings=ALONE
            )
            async with bad:
                why = f"another node called {second} is linked here: two nodes with one name"
                await until(lambda: said(why))
                await bad.broadcast(b"never")
                await (a if second == "b" else b).broadcast(b"the real ones")
                [got] = await delivered((b if second == "b" else a).events(), 1)
                assert got.payload == b"the real ones"

    run(test)


def incarnation(node: OpenNode) -> str:
    """As whom it is a member; empty: it is none at present."""
    group = node.status().group
    assert group is not None
    return group.incarnation


@pytest.mark.parametrize("lost", ["a", "b"])
def test_a_node_that_lost_its_disk_returns_as_a_new_incarnation(group: Group, lost: str) -> None:
    """And gives no counter twice: what it broadcasts before it knows is sent again as the new one."""

    async def test() -> None:
        await talked(group)
        shutil.rmtree(group.folder / lost)
        async with group.open("a", settings=ALONE) as a, group.open("b", settings=ALONE) as b:
            back, other = (a, b) if lost == "a" else (b, a)
            await back.broadcast(b"after the loss")
            events = other.events()
            while True:
                [got] = await delivered(events, 1)
                if got.payload == b"after the loss":
                    break
            await until(lambda: incarnation(back) not in ("", lost))
            assert sorted(map(process_of, back.members)) == ["a", "b"]
            tag = await back.broadcast(b"as the new one")
            assert back.name_of(tag)[0] == back.me

    run(test)


def test_a_copy_of_a_data_folder_returns_as_a_new_incarnation(group: Group, said: Said) -> None:
    async def test() -> None:
        await talked(group)
        copy = group.folder / "copy"
        subprocess.run(["cp", "-r", group.folder / "b", copy], check=True)
        await talked_again(group)
        async with group.open("a", settings=ALONE), group.open("b", data=copy, settings=ALONE) as b:
            await until(lambda: said("this data folder was put back to an earlier state"))
            await until(lambda: incarnation(b) not in ("", "b"))

    async def talked_again(group: Group) -> None:
        for _ in range(2):
            async with group.open("a") as a, group.open("b") as b:
                await b.broadcast(b"y")
                await delivered(a.events(), 1)

    run(test)


def test_a_boot_that_was_made_up_is_not_believed() -> None:
    for known, boot in ((0, introductions.MOST_BOOT), (3, introductions.MOST_STARTS + 4)):
        why = introductions.leap("b", boot, known)
        assert why == f"b says that it was started {boot} times, and {known} times when it was here last"
        assert introductions.leap("b", known + 1, known) is None


def test_a_stranger_without_the_secret_does_not_learn_what_a_node_is_known_by(group: Group) -> None:
    async def test() -> None:
        async with (
            group.open("a", settings=ALONE) as a,
            group.open("b", settings=ALONE),
        ):
            await until(lambda: a.status().members[1].link == "up")
        with DataFolder(group.folder / "b") as folder:
            log_id = folder.log_id
        async with group.open("b", settings=ALONE):
            liar = Stranger(*await asyncio.open_connection(*group.members["b"].split(":")))
            heard: list[bytes] = []
            with pytest.raises(PeerError):
                await liar.shake_hands("a", "b", secret=b"", cluster="thence", heard=heard)
            heard.append(await liar.until_closed())
            await liar.close()
            assert len(heard) > 1
            assert log_id not in b"".join(heard)

    run(test)


def test_another_cluster_is_refused_and_both_sides_say_so(group: Group, said: Said) -> None:
    async def test() -> None:
        other = {**ALONE, "cluster": "other"}
        async with group.open("a", settings=ALONE), group.open("b", settings=other):
            why = "a belongs to cluster thence, b to other"
            await until(lambda: said(why) and said("refused by the other side", why))

    run(test)


def test_another_secret_is_refused_and_what_is_wrong_with_it_is_not_told(group: Group, said: Said) -> None:
    async def test() -> None:
        async with (
            group.open("a", secret="known to members", settings=ALONE) as a,
            group.open("b", secret="guessed by others", settings=ALONE) as b,
        ):
            await until(lambda: said("no link", "peer=b") and said("connection not let in", "claims=a"))
            await a.broadcast(b"x")
            assert b.status().inbox == 0
        assert not said("known to members")
        assert not said("guessed by others")

    run(test)


def test_the_same_secret_lets_in(group: Group) -> None:
    async def test() -> None:
        secret = "known to members"
        async with group.open("a", secret=secret) as a, group.open("b", secret=secret) as b:
            await a.broadcast(b"x")
            await delivered(b.events(), 1)

    run(test)


NEWER = """
import asyncio, sys
from thence.runtime import hello as introductions
introductions.PROTOCOL += 1
from support import keeper
"""


def test_another_version_is_refused_and_both_sides_say_so(group: Group, said: Said, tmp_path: Path) -> None:
    """A node of a later version, in a process of its own."""
    theirs = tmp_path / "theirs"
    members = [f"{name}={address}" for name, address in group.members.items()]
    program = NEWER + "keeper.run(sys.argv[1:])\n"
    command = [sys.executable, "-c", program, "b", str(tmp_path / "b"), str(tmp_path / "kept"), *members]
    path = ":".join([str(Path(__file__).parents[1]), *sys.path])

    async def test() -> None:
        with theirs.open("w") as log:
            process = subprocess.Popen(command, stderr=log, env={**os.environ, "PYTHONPATH": path})
        try:
            async with group.open("a", settings=ALONE):
                now, later = introductions.PROTOCOL, introductions.PROTOCOL + 1
                # The listener says it in its own words, and hears it from no other node.
                why = f"protocol version {now}, where this is version {later}"
                await until(lambda: said("refused by the other side", why) and why in theirs.read_text())
        finally:
            process.kill()
            process.wait()

    run(test)


def test_a_stranger_to_the_group_is_refused_and_both_sides_say_so(tmp_path: Path, said: Said) -> None:
    """b and c are the group; a was told that it is in as well."""
    three = Group(tmp_path, ["a", "b", "c"])
    two = {name: three.members[name] for name in ("b", "c")}

    async def test() -> None:
        async with three.open("b", members=two, settings=ALONE), three.open("a", settings=ALONE):
            why = "a is not a member that b knows"
            await until(lambda: said(why) and said("refused by the other side", why))

    run(test)


def damage(folder: Path, offset_from_end: int) -> tuple[Path, int]:
    """A bit flips in the middle of the log, before a record that is whole."""
    [log] = (folder / OPLOG / "1").glob("*.log")
    data = bytearray(log.read_bytes())
    at = len(data) - offset_from_end
    data[at] ^= 4
    log.write_bytes(data)
    return log, at


def test_a_damaged_log_that_no_other_member_can_mend_is_refused_with_file_and_byte(tmp_path: Path) -> None:
    lone = Group(tmp_path, ["a"])

    async def test() -> None:
        async with lone.open("a", settings=ALONE) as a:
            for _ in range(20):
                await a.broadcast(bytes(100))
        log, at = damage(tmp_path / "a", 1000)
        before = log.read_bytes()
        with pytest.raises(UsageError, match=f"{log.name}, byte ") as caught:
            await lone.open("a", settings=ALONE).__aenter__()
        [byte] = re.findall(r", byte (\d+):", str(caught.value))
        assert at - 200 < int(byte) <= at
        assert "thence repair" in str(caught.value), "what to do about it"
        assert log.read_bytes() == before, "nothing is done about it without being asked"

    run(test)


def test_a_damaged_log_ends_the_process_with_one_line(tmp_path: Path) -> None:
    lone = Group(tmp_path, ["a"])

    async def written() -> None:
        async with lone.open("a", settings=ALONE) as a:
            for _ in range(20):
                await a.broadcast(bytes(100))

    run(written)
    log, _ = damage(tmp_path / "a", 1000)
    command = [sys.executable, "-m", "thence.cli.main", "node", "--name", "a", "--listen", "127.0.0.1:0"]
    command += ["--data", str(tmp_path / "a")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert ended.returncode == 2
    assert f"{log.name}, byte " in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_node_that_is_stopped_while_it_starts_stops(group: Group) -> None:
    async def test() -> None:
        opening = asyncio.ensure_future(group.open("a", settings=ALONE).__aenter__())
        await asyncio.sleep(0)
        opening.cancel()
        await asyncio.wait([opening])
        if not opening.cancelled():
            await opening.result().__aexit__(None, None, None)
        async with group.open("a", settings=ALONE) as a:
            assert a.name_of(await a.broadcast(b"x")) == ("a", 1)

    run(test)
