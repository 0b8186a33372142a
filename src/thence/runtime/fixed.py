"""What a node over a tree without tags has: one log, a roster in it, links on demand."""

import os
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Final

from thence.core.errors import StorageError, UsageError
from thence.core.machine import Packet
from thence.core.storage import DamageError
from thence.oplog.log import OpLog
from thence.oplog.record import BOOT_BITS
from thence.replica.fixed import FixedMachine
from thence.replica.group import CLOSED
from thence.replica.group_settings import GroupSettings
from thence.replica.live import live, must_go_together
from thence.replica.steps import Rows, Trace
from thence.runtime import recovering
from thence.runtime import roster as rosters
from thence.runtime.address import Address
from thence.runtime.easing import Easing
from thence.runtime.fixed_machine import live_settings
from thence.runtime.folder import DataFolder
from thence.runtime.introductions import Identity
from thence.runtime.links import Links
from thence.runtime.report import Facts, fixed_facts
from thence.runtime.roster import Roster
from thence.runtime.shelf import is_shelf
from thence.runtime.tracing import LiveTrace, complete, earlier_rows, missing_rows
from thence.trace.lines import Lines
from thence.trace.recorder import NoRecorder

if TYPE_CHECKING:
    from thence.runtime.node import Node


class FixedTrace:
    """`steps.Trace` of one boot; without a file none is kept."""

    def __init__(self, file: LiveTrace | None, lines: Lines | None) -> None:
        self.file: Final = file
        self.lines: Final = lines

    @property
    def waiting(self) -> bool:
        return self.file is not None and self.file.waiting > 0

    def take(self) -> Rows:
        if self.file is None or self.lines is None or not len(self.lines):
            return []
        return [(self.file, self.lines.take_bytes())]

    def take_back(self) -> None:
        if self.lines is not None and len(self.lines):
            self.lines.take_bytes()

    def write_waiting(self) -> None:
        if self.file is not None:
            self.file.write(b"")


