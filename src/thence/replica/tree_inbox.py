"""What waits for the application of a node without an agreed view: a bounded part of it in memory, the rest
in the log, from which it is read when the application gets there.

Invariant: what is in here are the first messages behind `taken` that are not its own, in the order of the
log; and if there are more than those, `_spilled` says so.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from thence.core.message import Message
from thence.oplog.log import OpLog
from thence.oplog.record import Stored

INBOX_MAX: Final = 4096
"""Messages that wait for the application in memory: enough that reading the log back costs little each."""

INBOX_BYTES: Final = 16 << 20
"""The same in bytes; one message waits however large it is."""


class TreeInbox:
    __slots__ = ("_bytes", "_log", "_most", "_positions", "_reads", "_spilled", "messages")

    def __init__(self, log: OpLog, most: int, reads: Callable[[Stored], Message | None]) -> None:
        """`most`: messages in memory. `reads`: a message of the log; None: the program need not take it."""
        self._log: Final = log
        self._most: Final = most
        self._reads: Final = reads
        self._positions: deque[int] = deque()
        self._bytes = 0
        self._spilled = True  # the log holds more for the application than is here
        self.messages: Final[deque[Message]] = deque()

    @property
    def next_position(self) -> int:
        """Of the message that the application would take next; there must be one."""
        return self._positions[0]

    @property
    def is_dry(self) -> bool:
        """Is it to be filled from the log?"""
        return self._spilled and not self.messages

    def add(self, message: Message, position: int) -> None:
        """It was released, and is the last."""
        if self._spilled or len(self.messages) >= self._most or self._bytes >= INBOX_BYTES:
            self._spilled = True
        else:
            self._append(message, position)

    def _append(self, message: Message, position: int) -> None:
        self.messages.append(message)
        self._positions.append(position)
        self._bytes += len(message.payload)

    def pop(self) -> tuple[int, Message]:
        message = self.messages.popleft()
        self._bytes -= len(message.payload)
        return self._positions.popleft(), message

    def fill(self, after: int, gathered: Iterable[object]) -> None:
        """Read on behind this position. `gathered`: what the log does not hold yet, and the program is to
        take."""
        for stored in self._log.since(after):
            message = self._reads(stored)
            if message is not None:
                self._append(message, stored.position)
                if len(self.messages) >= self._most or self._bytes >= INBOX_BYTES:
                    return
        self._spilled = any(gathered)
