"""Broadcasts that were asked for: gathered until the loop comes round, answered or refused, each once."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final, Generic, TypeVar

from thence.core.errors import InvariantError, ProgramError, StorageError, ThenceError, UsageError
from thence.replica.group_sending import SendQueue

T = TypeVar("T")

Ask = tuple[Sequence[bytes], asyncio.Future[list[T]]]

Answer = tuple[asyncio.Future[list[T]], list[T]]
"""Whoever asked for a broadcast, and what became of it."""

STAMP_BYTES: Final = 32 << 10
"""What a frame of a fixed group must have room for beside a payload: what is in the log must be able to
travel. Of a changing group `core.group_sizes` knows more."""


def must_fit(payloads: Sequence[bytes], most: int) -> None:
    """`UsageError` for what no link could carry."""
    longest = max(map(len, payloads), default=0)
    if longest > most:
        raise UsageError(f"a payload of {longest} bytes: links carry up to {most}")


class Asked(Generic[T]):
    """What was asked for and not done yet."""

    __slots__ = ("_backlog", "_loop", "_waiting")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        backlog: SendQueue["asyncio.Future[list[T]]"] | None = None,
    ) -> None:
        """`backlog`: those that wait for longer than until the loop comes round."""
        self._loop = loop
        self._backlog = backlog
        self._waiting: list[Ask[T]] = []

    def add(self, payloads: Sequence[bytes], why_not: Exception | None) -> "asyncio.Future[list[T]]":
        """Somebody asks; if nothing can be done, it is refused at once."""
        future: asyncio.Future[list[T]] = self._loop.create_future()
        if why_not is not None:
            future.set_exception(why_not)
        else:
            self._waiting.append((payloads, future))
        return future

    def take(self) -> list[Ask[T]]:
        waiting, self._waiting = self._waiting, []
        return waiting

    def refuse(self, error: Exception) -> None:
        held = self._backlog.take() if self._backlog is not None else []
        refuse([future for _, future in (*held, *self.take())], error)


def refused(error: ThenceError, definite: bool = True) -> ThenceError:
    """What a call is told while there is trouble: an error of the same kind, caused by it. If that is not
    `definite`, the call may have been written down."""
    return told(error, f"nothing is written at present: {error}", definite)


def told(error: ThenceError, text: str = "", definite: bool = True) -> ThenceError:
    """A new error for each that hears of it: one that is raised in several places collects tracebacks."""
    kinds: tuple[type[ThenceError], ...] = (InvariantError, ProgramError)
    fresh = next((kind for kind in kinds if isinstance(error, kind)), StorageError)(text or str(error))
    fresh.definite = definite
    fresh.__cause__ = error
    return fresh


def refuse(futures: Iterable["asyncio.Future[T]"], error: Exception) -> None:
    for future in futures:
        if not future.done():
            future.set_exception(error)
