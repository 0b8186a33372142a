"""`thence up --detach` and `thence down`: a local cluster that goes on without a terminal.

The same `thence up` runs as a session of its own; what it says goes to DIR/up.txt. The lock of the folder
names it, and `thence down` asks it to stop as Ctrl-C does.

Invariant: `up --detach` that returns 0 has left a cluster whose nodes all are well; else it has left none.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from thence.core.errors import ThenceError, UsageError
from thence.local.cluster import KILLED_S, REFUSED, TICK_S
from thence.local.console import out
from thence.local.layout import SAID, holder, read_layout, refuse_others
from thence.local.probe import look

LAST_LINES: Final = 5
STOP_S: Final = 60.0
"""Longer than nodes take to drain, which `thence up` itself sees to."""


def detach(data: Path, arguments: Sequence[str], patience_s: float) -> int:
    """Run `thence` with these arguments in the background; return once all nodes are well."""
    if pid := holder(data):
        raise UsageError(f"the cluster in {data} is already run by process {pid}")
    try:
        refuse_others(data)
        data.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot use {data} for a cluster: {error.strerror}") from error
    said = data / SAID
    with said.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "thence.cli.main", *arguments],
            stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    try:
        well = _until(lambda: process.poll() is not None or _well(data), patience_s)
        if well and process.poll() is None:
            out.print(
                f"{len(read_layout(data).names)} nodes in {data} are well, run by process {process.pid}"
            )
            out.print(f"what it says: {said}; `thence down --data {data}` stops it", soft_wrap=True)
            return 0
    except BaseException:
        _end(process)
        raise
    ended = process.poll()
    _end(process)
    lines = said.read_text(errors="replace").splitlines()[-LAST_LINES:]
    if ended == REFUSED and len(lines) == 1:  # it says what is wrong with the command
        raise UsageError(lines[0].removeprefix("thence: "))
    why = f"ended with exit code {ended}" if ended is not None else f"not all well within {patience_s:g} s"
    raise ThenceError(f"the cluster in {data} was not started: {why}; it said: {' | '.join(lines)}")


def down(data: Path) -> int:
    """Stop the cluster that runs from this folder, in order."""
    pid = holder(data)
    if not pid:
        raise UsageError(f"no cluster runs from {data}")
    os.kill(pid, signal.SIGTERM)
    if not _until(lambda: holder(data) != pid, STOP_S):
        raise ThenceError(f"process {pid} has not stopped its nodes within {STOP_S:g} s")
    out.print(f"the cluster in {data} is stopped")
    return 0


def _well(data: Path) -> bool:
    """All nodes of the cluster answer, and nothing is wrong with them."""
    try:
        layout = read_layout(data)
    except (OSError, UsageError):  # not made yet
        return False
    return all(
        one.well and one.status is not None for one in look([layout.data(name) for name in layout.names])
    )


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()  # its nodes die with it
        process.wait(KILLED_S)


def _until(held: Callable[[], bool], patience_s: float) -> bool:
    until = time.monotonic() + patience_s
    while not held():
        if time.monotonic() > until:
            return False
        time.sleep(TICK_S)
    return True
