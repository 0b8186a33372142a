"""`thence bench cluster`: that it runs real processes, tells what it should and leaves nothing behind. The
figures are no promise."""

import json
from pathlib import Path

import pytest
from support.processes import children, eventually

from thence.cli.main import main
from thence.core.errors import ThenceError, UsageError
from thence.lab.bench import cluster
from thence.lab.bench.cluster_nodes import Stretch, group_rate
from thence.lab.bench.cluster_processes import together

UNITS = {
    "cluster.always": "us",
    "cluster.idle": "MB",
    "cluster.cpu": "us",
    "cluster.cpu.changing": "us",
    "cluster.cpu.saturated": "us",
    "cluster.cpu.saturated.changing": "us",
    "cluster.saturation": "messages/s",
    "cluster.latency.rate": "messages/s",
    "cluster.latency.p50": "us",
    "cluster.latency.p99": "us",
    "cluster.events.cpu": "us",
    "cluster.events.cpu.changing": "us",
    "cluster.events.writes": "writes",
    "cluster.events.writes.changing": "writes",
    "cluster.events.p50": "us",
    "cluster.events.p50.changing": "us",
    **{f"cluster.runs.{count}.{who}": "us" for count in (64, 16, 4, 1) for who in ("writer", "receiver")},
}
ALONE = ("cluster.latency.rate", "cluster.events.writes", "cluster.events.writes.changing")


def test_bench_cluster_measures_beside_bare_processes_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = children()
    assert main(["bench", "cluster", "--quick", "--json"]) == 0
    figures = {figure["name"]: figure for figure in json.loads(capsys.readouterr().out)}
    assert {name: figure["unit"] for name, figure in figures.items()} == UNITS
    assert all(figure["value"] > 0 for figure in figures.values())
    assert all(figures.pop(name)["baseline"] is None for name in ALONE)
    for figure in figures.values():
        assert figure["ratio"] == pytest.approx(figure["value"] / figure["baseline"])
    assert figures["cluster.latency.p50"]["value"] <= figures["cluster.latency.p99"]["value"]
    assert list(tmp_path.iterdir()) == []
    assert children() <= before


def test_parts_are_of_cluster_and_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "oplog", "--part", "events"]) == 2
    assert main(["bench", "cluster", "--part", "nothing"]) == 2
    assert "there is always, nodes, latency, events" in capsys.readouterr().err


def test_what_a_node_has_sent_and_none_has_delivered_is_not_sustained() -> None:
    flooding = Stretch(seconds=2.0, cpu_s=1.0, sent=1_000_000, delivered=0)
    reading = Stretch(seconds=2.0, cpu_s=1.0, sent=0, delivered=400)
    assert group_rate([flooding, reading, reading]) == 200.0


def test_a_process_that_fails_ends_the_measurement_with_its_own_words_and_the_others_with_it(
    tmp_path: Path,
) -> None:
    before = children()
    bare = "thence.lab.bench.cluster_bare"
    with pytest.raises(ThenceError, match=r"ended with code 1; it said: .*invalid literal"):
        together(bare, [("answer", "no port"), ("answer", 0)], tmp_path / "said", 0.0)
    eventually(lambda: children() <= before)


def test_where_nothing_came_back_the_machine_is_said_to_be_busy() -> None:
    assert cluster.median_us([{"latencies_us": [3.0]}, {"latencies_us": [1.0, 2.0]}]) == 2.0
    with pytest.raises(UsageError, match="too much to do"):
        cluster.median_us([{"latencies_us": []}])
