"""When to tell and when to ask, in virtual time."""

import pytest
from support.conformance_herald import HERALD_CHECKS

from thence.core.errors import UsageError
from thence.order.phantom_timer import PhantomSchedule, PhantomSettings


@pytest.mark.parametrize("check", HERALD_CHECKS)
def test_herald_conforms(check: str) -> None:
    HERALD_CHECKS[check](PhantomSchedule)


@pytest.mark.parametrize("wrong", [{"tell_every_us": 0}, {"ask_after_us": 1}, {"ask_max_us": 1}])
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="phantom settings"):
        PhantomSettings(**wrong)
