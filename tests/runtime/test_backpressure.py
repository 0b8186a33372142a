"""A neighbour that takes less than it is sent is held, and gets the rest when it has taken most of it."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from thence.runtime import backpressure as easing
from thence.runtime.backpressure import LITTLE_BYTES, MUCH_BYTES, LinkBackpressure


class Line:
    """To one neighbour: what was sent and not taken. It is the driver, and its machine."""

    def __init__(self) -> None:
        self.waiting = 0
        self.journal: list[str] = []
        self.looked = asyncio.Event()

    def queued(self, peer: str) -> int:
        assert peer == "b"
        self.looked.set()
        return self.waiting

    @property
    def machine(self) -> "Line":
        return self

    def run(self, act: Callable[["Line", int], object]) -> None:
        act(self, 0)
        self.journal.append("stepped")

    def hold(self, peer: str) -> None:
        self.journal.append(f"held {peer}")

    def release(self, peer: str, now: int) -> None:
        del now
        self.journal.append(f"released {peer}")


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Line:
    monkeypatch.setattr(easing, "LOOK_S", 0.001)
    return Line()


def run(line: Line, story: Callable[[LinkBackpressure], Any]) -> None:
    async def whole() -> None:
        eased = LinkBackpressure(cast(Any, line), line.queued)
        async with asyncio.timeout(20):
            await story(eased)
        eased.close()

    asyncio.run(whole())


def test_one_that_keeps_up_is_never_held(line: Line) -> None:
    async def story(eased: LinkBackpressure) -> None:
        for line.waiting in (MUCH_BYTES, 0, 4):
            eased.sent("b")
        assert line.journal == []

    run(line, story)


def test_one_that_takes_too_little_is_held_until_its_line_would_run_dry(line: Line) -> None:
    async def story(eased: LinkBackpressure) -> None:
        line.waiting = MUCH_BYTES + 1
        eased.sent("b")
        assert line.journal == ["held b"]
        line.waiting = LITTLE_BYTES + 1
        line.looked.clear()
        await line.looked.wait()
        await asyncio.sleep(0)
        assert line.journal == ["held b"], "there is plenty left on its way"
        line.waiting = LITTLE_BYTES
        while "stepped" not in line.journal:
            await asyncio.sleep(0.001)
        assert line.journal == ["held b", "released b", "stepped"]

    run(line, story)
