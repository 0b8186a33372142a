"""Processes that this one starts: how their ends are found."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from thence.local.spawn import SpawnedProcess, spawn


def started(tmp_path: Path, code: str) -> SpawnedProcess:
    return spawn([sys.executable, "-c", code], tmp_path / "said")


@pytest.mark.parametrize("code", [0, 7])
def test_an_exit_code_is_found_as_often_as_it_is_asked_for(tmp_path: Path, code: int) -> None:
    process = started(tmp_path, f"raise SystemExit({code})")
    assert process.wait(60) == code
    assert (process.poll(), process.wait(), process.returncode) == (code, code, code)


def test_a_signal_is_a_negative_code(tmp_path: Path) -> None:
    process = started(tmp_path, "import time; time.sleep(3600)")
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    process.kill()
    assert process.wait() == -signal.SIGKILL


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere Python may have no waitid")
def test_an_interrupt_that_left_the_lock_of_popen_taken_holds_up_no_wait(tmp_path: Path) -> None:
    process = started(tmp_path, "import time; time.sleep(3600)")
    lock = process._waitpid_lock  # type: ignore[attr-defined]
    lock.acquire()  # as after KeyboardInterrupt between the lock and its `try`
    process.kill()
    assert process.wait(60) == -signal.SIGKILL
