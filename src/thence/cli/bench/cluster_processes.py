"""Several processes that measure something together, and what each of them says at its end."""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from thence.cli.spawn import Process, spawn
from thence.core.errors import ThenceError

PATIENCE_S: Final = 60.0
"""Beyond what they were asked to take: how much slower a busy machine may be."""

Told = dict[str, Any]
"""The line of JSON that a process prints."""


def together(module: str, calls: Sequence[Sequence[object]], folder: Path, seconds: float) -> list[Told]:
    """Run `module` once for each of the calls, at the same time, and wait; none is left behind. They are
    meant to take so many seconds."""
    folder.mkdir(exist_ok=True)
    outputs = [folder / f"{number}.txt" for number in range(len(calls))]
    running: list[Process] = []
    until = time.monotonic() + seconds + PATIENCE_S
    try:
        for call, output in zip(calls, outputs, strict=True):
            output.unlink(missing_ok=True)
            running.append(spawn([sys.executable, "-m", module, *map(str, call)], output))
        return [
            told(process, output, until - time.monotonic())
            for process, output in zip(running, outputs, strict=True)
        ]
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
                process.wait()


def told(process: Process, output: Path, patience_s: float) -> Told:
    try:
        code = process.wait(max(patience_s, 0))
    except subprocess.TimeoutExpired:
        code = None
    lines = output.read_text(errors="replace").splitlines()
    if code != 0 or not lines:
        how = "did not end" if code is None else f"ended with code {code}"
        said = " | ".join(lines[-3:]) or "nothing"
        raise ThenceError(f"a process of the benchmark {how}; it said: {said}")
    said_last: Told = json.loads(lines[-1])
    return said_last
