"""What a node of a group has, closed or not: a folder of incarnations, a way in, links by its view.

It ends the process when it has left. The way into a group is in `bootstrap`, links are in `group_neighbours`.
"""

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from thence.core.errors import StorageError, UsageError
from thence.core.groups import START_BITS, NamedMessage, process_of
from thence.replica.group.ledger.state import drained
from thence.replica.group.lifecycle.stages import ProcessStage
from thence.replica.group.member.member import Member
from thence.replica.group.process.node import GroupNode
from thence.replica.group.receipts.lineage import Rollback
from thence.replica.live import must_go_together
from thence.replica.step_outputs import Trace
from thence.runtime.bootstrap import Bootstrap
from thence.runtime.driver import Driver
from thence.runtime.folder import DataFolder, is_fixed
from thence.runtime.group_machine import machine_settings
from thence.runtime.group_neighbours import Neighbours
from thence.runtime.group_report import facts_of, rollback_of
from thence.runtime.hello import Identity
from thence.runtime.incarnations import IncarnationStore
from thence.runtime.open_links import OpenLinks
from thence.runtime.report import ONE_GROUP, KindFacts
from thence.runtime.tag_spill import TagSpills
from thence.runtime.trace_files import TraceWriters, next_boot
from thence.runtime.turns import in_turns

if TYPE_CHECKING:
    from thence.runtime.node import Node


