"""Fault: what happens to members of a changing group, one thing at a time; each schedule says which."""

import pytest
from support.schedules_closing import CLOSING
from support.schedules_collected import COLLECTED_SCHEDULES
from support.schedules_forgetful import FORGETFUL
from support.schedules_groups import SCHEDULES
from support.schedules_installing import INSTALLING
from support.schedules_leaving import LEAVING
from support.schedules_reading import READING
from support.schedules_returning import RETURNING
from support.schedules_rollback import ROLLBACK
from support.schedules_runs import RUNS
from support.schedules_trunk import TRUNK_SCHEDULES

ALL = SCHEDULES | FORGETFUL | CLOSING | ROLLBACK | READING | INSTALLING | LEAVING | RUNS
ALL |= COLLECTED_SCHEDULES | RETURNING | TRUNK_SCHEDULES


@pytest.mark.parametrize("schedule", ALL)
def test_all_comes_right(schedule: str) -> None:
    assert ALL[schedule]() == ""
