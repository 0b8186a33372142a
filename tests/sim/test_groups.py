"""Simulation: storms over a changing group, judged by the oracle; seeds that once failed are kept."""

import pytest

from thence.check import judge
from thence.sim.groups_storm import Storm

KEPT = {
    111: "a leaver of a side that was given up counted as a holder of that side's messages",
    129: "a member went on trying to return to a side that had died",
}
"""Seeds that once failed, and why."""


def trouble(seed: int) -> str:
    """What is wrong with a storm, if anything."""
    storm = Storm(seed)
    why = storm()
    for verdict in judge(storm.events()):
        if not why and not verdict.ok:
            why = f"{verdict.violations}: {verdict.flagged[:3]}"
    return why


@pytest.mark.parametrize("seed", [*range(20), *KEPT])
def test_a_storm_harms_nobody_and_all_comes_to_rest(seed: int) -> None:
    assert trouble(seed) == ""


def test_a_storm_is_repeated_by_its_seed_to_the_last_row() -> None:
    one, other = Storm(3), Storm(3)
    assert one() == other() == ""
    assert one.events() == other.events()
