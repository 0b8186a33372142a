"""A world where processes found, join, leave, crash, come back from their disks, are evicted and return.

It is a world of steps (`sim.step_world`) whose machines are processes of a group. It looks inside
a machine only to see whether all is settled.
"""

from functools import partial
from itertools import count
from random import Random

from thence.core.group_codec import decode, encode
from thence.core.groups import START_BITS, Place, process_of, told_apart
from thence.members.extents import Progress
from thence.oplog.policy import Policy
from thence.replica.group.lifecycle.stages import PROCESS, ProcessStage
from thence.replica.group.member.member import Member
from thence.replica.group.process.node import GroupNode
from thence.replica.group.settings import GroupSettings
from thence.replica.steps import Steps
from thence.sim.air import Air
from thence.sim.attic import MemoryAttic
from thence.sim.diaries import SimDiary, close
from thence.sim.groups_fakes import NUMBER_BYTES, SimApplication
from thence.sim.groups_forgotten import SeenForgotten
from thence.sim.groups_links import SimLinks
from thence.sim.groups_pasts import Pasts, reduced
from thence.sim.groups_store import SimStore
from thence.sim.shelf import SimShelf
from thence.sim.step_process import StepProcess
from thence.sim.step_world import StepWorld

GUEST = "guest"

SEEK_US = 1_000_000
"""Between two attempts to find the group."""


class Process(StepProcess[GroupNode, SimApplication]):
    """What is there of a process, whether or not it runs."""

    __slots__ = ("backup", "found", "lost_disk", "restored", "start")

    def __init__(self, shelf: SimShelf, application: SimApplication, settings: GroupSettings) -> None:
        super().__init__(shelf, application, settings)
        self.start = 0
        """The number of the start that it runs under."""
        self.lost_disk = 0
        """The highest number that it had used by then: what it uses next is above, as seconds are live."""
        self.backup: SimShelf | None = None
        self.restored = False
        """Its disk was put back to an earlier state."""
        self.found: tuple[GroupNode, ProcessStage] | None = None
        """What ran after the last step, and in which stage it was."""


