"""File descriptors, of which a process has few: how many each part may have, and what is kept for the disk.

Visitors take descriptors, and so does the log. A log that cannot open a file because visitors took them all
could not write what it promised, so some are out of their reach (`RESERVE`, see `door.py`), and a folder of
files holds a few itself (`Spares`). Running out of them is a refusal: nothing was done, and it passes.
"""

import errno
import os
import resource
from contextlib import suppress
from typing import Final

RESERVE: Final = 32
"""Never for visitors. A log reads from a few segments and writes to one, beside a trace, a scratch file and a
state that is written; and there are the process's own."""

VISITORS: Final = 4
"""So many kinds of visitors share the rest: handshakes, guests, HTTP; what is left is for members and for the
program."""

SPARES: Final = 4
"""In one folder: a sync in a thread, one of the owner, and files that are opened meanwhile."""

WANTED: Final = 1 << 15
"""For ten thousand clients, twice that and some."""

NONE_LEFT: Final = frozenset({errno.EMFILE, errno.ENFILE})
"""What the system says, of this process or of the whole machine."""


def limit() -> int:
    """What the process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if 0 <= soft < 1 << 20 else 1 << 20


def raise_limit() -> None:
    """What the process may have open becomes what it may ask for, within reason: for a process of our own,
    which many come to."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED if hard == resource.RLIM_INFINITY else min(WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def share(wanted: int) -> int:
    """How many of them one kind of visitors may have, that would like so many."""
    return max(1, min(wanted, (limit() - RESERVE) // VISITORS))


class Spares:
    """Descriptors that are held so as to have them. Not for two threads at once."""

    __slots__ = ("_held", "_of")

    def __init__(self, of: int) -> None:
        """They are copies of this one, as long as they are not needed."""
        self._of: Final = of
        self._held: list[int] = []
        with suppress(OSError):  # then there are fewer, until some are given back
            for _ in range(SPARES):
                self._held.append(os.dup(of))

    def copy(self, descriptor: int) -> int:
        """A copy of a descriptor, to be given back. While one is held this cannot fail for want of them."""
        if not self._held:
            return os.dup(descriptor)
        return os.dup2(descriptor, self._held.pop(), inheritable=False)

    def give_back(self, descriptor: int) -> None:
        if len(self._held) < SPARES:
            self._held.append(os.dup2(self._of, descriptor, inheritable=False))
        else:
            os.close(descriptor)

    def let_one_go(self) -> bool:
        """The next descriptor that is asked for can be had; the next one that is given back stays."""
        if self._held:
            os.close(self._held.pop())
            return True
        return False

    def close(self) -> None:
        while self.let_one_go():
            pass
