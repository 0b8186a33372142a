"""A world of nodes on an edge tree: processes that attach, publish, join groups, move, crash and come back.

It is a world of steps (`sim.step_world`) whose machines are nodes of an edge tree. The first process is the
root. A process whose disk is lost, was put back or may lack its end starts as another identity. The world
looks inside a machine only to see whether all is settled.
"""

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any, TypeVar

import msgspec

from thence.core.edge_codec import decode, encode
from thence.core.errors import ApplicationError, InvariantError
from thence.core.groups import Place, incarnation
from thence.oplog.policy import Policy
from thence.replica.contract import Machine
from thence.replica.edge import EdgeMachine
from thence.replica.edge_parts import addressed
from thence.replica.group.settings import GroupSettings
from thence.replica.steps import Steps
from thence.sim.air import Air
from thence.sim.diaries import SimDiary
from thence.sim.groups_links import SimLinks
from thence.sim.shelf import SimShelf
from thence.sim.step_process import StepProcess
from thence.sim.step_world import SEGMENT_BYTES, StepWorld
from thence.spread.edge_book import IN, EdgeEntry, EdgeSettings
from thence.trace.recorder import CRASH, DELIVER, KINDS, LEAVE, SEND, SUBSCRIBE, UNSUBSCRIBE
from thence.trace.schema import Dot, Event

CHUNK_BYTES = 64
"""Of a state: so that it has several."""


class SimEdgeProgram:
    """Remembers what was delivered, per group: its whole state."""

    checks = True
    """What a correct tree keeps."""

    def __init__(self) -> None:
        self.groups: dict[str, dict[Place, None]] = {}
        self._had: dict[str, set[Place]] = {}

    def reads(self, group: str) -> bool:  # noqa: ARG002
        return False

    def apply(self, entry: EdgeEntry, position: int, own: bool, part: int = 0) -> None:  # noqa: ARG002
        order = self.groups.setdefault(entry.group, {})
        for number in entry.numbers:
            place = entry.origin, number
            if place in order and self.checks:
                raise InvariantError(f"{place} takes effect twice")
            order[place] = None

    def state_chunks(self, group: str) -> Iterator[bytes]:
        data = msgspec.json.encode(list(self.groups.get(group, ())))
        return (data[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES))

    def install(self, group: str, state: bytes) -> None:
        try:
            places = msgspec.json.decode(state, type=list[Place]) if state else ()
        except msgspec.MsgspecError as error:
            raise ApplicationError(str(error)) from error
        self._had.setdefault(group, set(self.groups.get(group, ())))
        self.groups[group] = dict.fromkeys(places)

    def missed(self, group: str, first: Mapping[str, int], last: Mapping[str, int], position: int) -> None:
        """The state has it."""

    def forget(self, group: str) -> None:
        self.groups.pop(group, None)
        self._had.pop(group, None)

    def output(self) -> Sequence[Any]:
        """A state that was installed must not have lost anything, once the log was applied again."""
        had, self._had = self._had, {}
        for group, before in had.items() if self.checks else ():
            if lost := before - set(self.groups[group]):
                raise InvariantError(f"a state of {group!r} lost {sorted(lost)}")
        return ()

    def drop(self) -> None:
        """The world makes another."""

    def released(self, events: Any) -> None:
        """Nothing that it would remember."""

    def take_back(self) -> None:
        """Nothing: it is built anew from the log."""

    def clear(self) -> None:
        self.groups.clear()
        self._had.clear()


def place_of(name: str) -> str:
    return f"at-{name}"


class EdgeProcess(StepProcess[EdgeMachine, SimEdgeProgram]):
    __slots__ = ("chain", "contacts", "groups", "kept", "leaves", "left", "number", "retired")

    def __init__(self, shelf: SimShelf, contacts: tuple[str, ...]) -> None:
        super().__init__(shelf, SimEdgeProgram(), GroupSettings())
        self.contacts = contacts
        self.groups: dict[str, None] = {}
        """That its program is to be a member of."""
        self.kept: set[str] = set()
        """Processes that it wants a link to."""
        self.number = 0
        """Of its identity."""
        self.chain: tuple[str, ...] = ()
        """As its disk has it."""
        self.leaves = False
        """It is to leave the tree."""
        self.left = False
        self.retired = False
        """Its next start is another identity."""


M = TypeVar("M", bound=Machine[Any])
P = TypeVar("P", bound=StepProcess[Any, SimEdgeProgram])


