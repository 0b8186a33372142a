"""Whole nodes over a tree without tags whose members come and go: real TCP, real logs, no agreed view."""

import asyncio
import json
import shutil
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest
from support.live_history import read
from support.live_links import free_addresses
from support.open_nodes import QUICK, delivered, run, until

import thence
from thence.check.oracle import judge
from thence.core.errors import UsageError
from thence.core.overlay import Places
from thence.oplog.settings import LogSettings
from thence.replica.events import Delivered
from thence.runtime.application import OpenNode
from thence.runtime.incarnations import read_written, repair_shelf, write_written
from thence.runtime.open_trees import OpenTrees


class Tree:
    """Nodes that enter through the first of them."""

    def __init__(self, folder: Path, names: str, spread: str = "tree") -> None:
        self.folder, self.spread = folder, spread
        self.where = {name: str(at) for name, at in zip(names, free_addresses(len(names)), strict=True)}

    def open(self, name: str, through: str = "a", **options: object) -> OpenNode:
        settings = {**QUICK, "order": "none", "spread": self.spread, **options.pop("settings", {})}  # type: ignore[dict-item]
        join = [self.where[through]] if name != through else []
        return thence.open(
            name, listen=self.where[name], join=join, data=self.folder / name, trace=self.folder / "trace",
            settings=settings, **options,  # type: ignore[arg-type]
        )  # fmt: skip

    def judged(self) -> list[tuple[str, str]]:
        """Nothing is wrong with the trace, but for messages that no program read: which rows of which node
        are in it."""
        rows = read(self.folder / "trace")
        [verdict] = judge(rows)
        assert not any(count for name, count in verdict.violations.items() if name != "lost"), verdict
        return [(row.node, row.kind) for row in rows]


async def send(node: OpenNode, payload: bytes) -> tuple[str, int]:
    return await node.send(payload)


def neighbours(node: OpenNode) -> int:
    return sum(member.link == "up" for member in node.status().members)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path, "abcdef")


def test_a_newcomer_enters_through_any_contact_gets_the_past_and_is_learnt_by_its_first_message(
    tree: Tree,
) -> None:
    async def test() -> None:
        async with tree.open("a") as a, tree.open("b") as b:
            await send(a, b"before")
            async with tree.open("c", through="b") as c:
                assert [event.payload for event in await delivered(c.events(), 1)] == [b"before"]
                assert await send(c, b"hello") == ("c", 1)
                for node in (a, b):
                    told = [event.payload async for event in some(node, 1 if node is a else 2)]
                    assert told[-1] == b"hello"
                assert a.members == c.members == ("a", "c"), "b has sent nothing"
                assert b.members == ("a", "b", "c")

    run(test)
    tree.judged()


async def some(node: OpenNode, count: int):  # type: ignore[no-untyped-def]
    for event in await delivered(node.events(), count):
        yield event


def test_a_process_that_is_gone_is_not_missed_and_goes_on_under_its_name_with_its_disk(
    tree: Tree,
) -> None:
    async def test() -> None:
        async with AsyncExitStack() as stack:
            a, b = [await stack.enter_async_context(tree.open(name)) for name in "ab"]
            async with tree.open("c") as c:
                assert await send(c, b"1") == ("c", 1)
                await delivered(a.events(), 1)
            await until(lambda: neighbours(a) == neighbours(b) == 1)
            for number in range(50):
                await send(a, b"%d" % number)
            c = await stack.enter_async_context(tree.open("c", through="b"))
            events = await delivered(c.events(), 50)
            assert [event.payload for event in events] == [b"%d" % number for number in range(50)]
            assert await send(c, b"2") == ("c", 2)
            assert [event.seq for event in await delivered(a.events(), 1)] == [2]

    run(test)
    assert ("c", "restart") in tree.judged()


def test_a_wish_that_was_held_back_does_not_close_the_link_that_came_up_meanwhile(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "ab")

    async def test() -> None:
        async with tree.open("a") as a, tree.open("b") as b:
            await until(lambda: neighbours(a) == neighbours(b) == 1)
            assert a._node is not None
            kind = a._node.kind
            assert isinstance(kind, OpenTrees)
            assert kind.links is not None
            kind.keep({"b": None})  # as of a step that waited for its sync
            assert kind.links.linked("b"), "it was told to both ends, and is in use"
            await send(b, b"still heard")
            assert [event.payload for event in await delivered(a.events(), 1)] == [b"still heard"]

    run(test)
    tree.judged()


