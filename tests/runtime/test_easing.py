"""A neighbour that takes less than it is sent is held, and gets the rest when it has taken most of it."""

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from thence.core.machine import Effect
from thence.runtime import easing
from thence.runtime.easing import LITTLE_BYTES, MUCH_BYTES, Easing


class Line:
    """To one neighbour: what was sent and not taken."""

    def __init__(self) -> None:
        self.waiting = 0
        self.journal: list[str] = []

    def send(self, peer: int, packets: Sequence[bytes]) -> None:
        self.waiting += sum(map(len, packets))
        self.journal.append("sent")

    def queued(self, peer: int) -> int:
        return self.waiting

    def step(self, effects: list[Effect], now: int) -> None:
        self.journal.append("stepped")

    def hold(self, peer: int) -> None:
        self.journal.append("held")

    def release(self, peer: int, now: int) -> list[Effect]:
        self.journal.append("released")
        return []


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Line:
    monkeypatch.setattr(easing, "LOOK_S", 0.001)
    return Line()


def run(line: Line, story: Callable[[Easing], Any]) -> None:
    async def whole() -> None:
        live = cast(Any, SimpleNamespace(hold=line.hold, release=line.release))
        eased = Easing(live, line, line.step, lambda: 0)
        async with asyncio.timeout(20):
            await story(eased)
        eased.close()

    asyncio.run(whole())


def test_one_that_keeps_up_is_never_held(line: Line) -> None:
    async def story(eased: Easing) -> None:
        eased.send(1, [bytes(MUCH_BYTES)])
        line.waiting = 0
        eased.send(1, [b"more"])
        assert line.journal == ["sent", "sent"]

    run(line, story)


def test_one_that_takes_too_little_is_held_until_its_line_would_run_dry(line: Line) -> None:
    async def story(eased: Easing) -> None:
        eased.send(1, [bytes(MUCH_BYTES), b"."])
        assert line.journal == ["sent", "held"]
        line.waiting = LITTLE_BYTES + 1
        looks = asyncio.Event()
        queued = line.queued

        def look(peer: int) -> int:
            looks.set()
            return queued(peer)

        eased._queued = look  # type: ignore[misc]
        await looks.wait()
        await asyncio.sleep(0)
        assert line.journal == ["sent", "held"], "there is plenty left on its way"
        line.waiting = LITTLE_BYTES
        while "stepped" not in line.journal:
            await asyncio.sleep(0.001)
        assert line.journal == ["sent", "held", "released", "stepped"]

    run(line, story)
