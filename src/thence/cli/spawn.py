"""Start processes that cannot outlive this one (`leash.py` says how), whichever thread asks.

To the kernel the parent of a process is the *thread* that forked it, and when that thread ends the process is
killed. So one thread, which lives as long as this process, starts them all.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue
from typing import Final, NamedTuple

from thence.cli import leash

Process = subprocess.Popen[bytes]


class _Wish(NamedTuple):
    command: Sequence[str]
    output: Path
    made: Future[Process]


_lock: Final = threading.Lock()
_wishes: Final[dict[int, SimpleQueue[_Wish]]] = {}
"""By process: a fork takes this along, but not the thread."""


def spawn(command: Sequence[str], output: Path) -> Process:
    """Start `command`; what it says goes to the end of `output`. Ctrl-C on the terminal does not reach it:
    whoever started it decides when it stops."""
    made: Future[Process] = Future()
    _queue().put(_Wish(command, output, made))
    return made.result()


def _queue() -> SimpleQueue[_Wish]:
    with _lock:
        if os.getpid() not in _wishes:
            wishes: SimpleQueue[_Wish] = SimpleQueue()
            threading.Thread(target=_serve, args=(wishes,), name="spawn", daemon=True).start()
            _wishes[os.getpid()] = wishes
        return _wishes[os.getpid()]


def _serve(wishes: SimpleQueue[_Wish]) -> None:
    while True:
        wish = wishes.get()
        try:
            wish.made.set_result(_start(wish.command, wish.output))
        except Exception as error:
            wish.made.set_exception(error)


def _start(command: Sequence[str], output: Path) -> Process:
    with output.open("ab") as file:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", leash.__file__, str(os.getpid()), *command],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
