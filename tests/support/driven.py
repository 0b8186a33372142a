"""A driver over the real event loop, between a disk in memory, a fake outlet and a fake application.

One journal holds what happened, in order: `write` and `synced` (the log), `trace`, `send 1 …`, `answer`,
`anew`. Syncs finish when the test says so (`Syncer.finish`), or at once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor, Future
from random import Random
from typing import Any, cast

from thence.core.codec import Codec
from thence.core.errors import StorageError
from thence.core.machine import Ack, LinkEffect, Packet, Phantom
from thence.core.message import Message
from thence.core.storage import DiskError
from thence.oplog.log import OpLog
from thence.oplog.policy import Sync
from thence.oplog.settings import Settings
from thence.order.engines import ENGINES
from thence.replica.live import HeraldSettings, LiveSettings, SessionSettings, live
from thence.runtime.driver import Driver
from thence.runtime.tracing import LiveTrace
from thence.sim.disk import Disk
from thence.trace.lines import Lines

NAMES = ["a", "b", "c"]
PATIENCE_S = 20.0
NEVER_US = 1 << 50
"""Of what is not the test's business: later than it ends."""


class Files:
    """A disk that enters into the journal what the log does to it."""

    def __init__(self, disk: Disk, journal: list[str]) -> None:
        self._disk = disk
        self._journal = journal

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)

    def write(self, name: str, offset: int, data: bytes | bytearray) -> None:
        self._disk.write(name, offset, data)
        self._journal.append("write")

    def sync(self, name: str) -> None:
        self._disk.sync(name)
        self._journal.append("synced")


