"""Integration: the command line as a person meets it. What needs Spark is in tests/pipeline."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from thence import __version__
from thence.cli.main import main


def test_no_command_shows_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert all(command in shown for command in ("sim", "verify", "bench", "demo", "soak", "experiment"))


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"thence {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["frobnicate"], "frobnicate"),
        (["sim", "--nodes", "many"], "--nodes"),
        (["sim", "--nodes", "0"], "--nodes must be between"),
        (["sim", "--loss", "1.5"], "--loss"),
        (["sim", "--order", "alphabetic"], "there is graph, vector"),
        (
            ["sim", "--order", "probabilistic", "--entries", "3", "--keys", "4"],
            "--keys must be between 1 and",
        ),
        (["sim", "--order", "graph", "--entries", "3"], "--entries is for --order probabilistic"),
        (["sim", "--spread", "butter"], "there is mesh"),
        (["sim", "--scenario", "rain"], "there is flaky, joins, one-way, partition"),
        (["sim", "--scenario", "rain"], "closed, edge, membership, store, tree, zones, catastrophe, churn"),
        (["soak", "--scenario", "rain"], "there is flaky, joins, one-way, partition"),
        (["soak", "--scenario", "rain"], "closed, edge, membership, store, tree, zones\n"),
        (["sim", "--latency-matrix", "/nonexistent"], "cannot read"),
        (["sim", "--latency-ms", "nan"], "finite"),
        (["sim", "--bogus"], "--bogus"),
        (["sim", "--scenario", "storm", "--order", "none", "--seed", "7"], "order none"),
        (["tune", "--nodes", "9", "--rate", "0", "--delay-ms", "9"], "--rate must be above 0"),
        (["tune", "--nodes", "9", "--rate", "1", "--delay-ms", "9", "--keys", "2"], "--keys needs --entries"),
        (["bench", "everything"], "there is order"),
        (["experiment", "run", "tcb-9", "--out", "x"], "there is tcb-1"),
        (["experiment", "run"], "name"),
        (["verify"], "trace"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    out = capsys.readouterr()
    assert out.out == ""
    assert out.err.startswith("thence: ")
    assert out.err.count("\n") == 1
    assert complaint in out.err


WITHOUT_EXTRAS = """
import sys
from thence.local.extras import EXTRAS
for package in EXTRAS:
    sys.modules[package] = None  # as if it were not installed
from thence.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def without_extras(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS, *arguments],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["sim", "--trace", "t"],
        ["soak", "--seeds", "1"],
        ["bench", "verify"],
        ["bench", "all"],
        ["experiment", "list"],
        ["experiment", "run", "tcb-1", "--out", "x"],
        ["sim", "--scenario", "list"],
        ["bench", "trees"],
        ["verify", "t"],
        ["verify", "t", "--engine", "local"],
        ["metrics", "t"],
        ["chaos", "--engine", "local"],
        ["demo"],
        ["chaos"],
    ],
)
def test_without_an_extra_every_command_says_what_to_install(arguments: list[str], tmp_path: Path) -> None:
    ended = without_extras(arguments, tmp_path)
    assert ended.returncode == 2, ended.stderr
    assert "pip install 'thence[lab]'" in ended.stderr
    assert ended.stderr.count("\n") == 1, "one line and no traceback"
    assert list(tmp_path.iterdir()) == [], "nothing was begun"


@pytest.mark.parametrize("arguments", [[], ["--help"], ["sim", "--help"], ["up", "--help"], ["status", "."]])
def test_the_middleware_needs_no_extra(arguments: list[str], tmp_path: Path) -> None:
    ended = without_extras(arguments, tmp_path)
    assert "pip install" not in ended.stderr
    assert "Traceback" not in ended.stderr


def test_tune_tells_people_and_programs(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["tune", "--nodes", "1000", "--rate", "0.2", "--delay-ms", "100"]
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert "--order probabilistic --entries 64 --keys 2" in said
    assert "Over gossip" in said, "where the prediction holds"
    bars = {
        int(line.split("K =")[1].split()[0]): line.count("█") for line in said.splitlines() if "K =" in line
    }
    assert min(bars, key=lambda keys: bars[keys]) in (2, 3)
    assert bars[1] > bars[2] < bars[6]
    assert main([*arguments, "--entries", "100", "--keys", "4", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["under_way"], told["entries"], told["keys"], told["caveats"]) == (20, 100, 4, [])


def test_sim_tells_of_errors(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["sim", "--order", "probabilistic", "--entries", "2", "--keys", "1", "--nodes", "5"]
    assert main([*arguments, "--interval-ms", "5", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["errors"] > told["undoubted"] == 0
    assert main([*arguments, "--interval-ms", "5"]) == 0
    assert f"{told['errors']:,} delivered before their causes" in capsys.readouterr().out


def test_sim_tells_people_and_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["sim", "--nodes", "3", "--messages", "4", "--trace", str(tmp_path / "t")]
    assert main(arguments) == 0
    assert "complete: all delivered, stable and drained" in capsys.readouterr().out
    assert main([*arguments, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["complete"], told["sends"], told["deliveries"], told["stables"]) == (True, 12, 24, 36)


def test_sim_lists_its_scenarios(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "--scenario", "list"]) == 0
    assert "storm" in capsys.readouterr().out


def test_bench_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "sim", "--quick", "--json"]) == 0
    [first, *_] = json.loads(capsys.readouterr().out)
    assert set(first) == {"name", "value", "unit", "baseline", "ratio"}
    assert first["name"] == "sim.graph.64"
    assert first["ratio"] == pytest.approx(first["value"] / first["baseline"])


def test_demo_leaves_other_peoples_folders_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.txt").write_text("ten years of work")
    assert main(["demo", "--out", str(tmp_path)]) == 2
    assert "a folder of its own" in capsys.readouterr().err
    assert (tmp_path / "thesis.txt").read_text() == "ten years of work"


def test_a_terminal_that_lacks_a_character_is_told_its_number() -> None:
    """Whatever the locale: a check mark must not end a tour."""
    ascii_only = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    ascii_only.pop("PYTHONIOENCODING", None)
    command = [sys.executable, "-m", "thence.cli.main", "sim", "--scenario", "list"]
    told = subprocess.run(command, env=ascii_only, capture_output=True, check=False)
    assert (told.returncode, told.stderr) == (0, b"")
    assert b"flood, \\u2026)" in told.stdout


def test_an_interrupt_is_quiet() -> None:
    """Ctrl-C: no traceback, exit code 130."""
    program = (
        "import sys\n"
        "from thence.cli import main, sim\n"
        "def interrupted(*_): raise KeyboardInterrupt\n"
        "sim.run = interrupted\n"
        "sys.exit(main.main(['sim']))"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "thence: interrupted\n")


@pytest.mark.parametrize(
    ("flags", "run"),
    [
        (["--seed", "5"], "steady-5"),
        (["--run", "mine"], "mine"),
        (["--run", ""], ""),
        (["--scenario", "membership", "--seed", "5"], "membership-5"),
        (["--spread", "sync-tree", "--seed", "3"], "steady-3"),
    ],
)
def test_a_simulated_run_has_a_name_in_its_trace(tmp_path: Path, flags: list[str], run: str) -> None:
    assert main(["sim", "--nodes", "3", "--trace", str(tmp_path), *flags]) == 0
    assert set(pq.read_table(tmp_path)["run"].to_pylist()) == {run}
