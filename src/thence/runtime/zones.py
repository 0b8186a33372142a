"""What a process of a topology has: a folder with one log, links to all of its zones.

Who there is, and who routes, says the topology file, for good; `members` of the settings says where they are.
A process has one identity. What it would forget cannot be had from others, so a log that may lack its end or
is damaged is refused, and one that turns out to be an old copy ends the process, for good.
docs/protocols/separators.md, Live.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

from thence.core.errors import StorageError, UsageError
from thence.core.storage import DamageError
from thence.replica.group.settings import GroupSettings
from thence.replica.live import SEPARATOR
from thence.replica.step_outputs import Trace
from thence.replica.zone import Topology, ZoneMachine, ZoneSettings, directed, topology_of
from thence.runtime.address import parse_address
from thence.runtime.election import Founded, put_answer
from thence.runtime.folder import DataFolder, is_fixed
from thence.runtime.hello import Identity, Introduction
from thence.runtime.incarnations import IncarnationStore
from thence.runtime.open_links import OpenLinks
from thence.runtime.report import ONE_GROUP, KindFacts
from thence.runtime.settings import NodeSettings
from thence.runtime.trace_files import TraceWriters, next_boot
from thence.runtime.tree_kind import TreeKind
from thence.runtime.zones_report import zone_facts
from thence.trace.recorder import START

if TYPE_CHECKING:
    from thence.runtime.node import Node

PART_US: Final = 1_000_000
"""The last packets arrive before a link that is not needed is closed."""
CHANCE: Final = "~"
"""Begins a number of receivers that are drawn."""
COPY: Final = "put a whole copy of the folder back"


class ZoneLinks(OpenLinks):
    foresees = True


class Zones(TreeKind[ZoneLinks, ZoneMachine]):
    """`node.Kind`, `links.Handler` and the driver's outlet."""

    refuses_copies = False
    no_view = "order separator forgets no process: one that was evicted is gone for good"

    def __init__(self, node: "Node") -> None:
        super().__init__(node)
        self._topology: Final = read_topology(node.settings)
        self._members = {name: str(address) for name, address in node.settings.members}
        self._random: Final = Random(os.urandom(16))
        self._ending = False

    # From settings to a running node

    def open(self, folder: DataFolder) -> Trace:
        settings = self._node.settings
        self._log_id = folder.log_id
        if is_fixed(settings.data):
            raise UsageError(f"the data in {settings.data} is of a group of version 1: not of a topology")
        self._shelf = shelf = IncarnationStore(
            folder, settings.name, settings.cluster, settings.log_settings, order=SEPARATOR
        )
        if shelf.forgetful:
            raise UsageError(
                f"the log in {settings.data} may lack its end after a power cut (sync {settings.log.sync}), "
                f"and no other process has what it had: {COPY}"
            )
        self.boot = shelf.boot()
        traced = next_boot(settings.trace, settings.name, 0) if settings.trace else 0
        self._diaries = TraceWriters(settings.trace, max(self.boot, traced), settings.run, lives=False)
        return self._diaries

    async def enter(self) -> None:
        node, settings = self._node, self._node.settings
        machine = self._make(node.clock())
        driver = node.drive(machine, self._make, self, GroupSettings())
        identity = Identity(settings.cluster, settings.name, self._log_id, self.boot)
        self.links = ZoneLinks(
            identity, settings.secret, settings.listen, settings.links, self,
            Random(os.urandom(16)), node.clock, node.says, self._answer,
        )  # fmt: skip
        await self.links.start()
        driver.run(lambda machine, now: machine.wake(now))
        self.keep(self._wishes)
        node.is_in.set()

    def _make(self, now: int) -> ZoneMachine:
        """From what is on its disk."""
        node, settings, shelf, diaries = self._node, self._node.settings, self._shelf, self._diaries
        assert shelf
        assert diaries
        shelf.let_go()
        if not shelf.kept():
            shelf.reserve(1)
        try:
            log = shelf.open(1, now)
        except DamageError as damage:
            raise UsageError(f"{damage}. No other process has what it had: {COPY}") from damage
        diary = diaries(settings.name)
        diary.row(START, None, None, now)
        with self._told():
            machine = ZoneMachine(
                settings.name, self._topology, self._members, log, node.application, diary,
                zone_settings(settings), now, frame_bytes=settings.links.frame_bytes_max,
            )  # fmt: skip
        log.sync(now)
        return machine

    def stepped(self, now: int) -> None:
        del now
        if (why := self.machine.ended) and not self._ending:
            self._ending = True
            self._node.running.stops(StorageError(f"{self._node.settings.name} cannot go on: {why}"))

    # To the end

    def is_drained(self) -> bool:
        return self.machine.talk.drained

    async def unlink(self) -> None:
        if self.links is not None:
            await self.links.close()

    # The driver's outlet, and an answer to those that ask

    def _answer(self, hello: Introduction) -> bytes:
        """To one that looks for a group."""
        del hello
        known = [(name, parse_address(where)) for name, where in self._members.items()]
        return put_answer(Founded(tuple(sorted(known))))

    def _keep(self, links: ZoneLinks, wanted: Mapping[str, str | None]) -> None:
        for name, where in wanted.items():
            if where is None:
                links.dismiss(name, PART_US)
            else:
                links.know(name, parse_address(where))

    # What has become of it

    def phase(self) -> str:
        return "running"

    def unwell(self) -> str | None:
        return None

    def facts(self, now: int) -> KindFacts:
        return zone_facts(self._node, self.machine if self._node.driver else None, now)

    # What people ask of it

    def leave(self, force: bool) -> None:
        del force
        raise UsageError("the processes of a topology are named once: none leaves")

    def evict(self, who: str, force: bool) -> str:
        evicted: str = self._node.running.call(lambda machine, now: machine.evict(who, force, now))
        return evicted

    def regroup(self, group: str, join: bool) -> None:
        del group, join
        raise UsageError(ONE_GROUP)

    def addressed(self, payloads: Sequence[bytes], group: str) -> Sequence[bytes]:
        """`group`: names with commas between them; `~3`: up to three by chance; empty: all."""
        if not group:
            return payloads
        topology, me = self._topology, self._node.settings.name
        others = [name for each in topology.applications if (name := topology.names[each]) != me]
        return [directed(receivers(group, others, self._random), payload) for payload in payloads]


