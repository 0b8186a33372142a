"""Topologies: zones found in a graph, sides, ways, and what is no tree."""

from random import Random

import pytest

from thence.core.errors import UsageError
from thence.order.cuts import topology_of
from thence.order.topology import Topology
from thence.sim.topologies import drawn, named, of_names


def links(topology: Topology) -> list[tuple[int, int]]:
    return [(a, b) for zone in topology.zones for a in zone.members for b in zone.members if a < b]


def shape(topology: Topology) -> tuple[list[list[int]], list[list[int]]]:
    return (
        sorted(sorted(zone.members) for zone in topology.zones),
        sorted(sorted(separator.members) for separator in topology.separators),
    )


@pytest.mark.parametrize("name", ["table-7-1", "three-lans", "small-large", "3x4x5", "7x9"])
def test_zones_and_separators_are_found_in_the_graph(name: str) -> None:
    topology = named(name, 1, 2).topology
    mixed = links(topology)
    Random(1).shuffle(mixed)
    assert shape(topology_of(topology.names, mixed)) == shape(topology)


def test_zones_are_found_in_random_graphs() -> None:
    for seed in range(60):
        topology = drawn(Random(seed)).topology
        assert shape(topology_of(topology.names, links(topology))) == shape(topology)


def test_a_large_graph_is_searched_in_a_time_that_follows_its_links() -> None:
    topology = named("10x10x10x3", 1, 2).topology
    assert shape(topology_of(topology.names, links(topology))) == shape(topology)


@pytest.mark.parametrize(
    ("edges", "says"),
    [
        ([(0, 1), (1, 2), (2, 3), (3, 0)], "no separator"),
        ([(0, 1), (2, 3)], "cannot be reached"),
        ([(0, 0)], "linked to itself"),
        ([(0, 1), (0, 2), (0, 3)], "a gateway joins two zones"),
    ],
    ids=["a ring", "two parts", "a loop", "a star"],
)
def test_graphs_without_a_tree_of_zones_are_refused(edges: list[tuple[int, int]], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        topology_of(["a", "b", "c", "d"], edges)


@pytest.mark.parametrize(
    ("zones", "says"),
    [
        ({}, "without a zone"),
        ({"x": ["a"], "y": []}, "zone y has no members"),
        ({"x": ["a", "a"]}, "names a twice"),
        ({"x": ["a"], "y": ["b"]}, "zone y cannot be reached from x"),
        ({"x": ["a", "g"], "y": ["g"], "z": ["g", "b"]}, "g belongs to x, y, z: a gateway joins two zones"),
        ({"x": ["a", "g", "h"], "y": ["g", "b", "i"], "z": ["h", "i", "c"]}, "zones form a circle"),
    ],
)
def test_zones_that_are_no_tree_are_refused(zones: dict[str, list[str]], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        of_names(zones)


def test_a_process_without_a_zone_is_refused() -> None:
    with pytest.raises(UsageError, match="b belongs to no zone"):
        Topology(["a", "b"], {"x": [0]})


def test_sides_and_ways_agree_with_a_walk_through_the_graph() -> None:
    for seed in range(40):
        topology = drawn(Random(seed)).topology
        beside = {process: topology.neighbours(process) for process in range(len(topology))}
        for number, separator in enumerate(topology.separators):
            members = set(separator.members)
            cut = topology.cuts(separator.members[0])[0]
            reached = reachable(beside, members, next(p for p in range(len(topology)) if p in cut.ahead))
            for process in range(len(topology)):
                assert (process in cut.ahead) is (process in reached)
                assert (process in cut.behind) is (process not in reached and process not in members)
            assert topology.below(number, -1) is topology.below(number, len(topology)) is None


def reachable(beside: dict[int, list[int]], without: set[int], start: int) -> set[int]:
    found, ends = {start}, [start]
    while ends:
        fresh = [each for each in beside[ends.pop()] if each not in found and each not in without]
        found.update(fresh)
        ends += fresh
    return found
