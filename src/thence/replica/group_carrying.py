"""What a returner still has to carry, and what everybody concludes from it: rules 23 to 26 of
docs/protocols/membership.md."""

from collections.abc import Callable, Sequence

from thence.core.groups import (
    ALL,
    Place,
    Running,
    Span,
    incarnation,
    number_of,
    process_of,
    span_of,
    told_apart,
)
from thence.members.group import GroupView
from thence.members.operations import Operation, Operations
from thence.members.spans import Spans
from thence.replica.group_ledger import Ledger
from thence.replica.group_state import Carried, GroupState

PART_BYTES = 1 << 18
"""Of operations in one message, or a quarter of a frame: a long partition must not make one that fits
nowhere."""

PART_COUNT = 256
"""The same in operations, and of one step: to apply a message is one step of everybody that gets it."""

BESIDE_BYTES = 32
"""Of an operation, beside its payload and the name of its origin."""


class Carrying:
    __slots__ = (
        "_ledger",
        "_left",
        "_operations",
        "_part_bytes",
        "_view",
        "disowns",
        "ended",
        "owes",
        "since",
        "strangers",
        "unfinished",
        "vague",
    )

    def __init__(
        self,
        ledger: Ledger,
        view: GroupView,
        operations: Operations,
        state: GroupState,
        frame_bytes: int,
    ) -> None:
        self._left = PART_COUNT
        """Orphans that this step may still carry."""
        self.unfinished = False
        """It would have carried more."""
        self._part_bytes = min(PART_BYTES, frame_bytes // 4)
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
        self.ended = state.ended
        """Who was past to the former incarnation, and is not to this one."""
        self.disowns: Callable[[Place], bool] = lambda place: False  # noqa: ARG005
        """Does the origin of an operation run, and not have it?"""

    @property
    def _former(self) -> Span:
        """The incarnations of which this one has, or had, everything that is left."""
        me = self._ledger.me
        return process_of(me), self.since, number_of(me) - 1

    @property
    def busy(self) -> bool:
        """There is something that it has and has not brought yet, or has not said that this was all."""
        told = self.vague and self._view.spent.covers(*self._former)
        return bool(self._operations.orphans) or (self.owes and not told)

    @property
    def waits_for(self) -> tuple[str, ...]:
        """On whose last messages there must be agreement before the next orphan can be carried."""
        first = next(iter(self._operations.orphans), None)
        if first is None or self._may_go(first):
            return ()
        origin, _ = first.dot
        return tuple(sorted({origin} if self._view.knows(origin) else self._view.open))

    def due(self) -> list[Carried]:
        """What can be carried now, as far as it is certain that it would never come otherwise: a message
        each."""
        ledger = self._ledger
        before = len(self._operations.orphans)
        ready = self._operations.ready(self._may_go, ledger.count, self._left)
        self._left -= before - len(self._operations.orphans)
        self.unfinished = not self._left and bool(self._operations.orphans)
        found = [Carried(part) for part in _parts(ready, self._part_bytes)]
        if not self.owes or self._operations.orphans:
            return found
        former = self._former
        others = tuple(sorted([name for name in self.strangers if process_of(name) != former[0]]))
        last: Sequence[Operation] = found.pop().operations if found else ()
        if sum(map(_size, last)) > self._part_bytes:  # one that is large travels alone
            found.append(Carried(last))
            last = ()
        spent = self._view.spent  # also on the side that was given up, of which everything was carried
        if not self.vague:
            found.append(Carried(last, (former,), others, spent.all))
        elif not spent.covers(*former):
            # Others may have what it has forgotten: whoever is unknown is to be looked for.
            found.append(Carried(last, (), others, (*spent.all, former)))
        elif last:
            found.append(Carried(last))
        return found

    def step_over(self) -> None:
        self._left = PART_COUNT

    def came(self, place: Place, carried: Carried) -> None:
        """A CARRY was delivered, and its operations have taken effect."""
        self._view.strange(carried.strangers)
        for span in carried.spent:
            self._view.spent.add(*span)
        if carried.closed:
            self._view.closing[place] = carried.closed
        if Spans(carried.closed).covers(*self._former) and (self.vague or place[0] == self._ledger.me):
            self.owes = False

    def closable(self) -> list[Span]:
        """Incarnations of processes that have forgotten something, if nobody can have it any more. What
        members have of them is known once there is agreement on their last messages. Others must have come
        back and have brought everything, or everything that they remember."""
        view = self._view
        if not len(view.spent) or view.open or self.busy:
            return []
        closing = self._closing()
        missed = [name for name in view.suspects | view.strangers if name not in view.spent]
        found = []
        for span in view.spent:
            process, _, high = span
            others = [name for name in missed if process_of(name) != process or number_of(name) > high]
            if not others and not closing.covers(*span):
                found.append(span)
        return found

    def settled(self, running: Running) -> Carried:
        """What there is to say of those who are not members: attempts of this process to return that others
        have let in came to nothing; who was past to the former incarnation is closed once everything was
        carried, or spent if that had forgotten something. Who is a member here, and was taken for lost there,
        may be well."""
        view, mine, closing = self._view, number_of(self._ledger.me), self._closing()
        own = [name for name in view.suspects | view.strangers if process_of(name) == running.process]
        in_vain = [name for name in own if number_of(name) > mine and name != running.attempt]
        found = [span_of(name) for name in sorted(in_vain)]
        self.ended = tuple([span for span in self.ended if not view.closed.covers(*span)])
        members = view.view | view.departing.keys()
        ended = [span for span in self.ended if incarnation(*span[:2]) not in members and not self.busy]
        spent = [span for span in ended if self.vague and not view.spent.covers(*span)]
        found += [] if self.vague else ended
        closed = [span for span in found if not (closing.covers(*span) or view.closed.covers(*span))]
        return Carried([], tuple(closed), (), tuple(spent))

    def _closing(self) -> Spans:
        return Spans([span for spans in self._view.closing.values() for span in spans])

    def _may_go(self, operation: Operation) -> bool:
        """Is it certain that this operation will not come by itself?"""
        view, ledger = self._view, self._ledger
        origin, start = told_apart(operation.origin)
        if start and operation.seq <= ledger.count(origin) < ALL:
            return True  # the group has another message under this dot: a number or a counter was used twice
        if self.disowns((operation.origin, operation.seq)):
            return True
        known = view.knows(origin) or view.open
        return origin in view.gone or origin in view.past or not known


def _parts(operations: list[Operation], part_bytes: int) -> list[list[Operation]]:
    parts: list[list[Operation]] = []
    size = part_bytes
    for operation in operations:
        size += _size(operation)
        if size > part_bytes or len(parts[-1]) >= PART_COUNT:
            parts.append([])
            size = _size(operation)
        parts[-1].append(operation)
    return parts


def _size(operation: Operation) -> int:
    named = sum([len(name) + BESIDE_BYTES for name, _ in operation.context])
    return len(operation.payload) + len(operation.origin) + BESIDE_BYTES + named
