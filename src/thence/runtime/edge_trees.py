"""What a node on an edge tree has: a folder with a log for each identity, a parent, links to its ancestors.

It runs from its first moment, whether its parent answers or not: what is published waits in its log. The
parent is known by an address, and asked for its name; where ancestors are it is told over its session.
Which identity a process has: docs/protocols/edge.md#live. One whose log may lack its end, is damaged, or is
found to be an old copy is another one; the root, which the tree relies on, refuses to start instead.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Final

from thence.core.errors import PeerError, StorageError, UsageError
from thence.core.groups import incarnation
from thence.core.storage import DamageError
from thence.oplog.log import OpLog
from thence.replica.edge import EdgeMachine
from thence.replica.edge_parts import EdgeDiary, EdgeSettings, addressed
from thence.replica.group.settings import GroupSettings
from thence.replica.step_outputs import Trace
from thence.runtime.address import parse_address
from thence.runtime.discovery import put_question
from thence.runtime.door import reason_of
from thence.runtime.edge_links import PART_US, EdgeLinks
from thence.runtime.edge_program import EdgeSide
from thence.runtime.edge_report import edge_facts
from thence.runtime.election import Open, put_answer
from thence.runtime.folder import DataFolder, is_fixed
from thence.runtime.handshake import Opener
from thence.runtime.hello import Identity, Introduction, Purpose, draw_instance, draw_nonce
from thence.runtime.incarnations import IncarnationStore
from thence.runtime.listening import Connections
from thence.runtime.pacing import Clock, LinkLimits, upper_half_us
from thence.runtime.report import KindFacts
from thence.runtime.settings import check_group
from thence.runtime.trace_files import TraceWriters, next_boot
from thence.runtime.tree_kind import TreeKind
from thence.trace.recorder import START

if TYPE_CHECKING:
    from thence.runtime.node import Node

SECOND: Final = 1_000_000
NUMBERS_BEGIN_US: Final = 1_735_689_600 * SECOND
ASK_AGAIN_US: Final = 500_000
"""Until the parent answers: people start nodes one after another."""
NO_VIEW: Final = "on an edge tree there is no view to evict from: a node that is gone is passed by"


def number_of_now(clock: Clock) -> int:
    """Of a new identity: hundredths of a second pass faster than a process can begin anew. What a lost disk
    knew of earlier ones is not needed for it."""
    return 2 + (clock() - NUMBERS_BEGIN_US) // 10_000


class EdgeTrees(TreeKind[EdgeLinks, EdgeMachine]):
    """`node.Kind`, `links.Handler` and the driver's outlet."""

    refuses_copies = False
    no_view = NO_VIEW

    def __init__(self, node: "Node") -> None:
        super().__init__(node)
        self._side: Final = EdgeSide(node.application)
        self._number = 0
        """Of the identity, and of the folder of its log."""
        self._asking: asyncio.Task[None] | None = None
        self._connections: Final = Connections()
        self._leaving = False
        self._obstacle = ""
        """Why the parent's name is not known."""
        self._renewing = False
        self._turn = 0
        """Of groups, under a load."""

    @property
    def _root(self) -> bool:
        return self._node.settings.root

    # From settings to a running node

    def open(self, folder: DataFolder) -> Trace:
        settings = self._node.settings
        self._log_id = folder.log_id
        if is_fixed(settings.data):
            raise UsageError(f"the data in {settings.data} is of a group of version 1: not of an edge tree")
        self._shelf = shelf = IncarnationStore(
            folder, settings.name, settings.cluster, settings.log_settings, order="edge"
        )
        left = shelf.has_left
        if shelf.forgetful and self._root:
            raise UsageError(
                f"the root's log in {settings.data} may lack its end, and a tree has no other copy of all "
                "that was at its root: put a whole copy of the folder back"
            )
        self.boot = shelf.boot()
        kept = shelf.kept()
        self._number = kept[-1] if kept else 0
        if shelf.forgetful or left:
            self._forget(shelf)
        traced = next_boot(settings.trace, settings.name, 0) if settings.trace else 0
        self._diaries = TraceWriters(settings.trace, max(self.boot, traced), settings.run, lives=False)
        return self._diaries

    def _forget(self, shelf: IncarnationStore) -> None:
        """From here on it is another identity."""
        for number in shelf.kept():
            shelf.drop(number)
        self._number = 0
        shelf.remembered()

    async def enter(self) -> None:
        node, settings, diaries = self._node, self._node.settings, self._diaries
        assert diaries
        machine = self._make(node.clock())
        diaries.end_others(settings.name, machine.me, node.clock())
        driver = node.drive(machine, self._make, self, GroupSettings())
        identity = Identity(settings.cluster, settings.name, self._log_id, self.boot)
        self.links = EdgeLinks(
            identity, settings.secret, settings.listen, settings.links, self,
            Random(os.urandom(16)), node.clock, node.says, self._answer,
        )  # fmt: skip
        await self.links.start()
        driver.run(lambda machine, now: machine.here(node.address, now))
        driver.run(self._go_in)
        self.keep(self._wishes)
        if settings.parent is not None:
            self._asking = asyncio.get_running_loop().create_task(self._find_parent(), name="parent")
        node.is_in.set()

    def _go_in(self, machine: EdgeMachine, now: int) -> None:
        """The groups are those of the settings, whatever they were before."""
        wanted = self._node.settings.groups
        for group in [] if self._root else [group for group in machine.book.groups if group not in wanted]:
            machine.leave_group(group, now)
        for group in wanted:
            machine.join_group(group, now)

    async def _find_parent(self) -> None:
        """Until the parent has said its name."""
        node, settings = self._node, self._node.settings
        me, random = Identity(settings.cluster, settings.name, b"", 0), Random(os.urandom(16))
        instance = draw_instance()
        assert settings.parent is not None
        while True:
            mine = Introduction(me, "", Purpose.ASK, instance, draw_nonce())
            opener = Opener(mine, settings.secret, lambda _: None)
            try:
                answer = await put_question(
                    opener, settings.parent, self._connections, settings.links, LinkLimits(), node.clock
                )
                assert opener.peer is not None
                name = opener.peer.identity.name
                if name == settings.name:
                    why = f"two nodes are called {name}"
                elif not isinstance(answer, Open):
                    why = f"{name} is no node of an edge tree"
                else:
                    self._obstacle = ""
                    self._meet(name, str(dict(answer.members).get(name, settings.parent)))
                    return
            except (OSError, UnicodeError) as error:
                why = reason_of(error)
            except PeerError as error:
                why = str(error)
            if why != self._obstacle:
                node.says.warn("no parent yet", parent=settings.parent, why=why)
            self._obstacle = why
            await asyncio.sleep(upper_half_us(ASK_AGAIN_US, random) / SECOND)

    def _meet(self, name: str, where: str) -> None:
        self._node.running.run(lambda machine, now: machine.meet(name, where, now))

    # The machine

    def _make(self, now: int) -> EdgeMachine:
        """From what is on its disk."""
        node, settings, shelf, diaries = self._node, self._node.settings, self._shelf, self._diaries
        assert shelf
        assert diaries
        shelf.let_go()
        log = self._log(shelf, now)
        me = incarnation(settings.name, self._number)
        diary: EdgeDiary = diaries(me)
        diary.row(START, None, None, now)
        with self._told():
            machine = EdgeMachine(
                me, log, self._side, diary, edge_settings(node), now, root=me if self._root else "",
            )  # fmt: skip
        if self.links is not None:  # built anew
            machine.here(node.address, now)
            self._go_in(machine, now)
            self._meet_again(machine, now)
        log.sync(now)
        return machine

    def _meet_again(self, machine: EdgeMachine, now: int) -> None:
        before: EdgeMachine = self._node.running.machine
        home = before.tree.home
        if home and home in before.book.places:
            machine.meet(home, before.book.places[home], now)

    def _log(self, shelf: IncarnationStore, now: int) -> OpLog:
        while True:
            if not self._number:
                self._number = 1 if self._root else max(shelf.highest + 1, number_of_now(self._node.clock))
                shelf.reserve(self._number)
            try:
                return shelf.open(self._number, now)
            except DamageError as damage:
                if self._root:
                    raise UsageError(
                        f"{damage}. A tree has no other copy of all that was at its root: put a whole copy "
                        "of the folder back"
                    ) from damage
                self._node.says.warn("log damaged: this node goes on as another identity", what=str(damage))
                shelf.mend(damage, now)
                self._forget(shelf)

    def stepped(self, now: int) -> None:
        del now
        machine = self.machine
        if machine.tree.behind and not self._renewing:
            self._renewing = True
            asyncio.get_running_loop().call_soon(self._renew, machine.tree.behind)
        if self._leaving and machine.book.gone:
            self._part()

    def _renew(self, why: str) -> None:
        """Others have more of what this identity sent than its log: it is an old copy."""
        node, shelf, diaries = self._node, self._shelf, self._diaries
        if node.driver is None or shelf is None or diaries is None or node.stopping.is_set():
            return
        if self._root:
            node.running.stops(StorageError(f"{why}, and a tree has no other root"))
            return
        node.says.warn("this node goes on as another identity", why=why)
        before = self.machine.me

        def anew() -> None:
            self._forget(shelf)
            diaries.end_others(node.settings.name, "", node.clock())

        node.running.begin_again(StorageError(why), anew)
        self._renewing = False
        node.says.info("renewed", before=before, now=self.machine.me)

    # To the end

    def is_drained(self) -> bool:
        """The parent has it: it passes it on. Without a parent there is nothing to wait for."""
        tree = self.machine.tree
        return tree.parent is None or tree.stable(1) >= tree.book.end

    async def unlink(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)
        await self._connections.end_all("this node stops", LinkLimits().drain_us)
        if self.links is not None:
            await self.links.close()

    # The driver's outlet, and an answer to those that ask

    def _answer(self, hello: Introduction) -> bytes:
        """To one that would be below this node."""
        self._node.says.info("asked for its name", by=hello.identity.name)
        return put_answer(Open(((self._node.settings.name, parse_address(self._node.address)),), 0))

    def _keep(self, links: EdgeLinks, wanted: Mapping[str, str | None]) -> None:
        children = {child.peer for child in self.machine.tree.children.values()}
        for name, where in wanted.items():
            if where is not None:
                links.want(name, where)
            else:
                links.dismiss(name, None if name in children else PART_US)

    # What has become of it

    def phase(self) -> str:
        return "leaving" if self._leaving else "running"

    def unwell(self) -> str | None:
        tree = self.machine.tree
        if tree.foreign:
            return f"its parent is of the tree of {tree.foreign}, this node of that of {tree.book.root_name}"
        return None

    def facts(self, now: int) -> KindFacts:
        return edge_facts(self._node, self.machine if self._node.driver else None, self._obstacle, now)

    # What people ask of it

    def leave(self, force: bool) -> None:
        del force
        self._leaving = not self._root
        self._node.running.call(lambda machine, now: machine.part())  # noqa: ARG005

    def _part(self) -> None:
        node, shelf = self._node, self._shelf
        self._leaving = False
        node.says.info("left")
        with suppress(StorageError):
            if shelf is not None:
                shelf.left(unclean=False)
        node.stopping.set()

    def regroup(self, group: str, join: bool) -> None:
        check_group(group)
        self._node.running.call(
            lambda machine, now: (machine.join_group if join else machine.leave_group)(group, now)
        )

    def addressed(self, payloads: Sequence[bytes], group: str) -> Sequence[bytes]:
        """Without a group: those of the node in turn, for a load, each of them in a row."""
        groups = (group,) if group else tuple(sorted(self.machine.book.groups))
        if not groups:
            raise UsageError("to which group? This node is a member of none")
        if not group and len(payloads) == 1 and len(groups) > 1:
            self._turn += 1
        turn, each = self._turn, -(-len(payloads) // len(groups))
        return [
            addressed(groups[(turn + at // each) % len(groups)], payload)
            for at, payload in enumerate(payloads)
        ]


def edge_settings(node: "Node") -> EdgeSettings:
    chosen, links = node.settings.edge, node.settings.links
    return EdgeSettings(
        delta=chosen.delta, heartbeat_us=chosen.heartbeat_us, suspect_us=chosen.suspect_us,
        drop_us=chosen.drop_us, attach_us=chosen.attach_us, probe_us=chosen.probe_us,
        linger_us=chosen.linger_us, keep_us=chosen.keep_us, alone_us=chosen.alone_us,
        status_us=chosen.status_us, window=chosen.window, rehome_us=chosen.rehome_us,
        inbox_max=node.settings.application.inbox_max, history_bytes=chosen.history_bytes,
        window_bytes=chosen.window_bytes,
        greet_us=chosen.attach_us,
        packet_bytes=min(1 << 20, links.frame_bytes_max // 2),
    )  # fmt: skip
