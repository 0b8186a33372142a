"""Operations that outlive the messages they came in.

When a member returns as a new incarnation, the application starts from the contact's state. Whatever the old
incarnation had applied and the contact had not would be lost: those operations are *orphans*, and are sent
again inside CARRY messages. An operation is known by the dot of the message that it was first sent in, for
good: it is applied once, whether it comes as itself or is carried, by one member or by several.

`inherited`: operations that took effect before this incarnation began, and that a missed member, or a side
that this one may have to join, could lack; those that it applied itself are in its log.
`carried`: what came inside a CARRY; `listed`: the same, in the order in which it came. `orphans`: what this
incarnation must carry, in the order in which the old one had applied it.

Invariant: orphans go out from the front only. One that is not ready holds back those behind it, which may
follow from it.
"""

from collections import deque
from collections.abc import Callable, Iterable

from msgspec import Struct

from thence.core.groups import Place, told_apart
from thence.members.spans import Spans

Count = Callable[[str], int]


class Operation(Struct, frozen=True):
    origin: str
    """The incarnation that sent it, or one of its timelines (`core.groups.timeline`)."""
    seq: int
    payload: bytes
    context: tuple[Place, ...] = ()
    """What it directly followed from when it was first sent; of one that is still in the message that it was
    sent in, that says it."""

    @property
    def dot(self) -> Place:
        """Under which its program sent it, and all programs know it."""
        return told_apart(self.origin)[0], self.seq


class Operations:
    __slots__ = ("carried", "inherited", "listed", "orphans")

    def __init__(self, inherited: Iterable[Operation] = (), orphans: Iterable[Operation] = ()) -> None:
        self.inherited = list(inherited)
        self.carried: set[Place] = set()
        self.listed: list[Place] = []
        """Only added to: a reader that was given its length finds what there was then. To forget is to begin
        another list."""
        self.orphans: deque[Operation] = deque(orphans)

    def came(self, operation: Operation, exactly: Callable[[Place], Place] = lambda place: place) -> bool:
        """An operation comes in the message that it was sent in: is it to be applied?"""
        place = operation.origin, operation.seq
        return not self.carried or (place not in self.carried and exactly(place) not in self.carried)

    def was_carried(self, operation: Operation, count: Count) -> bool:
        """An operation comes inside a CARRY: is it to be applied?"""
        if self.applied(operation, count):
            return False
        self.remember((operation.origin, operation.seq))
        return True

    def remember(self, place: Place) -> None:
        """This operation was carried."""
        if place not in self.carried:
            self.carried.add(place)
            self.listed.append(place)

    def applied(self, operation: Operation, count: Count) -> bool:
        return operation.seq <= count(operation.origin) or (operation.origin, operation.seq) in self.carried

    def forget(self, past: Spans) -> None:
        """Every operation of these incarnations is known to have taken effect."""
        if any(origin in past for origin in {origin for origin, _ in self.carried}):
            self.listed = [place for place in self.listed if place[0] not in past]
            self.carried = set(self.listed)

    def ready(self, may_go: Callable[[Operation], bool], count: Count, most: int) -> list[Operation]:
        """The orphans that can be carried now, among the first `most`; they are not orphans any more."""
        found, left = [], max(0, len(self.orphans) - most)
        while len(self.orphans) > left:
            first = self.orphans[0]
            if not self.applied(first, count):
                if not may_go(first):
                    break
                found.append(first)
            self.orphans.popleft()
        return found
