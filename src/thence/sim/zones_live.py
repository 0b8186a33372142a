"""A world of processes of a topology that take the steps of live nodes: applications and gateways.

It is a world of steps (`sim.step_world`) whose machines are those that ship (`replica.zone`). Processes crash
and come back with their disks, links are cut, gateways die for good, a disk is put back to an earlier state.
"""

from collections.abc import Iterator, Sequence
from random import Random

import msgspec

from thence.core.errors import InvariantError, UsageError
from thence.core.groups import Place
from thence.core.zones_codec import decode, encode
from thence.order.topology import Topology
from thence.replica.group.settings import GroupSettings
from thence.replica.group.surroundings import Applied
from thence.replica.idle import Idle
from thence.replica.steps import Steps
from thence.replica.zone import Directed, ZoneMachine, ZoneSettings, directed
from thence.sim.air import Air
from thence.sim.diaries import SimDiary
from thence.sim.groups_links import SimLinks
from thence.sim.shelf import SimShelf
from thence.sim.step_process import StepProcess
from thence.sim.step_world import StepWorld
from thence.trace.recorder import CRASH, DELIVER, KINDS, SEND, START
from thence.trace.schema import Dot, Event


class SimZoneProgram(Idle):
    """Remembers what was delivered, in order: its whole state."""

    def __init__(self) -> None:
        self.order: list[Place] = []

    def apply(self, one: Applied) -> None:
        place = one.operation.dot
        if place in self.order:
            raise InvariantError(f"{place} takes effect twice")
        self.order.append(place)

    def state(self) -> bytes:
        return msgspec.json.encode(self.order)

    def install(self, state: bytes) -> None:
        self.order = msgspec.json.decode(state, type=list[Place]) if state else []

    def released(self, events: object) -> None:
        """Nothing that it would remember."""

    def take_back(self) -> None:
        """Nothing: it is built anew from the log."""


class ZoneProcess(StepProcess[ZoneMachine, SimZoneProgram]):
    __slots__ = ("ended",)

    def __init__(self, shelf: SimShelf) -> None:
        super().__init__(shelf, SimZoneProgram(), GroupSettings())
        self.ended = ""
        """Why it may not go on."""


class ZoneWorld(StepWorld[ZoneMachine, ZoneProcess]):
    def __init__(
        self,
        seed: int | str,
        topology: Topology,
        air: Air,
        settings: ZoneSettings,
        take_us: int = 0,
        sync_us: int = 0,
    ) -> None:
        names = list(topology.names)
        super().__init__(seed, names, air, (encode, decode), take_us, sync_us=sync_us)
        self.topology = topology
        self.settings = settings
        self.index = {name: at for at, name in enumerate(names)}
        self.processes = {name: ZoneProcess(self._shelf()) for name in names}
        pairs = sorted(
            {
                (min(name, other), max(name, other))
                for name in names
                for other in (names[peer] for peer in topology.neighbours(self.index[name]))
            }
        )
        self._links = SimLinks(self, names, Random(f"{seed}/links"), lambda: pairs, strict=True)

    def _make(self, name: str, process: ZoneProcess) -> ZoneMachine:
        process.trace.crash()
        process.application.install(b"")
        log = process.shelf.open(1, self.now)
        diary = self._diary(name, process)
        diary.row(START, None, None, self.now)
        machine = ZoneMachine(
            name, self.topology, {}, log, process.application, diary, self.settings, self.now
        )
        log.sync(self.now)
        return machine

    def _diary(self, name: str, process: ZoneProcess) -> SimDiary:
        if name not in self.diaries:
            self.diaries[name] = SimDiary()
            process.trace.diaries.append(self.diaries[name])
        return self.diaries[name]

    def boot(self, name: str, joins: bool = False) -> None:
        try:
            super().boot(name, joins)
        except UsageError as error:
            process = self.processes[name]
            process.ended, process.dead = str(error), True
            process.trace.crash()

    def _look(self, name: str, process: ZoneProcess, node: ZoneMachine) -> None:
        """One that may not go on ends, as a live one does."""
        if node.ended and not process.ended:
            process.ended = node.ended
            self.at(self.now, lambda: self.die(name))

    def die(self, name: str) -> None:
        self.crash(name)
        self.processes[name].dead = True

    def send(self, name: str, to: Sequence[str], payload: bytes = b"", count: int = 1) -> None:
        """`count`: so many in one turn."""
        self.send_turn(name, [directed(to, payload)] * count)

    def send_turn(self, name: str, calls: Sequence[Directed]) -> None:
        """What a program sends in one turn."""

        def ask(steps: Steps[ZoneMachine, None]) -> None:
            for call in calls:
                steps.ask([call], None)
            steps.settle(self.now)

        if self.processes[name].node is not None:
            self._input(name, ask)

    def evict(self, name: str, who: str) -> None:
        """A person tells `name` that a neighbour is gone for good."""
        self.call(name, lambda node: node.evict(who, False, self.now))

    def put_back(self, name: str, shelf: SimShelf) -> None:
        """Its disk is a copy from before."""
        self.crash(name)
        self.processes[name].shelf = shelf

    # Is all well?

    def unsettled(self) -> str:
        """Why it is not at rest; empty: it is."""
        had = self.delivered()
        for name, process in self.processes.items():
            node = process.node
            if node is None:
                if not process.dead:
                    return f"{name} is down"
                continue
            if why := self._restless(node):
                return f"{name} {why}"
        for place, to in self.sends():
            for name in to:
                if name != place[0] and not self.processes[name].dead and place not in had[name]:
                    return f"{name} lacks {place}"
        return ""

    def _restless(self, node: ZoneMachine) -> str:
        core = node.core
        if node.waiting:
            return "has something to take"
        if core.orderer.waiting:
            return f"holds {core.orderer.waiting} hops back"
        if lacking := [self.names[peer] for peer, stream in core.streams.items() if stream.items]:
            return f"has items for {lacking}"
        if unflushed := [self.names[each] for each in core.closed if each not in core.flushed]:
            return f"waits for what {unflushed} sent"
        return ""

    def delivered(self) -> dict[str, set[Place]]:
        return {name: set(process.application.order) for name, process in self.processes.items()}

    def sends(self) -> Iterator[tuple[Place, tuple[str, ...]]]:
        """Of processes that live."""
        for name, diary in self.diaries.items():
            if self.processes[name].dead:
                continue
            for kind, about, *_ in diary.rows:
                if kind == SEND and about is not None:
                    yield about, diary.dests.get(about) or tuple(self._clients())

    def _clients(self) -> list[str]:
        return [self.names[each] for each in self.topology.applications]

    # Traces

    def close_diaries(self) -> None:
        """Processes that do not run any more are down."""
        for name, diary in self.diaries.items():
            if self.processes[name].node is None and all(kind != CRASH for kind, *_ in diary.rows):
                diary.row(CRASH, None, None, self.now)
                diary.write(diary.take())

    def events(self, run: str = "") -> Iterator[Event]:
        """The trace."""
        for name, diary in self.diaries.items():
            for pos, (kind, about, deps, at, _) in enumerate(diary.rows):
                of = about if kind in (SEND, DELIVER) else None
                dest = diary.dests.get(about) if kind == SEND and about else None
                yield Event(
                    run=run, node=name, pos=pos, kind=KINDS[kind], origin=of and of[0], seq=of and of[1],
                    at_us=at, deps=None if deps is None else [Dot(*each) for each in deps],
                    dest=list(dest) if dest else None,
                )  # fmt: skip