class Syncer(Executor):
    """Runs what it is given when it is told to."""

    def __init__(self, at_once: bool) -> None:
        self.at_once = at_once
        self.waiting: list[Callable[[], None]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        future: Future[Any] = Future()

        def run() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except StorageError as error:
                future.set_exception(error)

        if self.at_once:
            run()
        else:
            self.waiting.append(run)
        return future

    def finish(self) -> None:
        """The oldest."""
        self.waiting.pop(0)()


class Trace:
    """As `LiveTrace`, in memory; fails on demand."""

    def __init__(self, journal: list[str]) -> None:
        self._journal = journal
        self._rest = b""
        self.full = False
        self.text = b""

    @property
    def waiting(self) -> int:
        return len(self._rest)

    def write(self, data: bytes) -> None:
        rest, self._rest = self._rest + data, self._rest + data
        if self.full and rest:
            raise DiskError("no space left", file="trace", full=True)
        self._rest = b""
        if rest:
            self.text += rest
            self._journal.append("trace")

    def kinds(self) -> list[str]:
        return [line.split(b'"kind":"')[1].split(b'"')[0].decode() for line in self.text.splitlines()]


class Bench:
    """Node a of three, with its driver. The test plays the others."""

    def __init__(self, always: bool = False, sync_at_once: bool = True, segment_bytes: int = 1 << 20) -> None:
        self.journal: list[str] = []
        self.now = 1_000_000
        self.disk = Disk(Random(1))
        self.syncer = Syncer(sync_at_once)
        self.trace = Trace(self.journal)
        self.sent: list[tuple[int, Packet]] = []
        self.taken: list[bytes] = []
        self.taking = True
        self.anew: list[str] = []
        settings = Settings(sync="always" if always else "no", segment_bytes=segment_bytes)
        files = cast(Any, Files(self.disk, self.journal))
        self.log = OpLog.open(files, settings, self.now)
        self.log.boot(1, b"machine", self.now)
        for name in NAMES:
            self.log.member(name)
        self.log.sync(self.now)
        lines = Lines("a", NAMES, 1)
        how = LiveSettings(
            sessions=SessionSettings(ack_every_us=NEVER_US),
            herald=HeraldSettings(tell_every_us=NEVER_US, ask_after_us=NEVER_US, ask_max_us=NEVER_US),
        )
        made = live(0, len(NAMES), how, lines, self.log, self.log.taken, self.now)
        for _ in range(2):  # what a new log notes of itself is not the test's business
            for effect in made.replica.commit(self.now):
                if isinstance(effect, Sync):
                    self.disk.sync(effect.file)
                    self.log.synced(effect, self.now)
        self.codec = Codec(len(NAMES), ENGINES["graph"].stamps_are_dots)
        trace = cast(LiveTrace, self.trace)
        self.driver = Driver(made, self.log, files, self, self, lambda: self.now, self.syncer, lines, trace)
        self.peers = {peer: ENGINES["graph"].tagger(peer, len(NAMES)) for peer in (1, 2)}
        self.journal.clear()

    # The driver's outlet and sink

    def send(self, peer: int, packets: Sequence[bytes]) -> None:
        for data in packets:
            packet = self.codec.decode(data)
            self.sent.append((peer, packet))
            self.journal.append(f"send {peer} {type(packet).__name__}")

    def queued(self, peer: int) -> int:
        raise AssertionError("a mesh keeps to its windows")

    def relink(self, wishes: Sequence[LinkEffect]) -> None:
        raise AssertionError("a mesh has no wishes")

    def begin_anew(self, why: str) -> None:
        self.anew.append(why)
        self.journal.append("anew")

    def stepped(self, now: int) -> None:
        self.driver.replica.stable.clear()
        while self.taking and self.driver.takeable:
            self.taken.append(self.driver.take().message.payload)

    # What the test does

    def connect(self, peer: int, has: int = 0) -> None:
        """The link is up, and the peer says how many messages of this node it has."""
        self.driver.up(peer)
        kept = [0] * len(NAMES)
        kept[0] = has
        kept[peer] = self.peers[peer].context()[0] >> 20 if self.peers[peer].context() else 0
        self.receive(peer, Ack(tuple(kept), ()))

    def receive(self, peer: int, *packets: Packet) -> None:
        self.driver.packets(peer, [self.codec.encode(packet) for packet in packets], self.now)

    def message(self, peer: int, payload: bytes) -> Message:
        """The next message of a peer, which has taken nothing of anybody."""
        return self.peers[peer].tag(payload)

    def publish(self, *payloads: bytes) -> "asyncio.Future[Any]":
        future = self.driver.publish(payloads)
        future.add_done_callback(
            lambda done: self.journal.append("refused" if done.exception() else "answer")
        )
        return future

    def messages_to(self, peer: int) -> list[bytes]:
        return [packet.payload for to, packet in self.sent if to == peer and isinstance(packet, Message)]

    def acknowledged(self, peer: int) -> int:
        """Up to where the peer was told that its messages are kept."""
        acks = [packet.received[peer] for to, packet in self.sent if to == peer and isinstance(packet, Ack)]
        return acks[-1]

    def phantoms(self) -> int:
        return sum(isinstance(packet, Phantom) for _, packet in self.sent)

    def fill_disk(self, room: int = 0) -> None:
        self.disk.capacity = sum(map(self.disk.size, self.disk.names())) + room

    def make_room(self) -> None:
        self.disk.capacity = None


async def until(condition: Callable[[], object]) -> None:
    """Something that takes turns of the loop, or a timer, is about to happen."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.001)


async def rounds(count: int = 20) -> None:
    """Everything that is ready has its turn: what has not happened then waits for something else."""
    for _ in range(count):
        await asyncio.sleep(0)


def run(test: Callable[[], Awaitable[None]]) -> None:
    """Whatever a test leaves behind, or lets reach the event loop, fails it."""
    troubles: list[dict[str, Any]] = []

    async def whole() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: troubles.append(context))
        async with asyncio.timeout(PATIENCE_S):
            await test()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, f"tasks left behind: {left}"

    asyncio.run(whole())
    assert not troubles, troubles
