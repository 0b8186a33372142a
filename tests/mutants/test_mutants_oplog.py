"""The log's tests tested: every planted bug is found by the check named beside it."""

import pytest
from support.conformance_oplog import OPLOG_CHECKS
from support.mutants import Mutant, verdict
from support.mutants_oplog import OPLOG, log_with


@pytest.mark.parametrize("mutant", OPLOG, ids=lambda mutant: f"{mutant.module.split('.')[-1]}: {mutant.name}")
def test_planted_bug_is_found(mutant: Mutant) -> None:
    subject = log_with(mutant.edits)
    assert verdict(subject, OPLOG_CHECKS[mutant.check]) == mutant.finds


def test_a_log_without_a_bug_passes_when_imported_afresh() -> None:
    subject = log_with(())
    for check in OPLOG_CHECKS.values():
        check(subject)


def test_no_two_mutants_are_the_same() -> None:
    assert len({(mutant.module, mutant.edits) for mutant in OPLOG}) == len(OPLOG)
    assert len({(mutant.module, mutant.name) for mutant in OPLOG}) == len(OPLOG)
