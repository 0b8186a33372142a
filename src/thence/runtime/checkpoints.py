"""When a member of a changing group writes itself down, so that a restart has little to read.

Often enough that reading the rest takes well under a second, and seldom enough that writing costs little: it
is everything that is not stable.
"""

from typing import Final

from thence.oplog.log import OpLog

CHECKPOINT_BYTES: Final = 8 << 20
"""Of log since the last one: a restart reads that again in well under a second."""

CHECKPOINT_EVERY_US: Final = 10_000_000
"""At most so often: it writes down everything that is not stable."""


class Checkpoints:
    __slots__ = ("_at", "_bytes", "_log")

    def __init__(self, now: int) -> None:
        self._at = now + CHECKPOINT_EVERY_US
        self._log: OpLog | None = None
        self._bytes = 0
        """What had been appended to that log when one was made."""

    def look(self, now: int) -> bool:
        """Is it time to see whether there should be one?"""
        if now < self._at:
            return False
        self._at = now + CHECKPOINT_EVERY_US
        return True

    def wanted(self, log: OpLog) -> bool:
        return log.appended_bytes - (self._bytes if log is self._log else 0) >= CHECKPOINT_BYTES

    def made(self, log: OpLog) -> None:
        self._log, self._bytes = log, log.appended_bytes
