"""Whole nodes whose messages gossip spreads and shared clocks order: real TCP, real logs, errors, alarms."""

import asyncio
import json
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from support.live_history import read
from support.live_links import free_addresses
from support.open_nodes import QUICK, delivered, run, until

import thence
from thence.check.oracle import RunVerdict, judge
from thence.core.errors import UsageError
from thence.runtime.application import OpenNode
from thence.runtime.incarnations import read_written, write_written
from thence.trace.schema import COUNTING_KINDS


class Newest:
    """A state that errors of order harm: operations that none has overwritten. Each names those that its
    sender had; one that comes after an operation that named it stays, unless it is set right."""

    def __init__(self) -> None:
        self.newest: dict[tuple[str, int], None] = {}

    def apply(self, event: thence.Delivered) -> None:
        for name, seq in json.loads(event.payload):
            self.newest.pop((name, seq), None)
        self.newest[event.origin, event.seq] = None

    def state(self) -> bytes:
        return json.dumps(sorted(self.newest)).encode()

    def install(self, state: bytes) -> None:
        self.newest = dict.fromkeys([(name, seq) for name, seq in json.loads(state or b"[]")])

    def payload(self) -> bytes:
        return json.dumps([*self.newest]).encode()


class Gossip:
    """Nodes that enter through the first of them."""

    def __init__(self, folder: Path, names: str, entries: int = 100, keys: int = 4) -> None:
        self.folder, self.entries, self.keys = folder, entries, keys
        self.where = {name: str(at) for name, at in zip(names, free_addresses(len(names)), strict=True)}

    def open(self, name: str, through: str = "a", **options: Any) -> OpenNode:
        settings = {**QUICK, **options.pop("settings", {})}
        clock = {"entries": self.entries, "keys": self.keys, "order": "probabilistic"}
        return thence.open(
            name, listen=self.where[name], join=[self.where[through]] if name != through else [],
            data=self.folder / name, trace=self.folder / "trace", settings=settings, **{**clock, **options},
        )  # fmt: skip

    def judged(self) -> tuple[RunVerdict, set[tuple[str, str]], set[tuple[str, str]]]:
        """The verdict; deliveries before a cause, and doubts, each with its node."""
        rows = read(self.folder / "trace")
        [verdict] = judge(rows)
        early = {(flag.node, flag.message) for flag in verdict.flagged if flag.verdict == "order"}
        doubts = {(row.node, f"{row.origin}:{row.seq}") for row in rows if row.kind == "doubt"}
        return verdict, early, doubts


@pytest.fixture
def gossip(tmp_path: Path) -> Gossip:
    return Gossip(tmp_path, "abcde")


def test_members_come_without_agreement_and_tags_tell_what_came_before(gossip: Gossip) -> None:
    async def test() -> None:
        async with gossip.open("a") as a, gossip.open("b") as b:
            first = await a.broadcast(b"1")
            [one] = await delivered(b.events(), 1)
            second = await b.broadcast(b"2")
            async with gossip.open("c", through="b") as c:
                events = await delivered(c.events(), 2)
                assert [event.payload for event in events] == [b"1", b"2"], "it gets the past"
                third = await c.broadcast(b"3")
                assert c.members == ("a", "b", "c")
                assert one.tag == first
                assert first.before(second)
                assert second.before(third)
                assert third.after(first)
                assert c.tag("b", 1).saw("a", 1)
                assert not c.tag("a", 1).saw("b", 1)
                with pytest.raises(UsageError, match="was not delivered here"):
                    c.tag("a", 2)
                with pytest.raises(UsageError, match="nothing is told as stable"):
                    await c.until_stable(third)
                assert [event.payload for event in await delivered(a.events(), 2)] == [b"2", b"3"]
                await c.leave()

    run(test)
    verdict, early, _ = gossip.judged()
    assert not early
    assert not any(count for kind, count in verdict.violations.items() if kind != "lost")


def test_errors_are_doubted_and_states_are_equal_afterwards(tmp_path: Path) -> None:
    """One entry for all members, and rumours that reach one neighbour: whatever comes may come too early."""
    gossip, states = Gossip(tmp_path, "abcde", 1, 1), {name: Newest() for name in "abcde"}
    doubts: list[thence.Doubted] = []

    async def listen(node: OpenNode) -> None:
        async for event in node.events():
            if isinstance(event, thence.Doubted):
                doubts.append(event)  # noqa: PERF401  # at once

    async def test() -> None:
        async with AsyncExitStack() as stack:
            rumours = {"gossip.fanout": 1, "gossip.period_us": 20_000}
            nodes = {}
            for name, state in states.items():
                node = gossip.open(name, settings=rumours, application=state)
                nodes[name] = await stack.enter_async_context(node)
            readers = [asyncio.create_task(listen(node)) for node in nodes.values()]
            turn = 0
            while turn < 20 or not doubts:
                turn += 1
                await asyncio.gather(
                    *[node.broadcast(states[name].payload()) for name, node in nodes.items()]
                )
            counts = dict.fromkeys(nodes, turn)
            for node in nodes.values():
                await node.delivered(counts)
            await until(lambda: len({state.state() for state in states.values()}) == 1)
            for reader in readers:
                reader.cancel()

    run(test)
    verdict, early, doubted = gossip.judged()
    assert early <= doubted
    assert {(doubt.origin, doubt.seq) for doubt in doubts}
    assert all(doubt.late != doubt.tag for doubt in doubts)
    assert not {kind for kind, count in verdict.violations.items() if count} - {"order"}


