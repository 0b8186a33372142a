"""Simulation: storms over groups whose programs are stores. At rest all hold the same, and what the
specification says."""

import pytest
from support.store_storms import store_storm, trouble_with_stores

from thence.sim.groups_run import STORE, simulate_group
from thence.sim.groups_store import SimStore


@pytest.mark.parametrize("seed", [0, 3, 4, 5, 6, 8, 9, 10, 11, 12])
def test_stores_come_through_a_storm_with_one_state(seed: int) -> None:
    assert trouble_with_stores(seed) == ""


def test_storms_bring_about_what_a_store_has_to_cope_with() -> None:
    """Operations that the group never had, and keys of more than one kind."""
    storms = [store_storm(seed) for seed in (1, 8)]
    assert [storm() for storm in storms] == ["", ""]
    stores = [process.application for storm in storms for process in storm.world.processes.values()]
    assert any(store.declined for store in stores)
    held = [kinds for store in stores if isinstance(store, SimStore) for *_, kinds in store.holds()]
    assert any(len(kinds) > 1 for kinds in held)


def test_the_scenario_is_there_for_more() -> None:
    outcome = simulate_group(STORE, {"seed": 3})
    assert outcome.why == ""
    assert outcome.sends > 0
