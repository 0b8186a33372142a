"""Whole nodes on an edge tree: real TCP, real logs, groups that overlap."""

import shutil
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest
from support.edge_nodes import LINE, Edge, attached, edge
from support.open_nodes import QUICK, delivered, run, until

import thence
from thence.core.errors import StorageError, UsageError
from thence.replica.events import Delivered, Gap


def test_messages_of_a_group_reach_its_members_and_events_name_the_group(tmp_path: Path) -> None:
    tree = Edge(tmp_path, LINE)

    async def test() -> None:
        async with (
            tree.open("r") as r,
            tree.open("a", ["orders"]) as a,
            tree.open("b", ["orders", "news"]) as b,
        ):
            await attached(a, b)
            origin, number = await a.multicast(b"one", group="orders")
            assert (origin, number) == (a.me, 1)
            await a.multicast(b"two", group="news")
            told = await delivered(b.events(), 2)
            assert [(event.group, event.payload, event.origin, event.seq) for event in told] == [
                ("orders", b"one", a.me, 1), ("news", b"two", a.me, 2),
            ]  # fmt: skip
            assert [event.group for event in await delivered(r.events(), 2)] == ["orders", "news"]
            assert b.groups == ("news", "orders")
            assert edge(b).chain == [a.me, r.me]

    run(test)
    tree.judged()


def test_no_trace_needs_to_be_kept(tmp_path: Path) -> None:
    tree = Edge(tmp_path, LINE)

    async def test() -> None:
        async with tree.open("r", trace=None) as r, tree.open("a", ["g"], trace=None) as a:
            await attached(a)
            await a.multicast(b"untold", group="g")
            assert [event.payload for event in await delivered(r.events(), 1)] == [b"untold"]
            await a.leave_group("g")
            assert await a.leave()

    run(test)
    assert not (tmp_path / "trace").exists()


def test_one_below_another_runs_before_its_parent_does_and_keeps_what_it_sends(tmp_path: Path) -> None:
    tree = Edge(tmp_path, LINE)

    async def test() -> None:
        async with tree.open("b", ["g"]) as b:
            await b.multicast(b"early", group="g")
            assert edge(b).parent == ""
            async with tree.open("r") as r, tree.open("a") as a:
                await attached(a, b)
                assert [event.payload for event in await delivered(r.events(), 1)] == [b"early"]
                assert "early" not in str(a.status())

    run(test)
    tree.judged()


def test_a_node_that_comes_back_with_its_disk_is_the_same_and_gets_what_it_missed(tmp_path: Path) -> None:
    tree = Edge(tmp_path, LINE)

    async def test() -> None:
        async with tree.open("r") as r, tree.open("a", ["g"]) as a:
            async with tree.open("b", ["g"]) as b:
                await attached(a, b)
                me = b.me
                await b.multicast(b"1", group="g")
                await delivered(r.events(), 1)
            await r.multicast(b"2", group="g")
            async with tree.open("b", ["g"]) as b:
                assert b.me == me
                assert [event.payload for event in await delivered(b.events(), 1)] == [b"2"]
                assert await b.multicast(b"3", group="g") == (me, 2)
                assert [event.payload for event in await delivered(a.events(), 3)] == [b"1", b"2", b"3"]

    run(test)
    tree.judged()


def test_one_that_lost_its_disk_is_another_identity(tmp_path: Path) -> None:
    tree = Edge(tmp_path, LINE)

    async def test() -> None:
        async with tree.open("r") as r, tree.open("a", ["g"]) as a:
            async with tree.open("b", ["g"]) as b:
                await attached(a, b)
                first = b.me
                await b.multicast(b"1", group="g")
                await delivered(r.events(), 1)
            shutil.rmtree(tmp_path / "b")
            async with tree.open("b", ["g"]) as b:
                await attached(b)
                assert b.me != first
                assert (await b.multicast(b"2", group="g"))[1] == 1
                assert [event.payload for event in await delivered(a.events(), 2)] == [b"1", b"2"]

    run(test)
    tree.judged()


def test_a_folder_that_was_put_back_is_noticed_and_the_node_goes_on_as_another(tmp_path: Path) -> None:
    tree = Edge(tmp_path, LINE)

    async def test() -> None:
        async with tree.open("r") as r, tree.open("a", ["g"]) as a:
            async with tree.open("b", ["g"]) as b:
                await attached(a, b)
                first = b.me
                await b.multicast(b"1", group="g")
                await delivered(r.events(), 1)
            shutil.copytree(tmp_path / "b", tmp_path / "backup")
            async with tree.open("b", ["g"]) as b:
                await attached(b)
                await b.multicast(b"2", group="g")
                await delivered(r.events(), 1)
            shutil.rmtree(tmp_path / "b")
            (tmp_path / "backup").rename(tmp_path / "b")
            async with tree.open("b", ["g"]) as b:
                await until(lambda: b.me != first and edge(b).parent and not edge(b).joining)
                await b.multicast(b"3", group="g")
                assert [event.payload for event in await delivered(a.events(), 3)] == [b"1", b"2", b"3"]

    run(test)
    tree.judged()


