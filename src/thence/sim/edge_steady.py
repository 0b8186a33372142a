"""An edge tree under a steady load, measured: delays, bytes, repairs, joins, and who sees what.

Links take 10 to 20 ms, 15 on average; members of groups publish every 400 ms. `local` groups have members
that are near each other in the tree, others are drawn from all of it. With `kills`, chains of δ nodes die for
good in the midst of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from statistics import fmean
from typing import Any

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
from thence.sim.edge import EdgeWorld
from thence.sim.edge_storm import MS, SECOND, tree_of
from thence.sim.groups_parts import SimDiary
from thence.sim.step_world import Air
from thence.spread.edge_book import IN, EdgeSettings
from thence.trace.recorder import DELIVER, SEND

ROUND_TRIP_US = 30 * MS
STEPS_MAX = 50_000_000


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
    seed: int = 1


class Meter:
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
            delta=load.delta, heartbeat_us=SECOND, suspect_us=3500 * MS, drop_us=6 * SECOND,
            attach_us=200 * MS, probe_us=25 * MS, linger_us=5 * SECOND, keep_us=SECOND,
            status_us=load.status_us, gate=load.gate,
        )  # fmt: skip
        air = Air(latency_us=10 * MS, jitter_us=10 * MS, links=True, wire=False)
        self.world = EdgeWorld(load.seed, self.parents, air, settings)
        self.world.steps_max = STEPS_MAX
        self.meter = Meter()
        self.log_sizes: list[int] = []
        self.orphans: set[str] = set()

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
        joined = self._plan_joins(began)
        for at in range(0, load.span_us, 200 * MS):
            world.at(began + at, self._look)
        world.run(began + load.span_us)
        if not why and not self._rest():
            why = world.problem or world.unsettled()
        found = delays_of(world.diaries, began)
        messages, seen, extra = self._seen()
        repairs = [
            node.tree.parent.since - node.tree.lost_at
            for name, node in world.nodes().items()
            if name in self.orphans and node.tree.parent is not None
        ]
        waits = [at - asked for asked, at in joined.values() if at]
        items = max(1, self.meter.items)
        return {
            "complete": not why, "why": why, "deliveries": len(found), "messages": messages,
            "delay_ms": fmean(found) / MS if found else 0.0, "delay_p99_ms": percentile(found, 0.99) / MS,
            "head_bytes": self.meter.head_bytes / items, "items": self.meter.items,
            "statuses": self.meter.statuses / items, "statuses_alone": self.meter.alone / items,
            "log_mean": fmean(self.log_sizes) if self.log_sizes else 0.0,
            "log_max": max(self.log_sizes, default=0),
            "seen": seen / max(1, messages) / load.nodes, "extra": extra,
            "repairs": len(repairs), "repair_rtt": fmean(repairs) / ROUND_TRIP_US if repairs else 0.0,
            "repair_max_rtt": max(repairs, default=0) / ROUND_TRIP_US,
            "control": self.meter.control / max(1, len(self.orphans)),
            "joins": len(waits), "join_rtt": fmean(waits) / ROUND_TRIP_US if waits else 0.0,
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
        self.orphans |= {
            name
            for name, process in world.processes.items()
            if process.chain and process_of(process.chain[0]) in doomed and name not in doomed
        }
        for name in chain:
            world.crash(name)
            world.processes[name].dead = True
            self.orphans.discard(name)

    def _plan_joins(self, began: int) -> dict[str, tuple[int, int]]:
        world, random = self.world, self._random
        joined: dict[str, tuple[int, int]] = {}

        def look(name: str, group: str) -> None:
            node = world.processes[name].node
            if node is not None and node.book.groups.get(group) == IN:
                joined[name] = joined[name][0], world.now
            else:
                world.at(world.now + MS, lambda: look(name, group))

        def join(name: str, group: str) -> None:
            joined[name] = world.now, 0
            world.join(name, group)
            look(name, group)

        for name in random.sample(list(self.parents)[1:], min(self.load.joins, self.load.nodes - 1)):
            group = random.choice([one for one, names in self.members.items() if name not in names])
            world.at(began + random.randrange(self.load.span_us), lambda n=name, g=group: join(n, g))  # type: ignore[misc]
        return joined

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
            for origin, group, _ in node.accepted_ever():
                seen += 1
                publisher = process_of(origin)
                messages += publisher == name
                allowed = ways[publisher].union(*[ways[member] for member in self.members[group]])
                if not self.load.joins and not self.load.kills:
                    extra += name not in allowed
        return messages, seen, extra


def delays_of(diaries: Mapping[str, SimDiary], began: int) -> list[int]:
    """From sending to delivery, of each delivery of what was sent since then."""
    sent: dict[tuple[str, int], int] = {}
    for diary in diaries.values():
        sent |= {about: at for kind, about, _, at, _ in diary.rows if kind == SEND and about}
    return [
        at - sent[about]
        for diary in diaries.values()
        for kind, about, _, at, _ in diary.rows
        if kind == DELIVER and about and sent.get(about, 0) >= began
    ]


def percentile(values: list[int], share: float) -> float:
    ordered = sorted(values)
    return float(ordered[min(len(ordered) - 1, int(share * len(ordered)))]) if ordered else 0.0
