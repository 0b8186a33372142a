"""The driver of fixed groups under the checks of `conformance_steps`."""

from random import Random
from typing import Any, cast

from support.steps_world import PEERS, START_US, Files, Program, World
from thence.core.codec import Codec
from thence.core.groups import Place
from thence.core.machine import Ack
from thence.core.message import Message
from thence.oplog.log import OpLog
from thence.oplog.policy import Policy
from thence.oplog.settings import Settings
from thence.order.engines import ENGINES
from thence.replica.fixed import FixedMachine
from thence.replica.live import HeraldSettings, Live, LiveSettings, SessionSettings, live
from thence.replica.steps import TAKE_MAX
from thence.runtime.fixed import FixedTrace
from thence.sim.disk import Disk
from thence.trace.lines import Lines
from thence.trace.recorder import NoRecorder, Recorder

NAMES = ("a", *PEERS)
NEVER_US = 1 << 50
"""A node that is asked would tell by accident what it should tell by the clock."""

SWIFT = LiveSettings(
    sessions=SessionSettings(ack_every_us=20_000, window=8, relay_after_us=0),
    herald=HeraldSettings(tell_every_us=50_000, ask_after_us=NEVER_US, ask_max_us=NEVER_US),
)


def opened(name: str, files: Any, settings: Settings, recorder: Recorder) -> tuple[Live, OpLog]:
    log = OpLog.open(files, settings, START_US)
    log.boot(1, b"machine", START_US)
    for member in NAMES:
        if member not in log.names:
            log.member(member)
    log.sync(START_US)
    return live(NAMES.index(name), len(NAMES), SWIFT, recorder, log, log.taken, START_US), log


class FixedPeer:
    def __init__(self, name: str) -> None:
        self.has: list[bytes] = []
        self.stable: list[bytes] = []
        self._sent: dict[Place, bytes] = {}
        made, log = opened(name, Disk(Random(name)), Settings(sync="no"), NoRecorder())
        program = self._program = Program()
        program.on_stable = lambda place: self.stable.extend(
            [self._sent[place]] if place in self._sent else []
        )
        self._machine = FixedMachine(made, log, NAMES, name, program)
        self._posts: list[tuple[str, bytes]] = []

    def _act(self, now: int) -> None:
        machine = self._machine
        machine.take(TAKE_MAX, now)
        machine.commit(now)
        posts, _, events = machine.output()
        self.has += events
        self._posts += [(to, machine.encode(packet)) for to, packet in posts]

    def up(self, other: str, now: int) -> None:
        self._machine.link_up(other, now)
        self._act(now)

    def down(self, other: str, now: int) -> None:
        self._machine.link_down(other, now)
        self._act(now)

    def receive(self, other: str, data: bytes, now: int) -> None:
        self._machine.receive(other, self._machine.decode(data), now)
        self._act(now)

    def broadcast(self, payload: bytes, now: int) -> None:
        [(place, _)] = self._machine.broadcast([payload], now)
        self._sent[place] = payload
        self._act(now)

    def wake(self, now: int) -> int:
        if self._machine.wake_at <= now:
            self._machine.wake(now)
            self._act(now)
        return min(self._machine.wake_at, now + (1 << 40))

    def posts(self) -> list[tuple[str, bytes]]:
        posts, self._posts = self._posts, []
        return posts


class FixedSubject(World):
    def __init__(
        self, sync: Policy = "no", at_once: bool = True, reads: bool = True, segment_bytes: int = 1 << 20
    ) -> None:
        self._settings = Settings(sync=sync, segment_bytes=segment_bytes)
        self._codec = Codec(len(NAMES), ENGINES["graph"].stamps_are_dots)
        super().__init__(at_once, reads)

    def begin(self) -> None:
        self._files = Files(Disk(Random(1)), self.journal)
        self._lines = Lines("a", NAMES, 1)
        self._program = Program()
        self.drive(self._make(self.now), self._remade, FixedTrace(cast(Any, self.trace), self._lines))
        for _ in range(2):  # what a new log notes of itself is not the test's business
            self.driver.start()
        self.peers = {name: FixedPeer(name) for name in PEERS}

    def _make(self, now: int) -> FixedMachine:
        del now
        made, log = opened("a", self._files, self._settings, self._lines)
        return FixedMachine(made, log, NAMES, "a", self._program)

    def _remade(self, now: int) -> FixedMachine:
        machine = self._make(now)
        machine.resume(now)
        return machine

    def meet(self) -> None:
        self.talk()

    @property
    def files(self) -> Files:
        return self._files

    def words(self, peer: str, data: bytes) -> list[str]:
        packet = self._codec.decode(data)
        if isinstance(packet, Ack):
            return [f"ack {packet.received[NAMES.index(peer)]}"]
        return [packet.payload.decode() if isinstance(packet, Message) else "-"]

    def insist(self) -> None:
        self.machine.log.insist()
        self.ask(b"insisted")
        self.turn()

    def close(self) -> bool:
        return bool(super().close())
