"""The stories of zones tested: every planted bug is found by the one that is named beside it."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from support.mutants_groups import GroupMutant, planted
from support.mutants_zones import JOINS, MUTANTS

from thence.core.errors import ThenceError
from thence.sim import zones_storm

assert zones_storm, "loaded before any bug is planted, or it would keep the first one"

STORIES = Path(__file__).parents[1] / "sim"
PLACES = {**dict.fromkeys(MUTANTS, "test_zones_live.py"), **dict.fromkeys(JOINS, "test_zones.py")}


@pytest.mark.parametrize("mutant", PLACES, ids=lambda mutant: mutant.name)
def test_planted_bug_is_found(mutant: GroupMutant) -> None:
    with planted(mutant.edits):
        spec = spec_from_file_location("stories_of_mutants", STORIES / PLACES[mutant])
        assert spec is not None
        assert spec.loader is not None
        stories = module_from_spec(spec)  # which takes everything from the project as it is now
        spec.loader.exec_module(stories)
        with pytest.raises((AssertionError, ThenceError, KeyError)):
            getattr(stories, f"test_{mutant.found_by}")()
