"""The storms and checks of path counters tested: every planted bug is found."""

import pytest
from support.mutants_groups import GroupMutant, planted
from support.mutants_paths import MUTANTS
from support.paths_by_hand import BY_HAND

from thence.check import judge
from thence.sim import edge_paths_storm
from thence.sim.edge_weather import draw_edge


def trouble_on_paths(seed: int) -> str:
    storm = edge_paths_storm.PathStorm(seed, draw_edge(seed))
    why = storm()
    [run] = judge(storm.world.events())
    return why or "".join(flag.verdict for flag in run.flagged)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_planted_bug_is_found(mutant: GroupMutant) -> None:
    found_by = mutant.found_by
    with planted(mutant.edits):
        if isinstance(found_by, str):
            with pytest.raises(AssertionError):
                BY_HAND[found_by]()
        else:
            assert isinstance(found_by, int)
            assert trouble_on_paths(found_by) != ""