class TreeWorld(StepWorld[M, P]):
    """What all worlds of a tree with groups have."""

    def send(self, name: str, *groups: str, payload: bytes = b"") -> None:
        """A message to each of these, in one turn."""

        def ask(steps: Steps[M, None]) -> None:
            steps.ask([addressed(group, payload) for group in groups], None)
            steps.settle(self.now)

        if self.processes[name].node is not None:
            self._input(name, ask)

    def _diary(self, identity: str, process: P) -> SimDiary:
        if identity not in self.diaries:
            self.diaries[identity] = SimDiary()
            process.trace.diaries.append(self.diaries[identity])
        return self.diaries[identity]

    def events(self, run: str = "") -> Iterator[Event]:
        """The trace."""
        for identity, diary in self.diaries.items():
            for pos, (kind, about, deps, at, _) in enumerate(diary.rows):
                named = None if deps is None else [Dot(*place) for place in deps]
                of = about if kind in (SEND, DELIVER) else None
                channel = diary.channels.get(about) if kind == SEND and about else None
                if kind in (SUBSCRIBE, UNSUBSCRIBE) and about:
                    channel = about[0]
                yield Event(
                    run=run, node=identity, pos=pos, kind=KINDS[kind], origin=of and of[0], seq=of and of[1],
                    at_us=at, deps=named, channel=channel,
                )  # fmt: skip


