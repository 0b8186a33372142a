"""The storms of path counters tested: every planted bug is found."""

import pytest
from support.mutants_groups import GroupMutant, planted
from support.mutants_paths import MUTANTS

from thence.check import judge
from thence.sim import edge_paths_storm
from thence.sim.edge_storm import draw_edge


def trouble_on_paths(seed: int) -> str:
    storm = edge_paths_storm.PathStorm(seed, draw_edge(seed))
    why = storm()
    [run] = judge(storm.world.events())
    return why or "".join(flag.verdict for flag in run.flagged)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_planted_bug_is_found(mutant: GroupMutant) -> None:
    assert isinstance(mutant.found_by, int)
    with planted(mutant.edits):
        assert trouble_on_paths(mutant.found_by) != ""
