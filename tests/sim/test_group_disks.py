"""Simulation: members of a changing group whose disks fail, are full, or lose what was not synced."""

from dataclasses import replace

import pytest
from support.groups import judged, trouble_with_disks, with_bad_disks
from support.schedules_groups import Play

from thence.oplog.policy import Policy
from thence.replica.group.settings import GroupSettings
from thence.sim.air import Air
from thence.sim.groups_disks import draw_disks
from thence.sim.groups_storm import GroupStorm
from thence.sim.groups_weather import draw, draw_all


def play(sync: Policy = "always") -> Play:
    made = Play("abc", GroupSettings(), air=Air(jitter_us=0, links=True), sync=sync)
    made.together("abc")
    for name in "abc":
        made.send(name)
    made.passes(2)
    return made


KEPT = {
    5041: "one who had forgotten something said that this was all while others could still bring the rest",
    5201: "the same, and left",
    20257: "receipts went to an attempt that had come to nothing, instead of to who ran",
}
"""Storms that once failed, and why."""


@pytest.mark.parametrize("seed", [*range(30), *KEPT])
def test_a_storm_with_bad_disks_does_no_harm_and_all_comes_to_rest(seed: int) -> None:
    assert trouble_with_disks(seed) == ""


def test_what_a_process_had_no_room_to_write_down_it_never_had() -> None:
    """In this storm the state for a returner did not fit on its disk. The contact that could have given it
    another one died soon after: nothing was lost that any process had."""
    storm = GroupStorm(1_002_008, draw_all(1_002_008))
    assert judged(storm(), storm.world) == ""


def test_whom_a_process_let_in_before_it_lost_power_still_brings_what_it_has() -> None:
    storm = GroupStorm(1_108_693, draw_all(1_108_693))
    assert judged(storm(), storm.world) == ""


def test_storms_with_bad_disks_meet_all_that_can_happen_to_them() -> None:
    storms = [with_bad_disks(seed) for seed in range(30)]
    met = {fault.what for storm in storms for fault in storm.weather.disks}
    assert met == {"full", "write", "torn", "sync", "folder", "remove", "power"}
    assert {storm.weather.sync for storm in storms} == {"always", "no"}
    for storm in storms[:10]:
        storm()
    assert sum(storm.world.troubles.full for storm in storms) > 0
    assert sum(storm.world.troubles.stopped for storm in storms) > 0


@pytest.mark.parametrize("seed", range(20))
def test_what_becomes_of_disks_changes_nothing_else_in_the_plan_of_a_seed(seed: int) -> None:
    """Seeds that were kept for what happens in them still stand for that."""
    plain, all_of_it = draw(seed), draw_all(seed)
    disks, sync = draw_disks(seed, plain.processes, plain.span_us)
    assert (plain.disks, plain.sync) == ((), "always")
    assert (all_of_it.disks, all_of_it.sync) == (disks, sync)
    few = {name: getattr(plain.settings, name) for name in ("step_max", "joins_max", "states_bytes")}
    assert (all_of_it.air, replace(all_of_it.settings, **few), all_of_it.troubles) == (
        plain.air,
        plain.settings,
        plain.troubles,
    )


def test_a_member_with_a_full_disk_refuses_and_the_others_go_on() -> None:
    world = play()
    world.processes["b"].shelf.fill(0)
    world.send("b")
    world.send("a")
    world.passes(3)
    assert "b" not in world.up(), "it cannot write, so it takes part in nothing"
    assert len(world.processes["c"].application.applied) == 4, "what b was asked for never was"
    world.processes["b"].shelf.heal()
    world.passes(5)
    assert world.me("b") == "b", "nothing was forgotten: it is the same member"
    assert len(world.processes["b"].application.applied) == 4
    assert world.ends_well() == ""


def test_one_who_cannot_reserve_a_number_joins_when_there_is_room() -> None:
    world = Play("ab").together("a")
    world.processes["b"].shelf.fill(0)
    world.join("b")
    world.passes(3)
    assert world.me("b") == ""
    world.processes["b"].shelf.heal()
    world.join("b")
    world.passes(3)
    assert world.me("b") == "b"
    assert world.ends_well() == ""


def test_a_joiner_whose_disk_is_full_gets_in_by_itself_when_there_is_room() -> None:
    world = Play("ab").together("a")
    world.processes["b"].shelf.fill(60)
    world.join("b")
    world.passes(3)
    assert world.me("b") == ""
    world.processes["b"].shelf.heal()
    world.passes(10)
    assert world.me("b").startswith("b")
    assert world.ends_well() == ""


def test_a_member_whose_sync_failed_comes_back_as_it_was() -> None:
    world = play()
    world.processes["b"].shelf.fail("sync", 0)
    world.send("b")
    assert "b" not in world.up()
    world.passes(5)
    assert world.me("b") == "b"
    assert world.troubles.stopped == 1
    assert world.ends_well() == ""


def test_a_member_that_forgot_its_end_comes_back_as_another() -> None:
    """And what it had sent, and others have, is not lost."""
    world = play("no")
    world.send("b")
    world.passes(1)
    world.crash("b", power=True)
    world.boot("b")
    world.passes(5)
    assert world.me("b") == "b~2"
    assert ("b", 2) in world.processes["b"].application.applied or len(
        world.processes["b"].application.applied
    ) == 4
    assert world.ends_well() == ""


def test_when_all_forgot_their_ends_one_founds_the_group_again() -> None:
    world = play("no")
    for name in "abc":
        world.crash(name, power=True)
    for name in "abc":
        world.boot(name)
    world.passes(3)
    assert [world.me(name) for name in "abc"] == ["", "", ""], "no member is there to join"
    world.call("b", lambda node: node.leave(world.now))
    world.refound("b")
    world.passes(20)
    assert world.me("b") == "b~3", "a number was reserved for the attempt that no contact answered"
    assert all("~" in world.me(name) for name in "ac"), "the others come back to it"
    assert world.ends_well() == ""
