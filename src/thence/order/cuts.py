"""Separators found in a graph of links: zones are its cliques, separators where they meet.

A graph whose zones form a tree is chordal. A search by largest number of visited neighbours visits such a
graph so that, when a process is visited, its visited neighbours are a clique (Tarjan and Yannakakis, 1984).
A new zone begins wherever that clique did not grow; what it shares with an earlier zone is a separator.
Time and memory follow the number of links.
"""

from collections.abc import Iterable

from thence.core.errors import UsageError
from thence.order.topology import Topology


def topology_of(names: list[str], links: Iterable[tuple[int, int]]) -> Topology:
    """Zones and separators of a connected graph; `UsageError` if they form no tree."""
    beside: list[set[int]] = [set() for _ in names]
    for one, other in links:
        if one == other:
            raise UsageError(f"{names[one]} is linked to itself")
        beside[one].add(other)
        beside[other].add(one)
    order, earlier = _search(beside)
    zones = _zones(names, order, earlier)
    return Topology(names, {f"zone-{number}": sorted(zone) for number, zone in enumerate(zones)})


def _search(beside: list[set[int]]) -> tuple[list[int], list[list[int]]]:
    """Processes in the order of the search, and of each its neighbours that were visited before it."""
    size = len(beside)
    weight = [0] * size
    shelves: list[dict[int, None]] = [dict.fromkeys(range(size))]
    earlier: list[list[int]] = [[] for _ in range(size)]
    visited = [False] * size
    order: list[int] = []
    top = 0
    while len(order) < size:
        while not shelves[top]:
            top -= 1
        process = next(iter(shelves[top]))
        del shelves[top][process]
        visited[process] = True
        order.append(process)
        for other in sorted(beside[process]):
            if not visited[other]:
                earlier[other].append(process)
                del shelves[weight[other]][other]
                weight[other] += 1
                if weight[other] == len(shelves):
                    shelves.append({})
                shelves[weight[other]][other] = None
        top = min(top + 1, len(shelves) - 1)
    return order, earlier


def _zones(names: list[str], order: list[int], earlier: list[list[int]]) -> list[set[int]]:
    zones: list[set[int]] = []
    zone_of: dict[int, int] = {}
    for process in order:
        before = earlier[process]
        if not before:
            if zones:
                raise UsageError(f"{names[process]} cannot be reached from {names[order[0]]}")
            zones.append(set())
            zone_of[process] = 0
        else:
            last = before[-1]
            zone = zone_of[last]
            if not zones[zone].issuperset(before):
                one = next(each for each in before if each not in zones[zone])
                raise UsageError(
                    f"no separator: {names[one]} and {names[last]} reach each other through {names[process]} "
                    "and another way round; zones must form a tree"
                )
            if len(before) == len(zones[zone]):
                zone_of[process] = zone
            else:
                zone_of[process] = len(zones)
                zones.append(set(before))
        zones[zone_of[process]].add(process)
    return zones
