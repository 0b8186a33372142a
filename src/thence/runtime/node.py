"""A live node: folder, machine, links and control put together, started and stopped.

It decides nothing about the protocol and takes no step itself (`driver`); what it adds is the way from
settings to a running node, and what people see of it and ask of it (`control.Controlled`). Groups over a
mesh and groups over a tree differ in a part (`Kind`): `changing`, `open_trees`.

Invariant: a process that is told to leave, or that must stop, ends; nothing else ends it.
"""

import asyncio
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from thence.core.errors import StorageError, ThenceError, UsageError, told
from thence.core.groups import Place
from thence.replica.group.settings import GroupSettings
from thence.replica.life_tag import LifeTag, Sent
from thence.replica.send_queue import SendQueue
from thence.replica.step_outputs import Trace
from thence.replica.steps import Steps
from thence.runtime.address import Address
from thence.runtime.drain import NodeApplication
from thence.runtime.draining import drained
from thence.runtime.driver import Driver
from thence.runtime.folder import DataFolder
from thence.runtime.instruments import Instruments
from thence.runtime.links import Links, LinkStatus
from thence.runtime.load import Load, Loader
from thence.runtime.logs import NodeLog
from thence.runtime.outlet import Call, Outlet
from thence.runtime.pacing import Clock
from thence.runtime.report import KindFacts, status_of
from thence.runtime.resources import NodeResources
from thence.runtime.sampling import Sampling
from thence.runtime.settings import NodeSettings
from thence.runtime.status import LoadStatus, Status
from thence.runtime.trace_files import TraceWriters

LOOK_EVERY_US: Final = 100_000
"""How often to look whether something has become stable: people see that in seconds."""

SAMPLES: Final = 1024
"""Own messages whose way to stability is being measured at most."""


class Kind(Protocol):
    """What a node's group is like."""

    boot: int

    @property
    def links(self) -> Links | None: ...

    @property
    def drains(self) -> bool:
        """May anything be on its way to it, or to others?"""
        ...

    def open(self, folder: DataFolder) -> Trace:
        """What is in the folder; from here on it is this start's."""
        ...

    async def enter(self) -> None:
        """Find the group and go in: the machine runs (`Node.drive`), and links are made."""
        ...

    def stepped(self, now: int) -> None:
        """A step is over."""
        ...

    def has_progress(self) -> bool:
        """Did something become stable since the last time, or had nothing to?"""
        ...

    def is_drained(self) -> bool:
        """Do all members that can be reached have what this node sent?"""
        ...

    async def unlink(self) -> None:
        """From here on nothing comes over links."""
        ...

    def close(self, in_order: bool) -> None:
        """The end. `in_order`: everything is on the disk."""
        ...

    def phase(self) -> str:
        """Of a node that runs and can write."""
        ...

    def unwell(self) -> str | None:
        """What is wrong with it, beside what the driver knows."""
        ...

    def facts(self, now: int) -> KindFacts: ...

    def addressed(self, payloads: Sequence[bytes], group: str) -> Sequence[bytes]:
        """For a group; empty: for all, or for any. `UsageError`: there are none, or it is none."""
        ...

    def regroup(self, group: str, join: bool) -> None:
        """Join a group, or leave it. `UsageError`: there is only one."""
        ...

    def leave(self, force: bool) -> None: ...

    def evict(self, who: str, force: bool) -> str: ...

    def bury(self, who: str) -> None: ...


