"""For tests with real processes: whether one is alive, and waiting for what takes real time."""

import time
from collections.abc import Callable
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
