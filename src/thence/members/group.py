"""Who is in: the view of one incarnation, as the messages that it delivered make it.

Implements rules 11 to 19 of docs/protocols/membership.md, which mend chapter 6 of the tagged causal broadcast
document. The state changes by delivered messages only, and by what its node suspects of its own accord, which
becomes a message at once; so replaying the log gives the same view, and members that delivered the same set
have the same one.

State. `view`: members, suspects included until they are gone. `suspects`: everybody who was ever suspected.
`gone`: who left or was evicted, with the counter of its last message. `departing`: who has said that it
leaves, with the counter of that message, until everybody has it. `flushed`: per member, whom its flushes have
named. `addresses`: where the processes of all these are reached, as far as they said when they joined, but
for those who have left in good order.

Invariants. A suspect is gone only when every member that is neither suspected nor leaving has flushed *all*
open suspects, not only this one: a flush says what its sender had accepted before, and two suspects may have
relayed each other's messages. `gone` never changes for one who is in it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from thence.core.groups import FLUSH, JOIN, LEAVE, number_of, process_of

Count = Callable[[str], int]
"""How many messages of a member were delivered here."""


class Final(NamedTuple):
    """The counter of a departed member's last message, and whether it was made to go."""

    last: int
    evicted: bool


@dataclass(slots=True)
class Changes:
    """What a step did to the view, for whoever keeps rows and pending messages."""

    joined: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    suspected: list[str] = field(default_factory=list)
    evicted: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.joined or self.left or self.suspected or self.evicted)


@dataclass(slots=True)
class GroupView:
    me: str
    view: set[str] = field(default_factory=set)
    suspects: set[str] = field(default_factory=set)
    gone: dict[str, Final] = field(default_factory=dict)
    departing: dict[str, int] = field(default_factory=dict)
    flushed: dict[str, set[str]] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)
    leaving: int = 0
    """The counter of the own leave, if it was sent."""

    @property
    def side(self) -> set[str]:
        """Who is a member and not suspected: the ones to work with. A leaver is not on its own side."""
        return self.view - self.suspects

    @property
    def open(self) -> set[str]:
        """Suspects on whose last message there is no agreement yet."""
        return self.suspects - self.gone.keys()

    def knows(self, member: str) -> bool:
        return (
            member in self.view or member in self.gone or member in self.suspects or member in self.departing
        )

    def knows_later(self, member: str) -> bool:
        """Is this incarnation, or a later one of its process, known?"""
        process, number = process_of(member), number_of(member)
        known = self.view | self.gone.keys() | self.suspects | self.departing.keys()
        return any(process_of(other) == process and number_of(other) >= number for other in known)

    def by_process(self) -> dict[str, str]:
        """The address of each process: what its newest incarnation said."""
        found: dict[str, str] = {}
        for member in sorted(self.addresses, key=number_of):
            if self.addresses[member]:
                found[process_of(member)] = self.addresses[member]
        return found

    def evicted(self) -> list[str]:
        return [member for member, final in self.gone.items() if final.evicted]

    def owed(self) -> list[str]:
        """Suspects that this member has not flushed: it must say so before anything else happens."""
        if self.leaving:
            return []
        return sorted(self.suspects - self.flushed.get(self.me, set()))

    def suspect(self, members: Iterable[str]) -> Changes:
        """Members that this one holds for dead."""
        changes = Changes()
        self._suspect(set(members) & self.view, changes)
        return changes

    def deliver(self, origin: str, seq: int, kind: int, named: tuple[str, ...], count: Count) -> Changes:
        """A message about membership was delivered."""
        changes = Changes()
        if kind == JOIN:
            for member in named:
                self._join(member, changes)
        elif kind == LEAVE:
            self._leave(origin, seq, changes)
        elif kind == FLUSH:
            self.flushed.setdefault(origin, set()).update(named)
            self._suspect(set(named), changes)
        self._complete(count, changes)
        return changes

    def leave_is_stable(self, member: str, count: Count) -> Changes:
        """Everybody has the leave of a departing member."""
        self.gone[member] = Final(self.departing.pop(member), False)
        self.addresses.pop(member, None)
        changes = Changes()
        self._complete(count, changes)
        return changes

    def _join(self, member: str, changes: Changes) -> None:
        if member in self.gone:
            return
        process, number = process_of(member), number_of(member)
        newer = self.knows_later(f"{process}~{number + 1}")
        older = {m for m in self.view if process_of(m) == process and number_of(m) < number}
        self.view.add(member)
        changes.joined.append(member)
        self._suspect({member} if newer else older, changes)

    def _leave(self, origin: str, seq: int, changes: Changes) -> None:
        self.view.discard(origin)
        if origin == self.me:
            self.leaving = seq
        elif origin not in self.gone:
            self.departing[origin] = seq
            changes.left.append(origin)

    def _suspect(self, members: set[str], changes: Changes) -> None:
        fresh = sorted(members - self.suspects - {self.me})
        self.suspects.update(fresh)
        changes.suspected += fresh

    def _complete(self, count: Count, changes: Changes) -> None:
        waiting = self.open
        others = self.side - {self.me}
        if not waiting or not all(self.flushed.get(q, set()) >= waiting for q in others):
            return
        for member in sorted(waiting):
            self.gone[member] = Final(count(member), True)
            self.view.discard(member)
            self.departing.pop(member, None)
            changes.evicted.append(member)