def test_one_that_leaves_says_so_and_is_another_incarnation_when_it_comes_again(tree: Tree) -> None:
    async def test() -> None:
        async with tree.open("a") as a, tree.open("b") as b:
            async with tree.open("c") as c:
                await send(c, b"last")
                assert await c.leave()
            for node in (a, b):
                assert (await delivered(node.events(), 1))[0].payload == b"last"
            with pytest.raises(UsageError, match="no view is agreed on"):
                a.evict("c")
            async with tree.open("c") as c:
                assert await send(c, b"again") == ("c~2", 1)
                assert c.me == "c~2"
                assert [event.origin for event in await delivered(a.events(), 1)] == ["c~2"]

    run(test)
    assert ("c", "leave") in tree.judged()


def test_one_that_lost_its_disk_is_another_incarnation_whose_number_is_from_the_clock(tree: Tree) -> None:
    async def test() -> None:
        async with tree.open("a") as a, tree.open("b") as b:
            async with tree.open("c") as c:
                await send(c, b"1")
                await delivered(a.events(), 1)
                await delivered(b.events(), 1)
            shutil.rmtree(tree.folder / "c")
            async with tree.open("c") as c:
                sending = asyncio.create_task(send(c, b"2"))
                [own] = await delivered(c.events(), 1)
                assert own.payload == b"1", "what it sent before comes before what it sends"
                name, seq = await sending
                assert name.startswith("c~")
                assert (int(name[2:]) > 1000, seq) == (True, 1)

    run(test)
    tree.judged()


def test_one_whose_log_may_lack_its_end_goes_on_with_it_under_another_name(tree: Tree) -> None:
    async def test() -> None:
        async with tree.open("a") as a, tree.open("b"):
            async with tree.open("c") as c:
                await send(c, b"1")
                await delivered(a.events(), 1)
            written = read_written(tree.folder / "c")
            assert written is not None
            written.closed, written.machine, written.policy = False, "", "everysec"  # the power was cut
            write_written(tree.folder / "c", written)
            async with tree.open("c") as c:
                assert await send(c, b"2") == ("c~2", 1)
                assert [event.origin for event in await delivered(a.events(), 1)] == ["c~2"]
            async with tree.open("c") as c:
                assert await send(c, b"3") == ("c~2", 2)

    run(test)
    assert ("c~2", "install") in tree.judged()


def test_a_folder_that_was_put_back_is_found_by_the_first_neighbour(tree: Tree) -> None:
    """c has sent five messages, and its folder is from a time when there were two."""

    async def test() -> None:
        async with tree.open("a") as a, tree.open("b"):
            for first in (1, 3):
                async with tree.open("c") as c:
                    for number in range(first, 2 * first):
                        await send(c, b"%d" % number)
                    await delivered(a.events(), first)
                if first == 1:
                    shutil.copytree(tree.folder / "c", tree.folder / "copy")
            shutil.rmtree(tree.folder / "c")
            (tree.folder / "copy").rename(tree.folder / "c")
            async with tree.open("c") as c:
                sending = asyncio.create_task(send(c, b"again"))
                events = await delivered(c.events(), 3)
                name, seq = await sending
                assert (name.startswith("c~"), seq) == (True, 1)
                assert [(event.origin, event.payload) for event in events] == [
                    ("c", b"3"), ("c", b"4"), ("c", b"5"),
                ]  # fmt: skip
                assert (await delivered(a.events(), 1))[0].payload == b"again"

    run(test)
    tree.judged()


def test_a_repaired_folder_comes_back_under_another_name(tree: Tree) -> None:
    async def test() -> None:
        async with tree.open("a"):
            async with tree.open("c") as c:
                await send(c, b"1")
            repair_shelf(tree.folder / "c", LogSettings(), 0, forgetful=True)
            async with tree.open("c") as c:
                assert await send(c, b"2") == ("c~2", 1)

    run(test)


def test_a_process_that_says_it_is_elsewhere_than_its_link_comes_from_is_not_dialled(tree: Tree) -> None:
    async def test() -> None:
        async with tree.open("a") as a, tree.open("b"):
            await until(lambda: neighbours(a) == 1)
            kind, elsewhere = a._host.kind, "192.0.2.7:80"
            assert isinstance(kind, OpenTrees)
            said = Places(((0, "b", elsewhere), (1, "c", elsewhere)))
            [heard] = kind.unpack("b", [kind.machine.encode(said)])
            assert heard == Places(((0, "b", ""), (1, "c", elsewhere)))

    run(test)


class Shelf:
    """A program that is a state: a shelf of books, which merges."""

    def __init__(self) -> None:
        self.books: dict[str, str] = {}
        self.merged = 0

    def apply(self, event: Delivered) -> None:
        self.books[f"{event.origin}:{event.seq}"] = event.payload.decode()

    def state(self) -> bytes:
        return json.dumps(sorted(self.books.items())).encode()

    def install(self, state: bytes) -> None:
        self.books = dict(json.loads(state or b"[]"))

    def merge(self, state: bytes) -> None:
        self.merged += 1
        self.books |= dict(json.loads(state))


