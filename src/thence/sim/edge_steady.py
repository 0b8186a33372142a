"""An edge tree under a steady load, measured: delays, bytes, repairs, joins, and who sees what.

Links take 10 to 20 ms, 15 on average; members of groups publish every 400 ms. `local` groups have members
that are near each other in the tree, others are drawn from all of it. With `kills`, chains of δ nodes die for
good in the midst of it; with `joins`, `leaves`, `newcomers` and `departures`, groups and the tree change.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from random import Random
from statistics import fmean
from typing import Any

from thence.check import judge
from thence.core.edge import (
    EdgeAttach,
    EdgeDown,
    EdgeItem,
    EdgeOpened,
    EdgePacket,
    EdgeRefused,
    EdgeStatus,
    EdgeUp,
)
from thence.core.edge_codec import encode
from thence.core.groups import process_of
from thence.core.machine import NEVER
from thence.replica.edge_journal import EdgeJournal
from thence.sim.air import Air
from thence.sim.diaries import SimDiary
from thence.sim.edge import EdgeWorld, TreeWorld
from thence.sim.edge_weather import MS, SECOND, tree_of
from thence.spread.edge_book import IN, EdgeSettings
from thence.trace.recorder import DELIVER, SEND

ROUND_TRIP_US = 30 * MS
STEPS_MAX = 50_000_000
JUDGED_MAX = 250
"""Nodes of trees whose traces are judged."""
CHANGES = ("join", "leave", "newcomer", "departure")


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeLoad:
    nodes: int
    delta: int
    local: bool = True
    gate: bool = True
    kills: int = 0
    """Chains of δ nodes that die."""
    joins: int = 0
    """Nodes that join a group."""
    leaves: int = 0
    """Nodes without children that leave a group."""
    newcomers: int = 0
    """Nodes that are new in the tree, and in a group of it."""
    departures: int = 0
    """Nodes that leave the tree."""
    interval_us: int = 400 * MS
    span_us: int = 4 * SECOND
    status_us: int = MS
    groups: int = 0
    """0: a third of the nodes."""
    degree: int = 3
    deep: bool = False
    """The tree is thin: its depth grows with its nodes."""
    paths: bool = False
    """The report's own scheme instead (`sim.edge_paths_steady`)."""
    barriers: bool = True
    """Without them that scheme is forwarding past failed neighbours, in order per path alone."""
    clique: bool = False
    """No tree: a clique with vector clocks (`sim.edge_clique`)."""
    silent: bool = False
    """Nodes that die stop to answer, and nothing else tells of it: their links seem to be up."""
    suspect_us: int = 3500 * MS
    seed: int = 1

    @property
    def stays(self) -> bool:
        """All nodes and groups stay what they are."""
        return not (self.kills or self.joins or self.leaves or self.newcomers or self.departures)


class PacketMeter:
    """Looks at packets as they leave."""

    def __init__(self) -> None:
        self.items = self.statuses = self.alone = self.head_bytes = self.control = 0

    def __call__(self, sender: str, receiver: str, packet: EdgePacket) -> EdgePacket:  # noqa: ARG002
        if isinstance(packet, EdgeUp | EdgeDown):
            items = [body for body in packet.bodies if isinstance(body, EdgeItem)]
            told = sum(isinstance(body, EdgeStatus) for body in packet.bodies)
            self.items += len(items)
            self.statuses += told
            self.alone += told if not items else 0
            if items:
                bare = tuple([item._replace(payload=b"") for item in items])
                self.head_bytes += len(encode(packet._replace(bodies=bare))) - 4 - len(items)
        elif isinstance(packet, EdgeAttach | EdgeOpened | EdgeRefused):
            self.control += 1
        return packet


