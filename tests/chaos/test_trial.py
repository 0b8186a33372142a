"""Trials on real processes: nodes that are right hold, and nodes that are not are found out."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from support import broken_node
from support.live_history import read

from thence.check import judge
from thence.lab.chaos.crash_points import PROGRAM
from thence.lab.chaos.plan import Act, Setup
from thence.lab.chaos.quiescence import RestlessError, await_rest
from thence.lab.chaos.storm import Storm, StormError
from thence.local.cluster import Cluster
from thence.local.layout import open_layout
from thence.local.node import as_arguments

SETUP = Setup("graph", "no", 1 << 16, 256, 256, 8, rates=(40.0, 40.0))
IN_STEP = [
    Act(0.2, 0.5, "kill in step", nodes=("a",), point="before the rows"),
    Act(0.6, 0.9, "kill in step", nodes=("b",), point="in the middle of the rows"),
    Act(1.2, 1.5, "kill in step", nodes=("a",), point="after the commit"),
]


def quiet(line: str) -> None:
    """Progress is not shown."""


class Trial:
    def __init__(self, folder: Path) -> None:
        self.trace = folder / "trace"
        self.layout = open_layout(folder / "data", 2)
        self.flags = {"profile": "local", "allow_faults": True, "trace": self.trace, **SETUP.flags()}
        self.cluster: Cluster | None = None

    def storm(self, program: Sequence[str], acts: Sequence[Act], patience_s: float = 60.0) -> dict[str, int]:
        """What the oracle finds wrong with what they did."""
        self.cluster = Cluster(self.layout, program=program, flags=as_arguments(self.flags))
        storm = Storm(self.cluster, SETUP, acts, quiet)
        storm.start()
        storm.run(4.0 if acts else 0.5)
        storm.calm()
        await_rest(self.cluster, patience_s, quiet)
        assert set(self.cluster.stop(grace_s=20).values()) == {0}
        [verdict] = judge(read(self.trace))
        assert verdict.sends > 10
        return {name: count for name, count in verdict.violations.items() if count}


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Trial]:
    made = Trial(tmp_path)
    yield made
    if made.cluster is not None:
        made.cluster.stop(hurry=lambda: True)


def broken(monkeypatch: pytest.MonkeyPatch, bug: str) -> tuple[str, ...]:
    monkeypatch.setenv("BUG", bug)
    monkeypatch.setenv("PYTHONPATH", str(Path(broken_node.__file__).parents[1]))
    return (sys.executable, broken_node.__file__)


def test_nodes_killed_in_the_middle_of_a_step_leave_a_right_trace(trial: Trial) -> None:
    assert trial.storm(PROGRAM, IN_STEP) == {}


def test_a_trace_that_is_not_completed_is_found_out(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    assert trial.storm(broken(monkeypatch, "the_trace_is_not_completed"), IN_STEP)


def test_a_node_that_dies_by_itself_ends_the_trial(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StormError, match=r"[ab] ended: exit code 1; it said: .*planted"):
        trial.storm(broken(monkeypatch, "it_falls_over_after_a_while"), [])


def test_a_group_that_does_not_come_to_rest_is_told_of(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RestlessError, match=r"a: .*released and not taken.*; b: .*not stable"):
        trial.storm(broken(monkeypatch, "the_application_takes_nothing"), [], patience_s=1.0)
