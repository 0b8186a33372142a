"""The bodies of messages about the group (JOIN, FLUSH, CARRY), and the notes that a log keeps of joiners.

The first byte of a message is its kind (`core.groups`). What no member could read when its turn comes is
refused when it comes (`check_payload`).
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from msgspec.structs import replace

from thence.core.errors import PeerError
from thence.core.group_words import Parser, WordWriter
from thence.core.groups import (
    CARRY,
    FLUSH,
    JOIN,
    LEAVE,
    OPERATION,
    RUN,
    STARTED,
    Place,
    Span,
    plain,
)
from thence.core.runs import payload_run
from thence.members.operations import Operation
from thence.trace.schema import NO_OPERATION

CARRIES = 16
"""That were read lately: as many as come at once."""


def put_bare(writer: WordWriter, operation: Operation) -> None:
    writer.name(operation.origin)
    writer.number(operation.seq)
    writer.data(operation.payload)


def take_bare(parser: Parser) -> Operation:
    return Operation(parser.name(), parser.seq(), parser.data())


def flush_payload(names: list[str], past: Iterable[Span]) -> bytes:
    """The body of a FLUSH: suspects, and incarnations that need not be named, since they are past."""
    writer = WordWriter()
    writer.names(names)
    writer.spans(past)
    return writer.bytes()


def payload_flush(data: bytes) -> tuple[tuple[str, ...], tuple[Span, ...]]:
    parser = Parser(data, 1, len(data))
    names, past = parser.names(), parser.spans()
    parser.end()
    return names, past


def join_payload(joiner: str, address: str, since: int) -> bytes:
    """The body of a JOIN."""
    writer = WordWriter()
    writer.name(joiner)
    writer.text(address)
    writer.number(since)
    return writer.bytes()


def payload_join(data: bytes) -> tuple[str, str, int]:
    """The joiner, where it is reached, and since which number it has tried."""
    parser = Parser(data, 1, len(data))
    joiner, address, since = parser.name(), parser.text(), parser.number()
    parser.end()
    return joiner, address, since


OPERATIONS = (OPERATION, RUN)
"""Messages that bring operations of their own names."""


class Carried(NamedTuple):
    """Operations; incarnations of which these were the last; others that may still be somewhere; and
    incarnations of which these were the last that their process remembers."""

    operations: Sequence[Operation]
    closed: tuple[Span, ...] = ()
    strangers: tuple[str, ...] = ()
    spent: tuple[Span, ...] = ()


def carry_payload(carried: Carried) -> bytes:
    """Contexts stand at the end: those that were carried before there were any have none."""
    writer = WordWriter()
    writer.number(len(carried.operations))
    for operation in carried.operations:
        put_bare(writer, operation)
    writer.spans(carried.closed)
    writer.names(carried.strangers)
    told = any(operation.context for operation in carried.operations)
    if carried.spent or told:
        writer.spans(carried.spent)
    for operation in carried.operations if told else ():
        writer.places(operation.context)
    return writer.bytes()


@lru_cache(CARRIES)
def payload_carry(data: bytes) -> Carried:
    """Checked when it comes, and asked for once more when it is delivered."""
    parser = Parser(data, 1, len(data))
    operations = tuple([take_bare(parser) for _ in range(parser.count())])
    carried = Carried(operations, parser.spans(), parser.names())
    if not parser.done:
        carried = carried._replace(spent=parser.spans())
    if not parser.done:
        told = [replace(operation, context=parser.places()) for operation in operations]
        carried = carried._replace(operations=tuple(told))
    parser.end()
    return carried


def check_payload(data: bytes) -> list[bytes] | None:
    """`PeerError` if no member could read it when its turn comes. Of a run its operations."""
    kind = data[0] if data else None
    if kind == STARTED:
        data = plain(data)
        kind = data[0] if data else None
    if kind == JOIN:
        payload_join(data)
    elif kind == FLUSH:
        payload_flush(data)
    elif kind == CARRY:
        payload_carry(data)
    elif kind == RUN:
        return payload_run(data)
    elif kind not in (OPERATION, LEAVE):
        raise PeerError(f"a message of kind {kind}")
    return None


def watched_note(upto: int, names: list[str]) -> bytes:
    """Of the joiners that this member let in up to its message `upto`, those that were not heard of."""
    writer = WordWriter()
    writer.number(upto)
    writer.names(names)
    return writer.bytes()


def read_watched(data: bytes) -> tuple[int, tuple[str, ...]]:
    parser = Parser(data, 0, len(data))
    return parser.number(), parser.names()


def payload_operations(data: bytes) -> Sequence[Operation]:
    """What a CARRY brings."""
    return payload_carry(data)[0]


def concerns_programs(payload: bytes) -> bool:
    """Is there an operation in a message?"""
    if payload[0] in OPERATIONS:
        return True
    payload = plain(payload)
    return payload[0] in OPERATIONS or (payload[0] == CARRY and bool(payload_operations(payload)))


def carries(data: bytes) -> tuple[Place, ...]:
    """What a trace says that a message brings: nothing in particular of an operation, which brings itself."""
    data = plain(data)
    if data[0] in OPERATIONS:
        return ()
    operations = payload_operations(data) if data[0] == CARRY else []
    return tuple([(operation.origin, operation.seq) for operation in operations]) or (NO_OPERATION,)
