"""A node with a bug, for trials that must notice: `BUG` in the environment names it."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

from thence.cli.main import main
from thence.core.errors import InvariantError
from thence.core.message import Message
from thence.lab.chaos.crash_points import Doom
from thence.replica.group.member.member import Member
from thence.replica.group.process.node import GroupNode
from thence.replica.group.surroundings import Closed
from thence.runtime.drain import Drain

BUGS: dict[str, Callable[[], None]] = {}


def bug(made: Callable[[], None]) -> Callable[[], None]:
    BUGS[made.__name__] = made
    return made


@bug
def the_trace_is_not_completed() -> None:
    real = Member.replay

    def replay(self: Member, message: Message, now: int) -> None:
        rows = self._rows
        kept, rows._diary = rows._diary, Closed()
        real(self, message, now)
        rows._diary = kept

    Member.replay = replay  # type: ignore[method-assign]


@bug
def the_application_takes_nothing() -> None:
    def appetite(self: Drain) -> int:
        del self
        return 0

    Drain.appetite = appetite  # type: ignore[method-assign]


@bug
def it_falls_over_after_a_while() -> None:
    real, calls = GroupNode.receive, [0]

    def receive(*given: object) -> object:
        calls[0] += 1
        if calls[0] > 20:
            os.write(2, b"Traceback (most recent call last):\nInvariantError: planted\n")
            os._exit(1)
        return real(*given)  # type: ignore[arg-type]

    GroupNode.receive = receive  # type: ignore[assignment,method-assign]


if __name__ == "__main__":
    if os.environ["BUG"] not in BUGS:
        raise InvariantError(f"no such bug: {os.environ['BUG']}")
    BUGS[os.environ["BUG"]]()
    Doom(Path(sys.argv[sys.argv.index("--data") + 1])).install()
    sys.exit(main(["node", *sys.argv[1:]]))