def receivers(group: str, others: Sequence[str], random: Random) -> list[str]:
    """Those that `group` names, or some of the others by chance."""
    if not group.startswith(CHANCE):
        return [word.strip() for word in group.split(",") if word.strip()]
    most = group[len(CHANCE) :]
    if not most.isascii() or not most.isdigit() or not int(most):
        raise UsageError(f"{CHANCE}3 stands for up to three processes by chance: not {group!r}")
    if not others:
        raise UsageError(f"there is no other application for {group!r} to stand for")
    return random.sample(others, random.randint(1, min(int(most), len(others))))


def read_zones(path: Path) -> Topology:
    """`UsageError` says what is wrong with the file."""
    try:
        return topology_of(path.read_bytes(), str(path))
    except OSError as error:
        raise UsageError(f"cannot read the topology {path}: {error.strerror}") from error


def read_topology(settings: NodeSettings) -> Topology:
    path = settings.topology
    assert path is not None
    topology = read_zones(path)
    names, members = {*topology.names}, {name for name, _ in settings.members}
    for where, name in [("members", each) for each in names - members] + [
        (f"the topology {path}", each) for each in members - names
    ]:
        raise UsageError(f"{where} does not name {name}: both must name the same processes")
    return topology


def zone_settings(settings: NodeSettings) -> ZoneSettings:
    chosen, links = settings.zones, settings.links
    return ZoneSettings(
        greet_us=chosen.greet_us, suspect_us=chosen.suspect_us, word_us=chosen.word_us, window=chosen.window,
        packet_bytes=min(1 << 20, links.frame_bytes_max // 2), inbox_max=settings.application.inbox_max,
    )  # fmt: skip
