"""`thence soak`: what is asked for, and what it leaves behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.processes import alive, eventually

from thence.check.forgotten import Forgotten
from thence.cli import sim
from thence.cli.main import main
from thence.lab import soak

WORKERS = """
import multiprocessing, os, sys, time
from concurrent.futures import ProcessPoolExecutor
from thence.lab.soak import _belong_to

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


class AtOnce(Executor):
    """Storms of ten seconds each, one after the other."""

    def __init__(self, clock: list[float]) -> None:
        self._clock = clock

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        del fn, args, kwargs
        self._clock[0] += 10
        done = Future[Any]()
        done.set_result(("", 1.0, Forgotten()))
        return done


@pytest.mark.parametrize(("until", "batches"), [(25.0, [3, 3, 2]), (-1.0, [1] * 8), (1e9, [5, 3])])
def test_a_batch_ends_with_its_time_and_the_next_one_goes_on(
    until: float, batches: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three hundred long storms take more than an hour: none was judged before."""
    clock = [0.0]
    monkeypatch.setattr(soak, "STORMS_PER_BATCH", 5)
    monkeypatch.setattr(soak, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    storms = iter([("membership", seed, "graph") for seed in range(8)])
    found: list[list[int]] = []
    while not found or found[-1]:
        ends = clock[0] + until
        found.append([seed for (_, seed, _), _ in soak._told(AtOnce(clock), storms, tmp_path, ends, 2)])
    assert [len(seeds) for seeds in found[:-1]] == batches
    assert [seed for seeds in found for seed in seeds] == list(range(8))


def test_a_storm_that_breaks_the_simulator_is_told_by_its_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RecursionError("too deep")

    monkeypatch.setattr(soak, "simulate_group", broken)
    why, hours, forgotten = soak._storm(("membership", 7, "graph"), tmp_path)
    assert (why, hours, bool(forgotten)) == ("RecursionError: too deep", 0.0, False)