class Changing:
    """`node.Kind`."""

    def __init__(self, node: "Node") -> None:
        self._node: Final = node
        settings = node.settings
        must_go_together(settings.order, settings.spread)
        if not settings.stability.enabled:
            raise UsageError("a group collects what is stable: no stability is for trees with order none")
        self._members: dict[str, str] = {}
        """Of a closed group, and where they are."""
        self._untaken: list[NamedMessage] = []
        """From before an upgrade."""
        self.boot = self._start = 0
        self._shelf: IncarnationStore | None = None
        self._diaries: TraceWriters | None = None
        self._log_id = b""
        self.neighbours: Neighbours | None = None
        self._way: Final = Bootstrap(settings, node.clock, node.says)
        self._attics: Final = TagSpills(settings.data)
        self._phase: tuple[ProcessStage | None, Member | None] = None, None
        self._inside = False
        self._stable = 0

    # From settings to a running node

    def open(self, folder: DataFolder) -> Trace:
        settings = self._node.settings
        self._log_id = folder.log_id
        if is_fixed(settings.data):
            from thence.runtime.upgrade import upgrade  # once in the life of a folder

            self._untaken = upgrade(folder, settings, self._node.clock())
            self._node.says.info("data folder upgraded", version=2)
        named = {name: str(address) for name, address in settings.members}
        self._shelf = shelf = IncarnationStore(folder, settings.name, settings.cluster, settings.log, named)
        self._members = shelf.members
        self.boot = shelf.boot()
        # A folder that was put back counts boots a second time: peers and traces must not mix them up.
        self._start = self.boot << START_BITS | int.from_bytes(os.urandom(START_BITS // 8), "little")
        traced = next_boot(settings.trace, settings.name, 0) if settings.trace else 0
        self._diaries = TraceWriters(settings.trace, max(self.boot, traced), settings.run)
        return self._diaries

    async def enter(self) -> None:
        """Resume, found or join."""
        node, shelf = self._node, self._shelf
        assert shelf
        assert self._diaries
        machine = await self._way.recalled(shelf, self._recover)
        resumes = machine.member is not None
        join = self._way.asks(shelf)
        if not resumes and join and not self._begins(machine):
            node.phase = "looking for its group"
            await self._way.find(join, shelf, machine)
        identity = Identity(node.settings.cluster, node.settings.name, self._log_id, self.boot)
        neighbours = self.neighbours = Neighbours(
            node.settings, identity, node.clock, node.says, self._members
        )
        await neighbours.start(self._way.contacts)
        machine.address = self._address
        for name in self._way.contacts:
            machine.meet(name)
        for name, where in self._members.items():
            machine.meet(name, where)
        driver = node.drive(machine, self._remade, neighbours, machine.settings)
        neighbours.driver = driver
        if neighbours.bug is not None:
            driver.stops(neighbours.bug)
        driver.start()
        if self._untaken:
            driver.call(lambda machine, now: machine.came(self._untaken, now))
        if not resumes:
            driver.call(lambda machine, now: self._way.go_in(machine, self._members, now))
        running = driver.machine.member or driver.machine.former
        self._diaries.end_others(node.settings.name, running.me if running else "", node.clock())
        driver.start()

    def _begins(self, machine: GroupNode) -> bool:
        """Is this the first start of a member of a closed group? It is not known to be anything else, where
        the disk was lost."""
        return bool(self._members) and machine.former is None and machine.highest <= 1

    @property
    def _address(self) -> str:
        """Where others reach this node."""
        return self._members.get(self._node.settings.name, self._node.address)

    def _remade(self, now: int) -> GroupNode:
        assert self._shelf
        self._shelf.let_go()
        return self._make(now)

    def _make(self, now: int) -> GroupNode:
        """The process, from what is on its disk, at once."""
        machine, recovering = self._machine(now)
        with self._told():
            drained(recovering)
        self._way.again(machine, now)
        return machine

    async def _recover(self, now: int) -> GroupNode:
        """The same with turns for others in between: much may be on its disk."""
        machine, recovering = self._machine(now)
        with self._told():
            await in_turns(recovering, machine.settings.step_max)
        return machine

    def _machine(self, now: int) -> tuple[GroupNode, Generator[int, None, None]]:
        """The process, and how it comes to what is on its disk."""
        node, settings, shelf = self._node, self._node.settings, self._shelf
        assert shelf
        assert self._diaries
        machine = GroupNode(
            settings.name, shelf, node.application, self._diaries, tuple(self._way.contacts),
            machine_settings(settings, bool(self._members)), now, address=self._address,
            attics=self._attics, start=self._start, sessions=True, admits=frozenset(self._members),
            recovers=False,
        )  # fmt: skip
        return machine, machine.recovering(now, shelf.forgetful)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What the application is told meanwhile it has been told before."""
        self._node.application.recovering(True)
        try:
            yield
        finally:
            self._node.application.recovering(False)

    @property
    def links(self) -> OpenLinks | None:
        return self.neighbours.links if self.neighbours is not None else None

    # To the end

    @property
    def drains(self) -> bool:
        return self._member is not None

    def is_drained(self) -> bool:
        member, links = self._member, self.links
        if member is None:
            return True
        reachable = [name for name in member.view.side if links and links.linked(process_of(name))]
        sent = member.ledger.count(member.me)
        return all(member.ledger.row(name).get(member.me, 0) >= sent for name in reachable)

    async def unlink(self) -> None:
        if self.neighbours is not None:
            await self.neighbours.close()

    def close(self, in_order: bool) -> None:
        try:
            if self._diaries is not None:
                self._diaries.close()
        except StorageError:
            in_order = False
            raise
        finally:
            if self._shelf is not None:
                self._attics.close()
                self._shelf.close(in_order)

    # What has become of it

    @property
    def _driver(self) -> "Driver[Any]":
        return self._node.running

    @property
    def machine(self) -> GroupNode | None:
        return self._node.driver.machine if self._node.driver is not None else None

    @property
    def _member(self) -> Member | None:
        return self.machine.member if self.machine is not None else None

    def has_progress(self) -> bool:
        member, before = self._member, self._stable
        self._stable = sum(member.ledger.stables()) if member else 0
        return self._stable != before or member is None or not len(member.ledger.window)

    def stepped(self, now: int) -> None:  # noqa: ARG002
        """Say what has become of this process, when it changes."""
        driver = self._node.driver
        if driver is None:
            return
        machine: GroupNode = driver.steps.machine
        stage, member = machine.stage, machine.member
        if member is not None and member.changes:
            self._tell_changes(member)
        if stage is self._phase[0] and member is self._phase[1]:
            return
        self._phase = stage, member
        node = self._node
        if machine.rollback is not None:
            self._put_back(machine, machine.rollback)
        view = sorted(member.view.view) if member else []
        node.says.info(stage.value, node=member.me if member else machine.name, members=len(view))
        self._inside = self._inside or member is not None
        if member is not None:
            self._way.joins = False
            node.is_in.set()
            if self._shelf is not None and self._shelf.forgetful:
                with suppress(StorageError):  # then it is a new one again after the next start
                    self._shelf.remembered()
        elif self._inside and stage is ProcessStage.OUTSIDE:
            self._has_left(machine.unclean)

    def _tell_changes(self, member: Member) -> None:
        """Joins, leaves and evictions, by whichever member or silence they were caused."""
        for changes in member.changes:
            named = {
                "joined": changes.joined, "left": changes.left,
                "suspected": changes.suspected, "evicted": changes.evicted,
            }  # fmt: skip
            told = {what: ",".join(names) for what, names in named.items() if names}
            self._node.says.info("view changed", **told, members=len(member.view.view))
        member.changes.clear()

    def _put_back(self, machine: GroupNode, found: Rollback) -> None:
        """Others know that this node's data folder is older than what it has sent: say so."""
        former = machine.former
        assert former is not None
        own = found.origin == former.me
        self._node.says.error(
            "this data folder was put back to an earlier state" if own else "another node was put back to an "
            "earlier state, and this one has listened to it: both come back as new incarnations",
            node=former.me, origin=found.origin, agreed=found.agreed, told_by=found.source,
            others_have=f"{found.agreed + 1}..{found.theirs}" if found.theirs > found.agreed else "none",
            sent_again=max(0, former.ledger.count(found.origin) - found.agreed),
        )  # fmt: skip
        self._way.returns(machine)

    def _has_left(self, unclean: bool) -> None:
        node = self._node
        node.unclean = unclean
        if unclean:
            node.says.warn("left, but no member said that it has what was sent last")
        else:
            node.says.info("left")
        with suppress(StorageError):
            if self._shelf is not None:
                self._shelf.left(unclean)
        node.stopping.set()

    def phase(self) -> str:
        status = self.machine.status if self.machine is not None else "outside"
        return "running" if status == "member" else status

    def unwell(self) -> str | None:
        why = rollback_of(self.machine)
        return f"put back to an earlier state: {why}" if why else None

    def facts(self, now: int) -> KindFacts:
        return facts_of(self._node, self.machine, self._way.waiting_for, now)

    # What people ask of it

    def leave(self, force: bool) -> None:
        self._driver.machine.must_change()
        member = self._driver.machine.member
        if member is not None and not force and member.view.side == {member.me}:
            missing = ", ".join(sorted({process_of(name) for name in member.view.evicted()}))
            if missing:
                raise UsageError(
                    f"{member.me} is the last member, and what it has would be lost for {missing}, evicted, "
                    "which may come back: stop it instead, or use force"
                )
        self._driver.call(lambda machine, now: machine.leave(now))

    def regroup(self, group: str, join: bool) -> None:
        del group, join
        raise UsageError(ONE_GROUP)

    def addressed(self, payloads: Sequence[bytes], group: str) -> Sequence[bytes]:
        if group:
            raise UsageError(ONE_GROUP)
        return payloads

    def evict(self, who: str, force: bool) -> str:
        self._check_evictable(who, force)
        evicted: str = self._driver.call(lambda machine, now: machine.evict(who, now))
        return evicted

    def bury(self, who: str) -> None:
        self._driver.call(lambda machine, now: machine.bury(process_of(who), now))

    def _check_evictable(self, who: str, force: bool) -> None:
        self._driver.machine.must_change()
        member = self._driver.machine.member
        if member is None:
            return  # it says so itself
        process = process_of(who)
        if process == self._node.settings.name:
            raise UsageError(f"{who} is this node itself: let it leave instead")
        there = sorted(process_of(name) for name in member.view.side)
        if process not in there:
            alone = "no other node is a member" if len(there) == 1 else f"there is {', '.join(there)}"
            raise UsageError(f"{who} is not a member, or is being evicted already: {alone}")
        if not force and self.links is not None and self.links.linked(process):
            raise UsageError(f"{who} answers and would come back: let it leave, or use force")
