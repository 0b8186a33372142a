"""The disks of a simulated group, and the logs on them: what is left of a node while it is down."""

from collections.abc import Sequence
from random import Random

from thence.core.codec import Codec
from thence.core.errors import StorageError
from thence.core.machine import Effect, Wake
from thence.oplog.log import OpLog
from thence.oplog.policy import Policy, Sync
from thence.oplog.settings import Settings as LogSettings
from thence.order.engine import Engine
from thence.order.tags import TAGS_MAX
from thence.replica.durable import DurableReplica
from thence.replica.history import LogHistory
from thence.replica.replica import FindingStable
from thence.sim.attic import MemoryAttic
from thence.sim.disk import Disk, Operation
from thence.sim.faults import BadDisk
from thence.sim.settings import Settings
from thence.sim.step_rows import StepRows
from thence.spread.sessions import SessionMesh, SessionSettings
from thence.spread.spread import Spread
from thence.spread.spreads import build
from thence.trace.recorder import Recorder

MACHINE = b"simulated"

PROBE_NOTE = 2
"""The key of the note that a node in trouble tries to write."""

FAILS: dict[str, Operation] = {
    "write": "write", "sync": "sync", "folder": "sync_folder", "remove": "remove",
}  # fmt: skip

KEEP_SEGMENTS = 3
"""Above that, what nobody needs is collected: soon, so that short runs restart from what is left."""


class Stores:
    """Makes durable replicas, at the start and after a crash, and syncs what they ask for."""

    def __init__(
        self, settings: Settings, engine: Engine, names: list[str], recorders: list[Recorder]
    ) -> None:
        self._settings = settings
        self._engine = engine
        self._names = names
        self._rows = [StepRows(me, settings.nodes, engine, recorder) for me, recorder in enumerate(recorders)]
        self._random = Random(f"{settings.seed}/disk")
        policy: Policy = "always" if settings.sync == "always" else "no"
        self._log_settings = LogSettings(sync=policy, segment_bytes=settings.segment_bytes)
        self._forgetful: set[int] = set()
        """Nodes that may have forgotten what they sent."""
        self._disks = [Disk(Random(f"{settings.seed}/disk/{name}")) for name in names]
        # Small as well as large ones: what does not fit must come from the log.
        small = Random(f"{settings.seed}/small")
        self._inbox_max = small.choice((1, 3, 4096))
        self._sessions = SessionSettings(window=small.choice((4, 16, 8192)))
        self._tags_max = small.choice((2, 16, TAGS_MAX))
        self._meshes: dict[int, SessionMesh] = {}
        self._logs: dict[int, OpLog] = {}
        self._running: dict[int, DurableReplica] = {}

    def replica(self, node: int, now: int) -> DurableReplica:
        """The node as its disk knows it."""
        log = OpLog.open(self._disks[node], self._log_settings, now, power_lost=True)
        log.boot(1, MACHINE, now)
        for name in self._names:
            log.member(name)
        log.sync(now)
        settings, before = self._settings, self._running.get(node)
        spread = self._spread(node, log)
        taken = before.taken if before else 0  # the application's own; it is somewhere else
        if node in self._forgetful:
            taken = min(taken, log.taken)  # or on the same disk
        made = DurableReplica(
            node,
            settings.nodes,
            self._engine,
            spread,
            self._rows[node],
            log,
            taken,
            now,
            settings.stability,
            self._inbox_max,
            FindingStable(attic=MemoryAttic(), tags_max=self._tags_max),
        )
        self._logs[node], self._running[node] = log, made
        if self._settings.sync == "always":
            self._rows[node].complete(log, now)
        if node in self._forgetful:
            made.regain()
        return made

    def may_send(self, node: int) -> bool:
        """Not while there may be messages that it has sent and does not know of."""
        return not self._running[node].regaining

    def log(self, node: int) -> OpLog:
        return self._logs[node]

    def _spread(self, node: int, log: OpLog) -> Spread:
        settings = self._settings
        if settings.links == "datagram":
            return build(settings.spread, node, settings.nodes, settings.batch_us)
        history = LogHistory(log, Codec(settings.nodes, self._engine.stamps_are_dots))
        mesh = SessionMesh(node, settings.nodes, history, self._sessions, node in self._forgetful)
        self._meshes[node] = mesh
        return mesh

    def commit(self, node: int, now: int) -> None:
        """Write down what the last step must not forget, and sync it."""
        replica, log = self._running[node], self._logs[node]
        self._sync(node, replica.commit(now), now)
        self._rows[node].settle()
        if replica.regaining and not self._meshes[node].recovering and replica.regained():
            self._forgetful.discard(node)
        if log.segments > KEEP_SEGMENTS:
            replica.collect(now)

    def publish(self, node: int, payload: bytes, now: int) -> list[Effect]:
        """The client sends: written down before anything follows from it."""
        published = self._running[node].publish([payload], now)
        self._sync(node, published.log_effects, now)
        return published.effects

    def _sync(self, node: int, effects: Sequence[Sync | Wake], now: int) -> None:
        log = self._logs[node]
        for effect in effects:
            if isinstance(effect, Sync):
                try:
                    self._disks[node].sync(effect.file)
                except StorageError as error:
                    log.sync_failed(effect, error, now)
                    raise
                log.synced(effect, now)

    # Disks that fail

    def worsen(self, fault: BadDisk) -> None:
        disk, random = self._disks[fault.node], self._random
        if fault.what == "full":
            disk.capacity = sum(map(disk.size, disk.names())) + random.randrange(200)
            return
        operation: Operation = "write" if fault.what == "torn" else FAILS[fault.what]
        disk.fail(operation, random.randrange(4))
        if fault.what == "torn":
            disk.fail("truncate")

    def heal(self, node: int) -> None:
        self._disks[node].capacity = None
        self._disks[node].heal()

    def broken(self, node: int) -> bool:
        """Is there no way on but from the beginning?"""
        return self._logs[node].broken is not None

    def roll_back(self, node: int, now: int) -> None:
        self._running[node].roll_back(now)

    def probe(self, node: int, now: int) -> None:
        """Can it write again?"""
        self._logs[node].note(PROBE_NOTE, b"")
        self.commit(node, now)

    def crash(self, node: int, power: bool | None = None) -> None:
        """The process dies, or the whole machine, which forgets what was not synced."""
        self._rows[node].forget()
        if self._random.random() < 0.5 if power is None else power:
            self._disks[node].crash(holes=True)
            if self._settings.sync != "always":
                self._forgetful.add(node)
