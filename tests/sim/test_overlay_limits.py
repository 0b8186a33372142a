"""Simulation: nodes that can carry only so much, and what that costs those who send everything to all."""

import pytest
from support.overlays import simulated

from thence.check.oracle import judge
from thence.core.dots import pack
from thence.core.errors import UsageError
from thence.core.message import Message
from thence.core.overlay import More, StatePiece, Sync
from thence.sim.overlay import OverlayRun
from thence.sim.overlay_limits import CORES, Limits
from thence.sim.overlay_plan import Arrive, Depart, OverlayPlan
from thence.sim.overlay_scenarios import OVERLAY_SCENARIOS, configure
from thence.sim.overlay_settings import OverlaySettings
from thence.sim.registry import Scenario

SECOND = 1_000_000


def test_what_leaves_a_node_goes_out_byte_after_byte() -> None:
    limits = Limits(2, bandwidth_mbit=8.0, handling_us=0.0)  # a byte per microsecond
    assert limits.leaves(0, 1000, 50) == 1050
    assert limits.leaves(0, 500, 60) == 1550, "behind the first"
    assert limits.leaves(1, 500, 60) == 560, "another node has its own"
    assert limits.leaves(0, 10, 5000) == 5010, "nothing is owed for quiet times"


def test_work_is_counted_per_message_and_in_turn() -> None:
    limits = Limits(1, bandwidth_mbit=0.0, handling_us=100 * CORES)
    past = Sync(1, tuple([Message(pack(0, seq), (), b"") for seq in range(1, 31)]), True)
    assert limits.arrives(0, past, 64_000, 1000) == 4000
    assert limits.arrives(0, More(), 3, 1500) == 4100
    assert limits.busy_until(0) == 4100
    limits.restart(0)
    assert limits.arrives(0, More(), 3, 2000) == 2100


def test_a_state_costs_the_work_of_as_many_messages_as_it_has_kilobytes() -> None:
    """Else a group whose logs forget would look quicker than it is."""
    limits = Limits(1, bandwidth_mbit=0.0, handling_us=100 * CORES)
    assert limits.arrives(0, StatePiece(1, (5,), 0, 1, bytes(64 << 10)), 64 << 10, 1000) == 7500
    assert limits.arrives(0, StatePiece(1, (5,), 0, 1, b""), 0, 8000) == 8100


def test_a_message_takes_as_long_as_its_bytes_at_both_ends() -> None:
    """12,500 bytes at 1 Mbit/s: a tenth of a second to get out, and one to get in."""
    given = {"nodes": 2, "messages": 3, "payload_bytes": 12_500, "latency": "fixed", "latency_ms": 20.0}
    free, _, _ = simulated(configure("steady", **given))
    bound, _, _ = simulated(configure("steady", bandwidth_mbit=1.0, **given))
    assert free.latency_ms == pytest.approx(20, abs=0.5)
    assert bound.latency_ms == pytest.approx(220, abs=3)


@pytest.mark.parametrize("spread", ["sync-tree", "eco-sync-tree", "flood", "pull"])
@pytest.mark.parametrize("scenario", ["churn", "partition"])
def test_limits_delay_and_lose_nothing(scenario: str, spread: str) -> None:
    given = {"nodes": 10, "messages": 45, "payload_bytes": 64, "ttl_ms": 6000.0}
    settings = configure(scenario, spread=spread, bandwidth_mbit=0.5, handling_us=300.0, **given)
    outcome, events, _ = simulated(settings)
    assert outcome.complete, outcome.why
    [verdict] = judge(events)
    assert not any(verdict.violations.values()), verdict


def test_a_flood_pays_for_its_duplicates() -> None:
    """Without limits it is the quickest way there is; with so much work per message that its nodes can just
    not keep up it is slower than a tree over the same views, which does a quarter of that work."""
    given = {"nodes": 30, "messages": 10, "payload_bytes": 64}
    latency = {
        (spread, work): simulated(configure("stable", spread=spread, handling_us=work, **given))[0].latency_ms
        for spread in ("sync-tree", "flood")
        for work in (0.0, 2800.0)
    }
    assert latency["flood", 0.0] < latency["sync-tree", 0.0]
    assert latency["flood", 2800.0] > latency["sync-tree", 2800.0]


def test_newcomers_wait_for_the_past_and_residents_do_not_wait_for_newcomers() -> None:
    """A newcomer reads hundreds of messages, some milliseconds each, before it delivers a new one. Nodes that
    were there have messages as soon as if none had come; and a state spares most of that reading."""
    given = {"nodes": 12, "messages": 60, "payload_bytes": 64, "handling_us": 1000.0, "ttl_ms": 4000.0}
    calm = simulated(configure("stable", spread="sync-tree", **given))[0]
    churned = simulated(configure("churn", spread="sync-tree", **given))[0]
    forgetful = simulated(configure("churn", spread="eco-sync-tree", **given))[0]
    assert calm.resident_ms == calm.latency_ms
    assert churned.resident_ms < 1.2 * calm.latency_ms
    waited = churned.latency_ms - churned.resident_ms
    assert waited > 10
    assert forgetful.latency_ms - forgetful.resident_ms < waited / 3


def test_a_busy_peer_reads_a_farewell_before_the_end_of_the_link(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a node that left politely would be looked for as one that was lost."""

    def plan(settings: OverlaySettings, random: object) -> OverlayPlan:
        arrivals = tuple(Arrive(node * 50_000, node) for node in range(8))
        leaves = Depart(settings.until_us - SECOND, 2, polite=True)
        return OverlayPlan(8, (*arrivals, leaves), settings.sending_us, settings.until_us)

    monkeypatch.setitem(OVERLAY_SCENARIOS, "leaves", Scenario("leaves", "", {}, plan))
    run = OverlayRun(configure("leaves", nodes=8, messages=12, spread="flood", handling_us=8000.0))
    assert run().complete
    others = [here.members for here in run.world.nodes.values() if 2 not in here.members._contacts]
    assert len(others) >= 3
    assert not any(2 in members._lost for members in others)


def test_negative_limits_are_refused() -> None:
    for wrong in ({"bandwidth_mbit": -1.0}, {"handling_us": -1.0}):
        with pytest.raises(UsageError, match="negative"):
            configure("steady", **wrong)
