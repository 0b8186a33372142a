"""Start processes that cannot outlive this one (`die_with_parent.py` says how), whichever thread asks.

To the kernel the parent of a process is the *thread* that forked it, and when that thread ends the process is
killed. So one thread, which lives as long as this process, starts them all.

Invariant: an interrupt at any moment leaves a `SpawnedProcess` that can be waited for.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue
from typing import Final, NamedTuple

from thence.local import die_with_parent


class SpawnedProcess(subprocess.Popen[bytes]):
    """A process whose end is looked at before it is collected.

    `Popen` collects under a lock. An interrupt between taking the lock and the `try` that gives it back
    leaves it taken, and `wait` hangs. `waitid` looks without collecting, as often as one likes.
    Not every Python has `waitid` elsewhere than on Linux.
    """

    def poll(self) -> int | None:
        return self._look(os.WNOHANG) if sys.platform == "linux" else super().poll()

    def wait(self, timeout: float | None = None) -> int:
        if sys.platform != "linux":
            return super().wait(timeout)
        if timeout is None:
            code = self._look(0)
            assert code is not None, "it was waited for"
            return code
        until = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired(self.args, timeout)
            time.sleep(TICK_S)
        return code

    def _look(self, flags: int) -> int | None:
        if self.returncode is None:
            found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | flags)
            if found is not None:
                exited = found.si_code == os.CLD_EXITED
                self.returncode = found.si_status if exited else -found.si_status
                os.waitpid(self.pid, 0)
        return self.returncode


class _Wish(NamedTuple):
    command: Sequence[str]
    output: Path
    made: Future[SpawnedProcess]


TICK_S: Final = 0.01

_lock: Final = threading.Lock()
_wishes: Final[dict[int, SimpleQueue[_Wish]]] = {}
"""By process: a fork takes this along, but not the thread."""


def spawn(command: Sequence[str], output: Path) -> SpawnedProcess:
    """Start `command`; what it says goes to the end of `output`. Ctrl-C on the terminal does not reach it:
    its starter decides when it stops."""
    made: Future[SpawnedProcess] = Future()
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


def _start(command: Sequence[str], output: Path) -> SpawnedProcess:
    with output.open("ab") as file:
        return SpawnedProcess(
            [sys.executable, "-I", "-S", die_with_parent.__file__, str(os.getpid()), *command],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
