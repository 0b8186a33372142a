"""A store that was evicted and has returned: what the group never had is sent again, once, whenever it is
killed."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from support.stores import Stores, until

from thence.crdt import steps
from thence.runtime.open_store import OpenStore
from thence.runtime.store_returning import FILE, Returning, Unsent, UnsentFile
from thence.store import ops
from thence.store.state import FORM, _encode


def increment(life: str, seq: int, by: int = 1) -> Unsent:
    return Unsent(life, life, seq, _encode((FORM, 1, [[ops.UPDATE, 0, b"n", 0, 0, (steps.INCR, by)]])))


def written(folder: Path, *found: Unsent) -> bytes:
    file = UnsentFile(folder)
    for one in found:
        file.add(one)
    file.sync()
    return (folder / FILE).read_bytes()


def test_what_a_former_incarnation_had_is_sent_after_a_start_and_once(tmp_path: Path) -> None:
    stores = Stores(tmp_path, "a", changing=True)

    async def started(said: bytes) -> int:
        if said:
            (tmp_path / "a" / FILE).write_bytes(said)
        async with stores.open("a") as store:
            await until(lambda: not (tmp_path / "a" / FILE).exists())
            return int(await store.execute("GET", "n") or 0)

    assert asyncio.run(started(b"")) == 0
    said = written(tmp_path, increment("a~0", 4), increment("a~0", 5, 10), increment("a~0", 5, 10))
    assert asyncio.run(started(said)) == 11
    assert asyncio.run(started(said)) == 11, "killed before the file was gone"
    assert asyncio.run(started(said + said[:-1])) == 11, "torn"
    more = written(tmp_path, increment("a~0", 6, 100))
    assert asyncio.run(started(more)) == 111
    present = written(tmp_path, increment("a", 1, 1000))
    assert asyncio.run(started(present)) == 111, "of a return that came to nothing"


@pytest.mark.parametrize("killed", [False, True])
def test_increments_of_a_node_that_was_evicted_count_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    stores = Stores(tmp_path, "ab", changing=True)

    async def apart() -> None:
        """Both have the first increment, a alone has the others."""
        async with AsyncExitStack() as stays:
            async with stores.open("b") as b:
                a = await stays.enter_async_context(stores.open("a", join="b"))
                await a.incr("n")
                await until(lambda: not (a.node.state.unstable or b.node.state.unstable))
                await until(lambda: b.node.delivered() == a.node.delivered())
            await a.incr("n", 10)
            await a.execute("DEL", "gone")
            await a.set("k", "claimed")

    async def returned(acts: bool) -> None:
        with monkeypatch.context() as patched:
            if not acts:
                patched.setattr(Returning, "act", lambda _: None)
            async with stores.open("a", join="b") as a:
                await until(lambda: not a.node.loading)
                await a.execute("PING")
                if acts:
                    await until(lambda: not (tmp_path / "a" / FILE).exists())
                    await a.incr("returned")  # after all that was sent again

    async def came_to(b: OpenStore, times: bytes) -> None:
        while await b.execute("GET", "returned") != times:
            await asyncio.sleep(0.01)

    async def main() -> None:
        await apart()
        async with stores.open("b") as b:
            assert await b.execute("GET", "n") == b"1"
            b.node.node.evict("a", force=True)
            await until(lambda: len(b.node.members()) == 1)
            if killed:
                await returned(False)
                assert (tmp_path / "a" / FILE).exists()
                assert await b.execute("GET", "n") == b"1"
            await returned(True)
            await came_to(b, b"1")
            assert await b.execute("GET", "n") == b"11"
            assert await b.execute("GET", "k") == b"claimed"
            await returned(True)
            await came_to(b, b"2")
            assert await b.execute("GET", "n") == b"11"

    asyncio.run(main())
