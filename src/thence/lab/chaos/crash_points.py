"""A program: `thence node`, killed in the middle of a step when it is told at which point.

A kill from outside hardly ever meets the few microseconds between the log's write, the trace's and the
packets. So trials run nodes through this program. When `NAME.doom` appears beside a node's data folder and
names a point (`plan.POINTS`), the node kills itself the next time that it gets there, as `kill -9` would. The
node's own code knows nothing of it.
"""

import os
import signal
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Final

from thence.local.node_process import main
from thence.oplog.log import OpLog
from thence.runtime.tracing import LiveTrace

PROGRAM: Final = (sys.executable, "-m", "thence.lab.chaos.crash_points")


def order(data: Path) -> Path:
    """The file that tells the node in this data folder where to die."""
    return data.with_name(f"{data.name}.doom")


class Doom:
    def __init__(self, data: Path) -> None:
        self._order: Final = order(data)

    def at(self, point: str) -> bool:
        """Has its hour come? The order is carried out once."""
        try:
            if self._order.read_text() != point:
                return False
        except FileNotFoundError:
            return False
        self._order.unlink()
        return True

    def install(self) -> None:
        def commit(real: Callable[..., Any], *given: Any) -> Any:
            self._dies("before the commit")
            effects = real(*given)
            self._dies("after the commit")
            return effects

        def write(real: Callable[..., Any], trace: LiveTrace, data: bytes) -> None:
            sends = b'"send"' in data  # what no other node can tell of
            if sends:
                self._dies("before the rows")
                if self.at("in the middle of the rows"):
                    os.write(trace.descriptor, data[: len(data) // 2])
                    die()
            real(trace, data)
            if sends:
                self._dies("after the rows")

        _replace(OpLog, "commit", commit)
        _replace(LiveTrace, "write", write)

    def _dies(self, point: str) -> None:
        if self.at(point):
            die()


def _replace(kind: type, name: str, wrapper: Callable[..., Any]) -> None:
    real = getattr(kind, name)

    @wraps(real)
    def wrapped(*given: Any) -> Any:
        return wrapper(real, *given)

    setattr(kind, name, wrapped)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    Doom(Path(sys.argv[sys.argv.index("--data") + 1])).install()
    sys.exit(main(sys.argv[1:]))