FORGETS: dict[str, object] = {"tree.ttl_us": 200_000, "log.segment_bytes": 300}


def test_a_member_that_lacks_more_than_logs_hold_gets_a_state_and_loses_nothing_of_its_own(
    tmp_path: Path,
) -> None:
    tree = Tree(tmp_path, "abc", "eco-sync-tree")
    shelves = {name: Shelf() for name in "abc"}

    def opened(name: str) -> OpenNode:
        return tree.open(name, settings=FORGETS, application=shelves[name])

    async def test() -> None:
        async with opened("a") as a, opened("b") as b:
            async with opened("c") as c:
                await send(c, b"before")
                await until(lambda: len(shelves["a"].books) == len(shelves["b"].books) == 1)
            for number in range(100):
                await send(a, b"%d" % number)
                await asyncio.sleep(0.005)
            await until(lambda: all(node.status().log.head > 60 for node in (a, b)))
            async with opened("c") as c:
                assert await send(c, b"of its own") == ("c", 2)
                await until(lambda: len(shelves["c"].books) == 102)
                await until(lambda: shelves["a"].books == shelves["b"].books == shelves["c"].books)
                assert shelves["c"].merged
            async with opened("c"):
                assert len(shelves["c"].books) == 102, "a restart begins with the state"

    run(test)
    assert ("c", "install") in tree.judged()


def test_a_tree_that_forgets_needs_a_program_that_merges(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "a", "eco-sync-tree")

    async def test() -> None:
        with pytest.raises(UsageError, match="needs a program that is a state and has merge"):
            async with tree.open("a"):
                pass

    run(test)


def test_a_program_in_the_middle_that_never_reads_delays_no_other(tmp_path: Path) -> None:
    """b is between a and c, and its program takes nothing, not even into memory."""
    tree = Tree(tmp_path, "abc")
    one = {"tree.neighbours": 1, "application.inbox_max": 8, "allow_faults": True}
    two = {**one, "tree.neighbours": 2}

    async def test() -> None:
        async with AsyncExitStack() as stack:
            b = await stack.enter_async_context(tree.open("b", through="b", settings=two))
            a, c = [
                await stack.enter_async_context(tree.open(name, through="b", settings=one)) for name in "ac"
            ]
            with suppress(UsageError):
                a._host.fault("cut", "c", 0)
            events = c.events()
            for number in range(2_000):
                await send(a, b"%d" % number)
            assert [event.seq for event in await delivered(events, 2_000)] == list(range(1, 2_001))
            status = b.status()
            assert (status.delivered, status.inbox) == (0, 8), "what is not read waits in the log"

    run(test)


def test_what_a_program_sends_in_one_turn_is_one_message_and_a_reader_goes_on_in_the_midst_of_it(
    tree: Tree,
) -> None:
    async def test() -> None:
        async with tree.open("a") as a, tree.open("b") as b:
            await until(lambda: neighbours(a) == neighbours(b) == 1)
            names = [a.broadcast_nowait(b"%d" % number) for number in range(5)]
            await a.committed(names[-1])
            assert names == [("a", seq) for seq in range(1, 6)]
            log = b._machine.log
            assert log is not None
            events = await delivered(b.events(), 5)
            assert [(event.origin, event.seq) for event in events] == names
            assert len(list(log.since(log.head))) == 1, "one message"
        async with tree.open("a"), tree.open("b") as b:
            again = await delivered(b.events(after=events[2].position), 2)
            assert [event.payload for event in again] == [b"3", b"4"]
            assert [event.position for event in again] == [event.position for event in events[3:]]

    run(test)
    assert tree.judged().count(("a", "send")) == 5


def test_an_operation_larger_than_a_frame_is_delivered_whole_live_and_with_the_past(tree: Tree) -> None:
    small = {"links.frame_bytes_max": 1 << 16}
    large = bytes(range(256)) * 12_000

    async def test() -> None:
        async with tree.open("a", settings={**small}) as a, tree.open("b", settings={**small}) as b:
            await until(lambda: neighbours(a) == neighbours(b) == 1)
            for payload in (b"before", large, b"after"):
                await send(a, payload)
            assert [event.payload for event in await delivered(b.events(), 3)] == [b"before", large, b"after"]
            async with tree.open("c", through="b", settings={**small}) as c:
                got = await delivered(c.events(), 3)
                assert [event.payload for event in got] == [b"before", large, b"after"]
                for node in (a, b, c):
                    assert all(member.reconnects == 0 for member in node.status().members)

    run(test)
    tree.judged()
