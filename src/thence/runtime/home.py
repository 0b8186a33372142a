"""Where a node lives: the process and the event loop that it was opened in, and nowhere else.

A process that is forked from the node's has a copy of everything that the node is, and is not that node: two
of them would give the same dots to different messages, and speak over the same sockets. So the copy is given
up as soon as it exists (`watch`), and says so to whatever asks it for anything.
"""

import asyncio
import os
from collections.abc import Iterable
from threading import get_ident
from typing import Final, Protocol
from weakref import WeakSet

from thence.core.errors import UsageError

FORKED: Final = (
    "this process was forked from the one that opened the node: open a node of its own here, or fork before "
    "the node is opened"
)
ELSEWHERE: Final = (
    "a node belongs to the event loop that it was opened in; from another thread or loop: "
    "asyncio.run_coroutine_threadsafe(node.broadcast(…), loop)"
)


class Forked(Protocol):
    def forked(self) -> None:
        """This is a copy, in a process that was forked: it must neither write nor speak."""
        ...


_watched: Final[WeakSet[Forked]] = WeakSet()


def watch(one: Forked) -> None:
    _watched.add(one)


def silence(descriptors: Iterable[int]) -> None:
    """Of sockets that another process has, too: this one has nothing to do with them any more. Closing them
    here, beneath an event loop that may still run, would leave their numbers to other files."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in descriptors:
        if descriptor >= 0:
            os.dup2(nothing, descriptor, inheritable=False)
    os.close(nothing)


def _give_up() -> None:
    for one in list(_watched):
        one.forked()


os.register_at_fork(after_in_child=_give_up)


class Home:
    """Threads are compared: to ask for the running loop asks the system for the process, each time."""

    __slots__ = ("__weakref__", "_loop", "_process", "thread")

    def __init__(self) -> None:
        self._loop: Final = asyncio.get_running_loop()
        self._process: Final = os.getpid()
        self.thread = get_ident()
        """Of the loop; none in a copy."""
        watch(self)

    def forked(self) -> None:
        self.thread = 0

    @property
    def left(self) -> bool:
        """This is another process."""
        return os.getpid() != self._process

    def check(self) -> None:
        """`UsageError` to one that calls from elsewhere."""
        if get_ident() != self.thread or not self._loop.is_running():
            raise UsageError(FORKED if self.left else ELSEWHERE)
