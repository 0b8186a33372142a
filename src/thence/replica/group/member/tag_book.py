"""Tags of operations: which message brought an operation, and which operations a message brought.

Most messages bring the operation of their own name. A CARRY brings operations of other names; messages about
the membership bring none. Of the few messages of these kinds that are not stable, this is remembered here.
"""

from collections.abc import Iterable, Iterator, Sequence

from thence.core.dots import pack
from thence.core.errors import UsageError
from thence.core.groups import CARRY, Place, plain
from thence.core.message import Message
from thence.core.tag import Tag
from thence.members.operations import Operations
from thence.replica.group.ledger.ledger import Ledger
from thence.replica.group.ledger.payloads import OPERATIONS, payload_operations
from thence.replica.life_tag import LifeTag


class TagBook:
    """`life_tag.Book` of one incarnation."""

    __slots__ = ("_brought", "_carrier", "_ledger", "_operations")

    def __init__(self, ledger: Ledger, operations: Operations) -> None:
        self._ledger = ledger
        self._operations = operations
        self._brought: dict[int, list[Place]] = {}
        """By dot of an unstable message that brings no operation of its own name: those that it brings."""
        self._carrier: dict[Place, int] = {}
        """Of these operations the message."""

    def came(self, message: Message) -> None:
        """A message was delivered that is not an operation."""
        payload = plain(message.payload)
        brought = [one.dot for one in payload_operations(payload)] if payload[0] == CARRY else []
        self._brought[message.dot] = brought
        for place in brought:
            self._carrier.setdefault(place, message.dot)

    def noted(self, messages: Iterable[Message]) -> Iterator[Message]:
        """The same, which come with a state and are not stable."""
        for message in messages:
            if plain(message.payload)[0] not in OPERATIONS:
                self.came(message)
            yield message

    def swept(self, found: Sequence[Tag]) -> list[tuple[Place, Tag]]:
        """Of messages that have become stable, the operations that they brought, in the same order."""
        if not self._brought:
            named = self._ledger.place
            return [(named(tag.dot), tag) for tag in found]
        told: list[tuple[Place, Tag]] = []
        for tag in found:
            brought = self._brought.pop(tag.dot, None)
            if brought is None:
                told.append((self._ledger.place(tag.dot), tag))
                continue
            for place in brought:
                if self._carrier.get(place) == tag.dot:
                    del self._carrier[place]
                    told.append((place, tag))
        return told

    def inner(self, place: Place) -> Tag | None:
        """Of an operation that was delivered here; None: it is stable. `UsageError`: it was not."""
        ledger, (name, seq) = self._ledger, place
        tag = self.known(place)
        if tag is None and (seq < 1 or (seq > ledger.count(name) and place not in self._operations.carried)):
            raise UsageError(f"{name}:{seq} was not delivered at {ledger.me}")
        return tag

    def known(self, place: Place) -> Tag | None:
        """None: it is stable, or was not delivered here."""
        ledger, (name, seq) = self._ledger, place
        if (carrier := self._carrier.get(place)) is not None:
            return ledger.window.tag_of(carrier)
        index = ledger.index(name)
        if index < 0 or index in ledger.settled or not 0 < seq <= ledger.counts[index]:
            return None
        stable = seq <= ledger.window.stable_up_to(index)
        return None if stable else ledger.window.tag_of(pack(index, seq))

    def tag(self, place: Place) -> LifeTag:
        return LifeTag(self.inner(place), self._ledger.me, place, self)
