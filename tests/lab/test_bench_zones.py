"""`thence bench zones`: that it runs real processes, tells what it should and leaves nothing behind. The
figures are no promise."""

import json
from pathlib import Path

import pytest
from support.processes import children

from thence.cli.main import main
from thence.lab.bench.zones import ZONES

UNITS = {
    "zones.hop": "us",
    "zones.delivery": "us",
    "zones.hops": "hops",
    "zones.some.delivery": "us",
    "zones.burst.delivery": "us",
    "zones.takeover": "ms",
    "zones.pause": "ms",
}


def test_bench_zones_measures_beside_a_mesh_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = children()
    assert main(["bench", "zones", "--quick", "--json"]) == 0
    figures = {figure["name"]: figure for figure in json.loads(capsys.readouterr().out)}
    assert {name: figure["unit"] for name, figure in figures.items()} == UNITS
    for figure in figures.values():
        assert figure["value"] > 0
        assert figure["ratio"] == pytest.approx(figure["value"] / figure["baseline"])
    # One application on either side of two gateways: a message goes to both, and from one to the other side
    # and its witness. Messages that a busy machine sends in one turn are one.
    assert figures["zones.hops"]["value"] <= 4
    assert list(tmp_path.iterdir()) == []
    assert children() <= before


def test_its_zones_are_those_of_the_example() -> None:
    text = (Path(__file__).parents[2] / "examples" / "zones.toml").read_text()
    told = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert told == ZONES.splitlines()
