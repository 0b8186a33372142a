"""Storms over trees whose nodes number paths, judged by their traces."""

from pathlib import Path

import pytest

from thence.check import judge
from thence.core.errors import UsageError
from thence.sim.air import Air
from thence.sim.edge_paths import PathWorld
from thence.sim.edge_paths_storm import PathStorm
from thence.sim.edge_run import simulate_edge
from thence.sim.edge_weather import draw_edge
from thence.spread.edge_paths import PathSettings


@pytest.mark.parametrize("seed", range(10))
def test_a_storm_ends_well(seed: int) -> None:
    storm = PathStorm(seed, draw_edge(seed))
    assert storm() == ""
    [run] = judge(storm.world.events())
    assert run.ok
    assert run.deliveries > 0


def test_a_storm_leaves_a_trace(tmp_path: Path) -> None:
    given = {"seed": 2, "spread": "edge-paths", "nodes": 8}
    outcome = simulate_edge(given, tmp_path / "trace", "paths-2")
    assert outcome.complete
    assert (outcome.spread, outcome.delta) == ("edge-paths", 1)
    assert outcome.entries > 0
    assert list((tmp_path / "trace").iterdir())


@pytest.mark.parametrize("given", [{"delta": 2}, {"take_ms": 5}, {"order": "graph"}])
def test_what_makes_no_sense_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        simulate_edge({"spread": "edge-paths", **given})


def test_a_node_that_is_down_is_passed_by() -> None:
    line, air = {"a": "", "b": "a", "c": "b"}, Air(sessions=True, wire=False)
    world = PathWorld(1, line, {"g": ["c"]}, air, PathSettings())
    for name in world.names:
        world.boot(name)
    world.run(1_000_000)
    world.crash("b")
    world.send("a", "g", payload=b"it is not known yet that b is down")
    world.run(3_000_000)
    world.send("c", "g", payload=b"back")
    world.run(4_000_000)
    assert list(world.processes["c"].application.groups["g"]) == [("a", 1), ("c", 1)]
    assert list(world.processes["a"].application.groups["g"]) == [("a", 1), ("c", 1)]
    world.boot("b")
    assert world.run(10_000_000, lambda: not world.unsettled())
