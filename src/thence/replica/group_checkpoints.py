"""When a member of a changing group writes itself down, so that a restart has little to read.

Often enough that reading the rest takes well under a second, and seldom enough that writing costs little: it
is everything that is not stable.
"""

from typing import Final

from thence.oplog.log import OpLog

CHECKPOINT_BYTES: Final = 8 << 20
"""Of log since the last one: a restart reads that again in well under a second."""


class Checkpoints:
    __slots__ = ("_bytes", "_log")

    def __init__(self) -> None:
        self._log: OpLog | None = None
        self._bytes = 0
        """What had been appended to that log when one was made."""

    def wanted(self, log: OpLog) -> bool:
        return log.appended_bytes - (self._bytes if log is self._log else 0) >= CHECKPOINT_BYTES

    def made(self, log: OpLog) -> None:
        self._log, self._bytes = log, log.appended_bytes
