"""`thence bench trees`: that it runs and tells what it is meant to; the figures are the simulator's."""

import json

import pytest

from thence.cli.main import main
from thence.lab.bench import trees
from thence.sim.overlay import OverlayRun


def test_bench_trees_tells_mean_and_spread_beside_a_flood(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = [case for case in trees.cases(8) if case.scenario in ("stable", "root", "long-partition")]
    monkeypatch.setattr(trees, "cases", lambda _nodes: cases)
    assert main(["bench", "trees", "--quick", "--json"]) == 0
    found = {record["name"]: record for record in json.loads(capsys.readouterr().out)}
    flood, tree = found["trees.stable.flood.8.latency"], found["trees.stable.sync.8.latency"]
    assert tree["baseline"] == flood["value"] > 0
    assert tree["ratio"] >= 1, "nothing is quicker than all ways at once"
    assert found["trees.stable.sync.8.latency.deviation"]["value"] > 0
    assert found["trees.stable.sync.8.latency.worst"]["value"] > tree["value"]
    assert found["trees.stable.sync.8.duplicates"]["value"] == 0
    assert found["trees.stable.sync.8.bytes"]["ratio"] < 1.2 < found["trees.stable.flood.8.bytes"]["ratio"]
    assert found["trees.root.sync.6.slowest"]["value"] < 1000
    assert found["trees.long-partition.eco.20.healed"]["value"] > 0


def test_every_case_has_something_to_measure() -> None:
    names = [case.name for case in trees.cases(200)]
    assert len(names) == len(set(names))
    assert {case.scenario for case in trees.cases(200)} == set(trees.MEASURES)


def test_a_run_that_does_not_come_right_is_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OverlayRun, "problems", lambda _self: "messages are missing at n1")
    monkeypatch.setattr("thence.sim.overlay.PATIENCE_US", 1)
    with pytest.raises(AssertionError, match="seed 3: messages are missing"):
        trees.run(trees.Case("small", "steady", "flood", 2, 1), 3)
