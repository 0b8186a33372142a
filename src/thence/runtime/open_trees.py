"""What a node over a tree without tags has: a folder, a way in, links that its partial view asks for.

A newcomer asks the addresses that it was given and enters by HyParView through a member that answers; a
process with its disk dials those that it knew. Which name it bears is in docs/protocols/open-trees.md: that
of its process if it is the first, another incarnation if something of what it sent may be forgotten.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Final

from thence.core.errors import StorageError, UsageError
from thence.core.machine import Packet
from thence.core.overlay import Places
from thence.core.storage import DamageError
from thence.oplog.log import OpLog
from thence.replica.group.settings import GroupSettings
from thence.replica.live import PROBABILISTIC, must_go_together
from thence.replica.live_tree import GossipSettings, LiveSettings, open_tree
from thence.replica.open_tree import PACKET_BYTES, OpenTree
from thence.replica.step_outputs import Trace
from thence.runtime.address import Address, parse_address
from thence.runtime.backpressure import LinkBackpressure
from thence.runtime.bootstrap import SECOND, number_of_now
from thence.runtime.discovery import find_group
from thence.runtime.election import Founded, Open, put_answer
from thence.runtime.folder import DataFolder, is_fixed
from thence.runtime.hello import Identity, Introduction
from thence.runtime.incarnations import IncarnationStore
from thence.runtime.open_links import NOWHERE
from thence.runtime.report import ONE_GROUP, KindFacts
from thence.runtime.settings import NodeSettings
from thence.runtime.trace_files import TraceWriters, next_boot
from thence.runtime.tree_contacts import ContactSearch
from thence.runtime.tree_kind import TreeKind
from thence.runtime.tree_links import TreeLinks
from thence.runtime.tree_report import tree_facts
from thence.runtime.upgrade import upgrade_tree
from thence.runtime.vouching import Vouching

if TYPE_CHECKING:
    from thence.runtime.node import Node

KEEP_EVERY_US: Final = 10 * SECOND
"""Between two times that contacts are written down."""
KEEP_NEW_US: Final = SECOND
"""The same, where a neighbour is not among those: all that are written down may be gone by the next start."""

NO_VIEW: Final = "over a tree without tags no view is agreed on: a process that is gone is simply not there"


class OpenTrees(TreeKind[TreeLinks, OpenTree]):
    """`node.Kind`, `links.Handler` and the driver's outlet."""

    no_view = NO_VIEW

    def __init__(self, node: "Node") -> None:
        super().__init__(node)
        settings = node.settings
        must_go_together(settings.order, settings.spread)
        if settings.log_settings.keep_us is not None and not node.application.merges:
            raise UsageError(f"{settings.spread} needs a program that is a state and has merge()")
        self._contacts: dict[str, str] = {}
        self._first = 1
        """The number of the first incarnation in this folder."""
        self._number = 1
        """Of the folder of its log."""
        self._fresh = self._returns = False
        self._kept_at = self._leaves_by = 0
        self._search: ContactSearch | None = None
        self._easing: LinkBackpressure | None = None
        self._vouching: Final = Vouching()

    # From settings to a running node

    def open(self, folder: DataFolder) -> Trace:
        settings = self._node.settings
        self._log_id = folder.log_id
        if is_fixed(settings.data):
            if settings.order == PROBABILISTIC:
                raise UsageError(f"the data in {folder.path} is of a tree, without clocks: it has order none")
            upgrade_tree(folder, settings, self._node.clock())
            self._node.says.info("data folder upgraded", version=2)
        named = {name: str(address) for name, address in settings.members}
        self._shelf = shelf = IncarnationStore(
            folder, settings.name, settings.cluster, settings.log_settings, named, kept_as(settings)
        )
        self._members = shelf.members
        self._returns = shelf.has_left
        self.boot = shelf.boot()
        traced = next_boot(settings.trace, settings.name, 0) if settings.trace else 0
        self._diaries = TraceWriters(settings.trace, max(self.boot, traced), settings.run)
        return self._diaries

    async def enter(self) -> None:
        node, settings, shelf, diaries = self._node, self._node.settings, self._shelf, self._diaries
        assert shelf
        assert diaries
        if shelf.forgetful and not shelf.contacts and not self._members:
            shelf.remembered()  # no other process was ever told of it
        kept = shelf.kept()
        self._fresh = not kept
        self._number = kept[-1] if kept else 1
        self._contacts = {**shelf.contacts, **self._members}
        self._contacts.pop(settings.name, None)
        has_asked = not self._contacts and (self._fresh or self._returns)
        if settings.join and has_asked:
            node.phase = "looking for its group"
            await self._find(shelf)
        # Before it has a name: one that is killed now would begin alone. (One that has data and no contacts
        # was the first, and has met no other.)
        shelf.keep_contacts(self._contacts)
        machine = self._make(node.clock())
        diaries.end_others(settings.name, machine.me, node.clock())
        driver = node.drive(machine, self._remade, self, GroupSettings())
        self._easing = LinkBackpressure(driver, self._queued)
        identity = Identity(settings.cluster, settings.name, self._log_id, self.boot)
        self.links = TreeLinks(
            identity, settings.secret, settings.listen, settings.links, self,
            Random(os.urandom(16)), node.clock, node.says, self._answer, self._others,
        )  # fmt: skip
        await self.links.start()
        driver.run(lambda machine, now: machine.start(self._fresh, now))
        self.keep(self._wishes)
        self._search = ContactSearch(node, has_asked, self._is_alone, self._meet)
        self._search.start()
        node.is_in.set()

    async def _find(self, shelf: IncarnationStore) -> None:
        """The members to enter through; none: this is the first."""
        node, settings = self._node, self._node.settings
        found = await find_group(
            Identity(settings.cluster, settings.name, b"", 0), settings.listen, settings.join,
            advertise=settings.advertise and settings.reached_at(settings.listen),
            secret=settings.secret, settings=settings.links, random=Random(os.urandom(16)),
            clock=node.clock, log=node.says, patience_us=settings.group.patience_us,
        )  # fmt: skip
        if found.highest and not shelf.highest:  # the disk was lost
            self._first = max(found.highest + 1, number_of_now(node.clock))
        self._contacts = {name: str(address) for name, address in found.members if name != settings.name}

    def _is_alone(self) -> bool:
        return not self.machine.overlay.members.active

    def _meet(self, name: str, where: str) -> None:
        self._node.running.run(lambda machine, now: machine.meet(name, where, now))

    def _make(self, now: int) -> OpenTree:
        """The machine, from what is on its disk."""
        node, settings, shelf, diaries = self._node, self._node.settings, self._shelf, self._diaries
        assert shelf
        assert diaries
        log, forgetful = self._log(shelf, now), shelf.forgetful or self._returns
        with self._told():
            machine = open_tree(
                settings.name, self._address, self._contacts, log, live_settings(settings.spread, self._node),
                node.application, diaries, self._next_number, now, forgetful,
            )  # fmt: skip
        log.sync(now)
        if forgetful:
            node.says.warn("this node goes on as another incarnation", node=machine.me)
            shelf.remembered()
            self._returns = False
        return machine

    def _log(self, shelf: IncarnationStore, now: int) -> OpLog:
        while True:
            try:
                return shelf.open(self._number, now)
            except DamageError as damage:
                if not self._contacts:
                    raise UsageError(f"{damage}. `thence repair {shelf.path}` cuts it off there") from damage
                self._node.says.warn("log damaged", what=str(damage))
                shelf.mend(damage, now)
                self._fresh = not shelf.kept()

    def _next_number(self) -> int:
        """Of another incarnation. Where others say that this folder was put back, it may not know which
        numbers were used."""
        shelf = self._shelf
        assert shelf
        number = shelf.highest + 1 if shelf.highest else self._first
        if self._node.driver is not None:
            number = max(number, number_of_now(self._node.clock))
        shelf.reserve(number)
        return number

    def _remade(self, now: int) -> OpenTree:
        """From its log, which could not be written."""
        assert self._shelf
        self._shelf.let_go()
        self._contacts = self.machine.contacts or self._contacts
        machine = self._make(now)
        machine.resume(now)
        return machine

    @property
    def _address(self) -> str:
        """Where others reach this node."""
        return self._members.get(self._node.settings.name, self._node.address)

    # To the end

    def is_drained(self) -> bool:
        """Others relay it: it is enough that all neighbours that are streamed to have it."""
        overlay = self.machine.overlay
        progress = [overlay.progress(peer) for peer in overlay.members.active]
        return all(one.acked >= one.sent for one in progress) and not self.machine.sends_large

    async def unlink(self) -> None:
        if self._search is not None:
            await self._search.close()
        await self._vouching.close()
        if self.links is not None:
            await self.links.close()

    def close(self, in_order: bool) -> None:
        if self._easing is not None:
            self._easing.close()
        super().close(in_order)

    # The driver's outlet, and an answer to those that ask

    def _answer(self, hello: Introduction) -> bytes:
        """To one that asks for the group."""
        asks, machine = hello.identity.name, self.machine
        if self._members and asks not in self._members:
            closed = [(name, parse_address(where)) for name, where in self._members.items()]
            return put_answer(Founded(tuple(sorted(closed))))
        self._node.says.info("group told", to=asks)
        known = {self._node.settings.name: self._address}
        for peer in machine.overlay.members.active:
            known[machine.processes.name(peer)] = machine.processes.address(peer)
        members = sorted([(name, parse_address(where)) for name, where in known.items() if where])
        return put_answer(Open(tuple(members), machine.highest(asks)))

    def _others(self) -> list[str]:
        """Processes to which there may be a link one day."""
        return [name for name in self.machine.processes.names if name != self._node.settings.name]

    def unpack(self, peer: str, data: Sequence[bytes]) -> Iterator[Packet]:
        for packet in map(self.machine.decode, data):
            yield self._vouched(peer, packet) if isinstance(packet, Places) else packet

    def _vouched(self, peer: str, packet: Places) -> Places:
        """A process is not reached where it says if its link comes from elsewhere."""
        host = "" if self.links is None else self.links.host_of(peer)
        false = [
            node == 0 and self._vouching.comes_from(host, where) is False for node, _, where in packet.places
        ]
        places = zip(packet.places, false, strict=True)
        return Places(tuple([(node, name, "" if lies else where) for (node, name, where), lies in places]))

    def send(self, peer: str, packets: Sequence[bytes]) -> None:
        if self.links is not None:
            self.links.write(peer, packets)
            if self._easing is not None:
                self._easing.sent(peer)

    def _queued(self, peer: str) -> int:
        return 0 if self.links is None else self.links.queued(peer)

    def _keep(self, links: TreeLinks, wanted: Mapping[str, str | None]) -> None:
        for name, where in wanted.items():
            if where is not None:
                links.connect_to(name, _place(where))
            elif not self.machine.linked(name):
                links.disconnect(name)

    def begin_anew(self, why: str) -> None:
        self._node.says.error("cannot write: broadcasts are refused, links begin anew", why=why)
        if self.links is not None:
            self.links.begin_anew()

    # What has become of it

    def stepped(self, now: int) -> None:
        shelf, machine = self._shelf, self.machine
        if self._leaves_by and (now >= self._leaves_by or self.is_drained()):
            self._part()
        elif shelf is not None and self._is_time(shelf, now):
            contacts = machine.contacts
            self._kept_at = now
            with suppress(StorageError):  # old ones help as well
                if contacts:
                    shelf.keep_contacts(contacts)
                    shelf.catch_up()

    def _is_time(self, shelf: IncarnationStore, now: int) -> bool:
        """To write contacts down."""
        since = now - self._kept_at
        if since >= KEEP_EVERY_US or not shelf.contacts:
            return True
        called = self.machine.processes.name
        return since >= KEEP_NEW_US and not all(
            shelf.knows(called(peer)) for peer in self.machine.overlay.members.active
        )

    def phase(self) -> str:
        return "leaving" if self._leaves_by else "running"

    def unwell(self) -> str | None:
        return self.machine.behind

    def facts(self, now: int) -> KindFacts:
        return tree_facts(self._node, self.machine if self._node.driver else None, bool(self._members), now)

    # What people ask of it

    def leave(self, force: bool) -> None:
        del force
        if self._members:
            raise UsageError("this group is closed: its members were named at its start")
        self._node.running.call(lambda machine, now: machine.part())  # noqa: ARG005
        self._leaves_by = self._node.clock() + self._node.settings.group.leave_timeout_us

    def _part(self) -> None:
        node, unclean = self._node, not self.is_drained()
        self._leaves_by = 0
        node.running.run(lambda machine, now: machine.leave(now))
        node.unclean = unclean
        if unclean:
            node.says.warn("left, but no neighbour said that it has what was sent last")
        else:
            node.says.info("left")
        with suppress(StorageError):
            if self._shelf is not None:
                self._shelf.left(unclean)
        node.stopping.set()

    def regroup(self, group: str, join: bool) -> None:
        del group, join
        raise UsageError(ONE_GROUP)

    def addressed(self, payloads: Sequence[bytes], group: str) -> Sequence[bytes]:
        if group:
            raise UsageError(ONE_GROUP)
        return payloads


def kept_as(settings: NodeSettings) -> str:
    """The order that a folder is made with, and keeps."""
    if settings.order != PROBABILISTIC:
        return "none"
    return f"{PROBABILISTIC} {settings.clock.entries}/{settings.clock.keys}"


def live_settings(spread: str, node: "Node") -> LiveSettings:
    settings = node.settings
    return LiveSettings(
        spread=spread,
        order=settings.order if settings.order == PROBABILISTIC else "none",
        entries=settings.clock.entries,
        keys=settings.clock.keys,
        recent=settings.clock.recent,
        gossip=GossipSettings(fanout=settings.gossip.fanout, period_us=settings.gossip.period_us),
        inbox_max=settings.application.inbox_max,
        neighbours=settings.tree.neighbours,
        random=Random(os.urandom(16)),
        ttl_us=settings.tree.ttl_us,
        packet_bytes=min(PACKET_BYTES, settings.links.frame_bytes_max // 2),
    )


def _place(where: str) -> Address:
    try:
        return parse_address(where)
    except UsageError:
        return NOWHERE  # it cannot be reached, and that is told
