"""A live node of a changing group: folder, logs, traces, machine, links and control put together.

The counterpart of `node` for groups whose members come and go (docs/protocols/live.md, *Changing groups*). It
adds the way into a group (resume, found, join), keeps links to whomever the view speaks of, and ends the
process when it has left.

Invariant: whom others were told of as members, and where they are, is on disk before anything that follows
from it leaves: a process that has forgotten everything else still knows whom to ask.
"""

import asyncio
import os
import shutil
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from random import Random
from typing import Final, Protocol

from thence.core.errors import StorageError, UsageError
from thence.core.groups import Place, number_of, process_of
from thence.core.tag import Tag
from thence.replica.group import GroupNode
from thence.replica.group_parts import Application, Operation
from thence.replica.group_settings import GroupSettings
from thence.runtime.address import Address, parse_address
from thence.runtime.attic import FileAttic
from thence.runtime.control import ControlServer
from thence.runtime.diaries import Diaries
from thence.runtime.discovery import find_open_group
from thence.runtime.folder import DataFolder
from thence.runtime.group_driver import GroupDriver
from thence.runtime.group_report import status_of
from thence.runtime.groups import Open, Waiting, put_answer
from thence.runtime.instruments import Instruments
from thence.runtime.introductions import Introduction
from thence.runtime.links import Identity, LinkStatus
from thence.runtime.load import Load, Loader
from thence.runtime.logs import StructuredLog
from thence.runtime.open_links import OpenLinks
from thence.runtime.oserrors import failed
from thence.runtime.pacing import Clock
from thence.runtime.settings import NodeSettings
from thence.runtime.shelf import DiskShelf
from thence.runtime.status import LoadStatus, Status

SECOND: Final = 1_000_000
SCRATCH: Final = "scratch"
"""In the data folder: what a restart makes anew."""
DRAIN_LOOK_S: Final = 0.02
STAMP_BYTES: Final = 32 << 10
"""What a frame must have room for beside a payload."""


class GroupApplication(Application, Protocol):
    """What takes a node's messages, and is its state."""

    def recovering(self, begins: bool) -> None:
        """From here on, until it is called again, the machine tells what it finds on the disk."""
        ...

    def taking(self, node: "ChangingNode", now: int) -> None:
        """A step is about to be committed: take what is wanted."""
        ...

    def stepped(self, node: "ChangingNode", now: int) -> None:
        """A step is over."""
        ...


class GroupDrain:
    """The application of `thence node`: it takes everything at once and keeps nothing."""

    def apply(self, operation: Operation, own: bool, tag: Tag) -> None:
        """Nothing."""

    def stable(self, place: Place, tag: Tag) -> None:
        """Nothing."""

    def state(self) -> bytes:
        return b""

    def install(self, state: bytes) -> None:
        """Nothing."""

    def view_changed(self, members: tuple[str, ...]) -> None:
        """Nothing."""

    def orphaned(self, operation: Operation) -> None:
        """Nothing: it is sent again."""

    def recovering(self, begins: bool) -> None:
        """Nothing."""

    def taking(self, node: "ChangingNode", now: int) -> None:
        if node.driver is not None:
            node.driver.drain(now)

    def stepped(self, node: "ChangingNode", now: int) -> None:
        """Nothing."""


