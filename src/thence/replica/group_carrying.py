"""What a returner still has to carry, and what everybody concludes from it: rules 23 to 26 of
docs/protocols/membership.md."""

from thence.core.groups import Place, Span, number_of, process_of
from thence.members.group import GroupView
from thence.members.operations import Operation, Operations
from thence.replica.group_ledger import Ledger
from thence.replica.group_state import Carried, GroupState

PART_BYTES = 1 << 18
"""Of operations in one message: no more than what others send, or a long partition makes one that fits
nowhere."""


class Carrying:
    __slots__ = ("_ledger", "_operations", "_view", "owes", "since", "strangers", "vague")

    def __init__(self, ledger: Ledger, view: GroupView, operations: Operations, state: GroupState) -> None:
        self._ledger = ledger
        self._view = view
        self._operations = operations
        self.since = state.since or number_of(ledger.me)
        """The first of the process's incarnations whose operations this one has, or has carried."""
        self.owes = state.owes
        """It has not said yet that it has carried everything."""
        self.vague = state.vague
        """The former incarnation may have sent more than it remembered."""
        self.strangers = set(state.strangers)
        """Who was with the former incarnation, and is not known to this one."""

    def due(self) -> list[Carried]:
        """What can be carried now, as far as it is certain that it would never come otherwise: a message
        each."""
        found = [Carried(part) for part in _parts(self._operations.ready(self._may_go, self._ledger.count))]
        if not self.owes or self._operations.orphans:
            return found
        me = self._ledger.me
        former = (process_of(me), self.since, number_of(me) - 1)
        others = tuple(sorted([name for name in self.strangers if process_of(name) != former[0]]))
        last = found[-1].operations if found else []
        if self.vague and not self._view.spent.covers(*former):
            # Others may have what it has forgotten: whoever is unknown is to be looked for.
            found[-1:] = [Carried(last, (), others, (former,))]
        elif not self.vague:
            found[-1:] = [Carried(last, (former,), others)]
        elif self._is_certain:
            found.append(Carried([], (former, *self._spent()), others))
        return found

    def came(self, place: Place, carried: Carried) -> None:
        """A CARRY was delivered, and its operations have taken effect."""
        self._view.strange(carried.strangers)
        own, process = place[0] == self._ledger.me, process_of(self._ledger.me)
        for span in carried.spent:
            self._view.spent.add(*span)
        if carried.closed:
            self._view.closing[place] = carried.closed
        if own and process in [span[0] for span in carried.closed]:
            self.owes = False

    @property
    def _is_certain(self) -> bool:
        """Can nobody have operations of the former incarnation that it has forgotten itself? What members
        have of it is known once there is agreement on its last message. Others must have come back and have
        brought everything, or everything that they remember."""
        view, process = self._view, process_of(self._ledger.me)
        missed = [name for name in view.suspects | view.strangers if process_of(name) != process]
        return not view.open and all(name in view.spent for name in missed)

    def _spent(self) -> list[Span]:
        """Of all others who have forgotten something the same can be said, and some of them may have left."""
        view = self._view
        found = sorted(name for name in view.suspects | view.strangers if name in view.spent)
        return [(process_of(name), number_of(name), number_of(name)) for name in found]

    def _may_go(self, origin: str) -> bool:
        view = self._view
        known = view.knows(origin) or view.open
        return origin in view.gone or origin in view.past or not known


def _parts(operations: list[Operation]) -> list[list[Operation]]:
    parts: list[list[Operation]] = []
    size = PART_BYTES
    for operation in operations:
        size += len(operation.payload) + 32
        if size > PART_BYTES:
            parts.append([])
            size = len(operation.payload) + 32
        parts[-1].append(operation)
    return parts
