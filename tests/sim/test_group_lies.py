"""Simulation: peers that lie. A guest harms nothing; a member that lies breaks no other."""

import pytest
from support.groups import glass, trouble_with_a_guest, trouble_with_a_traitor

from thence.sim.groups_storm import GroupStorm
from thence.sim.groups_weather import draw_all

TRAITORS = {
    100: "an origin's messages were delivered with a gap, and its window lost a tag",
    2: "a context with two dots of one origin could not be encoded",
    88: "a state that its program could not install",
}
"""Lies of members that once broke another, and how."""


GUESTS = {
    9812263: "a member that had run all the time took itself for put back, and was spoken of for ever",
}
"""Lies of guests that once did harm, and which."""


@pytest.mark.parametrize("seed", range(12))
def test_a_guest_that_lies_does_no_harm(seed: int) -> None:
    assert trouble_with_a_guest(seed) == ""


@pytest.mark.parametrize("seed", GUESTS)
def test_a_long_storm_with_a_guest_that_once_did_harm_does_none(seed: int) -> None:
    assert GroupStorm(seed, draw_all(seed))() == ""


@pytest.mark.parametrize("seed", [*range(3, 12), *TRAITORS])
def test_a_member_that_lies_breaks_no_other(seed: int) -> None:
    assert trouble_with_a_traitor(seed) == ""


def test_storms_draw_guests_that_lie_and_their_lies_are_refused() -> None:
    seed = next(seed for seed in range(100) if draw_all(seed).lies_us)
    weather = draw_all(seed)
    storm = GroupStorm(seed, weather)
    assert storm() == ""
    assert storm.world.packets["lies"] > 10
    assert glass(seed).lies_us == 0, "what a seed meant before guests came stays as it was"
