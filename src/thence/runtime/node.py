"""A live node: folder, log, trace, replica, links and control put together, started and stopped.

It decides nothing about the protocol and does no step itself (`driver.py`); what it adds is the way from
settings to a running node, and what people see of it. What the application does with messages is its
`Application`'s business.
"""

import asyncio
import os
import traceback
from collections.abc import Sequence
from random import Random
from typing import Final, Protocol

from thence.core.dots import ORIGIN_MASK, seq_of
from thence.core.errors import StorageError, ThenceError, UsageError
from thence.core.machine import Connect, LinkEffect
from thence.core.states import Keeper, Nothing
from thence.core.storage import DamageError
from thence.oplog.log import OpLog
from thence.oplog.record import BOOT_BITS
from thence.replica.live import Live, live, must_go_together
from thence.replica.replica import Delivered
from thence.runtime import recovering
from thence.runtime import roster as rosters
from thence.runtime.address import Address
from thence.runtime.arrivals import SAMPLES
from thence.runtime.asked import STAMP_BYTES, must_fit
from thence.runtime.attic import FileAttic
from thence.runtime.draining import drained
from thence.runtime.driver import Driver
from thence.runtime.fixed_machine import live_settings
from thence.runtime.folder import DataFolder
from thence.runtime.instruments import Instruments
from thence.runtime.links import Identity, Links, LinkStatus
from thence.runtime.load import Load, Loader
from thence.runtime.logs import StructuredLog
from thence.runtime.pacing import Clock
from thence.runtime.premises import Premises
from thence.runtime.report import status_of, unwell
from thence.runtime.roster import Roster
from thence.runtime.settings import NodeSettings
from thence.runtime.shelf import is_changing
from thence.runtime.status import LoadStatus, Status
from thence.runtime.tracing import LiveTrace, complete, earlier_rows, missing_rows
from thence.trace.lines import Lines
from thence.trace.recorder import NoRecorder

SECOND: Final = 1_000_000


class Application(Protocol):
    """What takes a node's messages."""

    def stepped(self, node: "Node", now: int) -> None:
        """There may be something to take, or to announce as stable."""
        ...


class Drain:
    """The application of `thence node`: it takes everything at once and keeps nothing."""

    def stepped(self, node: "Node", now: int) -> None:
        node.driver.drain(now)
        node.driver.replica.stable.clear()


