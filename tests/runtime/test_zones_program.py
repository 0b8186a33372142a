"""Programs on processes of a topology: `thence.open(order="separator")` over real TCP and logs."""

from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest
from support.live_history import read
from support.open_nodes import Group, delivered, run, until

import thence
from thence.check.oracle import judge
from thence.core.errors import UsageError
from thence.runtime.zones import receivers

ZONES = """
[zones]
office = ["a", "b"]
plant = ["c"]
[routers]
r = ["office", "plant"]
"""
NAMES = ("a", "b", "c", "r")


class State:
    def __init__(self) -> None:
        self.had: list[bytes] = []

    def apply(self, event: thence.Delivered) -> None:
        self.had.append(event.payload)

    def state(self) -> bytes:
        return b",".join(self.had)

    def install(self, state: bytes) -> None:
        self.had = state.split(b",") if state else []


def options(folder: Path) -> dict[str, Any]:
    (folder / "zones.toml").write_text(ZONES)
    return {"order": "separator", "topology": folder / "zones.toml", "trace": folder / "trace"}


def test_messages_reach_those_that_they_name_and_a_restart_goes_on(tmp_path: Path) -> None:
    group, chosen, states = Group(tmp_path, NAMES), options(tmp_path), [State(), State()]

    async def test() -> None:
        async with AsyncExitStack() as stack:
            nodes = {
                name: await stack.enter_async_context(group.open(name, **chosen)) for name in ("a", "b", "r")
            }
            async with group.open("c", application=states[0], **chosen):
                assert await nodes["a"].multicast(b"one", to=["b", "c"]) == ("a", 1)
                assert await nodes["a"].multicast(b"two", to=["c"]) == ("a", 2)
                [first] = await delivered(nodes["b"].events(), 1)
                assert (first.origin, first.seq, first.payload, first.tag) == ("a", 1, b"one", None)
                await nodes["b"].send(b"three")
                await until(lambda: states[0].had == [b"one", b"two", b"three"])
            await nodes["a"].multicast(b"four", to=["c"])
            async with group.open("c", application=states[1], **chosen):
                await until(lambda: states[1].had == [b"one", b"two", b"three", b"four"])
            with pytest.raises(UsageError, match="unknown process"):
                await nodes["a"].multicast(b"", to=["x"])
            with pytest.raises(UsageError, match="is a gateway"):
                await nodes["a"].multicast(b"", to=["r"])
            with pytest.raises(UsageError, match="no addressee"):
                await nodes["a"].multicast(b"", to=[])
            with pytest.raises(UsageError, match="has no client"):
                await nodes["r"].send(b"")
            with pytest.raises(UsageError, match="last gateway"):
                nodes["a"].evict("r")

    run(test)
    [verdict] = judge(read(tmp_path / "trace"))
    assert not any(count for name, count in verdict.violations.items() if name != "lost"), verdict


def test_a_process_without_its_disk_is_told_what_to_do(tmp_path: Path) -> None:
    group, chosen = Group(tmp_path, NAMES), options(tmp_path)

    async def test() -> None:
        async with AsyncExitStack() as stack:
            b = await stack.enter_async_context(group.open("b", **chosen))
            async with group.open("a", **chosen) as a:
                await a.multicast(b"one", to=["b"])
                await delivered(b.events(), 1)
            with pytest.raises(thence.StorageError, match="its data was lost"):
                async with group.open("a", data=tmp_path / "other", **chosen) as a:
                    await until(lambda: a.status().state == "broken")

    run(test)
    with pytest.raises(UsageError, match="cannot go on"):
        run(lambda: group.open("a", data=tmp_path / "other", **chosen).__aenter__())


@pytest.mark.parametrize(
    ("wrong", "why"),
    [({"topology": None}, "needs"), ({"members": None}, "needs"), ({"spread": "tree"}, "links of its own")],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, wrong: dict[str, object], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        Group(tmp_path, NAMES).open("a", **{**options(tmp_path), **wrong})


def test_receivers_are_named_or_drawn() -> None:
    random = Random(1)
    assert receivers("a, b,", ["a", "b", "c"], random) == ["a", "b"]
    drawn = [receivers("~2", ["a", "b", "c"], random) for _ in range(50)]
    assert {len(names) for names in drawn} == {1, 2}
    assert {name for names in drawn for name in names} == {"a", "b", "c"}
    assert receivers("~9", ["a"], random) == ["a"]
    for group, others, why in (
        ("~0", ["a"], "up to three"),
        ("~x", ["a"], "not '~x'"),
        ("~2", [], "no other"),
    ):
        with pytest.raises(UsageError, match=why):
            receivers(group, others, random)