class ChangingNode:
    """Made by `start`, ended by `close`; between them its `driver` is what the application talks to."""

    def __init__(
        self, settings: NodeSettings, application: GroupApplication, log: StructuredLog, clock: Clock
    ) -> None:
        self.settings: Final = settings
        self._application: Final = application
        self._says: Final = log
        self._clock: Final = clock
        self._syncer: Final = ThreadPoolExecutor(1, thread_name_prefix="thence-sync")
        self.started_at: Final = clock()
        self._folder: DataFolder | None = None
        self._shelf: DiskShelf | None = None
        self._diaries: Diaries | None = None
        self._control: ControlServer | None = None
        self._links: OpenLinks | None = None
        self._loader: Loader | None = None
        self.driver: GroupDriver | None = None
        self.boot = 0
        self.address = str(settings.listen)
        """Where others reach this node."""
        self._state = "starting"
        self._contacts: dict[str, Address] = {}
        """Through whom it joins."""
        self._attics: list[FileAttic] = []
        self._floor = 0
        self._joins = False
        self._inside = False
        self._seen = ("", 0, 0, 0)
        """Of the view, when links were last looked at: whatever changes it changes one of these."""
        self._phase = ""
        self._met: dict[str, tuple[bytes, int]] = {}
        self.progress_at = clock()
        """When something became stable, or had nothing to become so."""
        self._unstable = 0
        self.stopping: Final = asyncio.Event()
        self.failed: StorageError | None = None
        """Why it had to stop, if it did."""
        self.on_step: Callable[[], None] = lambda: None
        self._is_in: Final = asyncio.Event()
        self.unclean = False
        """It has left, and nobody may have got what it sent last."""
        self.instruments: Final = Instruments(self.status)

    # From settings to a running node

    async def start(self) -> None:
        try:
            await self._start()
        except BaseException:
            await self._release()
            raise

    async def _start(self) -> None:
        settings = self.settings
        if settings.order != "graph" or settings.spread != "mesh" or not settings.stability.enabled:
            raise UsageError(
                "a group whose members change has order graph, spread mesh and stability: "
                "name all its members to have anything else"
            )
        self._folder = folder = DataFolder(settings.data)
        self._shelf = shelf = DiskShelf(folder, settings.name, settings.cluster, settings.log)
        self.boot = shelf.boot()
        self._diaries = Diaries(settings.trace, self.boot)
        self._loader = Loader(self.publish)
        if settings.http is not None:
            self._control = ControlServer(
                self, settings.data, settings.name, settings.cluster, settings.allow_faults, self._says
            )
            await self._control.start(settings.http)
        while not await self._enter(shelf, self._diaries):
            pass  # what was on the disk came to nothing, and is gone now
        self._state = "running"

    async def _enter(self, shelf: DiskShelf, diaries: Diaries) -> bool:
        """Resume, found or join. False: what looked like something to resume was nothing."""
        resumes = bool(shelf.kept())
        founds = not resumes and not await self._find(shelf)
        await self._listen()
        self.driver = driver = GroupDriver(
            self._make, shelf, diaries, self, self, self._clock, self._syncer,
            always=self.settings.log.sync == "always",
        )  # fmt: skip
        if driver.node.member is None and resumes:
            assert self._links
            await driver.close()
            await self._links.close()
            self.driver = None
            return False
        driver.broken.add_done_callback(self._broken)
        driver.start()
        if founds:
            driver.call(lambda node, now: node.found(now))
        elif not resumes:
            self._joins = True
            driver.call(lambda node, now: node.join(now))
        diaries.end_others(
            self.settings.name, driver.node.member.me if driver.node.member else "", self.now()
        )
        driver.start()
        return True

    async def _find(self, shelf: DiskShelf) -> bool:
        """Through whom to join; False: nobody, so that a group is to be founded."""
        settings = self.settings
        join = settings.join or tuple(parse_address(where) for where in shelf.contacts.values())
        if not join:
            return False
        self._state = "looking for its group"
        found = await find_open_group(
            Identity(settings.cluster, settings.name, b"", 0), settings.listen, join,
            secret=settings.secret, settings=settings.links, random=Random(os.urandom(16)),
            clock=self._clock, log=self._says,
        )  # fmt: skip
        self._floor = found.highest
        self._contacts = {name: address for name, address in found.members if name != settings.name}
        shelf.keep_contacts({name: str(address) for name, address in self._contacts.items()})
        return bool(self._contacts)

    async def _listen(self) -> None:
        settings, folder = self.settings, self._folder
        assert folder
        identity = Identity(settings.cluster, settings.name, folder.log_id, self.boot)
        self._links = OpenLinks(
            identity, settings.secret, settings.listen, settings.links, self,
            Random(os.urandom(16)), self._clock, self._says, self._answer,
        )  # fmt: skip
        await self._links.start()
        self.address = str(self._links.address)
        for name, address in self._contacts.items():
            self._links.know(name, address, at_once=True)

    def _make(self, now: int) -> GroupNode:
        """The process, from what is on its disk."""
        assert self._shelf
        assert self._diaries
        self._application.recovering(True)
        try:
            node = GroupNode(
                self.settings.name, self._shelf, self._application, self._diaries, tuple(self._contacts),
                self._machine_settings(), now, self._floor, self.address, self._attic,
            )  # fmt: skip
        finally:
            self._application.recovering(False)
        if node.member is None and self._joins:
            node.join(now)
        return node

    def _attic(self) -> FileAttic:
        """For an incarnation's tags; the one before it may still have its own."""
        assert self._folder
        folder = self._folder.path / SCRATCH / str(len(self._attics))
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise failed(error, str(folder)) from error
        self._attics.append(FileAttic(folder))
        return self._attics[-1]

    def _machine_settings(self) -> GroupSettings:
        group, mesh = self.settings.group, self.settings.mesh
        return GroupSettings(
            tags_max=self.settings.stability.tags_max,
            window=mesh.window,
            window_bytes=mesh.window_bytes,
            receipt_every_us=group.receipt_every_us,
            receipt_busy_us=group.receipt_busy_us,
            receipt_idle_us=group.receipt_idle_us,
            unheard_us=group.receipt_idle_us + SECOND // 2,
            pending_max=self.settings.application.inbox_max,
            join_timeout_us=group.join_timeout_us,
            leave_timeout_us=group.leave_timeout_us,
            silence_us=group.silence_us,
        )

    async def entered(self) -> None:
        """Until it is a member, or must stop."""
        waits = [asyncio.ensure_future(event.wait()) for event in (self._is_in, self.stopping)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if self.failed is not None:
            raise StorageError(str(self.failed))

    def _broken(self, broken: "asyncio.Future[StorageError]") -> None:
        self.failed = broken.result()
        self._says.error("this node must stop", why=str(self.failed))
        bug = self.driver.bug if self.driver else None
        if bug is not None:
            for line in traceback.format_exception(bug):
                self._says.error("bug", trace=line.rstrip())
        self.stopping.set()
        self.on_step()

    # To the end

    def stop(self) -> None:
        """Begin to stop; whoever runs the node awaits `stopping` and closes it."""
        self.stopping.set()

    async def close(self) -> None:
        """Let others have what was sent, for a moment; then close everything."""
        self._state = "draining"
        with suppress(TimeoutError):
            async with asyncio.timeout(self.settings.drain_us / SECOND):
                while not self._drained():
                    await asyncio.sleep(DRAIN_LOOK_S)
        await self._release()
        self._says.info("stopped", node=self.settings.name)

    def _drained(self) -> bool:
        """Everybody who can be reached has what this node sent."""
        if self.driver is None or self.driver.trouble is not None or self.driver.node.member is None:
            return True
        member, links = self.driver.node.member, self._links
        reachable = [name for name in member.view.side if links and links.linked(process_of(name))]
        sent = member.ledger.count(member.me)
        return all(member.ledger.row(name).get(member.me, 0) >= sent for name in reachable)

    async def _release(self) -> None:
        if self._control is not None:
            await self._control.close()
        if self._loader is not None:
            await self._loader.stop()
        if self._links is not None:
            await self._links.close()
        in_order = True
        try:
            if self.driver is not None:
                in_order = await self.driver.close()
            if self._diaries is not None:
                self._diaries.close()
        except StorageError as error:
            in_order = False
            self.failed = self.failed or error
            self._says.error("the last records may not be on disk", why=str(error))
        finally:
            self._syncer.shutdown(wait=True)
            for attic in self._attics:
                attic.close()
            if self._folder is not None:
                shutil.rmtree(self._folder.path / SCRATCH, ignore_errors=True)
            if self._shelf is not None:
                self._shelf.close(in_order and self.failed is None)
            if self._folder is not None:
                self._folder.close()

    # Links (`links.Handler`) and the driver's outlet and sink

    def admit(self, peer: Identity) -> str | None:
        me, driver = self.settings.name, self.driver
        if driver is None:
            return f"{me} is starting"
        if driver.trouble is not None:
            return f"{me} cannot write at present: {driver.trouble}"
        log_id, boot = self._met.get(peer.name, (peer.log_id, 0))
        if log_id != peer.log_id and self._links is not None and self._links.linked(peer.name):
            return f"another node called {peer.name} is linked here: two nodes with one name"
        if log_id == peer.log_id and peer.boot < boot:
            return (
                f"{peer.name} was here with a newer boot ({boot}, not {peer.boot}): a copy of its data folder"
            )
        self._met[peer.name] = peer.log_id, peer.boot
        return None

    def link_up(self, peer: str, now: int) -> None:
        del now
        if self.driver is not None:
            self.driver.up(peer)

    def link_packets(self, peer: str, packets: list[bytes], now: int) -> None:
        if self.driver is not None:
            self.driver.packets(peer, packets, now)

    def link_down(self, peer: str, why: str, now: int) -> None:
        del why, now
        if self.driver is not None:
            self.driver.down(peer)

    def _answer(self, hello: Introduction) -> bytes:
        """To one that asks for the group."""
        settings = self.settings
        member = self.driver.node.member if self.driver else None
        if member is None or member.view.leaving:
            return put_answer(Waiting(settings.name, parse_address(self.address), settings.join))
        self._says.info("group told", to=hello.identity.name)
        side = {process_of(name) for name in member.view.side}
        known = {name: where for name, where in member.view.by_process().items() if name in side}
        asks = hello.identity.name
        numbers = [number_of(name) for name in member.ledger.names if process_of(name) == asks]
        members = sorted([(name, parse_address(where)) for name, where in known.items()])
        return put_answer(Open(tuple(members), max(numbers, default=0)))

    def send(self, process: str, packets: Sequence[bytes]) -> None:
        if self._links is not None:
            self._links.write(process, packets)

    def begin_anew(self, why: str) -> None:
        self._says.error("cannot write: broadcasts are refused, links begin anew", why=why)
        for name, link in self._links.status().items() if self._links else ():
            if link.up and not link.cut:
                assert self._links
                self._links.cut(name)
                self._links.mend(name)

    def taking(self, now: int) -> None:
        self._application.taking(self, now)
        self._look_around()

    def stepped(self, now: int) -> None:
        driver = self.driver
        if driver is None:
            return
        member = driver.node.member
        unstable = len(member.ledger.window) if member else 0
        if unstable < self._unstable or not self._unstable:
            self.progress_at = now
        self._unstable = unstable
        self._tell()
        self._application.stepped(self, now)
        self.on_step()

    def _look_around(self) -> None:
        """Before a step is committed: whom it has made known must be on disk when it is."""
        driver, links = self.driver, self._links
        if driver is None or links is None or self._shelf is None or driver.node.member is None:
            return
        view = driver.node.member.view
        now = (driver.node.member.me, len(view.addresses), len(view.view), len(view.departing))
        if now == self._seen:
            return
        self._seen = now
        known = driver.node.addresses
        others = {name: where for name, where in known.items() if name != self.settings.name}
        self._shelf.keep_contacts(others)
        for name, where in others.items():
            with suppress(UsageError):  # an address that is none: it will have to call
                links.know(name, parse_address(where))
        for name in links.status().keys() - others.keys():
            links.dismiss(name)

    def _tell(self) -> None:
        """What has become of this process, when it changes."""
        driver = self.driver
        assert driver
        node = driver.node
        phase = f"{node.status} {node.member.me if node.member else ''}"
        if phase == self._phase:
            return
        self._phase = phase
        view = sorted(node.member.view.view) if node.member else []
        self._says.info(node.status, node=node.member.me if node.member else node.name, members=len(view))
        self._inside = self._inside or node.member is not None
        if node.member is not None:
            self._joins = False
            self._is_in.set()
        elif self._inside and node.status == "outside":
            self._has_left(node.unclean)

    def _has_left(self, unclean: bool) -> None:
        self.unclean = unclean
        if unclean:
            self._says.warn("left, but nobody said that they have what was sent last")
        else:
            self._says.info("left")
        with suppress(StorageError):
            if self._shelf is not None:
                self._shelf.left(unclean)
        self.stopping.set()
        self.on_step()

    # What people see and ask for (`control.Controlled`)

    async def broadcast(self, payload: bytes) -> tuple[str, int]:
        [place] = await self.publish([payload])
        return place

    async def publish(self, payloads: Sequence[bytes]) -> list[Place]:
        most = self.settings.links.frame_bytes_max - STAMP_BYTES
        longest = max(map(len, payloads), default=0)
        if longest > most:
            raise UsageError(f"a payload of {longest} bytes: links carry up to {most}")
        return await self._running.publish(payloads)

    @property
    def _running(self) -> GroupDriver:
        if self.driver is None:
            raise UsageError(f"{self.settings.name} is {self._state}: it is no member yet")
        return self.driver

    async def load(self, load: Load) -> None:
        assert self._loader
        await self._loader.start(load)

    def leave(self) -> None:
        self._running.call(lambda node, now: node.leave(now))

    def evict(self, who: str, force: bool = False) -> str:
        self._check_evictable(who, force)
        evicted: list[str] = []
        self._running.call(lambda node, now: evicted.append(node.evict(who, now)))
        return evicted[0]

    def _check_evictable(self, who: str, force: bool) -> None:
        member = self._running.node.member
        if member is None:
            return  # it says so itself
        process = process_of(who)
        if process == self.settings.name:
            raise UsageError(f"{who} is this node itself: let it leave instead")
        there = sorted(process_of(name) for name in member.view.side)
        if process not in there:
            alone = "nobody else is a member" if len(there) == 1 else f"there is {', '.join(there)}"
            raise UsageError(f"{who} is not a member, or is being evicted already: {alone}")
        if not force and self._links is not None and self._links.linked(process):
            raise UsageError(f"{who} answers and would come back: let it leave, or say --force")

    def fault(self, what: str, peer: str | None, delay_us: int) -> None:
        links = self._links
        names = list(links.status()) if links else []
        if links is None or (peer is not None and peer not in names):
            raise UsageError(f"{peer} is no peer of {self.settings.name}; there is {', '.join(names)}")
        for name in names if peer is None else [peer]:
            if what == "cut":
                links.cut(name)
            elif what == "slow":
                links.slow(name, delay_us)
            else:
                links.slow(name, 0)
                links.mend(name)

    def metrics(self) -> str:
        return self.instruments.render()

    def health(self) -> str | None:
        if self._state != "running" or self.driver is None:
            return f"this node is {self._state}"
        if self.driver.node.member is None:
            return f"this node is {self.driver.node.status}"
        trouble = self.driver.trouble
        return None if trouble is None else f"cannot write: {trouble}"

    def status(self) -> Status:
        return status_of(self)

    @property
    def state(self) -> str:
        driver = self.driver
        if driver is None or self._state != "running":
            return self._state
        if driver.trouble is not None:
            return "broken"
        return "running" if driver.node.status == "member" else driver.node.status

    @property
    def waiting_for(self) -> list[str]:
        return sorted(f"{name} at {address}" for name, address in self._contacts.items())

    def links(self) -> dict[str, LinkStatus]:
        return self._links.status() if self._links else {}

    def now(self) -> int:
        return self._clock()

    def load_status(self) -> LoadStatus | None:
        return self._loader.status() if self._loader else None
