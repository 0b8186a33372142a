"""Nodes of `thence.open` in one process, over loopback, quick enough for tests."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeVar

import thence
from support.live_links import free_addresses
from thence.replica.events import Delivered, Event, Stable
from thence.runtime.application import OpenNode
from thence.runtime.reader import Events

PATIENCE_S = 120.0
"""Only a test that fails waits so long; a machine with ten times as much to do as cores takes a minute."""

QUICK: dict[str, object] = {
    "profile": "local",
    "links.backoff_first_us": 2_000,
    "links.backoff_most_us": 50_000,
    "group.receipt_every_us": 2_000,
    "group.receipt_busy_us": 50_000,
    "http": "none",
}

T = TypeVar("T")


class Group:
    """Names, their addresses and their folders; nodes are opened one by one."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self.folder = folder
        where = free_addresses(len(names))
        self.members = {name: str(address) for name, address in zip(names, where, strict=True)}

    def open(self, name: str, data: Path | None = None, **options: Any) -> OpenNode:
        settings = {**QUICK, **options.pop("settings", {})}
        return thence.open(
            name,
            listen=options.pop("listen", self.members[name]),
            members=options.pop("members", self.members),
            data=data or self.folder / name,
            settings=settings,
            **options,
        )

    async def open_all(self, stack: AsyncExitStack, **options: Any) -> list[OpenNode]:
        return [await stack.enter_async_context(self.open(name, **options)) for name in self.members]


def run(test: Callable[[], Awaitable[T]]) -> T:
    """Whatever a test leaves behind, or lets reach the event loop, fails it."""
    troubles: list[dict[str, Any]] = []

    async def whole() -> T:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: troubles.append(context))
        async with asyncio.timeout(PATIENCE_S):
            result = await test()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, f"tasks left behind: {left}"
        return result

    result = asyncio.run(whole())
    assert not troubles, troubles
    return result


async def delivered(events: Events, count: int) -> list[Delivered]:
    """So many deliveries, whatever becomes stable in between."""
    found: list[Delivered] = []
    while len(found) < count:
        event: Event = await anext(events)
        if isinstance(event, Delivered):
            found.append(event)
    return found


async def stable(events: Events, origin: str, seq: int) -> Stable:
    async for event in events:
        if isinstance(event, Stable) and (event.origin, event.seq) == (origin, seq):
            return event
    raise AssertionError("the events ended")


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.002)
