"""Where a program over a tree without tags has come to: one number, that it keeps with its own state.

The position of a message's record in the log, and in the low twelve bits, for an operation of a run, which of
them it is (from 1). Numbers that earlier versions gave out were positions of records alone: they are smaller
than any of these, unless the log had been opened four thousand times by then, and then a program gets more
than it asks for, not less.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from thence.core.dots import ORIGIN_BITS
from thence.core.errors import UsageError
from thence.core.runs import payload_run
from thence.oplog.log import OpLog
from thence.oplog.record import BOOT_BITS, Stored
from thence.replica.events import Delivered
from thence.replica.positions import PART_BITS, PART_MAX

if TYPE_CHECKING:
    from thence.core.message import Message
    from thence.replica.tree import TreeReplica

OLD: Final = 1 << BOOT_BITS + PART_BITS
"""Below are positions of records."""


def position_of(record: int, part: int = 0) -> int:
    """Of a whole message, or of a part of a run."""
    return record << PART_BITS | part


def told_apart(position: int) -> tuple[int, int]:
    """Record and part."""
    return (position, 0) if position < OLD else (position >> PART_BITS, position & PART_MAX)


def operations_of(message: "Message") -> list[bytes]:
    """Its payloads, the first of which has the counter after `before`."""
    return [message.payload] if message.span == 1 else payload_run(message.payload)


def positions_of(message: "Message", record: int) -> Iterator[tuple[int, int, bytes]]:
    """Of each operation: its counter, its position, its payload."""
    payloads, first = operations_of(message), (message.before >> ORIGIN_BITS) + 1
    if len(payloads) == 1:
        yield first, position_of(record), payloads[0]
        return
    for part, payload in enumerate(payloads):
        yield first + part, position_of(record, part + 1), payload


def repeated(
    replica: "TreeReplica", stored: Iterator[Stored], upto: int, after: int, own: bool
) -> Iterator[Delivered]:
    """What follows a position, up to a record."""
    for one in stored:
        if one.position > upto:
            return
        if own or not replica.is_own(one.dot, one.position):
            message = replica.understood(one)
            origin, tag = replica.place(one.dot)[0], replica.tag_of(message)
            for seq, position, payload in positions_of(message, one.position):
                if position > after:
                    yield Delivered(tag, payload, origin, seq, position)


def replay(replica: "TreeReplica", log: OpLog, after: int, now: int, own: bool) -> Iterator[Delivered]:
    """What a program that has come to this position gets again. `UsageError`: there is none like that."""
    record, part = told_apart(after)
    if record > log.tail:
        raise UsageError(f"position {after} is ahead of this log, which ends at {position_of(log.tail)}")
    upto = replica.taken
    while replica.inbox and replica.next_position <= record:
        replica.take(now, seen=True)  # and the process ended before that was written down
    if part:
        record, upto = record - 1, max(upto, record)  # the rest of a run is to come
    return repeated(replica, log.since(record), upto, after, own) if record < upto else iter(())
