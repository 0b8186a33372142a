"""Topologies of simulated runs by name, and which processes write to which in them.

`random` is drawn from the seed. `AxBxC` (as `10x10x10`) are levels: A organisations on a backbone, B
departments in each, C processes in each of these. The document's own are those of chapter 7, rebuilt: its
figures are missing from the text, and what is assumed of them stands beside each.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from thence.core.errors import UsageError
from thence.order.topology import Topology
from thence.sim.zoned import Draw
from thence.sim.zones_file import read_zones

RANDOM: Final = "random"
LEVELS: Final = re.compile(r"\d+(x\d+)+")
LOCAL, NEAR = 0.80, 0.95
"""Of levels: messages within the department, and within the organisation; the others go anywhere."""


class Setting(NamedTuple):
    topology: Topology
    draw: Draw


def named(name: str | None, seed: int, gateways: int | None) -> Setting:
    """`gateways`: of each separator of levels; 1 of them forwards, the others are witnesses."""
    name = name or RANDOM
    gateways = 1 if gateways is None else gateways
    if gateways < 1:
        raise UsageError(f"--gateways must be at least 1, not {gateways}")
    if name == RANDOM:
        return drawn(Random(f"{seed}/topology"))
    if name.endswith(".toml"):
        return to_any(read_zones(Path(name)))
    if LEVELS.fullmatch(name):
        return levels([int(part) for part in name.split("x")], gateways)
    if name in GROUPS:
        zones, groups = GROUPS[name]
        return grouped(zones, groups)
    known = ", ".join([RANDOM, *GROUPS, "levels as 10x10x10", "files that end with .toml"])
    raise UsageError(f"unknown topology {name!r}; there is {known}")


def drawn(random: Random) -> Setting:
    """A tree of up to four zones, with separators of up to three, and messages to any set."""
    zones: list[list[str]] = [[f"n{number}" for number in range(random.randint(1, 4))]]
    applications, gateways = len(zones[0]), 0
    for _ in range(random.randint(1, 3)):
        fresh = [f"n{applications + number}" for number in range(random.randint(1, 4))]
        applications += len(fresh)
        shared = [f"g{gateways + number}" for number in range(random.randint(1, 3))]
        gateways += len(shared)
        random.choice(zones).extend(shared)
        zones.append([*fresh, *shared])
    return to_any(of_names({f"z{number}": zone for number, zone in enumerate(zones)}))


def to_any(topology: Topology) -> Setting:
    """Messages to any set of the others."""
    applications = topology.applications

    def draw(me: int, random: Random) -> tuple[int, ...]:
        others = [process for process in applications if process != me]
        most = min(len(others), random.choice((1, 2, 2, 3, 5, 100)))
        return tuple(sorted(random.sample(others, random.randint(1, most)))) if others else (me,)

    return Setting(topology, draw)


def of_names(zones: Mapping[str, Sequence[str]]) -> Topology:
    """Members by name; gateways are those that two zones name."""
    index: dict[str, int] = {}
    for members in zones.values():
        for member in members:
            index.setdefault(member, len(index))
    return Topology(
        list(index), {zone: [index[member] for member in members] for zone, members in zones.items()}
    )


def levels(fans: list[int], gateways: int) -> Setting:
    if min(fans) < 1:
        raise UsageError(f"levels of {'x'.join(map(str, fans))}: each must be at least 1")
    zones: dict[str, list[str]] = {"z": []}
    above = ["z"]
    for fan in fans[:-1]:
        below = []
        for zone in above:
            for child in [f"{zone}.{number}" for number in range(fan)]:
                shared = [f"g{child[1:]}-{rank}" for rank in range(gateways)]
                zones[zone] += shared
                zones[child] = shared.copy()
                below.append(child)
        above = below
    for zone in above:
        zones[zone] += [f"n{zone[1:]}-{number}" for number in range(fans[-1])]
    topology = of_names(zones)
    applications = topology.applications
    size, count = fans[-1], len(applications)
    near = [*accumulate(reversed(fans), lambda one, other: one * other)]
    place = {process: number for number, process in enumerate(applications)}

    def draw(me: int, random: Random) -> tuple[int, ...]:
        kind = random.random()
        span = size if kind < LOCAL else near[min(1, len(near) - 1)] if kind < NEAR else count
        start = place[me] // span * span
        found = {applications[random.randrange(start, start + span)] for _ in range(random.randint(1, 3))}
        return tuple(sorted(found - {me})) or (me,)

    return Setting(topology, draw)


def grouped(zones: Mapping[str, Sequence[str]], groups: Sequence[Sequence[str]]) -> Setting:
    """A process writes to the groups that it is in."""
    topology = of_names(zones)
    index = {name: process for process, name in enumerate(topology.names)}
    members: dict[int, list[tuple[int, ...]]] = {}
    for group in groups:
        found = tuple(sorted(index[name] for name in group))
        for process in found:
            members.setdefault(process, []).append(found)

    def draw(me: int, random: Random) -> tuple[int, ...]:
        group = random.choice(members[me]) if me in members else (me,)
        return tuple([process for process in group if process != me]) or (me,)

    return Setting(topology, draw)


def _numbered(letter: str, first: int, last: int) -> list[str]:
    return [f"{letter}{number}" for number in range(first, last + 1)]


TABLE_7_1 = {
    "n1": ["p1", "p2", "r1"], "n2": ["p3", "p4", "r2"], "n3": ["p5", "p6", "r3"],
    "lan": ["r1", "r2", "d1", "d2"], "wan": ["d1", "d2", "d3"], "lan2": ["d3", "r3"],
}  # fmt: skip
"""Figures 5.2 and 7.1: processes p on nodes with routers r (the document's n), on LANs joined by d."""

TABLE_7_1_GROUPS = [["p1", "p2", "p3"], ["p3", "p4", "p5"], ["p1", "p6"], ["p5", "p6"]]
"""G_A to G_D; the document gives their sizes, that p1 is in G_A and G_C, and that G_C is {p1, p6}."""

THREE_LANS = {
    "lan1": [*_numbered("a", 1, 6), "d1", "d2"],
    "lan2": [*_numbered("b", 1, 6), "d3", "d4"],
    "lan3": [*_numbered("c", 1, 6), "d5", "d6"],
    "wan": _numbered("d", 1, 6),
}
"""Figure 7.6: three broadcast networks with two gateways each; that these share a network is assumed."""

MORE = {**TABLE_7_1, "n1": ["p1", "p2", "p7", "p8", "r1"], "n3": ["p5", "p6", "p9", "p10", "r3"]}
MORE_GROUPS = [["p1", "p2", "p3", "p7", "p8"], ["p3", "p4", "p5"], ["p1", "p6"], ["p5", "p6", "p9", "p10"]]
"""Two more members of G_A on the first node, two more of G_D on the third."""

SMALL_LARGE = {"small": [*_numbered("s", 1, 4), "g"], "large": [*_numbered("l", 1, 32), "g"]}
SMALL_LARGE_GROUPS = [_numbered("s", 1, 4), _numbered("l", 1, 32), ["s1", "l1"], ["s2", "l2"]]
"""Figure 7.5: G1 is the small group, G2 the large one, G3 and G4 join them; their sizes are assumed."""

LANS_GROUPS = [
    *[_numbered(letter, 1, 6) for letter in "abc"],
    *[["a1", "b1"], ["b2", "c2"], ["c3", "a3"]],
]
"""A group on each network (G1 is the first), and one between each two of them: assumed."""

GROUPS: Final[dict[str, tuple[dict[str, list[str]], list[list[str]]]]] = {
    "table-7-1": (TABLE_7_1, TABLE_7_1_GROUPS),
    "table-7-1-more": (MORE, MORE_GROUPS),
    "small-large": (SMALL_LARGE, SMALL_LARGE_GROUPS),
    "three-lans": (THREE_LANS, LANS_GROUPS),
}
