"""Fault: what happens to members of a changing group, one thing at a time; each schedule says which."""

import pytest
from support.schedules_groups import SCHEDULES


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_all_comes_right(schedule: str) -> None:
    assert SCHEDULES[schedule]() == ""
