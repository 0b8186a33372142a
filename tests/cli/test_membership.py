"""`thence sim --scenario membership`: what a person and a program get to see."""

import json
from pathlib import Path

import pytest

from thence.cli.main import main


def test_a_storm_is_told_in_a_few_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "--scenario", "membership", "--nodes", "3", "--seed", "5"]) == 0
    told = capsys.readouterr().out
    assert "membership: 3 processes" in told
    assert "complete: one view" in told


def test_a_program_gets_one_object(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tmp_path / "trace"
    asked = [
        "sim",
        "--scenario",
        "membership",
        "--nodes",
        "3",
        "--seed",
        "5",
        "--json",
        "--trace",
        str(folder),
    ]
    assert main(asked) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["scenario"] == "membership"
    assert (facts["complete"], facts["why"], facts["processes"]) == (True, "", 3)
    assert facts["trace"] == str(folder)
    assert [path.name for path in folder.iterdir()] == ["sim.parquet"]


def test_the_scenario_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "--scenario", "list"]) == 0
    assert "membership" in capsys.readouterr().out


@pytest.mark.parametrize(
    "flags", [["--order", "vector"], ["--messages", "5"], ["--loss", "1"], ["--latency-ms", "nan"]]
)
def test_what_it_cannot_heed_is_one_line(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "--scenario", "membership", *flags]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert len(told.err.splitlines()) == 1
