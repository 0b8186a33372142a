"""The driver of changing groups under the checks of `conformance_steps`."""

from pathlib import Path
from random import Random
from typing import Any, cast

from support.steps_world import PEERS, START_US, Files, Program, Trace, World
from thence.core.codec import Codec
from thence.core.group_codec import decode, encode
from thence.core.groups import NOBODY_YET, OPERATION, RUN, Flow, JoinRequest, Place, Receipt, Running, plain
from thence.core.message import Message
from thence.core.runs import payload_run
from thence.oplog.log import OpLog
from thence.oplog.policy import DiskSync, Policy
from thence.oplog.settings import LogSettings
from thence.replica.group.process.node import GroupNode
from thence.replica.group.settings import GroupSettings
from thence.replica.group.surroundings import Closed
from thence.replica.steps import TAKE_MAX
from thence.runtime.trace_files import TraceWriter, TraceWriters
from thence.sim.disk import Disk
from thence.sim.shelf import SimShelf

SWIFT = GroupSettings(receipt_every_us=20_000, receipt_busy_us=100_000, receipt_idle_us=200_000)
JOINING_US = 2_000_000
NOWHERE = Path(__file__).with_name("no folder")


class Shelf(SimShelf):
    """That of a node: it knows its files."""

    def __init__(self, journal: list[str], settings: LogSettings) -> None:
        super().__init__(Random(1), settings.segment_bytes, settings.sync)
        self._journal = journal
        self._opened: dict[int, Files] = {}

    def open(self, number: int, now: int) -> OpLog:
        disk = self._disks.setdefault(number, Disk(Random(number), self._room))
        self._opened[number] = Files(disk, self._journal)
        log = OpLog.open(cast(Any, self._opened[number]), self._settings, now)
        log.boot(number, b"machine", now)
        return log

    def files(self, number: int) -> Files:
        return self._opened[number]


class Traced(TraceWriters):
    """In memory."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(NOWHERE, 1)
        self._trace = trace

    def __call__(self, member: str) -> "TraceWriter | Closed":
        diary = super().__call__(member)
        if isinstance(diary, TraceWriter):
            diary.trace = cast(Any, self._trace)
        return diary


def untold(member: str) -> Closed:
    del member
    return Closed()


class ChangingPeer:
    def __init__(self, name: str) -> None:
        self.has: list[bytes] = []
        self.stable: list[bytes] = []
        self._sent: dict[Place, bytes] = {}
        self._shelf = SimShelf(Random(name), 1 << 20, "no")
        program = self._program = Program()
        program.on_stable = lambda place: self.stable.extend(
            [self._sent[place]] if place in self._sent else []
        )
        self.node = GroupNode(
            name, self._shelf, program, untold, ("a",), SWIFT, START_US, start=7, sessions=True
        )  # fmt: skip
        self.node.join(START_US)

    def _act(self, now: int) -> None:
        self.node.take(TAKE_MAX, now)
        effects, log = self.node.commit(now), self.node.log
        for effect in effects:
            if isinstance(effect, DiskSync) and log is not None:
                effect.carry_out(log.files)
                log.synced(effect, now)
        self.has += self._program.output()

    def up(self, other: str, now: int) -> None:
        self.node.link_up(other, now)
        self._act(now)

    def down(self, other: str, now: int) -> None:
        self.node.link_down(other, now)
        self._act(now)

    def receive(self, other: str, data: bytes, now: int) -> None:
        self.node.receive(other, decode(data), now)
        self._act(now)

    def broadcast(self, payload: bytes, now: int) -> None:
        [(place, _)] = self.node.broadcast([payload], now)
        self._sent[place] = payload
        self._act(now)

    def wake(self, now: int) -> int:
        if self.node.wake_at <= now:
            self.node.wake(now)
            self._act(now)
        return self.node.wake_at

    def posts(self) -> list[tuple[str, bytes]]:
        posts = [(to, encode(packet)) for to, packet in self.node.posts]
        self.node.posts.clear()
        return posts


class ChangingSubject(World):
    def __init__(
        self, sync: Policy = "no", at_once: bool = True, reads: bool = True, segment_bytes: int = 1 << 20
    ) -> None:
        self._settings = LogSettings(sync=sync, segment_bytes=segment_bytes)
        self._codec = Codec(64, stamps_are_dots=True)
        super().__init__(at_once, reads)

    def begin(self) -> None:
        self._shelf = Shelf(self.journal, self._settings)
        self._diaries = Traced(self.trace)
        self._program = Program()
        self.drive(self._make(self.now), self._make, self._diaries)
        self.driver.call(lambda node, now: node.found(now))
        self.peers = {name: ChangingPeer(name) for name in PEERS}

    def _make(self, now: int) -> GroupNode:
        self._program.recovering(True)
        node = GroupNode("a", self._shelf, self._program, self._diaries, (), SWIFT, now, start=1 + now,
                         sessions=True)  # fmt: skip
        self._program.recovering(False)
        return node

    def meet(self) -> None:
        self.pass_time(JOINING_US)
        self.says("b", b"hello of b")
        self.says("c", b"hello of c")
        self.ask(b"hello")
        self.pass_time(JOINING_US)
        assert self.has("b") == [b"hello of c", b"hello"], self.has("b")

    @property
    def files(self) -> Files:
        return self._shelf.files(1)

    def words(self, peer: str, data: bytes) -> list[str]:
        packet = decode(data)
        if isinstance(packet, Receipt):
            return [f"ack {packet.counts.get(peer, 0)}"]
        if not isinstance(packet, Flow):
            return ["-"]
        messages = [self._codec.decode(body) for body in packet.bodies]
        payloads = [plain(message.payload) for message in messages if isinstance(message, Message)]
        return [said for payload in payloads for said in _said(payload)]

    def insist(self) -> None:
        asks = JoinRequest("d", "a", NOBODY_YET, Running("d", "", "d", 1), 0, 0, "", 1)
        self.driver.packets("d", [encode(asks)], self.now)
        self.turn()

    def close(self) -> bool:
        return bool(super().close())


def _said(payload: bytes) -> list[str]:
    if payload[0] == RUN:
        return [operation.decode() for operation in payload_run(payload)]
    return [payload[1:].decode() if payload[0] == OPERATION else "-"]
