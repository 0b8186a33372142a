"""Incarnations go from stage to stage as the table says: what it lacks would stop a node."""

from support.groups import trouble_in_a_glass
from support.schedules_closing import CLOSING
from support.schedules_forgetful import FORGETFUL
from support.schedules_groups import SCHEDULES
from support.schedules_leaving import LEAVING
from support.taken import taken

from thence.core.stages import Stage
from thence.members.stages import INCARNATION
from thence.members.stages import IncarnationStage as Is

ALL = CLOSING | FORGETFUL | LEAVING | SCHEDULES

BY_HAND = (
    "suspects_have_moved_on",
    "leaver_whose_suspects_have_moved_on",
    "attempt_before_a_restart",
    "attempt_that_came_to_nothing",
)
"""The others take no further ways."""

RARE: set[tuple[Stage, Stage]] = {
    (Is.STRANGER, Is.MEMBER),
    (Is.STRANGER, Is.UNSEEN_SUSPECT),
    (Is.UNSEEN_SUSPECT, Is.SUSPECT),
    (Is.LEFT, Is.LEFT_SUSPECT),
    (Is.DEPARTING_SUSPECT, Is.LEFT_SUSPECT),
    (Is.LEFT_SUSPECT, Is.PAST),
    (Is.UNKNOWN, Is.PAST),
}
"""Of these `tests/members/test_incarnation_stages.py` has each."""

CROSSED = 6
"""A short storm in which a member leaves while another suspects it."""


def test_schedules_and_a_storm_have_all_of_its_ways_but_the_rare_ones() -> None:
    with taken(INCARNATION) as seen:
        for schedule in BY_HAND:
            assert ALL[schedule]() == ""
        assert trouble_in_a_glass(CROSSED) == ""
    assert {row for row in INCARNATION.rows if (row.before, row.after) not in RARE} <= seen