def test_a_parent_that_ends_is_passed_by_and_what_is_sent_on_both_sides_arrives(tmp_path: Path) -> None:
    tree = Edge(tmp_path, LINE)

    async def test() -> None:
        async with tree.open("r") as r, tree.open("b", ["g"]) as b:
            async with tree.open("a") as a:
                await attached(a, b)
                await until(lambda: edge(b).chain == [a.me, r.me])
            await until(lambda: edge(b).parent == r.me)
            assert edge(b).bypassed == ["a"]
            await b.multicast(b"up", group="g")
            await r.multicast(b"down", group="g")
            assert [event.payload for event in await delivered(r.events(), 1)] == [b"up"]
            assert [event.payload for event in await delivered(b.events(), 1)] == [b"down"]

    run(test)
    tree.judged()


def test_a_node_moves_back_under_its_parent(tmp_path: Path) -> None:
    tree = Edge(tmp_path, LINE)

    async def test() -> None:
        async with tree.open("r") as r, tree.open("b", ["g"], settings={"edge.rehome_us": 50_000}) as b:
            async with tree.open("a") as a:
                await attached(a, b)
                await until(lambda: edge(b).chain == [a.me, r.me])
            await until(lambda: edge(b).parent == r.me)
            async with tree.open("a") as a:
                await until(lambda: edge(b).parent == a.me)
                assert not edge(b).bypassed
                await b.multicast(b"home", group="g")
                assert [event.payload for event in await delivered(r.events(), 1)] == [b"home"]

    run(test)
    tree.judged()


def test_one_that_comes_back_before_its_parent_moves_under_it_later(tmp_path: Path) -> None:
    tree = Edge(tmp_path, LINE)
    moves: dict[str, object] = {"edge.rehome_us": 50_000}

    async def test() -> None:
        async with tree.open("r") as r:
            async with tree.open("a") as a, tree.open("b", ["g"], settings=moves) as b:
                await attached(a, b)
                await until(lambda: edge(b).chain == [a.me, r.me])
            async with tree.open("b", ["g"], settings=moves) as b:
                await until(lambda: edge(b).parent == r.me)
                async with tree.open("a") as a:
                    await until(lambda: edge(b).parent == a.me)

    run(test)
    tree.judged()


def test_a_subtree_that_is_cut_off_goes_on_by_itself(tmp_path: Path) -> None:
    tree = Edge(tmp_path, LINE)

    async def test() -> None:
        async with AsyncExitStack() as stack:
            a, b = [await stack.enter_async_context(tree.open(name, ["g"])) for name in "ab"]
            async with tree.open("r"):
                await attached(a, b)
            await until(lambda: edge(b).parent == a.me)
            await a.multicast(b"alone", group="g")
            assert [event.payload for event in await delivered(b.events(), 1)] == [b"alone"]
            r = await stack.enter_async_context(tree.open("r"))
            assert [event.payload for event in await delivered(r.events(), 1)] == [b"alone"]

    run(test)
    tree.judged()