class GroupWorld(StepWorld[GroupNode, Process]):
    def __init__(
        self,
        seed: int | str,
        names: list[str],
        air: Air,
        settings: GroupSettings,
        take_us: int = 0,
        sync: Policy = "always",
        guest: bool = False,
        numbered: bool = False,
        starts: bool = False,
        closed: bool = False,
        turn_us: int = 0,
        store: bool = False,
        strangers: bool = False,
        sync_us: int = 0,
    ) -> None:
        """`guest`: there is one more process, linked to all, that is no seed. `starts`: each start of a
        process has a number. `numbered`: so has each operation, so that disks may be put back. `closed`: all
        processes are members from the start, and none joins or leaves. `turn_us`: how long a process that
        has more to do than one step may waits before the next. `store`: programs are stores. `strangers`: a
        process knows no others but those on its disk, and those that it is told of when it looks for the
        group."""
        super().__init__(seed, names, air, (encode, decode), take_us, sync, turn_us, sync_us)
        self._admits = frozenset(names if closed else ())
        self._numbered = numbered
        self._starts = Random(f"{seed}/starts") if numbered or starts else None
        self._numbers = count(1)
        self._strangers = strangers
        self._seeks: set[str] = set()
        """Processes that have found no contact to join through."""
        self._pointing = Random(f"{seed}/named")
        self.settings = settings
        all_names = [*names, GUEST] if guest else names
        self.operations: Pasts = {}
        """Every operation that was ever sent, and what had taken effect where it was sent."""
        self.forgotten = SeenForgotten()
        self._members: set[str] = set()
        """Incarnations that have been members."""
        self.leavers: set[str] = set()
        """Processes that have left at some time."""
        self.disorderly: list[str] = []
        """Processes that have left at some time, and not in order."""
        self.processes = {}
        for name in all_names:
            application = SimApplication(self.operations)
            if store:
                application = SimStore(name, self.operations, lambda: self.now, seed)
            application.on_send = partial(self.forgotten.sends, name)
            application.on_decline = partial(self.forgotten.declines, name)
            self.processes[name] = Process(self._shelf(), application, settings)
        self.stale: set[tuple[str, int]] = set()
        """Incarnations whose disks had been put back, and their starts since."""
        self.misled: set[str] = set()
        """Whose trace is not what happened: others that have listened to them, processes that have used a
        number twice, or whose messages were lost with their disk."""
        self.rollbacks = 0
        for process in self.processes.values():
            process.application.numbered = numbered
        self._links = SimLinks(self, all_names, Random(f"{seed}/links")) if air.links else None

    # Processes

    def diary(self, member: str) -> SimDiary:
        if member not in self.diaries:
            self.diaries[member] = SimDiary()
            self.processes[process_of(member)].trace.diaries.append(self.diaries[member])
        return self.diaries[member]

    def _begins(self, process: Process) -> None:
        process.start = self._start(process)
        if self._strangers:
            process.dismissed = set(self.names)

    def _enter(self, name: str, process: Process, joins: bool) -> None:
        """The machine was made, from the disk; whatever is no member goes in. A closed group begins."""
        node = process.node
        if node is None:
            return
        if joins or node.former is not None or name in self._seeks:
            self.join(name)
        elif node.member is None and name in self._admits:
            others = {other: f"at {other}" for other in self.names if other != name}
            process.application.reader.begin_anew()
            self.call(name, lambda node: node.found(self.now, others))

    def _make(self, name: str, process: Process) -> GroupNode:
        application = process.application
        application.begin()
        application.replays = set()
        process.trace.crash()
        try:
            node = GroupNode(
                name, process.shelf, application, self.diary, () if self._strangers else tuple(self.names),
                self.settings, self.now,
                process.lost_disk and max(self.now // 1000, process.lost_disk), f"at {name}", MemoryAttic,
                process.shelf.forgetful, process.start, self.air.links, self._admits,
            )  # fmt: skip
        finally:
            replayed, application.replays = application.replays, None
        if (member := node.member or node.former) is not None:
            had = Progress(member.reading.extent(member.ledger, member.operations))
            # Only a disk that was put back makes two operations of one counter: else counters do, also those
            # of a start that none but this process has heard of.
            exactly = member.ledger.timelines.exactly if self._numbered else _as_it_is
            places = application.places
            unread = {application.known_as(operation) for operation in member.reading.unread}
            twice = application.reader.restarted(
                replayed, lambda place: had.covers(places.get(place, place), exactly), unread
            )
            if twice and not (process.shelf.forgetful or process.restored):
                self.problem = f"{name} is told twice: {twice}"
        if process.shelf.forgetful or process.restored:  # what it has forgotten is for others to remember
            self._forgets(name, set(application.applied))
        if process.restored and node.member is not None:
            member = node.member
            self.stale.add((member.me, process.start))
            diary = self.diary(member.me)
            if diary.ended or diary.is_ahead(member.ledger.count):
                self.misled.add(name)  # its trace tells of messages that may be nowhere any more
        return node

    def _start(self, process: Process) -> int:
        if self._starts is None:
            return 0
        process.shelf.boots += 1
        return process.shelf.boots << START_BITS | self._starts.getrandbits(START_BITS)

    def save(self, name: str) -> None:
        """A backup of what the process has on its disk."""
        self.processes[name].backup = self.processes[name].shelf.copy()

    def restore(self, name: str) -> None:
        """The backup is put in the place of the disk; the process is down."""
        process = self.processes[name]
        if process.backup is not None and process.backup.kept():
            self.crash(name, power=False)
            process.shelf, process.restored = process.backup.copy(), True

    def lose_disk(self, name: str) -> None:
        """Everything that the process had written down is gone; it starts again with nothing."""
        self.crash(name)
        process = self.processes[name]
        process.lost_disk = max([1, process.lost_disk, *process.shelf.used])
        process.shelf = self._shelf()
        self._forgets(name, set())
        process.restored = process.restored or name in self._admits  # to how a closed group begins

    def _forgets(self, name: str, remembers: set[Place]) -> None:
        """A process remembers nothing but this: of its own operations, others may bring the rest late."""
        self.forgotten.forgets(name, remembers)
        self.processes[name].application.ever &= remembers

    def join(self, name: str) -> None:
        """The process is to become a member; whatever it was before, it begins with nothing, but for one who
        has forgotten something."""
        process = self.processes[name]
        if process.node is not None and process.node.status == "outside":
            if not self._may_ask(name, process, process.node):
                return
            if process.node.former is None:
                process.application.install(b"")
                self._forgets(name, set())
                process.application.reader.begin_anew()
            self.call(name, lambda node: node.join(self.now))

    def _may_ask(self, name: str, process: Process, node: GroupNode) -> bool:
        """Does it know of others that may let it in? Else it looks for them again later."""
        found = self._find(name, process) if self._strangers else self.names
        process.dismissed.difference_update(found)
        if self._strangers:
            for other in found:
                node.meet(other)
        (self._seeks.discard if found else self._seeks.add)(name)
        if not found:
            self.at(self.now + SEEK_US, lambda: self.join(name) if name in self._seeks else None)
        return bool(found)

    def _find(self, name: str, process: Process) -> list[str]:
        """The members that its contacts know: those on its disk, and one that people name."""
        views = {
            other: node.member.view.view
            for other in self.up()
            if (node := self.processes[other].node) is not None and node.member is not None
        }
        there = [other for other in views if not (self.is_cut(name, other) or self.is_cut(other, name))]
        asked = [other for other in there if other in process.shelf.contacts]
        if there:
            asked.append(self._pointing.choice(there))
        found = {process_of(member) for other in asked for member in views[other]}
        return sorted((found if views else set(self.names)) - {name})

    def refound(self, name: str) -> None:
        """No process is a member any more, and all have forgotten something: the group is founded again from
        what this one remembers. What it does not is lost, unless another brings it: even what had been
        stable, since those that had said that they have it did not know what they would forget."""
        self.call(name, lambda node: node.refound(self.now))
        self._was_refounded(name)

    def _was_refounded(self, name: str) -> None:
        kept = frozenset(self.processes[name].application.applied)
        self.operations |= reduced(self.operations, kept)
        for other in self.names:
            self._forgets(other, set(kept))

    def send(self, name: str, payload: bytes = b"", count: int = 1) -> None:
        """Its program broadcasts, so many operations in one turn."""

        def ask(steps: Steps[GroupNode, None]) -> None:
            # Only now: a process that was paused goes on with something else, perhaps.
            payloads = self.processes[name].application.compose(steps.machine, payload, count)
            if self._numbered:
                payloads = [next(self._numbers).to_bytes(NUMBER_BYTES, "big") + one for one in payloads]
            if payloads:
                steps.ask(payloads, None)
                steps.settle(self.now)

        if self.processes[name].node is not None:
            self._input(name, ask)

    def _look(self, name: str, process: Process, node: GroupNode) -> None:
        """A step is over, and safe: what has become of the process?"""
        before, process.found = process.found, (node, stage := node.stage)
        if before is not None and before[0] is node and before[1] is not stage:
            PROCESS.move(before[1], stage)  # or the run ends, as with any broken invariant
        if node.member is not None:
            process.shelf.forgetful = False  # an incarnation of its own, that has forgotten nothing
            if self._sync != "always" and self._refounds(node.member):
                self._was_refounded(name)
            if self._numbered:
                self._look_for_misled(name, node.member)
        elif node.rollback is not None and process.restored:
            process.restored = False
            self.rollbacks += 1
        if node.status == "outside" and process.trace.diaries:
            self.leavers.add(name)
            if node.unclean and name not in self.disorderly:
                self.disorderly.append(name)
        process.joins = node.status == "joining"

    def _refounds(self, member: Member) -> bool:
        """Has it begun in this step, alone, with what a former incarnation of it had? One that has lost
        power, and meets none but those that were put back, founds the group again by itself."""
        begun = member.me not in self._members
        self._members.add(member.me)
        return begun and member.view.view == {member.me} and bool(member.view.suspects)

    def _used_twice(self, name: str) -> bool:
        used = self.processes[name].shelf.used
        return len(set(used)) < len(used)

    def _look_for_misled(self, name: str, member: Member) -> None:
        if member.ledger.timelines.starts and self._used_twice(name):
            self.misled.add(name)
        for origin, starts in member.ledger.timelines.starts.items():
            if process_of(origin) != name and any((origin, start) in self.stale for _, start in starts):
                self.misled.add(name)

    # Links

    def is_wanted(self, one: str, other: str) -> bool:
        if not (self.settings.rings or self._strangers):
            return True
        return other not in self.processes[one].dismissed or one not in self.processes[other].dismissed

    # Is all well?

    def unsettled(self) -> str:
        """Why the group is not at rest; empty: it is."""
        first: GroupNode | None = None
        for name in self.up():
            node = self.processes[name].node
            assert node is not None
            if node.status == "outside":
                continue
            if node.status != "member" or node.member is None:
                return f"{name} is {node.status}"
            if node.unread:
                return f"{node.member.me} has {node.unread} to read that it missed"
            if not node.member.drained:
                return f"{node.member.me} is not drained: {node.member.trouble()}"
            if first is None or first.member is None:
                first = node
            elif node.member.view.view != first.member.view.view:
                return f"{name} and {first.name} have different views"
            elif node.member.ledger.vector() != first.member.ledger.vector():
                return f"{name} and {first.name} have delivered different messages"
            elif node.application.applied != first.application.applied:  # type: ignore[attr-defined]
                return f"{name} and {first.name} have applied different operations"
        if first is not None and first.member is not None:
            alive = {process_of(member) for member in first.member.view.view}
            inside = {name for name in self.up() if self.processes[name].node.status == "member"}  # type: ignore[union-attr]
            if alive != inside:
                return f"members {sorted(alive)}, but {sorted(inside)} run"
            if named := self._named(first.member, inside):
                return f"{named} have come back, and are still spoken of"
        return ""

    def _named(self, member: Member, inside: set[str]) -> list[str]:
        """Incarnations that a member still names although their processes have come back with all that they
        had. The heirs of leavers may be dead; and where some have forgotten or declined something, others
        that are away might have it."""
        vague = self._sync != "always" or any(one.application.declined for one in self.processes.values())
        vague = vague or any(one.backup is not None for one in self.processes.values())
        whole = {name for name in inside - self.leavers if not self.processes[name].lost_disk}
        if vague and whole < set(self.names):
            return []
        view = member.view
        return [name for name in sorted(view.suspects | view.strangers) if process_of(name) in whole]

    # Traces

    def forgotten_in_trace(self) -> SeenForgotten:
        """What was forgotten, under the names that a trace has for it: an operation's dot."""
        named: dict[Place, Place] = {}
        for process in self.processes.values() if self.forgotten else ():
            for place, (origin, seq) in process.application.places.items():
                named[place] = told_apart(origin)[0], seq
        return self.forgotten.renamed(named)

    def close_diaries(self) -> None:
        """Incarnations that do not run any more are down, but for those that have left. A member that left a
        side that was given up later left no member that knows of it: what it held went with that side."""
        nodes = [process.node for process in self.processes.values() if process.node is not None]
        running = {node.member.me for node in nodes if node.member is not None}
        close(self.diaries, running, self.now)


def _as_it_is(place: Place) -> Place:
    return place
