"""What an open log knows and what can be read from it: the half that changes nothing."""

from collections.abc import Iterator, Mapping

from thence.core.errors import StorageError
from thence.core.storage import Files
from thence.oplog.reading import (
    OutOfReachError,
    Stretch,
    Vector,
    messages_after,
    messages_missing,
    records_after,
    stretches_after,
    stretches_missing,
)
from thence.oplog.record import Record, Stored
from thence.oplog.segment import Segment
from thence.oplog.state import covers
from thence.oplog.writer import Writer


class CommittedView:
    """Records that were gathered and not committed are not seen here, in no way."""

    __slots__ = ("_segments", "_writer", "files")

    def __init__(self, files: Files, segments: list[Segment], writer: Writer) -> None:
        self.files = files
        self._segments = segments
        self._writer = writer

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._writer.state.names)

    @property
    def vector(self) -> tuple[int, ...]:
        """Per member, the newest message in the log or in a state that was installed."""
        return tuple(self._writer.state.vector)

    @property
    def stable(self) -> tuple[int, ...]:
        return tuple(self._writer.state.stable)

    @property
    def taken(self) -> int:
        return self._writer.state.taken

    @property
    def incarnation(self) -> int:
        return self._writer.state.incarnation

    @property
    def machine(self) -> bytes:
        return self._writer.state.machine

    @property
    def notes(self) -> Mapping[int, bytes]:
        return dict(self._writer.state.notes)

    @property
    def tail(self) -> int:
        """Position of the last record."""
        return self._segments[-1].last

    @property
    def durable(self) -> int:
        """Everything up to this position survives whatever happens to the machine."""
        return self._writer.durable

    @property
    def broken(self) -> StorageError | None:
        """Why nothing is written any more until the log is opened again."""
        return self._writer.broken

    @property
    def head(self) -> int:
        """Every message after this position is here."""
        return self._segments[0].before

    @property
    def start(self) -> tuple[int, ...]:
        """Per member, the newest message at or before the head."""
        return tuple(self._segments[0].start)

    @property
    def base(self) -> tuple[int, ...]:
        """Per member, up to where messages are not here: collected, or a state stands in for them."""
        floor = self._floor()
        return tuple([max(seq, floor.get(at, 0)) for at, seq in enumerate(self._padded(self.start))])

    def _padded(self, start: tuple[int, ...]) -> tuple[int, ...]:
        return start + (0,) * (len(self._writer.state.names) - len(start))

    @property
    def active(self) -> int:
        """Position before the first record of the segment that is being written."""
        return self._segments[-1].first - 1

    @property
    def segments(self) -> int:
        return len(self._segments)

    @property
    def appended_bytes(self) -> int:
        """Written since the log was opened."""
        return self._writer.written_bytes

    @property
    def writes(self) -> int:
        """Since then: commits that had something to write."""
        return self._writer.writes

    @property
    def size_bytes(self) -> int:
        return sum([segment.size for segment in self._segments])

    def reaches(self, vector: Vector) -> bool:
        """Does the log hold everything that a peer with this delivered vector lacks?"""
        if not covers(vector, self._segments[0].start):
            return False
        known = len(vector)
        return all(seq <= (vector[o] if o < known else 0) for o, seq in self._floor().items())

    def _floor(self) -> dict[int, int]:
        floor: dict[int, int] = {}
        for segment in self._segments:
            for origin, seq in segment.index.jumps.items():
                floor[origin] = max(seq, floor.get(origin, 0))
        return floor

    def missing(self, vector: Vector) -> Iterator[Stored]:
        """The messages that a peer with this delivered vector lacks, causes before effects."""
        if not self.reaches(vector):
            raise OutOfReachError("the log does not reach back to what this peer lacks")
        return messages_missing(
            self.files, stretches_missing(self._segments, vector, self.vector), tuple(vector)
        )

    def near(self, origin: int, after: int) -> Iterator[Stored]:
        """Messages from about the first one of a member above a counter on, others' too: so that a reader
        can tell what it has cost so far, and go on later."""
        had = list(self.vector)
        had[origin] = after
        if not self.reaches(had):
            raise OutOfReachError("the log does not reach back to what this peer lacks")
        return messages_after(self.files, stretches_missing(self._segments, had, self.vector), 0)

    def since(self, position: int) -> Iterator[Stored]:
        """The messages after a position."""
        return messages_after(self.files, self._after(position), position)

    def records(self, after: int) -> Iterator[tuple[int, Record]]:
        """All records after a position, marks included."""
        return records_after(self.files, self._after(after), after)

    def _after(self, position: int) -> list[Stretch]:
        if position < self.head:
            raise OutOfReachError(f"the log begins after position {self.head}")
        return stretches_after(self._segments, position)
