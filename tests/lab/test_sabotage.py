"""Differential: what the demo plants is what the oracle finds, one of each kind and nothing else."""

from pathlib import Path

import msgspec

from thence.check.oracle import judge
from thence.lab.sabotage import PLANTS, plant_all
from thence.sim.run import TRACE_FILE, simulate
from thence.sim.scenarios import configure
from thence.trace.schema import VERDICTS, Event


def test_one_of_each_is_planted(tmp_path: Path) -> None:
    simulate(configure("partition", order="graph"), tmp_path / "good")
    planted = plant_all(tmp_path / "good" / TRACE_FILE, tmp_path / "bad")
    lines = (tmp_path / "bad" / "sabotaged.jsonl").read_bytes().splitlines()
    [verdict] = judge(msgspec.json.decode(line, type=Event) for line in lines)
    assert verdict.violations == dict.fromkeys(VERDICTS, 1)
    assert set(planted) == set(PLANTS) == set(VERDICTS)
