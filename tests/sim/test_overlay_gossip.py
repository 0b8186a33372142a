"""Gossip between nodes that are made like live ones: messages come in any order, clocks that members share
order them, most of the time. Whatever comes too early is doubted, and states are set right."""

from io import BytesIO
from typing import Any

import pytest
from support.doubts import early, undoubted
from support.traces import read

from thence.check.oracle import RunVerdict, judge
from thence.core.errors import UsageError
from thence.sim.overlay import OverlayOutcome, OverlayRun
from thence.sim.overlay_durable import DurableOverlayRun
from thence.sim.overlay_scenarios import configure
from thence.trace.schema import Event


def gossiped(scenario: str = "steady", **given: Any) -> tuple[OverlayOutcome, RunVerdict, list[Event]]:
    usual = {"spread": "gossip", "order": "probabilistic", "payload_bytes": 8}
    if scenario == "steady":
        usual |= {"nodes": 10, "messages": 15, "interval_ms": 150.0, "warmup_ms": 2000.0}
    sink = BytesIO()
    outcome = DurableOverlayRun(configure(scenario, **{**usual, **given}), sink)()
    assert outcome.complete, outcome.why  # states that differ among them
    sink.seek(0)
    events = read(sink)
    [verdict] = judge(events)
    return outcome, verdict, events


def stormed(seed: int) -> tuple[OverlayOutcome, RunVerdict, list[Event]]:
    return gossiped("tree-storm", entries=2, keys=1, interval_ms=50.0, seed=seed)


@pytest.mark.parametrize(
    ("entries", "keys"), [(1, 1), (2, 1), (3, 2), (6, 2)], ids=["lamport", "plausible", "most", "some"]
)
def test_every_error_is_doubted_and_states_are_equal_afterwards(entries: int, keys: int) -> None:
    errors = 0
    for seed in (1, 2):
        outcome, verdict, events = gossiped(entries=entries, keys=keys, seed=seed)
        found = {kind: count for kind, count in verdict.violations.items() if count}
        errors += found.pop("order", 0)
        assert not found, "messages of one member keep their order"
        assert not undoubted(events)
        assert outcome.doubts == sum(event.kind == "doubt" for event in events)
    assert errors > 0


def test_enough_entries_hold_the_order() -> None:
    _, verdict, events = gossiped(entries=200, keys=3)
    assert not any(verdict.violations.values())
    assert not [event for event in events if event.kind == "doubt"]


def test_what_waits_and_what_comes_twice_is_told() -> None:
    _, _, events = gossiped(entries=200, keys=3)
    taken = {(row.node, row.origin, row.seq): row.pos for row in events if row.kind in ("send", "deliver")}
    held = [row for row in events if row.kind == "hold"]
    assert held
    assert all(row.pos < taken[row.node, row.origin, row.seq] for row in held)
    twice = {(row.node, row.origin, row.seq) for row in events if row.kind == "duplicate"}
    assert twice
    assert twice <= taken.keys()


@pytest.mark.parametrize("seed", range(8))
def test_after_a_storm_of_gossip_no_error_went_undoubted(seed: int) -> None:
    """Nodes crash, come back from what their disks kept, are cut off; disks are full."""
    _, verdict, events = stormed(seed)
    assert not {kind for kind, count in verdict.violations.items() if count} - {"order"}
    assert not undoubted(events)


@pytest.mark.parametrize("seed", [132, 168, 371])
def test_what_came_too_early_before_a_crash_is_no_duplicate_after_it(seed: int) -> None:
    """A node took a message before its cause, went down, and got the cause when it was back: a frontier after
    the restart would have claimed the cause."""
    _, verdict, events = gossiped("tree-storm", entries=1, keys=1, interval_ms=50.0, seed=seed)
    assert verdict.violations["order"]
    assert not {kind for kind, count in verdict.violations.items() if count} - {"order"}
    assert not undoubted(events)


@pytest.mark.parametrize("entries", [1, 2])
def test_a_node_that_goes_before_a_cause_comes_cannot_doubt_what_followed_from_it(entries: int) -> None:
    """n5 takes n4:3 and n4:4 too early, and is killed for good; all others get the cause, and doubt."""
    _, verdict, events = gossiped("tree-storm", entries=entries, keys=1, interval_ms=50.0, seed=178)
    assert not undoubted(events)
    assert early(events).keys() == {(flag.node, flag.message) for flag in verdict.flagged}
    doubted = {(row.node, f"{row.origin}:{row.seq}") for row in events if row.kind == "doubt"}
    assert early(events).keys() - doubted == {("n5", "n4:3"), ("n5", "n4:4")}
    assert [row.kind for row in events if row.node == "n5" and row.kind != "metric"][-1] == "crash"


@pytest.mark.parametrize("seed", [22, 134])
@pytest.mark.parametrize("entries", [1, 2])
def test_a_newcomer_that_finds_no_node_up_does_not_begin_a_second_group(seed: int, entries: int) -> None:
    """It comes while all others are down, and these come back while it is cut off."""
    _, verdict, _ = gossiped("tree-storm", entries=entries, keys=1, interval_ms=50.0, seed=seed)
    assert not any(verdict.violations.values())


def test_the_storms_err() -> None:
    assert sum(stormed(seed)[1].violations["order"] for seed in range(4))


def test_a_list_that_is_too_short_misses_errors() -> None:
    found = [gossiped(entries=2, keys=1, recent=1, seed=seed) for seed in (1, 2)]
    assert any(undoubted(events) for _, _, events in found)


@pytest.mark.parametrize("spread", ["sync-tree", "sync-tree-centre"])
def test_over_a_tree_clocks_never_err(spread: str) -> None:
    _, verdict, _ = gossiped(spread=spread, entries=2, keys=1)
    assert not any(verdict.violations.values())


def test_a_run_of_gossip_is_the_same_to_the_byte_each_time() -> None:
    traces = []
    for _ in range(2):
        sink = BytesIO()
        DurableOverlayRun(
            configure("tree-storm", spread="gossip", order="probabilistic", entries=3, keys=1, seed=5), sink
        )()
        traces.append(sink.getvalue())
    assert traces[0] == traces[1]


def test_machines_that_forget_come_back_under_other_names() -> None:
    renamed = 0
    for seed in range(6):
        run = DurableOverlayRun(
            configure("tree-storm", spread="gossip", order="probabilistic", entries=5, keys=2, seed=seed),
            policy="no",
        )
        outcome = run()
        assert outcome.complete, (seed, outcome.why)
        renamed += len(run.names) - run.plan.size
    assert renamed > 0


def test_gossip_needs_an_order_and_nodes_like_live_ones() -> None:
    with pytest.raises(UsageError, match="gossip brings messages in any order: use --order probabilistic"):
        OverlayRun(configure("steady", spread="gossip"))
    with pytest.raises(UsageError, match="nodes that are made like live ones"):
        OverlayRun(configure("steady", spread="gossip", order="probabilistic"))
    with pytest.raises(UsageError, match="between 1 and the 3 entries"):
        DurableOverlayRun(configure("steady", spread="gossip", order="probabilistic", entries=3, keys=4))


@pytest.mark.parametrize("seed", range(3))
def test_over_a_tree_nothing_waits_for_its_causes(seed: int) -> None:
    """A stream tells them before. So a node may end its link with a peer that does not."""
    _, verdict, events = gossiped("tree-storm", spread="sync-tree", entries=5, keys=2, seed=seed)
    assert not any(verdict.violations.values())
    assert not [row for row in events if row.kind == "hold"]
