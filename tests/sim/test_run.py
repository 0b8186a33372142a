"""Unit: a run as a whole. Repeatable to the byte, honest about what is missing, careful with files."""

from collections import Counter
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from thence.core.errors import UsageError
from thence.sim import recording
from thence.sim import run as run_module
from thence.sim.run import TRACE_FILE, Run, simulate
from thence.sim.scenarios import SCENARIOS, configure
from thence.sim.settings import SimSettings
from thence.trace import parquet


def trace_bytes(settings: SimSettings) -> bytes:
    sink = BytesIO()
    Run(settings, sink)()
    return sink.getvalue()


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_same_settings_same_bytes(scenario: str) -> None:
    settings = configure(scenario, nodes=6, messages=15, loss=0.1, duplicate=0.1)
    assert trace_bytes(settings) == trace_bytes(settings)


def test_another_seed_another_trace() -> None:
    settings = configure("steady", nodes=4, messages=10)
    assert trace_bytes(settings) != trace_bytes(replace(settings, seed=2))


def test_latency_does_not_change_when_nodes_send() -> None:
    """One stream of chance per purpose."""
    from support.traces import simulated

    def sends(latency: str) -> list[tuple[str, int | None]]:
        _, events = simulated(configure("steady", nodes=3, messages=10, latency=latency))
        return [(event.node, event.at_us) for event in events if event.kind == "send"]

    assert sends("fixed") == sends("weibull")


def test_nodes_tell_what_they_sent_and_what_programs_got(tmp_path: Path) -> None:
    settings = SimSettings(nodes=4, messages=5, payload_bytes=100)
    outcome = simulate(settings, tmp_path)
    told = [row for row in pq.read_table(tmp_path).to_pylist() if row["kind"] == "metric"]
    total = Counter[str]()
    for row in told:
        total[row["origin"]] += row["seq"]
    assert len(told) == 2 * 4
    assert total["sent_bytes_total"] == sum(outcome.bytes.values())
    assert total["delivered_bytes_total"] == 100 * outcome.deliveries


def test_a_run_that_never_ends_is_incomplete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "PATIENCE_US", 0)
    outcome = Run(configure("partition", nodes=4, messages=10, loss=0.9))()
    assert not outcome.complete
    assert "deliveries of" in outcome.why
    assert "not drained" in outcome.why


def test_rows_written_out_midway_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    from support.traces import read

    settings = configure("flaky", nodes=5, messages=20)
    whole = trace_bytes(settings)
    monkeypatch.setattr(recording, "ROWS_PER_FLUSH", 50)
    monkeypatch.setattr(run_module, "STEPS_PER_LOOK", 20)
    pieces = trace_bytes(settings)
    assert pieces != whole
    by_place = {(event.node, event.pos): event for event in read(BytesIO(whole))}
    assert {(event.node, event.pos): event for event in read(BytesIO(pieces))} == by_place


@pytest.mark.parametrize(("nodes", "messages"), [(1, 5), (3, 0), (2, 1)])
def test_small_groups(nodes: int, messages: int) -> None:
    outcome = Run(SimSettings(nodes=nodes, messages=messages))()
    assert outcome.complete, outcome.why
    assert outcome.deliveries == nodes * (nodes - 1) * messages


def test_a_trace_replaces_the_simulators_last_one_and_nothing_else(tmp_path: Path) -> None:
    settings = SimSettings(nodes=2, messages=2)
    simulate(settings, tmp_path)
    simulate(replace(settings, seed=9), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [TRACE_FILE]
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"notes\.txt"):
        simulate(settings, tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_failed_run_leaves_the_old_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = SimSettings(nodes=2, messages=2)
    simulate(settings, tmp_path)
    before = (tmp_path / TRACE_FILE).read_bytes()

    def broken(*_: object) -> None:
        raise RuntimeError("disk on fire")

    monkeypatch.setattr(parquet.ParquetTrace, "write", broken)
    with pytest.raises(RuntimeError, match="disk on fire"):
        simulate(replace(settings, seed=2), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [TRACE_FILE]
    assert (tmp_path / TRACE_FILE).read_bytes() == before


def test_a_trace_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot write a trace"):
        simulate(SimSettings(nodes=2, messages=1), tmp_path / "file")


@pytest.mark.parametrize(
    "wrong",
    [
        {"nodes": 0}, {"messages": -1}, {"loss": 1.0}, {"loss": -0.1}, {"duplicate": 1.5},
        {"interval_ms": 0.0}, {"interval_ms": float("inf")}, {"latency_ms": float("nan")},
        {"interval": "sometimes"}, {"latency": "slow"}, {"weibull_shape": 0.0}, {"payload_bytes": -1},
    ],
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        configure("steady", **wrong)
