"""What a delivery does: of an own or another's message, for the first time or from the log.

The program gets operations, each once, with a tag and a position; those that it had missed come first (33).
Messages about the group change the view (`membership`).
"""

from typing import Final

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK
from thence.core.groups import CARRY, OPERATION, RUN, STARTED, number_of, plain, starts_named
from thence.core.message import Message
from thence.core.runs import payload_run
from thence.core.tag import Tag
from thence.members.operations import Operation, Operations
from thence.replica.events import Delivered
from thence.replica.group.ledger.ledger import Ledger
from thence.replica.group.ledger.payloads import payload_carry
from thence.replica.group.member.membership import Membership
from thence.replica.group.member.receiving import Receiving
from thence.replica.group.member.tag_book import TagBook
from thence.replica.group.surroundings import Application, Applied, OperationRun, TakesEvents, TakesRuns
from thence.replica.group.transfer.carrying import Carrying, operations_in
from thence.replica.group.transfer.reading import Reading
from thence.replica.life_tag import LifeTag
from thence.replica.positions import PART_BITS, place_of


class Delivery:
    __slots__ = (
        "_application", "_begins", "_book", "_carrying", "_events", "_last_part", "_ledger",
        "_lineages", "_me", "_membership", "_operations", "_reading", "_receiving", "_runs",
    )  # fmt: skip

    def __init__(
        self,
        me: str,
        ledger: Ledger,
        operations: Operations,
        book: TagBook,
        carrying: Carrying,
        reading: Reading,
        application: Application,
        receiving: Receiving,
        membership: Membership,
    ) -> None:
        self._me = me
        self._begins: Final = place_of(number_of(me), 0)
        """The position before the first of this incarnation."""
        self._ledger = ledger
        self._operations = operations
        self._book = book
        self._carrying = carrying
        self._reading = reading
        self._application = application
        self._runs = application.apply_run if isinstance(application, TakesRuns) else None
        self._events = application.deliver if isinstance(application, TakesEvents) else None
        self._receiving = receiving
        self._lineages = receiving.lineages
        self._membership = membership
        self._last_part = 0
        """Of the last message: how many operations it brought, if that is not one of its own name."""

    def deliver(self, message: Message, now: int) -> Tag:
        """What a delivery does: of an own or another's message, for the first time or from the log."""
        ledger, payload = self._ledger, message.payload
        dot, kind = message.dot, payload[0]
        at, seq = dot & ORIGIN_MASK, dot >> ORIGIN_BITS
        ledger.counts[at] = seq
        ledger.delivered += 1
        tag = ledger.window.see(message)
        ledger.unswept += 1
        if kind == STARTED:
            name, before = ledger.place(message.dot)[0], message.before >> ORIGIN_BITS
            for start in starts_named(payload):
                ledger.timelines.began(name, before, start)
            payload = plain(payload)
            kind = payload[0]
            self._lineages.judge()
            if name != self._me:
                # What waits, or is under way, may follow from what was sent under another start. Its sender
                # hears of this start before it is asked for more.
                self._receiving.drop_pending()
        elif self._lineages.odd:
            self._lineages.judge()
        if kind == OPERATION:
            origin = ledger.names[at]
            self._last_part = 0
            if self._events is not None and self._reading.before is None and not self._operations.carried:
                position = self._begins + (ledger.delivered << PART_BITS)  # none came before
                known = LifeTag(tag, self._me, (origin, seq), self._book)
                self._events(Delivered(known, payload[1:], origin, seq, position), at == ledger.own_index)
                return tag
            operation = Operation(origin, seq, payload[1:])
            if self._operations.came(operation, ledger.timelines.exactly):
                self._apply(operation, at == ledger.own_index, tag, 0)
        elif kind == RUN:
            self._apply_run(message, payload, tag)
        elif kind == CARRY:
            carried = payload_carry(payload)
            self._book.came(message)
            for part, named in enumerate(carried.operations, 1):
                place = ledger.timelines.exactly((named.origin, named.seq))
                operation = Operation(*place, named.payload, named.context)
                if self._operations.was_carried(operation, ledger.count):
                    ledger.timelines.carried(place)
                    self._apply(operation, False, tag, part, carried=True)
            self._last_part = len(carried.operations)
            self._carrying.came(ledger.place(message.dot), carried)
        else:
            self._last_part = 0
            self._book.came(message)
            self._membership.deliver(kind, message.dot, payload, now)
        return tag

    def _apply_run(self, message: Message, payload: bytes, tag: Tag) -> None:
        ledger, operations = self._ledger, self._operations
        own = message.dot & ORIGIN_MASK == ledger.own_index
        self._last_part = message.span
        if self._runs is not None and self._reading.anew and not operations.carried:
            origin, first = ledger.names[message.dot & ORIGIN_MASK], (message.before >> ORIGIN_BITS) + 1
            position = self._begins + place_of(0, ledger.delivered)
            found = message.run or payload_run(payload)
            self._runs(OperationRun(origin, first, found, tag, self._me, self._book, position, own))
            return
        for part, operation in enumerate(operations_in(ledger.place(message.dot), payload), 1):
            if operations.came(operation, ledger.timelines.exactly):
                self._apply(operation, own, tag, part)

    def _apply(self, operation: Operation, own: bool, tag: Tag, part: int, carried: bool = False) -> None:
        again = self._reading.had((operation.origin, operation.seq), self._ledger.timelines.exactly)
        position = self._begins + place_of(0, self._ledger.delivered, part)
        named = LifeTag(tag, self._me, operation.dot, self._book)
        self._application.apply(Applied(operation, own, named, again, position, carried))

    @property
    def position(self) -> int:
        """Of what was delivered last."""
        return self._begins + place_of(0, self._ledger.delivered, self._last_part)

    def read(self) -> None:
        """Rule 33: a program without a state takes the next of what it had missed."""
        reading = self._reading
        what = reading.read()
        if isinstance(what, Operation):
            self._application.missed(what, *self.missed(what, reading.count))
        else:
            self._application.lost(what, reading.holders, self._begins)

    def missed(self, operation: Operation, count: int) -> tuple[LifeTag, int]:
        """Tag and position of what its program had missed, the `count`th of it."""
        inner = self._book.known((operation.origin, operation.seq))
        tag = LifeTag(inner, self._me, operation.dot, self._book)
        return tag, self._begins + min(count, place_of(0, self._reading.begun))
