"""Whom a node of a changing group lets in, what it tells strangers, and whom it remembers."""

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from support.changing import Changing, Journal, agree
from support.live_links import Stranger
from support.open_nodes import run, until

from thence.core.errors import StorageError, UsageError
from thence.runtime.application import OpenNode
from thence.runtime.changing import Changing as ChangingKind
from thence.runtime.election import Open, Seeking, take_answer
from thence.runtime.group_neighbours import Neighbours
from thence.runtime.hello import MOST_BOOT, Identity, Introduction, Purpose
from thence.runtime.incarnations import read_written
from thence.runtime.user_secret import user_secret


def near_by(node: OpenNode) -> Neighbours:
    kind = node._host.kind
    assert isinstance(kind, ChangingKind)
    assert kind.neighbours is not None
    return kind.neighbours


def who(name: str, log: bytes = b"log", boot: int = 1) -> Identity:
    return Identity("town", name, log, boot)


def test_copies_twins_and_joiners_while_nothing_can_be_written_are_not_let_in(tmp_path: Path) -> None:
    group = Changing(tmp_path, "ab")

    async def story() -> None:
        async with group.open("a") as a, group.open("b", join="a") as b:
            await agree(a, b)
            near = near_by(a)
            log_id, boot = near._met["b"]
            assert "two nodes with one name" in str(near.admit(who("b", b"another log")))
            assert "a copy of its data" in str(near.admit(who("b", log_id, boot - 1)))
            assert near.admit(who("b", log_id, boot + 1)) is None, "it was started again"
            driver, near.driver = near.driver, None
            assert near.admit(who("c")) == "a is starting"
            assert driver is not None
            near.driver = cast(Any, SimpleNamespace(trouble=StorageError("no space"), machine=driver.machine))
            assert near.admit(who("c")) == "a cannot write at present: no space"
            near.driver = driver

    run(story)


def test_boots_that_were_made_up_and_guests_that_have_gone_leave_nothing_behind(tmp_path: Path) -> None:
    group = Changing(tmp_path, "a")

    async def story() -> None:
        async with group.open("a") as a:
            near = near_by(a)
            assert "was started" in str(near.admit(who("b", boot=MOST_BOOT)))
            assert near._met == {}
            guest = Stranger(*await asyncio.open_connection(*near.links.address))
            await guest.shake_hands("g", "a", secret=user_secret(os.environ), cluster="thence")
            await until(lambda: "g" in near._met)
            await guest.close()
            await until(lambda: near._met == {})

    run(story)


def test_a_member_tells_who_is_there_and_the_highest_number_of_the_one_that_asks(tmp_path: Path) -> None:
    group = Changing(tmp_path, "ab")

    async def story() -> None:
        async with group.open("a") as a:
            async with group.open("b", join="a") as b:
                await agree(a, b)
                answer = asks(a, "b")
                assert isinstance(answer, Open)
                assert [name for name, _ in answer.members] == ["a", "b"]
                assert answer.highest == 1
                assert await b.leave()
            await until(lambda: a.members == ("a",))
            answer = asks(a, "b")
            assert isinstance(answer, Open)
            assert [name for name, _ in answer.members] == ["a"]
            assert answer.highest == 1, "one that has left must not come back as whom it was"

    run(story)


def asks(node: Any, name: str) -> object:
    hello = Introduction(who(name), node._host.settings.name, Purpose.ASK, b"instance", bytes(32))
    return take_answer(near_by(node)._answer(hello))


def test_one_that_leaves_is_no_way_into_the_group_any_more(tmp_path: Path) -> None:
    group = Changing(tmp_path, "abc")

    async def story() -> None:
        async with group.open("a") as a, group.open("b", join="a") as b:
            await agree(a, b)
            a._host.fault("cut", "b", 0)
            leaving = asyncio.ensure_future(b.leave())
            await until(lambda: b.status().state == "leaving")
            assert isinstance(asks(b, "c"), Seeking)
            a._host.fault("mend", None, 0)
            assert await leaving

    run(story)


def test_a_name_that_is_being_looked_up_does_not_outlive_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = Changing(tmp_path, "a")

    async def silence(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    async def story() -> None:
        async with group.open("a") as a:
            with monkeypatch.context() as patched:
                patched.setattr(asyncio.get_running_loop(), "getaddrinfo", silence)
                assert near_by(a)._vouching.comes_from("10.0.0.1", "joiner.invalid:7101") is None
                await asyncio.sleep(0)

    run(story)


def test_that_a_joiner_was_let_in_is_on_disk_before_the_others_see_it(tmp_path: Path) -> None:
    group = Changing(tmp_path, "ab")

    async def story() -> None:
        async with group.open("a") as a, group.open("b", join="a") as b:
            for path, other in ((tmp_path / "a", "b"), (tmp_path / "b", "a")):
                written = read_written(path)
                assert written is not None
                assert written.contacts == {other: group.at[other]}
            await agree(a, b)

    run(story)


def test_one_that_answers_is_evicted_by_force_alone_and_returns(tmp_path: Path) -> None:
    group = Changing(tmp_path, "ab")

    async def story() -> None:
        async with (
            group.open("a", application=Journal()) as a,
            group.open("b", join="a", application=Journal()) as b,
        ):
            await agree(a, b)
            with pytest.raises(UsageError, match="b answers and would come back"):
                a._host.evict("b")
            assert a._host.evict("b", force=True) == "b"
            await until(lambda: a.members == b.members == ("a", "b~2"))

    run(story)
