"""Both drivers of live nodes keep the promises of a step."""

import pytest
from support.conformance_steps import STEP_CHECKS
from support.steps_changing import ChangingSubject
from support.steps_fixed import FixedSubject
from support.steps_subject import Make

KINDS: dict[str, Make] = {"fixed": FixedSubject, "changing": ChangingSubject}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", STEP_CHECKS)
def test_a_step_keeps_its_promises(name: str, kind: str) -> None:
    STEP_CHECKS[name](KINDS[kind])
