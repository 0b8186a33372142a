"""The kit of a live node's steps tested: every planted bug is found by the check that is named
beside it."""

import pytest
from support.conformance_steps import STEP_CHECKS
from support.mutants import verdict
from support.mutants_groups import planted
from support.mutants_steps import MUTANTS, StepMutant
from support.steps_changing import ChangingSubject


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
@pytest.mark.filterwarnings("ignore")
def test_planted_bug_is_found(mutant: StepMutant) -> None:
    with planted(mutant.edits):
        assert verdict(ChangingSubject, STEP_CHECKS[mutant.check]) == mutant.finds


def test_no_two_bugs_are_the_same() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
