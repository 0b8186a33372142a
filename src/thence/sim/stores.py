"""The durable nodes of a simulated group: made over simulated disks, which fail."""

from random import Random

from thence.core.codec import Codec
from thence.core.machine import Effect
from thence.oplog.log import OpLog
from thence.oplog.policy import Policy
from thence.oplog.settings import Settings as LogSettings
from thence.order.engine import Engine
from thence.order.tags import TAGS_MAX
from thence.replica.durable import DurableReplica
from thence.replica.history import LogHistory
from thence.replica.live import Carrier, Live
from thence.replica.replica import FindingStable
from thence.replica.steps import TAKE_MAX
from thence.sim.attic import MemoryAttic
from thence.sim.disk import Disk, Operation
from thence.sim.faults import BadDisk
from thence.sim.settings import Settings
from thence.sim.step_node import Make, StepNode
from thence.spread.sessions import Progress, SessionMesh, SessionSettings
from thence.spread.spread import Spread
from thence.spread.spreads import build
from thence.trace.recorder import Recorder

FAILS: dict[str, Operation] = {
    "write": "write", "sync": "sync", "folder": "sync_folder", "remove": "remove",
}  # fmt: skip

KEEP_SEGMENTS = 3
"""Above that, what nobody needs is collected: soon, so that short runs restart from what is left."""


class Unlinked:
    """Of a spread over datagrams: there are no links that could be recovering, or lag behind."""

    recovering = False

    @property
    def waiting_for(self) -> list[int]:
        return []

    def progress(self, peer: int) -> Progress:
        del peer
        return Progress("down", 0, 0)


class Stores:
    """Makes durable nodes and lets their disks fail."""

    def __init__(
        self, settings: Settings, engine: Engine, names: list[str], recorders: list[Recorder]
    ) -> None:
        self._settings = settings
        self._engine = engine
        self._random = Random(f"{settings.seed}/disk")
        policy: Policy = "always" if settings.sync == "always" else "no"
        log_settings = LogSettings(sync=policy, segment_bytes=settings.segment_bytes)
        # Small as well as large ones: what does not fit must come from the log.
        small = Random(f"{settings.seed}/small")
        self._inbox_max = small.choice((1, 3, 4096))
        self._sessions = SessionSettings(window=small.choice((4, 16, 8192)))
        self._tags_max = small.choice((2, 16, TAGS_MAX))
        appetite = 0 if settings.take_ms else TAKE_MAX
        self.nodes = [
            StepNode(
                me, names, recorder, self._maker(me), Disk(Random(f"{settings.seed}/disk/{name}")),
                log_settings, appetite,
            )
            for me, (name, recorder) in enumerate(zip(names, recorders, strict=True))
        ]  # fmt: skip

    def _maker(self, me: int) -> Make:
        def make(log: OpLog, recorder: Recorder, now: int) -> Live:
            settings, engine, size = self._settings, self._engine, self._settings.nodes
            codec, forgetful = Codec(size, engine.stamps_are_dots), self.nodes[me].forgetful
            mesh: Carrier
            if settings.links == "datagram":
                spread: Spread = build(settings.spread, me, size, settings.batch_us)
                mesh = Unlinked()
            else:
                session = SessionMesh(me, size, LogHistory(log, codec), self._sessions, forgetful)
                spread, mesh = session, session
            replica = DurableReplica(
                me, size, engine, spread, recorder, log, log.taken, now, settings.stability, self._inbox_max,
                FindingStable(attic=MemoryAttic(), tags_max=self._tags_max),
            )  # fmt: skip
            if forgetful:
                replica.regain()
            return Live(replica, mesh, codec, engine.predecessors)

        return make

    def collect(self, node: int, now: int) -> list[Effect]:
        """Between two steps, where there is much."""
        made = self.nodes[node]
        if not made.runs or made.log.segments <= KEEP_SEGMENTS:
            return []
        return made.run(lambda machine, now: machine.tidy(now), now)

    # Disks that fail

    def worsen(self, fault: BadDisk) -> None:
        disk, random = self.nodes[fault.node].disk, self._random
        if fault.what == "full":
            disk.capacity = sum(map(disk.size, disk.names())) + random.randrange(200)
            return
        operation: Operation = "write" if fault.what == "torn" else FAILS[fault.what]
        disk.fail(operation, random.randrange(4))
        if fault.what == "torn":
            disk.fail("truncate")

    def heal(self, node: int) -> None:
        self.nodes[node].disk.capacity = None
        self.nodes[node].disk.heal()

    def crash(self, node: int, power: bool | None = None) -> None:
        """The process dies, or the whole machine, which forgets what was not synced."""
        self.nodes[node].crash(self._random.random() < 0.5 if power is None else power)
