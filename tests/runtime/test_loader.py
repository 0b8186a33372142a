"""Unit: the pace of a load, on a clock that the test moves."""

import asyncio
from collections.abc import Sequence
from itertools import pairwise

import pytest

from thence.core.errors import StorageError, UsageError
from thence.runtime.load import BATCH, LEAST_WAIT_S, Load, Loader


class Time:
    """Sleeping moves the clock; broadcasting takes as long as it is told to."""

    def __init__(self, cost_s: float = 0.0) -> None:
        self.now = 100.0
        self.cost_s = cost_s
        self.sent: list[tuple[float, bytes]] = []
        self.batches: list[int] = []
        self.breaks_after = 10**9

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)

    async def broadcast(self, payloads: Sequence[bytes]) -> None:
        if len(self.sent) >= self.breaks_after:
            raise StorageError("disk full")
        self.batches.append(len(payloads))
        self.sent += [(self.now, payload) for payload in payloads]
        self.now += self.cost_s

    async def run(self, load: Load) -> Loader:
        loader = Loader(self.broadcast, lambda: self.now, self.sleep)
        await loader.start(load)
        await loader.wait()
        return loader


def test_a_rate_is_kept_to_the_message() -> None:
    time = Time()
    loader = asyncio.run(time.run(Load(rate=10, seconds=2)))
    assert len(time.sent) == 20
    gaps = [later - earlier for (earlier, _), (later, _) in pairwise(time.sent)]
    assert gaps == pytest.approx([0.1] * 19, abs=1e-5)
    status = loader.status()
    assert status is not None
    assert (status.running, status.sent, status.failed) == (False, 20, None)


def test_a_rate_beyond_the_clock_of_an_event_loop_is_kept_without_spinning() -> None:
    class Watched(Time):
        waits: list[float]

        async def sleep(self, seconds: float) -> None:
            self.waits.append(seconds)
            await super().sleep(seconds)

    time = Watched()
    time.waits = []
    asyncio.run(time.run(Load(rate=5_000, seconds=1)))
    assert len(time.sent) == 5_000
    waits = [wait for wait in time.waits if wait]
    assert min(waits[:-1]) == LEAST_WAIT_S, "an event loop does not wait for less, it looks again at once"
    assert len(waits) <= 1_000


def test_a_count_ends_a_load_and_payloads_have_their_size_and_differ() -> None:
    time = Time()
    asyncio.run(time.run(Load(count=200, bytes=16)))
    payloads = [payload for _, payload in time.sent]
    assert len(set(payloads)) == 200
    assert {len(payload) for payload in payloads} == {16}
    assert max(time.batches) == BATCH, "as fast as it goes, in steps that others can run between"


def test_a_node_that_cannot_keep_up_ends_in_time_all_the_same() -> None:
    time = Time(cost_s=0.5)
    asyncio.run(time.run(Load(rate=1_000, seconds=3)))
    assert time.now == pytest.approx(103, abs=0.6)
    assert len(time.sent) < 3_000
    assert max(time.batches) <= BATCH, "what is late does not become a flood"


def test_a_load_that_fails_says_why() -> None:
    time = Time()
    time.breaks_after = 64
    loader = asyncio.run(time.run(Load(count=1_000)))
    status = loader.status()
    assert status is not None
    assert (status.running, status.sent, status.failed) == (False, 64, "disk full")


def test_one_load_at_a_time_and_a_count_of_none_ends_it() -> None:
    async def story() -> None:
        time = Time()
        loader = Loader(time.broadcast, lambda: time.now, lambda _: asyncio.sleep(3600))
        assert loader.status() is None
        await loader.start(Load(rate=1, seconds=60))
        with pytest.raises(UsageError, match="already"):
            await loader.start(Load(count=1))
        assert loader.running
        await loader.start(Load(count=0))
        assert not loader.running

    asyncio.run(story())


@pytest.mark.parametrize(
    "load",
    [
        Load(), Load(rate=-1, count=1), Load(rate=float("nan"), count=1), Load(seconds=0),
        Load(seconds=float("nan")),
        Load(seconds=float("inf")), Load(count=-1), Load(count=1, bytes=-1), Load(count=1, bytes=2**30),
    ],
)  # fmt: skip
def test_a_load_that_makes_no_sense_is_refused(load: Load) -> None:
    with pytest.raises(UsageError):
        load.checked()