def members_of(load: EdgeLoad, parents: dict[str, str], random: Random) -> dict[str, list[str]]:
    """Groups of three to five nodes."""
    names = list(parents)[1:]
    near: dict[str, list[str]] = {name: [] for name in parents}
    for name, parent in parents.items():
        if parent:
            near[parent].append(name)
            near[name].append(parent)
    groups: dict[str, list[str]] = {}
    for number in range(load.groups or max(1, load.nodes // 3)):
        size = min(len(names), random.randint(3, 5))
        if not load.local:
            groups[f"g{number}"] = random.sample(names, size)
            continue
        found, edge = dict.fromkeys([random.choice(names)]), 0
        while len(found) < size and edge < len(found):
            here = list(found)[edge]
            found |= dict.fromkeys([name for name in near[here] if name != names[0] and parents[name]])
            edge += 1
        groups[f"g{number}"] = list(found)[:size]
    return groups


class SteadyTree:
    def __init__(self, load: EdgeLoad) -> None:
        self.load = load
        self._random = Random(f"{load.seed}/steady")
        self.parents = tree_of(load.nodes, load.degree, self._random, load.deep)
        self.members = members_of(load, self.parents, self._random)
        settings = EdgeSettings(
            delta=load.delta, heartbeat_us=load.suspect_us * 2 // 7, suspect_us=load.suspect_us,
            drop_us=load.suspect_us * 12 // 7,
            attach_us=200 * MS, probe_us=25 * MS, linger_us=5 * SECOND, keep_us=SECOND,
            status_us=load.status_us, gate=load.gate,
        )  # fmt: skip
        air = Air(latency_us=10 * MS, jitter_us=10 * MS, links=True, wire=False)
        self.world = EdgeWorld(load.seed, self.parents, air, settings)
        self.world.steps_max = STEPS_MAX
        self.meter = PacketMeter()
        self.log_sizes: list[int] = []
        self.orphans: dict[str, int] = {}
        """When their parents died."""
        self._took: dict[str, list[int]] = {kind: [] for kind in CHANGES}
        """How long changes took, by kind."""
        self._changing = 0
        self._outer: set[str] = set()
        """Nodes that stay without children."""

    def __call__(self) -> dict[str, Any]:
        """What was measured; `why` says what did not end well."""
        world, load = self.world, self.load
        self._grow()
        for group, names in self.members.items():
            for name in names:
                world.join(name, group)
        why = "" if self._rest() else f"not built: {world.problem or world.unsettled()}"
        began = world.now
        world.filter = self.meter
        for group, names in self.members.items():
            for name in names:
                self._publish(name, group, began + load.span_us)
        for number in range(load.kills):
            world.at(began + load.span_us * (number + 1) // (load.kills + 2), self._kill)
        self._plan_changes(began)
        for at in range(0, load.span_us, 200 * MS):
            world.at(began + at, self._look)
        world.run(began + load.span_us)
        if not why and not self._rest():
            why = world.problem or world.unsettled()
        if not why and self._changing:
            why = f"{self._changing} changes are not over"
        world.close_diaries()
        gone = {name for name, process in world.processes.items() if process.dead and not process.left}
        found = delays_of(world.diaries, began, gone if load.silent else ())
        messages, seen, extra = self._seen()
        repairs = [
            node.tree.parent.since - node.tree.lost_at
            for name, node in world.nodes().items()
            if name in self.orphans and node.tree.parent is not None
        ]
        gaps = [
            node.tree.parent.since - self.orphans[name]
            for name, node in world.nodes().items()
            if name in self.orphans and node.tree.parent is not None
        ]
        items = max(1, self.meter.items)
        return {
            "complete": not why, "why": why, "deliveries": len(found), "messages": messages,
            **spread_of(found), **errors_of(world, load),
            "head_bytes": self.meter.head_bytes / items, "items": self.meter.items,
            "statuses": self.meter.statuses / items, "statuses_alone": self.meter.alone / items,
            "log_mean": fmean(self.log_sizes) if self.log_sizes else 0.0,
            "log_max": max(self.log_sizes, default=0),
            "seen": seen / max(1, messages) / load.nodes, "extra": extra,
            "repairs": len(repairs), "repair_rtt": fmean(repairs) / ROUND_TRIP_US if repairs else 0.0,
            "repair_max_rtt": max(repairs, default=0) / ROUND_TRIP_US,
            "gap_ms": fmean(gaps) / MS if gaps else 0.0,
            "control": self.meter.control / max(1, len(self.orphans)),
            "changes": sum(map(len, self._took.values())),
            **{f"{kind}_rtt": fmean(took) / ROUND_TRIP_US for kind, took in self._took.items() if took},
        }  # fmt: skip

    def _grow(self) -> None:
        """Level by level, so that the tree is the one that was drawn."""
        depth: dict[str, int] = {}
        for name, parent in self.parents.items():
            depth[name] = depth[parent] + 1 if parent else 0
        for level in range(max(depth.values()) + 1):
            for name in [name for name in self.parents if depth[name] == level]:
                self.world.boot(name)
            self.world.run(self.world.now + 150 * MS)

    def _rest(self) -> bool:
        return self.world.run(self.world.now + 60 * SECOND, lambda: not self.world.unsettled(), SECOND)

    def _publish(self, name: str, group: str, until: int) -> None:
        world, random, every = self.world, self._random, self.load.interval_us

        def send() -> None:
            if world.processes[name].leaves:
                return
            world.send(name, group)
            if world.now + every < until:
                world.at(world.now + every, send)

        world.at(world.now + random.randrange(every), send)

    def _kill(self) -> None:
        """A node's parent and further ancestors, δ in all, that are not the root."""
        world, delta = self.world, self.load.delta
        deep = [
            (name, process)
            for name, process in world.processes.items()
            if not process.dead and len(process.chain) == delta + 1 and process.chain[-1] != ""
        ]
        if not deep:
            return
        chain = [process_of(who) for who in self._random.choice(deep)[1].chain[:delta]]
        if world.root in chain:
            return
        doomed = set(chain)
        for name, process in world.processes.items():
            if process.chain and process_of(process.chain[0]) in doomed and not process.dead:
                self.orphans[name] = world.now
        for name in chain:
            if self.load.silent:
                world.processes[name].paused = NEVER
            else:
                world.crash(name)
            world.processes[name].dead = True
            self.orphans.pop(name, None)

    # Changes of groups and of the tree

    def _plan_changes(self, began: int) -> None:
        world, random, load = self.world, self._random, self.load
        names = list(self.parents)[1:]

        def plan(act: Callable[..., None], *about: str) -> None:
            world.at(began + random.randrange(load.span_us), partial(act, *about))

        joiners = random.sample(names, min(load.joins, len(names)))
        for name in joiners:
            group = random.choice([one for one, among in self.members.items() if name not in among])
            plan(self._join, name, group)
        inner = set(self.parents.values())
        outer = [
            (group, name) for group, among in self.members.items() for name in among if name not in inner
        ]
        leavers = random.sample(outer, min(load.leaves, len(outer)))
        for group, name in leavers:
            plan(self._leave, name, group)
        self._outer = {name for _, name in leavers}
        busy = {*joiners, *self._outer}
        free = [name for name in names if name not in busy]
        for name in random.sample(free, min(load.departures, len(free) // 2)):
            plan(self._depart, name)
        for number in range(load.newcomers):
            plan(self._arrive, f"new{number}", random.choice(list(self.members)))

    def _watch(self, kind: str, over: Callable[[], bool], since: int) -> None:
        """Until it is over, which is looked at each millisecond."""
        if over():
            self._changing -= 1
            self._took[kind].append(self.world.now - since)
        else:
            self.world.at(self.world.now + MS, lambda: self._watch(kind, over, since))

    def _begin(self, kind: str, over: Callable[[], bool]) -> None:
        self._changing += 1
        self._watch(kind, over, self.world.now)

    def _join(self, name: str, group: str) -> None:
        self.world.join(name, group)
        self._begin("join", lambda: self._is_in(name, group))

    def _is_in(self, name: str, group: str) -> bool:
        node = self.world.processes[name].node
        return node is not None and node.book.groups.get(group) == IN

    def _leave(self, name: str, group: str) -> None:
        self.world.leave(name, group)
        self._begin("leave", lambda: not self._is_sent(name, group))

    def _is_sent(self, name: str, group: str) -> bool:
        """Would the parent of a node send it messages of the group?"""
        return any(
            child.peer == name and group in child.wants
            for node in self.world.nodes().values()
            for child in node.tree.children.values()
        )

    def _arrive(self, name: str, group: str) -> None:
        world, random = self.world, self._random
        parents = [
            other
            for other, process in world.processes.items()
            if not process.leaves and other not in self._outer
        ]
        world.add(name, random.choice(parents))
        world.boot(name)
        world.join(name, group)
        self._begin("newcomer", lambda: self._is_in(name, group))

    def _depart(self, name: str) -> None:
        self.world.leave_tree(name, MS)
        self._begin("departure", lambda: self.world.processes[name].left)

    def _look(self) -> None:
        self.log_sizes += [len(node.book.entries) for node in self.world.nodes().values()]

    def _seen(self) -> tuple[int, int, int]:
        """Messages, how many nodes have seen them in all, and how many of those lie on no way from a
        publisher or a member to the root."""
        messages = seen = extra = 0
        ways: dict[str, set[str]] = {}
        for name in self.parents:
            way, at = {name}, name
            while self.parents[at]:
                at = self.parents[at]
                way.add(at)
            ways[name] = way
        for name, node in self.world.nodes().items():
            assert node.log is not None
            for origin, group, _ in EdgeJournal(node.log).accepted_ever():
                seen += 1
                publisher = process_of(origin)
                messages += publisher == name
                allowed = ways[publisher].union(*[ways[member] for member in self.members[group]])
                if self.load.stays:
                    extra += name not in allowed
        return messages, seen, extra


def delays_of(diaries: Mapping[str, SimDiary], began: int, without: Collection[str] = ()) -> list[int]:
    """From sending to delivery, of each delivery of what was sent since then, but for those by or from the
    processes `without` which delays are to be known."""
    told = {name: diary for name, diary in diaries.items() if process_of(name) not in without}
    sent: dict[tuple[str, int], int] = {}
    for diary in told.values():
        sent |= {about: at for kind, about, _, at, _ in diary.rows if kind == SEND and about}
    return [
        at - sent[about]
        for diary in told.values()
        for kind, about, _, at, _ in diary.rows
        if kind == DELIVER and about and sent.get(about, -1) >= began
    ]


def errors_of(world: TreeWorld[Any, Any], load: EdgeLoad) -> dict[str, int]:
    """Deliveries before a cause, where the trace is short enough to look."""
    if load.nodes > JUDGED_MAX:
        return {}
    return {"errors": sum(verdict.violations["order"] for verdict in judge(world.events()))}


def spread_of(delays: list[int]) -> dict[str, float]:
    """Milliseconds."""
    return {
        "delay_ms": fmean(delays) / MS if delays else 0.0,
        "delay_p99_ms": percentile(delays, 0.99) / MS,
        "delay_max_ms": max(delays, default=0) / MS,
    }


def percentile(values: list[int], share: float) -> float:
    ordered = sorted(values)
    return float(ordered[min(len(ordered) - 1, int(share * len(ordered)))]) if ordered else 0.0
