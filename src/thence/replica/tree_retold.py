"""What a log tells of an incarnation once more: its messages as they were sent and taken.

Under clocks a message may have been taken before its causes, so that no frontier says what is held. There
what a former incarnation sent or took is told as well, as taken by this one.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK
from thence.core.message import Message
from thence.oplog.log import OpLog
from thence.oplog.record import SnapshotRef, Stored, Taken
from thence.oplog.state import covers
from thence.replica.tree_order import TreeOrder


class Sending(NamedTuple):
    message: Message


class Taking(NamedTuple):
    message: Message
    doubts: Sequence[Message]


class InstalledClock(NamedTuple):
    clock: Sequence[int]


def retold(
    log: OpLog,
    order: TreeOrder,
    me: int,
    held: list[int],
    born: int,
    is_own: Callable[[int, int], bool],
    understood: Callable[[Stored], Message],
    seen: Sequence[int],
    lately: Sequence[Message],
) -> Iterator[Sending | Taking | InstalledClock]:
    """`order`: of the same kind, new. `held`: counters of what came before the log's oldest record. `born`:
    where this incarnation begins. `is_own`: did this process send this dot, at this position? `seen`:
    counters of what was sent and taken. `lately`: what the step under way has brought."""
    order.resume(me, held, held, ())
    since = 0 if order.entries else born
    untaken: deque[Stored] = deque()
    for position, record in log.records(log.head):
        if isinstance(record, SnapshotRef):
            if position > since and not covers(held, record.clock):
                yield InstalledClock(record.clock)
        elif isinstance(record, Taken):
            while untaken and untaken[0].position <= record.upto:
                taken = _taking(order, understood(untaken.popleft()))
                if position > since:
                    yield taken
        elif isinstance(record, Stored):
            held[record.dot & ORIGIN_MASK] = record.dot >> ORIGIN_BITS
            if record.dot & ORIGIN_MASK == me:
                message = understood(record)
                yield Sending(message)
                order.recall(message)
            elif not is_own(record.dot, position):
                untaken.append(record)
            elif order.entries:
                yield _taking(order, understood(record))
    if order.entries:  # of the step under way
        for record in untaken:
            if _is_seen(record.dot, seen):
                yield _taking(order, understood(record))
        yield from (_taking(order, message) for message in lately if _is_seen(message.dot, seen))


def _taking(order: TreeOrder, message: Message) -> Taking:
    return Taking(message, order.took(message))


def _is_seen(dot: int, seen: Sequence[int]) -> bool:
    return dot >> ORIGIN_BITS <= seen[dot & ORIGIN_MASK]
