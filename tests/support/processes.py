"""For tests with real processes: whether one is alive, and waiting for what takes real time."""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

PATIENCE_S = 120.0
"""How long a machine under load may take; how long it takes is no test's business."""


def eventually(done: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < until, "did not happen"
        time.sleep(0.005)


def alive(pid: int) -> bool:
    """Whether it runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def children() -> set[int]:
    """Processes that this one has started and that still run."""
    tasks = Path(f"/proc/{os.getpid()}/task").iterdir()
    found = []
    for task in tasks:
        with suppress(FileNotFoundError):  # a thread that has just ended
            found += [int(pid) for pid in (task / "children").read_text().split()]
    return {pid for pid in found if alive(pid)}