def test_a_restart_goes_on_with_the_clock_that_the_log_tells(gossip: Gossip) -> None:
    async def test() -> None:
        async with gossip.open("a") as a, gossip.open("b") as b:
            async with gossip.open("c") as c:
                await c.broadcast(b"1")
                await delivered(a.events(), 1)
            for number in range(20):
                await (a, b)[number % 2].broadcast(b"%d" % number)
            async with gossip.open("c", through="b") as c:
                assert len(await delivered(c.events(), 20)) == 20
                tag = await c.broadcast(b"2")
                assert tag.dot == ("c", 2)
                assert a.tag("a", 10).before(tag)
                assert (await delivered(b.events(), 12))[-1].payload == b"2"

    run(test)
    verdict, early, _ = gossip.judged()
    assert not early
    assert not verdict.violations["program"]


def test_a_restart_claims_nothing_and_another_incarnation_is_told_the_past_again(
    gossip: Gossip,
) -> None:
    """A frontier would claim the past of all that it names, and some of that may not have come."""

    async def test() -> None:
        async with gossip.open("a") as a:
            async with gossip.open("c") as c:
                await c.broadcast(b"1")
                await delivered(a.events(), 1)
                await a.broadcast(b"2")
                await delivered(c.events(), 1)
            async with gossip.open("c") as c:
                await c.broadcast(b"3")
                await delivered(a.events(), 1)
            written = read_written(gossip.folder / "c")
            assert written is not None
            written.closed, written.machine, written.policy = False, "", "everysec"  # the power was cut
            write_written(gossip.folder / "c", written)
            for seq in (1, 2):
                async with gossip.open("c") as c:
                    assert (await c.broadcast(b"4")).dot == ("c~2", seq)
                    await delivered(a.events(), 1)

    run(test)
    verdict, _, _ = gossip.judged()
    assert verdict.ok
    told = [
        row
        for row in read(gossip.folder / "trace")
        if row.node in ("c", "c~2") and row.kind in COUNTING_KINDS
    ]
    kinds = [(row.node, row.kind, row.origin, row.seq) for row in told]
    assert [kind[1:] for kind in kinds if kind[0] == "c"] == [
        ("start", None, None), ("send", "c", 1), ("deliver", "a", 1), ("send", "c", 2), ("crash", None, None),
    ]  # fmt: skip
    assert [kind[1:] for kind in kinds if kind[0] == "c~2"] == [
        ("start", None, None), ("deliver", "c", 1), ("deliver", "a", 1), ("deliver", "c", 2),
        ("send", "c~2", 1), ("send", "c~2", 2),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"entries": 3, "keys": 4}, "clock.keys must be between 1 and the 3 entries, not 4"),
        ({"spread": "mesh"}, "order probabilistic is for gossip"),
        ({"spread": "eco-sync-tree"}, "order probabilistic is for gossip"),
        (
            {"order": "graph", "spread": "gossip", "entries": None, "keys": None},
            "it takes order probabilistic, not 'graph'",
        ),
        ({"order": "graph", "spread": "mesh"}, "clock.entries is for order probabilistic, not graph"),
    ],
)
def test_what_does_not_go_together_is_told(gossip: Gossip, wrong: dict[str, Any], why: str) -> None:
    async def test() -> None:
        async with gossip.open("a", **wrong):
            pass

    with pytest.raises(UsageError, match=why):
        run(test)


def test_a_folder_keeps_its_clock(gossip: Gossip) -> None:
    def opened(**options: Any) -> Callable[[], Any]:
        async def test() -> None:
            async with gossip.open("a", **options) as a:
                await a.send(b"1")

        return test

    run(opened())
    with pytest.raises(UsageError, match="is of order probabilistic 100/4, and stays so: not of order proba"):
        run(opened(keys=5))
    with pytest.raises(UsageError, match="is of order probabilistic 100/4, and stays so: not of order none"):
        run(opened(order="none", spread="tree", entries=None, keys=None))


@pytest.mark.parametrize("others", [0, 1])
def test_two_groups_that_began_apart_become_one_through_an_address_to_join(
    gossip: Gossip, others: int
) -> None:
    """Neither knows an address of the other. One that has data asks the addresses that it is given as well,
    whether it is alone or not."""

    async def test() -> None:
        async with AsyncExitStack() as stack:
            a, b = [await stack.enter_async_context(gossip.open(name)) for name in "ab"]
            rest = []
            async with gossip.open("c", through="c") as c:
                await c.broadcast(b"apart")
                if others:
                    rest.append(await stack.enter_async_context(gossip.open("d", through="c")))
                    await delivered(rest[0].events(), 1)
            await a.broadcast(b"here")
            c = await stack.enter_async_context(gossip.open("c", through="b"))
            for node in (a, b):
                assert b"apart" in [
                    event.payload for event in await delivered(node.events(), 1 + (node is b))
                ]
            for node in (c, *rest):
                assert [event.payload for event in await delivered(node.events(), 1)] == [b"here"]

    run(test)
    gossip.judged()


def test_a_neighbour_is_written_down_long_before_the_other_contacts_are(
    gossip: Gossip, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All contacts that a folder names may be gone by the next start."""
    monkeypatch.setattr("thence.runtime.open_trees.KEEP_EVERY_US", 1 << 60)

    def known() -> set[str]:
        written = read_written(gossip.folder / "a")
        return set(written.contacts) if written is not None else set()

    async def test() -> None:
        async with gossip.open("a"):
            async with gossip.open("b"):
                await until(lambda: known() == {"b"})
            async with gossip.open("c"):
                await until(lambda: "c" in known())

    run(test)
