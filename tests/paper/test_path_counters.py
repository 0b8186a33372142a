"""The edge multicast report's path counters: what fails as printed, and holds with the mend.

The tree is a line wherever a line will do, and δ = 1. Letters are nodes, in the order of the line.
"""

from itertools import pairwise

import pytest
from support.literal_paths import ALL, Mend, PathGrove


def line(names: str) -> dict[str, str]:
    return {name: before.strip() for before, name in zip(" " + names, names, strict=False)}


def test_a_message_that_is_missing_is_noticed() -> None:
    """6.1: A sends m1 through B, which fails, and m2 past it: D sees from ABD:2 that m1 is missing."""
    grove = PathGrove(line("abd"), {"g": ["d"]})
    grove.publish("a", "g", "m1")
    grove.lose("a", "b")
    grove.silence("a", "b")
    grove.publish("a", "g", "m2")
    grove.bring("a", "d")
    assert grove.accepted["d"] == []
    grove.repair("a")
    grove.bring("a", "d")
    assert grove.accepted["d"] == ["m1", "m2"]


def test_a_barrier_makes_the_third_wait() -> None:
    """6.2: B hands m1 to C and fails before D has it; C answers to D past B, which waits for m1."""
    grove = PathGrove({"b": "", "a": "b", "c": "b", "d": "b"}, {"g": ["c", "d"]})
    grove.publish("a", "g", "m1")
    grove.bring("a", "b")
    grove.lose("b", "d")
    grove.bring("b", "c")
    grove.silence("c", "b")
    grove.publish("c", "g", "m2")
    grove.bring("c", "d")
    assert grove.accepted["d"] == []
    grove.repair("c")
    grove.bring("c", "d")
    assert grove.accepted["d"] == ["m1", "m2"]


def disjoint(mends: frozenset[Mend]) -> list[str]:
    """One copy goes a c e g, past b, d and f; then these are back, and another goes a b d f g."""
    grove = PathGrove(line("abcdefg"), {"all": ["g"]}, mends, radius=3)
    for one, silent in ("ab", "cd", "ef"):
        grove.silence(one, silent)
    grove.publish("a", "all", "m")
    for sender, to in ("ac", "ce", "eg"):
        grove.bring(sender, to)
    assert grove.accepted["g"] == ["m"]
    grove.silence("a", "c")
    grove.silence("b", "c")
    grove.silence("d", "e")
    grove.repair("a")
    for sender, to in ("ab", "bd", "df", "fg"):
        grove.bring(sender, to)
    return grove.accepted["g"]


def test_e1_copies_over_disjoint_chains_are_accepted_twice() -> None:
    """Entries of the last 2δ + 1 = 3 hops have no node in common."""
    assert disjoint(ALL - {Mend.ORIGIN}) == ["m", "m"]
    assert disjoint(ALL) == ["m"]


def numbered_crosswise(mends: frozenset[Mend]) -> list[str]:
    """b accepts m' before m, c accepts m before m'; both number both for d. Then b is down."""
    grove = PathGrove({"b": "", "a": "b", "e": "b", "c": "b", "d": "c"}, {"g": ["d"]}, mends)
    grove.silence("a", "b")
    grove.publish("a", "g", "m")
    grove.bring("a", "c")
    grove.lose("c", "d")
    grove.silence("b", "c")
    grove.publish("e", "g", "m'")
    grove.bring("e", "b")
    grove.lose("b", "d")
    grove.silence("a")
    grove.repair("a")
    grove.bring("a", "b")
    grove.lose("b", "d")
    assert grove.accepted["b"] == ["m'", "m"]
    grove.silence("e", "b")
    grove.repair("e")
    grove.bring("e", "c")
    grove.lose("c", "d")
    assert grove.accepted["c"] == ["m", "m'"]
    grove.silence("b", "d")
    grove.repair("b")
    grove.bring("b", "c")
    grove.repair("c")
    grove.bring("c", "d")
    return grove.accepted["d"]


def test_e2_all_entries_higher_by_one_is_never_true() -> None:
    """m has b:2 and c:1, m' has b:1 and c:2: each waits for the other, although one node alone is down."""
    assert numbered_crosswise(ALL - {Mend.ONE}) == []
    assert sorted(numbered_crosswise(ALL)) == ["m", "m'"]


def beyond_the_neighbourhood(mends: frozenset[Mend]) -> list[str]:
    """On the line w a v y: m is lost between a and w. a jumps over v to y with m2, which follows m; y answers
    with m3 through v, which jumps over a to w."""
    parents = {"a": "", "w": "a", "v": "a", "y": "v"}
    grove = PathGrove(parents, {"near": ["w"], "far": ["y"], "all": ["w", "v", "y"]}, mends)
    grove.publish("a", "near", "m")
    grove.lose("a", "w")
    grove.silence("a", "v")
    grove.publish("a", "far", "m2")
    grove.bring("a", "y")
    grove.publish("y", "all", "m3")
    grove.silence("v", "a")
    grove.bring("y", "v")
    grove.repair("y")
    grove.bring("y", "v")
    grove.bring("v", "w")
    held = list(grove.accepted["w"])
    grove.silence("a", "v")
    grove.repair("a")
    grove.bring("a", "w")
    return held + grove.accepted["w"][len(held) :]


def test_e3_a_neighbourhood_of_one_more_than_delta_breaks_the_order() -> None:
    assert beyond_the_neighbourhood(ALL - {Mend.HORIZON}) == ["m3", "m"]
    assert beyond_the_neighbourhood(ALL) == ["m", "m3"]


@pytest.mark.parametrize("name", ["abc", "abcdefg"])
def test_a_line_without_failures(name: str) -> None:
    grove = PathGrove(line(name), {"g": [name[-1]]}, frozenset())
    for text in "xy":
        grove.publish("a", "g", text)
    for one, other in pairwise(name):
        grove.bring(one, other)
    assert grove.accepted[name[-1]] == ["x", "y"]
