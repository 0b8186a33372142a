"""Several processes that measure something together, and what each of them says at its end."""

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from thence.core.errors import ThenceError
from thence.local.spawn import SpawnedProcess, spawn

PATIENCE_S: Final = 60.0
"""Beyond what they were asked to take: how much slower a busy machine may be."""

LOOK_EVERY_S: Final = 0.05

Told = dict[str, Any]
"""The line of JSON that a process prints."""


def together(module: str, calls: Sequence[Sequence[object]], folder: Path, seconds: float) -> list[Told]:
    """Run `module` once for each of the calls, at the same time, and wait; none is left behind. They are
    meant to take so many seconds."""
    folder.mkdir(exist_ok=True)
    outputs = [folder / f"{number}.txt" for number in range(len(calls))]
    running: list[SpawnedProcess] = []
    until = time.monotonic() + seconds + PATIENCE_S
    try:
        for call, output in zip(calls, outputs, strict=True):
            output.unlink(missing_ok=True)
            running.append(spawn([sys.executable, "-m", module, *map(str, call)], output))
        return all_told(running, outputs, until)
    finally:
        kill(running)


def kill(running: Sequence[SpawnedProcess]) -> None:
    """Those that have not ended."""
    for process in running:
        if process.poll() is None:
            process.kill()
            process.wait()


def all_told(running: Sequence[SpawnedProcess], outputs: Sequence[Path], until: float) -> list[Told]:
    """What each of them says, once all have ended; they have time until then."""
    while time.monotonic() < until and not _over(running):
        time.sleep(LOOK_EVERY_S)
    pairs = list(zip(running, outputs, strict=True))
    for process, output in pairs:
        if process.poll():  # others may wait in vain for one that has failed, which says why
            _told(process, output)
    return [_told(process, output) for process, output in pairs]


def _over(running: Sequence[SpawnedProcess]) -> bool:
    """All have ended, or one has failed."""
    codes = [process.poll() for process in running]
    return None not in codes or any(codes)


def _told(process: SpawnedProcess, output: Path) -> Told:
    code = process.poll()
    lines = output.read_text(errors="replace").splitlines()
    if code != 0 or not lines:
        how = "did not end" if code is None else f"ended with code {code}"
        said = " | ".join(lines[-3:]) or "nothing"
        raise ThenceError(f"a process of the benchmark {how}; it said: {said}")
    said_last: Told = json.loads(lines[-1])
    return said_last
