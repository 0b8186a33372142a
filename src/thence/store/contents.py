"""What a replica holds: the same at all that have applied the same operations.

Nothing of marks, of clocks or of an order of arrival is in it; keys whose deadline has passed are, until they
are reaped."""

from collections.abc import Iterator
from typing import Any

from thence.crdt.cells import CellMap
from thence.crdt.sets import AddWinsSet, RemoveWinsSet
from thence.store.slots import Assigned, Counted, Slot, State
from thence.store.state import StoreState

Holding = tuple[int, bytes, int, dict[str, Any]]
"""Database, key, deadline, and by kind all that has content."""


def contents(state: StoreState) -> Iterator[Holding]:
    for number, database in enumerate(state.space.databases):
        for key, found in sorted(database.keys.items()):
            if isinstance(found, Assigned | Counted):
                found = found.value
            kinds = found.kinds() if isinstance(found, Slot) else [("string", found)]
            if kinds:
                yield number, key, database.deadline(key), {kind: plain(one) for kind, one in kinds}


def plain(found: State) -> Any:
    if isinstance(found, CellMap):
        return dict(sorted(found.items()))
    if isinstance(found, AddWinsSet | RemoveWinsSet):
        return sorted(found.elements())
    return found
