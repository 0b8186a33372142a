"""A live node of a changing group: folder, logs, traces, machine, links and control put together.

The counterpart of `node` for groups whose members come and go (docs/protocols/live.md, *Changing groups*). It
ends the process when it has left. The way into a group is in `way_in`, links are in `group_neighbours`, what
people ask for is in `group_controls`.

Invariant: a process that is told to leave, or that must stop, ends; nothing else ends it.
"""

import asyncio
import os
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from thence.core.errors import StorageError, ThenceError, UsageError
from thence.core.groups import Place, process_of
from thence.replica.group import GroupNode
from thence.replica.group_lineage import Rollback
from thence.runtime.asked import told
from thence.runtime.attic import Attics
from thence.runtime.diaries import Diaries, next_boot
from thence.runtime.draining import drained
from thence.runtime.group_controls import Controls
from thence.runtime.group_drain import GroupApplication
from thence.runtime.group_driver import GroupDriver
from thence.runtime.group_machine import machine_settings
from thence.runtime.group_neighbours import Neighbours
from thence.runtime.links import Identity, LinkStatus
from thence.runtime.logs import StructuredLog
from thence.runtime.pacing import Clock
from thence.runtime.premises import Premises
from thence.runtime.settings import NodeSettings
from thence.runtime.shelf import DiskShelf
from thence.runtime.way_in import WayIn

START_BITS: Final = 32
"""Of the number of a start that are chance; the others count."""


