"""A world where processes found, join, leave, crash, come back from their disks, are evicted and return.

Processes have names and nothing else in common; packets travel between names, over links that lose, repeat,
reorder and get cut, or over sessions that keep their order and lose everything under way when they are cut.
A process takes the steps that a live node takes (`replica.steps`); the world is its links, its disk and its
clock. A crash comes between two steps, or in the middle of one: written, perhaps, and nothing sent.

The world looks inside a machine only to see whether all is settled.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from random import Random

from thence.core.errors import PeerError, StorageError, UsageError
from thence.core.group_codec import decode, encode
from thence.core.groups import START_BITS, GroupPacket, Place, number_of, process_of
from thence.core.machine import NEVER
from thence.members.extents import Progress
from thence.oplog.log import OpLog
from thence.oplog.policy import Policy, Sync
from thence.replica.group import GroupNode
from thence.replica.group_member import Member
from thence.replica.group_sending import SendQueue
from thence.replica.group_settings import GroupSettings
from thence.replica.steps import RUNS, BeginAnew, BeginSync, Refuse, Release, State, Steps
from thence.sim.attic import MemoryAttic
from thence.sim.groups_disks import DOWN_US, PROBE_US, Troubles
from thence.sim.groups_links import SimLinks
from thence.sim.groups_parts import NUMBER_BYTES, SimApplication, SimDiary, SimShelf, SimTrace, close

STEPS_MAX = 2_000_000
INCARNATIONS_MAX = 40
"""Per process. More than any storm needs: members go to and fro, and would for ever."""

Action = Callable[[], None]
Filter = Callable[[str, str, GroupPacket], GroupPacket | None]
"""From sender, receiver and packet to what is left of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Air:
    """How packets travel."""

    latency_us: int = 10_000
    jitter_us: int = 2_000
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    """Share of packets that are held up for up to eight latencies."""
    sessions: bool = False
    """Links keep their order and lose nothing while they are up."""
    links: bool = False
    """The same, and the ends are told when links come up and break. They break sometimes, the more often the
    larger the loss."""
    wire: bool = True
    """Packets travel as bytes; else as they are, which is faster."""


GUEST = "guest"


class Process:
    """What is there of a process, whether or not it runs."""

    __slots__ = (
        "application", "backlog", "backup", "dead", "dismissed", "joins", "life", "lost_disk", "paused",
        "restored", "shelf", "start", "steps", "taking", "torn", "trace", "waking",
    )  # fmt: skip

    def __init__(self, shelf: SimShelf, application: SimApplication, settings: GroupSettings) -> None:
        self.application = application
        self.backlog = SendQueue[None](settings)
        """Broadcasts that wait."""
        self.shelf = shelf
        self.steps: Steps[GroupNode, None] | None = None
        self.trace = SimTrace()
        self.start = 0
        """The number of the start that it runs under."""
        self.life = 0
        self.dismissed: set[str] = set()
        """To whom it keeps no link."""
        self.dead = False
        """Down for good."""
        self.joins = False
        """It was on its way into the group when its last step was over."""
        self.lost_disk = False
        self.backup: SimShelf | None = None
        self.restored = False
        """Its disk was put back to an earlier state."""
        self.paused = 0
        """Until then it does nothing, and whatever happens to it waits."""
        self.taking: GroupNode | None = None
        """Whose application takes one message after the other, at this moment."""
        self.torn = False
        """The next step will be cut short."""
        self.waking = NEVER

    @property
    def node(self) -> GroupNode | None:
        """What runs, if anything does."""
        return self.steps.machine if self.steps is not None and self.steps.state in RUNS else None


