"""Reading: what a peer lacks, and what comes after a position.

What a peer lacks is almost always near the end, so the search starts there (ECO SYNC Tree, §4.2.1): back
from the last segment to the first whose start the peer already has, then to the index of that segment,
then forward in log order. Log order is the order of delivery here and so respects causality.

A reader sees what was committed when it was asked for. It may be left standing while the log goes on; if
the segment that it stands before is collected meanwhile, it says so.
"""

from collections.abc import Iterator

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK
from thence.core.errors import UsageError
from thence.core.storage import Files
from thence.oplog.index import Place
from thence.oplog.record import DOT_BYTES, MESSAGE, WORD, Record, Stored
from thence.oplog.segment import Segment, scan, understand
from thence.oplog.state import covers

Vector = tuple[int, ...] | list[int]


class OutOfReachError(UsageError):
    """The log no longer (or never did) hold what was asked for; a state must be transferred instead."""


Stretch = tuple[Segment, Place, int]
"""A part of a segment: from a place to an offset."""


def stretches_missing(segments: list[Segment], vector: Vector, end: tuple[int, ...]) -> list[Stretch]:
    """What must be read to find every message that is not in `vector`."""
    found: list[Stretch] = []
    for segment in reversed(segments):
        place = segment.index.first_missing(vector, end)
        if place is not None:
            found.append((segment, place, segment.size))
        if covers(vector, segment.start):
            break
        end = segment.start
    found.reverse()
    return found


def stretches_after(segments: list[Segment], position: int) -> list[Stretch]:
    found: list[Stretch] = []
    for segment in reversed(segments):
        if segment.last <= position:
            break
        place = segment.index.resume(position) or (segment.body_at, segment.first - 1)
        found.append((segment, place, segment.size))
    found.reverse()
    return found


def messages_missing(files: Files, stretches: list[Stretch], vector: Vector) -> Iterator[Stored]:
    known = len(vector)
    for position, body in _message_bodies(files, stretches):
        dot = WORD.unpack_from(body)[0]
        origin = dot & ORIGIN_MASK
        if origin >= known or dot >> ORIGIN_BITS > vector[origin]:
            yield Stored(position, dot, body[DOT_BYTES:])


def messages_after(files: Files, stretches: list[Stretch], after: int) -> Iterator[Stored]:
    for position, body in _message_bodies(files, stretches):
        if position > after:
            yield Stored(position, WORD.unpack_from(body)[0], body[DOT_BYTES:])


def records_after(files: Files, stretches: list[Stretch], after: int) -> Iterator[tuple[int, Record]]:
    for segment, (offset, before), end in stretches:
        for position, at, kind, body in scan(files, _still(segment), offset, end, before):
            if position > after:
                yield position, understand(segment, position, at, kind, body)


def _message_bodies(files: Files, stretches: list[Stretch]) -> Iterator[tuple[int, bytes]]:
    for segment, (offset, before), end in stretches:
        for position, at, kind, body in scan(files, _still(segment), offset, end, before):
            if kind == MESSAGE:
                if len(body) < DOT_BYTES:
                    understand(segment, position, at, kind, body)
                yield position, body


def _still(segment: Segment) -> Segment:
    if segment.gone:
        raise OutOfReachError(f"{segment.name} was collected before it was read")
    return segment
