"""When a member writes itself down, and how: a part of it in each step.

What it says is fixed in the step in which it is begun; the application's state, and the bytes of all of it,
are made in later ones, then written, and synced beside the steps (`OpLog.draft`). It counts once the log
refers to it, which says up to where it goes: a crash before that is one with the checkpoint from before, and
one after it is one right after the moment in which it was begun, for nothing is collected until then.

Often enough that reading the rest takes well under a second, and seldom enough that writing costs little.
Where the state is large, it is written when the log has grown by half of it: two thirds of what is written
are states then, and a restart does not read much more log than state.
"""

from collections.abc import Generator, Iterator
from typing import Final, NamedTuple

from thence.core.machine import Wake
from thence.core.message import Message
from thence.members.spans import Spans
from thence.oplog.log import OpLog
from thence.oplog.policy import DiskSync
from thence.oplog.reading import Vector
from thence.oplog.record import Stored
from thence.replica.group.ledger.backlog import KILOBYTE_BITS, Allowance
from thence.replica.group.ledger.ledger import CODEC
from thence.replica.group.ledger.state import MemberState, drained
from thence.replica.history import understood

CHECKPOINT_BYTES: Final = 8 << 20
"""Of log since the last one: a restart reads that again in well under a second."""


class Written(NamedTuple):
    """What a member was at a moment."""

    upto: int
    """Its log up to here is in it."""
    clock: Vector
    parts: list[bytes]


class Checkpoints:
    __slots__ = ("_bytes", "_every", "_log", "_making", "log", "sync")

    def __init__(self) -> None:
        self._log: OpLog | None = None
        self._bytes = 0
        """What had been appended to that log when one was begun."""
        self._every = 0
        self.log: OpLog | None = None
        """In which one is under way."""
        self._making: Generator[int, None, Written] | None = None
        self.sync: DiskSync | None = None
        """To be carried out before it goes on."""

    def wanted(self, log: OpLog) -> bool:
        since = log.appended_bytes - (self._bytes if log is self._log else 0)
        return self.log is not log and since >= max(CHECKPOINT_BYTES, self._every)

    def made(self, log: OpLog, size: int = 0) -> None:
        """One of so many bytes."""
        self._log, self._bytes = log, log.appended_bytes
        self._every = size // 2

    def begin(self, log: OpLog, making: Generator[int, None, Written]) -> None:
        """`making` yields what its items have cost, in bytes; the first step of it is taken here, and fixes
        what it says."""
        self.drop()
        self.log = self._log = log
        self._bytes, self._making = log.appended_bytes, making
        try:
            next(making)
        except StopIteration as over:  # there is nothing in it that would take a second step
            self._write(over.value)

    @property
    def unfinished(self) -> bool:
        """Is there something to be done in the next step?"""
        return self._making is not None or (self.log is not None and self.log.drafting)

    def go_on(self, log: OpLog | None, most: int) -> None:
        """As far as is allowed. `log`: the one that is written to."""
        if log is not self.log:
            self.drop()
        elif self._making is not None:
            done = Allowance(most).spend_on(self._making)
            if done is not None:
                self._write(*done)
        elif self.log is not None and self.log.drafting:
            self.sync = self.log.write_draft(most << KILOBYTE_BITS)

    def with_sync(self, effects: list[DiskSync | Wake]) -> list[DiskSync | Wake]:
        """What a step asks for, and what this does."""
        if self.sync is not None:
            effects.append(self.sync)
            self.sync = None
        return effects

    def finish(self, now: int) -> None:
        """All that is left, at once: it counts when this returns."""
        assert self.log is not None
        if self._making is not None:
            self._write(drained(self._making))
        self.sync = None
        self.log.finish_draft(now)

    def _write(self, written: Written) -> None:
        assert self.log is not None
        self._making = None
        self._every = sum(map(len, written.parts)) // 2
        self.log.draft(*written)

    def drop(self) -> None:
        """None is under way any more."""
        making, self._making, self.log, self.sync = self._making, None, None, None
        if making is not None:
            making.close()


def before(position: int, log: OpLog, state: MemberState) -> Iterator[Message]:
    """What was delivered up to a position, and was not stable in the state that was written down there."""
    return (understood(CODEC, stored) for stored in _unstable(log, state) if stored.position <= position)


def needless(log: OpLog, state: MemberState) -> int:
    """Up to this position a restart from the state does not read the log."""
    first = next(_unstable(log, state), None)
    return log.tail if first is None else first.position - 1


def _unstable(log: OpLog, state: MemberState) -> Iterator[Stored]:
    past, named = Spans(state.past), zip(log.names, log.vector, strict=True)
    return log.missing([written if name in past else state.stable.get(name, 0) for name, written in named])
