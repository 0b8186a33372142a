"""A store that grows while it runs: its process is told, and a checkpoint is made beside the commands."""

import asyncio
from pathlib import Path

from support.stores import Stores

from thence.runtime import store_node
from thence.runtime.open_store import OpenStore

KEYS = 3 * store_node.GROWN


async def filled(store: OpenStore) -> None:
    for first in range(0, KEYS, 500):
        words = [word for at in range(first, first + 500) for word in (b"key:%06d" % at, b"x" * 64)]
        await store.execute("MSET", *words)


def test_a_store_with_twice_as_many_keys_says_so_once(tmp_path: Path) -> None:
    async def run() -> int:
        told: list[None] = []
        async with Stores(tmp_path, "a", changing=True).open("a") as store:
            store.node.on_grown = lambda: told.append(None)
            await filled(store)
            while not told:
                await asyncio.sleep(0.01)
            await asyncio.sleep(3 * store_node.REAP_EVERY_S)
        return len(told)

    assert asyncio.run(run()) == 1


def test_a_checkpoint_is_made_in_many_steps_and_a_restart_goes_on_from_it(tmp_path: Path) -> None:
    async def run() -> None:
        stores = Stores(tmp_path, "a", changing=True)
        async with stores.open("a") as store:
            await filled(store)
            driver = store.node.node.running
            log = driver.machine.log
            before = log._writer.state.snapshots[-1].position
            assert driver.call(lambda machine, now: machine.writes_down(now))
            written = 0
            while not log.drafted:  # commands have their turns
                await store.execute("SET", f"new:{written}", b"x")
                written += 1
            assert written > 3
            assert log._writer.state.snapshots[-1].position > before
            assert driver.call(lambda machine, now: machine.has_written_down(now))
        async with stores.open("a") as store:
            assert await store.execute("DBSIZE") == KEYS + written

    asyncio.run(run())
