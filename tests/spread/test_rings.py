"""Rings: who keeps links to whom, and which way each origin's messages take."""

from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thence.spread.rings import Rings

names = st.sets(st.text("abcdefghij", min_size=1, max_size=3), min_size=2, max_size=40)


def ringed(processes: set[str], rings: int = 3) -> Rings:
    made = Rings(rings)
    made.keep(processes)
    return made


def reachable(process: str) -> bool:
    del process
    return True


@settings(derandomize=True, deadline=None)
@given(names, st.integers(1, 4))
def test_both_ends_want_the_same_links_and_few_of_them(processes: set[str], rings: int) -> None:
    made = ringed(processes, rings)
    wanted = {process: set(made.wanted(process, reachable)) for process in processes}
    for process, others in wanted.items():
        assert process not in others
        assert len(others) <= 2 * rings
        assert others == set(made.near(process))
        assert all(process in wanted[other] for other in others)


@settings(derandomize=True, deadline=None)
@given(names, st.integers(1, 3), st.randoms(use_true_random=False))
def test_those_who_are_left_stay_connected_whichever_nodes_cannot_be_reached(
    processes: set[str], rings: int, random: object
) -> None:
    made = ringed(processes, rings)
    down = set(random.sample(sorted(processes), len(processes) // 2))  # type: ignore[attr-defined]
    there = processes - down
    links = {process: set(made.wanted(process, there.__contains__)) & there for process in there}
    reached = {min(there)}
    edge = deque(reached)
    while edge:
        for other in links[edge.popleft()] - reached:
            reached.add(other)
            edge.append(other)
    assert reached == there


@settings(derandomize=True, deadline=None)
@given(names, st.integers(1, 3))
def test_the_ways_to_one_origin_form_a_tree(processes: set[str], rings: int) -> None:
    made = ringed(processes, rings)
    routes = {process: made.routes(process, sorted(set(made.near(process)))) for process in processes}
    for origin in processes:
        for process in processes - {origin}:
            steps, at = 0, process
            while at != origin:
                at = routes[at][origin]
                steps += 1
                assert steps < len(processes), f"from {process} to {origin} in circles"


@settings(derandomize=True, deadline=None)
@given(names, names)
def test_a_place_depends_on_the_name_alone(first: set[str], second: set[str]) -> None:
    grown = ringed(first)
    assert grown.keep(second) == (first != second)
    assert not grown.keep(second)
    fresh = ringed(second)
    assert {p: list(grown.near(p)) for p in second} == {p: list(fresh.near(p)) for p in second}


def test_a_group_of_128_is_five_links_across() -> None:
    processes = {f"p{number}" for number in range(128)}
    made = ringed(processes)
    longest = 0
    for process in sorted(processes):
        distance, edge = {process: 0}, deque([process])
        while edge:
            at = edge.popleft()
            for other in made.near(at):
                if other not in distance:
                    distance[other] = distance[at] + 1
                    edge.append(other)
        longest = max(longest, *distance.values())
    assert longest <= 5


@pytest.mark.parametrize("process", ["a", "x"])
def test_one_alone_has_no_neighbours(process: str) -> None:
    made = ringed({"a"})
    assert made.wanted(process, reachable) == list(made.near(process)) == []
    assert made.routes("a", []) == {}
