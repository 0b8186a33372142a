"""Simulation: members of a changing group whose disks are put back to an earlier state."""

from dataclasses import replace

import pytest
from support.groups import trouble_with_restores, with_restores

from thence.sim.groups_storm import GroupStorm
from thence.sim.groups_weather import draw, draw_all

ONCE_FAILED = {
    8: "a process had said that it carried everything, and others had more of it than its disk",
    9: "no member told it what it had acknowledged, and none kept that any more",
    14: "a member returned to one that had left before it was put back",
    290: "it lacked the leave of one who was past to all others",
}


@pytest.mark.parametrize("seed", [*range(12), *ONCE_FAILED])
def test_a_storm_in_which_disks_are_put_back_does_no_harm(seed: int) -> None:
    assert trouble_with_restores(seed) == ""


def test_storms_meet_processes_that_notice_and_others_that_are_misled() -> None:
    storms = [with_restores(seed) for seed in range(6, 16)]
    assert [storm() for storm in storms] == [""] * len(storms)
    assert sum(storm.world.rollbacks for storm in storms) > len(storms) // 2
    assert any(storm.world.misled for storm in storms)


def test_what_is_put_back_changes_nothing_else_in_the_plan_of_a_seed() -> None:
    drawn = [draw_all(seed) for seed in range(40)]
    some = [seed for seed, weather in enumerate(drawn) if weather.restores]
    assert some
    assert all(drawn[seed].air.links for seed in some)
    for seed, weather in enumerate(drawn):
        assert draw(seed).restores == ()
        assert (draw(seed).troubles, draw(seed).air) == (weather.troubles, weather.air)


LONG = {
    17: "a member that joined one that was put back had to be told by one that does not know it",
    910038: "a joiner of one that had left, and was put back twice, never met the group that it had left",
    7000351: "a number of its own that it knew nothing of was in another's view, and it went on",
    7001027: "an operation of one that had left waited for that one, which was put back to before that",
    7010808: "two timelines came to a side that knew neither, which took them for one",
    7020210: "what was carried of a timeline with a gap stood for what was missing there",
    7020587: "an operation waited for a member whose disk knew nothing of the start that it was sent under",
    7020729: "some members had forgotten one that was put back, others not, when more of it was carried",
    7021099: "what one that was put back had sent, alone, was stable there and was not carried",
    7021389: "the same as 7020729, with operations that followed from those",
    7022391: "others returned to it though it was past to them, and they kept nothing for it any more",
    7025905: "its disk was from before its first message, and who knew better was another by now",
    9200757: "a group that had settled the end of one that was put back was taken for that one",
    9300309: "its process had come back as another and left, and no member told it so",
    9402700: "one that had more returned to two that were put back, and brought what its log still held",
    9402004: "a message waited for one that was sent, under the same counter, by one that had been put back",
    9100050: "its disk was from before its first message, and who knew better was unknown to it",
}


@pytest.mark.parametrize("seed", LONG)
def test_a_long_storm_that_once_failed_does_no_harm(seed: int) -> None:
    assert GroupStorm(seed, draw_all(seed))() == ""


def test_operations_are_numbered_in_the_order_in_which_a_paused_process_sends_them() -> None:
    assert GroupStorm(9400831, replace(draw_all(9400831), rough=True))() == ""