class EdgeWorld(TreeWorld[EdgeMachine, EdgeProcess]):
    def __init__(
        self,
        seed: int | str,
        parents: Mapping[str, str],
        air: Air,
        settings: EdgeSettings,
        sync: Policy = "always",
        take_us: int = 0,
    ) -> None:
        """`parents`: by process, in which the first has none and is the root."""
        super().__init__(seed, list(parents), air, (encode, decode), take_us, sync)
        self.settings = settings
        self.root = self.names[0]
        self.processes = {}
        for name, parent in parents.items():
            self.add(name, parent)
        self._links = SimLinks(self, self.names, Random(f"{seed}/links"), self._pairs)

    def add(self, name: str, parent: str) -> None:
        """A process that was not there before."""
        above = self.processes[parent].contacts if parent else ()
        contacts = (parent, *[one for one in above if one != parent]) if parent else ()
        # What the root forgets is lost for the tree.
        sync = self._sync if parent else "always"
        shelf = SimShelf(Random(self._disks.random()), SEGMENT_BYTES, sync)
        self.processes[name] = EdgeProcess(shelf, contacts)
        if name not in self.names:
            self.names.append(name)

    def _pairs(self) -> Iterator[tuple[str, str]]:
        found = dict.fromkeys(self._links.pairs() if self._links is not None else ())
        for name, process in self.processes.items():
            for other in sorted(process.kept):
                found[(name, other) if name < other else (other, name)] = None
        return iter(list(found))

    def is_wanted(self, one: str, other: str) -> bool:
        return other in self.processes[one].kept or one in self.processes[other].kept

    def _wishes(self, name: str, process: EdgeProcess, links: Mapping[str, str | None]) -> None:
        for other, where in links.items():
            if where is None:
                process.kept.discard(other)
            elif other in self.processes:
                if where and where != place_of(other) and not self.liars:
                    raise InvariantError(f"{name} looks for {other} at {where!r}")
                process.kept.add(other)
                pair = (name, other) if name < other else (other, name)
                self.at(self.now + self.air.latency_us, lambda pair=pair: self._dial(pair))  # type: ignore[misc]

    def _dial(self, pair: tuple[str, str]) -> None:
        if self._links is not None and not self._links.has(pair):
            self._links.look_after(pair)

    # Processes

    def _make(self, name: str, process: EdgeProcess) -> EdgeMachine:
        process.trace.crash()
        process.application.clear()
        process.kept.clear()
        shelf = process.shelf
        if process.retired or shelf.forgetful or not process.number:
            process.number += 1
            shelf.reserve(process.number)
            for number in shelf.kept():
                shelf.drop(number)
            shelf.forgetful = process.retired = False
            process.chain = ()
        log = shelf.open(process.number, self.now)
        identity = incarnation(name, process.number)
        machine = EdgeMachine(
            identity, log, process.application, self._diary(identity, process), self.settings, self.now,
            root=self.root if name == self.root else "", contacts=process.contacts,
        )  # fmt: skip
        machine.here(place_of(name), self.now)
        log.sync(self.now)
        return machine

    def _enter(self, name: str, process: EdgeProcess, joins: bool) -> None:  # noqa: ARG002
        node = process.node
        for group in [] if node is None else list(node.book.groups):
            if group not in process.groups and name != self.root:
                self.leave(name, group)
        for group in process.groups:
            self.join(name, group)

    def _look(self, name: str, process: EdgeProcess, node: EdgeMachine) -> None:  # noqa: ARG002
        process.chain = node.book.chain

    def lose_disk(self, name: str) -> None:
        """Everything that the process had written down is gone; it starts as another identity."""
        self.crash(name)
        process = self.processes[name]
        process.shelf, process.retired = self._shelf(), True

    def forget(self, name: str) -> None:
        """Its disk is put back to an earlier state, which it is told of: it starts as another identity."""
        self.crash(name)
        self.processes[name].retired = True

    def join(self, name: str, group: str) -> None:
        self.processes[name].groups[group] = None
        self.call(name, lambda node: node.join_group(group, self.now))

    def leave(self, name: str, group: str) -> None:
        self.processes[name].groups.pop(group, None)
        self.call(name, lambda node: node.leave_group(group, self.now))

    def rehome(self, name: str, under: str) -> None:
        other = self.processes[under].node
        if other is not None:
            self.call(name, lambda node: node.rehome(other.me, self.now))

    def leave_tree(self, name: str, every_us: int = 0) -> None:
        """Until it succeeds: tried with each heartbeat, or as often as is said."""
        process = self.processes[name]
        if process.left or process.dead:
            return
        process.leaves = True
        process.groups.clear()

        done: list[bool] = []
        if not self._strands(name):
            self.call(name, lambda node: done.append(node.leave_tree(self.now)))
        process.left = done == [True]
        if not process.left:
            again = self.now + (every_us or self.settings.heartbeat_us)
            self.at(again, lambda: self.leave_tree(name, every_us))
            return
        self.diaries[incarnation(name, process.number)].row(LEAVE, None, None, self.now)
        self.at(self.now + 10 * self.air.latency_us, lambda: self._ends(name))

    def _strands(self, name: str) -> bool:
        """Is there a process that may attach to this one alone? Its parent cannot know, if it is down or cut
        off: that there is none is for a person to see to (rule 12)."""
        there = {
            incarnation(other, process.number)
            for other, process in self.processes.items()
            if other != name and not (process.dead or process.left or process.retired)
        }
        waiting = [process for process in self.processes.values() if not (process.dead or process.left)]
        return any(process.chain and there.isdisjoint(process.chain) for process in waiting)

    def _ends(self, name: str) -> None:
        process = self.processes[name]
        diary = self.diaries[incarnation(name, process.number)]
        diary.write(diary.take())
        self.crash(name)
        process.dead = True

    def arrive(self, sender: str, receiver: str, packet: Any, data: bytes | None) -> bool:
        good = super().arrive(sender, receiver, packet, data)
        if not good and sender not in self.liars and not self.problem:
            self.problem = f"{receiver} makes no sense of what {sender} says: {packet}"
        return good

    # Is all well?

    def nodes(self) -> dict[str, EdgeMachine]:
        return {name: node for name, process in self.processes.items() if (node := process.node) is not None}

    def unsettled(self) -> str:
        """Why the tree is not at rest; empty: it is."""
        nodes = self.nodes()
        if self.root not in nodes:
            return "the root is down"
        root = nodes[self.root]
        for name, process in self.processes.items():
            if process.dead or process.left:
                continue
            if name not in nodes:
                return f"{name} is down"
            if why := self._restless(process, nodes[name], root):
                return f"{name} {why}"
        return ""

    def _restless(self, process: EdgeProcess, node: EdgeMachine, root: EdgeMachine) -> str:
        tree, book = node.tree, node.book
        if node.waiting:
            return "has something to take"
        if book.root:
            return ""
        if tree.parent is None:
            return f"is not attached: chain {book.chain}, links {sorted(tree.linked)}"
        if missing := [group for group in process.groups if book.groups.get(group) != IN]:
            return f"has not joined {missing}"
        if tree.full_request or tree.pending:
            return "waits for a state"
        if tree.rooted_st < book.end:
            return f"has {book.end - tree.rooted_st} entries that the root may lack"
        if any(number > root.book.have.get(pair, 0) for pair, number in book.have.items()):
            return "has what the root lacks"
        states = self.processes[self.root].application.groups
        for group in process.groups:
            if process.application.groups.get(group, {}).keys() != states.get(group, {}).keys():
                return f"lacks messages of {group!r}"
        if len(book.chain) < min(self.settings.delta + 1, book.rank) and not self._is_short(node):
            return f"has a short chain: {book.chain}"
        return ""

    def _is_short(self, node: EdgeMachine) -> bool:
        """Is the chain as long as the tree is deep here?"""
        return node.book.chain[-1:] == (self.root,)

    # Traces

    def close_diaries(self) -> None:
        """Identities that do not run any more are down, but for those that have left."""
        running = {node.me for node in self.nodes().values()}
        for identity, diary in self.diaries.items():
            kinds = {kind for kind, *_ in diary.rows}
            if identity not in running and diary.rows and not kinds & {LEAVE, CRASH}:
                diary.row(CRASH, None, None, self.now)
                diary.write(diary.take())