class ChangingNode:
    """Made by `start`, ended by `close`; between them its `driver` is what the application talks to."""

    def __init__(
        self, settings: NodeSettings, application: GroupApplication, log: StructuredLog, clock: Clock
    ) -> None:
        self.settings: Final = settings
        self._application: Final = application
        self._says: Final = log
        self._clock: Final = clock
        self._premises: Final = Premises(settings, log)
        self.started_at: Final = clock()
        self._shelf: DiskShelf | None = None
        self._diaries: Diaries | None = None
        self.neighbours: Neighbours | None = None
        self.driver: GroupDriver | None = None
        self.boot = 0
        self._start_number = 0
        self.address = str(settings.listen)
        """Where others reach this node."""
        self._state = "starting"
        self._way: Final = WayIn(settings, clock, log)
        self._attics: Final = Attics(settings.data)
        self._inside = False
        self._phase = ""
        self.progress_at = clock()
        """When something became stable, or had nothing to become so."""
        self._unstable = 0
        self.stopping: Final = asyncio.Event()
        self.failed: ThenceError | None = None
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
        folder = self._premises.enter()
        self._shelf = shelf = DiskShelf(folder, settings.name, settings.cluster, settings.log)
        self.boot = shelf.boot()
        # A folder that was put back counts boots a second time: peers and traces must not mix them up.
        self._start_number = self.boot << START_BITS | int.from_bytes(os.urandom(START_BITS // 8), "little")
        traced = next_boot(settings.trace, settings.name, 0) if settings.trace else 0
        self._diaries = Diaries(settings.trace, max(self.boot, traced))
        await self._premises.open_door(self.controls)
        await self._enter(shelf, self._diaries)
        self._state = "running"

    async def _enter(self, shelf: DiskShelf, diaries: Diaries) -> None:
        """Resume, found or join."""
        machine = self._way.recalled(shelf, self._make)
        resumes = machine.member is not None
        join = self._way.asks(shelf)
        if not resumes and join:
            self._state = "looking for its group"
            await self._way.find(join, shelf, machine)
        neighbours = self.neighbours = await self._listen(shelf)
        machine.address = self.address
        for name in self._way.contacts:
            machine.meet(name)
        driver = self.driver = neighbours.driver = GroupDriver(
            self._make, machine, shelf, diaries, neighbours, self, self._clock, self._premises.syncer,
        )  # fmt: skip
        driver.on_delivery = self.controls.instruments.delivery.observe
        driver.broken.add_done_callback(self._broken)
        if neighbours.bug is not None:
            driver.stops(neighbours.bug)
        driver.start()
        if not resumes:
            driver.call(self._way.go_in)
        running = machine.member or machine.former
        diaries.end_others(self.settings.name, running.me if running else "", self.now())
        driver.start()

    async def _listen(self, shelf: DiskShelf) -> Neighbours:
        settings, folder = self.settings, self._premises.folder
        assert folder
        identity = Identity(settings.cluster, settings.name, folder.log_id, self.boot)
        neighbours = Neighbours(settings, identity, shelf, self._clock, self._says)
        await neighbours.start(self._way.contacts)
        self.address = str(neighbours.address)
        return neighbours

    def _make(self, now: int) -> GroupNode:
        """The process, from what is on its disk."""
        assert self._shelf
        assert self._diaries
        self._application.recovering(True)
        try:
            node = GroupNode(
                self.settings.name, self._shelf, self._application, self._diaries,
                tuple(self._way.contacts), machine_settings(self.settings), now,
                address=self.address, attics=self._attics, forgetful=self._shelf.forgetful,
                start=self._start_number, sessions=True,
            )  # fmt: skip
        finally:
            self._application.recovering(False)
        self._way.again(node, now)
        return node

    async def entered(self) -> None:
        """Until it is a member, or must stop."""
        waits = [asyncio.ensure_future(event.wait()) for event in (self._is_in, self.stopping)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if self.failed is not None:
            raise told(self.failed)

    def _broken(self, broken: "asyncio.Future[ThenceError]") -> None:
        self.failed = broken.result()
        self._says.error("this node must stop", why=str(self.failed))
        if not isinstance(self.failed, StorageError):
            for line in traceback.format_exception(self.failed):
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
        driver = self.driver
        if driver is not None and driver.node.member is not None:  # else nothing is on its way to it
            await drained(self.settings.drain_us, self._drained, lambda: driver.taken)
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
        await self._premises.close_door()
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
            self._premises.finish_syncs()
            if self._premises.folder is not None:
                self._attics.close()
            if self._shelf is not None:
                self._shelf.close(in_order and self.failed is None)
            self._premises.leave()

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
        if node.rollback is not None:
            self._put_back(node, node.rollback)
        view = sorted(node.member.view.view) if node.member else []
        self._says.info(node.status, node=node.member.me if node.member else node.name, members=len(view))
        self._inside = self._inside or node.member is not None
        if node.member is not None:
            self._way.joins = False
            self._is_in.set()
            if self._shelf is not None and self._shelf.forgetful:
                with suppress(StorageError):  # then it is a new one again after the next start
                    self._shelf.remembered()
        elif self._inside and node.status == "outside":
            self._has_left(node.unclean)

    def _put_back(self, node: GroupNode, found: Rollback) -> None:
        """Others know that this node's data folder is older than what it has sent: say so, and keep it."""
        former = node.former
        assert former is not None
        own = found.origin == former.me
        self._says.error(
            "this data folder was put back to an earlier state" if own else "another node was put back to an "
            "earlier state, and this one has listened to it: both come back as new incarnations",
            node=former.me, origin=found.origin, agreed=found.agreed, told_by=found.source,
            others_have=f"{found.agreed + 1}..{found.theirs}" if found.theirs > found.agreed else "none",
            sent_again=max(0, former.ledger.count(found.origin) - found.agreed),
        )  # fmt: skip
        self._way.returns(node)
        with suppress(StorageError):  # then it finds out again after the next start
            if self._shelf is not None and not self._shelf.forgetful:
                self._shelf.forget()

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
        return self._way.waiting_for

    def links(self) -> dict[str, LinkStatus]:
        return self.neighbours.status() if self.neighbours else {}

    def now(self) -> int:
        return self._clock()

    async def publish(self, payloads: Sequence[bytes]) -> list[Place]:
        return await self.controls.publish(payloads)

    def leave(self) -> None:
        self.controls.leave()
