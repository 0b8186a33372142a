"""The end of a node waits for what is under way, and no longer than it may."""

import asyncio

import pytest

from thence.runtime import draining
from thence.runtime.draining import drained


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draining, "LOOK_S", 0.001)
    monkeypatch.setattr(draining, "QUIET_S", 0.02)


def test_it_waits_until_everything_is_sent() -> None:
    looks = iter([False] * 50 + [True] * 1000)
    asyncio.run(drained(20_000_000, lambda: next(looks), lambda: 0))
    assert sum(not look for look in looks) == 0


def test_it_waits_until_nothing_more_comes() -> None:
    """One comes at each look, for more looks than fit into the time after which it would be quiet."""
    coming = iter(range(100))
    last = -1

    def delivered() -> int:
        nonlocal last
        last = next(coming, last)
        return last

    asyncio.run(drained(20_000_000, lambda: True, delivered))
    assert last == 99


def test_it_does_not_wait_longer_than_it_may() -> None:
    async def story() -> None:
        async with asyncio.timeout(20):
            await drained(1_000, lambda: False, lambda: 0)

    asyncio.run(story())
