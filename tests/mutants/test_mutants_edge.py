"""The schedules and storms of edge trees tested: every planted bug is found."""

import pytest
from support.edges import trouble_on_the_edge
from support.mutants_edge import MUTANTS
from support.mutants_groups import GroupMutant, planted
from support.schedules_edge import EDGES


def said(mutant: GroupMutant) -> str:
    try:
        if isinstance(mutant.found_by, str):
            EDGES[mutant.found_by]()
            return ""
        return trouble_on_the_edge(mutant.found_by)
    except Exception as error:
        return type(error).__name__


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_planted_bug_is_found(mutant: GroupMutant) -> None:
    with planted(mutant.edits):
        assert said(mutant) != ""