class Node:
    """Made by `start`, ended by `stop`; between them its `driver` is what the application talks to."""

    def __init__(
        self,
        settings: NodeSettings,
        application: Application,
        log: StructuredLog,
        clock: Clock,
        keeper: Keeper | None = None,
    ) -> None:
        """`keeper`: what has the application's state, where states are sent to those who lack much."""
        self._keeper: Final = keeper or Nothing()
        self.settings: Final = settings
        self._application: Final = application
        self._says: Final = log
        self._clock: Final = clock
        self._premises: Final = Premises(settings, log)
        self._started_at: Final = clock()
        self._attic: FileAttic | None = None
        self._trace: LiveTrace | None = None
        self._links: Links | None = None
        self._early_wishes: list[LinkEffect] = []
        self._state = "starting"
        self._regaining = False
        self._progress_at = clock()
        self._settled = True
        self._sent_at: dict[int, int] = {}
        """When some of the own messages were sent that are not stable yet: one of each batch."""
        self.stopping: Final = asyncio.Event()
        self.failed: ThenceError | None = None
        """Why it had to stop, if it did."""
        self.instruments: Final = Instruments(self.status)

    # From settings to a running node

    async def start(self) -> None:
        try:
            await self._start()
        except BaseException:
            await self._release()
            raise

    async def _start(self) -> None:
        settings, now = self.settings, self._clock()
        must_go_together(settings.order, settings.spread)
        folder = self._premises.enter()
        if is_changing(settings.data):
            raise UsageError(f"the data in {settings.data} is of a group whose members change: name none")
        self._attic = FileAttic(settings.data)
        try:
            self.log = log = folder.open_log(settings.log_settings, now)
        except DamageError as damage:
            raise UsageError(f"{damage}. `thence repair {settings.data}` cuts it off there") from damage
        for trouble in log.report.lines():
            self._says.warn("log repaired", what=trouble)
        fresh = log.incarnation == 0
        self._regaining = recovering.may_have_forgotten(folder, log)
        if self._regaining:
            recovering.begin(folder.path, "the machine went down, or the log was repaired")
            self._says.warn("recovering: what this node had sent may be missing here")
        self.boot = log.boot(1, folder.machine_id(), now) >> BOOT_BITS
        recovering.note_boot(folder.path, self.boot)
        recovering.note_policy(log, settings.log.sync)
        self.roster = self._group(log)
        log.sync(now)
        self.names = self.roster.names
        self.me = self.names.index(settings.name)
        lines = self._tracing()
        made = self._replica(log, lines, now)
        self.codec = made.codec
        self._complete_trace(made, lines, now)
        self.driver = Driver(
            made, log, folder.files, self, self, self._clock, self._premises.syncer, lines, self._trace,
        )  # fmt: skip
        self.driver.arrivals.tell = self.instruments.delivery.observe
        self._loader = Loader(self.publish)
        self.driver.start(made.start(now) if fresh else made.replica.restart(now))
        await self._listen(folder)
        control = await self._premises.open_door(self)
        self.driver.broken.add_done_callback(self._broken)
        self._state = "running"
        self._says.info(
            "running", node=settings.name, boot=self.boot, members=len(self.names),
            listen=self._links.address if self._links else None, control=control,
        )  # fmt: skip

    def _group(self, log: OpLog) -> Roster:
        settings = self.settings
        known = rosters.recall(log, settings.cluster, settings.name, settings.members)
        if known is not None:
            return known
        members: Sequence[tuple[str, Address]] = settings.members or ((settings.name, settings.listen),)
        return rosters.found(log, settings.cluster, settings.name, members)

    def _tracing(self) -> Lines | None:
        settings = self.settings
        if settings.trace is None:
            return None
        self._trace = LiveTrace(settings.trace, settings.name, self.boot)
        return Lines(settings.name, self.names, self.boot)

    def _replica(self, log: OpLog, lines: Lines | None, now: int) -> Live:
        how = live_settings(self.settings, self._attic, self._keeper, self._regaining)
        return live(
            self.me, len(self.names), how, NoRecorder() if lines is None else lines, log, log.taken, now
        )

    def _complete_trace(self, made: Live, lines: Lines | None, now: int) -> None:
        if self._trace is None or lines is None or self.settings.trace is None:
            return
        earlier = earlier_rows(self.settings.trace, self.settings.name, self.boot)
        if earlier is not None:
            rows = missing_rows(self.log, self.me, made.codec, made.predecessors, earlier)
            count = complete(self._trace, lines, rows, now)
            if count:
                self._says.info("trace completed from the log", rows=count)

    async def _listen(self, folder: DataFolder) -> None:
        settings = self.settings
        identity = Identity(settings.cluster, settings.name, folder.log_id, self.boot)
        peers = {name: self.roster.address(name) for name in self.names if name != settings.name}
        self._links = Links(
            identity, settings.secret, settings.listen, peers, settings.links, self,
            Random(os.urandom(16)), self._clock, self._says, on_demand=settings.spread != "mesh",
        )  # fmt: skip
        await self._links.start()
        self.relink(self._early_wishes)

    def _broken(self, broken: "asyncio.Future[ThenceError]") -> None:
        self.failed = broken.result()
        self._says.error("this node must stop", why=str(self.failed))
        if not isinstance(self.failed, StorageError):
            for line in traceback.format_exception(self.failed):
                self._says.error("bug", trace=line.rstrip())
        self.stopping.set()

    # To the end

    def stop(self) -> None:
        """Begin to stop; whoever runs the node awaits `stopping` and closes it."""
        self.stopping.set()

    async def close(self) -> None:
        """Let peers have what was sent, for a moment; then close everything."""
        self._state = "draining"
        await self._loader.stop()
        await drained(self.settings.drain_us, self._drained, lambda: self.driver.delivered)
        await self._release()
        self._says.info("stopped", node=self.settings.name)

    def _drained(self) -> bool:
        """Everybody who can be reached has what this node sent. Over a tree others pass it on: then it is
        enough that everybody is fed who is streamed to."""
        links = self._links.status() if self._links else {}
        reachable = [self.names.index(name) for name, link in links.items() if link.up]
        progress = [self.driver.mesh.progress(peer) for peer in reachable]
        return self.driver.trouble is not None or all(p.acked >= self.log.vector[self.me] for p in progress)

    async def _release(self) -> None:
        await self._premises.close_door()
        if hasattr(self, "_loader"):
            await self._loader.stop()
        if self._links is not None:
            await self._links.close()
        try:
            if hasattr(self, "driver"):
                await self.driver.close()
            if self._trace is not None:
                self._trace.close()
        except StorageError as error:
            self.failed = self.failed or error
            self._says.error("the last records may not be on disk", why=str(error))
        finally:
            self._premises.finish_syncs()
            if self._attic is not None:
                self._attic.close()
            self._premises.leave()

    # Links (`links.Handler`) and the driver's outlet and sink

    def admit(self, peer: Identity) -> str | None:
        trouble = self.driver.trouble
        if trouble is not None:
            return f"{self.settings.name} cannot write at present: {trouble}"
        try:
            return self.roster.meet(peer.name, peer.log_id, peer.boot)
        except StorageError as error:
            return f"{self.settings.name} cannot write at present: {error}"

    def link_up(self, peer: str, now: int) -> None:
        del now
        self.driver.up(self.names.index(peer))

    def link_packets(self, peer: str, packets: list[bytes], now: int) -> None:
        self.driver.packets(self.names.index(peer), packets, now)

    def link_down(self, peer: str, why: str, now: int) -> None:
        del why, now
        self.driver.down(self.names.index(peer))

    def link_bug(self, error: Exception) -> None:
        self.driver.stops(error)

    def send(self, peer: int, packets: Sequence[bytes]) -> None:
        if self._links is not None:
            self._links.write(self.names[peer], packets)

    def queued(self, peer: int) -> int:
        return 0 if self._links is None else self._links.queued(self.names[peer])

    def relink(self, wishes: Sequence[LinkEffect]) -> None:
        if self._links is None:
            self._early_wishes += wishes
            return
        for wish in wishes:
            name = self.names[wish.peer]
            self._links.connect(name) if isinstance(wish, Connect) else self._links.disconnect(name)

    def begin_anew(self, why: str) -> None:
        self._says.error("cannot write: broadcasts are refused, links begin anew", why=why)
        if self._links is not None:
            self._links.begin_anew()

    def stepped(self, now: int) -> None:
        stable = self.driver.replica.stable
        if stable or self._settled:
            self._progress_at = now
        self._settled = self.driver.replica.settled
        if stable and self._sent_at:
            for tag in stable:
                at = self._sent_at.pop(tag.dot, None)
                if at is not None:
                    self.instruments.stability.observe(now - at)
        self._application.stepped(self, now)
        if self._regaining and not self.driver.mesh.recovering and self.driver.replica.regained():
            self._regaining = False
            recovering.end(self.settings.data)
            self._says.info("recovered", sent=self.log.vector[self.me])

    # What people see and ask for (`control.Controlled`)

    async def broadcast(self, payload: bytes) -> tuple[str, int]:
        [delivered] = await self.publish([payload])
        dot = delivered.message.dot
        return self.names[dot & ORIGIN_MASK], seq_of(dot)

    async def publish(self, payloads: Sequence[bytes]) -> list[Delivered]:
        must_fit(payloads, self.settings.links.frame_bytes_max - STAMP_BYTES)
        at, delivered = self._clock(), await self.driver.publish(payloads)
        if self.settings.stability.enabled and len(self._sent_at) < SAMPLES:
            self._sent_at[delivered[0].message.dot] = at
        return delivered

    async def load(self, load: Load) -> None:
        await self._loader.start(load)

    def fault(self, what: str, peer: str | None, delay_us: int) -> None:
        assert self._links
        self._links.fault(what, peer, delay_us)

    def metrics(self) -> str:
        return self.instruments.render()

    def health(self) -> str | None:
        if self._state != "running":
            return f"this node is {self._state}"
        return unwell(self.driver.trouble, self.driver.broken.done()) or self.driver.behind

    def status(self) -> Status:
        return status_of(self)

    @property
    def state(self) -> str:
        return self._state if self.driver.trouble is None else "broken"

    def links(self) -> dict[str, LinkStatus]:
        return self._links.status() if self._links else {}

    @property
    def started_at(self) -> int:
        return self._started_at

    @property
    def progress_at(self) -> int:
        """When something became stable, or had nothing to become so."""
        return self._progress_at

    def now(self) -> int:
        return self._clock()

    def load_status(self) -> LoadStatus | None:
        return self._loader.status()
