"""What a member is, as a value: the state that a contact hands to a joiner, and that a member starts from
after a restart.

Spelled with names: the application's state, which is opaque here, and everything that the group knows. A
member's log begins with the state that it was installed with (a founder's is empty), and what it delivered
since follows; both together are the member. Its bytes are made in `state_codec`, its contents in `handover`.
"""

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from thence.core.groups import (
    Extent,
    Lost,
    NamedMessage,
    Place,
    Span,
    Starts,
)
from thence.members.group import Final
from thence.members.operations import Operation

T = TypeVar("T")


@dataclass(slots=True)
class MemberState:
    application: bytes = b""
    counts: dict[str, int] = field(default_factory=dict)
    """Delivered messages per incarnation, departed ones included."""
    stable: dict[str, int] = field(default_factory=dict)
    context: tuple[Place, ...] = ()
    table: list[str] = field(default_factory=list)
    """Names by the index that they have in the log of the member that wrote this."""
    log: list[NamedMessage] = field(default_factory=list)
    """Delivered and not stable, in the order of delivery. A member that writes itself down has them in its
    log and leaves them out."""
    view: set[str] = field(default_factory=set)
    suspects: set[str] = field(default_factory=set)
    gone: dict[str, Final] = field(default_factory=dict)
    departing: dict[str, int] = field(default_factory=dict)
    flushed: dict[str, set[str]] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)
    closing: dict[Place, tuple[Span, ...]] = field(default_factory=dict)
    closed: tuple[Span, ...] = ()
    past: tuple[Span, ...] = ()
    spent: tuple[Span, ...] = ()
    unknown: set[str] = field(default_factory=set)
    """Incarnations that were with one that has returned, and were never heard of."""
    abandoned: set[str] = field(default_factory=set)
    rows: dict[str, dict[str, int]] = field(default_factory=dict)
    retained: list[Operation] = field(default_factory=list)
    """Operations that a member may lack although their messages are stable. A member that writes itself down
    leaves out those that are in its log."""
    floor: dict[str, int] = field(default_factory=dict)
    """Of the member itself: up to where its log need not be kept for that."""
    carried: dict[Place, None] = field(default_factory=dict)
    """In the order in which they came."""
    orphans: list[Operation] = field(default_factory=list)
    """Of the member itself: what its former incarnation had applied and this state lacks."""
    leaves: bool = False
    """Of the member itself: the former incarnation was leaving, and so will this one."""
    since: int = 0
    """Of the member itself: the first of the incarnations whose operations it has, or has carried; 0: of its
    own only."""
    must_announce: bool = False
    """Of the member itself: it has not said yet that it carried everything."""
    tail_lost: bool = False
    """Of the member itself: its former incarnation may have sent more than it remembered."""
    strangers: set[str] = field(default_factory=set)
    """Of the member itself: companions of its former incarnation that are not known in this state."""
    settled_before: tuple[Span, ...] = ()
    """Of the member itself: what was past to its former incarnation and is not in this state."""
    goes_on: bool = False
    """Of the member itself: it did not begin with this state, but wrote it down on its way."""
    starts: dict[str, Starts] = field(default_factory=dict)
    """Under which starts of its process an incarnation has sent what is counted here."""
    branches: dict[str, int] = field(default_factory=dict)
    """Of incarnations that were put back: what was carried of timelines that are not counted here."""
    had: dict[str, int] = field(default_factory=dict)
    """What all missed members had delivered, as far as it is known."""
    reach: dict[str, int] = field(default_factory=dict)
    """Operations above these counters are in `retained` or `log`, or in the log of the state's author."""
    history: list[Operation] = field(default_factory=list)
    """For a joiner whose program has no state: what it missed and all others have."""
    lost: tuple[Lost, ...] = ()
    """The same, as far as the contact does not have it any more."""
    holders: tuple[str, ...] = ()
    """The members on the contact's side."""
    extent: Extent | None = None
    """Of the member itself: what its program had in earlier incarnations, if it has no state."""
    unread: list[Operation] = field(default_factory=list)
    """Of the member itself: what its program is to read first."""
    former: tuple[int, int, int] = (0, 0, 0)
    """Of the member itself: the number of the incarnation before it, and how many messages that had
    delivered; how many had been where this one began."""

    @property
    def tells_programs(self) -> bool:
        """Is there anything in it that matters to programs without a state?"""
        return bool(self.reach or self.history or self.lost or self.unread or self.extent or any(self.former))

    def names(self) -> list[str]:
        """Every incarnation that is spoken of, in an order of its own; but for those that are past and that
        messages follow from."""
        spoken = set(self.counts) | self.view | self.suspects | set(self.gone) | set(self.departing)
        spoken.update(name for name, _ in self.context)
        spoken.update(name for row in self.rows.values() for name in row)
        return sorted(spoken)


Read = tuple[T | None, int]
"""An item for a state, or nothing, and how many bytes were read for it."""


class Sources(NamedTuple):
    """The long parts of a state for a joiner, where they are still to be read or made."""

    application: Iterator[bytes]
    log: Iterator[Read[NamedMessage]]
    retained: Iterator[Read[Operation]]
    history: Iterator[Read[Operation]]
    carried: Iterator[Read[Place]]


def drained(steps: Generator[int, None, T]) -> T:
    """What becomes of something that is done in steps, at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
