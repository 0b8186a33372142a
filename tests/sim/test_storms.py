"""Simulation: storms. Everything goes wrong at once, differently with each seed; then calm comes, and all
must come right: delivered, stable, drained, and clean in the eyes of the oracle."""

from io import BytesIO

import pytest
from support.traces import simulated

from thence.check.oracle import judge
from thence.core.codec import Codec
from thence.core.dots import origin_of, seq_of
from thence.core.message import Message
from thence.order.engines import ENGINES
from thence.sim.faults import BadDisk
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


@pytest.mark.parametrize("order", ["graph", "vector"])
@pytest.mark.parametrize("seed", [1, 4, 13, 14, 35])
def test_storms_over_lossy_links_that_once_found_a_bug(seed: int, order: str) -> None:
    """Drawn as they were then: datagrams and large segments."""
    settings = configure("storm", order=order, seed=seed, links="datagram", segment_bytes=1 << 16)
    outcome, events = simulated(settings)
    assert outcome.complete, outcome.why
    [verdict] = judge(events)
    assert not any(verdict.violations.values()), verdict


@pytest.mark.parametrize("order", ["graph", "vector"])
@pytest.mark.parametrize("seed", [*range(20), 822])
def test_what_a_power_cut_forgot_comes_back_from_those_who_have_it(seed: int, order: str) -> None:
    """Without syncs nodes forget the ends of their logs, their own messages among them. What nobody has
    never was; everything else must be everywhere again, in causal order, and no dot may mean two things."""
    settings = configure(
        "storm", order=order, seed=seed, durable=True, links="session", sync="no", segment_bytes=1 << 20
    )
    run = Run(settings)
    outcome = run()
    assert "busy" not in outcome.why, outcome.why
    assert "not drained" not in outcome.why, outcome.why
    logs = run.logs()
    codec = Codec(settings.nodes, ENGINES[order].stamps_are_dots)
    for log in logs:
        seen = [0] * settings.nodes
        for stored in log.since(0):
            message = codec.decode(stored.data)
            assert isinstance(message, Message)
            for p in ENGINES[order].predecessors(message) or ():
                assert seq_of(p) <= seen[origin_of(p)], "an effect before its cause"
            assert seq_of(message.dot) == seen[origin_of(message.dot)] + 1
            seen[origin_of(message.dot)] += 1
    held = [sorted(stored.data for stored in log.since(0)) for log in logs]
    assert held.count(held[0]) == settings.nodes, "nodes hold different messages"


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
    assert kinds == {"Cut", "Pause", "Crash", "BadDisk"}
    whats = {fault.what for plan in plans for fault in plan.faults if isinstance(fault, BadDisk)}
    assert whats >= {"full", "write", "torn", "sync"}
    assert {one.links for one in drawn} == {"datagram", "session"}
