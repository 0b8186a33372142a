"""`thence soak`: what is asked for, and what it leaves behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.processes import alive, eventually

from thence.cli import sim, soak
from thence.cli.main import main

WORKERS = """
import multiprocessing, os, sys, time
from concurrent.futures import ProcessPoolExecutor
from thence.cli.soak import _belong_to

if __name__ == "__main__":
    pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _belong_to, (os.getpid(),))
    print(pool.submit(os.getpid).result(), flush=True)
    time.sleep(3600)
"""


@pytest.mark.parametrize("flags", [["--seeds", "0"], ["--minutes", "0"], ["--jobs", "-1"]])
def test_what_cannot_be_is_refused(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["soak", *flags]) == 2
    assert "must be positive" in capsys.readouterr().err


@pytest.mark.parametrize(("command", "known"), [("soak", soak.KNOWN), ("sim", sim.KNOWN)])
def test_an_unknown_scenario_is_refused_with_all_that_there_are(
    command: str, known: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "--scenario", "calm"]) == 2
    told = capsys.readouterr()
    assert told.err == f"thence: unknown scenario 'calm'; there is {', '.join(known)}\n"
    assert told.out == ""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_workers_end_with_a_soak_that_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "workers.py"
    script.write_text(WORKERS)
    with subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as running:
        assert running.stdout is not None
        worker = int(running.stdout.readline())
        os.kill(running.pid, signal.SIGKILL)
    eventually(lambda: not alive(worker))


def test_a_storm_that_breaks_the_simulator_is_told_by_its_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RecursionError("too deep")

    monkeypatch.setattr(soak, "simulate_group", broken)
    assert soak._storm(("membership", 7, "graph"), tmp_path) == ("RecursionError: too deep", 0.0, False)
