"""A store as it was at an operation, from the folder of its node: how far back that goes."""

import asyncio
from pathlib import Path

import pytest
from support.stores import Stores, stable

from thence.core.errors import UsageError
from thence.core.groups import told_apart
from thence.runtime.open_store import OpenStore
from thence.runtime.store_at import store_at
from thence.store.slots import visible

EPOCHS = 4


async def written(store: OpenStore, value: int) -> tuple[str, int]:
    """What was here when this was the newest operation."""
    await store.incr("n")
    await store.set("k", value)
    await store.sadd("s", value)
    [(name, seq)] = store.node.exactly().items()
    return told_apart(name)[0], seq


def checkpoint(store: OpenStore) -> None:
    assert store.node.node.running.machine.checkpoint(0)


def test_it_goes_back_to_the_oldest_checkpoint_that_is_kept(tmp_path: Path) -> None:
    async def run() -> list[tuple[str, int]]:
        places = []
        async with Stores(tmp_path, "a", changing=True).open("a") as store:
            for epoch in range(EPOCHS):
                if epoch:
                    checkpoint(store)
                places += [await written(store, 10 * epoch + each) for each in range(2)]
                await stable(store)
        return places

    places = asyncio.run(run())
    for at, (origin, seq) in enumerate(places):
        epoch, each = divmod(at, 2)
        if epoch < EPOCHS - 2:
            with pytest.raises(UsageError, match=rf"a:{seq} is older than .*, which follows a:\d+$"):
                store_at(tmp_path / "a", (origin, seq), "graph")
            continue
        for before, value in ((0, 10 * epoch + each), (1, 10 * epoch + each)):
            space = store_at(tmp_path / "a", (origin, seq - before), "graph").space
            keys = space.databases[0].keys
            shown = {key: visible(found) for key, found in keys.items()}
            assert shown[b"n"] == at + 1
            assert shown[b"k"] == value
            assert len(shown[b"s"]) == at + 1 - before  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"a:1000 was not delivered here$"):
        store_at(tmp_path / "a", ("a", 1000), "graph")
    assert len(list((tmp_path / "a").rglob("*.snapshot"))) == 2  # the folder itself is as it was


def test_a_damaged_checkpoint_is_said(tmp_path: Path) -> None:
    async def run() -> tuple[str, int]:
        async with Stores(tmp_path, "a", changing=True).open("a") as store:
            return await written(store, 1)

    place = asyncio.run(run())
    for path in (tmp_path / "a").rglob("*.snapshot"):
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UsageError, match=r"checksum|add up"):
        store_at(tmp_path / "a", place, "graph")