class Total:
    """A state: all payloads."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def apply(self, event: Delivered) -> None:
        self.lines.append(event.payload)

    def state(self) -> bytes:
        return b"\n".join(self.lines)

    def install(self, state: bytes) -> None:
        self.lines = state.split(b"\n") if state else []


def test_a_group_with_a_state_is_joined_with_what_there_was_and_survives_restarts(tmp_path: Path) -> None:
    tree = Edge(tmp_path, LINE)

    async def test() -> None:
        at_root, at_b = Total(), Total()
        async with tree.open("r", {"g": at_root}) as r, tree.open("a") as a:
            await r.multicast(b"before", group="g")
            async with tree.open("b") as b:
                await attached(a, b)
                await b.join_group("g", state=at_b)
                assert at_b.lines == [b"before"]
                await b.multicast(b"own", group="g")
                await r.multicast(b"theirs", group="g")
                await until(lambda: len(at_b.lines) == len(at_root.lines) == 3)
            again = Total()
            async with tree.open("b", {"g": again}) as b:
                assert again.lines == at_b.lines
                await attached(b)
                await b.leave_group("g")
                assert b.groups == ()
                await r.multicast(b"without", group="g")
                await b.multicast(b"outside", group="g")
                await until(lambda: len(at_root.lines) == 5)
                assert again.lines == []

    run(test)
    tree.judged()


def test_what_makes_no_sense_is_refused(tmp_path: Path) -> None:
    tree = Edge(tmp_path, LINE)
    with pytest.raises(UsageError, match="has a parent, or is the root"):
        thence.open("x", data=tmp_path / "x", spread="edge")
    with pytest.raises(UsageError, match="need spread edge"):
        thence.open("x", data=tmp_path / "x", groups=["g"])
    with pytest.raises(UsageError, match="state of its own"):
        tree.open("r", application=Total())
    with pytest.raises(UsageError, match="no name for a group"):
        tree.open("b", ["two words"])

    async def test() -> None:
        async with tree.open("r") as r:
            for call in (
                r.broadcast(b"x"),
                r.send(b"x"),
                r.multicast(b"x"),
                r.multicast(b"x", to=["a"], group="g"),
            ):
                with pytest.raises(UsageError):
                    await call
            with pytest.raises(UsageError, match="member of every group"):
                await r.leave_group("g")
            with pytest.raises(UsageError, match="the root stays"):
                await r.leave()
        async with thence.open("m", data=tmp_path / "m", settings=QUICK) as m:
            with pytest.raises(UsageError, match="edge trees"):
                await m.multicast(b"x", group="g")

    run(test)


def test_a_folder_that_was_put_back_is_noticed_before_its_numbers_are_used_again(tmp_path: Path) -> None:
    tree = Edge(tmp_path, LINE)

    async def test() -> None:
        async with tree.open("r") as r, tree.open("a", ["g"]) as a:
            async with tree.open("b", ["g"]) as b:
                await attached(a, b)
                first = b.me
                await b.multicast(b"1", group="g")
                await delivered(r.events(), 1)
            shutil.copytree(tmp_path / "b", tmp_path / "backup")
            async with tree.open("b", ["g"]) as b:
                await b.multicast(b"2", group="g")
                await delivered(r.events(), 1)
            shutil.rmtree(tmp_path / "b")
            (tmp_path / "backup").rename(tmp_path / "b")
            async with tree.open("b", ["g"], settings={"edge.attach_us": 60_000_000}) as b:
                # Asked for at once: it waits for the parent, and is refused with the old identity.
                with suppress(StorageError):
                    assert (await b.multicast(b"never", group="g"))[0] != first
                assert (await b.multicast(b"3", group="g"))[0] != first
                assert [event.payload for event in await delivered(a.events(), 3)] == [b"1", b"2", b"3"]

    run(test)
    tree.judged()


def flip(folder: Path) -> None:
    """A byte in the middle of the newest log."""
    [*_, newest] = sorted((folder / "oplog").rglob("*.log"))
    data = bytearray(newest.read_bytes())
    data[len(data) // 2] ^= 0xFF
    newest.write_bytes(data)


def test_a_damaged_log_is_set_aside_and_the_node_goes_on_as_another_but_not_the_root(tmp_path: Path) -> None:
    tree = Edge(tmp_path, LINE)

    async def test() -> None:
        async with tree.open("r") as r, tree.open("a") as a:
            async with tree.open("b", ["g"]) as b:
                await attached(a, b)
                first = b.me
                for number in range(20):
                    await b.multicast(b"%d" % number, group="g")
                await delivered(r.events(), 20)
            flip(tmp_path / "b")
            async with tree.open("b", ["g"]) as b:
                await attached(b)
                assert b.me != first
                await b.multicast(b"again", group="g")
                assert [event.payload for event in await delivered(r.events(), 1)] == [b"again"]
        flip(tmp_path / "r")
        with pytest.raises(UsageError, match="put a whole copy of the folder back"):
            await tree.open("r").__aenter__()

    run(test)


def test_a_node_that_leaves_gives_its_children_to_its_parent_and_comes_again_as_another(
    tmp_path: Path,
) -> None:
    tree = Edge(tmp_path, LINE)

    async def test() -> None:
        async with tree.open("r") as r, tree.open("b", ["g"]) as b:
            async with tree.open("a", ["g"]) as a:
                await attached(a, b)
                first = a.me
                await until(lambda: edge(b).chain == [a.me, r.me])
                await a.multicast(b"last", group="g")
                assert await a.leave()
            await until(lambda: edge(b).parent == r.me)
            assert [event.payload for event in await delivered(b.events(), 1)] == [b"last"]
            async with tree.open("a", ["g"]) as a:
                await attached(a)
                assert a.me != first

    run(test)
    tree.judged()


def test_one_that_was_away_for_long_is_told_what_it_missed(tmp_path: Path) -> None:
    """Logs that are kept for no time, and a program without a state: a `Gap` names what it missed."""
    tree = Edge(tmp_path, LINE)
    brief: dict[str, object] = {"edge.keep_us": 0, "edge.linger_us": 1}

    async def test() -> None:
        async with tree.open("r", settings=brief) as r, tree.open("a", settings=brief) as a:
            async with tree.open("b", ["g"], settings=brief) as b:
                await attached(a, b)
                await r.multicast(b"1", group="g")
                await delivered(b.events(), 1)
            await until(lambda: not edge(a).children)
            for number in range(2, 5):
                await r.multicast(b"%d" % number, group="g")
            await until(lambda: edge(r).entries == 0)
            async with tree.open("b", ["g"], settings=brief) as b:
                gap = await anext(b.events())
                assert isinstance(gap, Gap)
                assert (dict(gap.first), dict(gap.last)) == ({r.me: 2}, {r.me: 4})
                await r.multicast(b"5", group="g")
                b_events = [event.payload for event in await delivered(b.events(), 1)]
                assert b_events == [b"5"]

    run(test)
    tree.judged()
