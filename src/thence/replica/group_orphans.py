"""Operations that the group never had, and whether they are sent again: rule 23 of
docs/protocols/membership.md.

They are, unless the application declines one. Then whatever follows from it is not sent again either: nobody
sees an effect without its cause. Others may have what was declined, and bring it; until nobody can any more
the former incarnation is not closed (`vague`), as if it had forgotten it.
"""

from collections.abc import Generator, Sequence

from thence.core.dots import pack
from thence.core.groups import Place
from thence.core.tag import Tag
from thence.members.operations import Operation
from thence.replica.group_ledger import Ledger
from thence.replica.group_member import Member
from thence.replica.group_parts import Application, Orphan
from thence.replica.group_retained import operations_in
from thence.replica.group_state import GroupState


def decided(state: GroupState, old: Member, application: Application) -> Generator[int, None, list[Orphan]]:
    """All orphans of `old`, and whether they are sent again; `state` keeps those that are. Yields what each
    has cost, in bytes; `old` does nothing meanwhile."""
    orphans, declined = [], set()
    for operation in state.orphans:
        orphan = Orphan(operation, _tag(old.ledger, operation), old.me)
        orphans.append(orphan)
        if not application.sends_again(orphan):
            declined.add(_place(operation))
        yield len(operation.payload)
    if declined:
        declined = yield from _with_followers(old, declined)
        state.orphans = [operation for operation in state.orphans if _place(operation) not in declined]
        state.vague = True
        orphans = [orphan._replace(again=_place(orphan.operation) not in declined) for orphan in orphans]
    return orphans


def _place(operation: Operation) -> Place:
    return operation.origin, operation.seq


def _tag(ledger: Ledger, operation: Operation) -> Tag | None:
    if not ledger.knows(operation.origin):
        return None
    return ledger.window.tag_of(pack(ledger.number(operation.origin), operation.seq))


def _with_followers(old: Member, declined: set[Place]) -> Generator[int, None, set[Place]]:
    """Causes first: what a state had brought, then messages, then what was still to be carried. What is in no
    message of this log follows from everything before it, for all that is known."""
    found, operations, ledger = set(declined), old.operations, old.ledger
    _decline_after(operations.inherited, found)
    everything = any(_place(operation) in found for operation in operations.inherited)
    touched: set[int] = set()
    for dot, data in ledger.written(ledger.floor):
        message = ledger.read(dot, data)
        inside = operations_in(ledger.place(dot), message.payload)
        follows = everything or not touched.isdisjoint(message.context)
        if follows:
            found.update(map(_place, inside))
        else:
            _decline_after(inside, found)
        if follows or any(_place(operation) in found for operation in inside):
            touched.add(dot)
        yield len(data)
    if touched or everything:
        found.update(map(_place, operations.orphans))
    _decline_after(list(operations.orphans), found)
    return found


def _decline_after(operations: Sequence[Operation], found: set[Place]) -> None:
    """Of those that come together, all from the first that was declined."""
    at = next((at for at, operation in enumerate(operations) if _place(operation) in found), len(operations))
    found.update(map(_place, operations[at:]))