class Node:
    """Made by `start`, ended by `close`; between them its `driver` is what the application talks to."""

    def __init__(
        self,
        settings: NodeSettings,
        application: NodeApplication,
        log: NodeLog,
        clock: Clock,
        kind: "Callable[[Node], Kind]",
    ) -> None:
        self.settings: Final = settings
        self.application: Final = application
        self.appetite: Final = application.appetite
        self.tell: Final = application.tell
        self.says: Final = log
        self.clock: Final = clock
        self._resources: Final = NodeResources(settings, log)
        self.started_at: Final = clock()
        self.driver: Driver[Any] | None = None
        self._trace: Trace | None = None
        self.phase = "starting"
        """Until it runs, and after."""
        self.progress_at = clock()
        """When something became stable, or had nothing to become so, as far as it was looked at."""
        self._look_at = 0
        self._sent: deque[tuple[LifeTag, int]] = deque()
        """Some of the own messages that are not stable, and when they were sent."""
        self.stopping: Final = asyncio.Event()
        self.is_in: Final = asyncio.Event()
        """It is a member."""
        self.failed: ThenceError | None = None
        """Why it had to stop, if it did."""
        self._released = False
        self.unclean = False
        """It has left, and perhaps without what it sent last."""
        self.on_step: Callable[[], None] = lambda: None
        self._loader: Final = Loader(self._load)
        self._load_group = ""
        self._sampling: Sampling | None = None
        self.instruments: Final = Instruments(self.status)
        self.kind: Final = kind(self)

    # From settings to a running node

    async def start(self) -> None:
        try:
            self._trace = self.kind.open(self._resources.acquire())
            control = await self._resources.open_door(self)
            await self.kind.enter()
            self._begin_sampling()
        except BaseException:
            await self._release()
            raise
        self.phase = "running"
        self.says.info(
            "running", node=self.settings.name, boot=self.kind.boot, listen=str(self.bound),
            **({"advertise": self.address} if self.settings.advertise else {}), control=control,
        )  # fmt: skip

    def _begin_sampling(self) -> None:
        settings = self.settings
        trace = self._trace
        if settings.trace is not None and settings.trace_every_us and isinstance(trace, TraceWriters):
            self._sampling = Sampling(
                settings.trace, settings.name, settings.trace_every_us, self.clock, self.status, self.says,
                settings.run, lambda: (trace.delivered_bytes, trace.state_bytes),
            )  # fmt: skip
            self._sampling.start()

    def drive(
        self, machine: Any, make: Callable[[int], Any], outlet: Outlet, settings: GroupSettings
    ) -> "Driver[Any]":
        """From here on the machine takes steps. `make` builds it anew, from the disk."""
        assert self._trace is not None
        queue = SendQueue[Call](settings)
        steps = Steps(machine, make, self._trace, queue, self.clock())
        self.driver = Driver(steps, outlet, self, self.clock, self._resources.syncer)
        self.driver.latency.observe = self.instruments.delivery.observe
        self.driver.broken.add_done_callback(self._broken)
        return self.driver

    @property
    def running(self) -> "Driver[Any]":
        if self.driver is None:
            raise UsageError(f"{self.settings.name} is {self.state}: it is no member yet")
        return self.driver

    async def entered(self) -> None:
        """Until it is a member, or must stop."""
        waits = [asyncio.ensure_future(event.wait()) for event in (self.is_in, self.stopping)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if self.failed is not None:
            raise told(self.failed)

    def _broken(self, broken: "asyncio.Future[ThenceError]") -> None:
        self.failed = broken.result()
        self.says.error("this node must stop", why=str(self.failed))
        if not isinstance(self.failed, StorageError):
            for line in traceback.format_exception(self.failed):
                self.says.error("bug", trace=line.rstrip())
        self.stopping.set()
        self.on_step()

    # To the end

    def stop(self) -> None:
        """Begin to stop; what runs the node awaits `stopping` and closes it."""
        self.stopping.set()

    async def close(self) -> None:
        """Let others have what was sent, for a moment; then close everything."""
        if self._released:
            return
        self.phase = "draining"
        await self._loader.stop()
        driver = self.driver
        if driver is not None and self.kind.drains:
            await drained(self.settings.drain_us, self._is_drained, lambda: driver.steps.taken)
        await self._release()
        self.says.info("stopped", node=self.settings.name)

    def _is_drained(self) -> bool:
        return self.driver is None or self.driver.trouble is not None or self.kind.is_drained()

    async def _release(self) -> None:
        self._released = True
        await self._resources.close_door()
        await self._loader.stop()
        if self._sampling is not None:
            self._sampling.close()
        await self.kind.unlink()
        in_order = False
        try:
            if self.driver is not None:
                in_order = await self.driver.close()
        except StorageError as error:
            self.failed = self.failed or error
            self.says.error("the last records may not be on disk", why=str(error))
        finally:
            self._resources.finish_syncs()
            try:
                self.kind.close(in_order and self.failed is None)
            except StorageError as error:
                self.failed = self.failed or error
                self.says.error("the last records may not be on disk", why=str(error))
            self._resources.release()

    # The driver's sink

    def stepped(self, now: int) -> None:
        driver = self.driver
        if driver is None:
            return
        if driver.steps.why is None:
            if now >= self._look_at:
                self._look_at = now + LOOK_EVERY_US
                if self.kind.has_progress():
                    self.progress_at = now
            self.kind.stepped(now)
            if self._sent:
                self._measure(driver, now)
            self.application.stepped(self, now)
        self.on_step()

    def _measure(self, driver: "Driver[Any]", now: int) -> None:
        """How long own messages take to become stable."""
        try:
            while self._sent and driver.machine.has_reached(self._sent[0][0], None):
                self.instruments.stability.observe(now - self._sent.popleft()[1])
        except UsageError:  # it never will: the group went on without this node
            self._sent.clear()

    # What people see and ask for (`control.Controlled`)

    async def publish(self, payloads: Sequence[bytes]) -> Sequence[Sent]:
        at, sent = self.clock(), await self.running.publish(payloads)
        if len(self._sent) < SAMPLES and isinstance(tag := sent[0][1], LifeTag):
            self._sent.append((tag, at))
        return sent

    async def broadcast(self, payload: bytes, group: str = "") -> Place:
        [(place, _)] = await self.publish(self.kind.addressed([payload], group))
        return place

    async def _load(self, payloads: Sequence[bytes]) -> None:
        await self.publish(self.kind.addressed(payloads, self._load_group))

    async def load(self, load: Load) -> None:
        if load.count != 0:
            self.kind.addressed([b""], load.group)  # told at once, if there is no group
        await self._loader.start(load)
        self._load_group = load.group

    def load_status(self) -> LoadStatus | None:
        return self._loader.status()

    def leave(self, force: bool = False) -> None:
        self.kind.leave(force)

    def evict(self, who: str, force: bool = False) -> str:
        return self.kind.evict(who, force)

    def bury(self, who: str) -> None:
        """One that was evicted never comes back with what it had: nothing is kept for it any more."""
        self.kind.bury(who)

    def regroup(self, group: str, join: bool) -> None:
        self.kind.regroup(group, join)

    def fault(self, what: str, peer: str | None, delay_us: int) -> None:
        if self.kind.links is None:
            raise UsageError(f"{self.settings.name} has no links yet")
        self.kind.links.fault(what, peer, delay_us)
        if self._sampling is not None:
            self._sampling.fault(what, sorted(self.link_status()) if peer is None else [peer])

    def metrics(self) -> str:
        return self.instruments.render()

    def health(self) -> str | None:
        driver = self.driver
        if driver is not None and driver.trouble is not None:
            broken = driver.broken.done()
            return f"this node must stop: {driver.trouble}" if broken else f"cannot write: {driver.trouble}"
        if self.phase == "running" and (why := self.kind.unwell()):
            return why
        return None if self.state == "running" else f"this node is {self.state}"

    def status(self) -> Status:
        return status_of(self)

    @property
    def state(self) -> str:
        driver = self.driver
        if driver is None or self.phase != "running":
            return self.phase
        return "broken" if driver.trouble is not None else self.kind.phase()

    def link_status(self) -> dict[str, LinkStatus]:
        return self.kind.links.status() if self.kind.links else {}

    @property
    def address(self) -> str:
        """Where others reach this node."""
        return str(self.settings.reached_at(self.bound))

    @property
    def bound(self) -> Address:
        """Where it listens."""
        return self.kind.links.address if self.kind.links else self.settings.listen


class Enters(Protocol):
    """A node, or what is built on one."""

    async def start(self) -> None: ...

    async def entered(self) -> None: ...

    async def close(self) -> None: ...


async def enter(host: Enters) -> None:
    """Start it, until it is a member; closed if that fails."""
    await host.start()
    try:
        await host.entered()
    except BaseException:
        await host.close()
        raise
