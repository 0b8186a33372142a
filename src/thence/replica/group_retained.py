"""Operations that somebody who may come back, or whose side this member may have to join, could lack.

They are in the log, in the messages that they came in; only those that a state brought, and whose messages
everybody had by then, are kept by themselves (`members.operations`). The ledger's `floor` says from where on
they count: it follows what is stable for as long as nobody is missed, and stands still from then on.
"""

from collections.abc import Iterator, Sequence
from itertools import chain

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK
from thence.core.groups import CARRY, OPERATION, RUN, Place, plain
from thence.core.runs import payload_run
from thence.members.operations import Operation, Operations
from thence.replica.group_ledger import Ledger
from thence.replica.group_state import Read, payload_operations


def _came_in(ledger: Ledger, above: list[int]) -> Iterator[Operation]:
    """Operations that took effect here."""
    for dot, data in ledger.written(above):
        yield from operations_of(ledger, dot, data)


def operations_of(ledger: Ledger, dot: int, data: bytes) -> Sequence[Operation]:
    """What a message of the log brings to applications, each with its context."""
    message = ledger.read(dot, data)
    return operations_in(ledger.place(dot), message.payload, ledger.places(message.context))


def operations_in(place: Place, payload: bytes, context: tuple[Place, ...] = ()) -> Sequence[Operation]:
    """What a message brings to applications. `context`: of the message; within a run each operation directly
    follows from the one before it. One that was carried has its own."""
    payload = plain(payload)
    if payload[0] == OPERATION:
        return [Operation(*place, payload[1:], context)]
    if payload[0] == RUN:
        found, origin = [], place[0]
        for seq, operation in enumerate(run := payload_run(payload), place[1] - len(run) + 1):
            found.append(Operation(origin, seq, operation, context))
            context = ((origin, seq),)
        return found
    return payload_operations(payload) if payload[0] == CARRY else []


def all_operations(ledger: Ledger, operations: Operations, astray: bool = False) -> Iterator[Operation]:
    """Everything that a next incarnation may have to carry, causes first: an orphan may follow from what was
    applied here, but nothing that was applied here follows from an orphan; and nothing that everybody has
    follows from what one of them lacks. One that was carried may be there as itself, too. `astray`: those for
    whom it was stable here need not be all, so that everything counts that the log still holds. The member
    does nothing until all were read."""
    applied = _came_in(ledger, ledger.held() if astray else ledger.floor)
    return chain(operations.inherited, applied, operations.orphans)


def stable_operations(ledger: Ledger, operations: Operations) -> Iterator[Read[Operation]]:
    """What a joiner needs to be told besides the messages that are not stable. What is read later is what was
    there now."""
    stable = ledger.stables()
    written = ledger.written(ledger.floor) if ledger.floor != stable else iter(())
    return _each_once(ledger, operations.inherited, stable, written)


def _each_once(
    ledger: Ledger, inherited: list[Operation], stable: list[int], written: Iterator[tuple[int, bytes]]
) -> Iterator[Read[Operation]]:
    exactly, found = ledger.timelines.exactly, set[Place]()
    for operation in inherited:
        found.add(exactly((operation.origin, operation.seq)))
        yield operation, len(operation.payload)
    for dot, data in written:
        there: Sequence[Operation] = ()
        if dot >> ORIGIN_BITS <= stable[dot & ORIGIN_MASK]:
            there = operations_of(ledger, dot, data)
        for operation in there:
            place = exactly((operation.origin, operation.seq))
            new = place not in found
            found.add(place)
            yield operation if new else None, len(operation.payload)
        if not there:
            yield None, len(data)
