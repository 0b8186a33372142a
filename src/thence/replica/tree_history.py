"""What the log of a node of a tree holds: for streams, with the step that is under way; of former names."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK
from thence.core.message import Message
from thence.core.varint import Reader, put
from thence.oplog.log import OpLog
from thence.replica.history import LogHistory
from thence.replica.tree_order import TreeOrder, Unordered

PAST: Final = 8
"""The key of the note that says which messages were sent under former names: origin, up to which position."""


class StepHistory(LogHistory):
    """The log, and what was appended to it since its last commit: a stream that begins in the middle of a
    step must not leave that out."""

    __slots__ = ("gathered",)

    def __init__(self, log: OpLog, order: TreeOrder | None = None) -> None:
        super().__init__(log, (order or Unordered()).codec)
        self.gathered: list[Message] = []

    def missing(self, vector: Sequence[int]) -> Iterator[Message]:
        known = len(vector)
        yield from super().missing(vector)
        for message in self.gathered:
            origin = message.dot & ORIGIN_MASK
            if origin >= known or message.dot >> ORIGIN_BITS > vector[origin]:
                yield message


def wide(clock: Sequence[int], size: int) -> tuple[int, ...]:
    """A clock of so many members."""
    return tuple(clock) + (0,) * (size - len(clock))


def put_past(past: Mapping[int, int]) -> bytes:
    out = bytearray()
    for origin, upto in past.items():
        put(out, origin)
        put(out, upto)
    return bytes(out)


def take_past(log: OpLog) -> dict[int, int]:
    note = log.notes.get(PAST, b"")
    reader, found = Reader(note, 0, len(note)), dict[int, int]()
    while reader.at < reader.end:
        origin = reader.take()
        found[origin] = reader.take()
    return found
