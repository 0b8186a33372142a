"""The part of `bench membership` that needs more members, or longer links, than one machine has.

Links take `LATENCY_US` each way and nothing else; a round trip is twice that. All settings are the defaults.

* `membership.evict`: round trips from the eviction of a dead member, while all others send, until everything
  that was sent before it is stable. Baseline: from a message to its stability in the same group,
  with all members there.
* `membership.grow.N`: CPU time of all processes together, simulator included, per join, while a group grows
  to N members, a hundred a second. Baseline: while it grows to an eighth of that.
* `membership.change.N`: the same per change, for joins and leaves that alternate in a group of N. Baseline:
  in a group of an eighth.
* `membership.change.N.packets`: packets per change, receipts among them. Baseline: likewise.
* `membership.change.N.join`: round trips from the request to the joiner's first message. Baseline: likewise.
* `membership.tree.N`, `membership.tree.N.packets`: `change` over a tree. Baseline: over a mesh.
"""

import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Final

from thence.core.errors import ThenceError
from thence.lab.bench.record import Record
from thence.replica.group.settings import GroupSettings
from thence.sim.air import Air
from thence.sim.groups import GroupWorld
from thence.trace.recorder import SEND, STABLE

LATENCY_US: Final = 25_000
ROUND_TRIP_US: Final = 2 * LATENCY_US
SECOND: Final = 1_000_000
PATIENCE_US: Final = 300 * SECOND
GAP_US: Final = 100_000
"""Between two changes: ten a second."""
GROW_US: Final = 10_000
CHANGES: Final = 10
SMALL: Final = 5
RINGS: Final = 3
"""Of a tree: six links each, as live nodes have them."""
EVERY_US: Final = 20_000
"""Between two messages of a member, while another is evicted."""


def bench(large: int) -> Iterator[Record | str]:
    yield "an eviction"
    evicted, usual = _eviction()
    yield Record("membership.evict", evicted, "round trips", usual)
    yield f"a group of {large // 8}"
    few = Grown(max(large // 8, 3))
    yield f"a group of {large}"
    many = Grown(large)
    yield Record(f"membership.grow.{large}", many.grow_ms, "ms", few.grow_ms)
    yield Record(f"membership.change.{large}", many.change_ms, "ms", few.change_ms)
    yield Record(f"membership.change.{large}.packets", many.packets, "packets", few.packets)
    yield Record(f"membership.change.{large}.join", many.join_trips, "round trips", few.join_trips)
    yield f"a tree of {large}"
    tree = Grown(large, RINGS)
    yield Record(f"membership.tree.{large}", tree.change_ms, "ms", many.change_ms)
    yield Record(f"membership.tree.{large}.packets", tree.packets, "packets", many.packets)


def _world(processes: int, rings: int = 0) -> GroupWorld:
    names, settings = [f"p{number}" for number in range(processes)], GroupSettings(rings=rings)
    world = GroupWorld(1, names, Air(latency_us=LATENCY_US, jitter_us=0, links=True), settings)
    for name in names:
        world.boot(name)
    world.call(names[0], lambda node: node.found(world.now))
    return world


def _until(world: GroupWorld, done: Callable[[], bool], look_us: int = 250_000) -> None:
    if not world.run(world.now + PATIENCE_US, done, look_us):
        raise ThenceError(f"a simulated group did not come to rest: {world.problem or world.unsettled()}")


def _grow(world: GroupWorld, count: int) -> None:
    for number, name in enumerate(world.names[1:count]):
        world.at(world.now + number * GROW_US, lambda name=name: world.join(name))  # type: ignore[misc]
    _until(world, lambda: _members(world) == count and not world.unsettled())


def _members(world: GroupWorld) -> int:
    nodes = [process.node for process in world.processes.values()]
    return sum(node is not None and node.status == "member" for node in nodes)


# An eviction


def _eviction() -> tuple[float, float]:
    """Round trips until all is stable: after an eviction, and usually."""
    world = _world(SMALL)
    _grow(world, SMALL)
    begun = world.now
    _load(world, begun + 4 * SECOND)
    world.run(begun + 2 * SECOND)
    usual = _delays(world, begun + SECOND, begun + 2 * SECOND - 10 * ROUND_TRIP_US)
    victim, by = world.names[-1], world.names[0]
    world.crash(victim)
    world.processes[victim].dead = True
    world.run(begun + 3 * SECOND)
    evicted_at = world.now
    world.call(by, lambda node: node.evict(victim, world.now))
    _until(world, lambda: world.now > begun + 4 * SECOND and not world.unsettled())
    last = max(at + delay for at, delay in _delays(world, begun, evicted_at))
    return (last - evicted_at) / ROUND_TRIP_US, median(delay for _, delay in usual) / ROUND_TRIP_US


def _load(world: GroupWorld, until: int) -> None:
    for name in world.names:
        for at in range(world.now, until, EVERY_US):
            world.at(at, lambda name=name: world.send(name))  # type: ignore[misc]


def _delays(world: GroupWorld, start: int, end: int) -> list[tuple[int, int]]:
    """Of each message of living members that was sent in this time: when, and how long it took until all had
    been told that it is stable."""
    alive = {
        process.node.member.me for process in world.processes.values() if process.node and process.node.member
    }
    sent: dict[tuple[str, int], int] = {}
    stable: dict[tuple[str, int], list[int]] = {}
    for member in sorted(alive):
        for kind, about, _, at, _ in world.diaries[member].rows:
            if about is not None and kind == SEND and start <= at < end:
                sent[about] = at
            elif about is not None and kind == STABLE:
                stable.setdefault(about, []).append(at)
    return [(at, max(stable[about]) - at) for about, at in sent.items() if len(stable[about]) == len(alive)]


# Large groups


class Grown:
    """A group that has grown to a size, and what changes cost there."""

    def __init__(self, members: int, rings: int = 0) -> None:
        world = _world(members + CHANGES, rings)
        begun = time.process_time()
        _grow(world, members)
        self.grow_ms: Final = 1000 * (time.process_time() - begun) / (members - 1)
        begun, before = time.process_time(), sum(world.packets.values())
        asked = self._changes(world, members)
        self.change_ms: Final = 1000 * (time.process_time() - begun) / CHANGES
        self.packets: Final = (sum(world.packets.values()) - before) / CHANGES
        self.join_trips: Final = median(_joins_us(world, asked)) / ROUND_TRIP_US

    def _changes(self, world: GroupWorld, members: int) -> dict[str, int]:
        """A join, a leave, and so on; when joins were asked for."""
        asked = {}
        names = world.names
        for number in range(CHANGES):
            at, name = world.now + number * GAP_US, names[members + number // 2]
            if number % 2:
                oldest = names[1 + number // 2]
                world.at(at, lambda name=oldest: world.call(name, lambda node: node.leave(world.now)))  # type: ignore[misc]
            else:
                asked[name] = at
                world.at(at, lambda name=name: world.join(name))  # type: ignore[misc]
        ends = world.now + CHANGES * GAP_US
        _until(world, lambda: world.now > ends and _members(world) == members and not world.unsettled())
        return asked


def _joins_us(world: GroupWorld, asked: dict[str, int]) -> list[int]:
    """From the request until there was a member that may send."""
    found = []
    for name, at in asked.items():
        [first] = [diary.rows[0] for member, diary in world.diaries.items() if member.split("~")[0] == name]
        found.append(first[3] - at)
    return found
