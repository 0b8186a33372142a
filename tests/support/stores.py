"""Stores on nodes in one process, over loopback, quick enough for tests."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import thence
from support.changing import SWIFT
from support.live_links import free_addresses
from support.open_nodes import QUICK
from thence.runtime.open_store import OpenStore


class Stores:
    def __init__(self, folder: Path, names: str, changing: bool = False) -> None:
        where = free_addresses(len(names))
        self.at = {name: str(address) for name, address in zip(names, where, strict=True)}
        self.folder = folder
        self.changing = changing

    def open(self, name: str, join: str = "", **options: Any) -> OpenStore:
        group: dict[str, Any] = {"members": self.at}
        if self.changing:
            group = {"listen": self.at[name], "join": [self.at[one] for one in join]}
        settings = {**(SWIFT if self.changing else QUICK), **options.pop("settings", {})}
        return thence.Store(name, data=self.folder / name, settings=settings, **group, **options)


async def until(does: Callable[[], bool]) -> None:
    while not does():
        await asyncio.sleep(0)


async def stable(*stores: OpenStore) -> None:
    for store in stores:
        await until(lambda store=store: not store.node.state.unstable)  # type: ignore[misc]


async def same(*stores: OpenStore) -> None:
    """All have applied the same."""
    await until(lambda: all(one.node.delivered() == stores[0].node.delivered() for one in stores))


def contents(store: OpenStore) -> bytes:
    """What is left when all is stable, but for what depends on who it is."""
    state = store.node.state
    shown = [sorted((key, repr(value)) for key, value in base.keys.items() if isinstance(value, bytes | int))
             for base in state.space.databases]  # fmt: skip
    return repr(shown).encode()