class GroupWorld:
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
    ) -> None:
        """`guest`: there is one more process, linked to all, that is no seed. `starts`: each start of a
        process has a number. `numbered`: so has each operation, so that disks may be put back. `closed`: all
        processes are members from the start, and none joins or leaves. `turn_us`: how long a process that
        has more to do than one step may waits before the next."""
        self.now = 0
        self._admits = frozenset(names if closed else ())
        self._numbered = numbered
        self._starts = Random(f"{seed}/starts") if numbered or starts else None
        self._numbers = count(1)
        self._sync: Policy = sync
        self.steps = 0
        self.air = air
        self.settings = settings
        self.names = names
        self.incarnations_max = INCARNATIONS_MAX * len(names)
        self.packets = Counter[str]()
        self.bytes = Counter[str]()
        self.cut: set[tuple[str, str]] = set()
        self.diaries: dict[str, SimDiary] = {}
        everybody = [*names, GUEST] if guest else names
        self.operations: dict[Place, frozenset[Place]] = {}
        """Every operation that was ever sent, and what had taken effect where it was sent."""
        self.forgotten: set[Place] = set()
        """Operations that their own process did not remember when it began anew."""
        self._members: set[str] = set()
        """Who has been a member."""
        self.leavers: set[str] = set()
        """Who has left at some time."""
        self.disorderly: list[str] = []
        """Who has left at some time, and not in order."""
        self.problem = ""
        """What stopped the world."""
        self.filter: Filter = lambda sender, receiver, packet: packet  # noqa: ARG005
        """For schedules written by hand: what arrives of a packet."""
        self.liars: set[str] = set()
        """Processes whose packets may be garbage."""
        self._random = Random(f"{seed}/air")
        self._take = Random(f"{seed}/take")
        self._take_us = take_us
        self.turn_us = turn_us
        self._disks = Random(f"{seed}/disks")
        self._heap: list[tuple[int, int, Action]] = []
        self._planned = 0
        self._order: dict[tuple[str, str], int] = {}
        self.processes = {
            name: Process(self._shelf(), SimApplication(self.operations), settings) for name in everybody
        }
        self.stale: set[tuple[str, int]] = set()
        """Incarnations whose disks had been put back, and their starts since."""
        self.misled: set[str] = set()
        """Whose trace is not what happened: others that have listened to them, processes that have used a
        number twice, or whose messages were lost with their disk."""
        self.rollbacks = 0
        for process in self.processes.values():
            process.application.numbered = numbered
        self.troubles = Troubles()
        self._down = Random(f"{seed}/troubles")
        self._links = SimLinks(self, everybody, Random(f"{seed}/links")) if air.links else None

    def _shelf(self) -> SimShelf:
        return SimShelf(Random(self._disks.random()), 1 << 14, self._sync)

    # Time

    def at(self, when: int, action: Action) -> None:
        self._planned += 1
        heappush(self._heap, (max(when, self.now), self._planned, action))

    def run(self, until: int, stop: Callable[[], bool] | None = None, look_us: int = 250_000) -> bool:
        """Let things happen up to `until`, or until `stop` says so. Returns whether it did."""
        look = self.now + look_us
        while self._heap and self._heap[0][0] <= until and not self.problem:
            when = self._heap[0][0]
            if stop is not None and when > look:
                if stop():
                    return True  # the next thing still happens, if the world goes on
                look = when + look_us
            _, _, action = heappop(self._heap)
            self.now = when
            action()
        if not self.problem:
            self.now = max(self.now, until)
        return stop is not None and not self.problem and stop()

    # Processes

    def diary(self, member: str) -> SimDiary:
        if member not in self.diaries:
            self.diaries[member] = SimDiary()
            self.processes[process_of(member)].trace.diaries.append(self.diaries[member])
        return self.diaries[member]

    def boot(self, name: str, joins: bool = False) -> None:
        """The process starts, from its disk if there is anything on it. `joins`: it was on its way into the
        group, and goes on."""
        process = self.processes[name]
        if process.steps is not None or process.dead:
            return
        process.waking = NEVER
        process.dismissed.clear()
        try:
            process.start = self._start(process)
            machine = self._make(name, process)
        except StorageError:
            process.trace.crash()
            process.application.take_back()
            self.troubles.full += 1
            self.at(self.now + PROBE_US, lambda: self.boot(name, joins))
            return

        def make(now: int) -> GroupNode:  # noqa: ARG001
            return self._make(name, process)

        process.steps = Steps(machine, make, process.trace, process.backlog, self.now)
        self._step(name, lambda node: None)  # noqa: ARG005
        self._enter(name, process, joins)

    def _enter(self, name: str, process: Process, joins: bool) -> None:
        """The machine was made, from the disk; whatever is no member goes in. A closed group begins."""
        node = process.node
        if node is None:
            return
        if joins or node.former is not None:
            self.join(name)
        elif node.member is None and name in self._admits:
            others = {other: f"at {other}" for other in self.names if other != name}
            process.application.reader.begin_anew()
            self.call(name, lambda node: node.found(self.now, others))

    def _make(self, name: str, process: Process) -> GroupNode:
        application = process.application
        application.order.clear()
        application.applied.clear()
        application.replays = set()
        process.trace.crash()
        try:
            node = GroupNode(
                name, process.shelf, application, self.diary, tuple(self.names), self.settings, self.now,
                self.now // 1000 if process.lost_disk else 0, f"at {name}", MemoryAttic,
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
            if self.diary(member.me).is_ahead(member.ledger.count):
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

    def crash(self, name: str, torn: bool = False, power: bool = True) -> None:
        """The process stops: now, or in the middle of its next step; `power`: so does its machine."""
        process = self.processes[name]
        if process.steps is None:
            return
        if torn:
            process.torn = True
            return
        process.steps = None
        process.trace.crash()
        process.application.take_back()
        process.backlog.take()
        process.life += 1
        process.torn = False
        if power:
            process.shelf.lose_power()

    def lose_disk(self, name: str) -> None:
        """Everything that the process had written down is gone; it starts again with nothing."""
        self.crash(name)
        process = self.processes[name]
        process.shelf = self._shelf()
        self._forgets(name, set())
        process.lost_disk = True
        process.restored = process.restored or name in self._admits  # to how a closed group begins

    def _forgets(self, name: str, remembers: set[Place]) -> None:
        """A process remembers nothing but this: of its own operations, others may bring the rest late."""
        application = self.processes[name].application
        self.forgotten.update(place for place in application.ever - remembers if process_of(place[0]) == name)
        application.ever &= remembers

    def call(self, name: str, action: Callable[[GroupNode], object]) -> None:
        """Somebody asks something of a process; what makes no sense there is refused."""

        def asked(node: GroupNode) -> None:
            try:
                action(node)
            except UsageError:
                self.packets["refused"] += 1

        if self.processes[name].node is not None:
            self._step(name, asked)

    def join(self, name: str) -> None:
        """The process is to become a member; whatever it was before, it begins with nothing, but for one who
        has forgotten something."""
        process = self.processes[name]
        if process.node is not None and process.node.status == "outside":
            process.dismissed.clear()  # any of them may let it in
            if process.node.former is None:
                process.application.install(b"")
                self._forgets(name, set())
                process.application.reader.begin_anew()
            self.call(name, lambda node: node.join(self.now))

    def refound(self, name: str) -> None:
        """Nobody is a member any more, and all have forgotten something: the group is founded again from what
        this process remembers. What it does not is lost, unless somebody brings it: even what had been
        stable, since those who had said that they have it did not know what they would forget."""
        self.call(name, lambda node: node.refound(self.now))
        self._was_refounded(name)

    def _was_refounded(self, name: str) -> None:
        kept = frozenset(self.processes[name].application.applied)
        for place, past in self.operations.items():
            self.operations[place] = past & kept
        for other in self.names:
            self._forgets(other, set(kept))

    def send(self, name: str, payload: bytes = b"", count: int = 1) -> None:
        """Its program broadcasts, so many operations in one turn."""

        def ask(steps: Steps[GroupNode, None]) -> None:
            # Only now: a process that was paused goes on with something else, perhaps.
            numbers = [next(self._numbers) for _ in range(count)] if self._numbered else []
            heads = [number.to_bytes(NUMBER_BYTES, "big") for number in numbers] or [b""] * count
            steps.ask([head + payload for head in heads], None)
            steps.settle(self.now)

        if self.processes[name].node is not None:
            self._input(name, ask)

    def _settle(self, name: str, life: int) -> None:
        """Broadcasts that had to wait."""
        process = self.processes[name]
        if process.life == life and process.node is not None:
            self._input(name, lambda steps: steps.settle(self.now))

    def _step(self, name: str, action: Callable[[GroupNode], object]) -> None:
        self._input(name, lambda steps: steps.run(lambda node, now: action(node), self.now))  # noqa: ARG005

    def _input(self, name: str, act: Callable[[Steps[GroupNode, None]], object]) -> None:
        """Something happens to a process that runs."""
        process = self.processes[name]
        if self.now < process.paused:
            life = process.life
            self.at(process.paused, lambda: self._after_pause(name, life, act))
            return
        self.steps += 1
        if self.steps > STEPS_MAX or len(self.diaries) > self.incarnations_max:
            self.problem = f"no end: {self.steps} steps, {len(self.diaries)} incarnations"
            return
        assert process.steps is not None
        act(process.steps)
        self._carry_out(name, process, process.steps)

    def _after_pause(self, name: str, life: int, act: Callable[[Steps[GroupNode, None]], object]) -> None:
        process = self.processes[name]
        if process.life == life and process.node is not None:
            self._input(name, act)

    def _carry_out(self, name: str, process: Process, steps: Steps[GroupNode, None]) -> None:
        """What a step has released, in order, and what the process waits for."""
        if process.torn and steps.state in RUNS:
            self.crash(name)
            return
        looked = False
        while steps.effects and process.steps is steps:
            effect = steps.effects.popleft()
            if isinstance(effect, BeginSync):
                self._do_sync(steps, *effect)
            elif isinstance(effect, Release):
                if not looked:
                    looked = True
                    self._look(name, process, steps.machine)
                for other, where in (effect.links or {}).items():
                    (process.dismissed.add if where is None else process.dismissed.discard)(other)
                process.application.released(effect.events)
                for to, packet in effect.posts:
                    self._transmit(name, to, packet)
            elif isinstance(effect, Refuse):
                self.packets["refused"] += len(effect.calls)
            elif isinstance(effect, BeginAnew):
                self._stall(name, process, steps)
            elif isinstance(effect.why, StorageError):
                self.troubles.stopped += 1
                self._goes_down(name, process.joins)
            else:
                self.problem = f"{name}: {effect.why}"
        if process.steps is steps and steps.state in RUNS:
            if not looked:
                self._look(name, process, steps.machine)
            self._plan(name, process, steps)

    def _do_sync(self, steps: Steps[GroupNode, None], log: OpLog, sync: Sync) -> None:
        try:
            log.files.sync(sync.file)
        except StorageError as error:
            steps.sync_failed(log, sync, error, self.now)
        else:
            steps.synced(log, sync, self.now)

    def _goes_down(self, name: str, joins: bool) -> None:
        """Its disk has failed it for good; it is started again some time later."""
        self.crash(name)
        self.at(self.now + self._down.randint(*DOWN_US), lambda: self.boot(name, joins))

    def _stall(self, name: str, process: Process, steps: Steps[GroupNode, None]) -> None:
        """A write failed: links are gone, and the disk is tried again now and then."""
        self.troubles.full += 1
        process.application.take_back()
        process.life += 1
        joins = process.joins

        def probe() -> None:
            if process.steps is not steps or steps.state is not State.STALLED:
                return
            process.waking = NEVER
            process.torn = False
            steps.probe(self.now)
            self._carry_out(name, process, steps)
            self._enter(name, process, joins)
            if process.node is None and process.steps is steps:
                self.troubles.full += 1
                self.at(self.now + PROBE_US, probe)

        self.at(self.now + PROBE_US, probe)

    def _look(self, name: str, process: Process, node: GroupNode) -> None:
        """A step is over, and safe: what has become of the process?"""
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

    def _plan(self, name: str, process: Process, steps: Steps[GroupNode, None]) -> None:
        """What the process waits for."""
        node, life = steps.machine, process.life
        if steps.due:
            self.at(self.now, lambda: self._settle(name, life))
        if process.taking is node:
            return  # the step that it began with goes on from here
        if node.waiting:
            self._to_take(name, process)
        wake_at = max(steps.wake_at, self.now + self.turn_us) if self.turn_us else steps.wake_at
        if process.steps is steps and steps.state in RUNS and wake_at < process.waking:
            process.waking = wake_at
            self.at(process.waking, lambda: self._wake(name, life))

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

    def _wake(self, name: str, life: int) -> None:
        process = self.processes[name]
        if process.life == life and process.node is not None and self.now >= process.waking:
            process.waking = NEVER
            self._input(name, lambda steps: steps.wake(self.now))

    def _to_take(self, name: str, process: Process) -> None:
        if not self._take_us:
            before, process.taking = process.taking, process.node
            while (node := process.node) is not None and not self.problem and node.waiting:
                self._step(name, lambda node: node.take(1, self.now))
            process.taking = before
            return
        life = process.life

        def take() -> None:
            node = process.node
            if process.life == life and node is not None and node.waiting:
                self._step(name, lambda node: node.take(1, self.now))

        self.at(self.now + int(self._take.random() * self._take_us), take)

    # Links

    def _transmit(self, sender: str, receiver: str, packet: GroupPacket) -> None:
        kept = self.filter(sender, receiver, packet)
        if receiver in self.processes and kept is not None:
            self.forge(sender, receiver, kept)

    def forge(self, sender: str, receiver: str, packet: GroupPacket) -> None:
        """A packet is on its way, whatever the machine of its sender thinks of it."""
        kind = type(packet).__name__.lower()
        self.packets[kind] += 1
        air, chance = self.air, self._random.random
        data = encode(packet) if air.wire else None
        if data is not None:
            self.bytes[kind] += len(data)
        if (sender, receiver) in self.cut:
            self.packets["cut off"] += 1
            return
        if self._links is not None:
            self._links.breaks = air.loss / 20
            delay = air.latency_us + int(chance() * air.jitter_us)
            if not self._links.transmit(sender, receiver, packet, data, delay):
                self.packets["unlinked"] += 1
            return
        for _ in range(2 if chance() < air.duplicate and not air.sessions else 1):
            if chance() < air.loss and not air.sessions:
                self.packets["lost"] += 1
                continue
            delay = air.latency_us + int(chance() * air.jitter_us)
            if chance() < air.reorder and not air.sessions:
                delay += int(8 * chance() * air.latency_us)
            when = self.now + delay
            if air.sessions:
                when = self._order[sender, receiver] = max(when, self._order.get((sender, receiver), 0))
            self.at(when, lambda: self._bring(sender, receiver, packet, data))

    def _bring(self, sender: str, receiver: str, packet: GroupPacket, data: bytes | None) -> None:
        if self.processes[receiver].node is None or (self.air.sessions and (sender, receiver) in self.cut):
            return
        self.arrive(sender, receiver, packet, data)

    def arrive(self, sender: str, receiver: str, packet: GroupPacket, data: bytes | None) -> bool:
        good, lies = True, sender in self.liars
        if lies and data is None:
            data = encode(packet)

        def receive(steps: Steps[GroupNode, None]) -> None:
            nonlocal good
            try:
                steps.receive(sender, [packet] if data is None else map(decode, [data]), self.now)
            except PeerError:
                self.packets["lies" if lies else "garbage"] += 1
                good = False

        self._input(receiver, receive)
        return good

    def life(self, name: str) -> int:
        process = self.processes[name]
        return process.life if process.node is not None else -1

    def paused(self, name: str) -> int:
        return self.processes[name].paused

    def is_cut(self, one: str, other: str) -> bool:
        return (one, other) in self.cut

    def is_wanted(self, one: str, other: str) -> bool:
        if not self.settings.rings:
            return True
        return other not in self.processes[one].dismissed or one not in self.processes[other].dismissed

    def told(self, name: str, other: str, up: bool) -> None:
        self._step(
            name, lambda node: node.link_up(other, self.now) if up else node.link_down(other, self.now)
        )

    # Is all well?

    def up(self) -> list[str]:
        return [name for name, process in self.processes.items() if process.node is not None]

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
        """Of whom a member has to speak although their processes have come back with all that they had. Those
        to whom somebody left what it had may be dead; and where some have forgotten or declined something,
        others who are away might have it."""
        vague = self._sync != "always" or any(one.application.declined for one in self.processes.values())
        vague = vague or any(one.backup is not None for one in self.processes.values())
        whole = {name for name in inside - self.leavers if not self.processes[name].lost_disk}
        if vague and whole < set(self.names):
            return []
        view = member.view
        return [name for name in sorted(view.suspects | view.strangers) if process_of(name) in whole]

    def lost_operations(self) -> set[Place]:
        """Operations that some process, still running with the disk that it always had, had once applied,
        and that are in no state any more, although nobody wanted that."""
        members = [
            process
            for process in self.processes.values()
            if process.node is not None and process.node.status == "member"
        ]
        had = set[Place]().union(*[process.application.ever for process in members])
        had.difference_update(*[process.application.declined for process in self.processes.values()])
        have = [process.application.applied for process in members]
        return {place for place in had if not all(place in applied for applied in have)}

    def silent_losses(self) -> list[tuple[str, Place]]:
        """What took effect, and a program without a state neither got nor was told that it has missed."""
        return [
            (name, place)
            for name, process in self.processes.items()
            if process.application.reads and process.node is not None and process.node.status == "member"
            for place in process.application.reader.silent(process.application.applied)
        ]

    def out_of_order(self) -> list[tuple[Place, Place]]:
        """Operations of one process that took effect somewhere after a later one of the same process: rule 32
        of docs/protocols/membership.md. What the process had forgotten or declined may come late."""
        found = []
        declined = {name: {*process.application.declined} for name, process in self.processes.items()}
        for process in self.processes.values():
            latest: dict[str, tuple[int, int, Place]] = {}
            for place in process.application.order:
                of = process_of(place[0])
                late = place in self.forgotten or place in declined[of]
                this = number_of(place[0]), place[1], place
                if not late and this < (last := latest.setdefault(of, this)):
                    found.append((place, last[2]))
                elif not late:
                    latest[of] = this
        return found

    @property
    def forgives(self) -> bool:
        """May a trace show operations of one process out of their order? Some were forgotten or declined."""
        declined = any(process.application.declined for process in self.processes.values())
        return declined or bool(self.forgotten)

    def close_diaries(self) -> None:
        """Incarnations that do not run any more are down, but for those that have left. Who left a side that
        was given up later left nobody behind who knows of it: what it held went with that side."""
        nodes = [process.node for process in self.processes.values() if process.node is not None]
        running = {node.member.me for node in nodes if node.member is not None}
        close(self.diaries, running, self.now)


def _as_it_is(place: Place) -> Place:
    return place
