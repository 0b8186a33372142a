"""Live nodes keep the promises of a step."""

import pytest
from support.conformance_steps import STEP_CHECKS
from support.steps_changing import ChangingSubject


@pytest.mark.parametrize("name", STEP_CHECKS)
def test_a_step_keeps_its_promises(name: str) -> None:
    STEP_CHECKS[name](ChangingSubject)
