"""Simulation: storms. Everything goes wrong at once, differently with each seed; then calm comes, and all
must come right: delivered, stable, drained, and clean in the eyes of the oracle."""

from io import BytesIO

import pytest
from support.traces import simulated

from thence.check.oracle import judge
from thence.order.engines import ENGINES
from thence.sim.run import Run
from thence.sim.scenarios import configure

EXACT = [name for name in ENGINES if name != "none"]


@pytest.mark.parametrize("order", EXACT)
@pytest.mark.parametrize("seed", range(40))
def test_after_the_storm_all_is_well(seed: int, order: str) -> None:
    settings = configure("storm", order=order, seed=seed)
    outcome, events = simulated(settings)
    assert outcome.complete, outcome.why
    [verdict] = judge(events)
    assert not any(verdict.violations.values()), verdict
    assert verdict.stables == settings.nodes * verdict.sends


@pytest.mark.parametrize("order", EXACT)
@pytest.mark.parametrize("seed", [0, 17, 39])
def test_a_storm_is_the_same_to_the_byte_each_time(seed: int, order: str) -> None:
    traces = []
    for _ in range(2):
        sink = BytesIO()
        Run(configure("storm", order=order, seed=seed), sink)()
        traces.append(sink.getvalue())
    assert traces[0] == traces[1]


def test_storms_differ() -> None:
    """The seeds above would prove little if they drew the same storm, or a calm one."""
    drawn = [configure("storm", seed=seed) for seed in range(40)]
    assert len({(one.nodes, one.messages, one.loss, one.take_ms, one.batch_ms) for one in drawn}) > 30
    plans = [Run(one).plan for one in drawn]
    kinds = {type(fault).__name__ for plan in plans for fault in plan.faults}
    assert kinds == {"Cut", "Pause", "Crash"}
