"""What a node lets out under `always` leaves in the order in which it happened, whoever did the syncing."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from random import Random
from typing import Any

import pytest

from thence.core.codec import Codec
from thence.core.machine import Ack, LinkEffect
from thence.oplog.log import OpLog
from thence.oplog.settings import Settings
from thence.order.engines import engine
from thence.order.herald import HeraldSettings
from thence.replica.live import LiveSettings, live
from thence.runtime.driver import Driver
from thence.sim.disk import Disk
from thence.spread.sessions import SessionSettings
from thence.trace.recorder import NoRecorder

HOW = LiveSettings(sessions=SessionSettings(window=8), herald=HeraldSettings())
"""Every third message is acknowledged at once."""


class SlowSyncs(Executor):
    """Syncs are carried out when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Future[Any], Callable[[], Any]]] = []
        self.hurry = False

    def submit(self, fn: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.waiting.append((future, lambda: fn(*given, **named)))
        if self.hurry:
            self.one()
        return future

    def one(self) -> None:
        future, work = self.waiting.pop(0)
        future.set_result(work())


class Wire:
    """Where packets and steps end."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def send(self, peer: int, packets: Sequence[bytes]) -> None:
        self.sent += packets

    def queued(self, peer: int) -> int:
        raise AssertionError("a mesh keeps to its windows")

    def relink(self, wishes: Sequence[LinkEffect]) -> None:
        raise AssertionError("a mesh has no wishes")

    def begin_anew(self, why: str) -> None:
        raise AssertionError(why)

    def stepped(self, now: int) -> None:
        """Nobody takes anything."""


async def acknowledged_while_syncs_are_slow(seed: int) -> list[int]:
    """Messages come, of which some end a segment (and so sync it) while others wait for a sync."""
    random, disk, syncs, wire = Random(seed), Disk(Random(seed)), SlowSyncs(), Wire()
    log = OpLog.open(disk, Settings(sync="always", segment_bytes=600), 0)
    log.boot(1, b"m", 0)
    for name in ("a", "b"):
        log.member(name)
    log.sync(0)
    driver = Driver(live(0, 2, HOW, NoRecorder(), log, 0, 0), log, disk, wire, wire, lambda: 0, syncs)
    codec, peer = Codec(2, stamps_are_dots=True), engine("graph").tagger(1, 2)
    driver.up(1)
    driver.packets(1, [codec.encode(Ack((0, 0), ()))], 0)
    for _ in range(40):
        coming = [peer.tag(b"x" * random.randint(1, 100)) for _ in range(3)]
        driver.packets(1, [codec.encode(message) for message in coming], 0)
        await asyncio.sleep(0)  # for the sync that it asks for
        if syncs.waiting and random.random() < 0.3:
            syncs.one()
            await asyncio.sleep(0)
    syncs.hurry = True
    while syncs.waiting:
        syncs.one()
    await driver.close()
    packets = [codec.decode(data) for data in wire.sent]
    return [packet.received[1] for packet in packets if isinstance(packet, Ack)]


@pytest.mark.parametrize("seed", range(20))
def test_acknowledgements_leave_in_order_although_the_end_of_a_segment_syncs_by_itself(seed: int) -> None:
    told = asyncio.run(acknowledged_while_syncs_are_slow(seed))
    assert len(set(told)) > 10
    assert told == sorted(told)
