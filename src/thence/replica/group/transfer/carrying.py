"""What a returner still has to carry, and what all members conclude from it: rules 23 to 26 of
docs/protocols/membership.md.

What may have to be carried one day is what a missed member, or a side that this member may have to join,
could lack. Such operations are in the log, in the messages that they came in; only those that a state
brought, and whose messages all members had by then, are kept by themselves (`members.operations`). The
ledger's `floor` says from where on they count: it follows what is stable for as long as no member is missed,
and stands still from then on.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK
from thence.core.groups import (
    ALL,
    CARRY,
    OPERATION,
    RUN,
    Place,
    Running,
    Span,
    incarnation,
    number_of,
    plain,
    process_of,
    span_of,
    told_apart,
)
from thence.core.runs import payload_run
from thence.members.group import GroupView
from thence.members.operations import Operation, Operations
from thence.members.spans import Spans
from thence.replica.group.ledger.ledger import Ledger
from thence.replica.group.ledger.payloads import Carried, payload_operations
from thence.replica.group.ledger.state import MemberState, Read

PART_BYTES = 1 << 18
"""Of operations in one message, or a quarter of a frame: a long partition must not make one that fits
nowhere."""

PART_COUNT = 256
"""The same in operations, and of one step: each member applies a message in one step."""

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
        "must_announce",
        "settled_before",
        "since",
        "spent",
        "strangers",
        "tail_lost",
        "unfinished",
    )

    def __init__(
        self,
        ledger: Ledger,
        view: GroupView,
        operations: Operations,
        state: MemberState,
        frame_bytes: int,
    ) -> None:
        self._left = PART_COUNT
        """Orphans that this step may still carry."""
        self.spent = False
        """Something was looked for in this step."""
        self.unfinished = False
        """It would have carried more."""
        self._part_bytes = min(PART_BYTES, frame_bytes // 4)
        self._ledger = ledger
        self._view = view
        self._operations = operations
        self.since = state.since or number_of(ledger.me)
        """The first of the process's incarnations whose operations this one has, or has carried."""
        self.must_announce = state.must_announce
        """It has not said yet that it has carried everything."""
        self.tail_lost = state.tail_lost
        """The former incarnation may have sent more than it remembered."""
        self.strangers = set(state.strangers)
        """Companions of the former incarnation that are not known to this one."""
        self.settled_before = state.settled_before
        """Incarnations that were past to the former one, and are not to this one."""
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
        told = self.tail_lost and self._view.spent.covers(*self._former)
        return bool(self._operations.orphans) or (self.must_announce and not told)

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
        self.spent = True
        before = len(self._operations.orphans)
        ready = self._operations.ready(self._may_go, ledger.count, self._left)
        self._left -= before - len(self._operations.orphans)
        self.unfinished = not self._left and bool(self._operations.orphans)
        found = [Carried(part) for part in _parts(ready, self._part_bytes)]
        if not self.must_announce or self._operations.orphans:
            return found
        former = self._former
        others = tuple(sorted([name for name in self.strangers if process_of(name) != former[0]]))
        last: Sequence[Operation] = found.pop().operations if found else ()
        if sum(map(_size, last)) > self._part_bytes:  # one that is large travels alone
            found.append(Carried(last))
            last = ()
        spent = self._view.spent  # also on the side that was given up, of which everything was carried
        if not self.tail_lost:
            found.append(Carried(last, (former,), others, spent.all))
        elif not spent.covers(*former):
            # Others may have what it has forgotten: unknown incarnations are to be looked for.
            found.append(Carried(last, (), others, (*spent.all, former)))
        elif last:
            found.append(Carried(last))
        return found

    def step_over(self) -> None:
        self._left, self.spent = PART_COUNT, False

    def came(self, place: Place, carried: Carried) -> None:
        """A CARRY was delivered, and its operations have taken effect."""
        self._view.add_strangers(carried.strangers)
        for span in carried.spent:
            self._view.spent.add(*span)
        if carried.closed:
            self._view.closing[place] = carried.closed
        if Spans(carried.closed).covers(*self._former) and (self.tail_lost or place[0] == self._ledger.me):
            self.must_announce = False

    def closable(self) -> list[Span]:
        """Spent incarnations that can be closed, since no process can have more of them. The members agree on
        the last message of every suspect; each incarnation that is missed has come back and has brought
        everything, or everything that it remembers."""
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
        """Incarnations that this process can close for all. (1) Its own attempts to return that came to
        nothing after a contact had let them in. (2) Those that were past to its former incarnation: closed
        once all orphans were carried, or only spent if the former one had forgotten something. Members are
        left out: the other side may have given them up wrongly."""
        view, mine, closing = self._view, number_of(self._ledger.me), self._closing()
        own = [name for name in view.suspects | view.strangers if process_of(name) == running.process]
        in_vain = [name for name in own if number_of(name) > mine and name != running.attempt]
        found = [span_of(name) for name in sorted(in_vain)]
        self.settled_before = tuple([span for span in self.settled_before if not view.closed.covers(*span)])
        members = view.view | view.departing.keys()
        ended = [span for span in self.settled_before if incarnation(*span[:2]) not in members]
        ended = [] if self.busy else ended
        spent = [span for span in ended if self.tail_lost and not view.spent.covers(*span)]
        found += [] if self.tail_lost else ended
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
    applied here, but nothing that was applied here follows from an orphan; and nothing that all members have
    follows from what one of them lacks. One that was carried may be there as itself, too. `astray`: members
    may lack what was stable here, so that everything counts that the log still holds. The member
    does nothing until all were read."""
    applied = _came_in(ledger, ledger.held() if astray else ledger.retain_from)
    return chain(operations.inherited, applied, operations.orphans)


def stable_operations(ledger: Ledger, operations: Operations) -> Iterator[Read[Operation]]:
    """What a joiner needs to be told besides the messages that are not stable. What is read later is what was
    there now."""
    stable = ledger.stables()
    written = ledger.written(ledger.retain_from) if ledger.retain_from != stable else iter(())
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
