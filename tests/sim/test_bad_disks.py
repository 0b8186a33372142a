"""Simulation: nodes whose disks let them down while they run, one kind of trouble at a time."""

from dataclasses import replace
from io import BytesIO

import pytest
from support.traces import read

from thence.check.oracle import judge
from thence.sim.faults import BadDisk, Plan
from thence.sim.run import Run
from thence.sim.scenarios import SCENARIOS, configure

SECOND = 1_000_000


def run_with(*faults: BadDisk, monkeypatch: pytest.MonkeyPatch, **given: object) -> tuple[int, list[str]]:
    """A calm run but for these; how many messages were sent, and the kinds of its rows."""
    steady = replace(SCENARIOS["steady"], plan=lambda *_: Plan(faults))
    monkeypatch.setitem(SCENARIOS, "steady", steady)
    chosen: dict[str, object] = {
        "nodes": 3, "messages": 40, "interval_ms": 100.0, "durable": True, "links": "session",
        "segment_bytes": 1024, **given,
    }  # fmt: skip
    settings = configure("steady", **chosen)
    sink = BytesIO()
    outcome = Run(settings, sink)()
    assert outcome.complete, outcome.why
    sink.seek(0)
    events = read(sink)
    [verdict] = judge(events)
    assert not any(verdict.violations.values()), verdict
    assert verdict.stables == 3 * verdict.sends
    return outcome.sends, [event.kind for event in events]


@pytest.mark.parametrize("order", ["graph", "vector"])
@pytest.mark.parametrize("seed", range(5))
def test_a_full_disk_costs_time_and_no_message(
    seed: int, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = BadDisk(SECOND, 3 * SECOND, 1, "full")
    sends, kinds = run_with(fault, monkeypatch=monkeypatch, seed=seed, order=order)
    assert sends == 120, "a client that is refused tries again"
    assert "restart" not in kinds, "a node that cannot write does not go down"


@pytest.mark.parametrize("what", ["write", "torn", "remove"])
@pytest.mark.parametrize("seed", range(5))
def test_a_write_that_fails_once_is_made_up_for(
    seed: int, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = BadDisk(SECOND, 9 * SECOND, 1, what)  # type: ignore[arg-type]
    sends, kinds = run_with(fault, monkeypatch=monkeypatch, seed=seed)
    assert sends == 120
    assert "restart" not in kinds


@pytest.mark.parametrize("order", ["graph", "vector"])
@pytest.mark.parametrize("what", ["sync", "folder"])
@pytest.mark.parametrize("seed", range(5))
def test_a_node_whose_sync_failed_starts_again_from_what_is_there(
    seed: int, what: str, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = BadDisk(SECOND, 9 * SECOND, 1, what)  # type: ignore[arg-type]
    sends, kinds = run_with(fault, monkeypatch=monkeypatch, seed=seed, order=order, segment_bytes=512)
    assert 119 <= sends <= 120, "the message of the step that failed was sent, or never was"
    assert what == "folder" or kinds.count("restart") == 1


def test_all_disks_full_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    faults = [BadDisk(SECOND, (3 + node) * SECOND, node, "full") for node in range(3)]
    sends, _ = run_with(*faults, monkeypatch=monkeypatch)
    assert sends == 120
