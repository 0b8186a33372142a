"""Simulation: storms over overlays. Nodes crash and restart from their logs, pause, go for good and join;
links are cut and reset, noticed by one end before the other. Then calm comes, and all must come right."""

from io import BytesIO

import pytest
from support.overlays import simulated

from thence.check.oracle import judge
from thence.sim.faults import Crash
from thence.sim.overlay import OverlayRun
from thence.sim.overlay_plan import Reset
from thence.sim.overlay_scenarios import configure


def after_the_storm(seed: int, spread: str, order: str = "none") -> None:
    outcome, events, _ = simulated(configure("tree-storm", spread=spread, seed=seed, order=order))
    assert outcome.complete, outcome.why
    assert outcome.held == 0, "a stream is causal by itself"
    [verdict] = judge(events)
    assert not any(verdict.violations.values()), verdict


@pytest.mark.parametrize("seed", range(60))
def test_after_the_storm_a_tree_has_delivered_everything(seed: int) -> None:
    after_the_storm(seed, "sync-tree")


@pytest.mark.parametrize("seed", range(60))
def test_after_the_storm_trees_that_forget_have_delivered_everything(seed: int) -> None:
    after_the_storm(seed, "eco-sync-tree")


def test_storms_need_states() -> None:
    """Else the test above would say nothing about them."""
    installs = [
        simulated(configure("tree-storm", spread="eco-sync-tree", seed=seed))[0].installs
        for seed in range(20)
    ]
    assert sum(count > 0 for count in installs) >= 10


@pytest.mark.parametrize("spread", ["sync-tree-centre", "flood", "pull"])
@pytest.mark.parametrize("seed", range(20))
def test_after_the_storm_so_have_the_others(seed: int, spread: str) -> None:
    after_the_storm(seed, spread)


@pytest.mark.parametrize("seed", range(0, 60, 3))
def test_tags_on_a_tree_are_exact(seed: int) -> None:
    """`graph` over `sync-tree`: nothing is ever held, and every tag tells just what its sender had seen."""
    after_the_storm(seed, "sync-tree", order="graph")


def test_nodes_come_back_from_disks_that_forget() -> None:
    """The storms above would say little of logs if none was on a disk, or no node came back."""
    runs = [OverlayRun(configure("tree-storm", seed=seed)) for seed in range(60)]
    back = [
        run
        for run in runs
        if run.settings.durable and any(isinstance(one, Crash) for one in run.plan.happenings)
    ]
    assert len(back) >= 15
    outcome, events, _ = simulated(back[0].settings)
    assert outcome.complete
    assert "restart" in {event.kind for event in events}


@pytest.mark.parametrize("seed", [26, 33, 46])
def test_newcomers_that_were_born_into_a_partition_find_the_group(seed: int) -> None:
    """They had found each other, and so had no reason to ask their contacts again."""
    after_the_storm(seed, "sync-tree")


def test_two_pairs_of_a_small_group_survive_the_node_between_them() -> None:
    """They had one neighbour each, no other names in their views, and did not ask their contacts."""
    after_the_storm(281, "sync-tree")


def test_a_smaller_root_that_returns_is_followed() -> None:
    """Each beat of the other root put off the search for the one that was announced."""
    after_the_storm(304, "sync-tree")


@pytest.mark.parametrize("seed", [0, 7, 33])
def test_a_storm_is_the_same_to_the_byte_each_time(seed: int) -> None:
    traces = []
    for _ in range(2):
        sink = BytesIO()
        OverlayRun(configure("tree-storm", seed=seed), sink)()
        traces.append(sink.getvalue())
    assert traces[0] == traces[1]


def test_storms_differ_and_leave_nothing_out() -> None:
    plans = [OverlayRun(configure("tree-storm", seed=seed)).plan for seed in range(60)]
    kinds = {type(one).__name__ for plan in plans for one in plan.happenings}
    assert kinds == {"Arrive", "Depart", "Reset", "Cut", "Pause", "Crash"}
    assert sum(isinstance(one, Reset) for plan in plans for one in plan.happenings) > 50
    assert len({(plan.size, plan.until_us, len(plan.happenings)) for plan in plans}) > 50
