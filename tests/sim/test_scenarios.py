"""Simulation: every engine over every spread in every scenario, judged by the oracle."""

import pytest
from support.traces import simulated

from thence.check.oracle import judge
from thence.order.engines import ENGINES
from thence.sim.scenarios import JOINS, ROUTERS, SCENARIOS, configure
from thence.spread.spreads import SPREADS

EXACT = [name for name in ENGINES if name != "none"]
FOR_ALL = [name for name in SCENARIOS if name not in (JOINS, ROUTERS)]
"""These are those of order separator: tests/sim/test_zones.py."""


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("order", EXACT)
@pytest.mark.parametrize("scenario", FOR_ALL)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_everything_is_delivered_in_causal_order(scenario: str, order: str, spread: str, seed: int) -> None:
    settings = configure(
        scenario, order=order, spread=spread, nodes=5, messages=12, interval_ms=30, seed=seed, take_ms=15
    )
    outcome, events = simulated(settings)
    assert outcome.complete, outcome.why
    [verdict] = judge(events)
    assert not any(verdict.violations.values()), verdict
    assert (verdict.nodes, verdict.sends, verdict.deliveries) == (5, 60, 240)


KEPT_SEEDS: list[tuple[str, dict[str, object]]] = [
    # Loss and duplication of the README's example, small: acks and repeats cross each other.
    ("steady", {"nodes": 6, "messages": 30, "loss": 0.3, "duplicate": 0.5, "seed": 7}),
    ("flaky", {"nodes": 7, "messages": 20, "loss": 0.3, "seed": 11}),
    # Everything is cut off for longer than a repeat's longest wait.
    ("partition", {"nodes": 4, "messages": 60, "interval_ms": 1000.0, "seed": 3}),
    ("one-way", {"nodes": 3, "messages": 60, "interval_ms": 1000.0, "loss": 0.2, "seed": 5}),
    ("slow-link", {"nodes": 8, "messages": 40, "interval_ms": 10.0, "slow_factor": 100.0, "seed": 1}),
]


@pytest.mark.parametrize("order", EXACT)
@pytest.mark.parametrize(("scenario", "given"), KEPT_SEEDS)
def test_kept_seeds(scenario: str, given: dict[str, object], order: str) -> None:
    outcome, events = simulated(configure(scenario, order=order, **given))
    assert outcome.complete, outcome.why
    [verdict] = judge(events)
    assert not any(verdict.violations.values()), verdict


def test_without_an_order_effects_come_before_causes() -> None:
    """The control: if this run were clean, the clean runs above would prove nothing."""
    outcome, events = simulated(configure("steady", order="none", nodes=8, messages=20, interval_ms=5))
    assert outcome.complete
    [verdict] = judge(events)
    assert verdict.violations["order"] > 0
    assert verdict.violations["program"] > 0
    assert sum(verdict.violations.values()) == verdict.violations["order"] + verdict.violations["program"]


def test_late_clients_are_not_over_ordered() -> None:
    """Sends made while deliveries wait in the client's queue: tags follow what the client took."""
    outcome, events = simulated(configure("steady", nodes=6, messages=30, interval_ms=10, take_ms=80))
    assert outcome.complete
    [verdict] = judge(events)
    assert verdict.violations["tag"] == 0
    assert not any(verdict.violations.values())
