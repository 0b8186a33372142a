"""`thence bench catch-up`: that real nodes are stopped and catch up, and that nothing is left behind.
The figures are no promise."""

import json
from pathlib import Path

import pytest

from thence.cli.main import main

UNITS = {
    f"catch-up.{kind}.{what}": "s" if what == "took" else "ms"
    for kind in ("away", "evicted")
    for what in ("median", "p99", "most", "took")
}


def test_bench_catch_up_measures_the_others_while_one_catches_up_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert main(["bench", "catch-up", "--quick", "--json"]) == 0
    figures = {figure["name"]: figure for figure in json.loads(capsys.readouterr().out)}
    assert {name: figure["unit"] for name, figure in figures.items()} == UNITS
    assert all(figure["value"] >= 0 for figure in figures.values())
    assert list(tmp_path.iterdir()) == []
