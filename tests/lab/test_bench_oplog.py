"""`thence bench oplog`: that it runs and tells what it is meant to; the figures are no promise."""

import json
from pathlib import Path

import pytest

from thence.cli.main import main


def test_bench_oplog_measures_beside_a_plain_file_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert main(["bench", "oplog", "--quick", "--json"]) == 0
    figures = {figure["name"]: figure for figure in json.loads(capsys.readouterr().out)}
    units = {name: figure["unit"] for name, figure in figures.items()}
    assert units == {"oplog.always": "us", "oplog.append": "us", "oplog.read": "us", "oplog.reopen": "s"}
    for figure in figures.values():
        assert figure["value"] > 0
        assert figure["ratio"] == pytest.approx(figure["value"] / figure["baseline"])
    assert list(tmp_path.iterdir()) == []
