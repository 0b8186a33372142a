"""Storms over edge trees: a handful of each kind, and those that once found something."""

from pathlib import Path

import pytest
from support.edges import trouble_on_the_edge

from thence.core.errors import UsageError
from thence.pipeline import local
from thence.sim.edge_run import simulate_edge
from thence.sim.edge_storm import EdgeStorm
from thence.sim.edge_weather import BRIEF_FROM, CHUNKS_FROM, MORE_FROM, RUNS_FROM, draw_edge

FOUND = {
    3: "a request overtook messages from below that it had to follow",
    1056: "the root had not taken everything when the world came to rest",
    2133: "a node that crashed while it left tried for ever to leave",
    1000650: "a node left while one that was down knew no other to attach to",
    1000659: "windows of one message let none arrive in the time that a storm may take",
    3002206: "the root crashed in its next step, which came after the time to start it again",
    4001602: "after a restart a state from above was no reason any more not to attach to the root",
    3000651: "the one ancestor of a node that was leaving came back as another identity",
    60002046: "a node lost its disk while it told a child that attached that it alone was its chain",
    60008082: "and while it told a child that its chain had been cut",
}


@pytest.mark.parametrize(
    "seed",
    [
        *range(12),
        *[seed + at for seed in (MORE_FROM, RUNS_FROM, BRIEF_FROM, CHUNKS_FROM) for at in range(9)],
        *FOUND,
    ],
)
def test_a_storm_ends_well(seed: int) -> None:
    assert trouble_on_the_edge(seed) == ""


def test_a_seed_gives_the_same_storm_again() -> None:
    once, again = EdgeStorm(4, draw_edge(4)), EdgeStorm(4, draw_edge(4))
    assert once() == again() == ""
    assert list(once.world.events()) == list(again.world.events())


def test_a_trace_of_a_storm_is_verified(tmp_path: Path) -> None:
    outcome = simulate_edge({"seed": 4, "delta": 2, "groups": 3}, tmp_path / "trace", "edge-4")
    assert outcome.complete
    [run] = local.verify(tmp_path / "trace").runs
    assert (run.run, run.sends, run.deliveries) == ("edge-4", outcome.sends, outcome.deliveries)
    assert not any(run.violations.values())


@pytest.mark.parametrize(
    "given", [{"loss": 0.1}, {"order": "graph"}, {"nodes": 0}, {"delta": -1}, {"spread": "mesh"}]
)
def test_what_makes_no_sense_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        simulate_edge(given)
