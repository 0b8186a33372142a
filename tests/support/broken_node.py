"""A node with a bug, for trials that must notice: `BUG` in the environment names it."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from thence.cli.chaos.doomed import Doom
from thence.cli.main import main
from thence.core.errors import InvariantError
from thence.replica.replica import Replica
from thence.runtime import fixed
from thence.runtime.drain import Drain
from thence.runtime.tracing import Row

BUGS: dict[str, Callable[[], None]] = {}


def bug(made: Callable[[], None]) -> Callable[[], None]:
    BUGS[made.__name__] = made
    return made


@bug
def the_trace_is_not_completed() -> None:
    def nothing(*given: object) -> Iterator[Row]:
        return iter(())

    setattr(fixed, "missing_rows", nothing)  # noqa: B010


@bug
def the_application_takes_nothing() -> None:
    def appetite(self: Drain) -> int:
        del self
        return 0

    Drain.appetite = appetite  # type: ignore[method-assign]


@bug
def it_falls_over_after_a_while() -> None:
    real, calls = Replica.receive, [0]

    def receive(*given: object) -> object:
        calls[0] += 1
        if calls[0] > 20:
            os.write(2, b"Traceback (most recent call last):\nInvariantError: planted\n")
            os._exit(1)
        return real(*given)  # type: ignore[arg-type]

    Replica.receive = receive  # type: ignore[assignment,method-assign]


if __name__ == "__main__":
    if os.environ["BUG"] not in BUGS:
        raise InvariantError(f"no such bug: {os.environ['BUG']}")
    BUGS[os.environ["BUG"]]()
    Doom(Path(sys.argv[sys.argv.index("--data") + 1])).install()
    sys.exit(main(["node", *sys.argv[1:]]))
