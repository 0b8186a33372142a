"""Simulation: members of a changing group that are told to leave while others evict each other, or die."""

import pytest
from support.groups import trouble_with_partings, with_partings

from thence.sim.groups_partings import STAY
from thence.sim.groups_weather import LEAVE_US, draw, draw_all

ONCE_FAILED = {1641: "all whom the leaver had evicted were others by now; it waited for one that was dead"}


@pytest.mark.parametrize("seed", [*range(16), *ONCE_FAILED])
def test_a_storm_in_which_some_are_told_to_leave_lets_all_of_them_leave_in_order(seed: int) -> None:
    assert trouble_with_partings(seed) == ""


def test_in_these_storms_some_leave_some_return_and_some_die() -> None:
    storms = [with_partings(seed) for seed in range(16, 28)]
    assert [storm() for storm in storms] == [""] * len(storms)
    worlds = [storm.world for storm in storms]
    assert sum(len(world.leavers) for world in worlds) > len(worlds) // 2
    assert any(process.dead for world in worlds for process in world.processes.values())
    assert any("~" in member for world in worlds for member in world.diaries)


def test_who_stays_is_neither_told_to_leave_nor_dies() -> None:
    partings = [parting for seed in range(60) for parting in draw_all(seed).partings]
    assert partings
    assert all(parting.leaver >= STAY for parting in partings)
    assert not any(parting.dies for parting in partings if parting.away < STAY)


def test_partings_change_nothing_else_in_the_plan_of_a_seed() -> None:
    drawn = [draw_all(seed) for seed in range(60)]
    assert any(weather.partings for weather in drawn)
    for seed, weather in enumerate(drawn):
        assert draw(seed).partings == ()
        assert not (weather.partings and (weather.disks or weather.restores))
        assert (draw(seed).troubles, draw(seed).air) == (weather.troubles, weather.air)


def test_a_leaver_waits_for_longer_than_any_trouble_lasts() -> None:
    assert with_partings(1).world.settings.leave_timeout_us == LEAVE_US
