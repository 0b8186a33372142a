"""A world where processes found, join, leave, crash, come back from their disks, are evicted and return.

Processes have names and nothing else in common; packets travel between names, over links that lose, repeat,
reorder and get cut, or over sessions that keep their order and lose everything under way when they are cut.
A step is: something happens to a process; its log is committed and synced; its packets leave. A crash comes
between two steps, or in the middle of one: written, perhaps, and nothing sent.

The world drives the same machine that a live node would, and looks inside only to see whether all is settled.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from random import Random

from thence.core.errors import InvariantError, PeerError, StorageError, UsageError
from thence.core.group_codec import decode, encode
from thence.core.groups import GroupPacket, Place, number_of, process_of
from thence.core.machine import NEVER, Wake
from thence.members.extents import Progress
from thence.oplog.policy import Policy
from thence.replica.group import GroupNode
from thence.replica.group_member import Member
from thence.replica.group_sending import SendQueue
from thence.replica.group_settings import GroupSettings
from thence.sim.attic import MemoryAttic
from thence.sim.groups_disks import GroupTroubles, sync
from thence.sim.groups_links import SimLinks
from thence.sim.groups_parts import NUMBER_BYTES, SimApplication, SimDiary, SimShelf, close

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
        "application", "backlog", "backup", "dead", "joins", "life", "lost_disk", "node", "paused",
        "restored", "shelf", "taking", "torn", "waking",
    )  # fmt: skip

    def __init__(self, shelf: SimShelf, application: SimApplication, settings: GroupSettings) -> None:
        self.application = application
        self.backlog = SendQueue[None](settings)
        """Broadcasts that wait."""
        self.shelf = shelf
        self.node: GroupNode | None = None
        self.life = 0
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
    ) -> None:
        """`guest`: there is one more process, linked to all, that is nobody's seed. `numbered`: starts have
        numbers, and so have operations, so that disks may be put back."""
        self.now = 0
        self._starts = Random(f"{seed}/starts") if numbered else None
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
        self._diaries: dict[str, list[SimDiary]] = {name: [] for name in everybody}
        self.operations: dict[Place, frozenset[Place]] = {}
        """Every operation that was ever sent, and what had taken effect where it was sent."""
        self.forgotten: set[Place] = set()
        """Operations that their own process did not remember when it began anew."""
        self._left: set[str] = set()
        """Who has left at some time."""
        self.problem = ""
        """What stopped the world."""
        self.filter: Filter = lambda sender, receiver, packet: packet  # noqa: ARG005
        """For schedules written by hand: what arrives of a packet."""
        self.liars: set[str] = set()
        """Processes whose packets may be garbage."""
        self._random = Random(f"{seed}/air")
        self._take = Random(f"{seed}/take")
        self._take_us = take_us
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
        self.troubles = GroupTroubles(self, Random(f"{seed}/troubles"))
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
            self._diaries[process_of(member)].append(self.diaries[member])
        return self.diaries[member]

    def boot(self, name: str) -> None:
        """The process starts, from its disk if there is anything on it."""
        process = self.processes[name]
        if process.node is not None or process.dead:
            return
        floor = self.now // 1000 if process.lost_disk else 0
        application = process.application
        application.order.clear()
        application.applied.clear()
        application.replays = set()
        process.waking = NEVER
        try:
            start = self._start(process)
            process.node = GroupNode(
                name, process.shelf, process.application, self.diary, tuple(self.names), self.settings,
                self.now, floor, f"at {name}", MemoryAttic, process.shelf.forgetful,
                start, self.air.links,
            )  # fmt: skip
        except StorageError:
            self._never_was(name, process, None)
            return
        finally:
            replayed, application.replays = application.replays, None
        if (member := process.node.member or process.node.former) is not None:
            had = Progress(member.reading.extent(member.ledger, member.operations))
            exactly, places = member.ledger.timelines.exactly, application.places
            unread = {application.known_as(operation) for operation in member.reading.unread}
            twice = application.reader.restarted(
                replayed, lambda place: had.covers(places.get(place, place), exactly), unread
            )
            if twice and not (process.shelf.forgetful or process.restored):
                self.problem = f"{name} is told twice: {twice}"
        if process.shelf.forgetful or process.restored:  # what it has forgotten is for others to remember
            self._forgets(name, set(process.application.applied))
        if process.restored and process.node.member is not None:
            member = process.node.member
            self.stale.add((member.me, start))
            if self.diary(member.me).is_ahead(member.ledger.count):
                self.misled.add(name)  # its trace tells of messages that may be nowhere any more
        self._step(name, lambda node: None)  # noqa: ARG005
        if process.node is not None and process.node.former is not None:
            self.join(name)

    def _start(self, process: Process) -> int:
        if self._starts is None:
            return 0
        process.shelf.boots += 1
        return process.shelf.boots << 32 | self._starts.getrandbits(32)

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
        if process.node is None:
            return
        if torn:
            process.torn = True
            return
        process.node = None
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
        kept = frozenset(self.processes[name].application.applied)
        for place, past in self.operations.items():
            self.operations[place] = past & kept
        for other in self.names:
            self._forgets(other, set(kept))

    def send(self, name: str, payload: bytes = b"") -> None:
        backlog = self.processes[name].backlog

        def broadcast(node: GroupNode) -> None:
            if not backlog and not node.in_debt:
                self._broadcast(name, node, payload)
            elif backlog.add([payload], None, self.now):
                self.at(self.now + self.settings.settle_timeout_us, give_up)

        def give_up() -> None:
            backlog.overdue(self.now)

        self.call(name, broadcast)

    def _broadcast(self, name: str, node: GroupNode, payload: bytes) -> None:
        past = frozenset(self.processes[name].application.applied)
        if self._starts is None:
            self.operations[node.broadcast(payload, self.now)] = past
            return
        number = next(self._numbers)
        origin, _ = node.broadcast(number.to_bytes(NUMBER_BYTES, "big") + payload, self.now)
        self.operations[origin, number] = past

    def _send_held(self, name: str) -> None:
        """Broadcasts that had to wait, in order."""
        process = self.processes[name]

        def broadcast(node: GroupNode) -> None:
            if not node.in_debt:
                for payloads, _ in process.backlog.take():
                    self._broadcast(name, node, *payloads)

        if process.backlog and process.node is not None:
            self.call(name, broadcast)

    def _step(self, name: str, action: Callable[[GroupNode], object]) -> None:
        process = self.processes[name]
        if self.now < process.paused:
            life = process.life
            self.at(process.paused, lambda: self._after_pause(name, life, action))
            return
        self.steps += 1
        if self.steps > STEPS_MAX or len(self.diaries) > self.incarnations_max:
            self.problem = f"no end: {self.steps} steps, {len(self.diaries)} incarnations"
            return
        node = process.node
        assert node is not None
        try:
            action(node)
            self._end_step(name, process, node)
        except InvariantError as error:
            self.problem = f"{name}: {error}"
        except StorageError:
            self._never_was(name, process, node)

    def _never_was(self, name: str, process: Process, node: GroupNode | None) -> None:
        """What the process did last could not be written down."""
        self._take_back(name, process)
        self.troubles.failed(name, node, process.joins)

    def _take_back(self, name: str, process: Process) -> None:
        for diary in self._diaries[name]:
            diary.take_back()
        process.application.take_back()

    def _after_pause(self, name: str, life: int, action: Callable[[GroupNode], object]) -> None:
        process = self.processes[name]
        if process.life == life and process.node is not None:
            self._step(name, action)

    def _end_step(self, name: str, process: Process, node: GroupNode) -> None:
        syncs = node.commit(self.now)
        if process.torn:
            self._take_back(name, process)
            node.posts.clear()
            self.crash(name)
            return
        for effect in syncs:
            if not isinstance(effect, Wake):  # its policy wakes nobody
                sync(process.shelf, node, effect, self.now)
        if node.member is not None:
            process.shelf.forgetful = False  # somebody else now, who has forgotten nothing
            if self.stale:
                self._look_for_misled(name, node.member)
        elif node.rollback is not None and process.restored:
            process.restored = False
            self.rollbacks += 1
        if node.status == "outside" and self._diaries[name]:
            self._left.add(name)
        process.joins = node.status == "joining"
        for diary in self._diaries[name]:
            diary.keep()
        process.application.fresh.clear()
        process.application.reader.fresh.clear()
        posts, node.posts[:] = list(node.posts), []
        for post in posts:
            self._transmit(name, post.to, post.packet)
        if process.backlog and not node.in_debt:
            self.at(self.now, lambda: self._send_held(name))
        if process.taking is node:
            return  # the step that it began with goes on from here
        if node.waiting or node.unread:
            self._to_take(name, process)
        if node.wake_at < process.waking:
            process.waking = node.wake_at
            life = process.life
            self.at(node.wake_at, lambda: self._wake(name, life))

    @property
    def reused(self) -> bool:
        """Was a number used twice, since its first use was on a disk that was put back? Then what its first
        incarnation had sent may have to wait for the second."""
        return any(map(self._used_twice, self.processes))

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
            self._step(name, lambda node: node.wake(self.now))

    def _to_take(self, name: str, process: Process) -> None:
        if not self._take_us:
            before, process.taking = process.taking, process.node
            while (node := process.node) is not None and not self.problem and (node.unread or node.waiting):
                self._step(name, lambda node: self._take_next(name, node))
            process.taking = before
            return
        life = process.life

        def take() -> None:
            node = process.node
            if process.life == life and node is not None and (node.unread or node.waiting):
                self._step(name, lambda node: self._take_next(name, node))

        self.at(self.now + int(self._take.random() * self._take_us), take)

    def _take_next(self, name: str, node: GroupNode) -> None:
        """What the program has missed comes first."""
        if node.unread:
            self.processes[name].application.read(node.read())
        else:
            node.take(self.now)

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

        def receive(node: GroupNode) -> None:
            nonlocal good
            try:
                node.receive(sender, packet if data is None else decode(data), self.now)
            except PeerError:
                self.packets["lies" if lies else "garbage"] += 1
                good = False

        self._step(receiver, receive)
        return good

    def life(self, name: str) -> int:
        process = self.processes[name]
        return process.life if process.node is not None else -1

    def is_cut(self, one: str, other: str) -> bool:
        return (one, other) in self.cut

    def told(self, name: str, other: str, up: bool) -> None:
        self._step(name, lambda node: node.up(other, self.now) if up else node.down(other, self.now))

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
        whole = {name for name in inside - self._left if not self.processes[name].lost_disk}
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
