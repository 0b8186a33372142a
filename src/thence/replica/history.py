"""The operation log as a spread sees it: messages instead of bytes."""

from collections.abc import Iterator, Sequence

from thence.core.codec import Codec
from thence.core.errors import InvariantError
from thence.core.message import Message
from thence.oplog.log import OpLog
from thence.oplog.record import Stored


def understood(codec: Codec, stored: Stored) -> Message:
    """A message as it was written to the log. Checksums have vouched for it: anything else is a bug."""
    message = codec.decode(stored.data)
    if not isinstance(message, Message) or message.dot != stored.dot:
        raise InvariantError(f"the log holds something else than message {stored.dot:#x}")
    return message


class LogHistory:
    """A `core.history.History` over a log."""

    __slots__ = ("_codec", "_log")

    def __init__(self, log: OpLog, codec: Codec) -> None:
        self._log = log
        self._codec = codec

    @property
    def vector(self) -> tuple[int, ...]:
        return self._log.vector

    def reaches(self, vector: Sequence[int]) -> bool:
        return self._log.reaches(list(vector))

    def missing(self, vector: Sequence[int]) -> Iterator[Message]:
        return (understood(self._codec, stored) for stored in self._log.missing(list(vector)))
