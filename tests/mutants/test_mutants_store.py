"""Random histories of the store tested: each planted bug is found by one of them."""

import pytest
from support import scan_world, store_world
from support.mutants_groups import planted
from support.mutants_store import MUTANTS, StoreMutant

SEEDS = 200
"""Most bugs are found by the first few."""


def finds(seeds: int) -> int | None:
    """The first history that shows a bug; -1: one that was written by hand."""
    try:
        for early in (False, True):
            store_world.reap_beside_a_statement(early)
            store_world.set_over_set(early)
        store_world.reap_beside_set_over_set()
    except Exception:
        return -1
    for seed in range(seeds):
        try:
            scan_world.run(seed)
            store_world.run(seed, 2 + seed % 4, 60, remove_wins=bool(seed & 1), expiry=seed % 3 != 0)
            store_world.run(seed, 3, 60, remove_wins=False, expiry=False, focus=True)
            store_world.run(seed, 3, 60, remove_wins=False, expiry=False, counts=True)
        except Exception:
            return seed
    return None


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_planted_bug_is_found(mutant: StoreMutant) -> None:
    with planted(mutant.edits):
        assert finds(SEEDS) is not None


def test_no_two_bugs_are_the_same() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert len({mutant.edits for mutant in MUTANTS}) == len(MUTANTS)
