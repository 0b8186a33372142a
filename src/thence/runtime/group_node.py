"""A live node of a changing group: folder, logs, traces, machine, links and control put together.

The counterpart of `node` for groups whose members come and go (docs/protocols/live.md, *Changing groups*). It
adds the way into a group (resume, found, join), and ends the process when it has left. Links are in
`group_neighbours`, what people ask for in `group_controls`.

Invariant: a process that is told to leave, or that must stop, ends; nothing else ends it.
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
from thence.core.groups import Place, process_of
from thence.core.storage import DamageError
from thence.core.tag import Tag
from thence.replica.group import GroupNode
from thence.replica.group_parts import Application, Operation
from thence.replica.group_settings import GroupSettings
from thence.runtime.address import Address, parse_address
from thence.runtime.attic import FileAttic
from thence.runtime.control import ControlServer
from thence.runtime.diaries import Diaries
from thence.runtime.discovery import find_group
from thence.runtime.draining import drained
from thence.runtime.folder import DataFolder
from thence.runtime.group_controls import Controls
from thence.runtime.group_driver import GroupDriver
from thence.runtime.group_neighbours import Neighbours
from thence.runtime.links import Identity, LinkStatus
from thence.runtime.logs import StructuredLog
from thence.runtime.oserrors import failed
from thence.runtime.pacing import Clock
from thence.runtime.settings import NodeSettings
from thence.runtime.shelf import DiskShelf

SECOND: Final = 1_000_000
NUMBERS_BEGIN_S: Final = 1_735_689_600
"""The first of January 2025: numbers after the loss of a disk count from there, so as to be shorter."""
PACKET_BYTES: Final = 1 << 20
PIECE_BYTES: Final = 1 << 18
"""What travels at once, where frames may be so large: enough that a packet's overhead does not matter."""
SCRATCH: Final = "scratch"
"""In the data folder: what a restart makes anew."""


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
        self.neighbours: Neighbours | None = None
        self.driver: GroupDriver | None = None
        self.boot = 0
        self.address = str(settings.listen)
        """Where others reach this node."""
        self._state = "starting"
        self._contacts: dict[str, Address] = {}
        """Through whom it joins."""
        self._obstacles: list[str] = []
        self._attics: list[FileAttic] = []
        self._joins = False
        self._inside = False
        self._phase = ""
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
        self.controls: Final = Controls(self)

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
        if settings.http is not None:
            self._control = ControlServer(
                self.controls,
                settings.data,
                settings.name,
                settings.cluster,
                settings.allow_faults,
                self._says,
            )
            await self._control.start(settings.http)
        await self._enter(shelf, self._diaries)
        self._state = "running"

    async def _enter(self, shelf: DiskShelf, diaries: Diaries) -> None:
        """Resume, found or join."""
        machine = self._recalled(shelf)
        resumes = machine.member is not None
        if not resumes:
            await self._find(shelf, machine)
        neighbours = self.neighbours = await self._listen(shelf)
        machine.address = self.address
        for name in self._contacts:
            machine.meet(name)
        driver = self.driver = neighbours.driver = GroupDriver(
            self._make, machine, shelf, diaries, neighbours, self, self._clock, self._syncer,
            always=self.settings.log.sync == "always",
        )  # fmt: skip
        driver.on_delivery = self.controls.instruments.delivery.observe
        driver.broken.add_done_callback(self._broken)
        driver.start()
        if not resumes:
            driver.call(self._go_in)
        running = machine.member or machine.former
        diaries.end_others(self.settings.name, running.me if running else "", self.now())
        driver.start()

    def _recalled(self, shelf: DiskShelf) -> GroupNode:
        """The process as its disk knows it. One that nobody else was ever told of may go on as whom it was,
        whatever it has forgotten."""
        if shelf.forgetful and not shelf.contacts:
            shelf.remembered()
        while True:
            if shelf.forgetful:
                self._says.warn(
                    "the end of the log may be missing: this node comes back as a new incarnation"
                )
            try:
                return self._make(self._clock())
            except DamageError as damage:
                if not shelf.contacts:
                    raise UsageError(f"{damage}. `thence repair {shelf.path}` cuts it off there") from damage
                self._says.warn("log damaged", what=str(damage))
                shelf.mend(damage, self._clock())

    def _go_in(self, node: GroupNode, now: int) -> None:
        if self._contacts:
            self._joins = True
            node.join(now)
        elif node.former is not None:
            node.refound(now)
        else:
            node.found(now)

    async def _find(self, shelf: DiskShelf, machine: GroupNode) -> None:
        """Through whom to join; nobody: a group is to be founded."""
        settings = self.settings
        known = tuple(parse_address(where) for where in shelf.contacts.values())
        join = tuple(dict.fromkeys((*settings.join, *known)))
        if not join:
            return
        self._state = "looking for its group"
        found = await find_group(
            Identity(settings.cluster, settings.name, b"", 0), settings.listen, join,
            secret=settings.secret, settings=settings.links, random=Random(os.urandom(16)),
            clock=self._clock, log=self._says, patience_us=settings.group.patience_us,
            keeps=sum(machine.former.ledger.vector().values()) if machine.former else 0,
            tell=self._wait_for,
        )  # fmt: skip
        if found.highest > shelf.highest:
            # The disk was lost. Those who answer may not know the last number, if the group is split: seconds
            # count faster than incarnations.
            shelf.reserve(max(found.highest, self._clock() // SECOND - NUMBERS_BEGIN_S))
        self._contacts = {name: address for name, address in found.members if name != settings.name}
        if self._contacts:
            shelf.keep_contacts({name: str(address) for name, address in self._contacts.items()})

    async def _listen(self, shelf: DiskShelf) -> Neighbours:
        settings, folder = self.settings, self._folder
        assert folder
        identity = Identity(settings.cluster, settings.name, folder.log_id, self.boot)
        neighbours = Neighbours(settings, identity, shelf, self._clock, self._says)
        await neighbours.start(self._contacts)
        self.address = str(neighbours.address)
        return neighbours

    def _make(self, now: int) -> GroupNode:
        """The process, from what is on its disk."""
        assert self._shelf
        assert self._diaries
        self._application.recovering(True)
        try:
            node = GroupNode(
                self.settings.name, self._shelf, self._application, self._diaries, tuple(self._contacts),
                self._machine_settings(), now, address=self.address, attics=self._attic,
                forgetful=self._shelf.forgetful,
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
        frame_bytes = self.settings.links.frame_bytes_max // 2  # with room for names and the like
        return GroupSettings(
            packet_bytes=min(PACKET_BYTES, frame_bytes),
            piece_bytes=min(PIECE_BYTES, frame_bytes),
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
        await self.controls.loader.stop()
        await drained(self.settings.drain_us, self._drained, lambda: self.driver.taken if self.driver else 0)
        await self._release()
        self._says.info("stopped", node=self.settings.name)

    def _drained(self) -> bool:
        """Everybody who can be reached has what this node sent."""
        if self.driver is None or self.driver.trouble is not None or self.driver.node.member is None:
            return True
        member, near = self.driver.node.member, self.neighbours
        reachable = [name for name in member.view.side if near and near.linked(process_of(name))]
        sent = member.ledger.count(member.me)
        return all(member.ledger.row(name).get(member.me, 0) >= sent for name in reachable)

    async def _release(self) -> None:
        if self._control is not None:
            await self._control.close()
        await self.controls.loader.stop()
        if self.neighbours is not None:
            await self.neighbours.close()
        in_order = False
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

    # The driver's sink

    def taking(self, now: int) -> None:
        self._application.taking(self, now)
        if self.neighbours is not None:
            self.neighbours.look_around()

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
        self.controls.stepped(now)
        self._application.stepped(self, now)
        self.on_step()

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
            if self._shelf is not None and self._shelf.forgetful:
                with suppress(StorageError):  # then it is a new one again after the next start
                    self._shelf.remembered()
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

    # What is told of it

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
        """Of one that is no member: what it waits for, for people."""
        return sorted(f"{name} at {address}" for name, address in self._contacts.items()) or self._obstacles

    def _wait_for(self, obstacles: list[str]) -> None:
        self._obstacles = obstacles

    def links(self) -> dict[str, LinkStatus]:
        return self.neighbours.status() if self.neighbours else {}

    def now(self) -> int:
        return self._clock()

    async def publish(self, payloads: Sequence[bytes]) -> list[Place]:
        return await self.controls.publish(payloads)

    def leave(self) -> None:
        self.controls.leave()