class Fixed:
    """`node.Kind`, and the driver's outlet."""

    drains = True

    def __init__(self, node: "Node") -> None:
        self._node: Final = node
        must_go_together(node.settings.order, node.settings.spread)
        self.boot = 0
        self.links: Links | None = None
        self._folder: DataFolder | None = None
        self._trace = FixedTrace(None, None)
        self._regaining = False
        self._fresh = False
        self._wishes: dict[str, str | None] = {}
        """From before there were links."""
        self._easing: Easing | None = None

    # From settings to a running node

    def open(self, folder: DataFolder) -> Trace:
        node, settings, now = self._node, self._node.settings, self._node.clock()
        if is_shelf(settings.data):
            raise UsageError(
                f"the data in {settings.data} is of a group with order graph, spread mesh and stability"
            )
        self._folder = folder
        try:
            self.log = log = folder.open_log(settings.log_settings, now)
        except DamageError as damage:
            raise UsageError(f"{damage}. `thence repair {settings.data}` cuts it off there") from damage
        for trouble in log.report.lines():
            node.says.warn("log repaired", what=trouble)
        self._fresh = log.incarnation == 0
        self._regaining = recovering.may_have_forgotten(folder, log)
        if self._regaining:
            recovering.begin(folder.path, "the machine went down, or the log was repaired")
            node.says.warn("recovering: what this node had sent may be missing here")
        self.boot = log.boot(1, folder.machine_id(), now) >> BOOT_BITS
        recovering.note_boot(folder.path, self.boot)
        recovering.note_policy(log, settings.log.sync)
        self.roster = self._group(log)
        log.sync(now)
        self.names = self.roster.names
        file = lines = None
        if settings.trace is not None:
            file = LiveTrace(settings.trace, settings.name, self.boot)
            lines = Lines(settings.name, self.names, self.boot, run=settings.run)
        self._trace = FixedTrace(file, lines)
        return self._trace

    def _group(self, log: OpLog) -> Roster:
        settings = self._node.settings
        known = rosters.recall(log, settings.cluster, settings.name, settings.members)
        if known is not None:
            return known
        members: Sequence[tuple[str, Address]] = settings.members or ((settings.name, settings.listen),)
        return rosters.found(log, settings.cluster, settings.name, members)

    async def enter(self) -> None:
        node, settings, now = self._node, self._node.settings, self._node.clock()
        machine = self._machine(now)
        self._complete_trace(machine, now)
        driver = node.drive(machine, self._remade, self, GroupSettings())
        self._easing = Easing(driver, self._queued)
        driver.run(lambda machine, now: machine.start(self._fresh, now))
        assert self._folder
        identity = Identity(settings.cluster, settings.name, self._folder.log_id, self.boot)
        peers = {name: self.roster.address(name) for name in self.names if name != settings.name}
        self.links = Links(
            identity, settings.secret, settings.listen, peers, settings.links, self,
            Random(os.urandom(16)), node.clock, node.says, on_demand=True,
        )  # fmt: skip
        await self.links.start()
        self.keep(self._wishes)
        node.is_in.set()

    def _machine(self, now: int) -> FixedMachine:
        node, settings, log = self._node, self._node.settings, self.log
        recorder = NoRecorder() if self._trace.lines is None else self._trace.lines
        how = live_settings(settings, self._regaining)
        me = self.names.index(settings.name)
        made = live(me, len(self.names), how, recorder, log, log.taken, now)
        frame_bytes = settings.links.frame_bytes_max
        return FixedMachine(made, log, self.names, settings.name, node.application, frame_bytes)

    def _remade(self, now: int) -> FixedMachine:
        """From its log, which could not be written."""
        assert self._folder
        self.log = self._folder.open_log(self._node.settings.log_settings, now)
        self.log.boot(1, self._folder.machine_id(), now)
        roster = self._group(self.log)
        self.roster = roster
        machine = self._machine(now)
        machine.resume(now)
        return machine

    def _complete_trace(self, machine: FixedMachine, now: int) -> None:
        settings, trace = self._node.settings, self._trace
        if trace.file is None or trace.lines is None or settings.trace is None:
            return
        earlier = earlier_rows(settings.trace, settings.name, self.boot)
        if earlier is not None:
            rows = missing_rows(self.log, machine.me_index, earlier)
            count = complete(trace.file, trace.lines, rows, now)
            if count:
                self._node.says.info("trace completed from the log", rows=count)

    # To the end

    def is_drained(self) -> bool:
        """Over a tree others pass it on: then it is enough that all are fed who are streamed to."""
        machine = self.machine
        reachable = [name for name, link in self._node.link_status().items() if link.up]
        progress = [machine.live.overlay.progress(self.names.index(name)) for name in reachable]
        return all(p.acked >= self.log.vector[machine.me_index] for p in progress)

    async def unlink(self) -> None:
        if self.links is not None:
            await self.links.close()

    def close(self, in_order: bool) -> None:
        if self._easing is not None:
            self._easing.close()
        if in_order and self._folder is not None:
            recovering.note_closed(self.log)
            self.log.close(self._node.clock())
        if self._folder is not None and self._trace.file is not None:
            self._trace.file.close()

    # Links (`links.Handler`) and the driver's outlet

    def admit(self, peer: Identity) -> str | None:
        me = self._node.settings.name
        trouble = self._node.running.trouble
        if trouble is not None:
            return f"{me} cannot write at present: {trouble}"
        try:
            return self.roster.meet(peer.name, peer.log_id, peer.boot)
        except StorageError as error:
            return f"{me} cannot write at present: {error}"

    def link_up(self, peer: str, now: int) -> None:
        del now
        self._node.running.link_up(peer)

    def link_packets(self, peer: str, packets: list[bytes], now: int) -> None:
        self._node.running.packets(peer, packets, now)

    def link_down(self, peer: str, why: str, now: int) -> None:
        del why, now
        self._node.running.link_down(peer)

    def link_bug(self, error: Exception) -> None:
        self._node.running.stops(error)

    def unpack(self, peer: str, data: Sequence[bytes]) -> Iterator[Packet]:
        del peer
        return map(self.machine.decode, data)

    def send(self, peer: str, packets: Sequence[bytes]) -> None:
        if self.links is not None:
            self.links.write(peer, packets)
            if self._easing is not None:
                self._easing.sent(peer)

    def _queued(self, peer: str) -> int:
        return 0 if self.links is None else self.links.queued(peer)

    def keep(self, links: Mapping[str, str | None]) -> None:
        if self.links is None:
            self._wishes |= links
            return
        for name, wanted in links.items():
            if wanted is None:
                self.links.disconnect(name)
            else:
                self.links.connect(name)

    def begin_anew(self, why: str) -> None:
        self._node.says.error("cannot write: broadcasts are refused, links begin anew", why=why)
        if self.links is not None:
            self.links.begin_anew()

    # What has become of it

    @property
    def machine(self) -> FixedMachine:
        machine: FixedMachine = self._node.running.machine
        return machine

    def has_progress(self) -> bool:
        return True

    def stepped(self, now: int) -> None:
        del now
        if self._regaining and not self.machine.live.overlay.recovering and self.machine.replica.regained():
            self._regaining = False
            recovering.end(self._node.settings.data)
            self._node.says.info("recovered", sent=self.log.vector[self.machine.me_index])

    def phase(self) -> str:
        return "running"

    def unwell(self) -> str | None:
        return self.machine.behind

    def facts(self, now: int) -> Facts:
        return fixed_facts(self._node, self.machine if self._node.driver else None, now)

    # What people ask of it

    def leave(self, force: bool) -> None:
        del force
        raise UsageError(CLOSED)

    def evict(self, who: str, force: bool) -> str:
        del who, force
        raise UsageError(CLOSED)

    def bury(self, who: str) -> None:
        del who
        raise UsageError(CLOSED)
