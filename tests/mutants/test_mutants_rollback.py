"""The storms tested: every bug planted into the way back of a process that was put back is found."""

from collections.abc import Callable

import pytest
from support.groups import trouble_with_restores
from support.mutants_groups import GroupMutant, planted
from support.mutants_rollback import MUTANTS
from support.schedules_rollback import ROLLBACK

from thence.sim.groups_storm import GroupStorm
from thence.sim.groups_weather import draw_all

MORE_SEEDS = 30

LONG = "long"


def long_storm(seed: int) -> str:
    return GroupStorm(seed, draw_all(seed))()


def said(storm: Callable[[], str]) -> str:
    try:
        return storm()
    except Exception as error:
        return type(error).__name__


def verdict(mutant: GroupMutant) -> str:
    if isinstance(mutant.found_by, str):
        kind, _, seed = mutant.found_by.partition(" ")
        return said(lambda: long_storm(int(seed))) if kind == LONG else said(ROLLBACK[mutant.found_by])
    seeds = (mutant.found_by, *range(MORE_SEEDS))
    return next(filter(None, (said(lambda seed=seed: trouble_with_restores(seed)) for seed in seeds)), "")  # type: ignore[misc]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_planted_bug_is_found(mutant: GroupMutant) -> None:
    with planted(mutant.edits):
        assert verdict(mutant) != ""
