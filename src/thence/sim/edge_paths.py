"""A world of nodes that number paths and jump: the edge report's own scheme (`--spread edge-paths`).

Tree and groups stay as they are. What a node has written down stays, so that a crash loses packets, copies
that wait and suspicions, nothing else. A baseline: no disks, no identities, no live nodes.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from thence.core.errors import ThenceError, UsageError
from thence.core.groups import Place
from thence.core.machine import Wake
from thence.oplog.log import OpLog
from thence.oplog.policy import DiskSync
from thence.replica.contract import Output
from thence.replica.edge_parts import unaddressed
from thence.replica.events import Repeated
from thence.replica.group.settings import GroupSettings
from thence.replica.life_tag import LifeTag, Sent
from thence.sim.air import Air
from thence.sim.diaries import SimDiary
from thence.sim.edge import SimEdgeProgram, TreeWorld
from thence.sim.shelf import SimShelf
from thence.sim.step_process import StepProcess
from thence.spread.edge_book import MESSAGE, EdgeEntry
from thence.spread.edge_map import PathMap
from thence.spread.edge_paths import PathCopy, PathNode, PathPacket, PathSettings
from thence.trace.recorder import DELIVER, SEND, SUBSCRIBE

ENTRY_BYTES, HEAD_BYTES = 4, 10
"""What an entry of a copy is counted as, and the rest of its header."""

_NO_TAGS = "path counters are no tags"


class PathMachine:
    """A node as the world of steps has it (`contract.Machine`)."""

    __slots__ = ("_diary", "_program", "node")

    def __init__(self, node: PathNode, program: SimEdgeProgram, diary: SimDiary, now: int) -> None:
        self.node = node
        self._program = program
        self._diary = diary
        for group, members in node.map.groups.items():
            if node.me in members:
                diary.row(SUBSCRIBE, None, (), now, channel=group)
        node.restart(now)

    def receive(self, peer: str, packet: PathPacket, now: int) -> None:
        self.node.receive(peer, packet, now)
        self._deliver(now)

    def broadcast(self, payloads: Sequence[bytes], now: int) -> Sequence[Sent]:
        sent: list[Sent] = []
        for payload in payloads:
            group, body = unaddressed(payload)
            if group not in self.node.map.groups:
                raise UsageError(f"there is no group {group!r}")
            place = self.node.publish(group, body, now)
            self._diary.row(SEND, place, None, now, channel=group)
            sent.append((place, None))
            self._deliver(now)
        return sent

    def wake(self, now: int) -> None:
        self.node.wake(now)

    def _deliver(self, now: int) -> None:
        for record in self.node.box:
            origin, number = record.place
            if self.me not in self.node.map.groups[record.group]:
                continue
            if origin != self.me:
                self._diary.row(DELIVER, record.place, None, now)
            entry = EdgeEntry(MESSAGE, origin, record.group, number, 0, record.payload)
            self._program.apply(entry, 0, entry.origin == self.me)
        self.node.box.clear()

    def commit(self, now: int) -> Sequence[DiskSync | Wake]:  # noqa: ARG002
        self.node.settle()
        return ()

    def output(self) -> Output:
        posts, self.node.outbox = self.node.outbox, []
        return posts, None, ()

    @property
    def wake_at(self) -> int:
        return self.node.beat_at

    @property
    def me(self) -> str:
        return self.node.me

    @property
    def members(self) -> tuple[str, ...]:
        return (self.node.me,)

    @property
    def sent(self) -> int:
        return self.node.number

    # What it has not

    @property
    def log(self) -> OpLog | None:
        return None

    @property
    def waiting(self) -> int:
        return 0

    @property
    def in_debt(self) -> bool:
        return False

    @property
    def waits_for(self) -> tuple[str, ...]:
        return ()

    @property
    def refuses(self) -> ThenceError | None:
        return None

    @property
    def position(self) -> int:
        return 0

    def encode(self, packet: PathPacket) -> bytes:
        raise UsageError(f"packets of the simulator alone: {packet}")

    def decode(self, data: bytes) -> PathPacket:
        raise UsageError(f"packets of the simulator alone: {data!r}")

    def link_up(self, peer: str, now: int) -> None:
        """Silence is what tells."""

    def link_down(self, peer: str, now: int) -> None:
        """Silence is what tells."""

    def take(self, limit: int, now: int) -> int:  # noqa: ARG002
        return 0

    def drop(self) -> None:
        """There is no disk that could fail."""

    def untidy(self, now: int) -> bool:  # noqa: ARG002
        return False

    def tidy(self, now: int) -> None:
        """There is no log to shorten."""

    def tag(self, place: Place) -> LifeTag:  # noqa: ARG002
        raise UsageError(_NO_TAGS)

    def delivered(self) -> dict[str, int]:
        raise UsageError(_NO_TAGS)

    def has_delivered(self, place: Place) -> bool:  # noqa: ARG002
        raise UsageError(_NO_TAGS)

    def has_reached(self, tag: LifeTag, at: int | None) -> bool:  # noqa: ARG002
        raise UsageError(_NO_TAGS)

    def replay(self, after: int, now: int, own: bool = False) -> Iterator[Repeated | None]:  # noqa: ARG002
        raise UsageError("nothing is kept for programs")


class PathProcess(StepProcess[PathMachine, SimEdgeProgram]):
    __slots__ = ("memory",)

    def __init__(self, shelf: SimShelf, memory: PathNode) -> None:
        super().__init__(shelf, SimEdgeProgram(), GroupSettings())
        self.memory = memory
        """What it has written down."""


def _unspoken(packet: Any) -> Any:
    raise UsageError(f"packets of the simulator alone: {packet}")


class PathWorld(TreeWorld[PathMachine, PathProcess]):
    def __init__(
        self,
        seed: int | str,
        parents: Mapping[str, str],
        groups: Mapping[str, Sequence[str]],
        air: Air,
        settings: PathSettings,
    ) -> None:
        super().__init__(seed, list(parents), air, (_unspoken, _unspoken))
        self.map = PathMap(parents, groups)
        self.processes = {
            name: PathProcess(self._shelf(), PathNode(name, self.map, settings)) for name in parents
        }
        self.entries: list[int] = []
        """Of each copy that left."""

    def _make(self, name: str, process: PathProcess) -> PathMachine:
        return PathMachine(process.memory, process.application, self._diary(name, process), self.now)

    def _transmit(self, sender: str, receiver: str, packet: Any) -> None:
        if isinstance(packet, PathCopy):
            self.entries.append(sum(map(len, packet.numbers.values())) + len(packet.needs))
        super()._transmit(sender, receiver, packet)

    def unsettled(self) -> str:
        """Why the tree is not at rest; empty: it is."""
        root = self.processes[self.map.root].application.groups
        for name, process in self.processes.items():
            if process.node is None:
                return f"{name} is down"
            if log := process.memory.log:
                return f"{name} keeps {len(log)} messages, the first {next(iter(log))}"
            for group, members in self.map.groups.items():
                missing = root.get(group, {}).keys() ^ process.application.groups.get(group, {}).keys()
                if name in members and missing:
                    return f"{name} lacks {len(missing)} messages of {group!r}"
        return ""
