"""The storms tested: every bug planted into a changing group is found, by a storm or by a schedule."""

from collections.abc import Callable

import pytest
from support.groups import (
    trouble_among_strangers,
    trouble_at_points,
    trouble_in_a_glass,
    trouble_in_a_tree,
    trouble_in_full,
    trouble_in_runs,
    trouble_in_turns,
    trouble_on_a_trunk,
    trouble_with_a_guest,
    trouble_with_a_traitor,
    trouble_with_disks,
    trouble_with_large,
)
from support.mutants_groups import MUTANTS, GroupMutant, planted
from support.schedules_closing import CLOSING
from support.schedules_collected import COLLECTED_SCHEDULES
from support.schedules_forgetful import FORGETFUL
from support.schedules_groups import SCHEDULES
from support.schedules_installing import INSTALLING
from support.schedules_leaving import LEAVING
from support.schedules_load import LOAD
from support.schedules_reading import READING
from support.schedules_returning import RETURNING
from support.schedules_runs import RUNS
from support.schedules_trees import TREES
from support.schedules_trunk import TRUNK_SCHEDULES

BY_HAND = SCHEDULES | FORGETFUL | CLOSING | LOAD | READING | INSTALLING | LEAVING | TREES | RUNS
BY_HAND |= COLLECTED_SCHEDULES | RETURNING | TRUNK_SCHEDULES

STORMS = {
    "disks": trouble_with_disks,
    "strangers": trouble_among_strangers,
    "guest": trouble_with_a_guest,
    "traitor": trouble_with_a_traitor,
    "turns": trouble_in_turns,
    "runs": trouble_in_runs,
    "large": trouble_with_large,
    "points": trouble_at_points,
    "tree": trouble_in_a_tree,
    "trunk": trouble_on_a_trunk,
    "full": trouble_in_full,
}

MORE_SEEDS = 40
"""A change of the code may change what happens in a storm: then another one has to find the bug."""


def said(storm: Callable[[], str]) -> str:
    try:
        return storm()
    except Exception as error:
        return type(error).__name__


def verdict(mutant: GroupMutant) -> str:
    """What was found, by the storm that should find it or by some other."""
    found_by, storm = mutant.found_by, trouble_in_a_glass
    if found_by in BY_HAND:
        return said(BY_HAND[str(found_by)])
    if isinstance(found_by, str):
        kind, _, seed = found_by.partition(" ")
        found_by, storm = int(seed), STORMS[kind]
    seeds = (found_by, *range(MORE_SEEDS))
    return next(filter(None, (said(lambda seed=seed: storm(seed)) for seed in seeds)), "")  # type: ignore[misc]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_planted_bug_is_found(mutant: GroupMutant) -> None:
    with planted(mutant.edits):
        assert verdict(mutant) != ""


def test_nothing_stays_planted() -> None:
    with planted(MUTANTS[0].edits):
        assert trouble_in_a_glass(1) != ""
    assert trouble_in_a_glass(1) == ""


def test_no_two_bugs_are_the_same() -> None:
    assert len({mutant.edits for mutant in MUTANTS}) == len({mutant.name for mutant in MUTANTS}) == 180
