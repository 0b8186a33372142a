"""Who is in: the view of one incarnation, as the messages that it delivered make it.

Implements rules 11 to 19 of docs/protocols/membership.md, which mend chapter 6 of the tagged causal broadcast
document. The state changes by delivered messages only, and by what its node suspects of its own accord, which
becomes a message at once; so replaying the log gives the same view, and members that delivered the same set
have the same one.

State. `view`: members, suspects included until they are gone. `suspects`: everybody who was ever suspected.
`gone`: who left or was evicted, with the counter of its last message. `departing`: who has said that it
leaves, with the counter of that message, until everybody has it. `flushed`: per member, whom its flushes have
named. `addresses`: where the processes of all these are reached, as far as they said when they joined.
`closed`: incarnations that will never be heard of again, neither they nor operations of theirs that are not
known here; `closing`: who will be closed once everybody has the message that says so. `past`: those of them,
and of those who have left, that are not spoken of one by one any more. `spent`: those of whom everything was
brought that their process remembers, which may not be all. `strangers`: who was with somebody who
has returned, and was never heard of here. `abandoned`: those who are missed and whose process came back
without anything that they had.

Invariants. A suspect is gone only when every member that is neither suspected nor leaving has flushed *all*
open suspects, not only this one: a flush says what its sender had accepted before, and two suspects may have
relayed each other's messages. `gone` never changes for one who is in it, until it is past. Of everybody
who is past all messages were delivered here, and are stable.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from thence.core.groups import FLUSH, JOIN, LEAVE, Place, Span, incarnation, number_of, process_of, span_of
from thence.members.spans import Spans

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
    closing: dict[Place, tuple[Span, ...]] = field(default_factory=dict)
    closed: Spans = field(default_factory=Spans)
    past: Spans = field(default_factory=Spans)
    spent: Spans = field(default_factory=Spans)
    strangers: set[str] = field(default_factory=set)
    abandoned: set[str] = field(default_factory=set)
    leaving: int = 0
    """The counter of the own leave, if it was sent."""

    @property
    def side(self) -> set[str]:
        """Who is a member and not suspected: the ones to work with. A leaver is not on its own side. To be
        looked at, not to be kept: mostly it is the view itself."""
        return self.view if self.suspects.isdisjoint(self.view) else self.view - self.suspects

    @property
    def open(self) -> set[str]:
        """Suspects on whose last message there is no agreement yet."""
        return self.suspects - self.gone.keys()

    @property
    def _known(self) -> set[str]:
        """Everybody whom this view has to name; `knows` asks the same of one."""
        return self.view | self.gone.keys() | self.suspects | self.departing.keys()

    def named(self) -> set[str]:
        """The same, and strangers."""
        return self._known | self.strangers

    def knows(self, member: str) -> bool:
        return (
            member in self.view or member in self.gone or member in self.suspects or member in self.departing
        )

    def knows_later(self, member: str) -> bool:
        """Is this incarnation, or a later one of its process, known?"""
        process, number = process_of(member), number_of(member)
        if max(self.closed.top(process), self.past.top(process)) >= number:
            return True
        return any(process_of(other) == process and number_of(other) >= number for other in self._known)

    def newest(self, process: str) -> str:
        """The last incarnation of a process of which this view has heard, whatever became of it; or none."""
        known = [number_of(name) for name in self.named() if process_of(name) == process]
        number = max(*known, self.closed.top(process), self.past.top(process), 0)
        return incarnation(process, number) if number else ""

    def by_process(self) -> dict[str, str]:
        """The address of each process: what its newest incarnation said."""
        found: dict[str, str] = {}
        for member in sorted(self.addresses, key=number_of):
            if self.addresses[member]:
                found[process_of(member)] = self.addresses[member]
        return found

    def evicted(self) -> list[str]:
        return [member for member, final in self.gone.items() if final.evicted]

    def missed(self) -> list[str]:
        """Whoever the group went on without, and may yet come back: nobody has heard of its process since.
        Attempts of it that came to nothing do not count, so those who are past tell nothing."""
        newest: dict[str, int] = {}
        for name in self._known:
            newest[process_of(name)] = max(number_of(name), newest.get(process_of(name), 0))
        lost = sorted((self.suspects | self.strangers) - self.abandoned)
        return [m for m in lost if newest.get(process_of(m), 0) <= number_of(m)]

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

    def deliver(
        self,
        origin: str,
        seq: int,
        kind: int,
        named: tuple[str, ...],
        count: Count,
        past: Iterable[Span] = (),
    ) -> Changes:
        """A message about membership was delivered. `past`: whom the sender of a flush need not name."""
        changes = Changes()
        if kind == JOIN:
            for member in named:
                self._join(member, changes)
        elif kind == LEAVE:
            self._leave(origin, seq, changes)
        elif kind == FLUSH:
            flushed = self.flushed.setdefault(origin, set())
            fresh = {member for member in named if member not in self.past}
            flushed.update(fresh)
            unnamed = Spans(past)
            # Whoever is past to a joiner was settled by its contact, and suspected here before the join came.
            flushed.update([member for member in self.open if member in unnamed])
            self._suspect(fresh, changes)
        self._complete(count, changes)
        return changes

    def leave_is_stable(self, member: str, count: Count) -> Changes:
        """Everybody has the leave of a departing member."""
        self.gone[member] = Final(self.departing.pop(member), False)
        changes = Changes()
        self._complete(count, changes)
        return changes

    def abandon(self, process: str, below: int) -> None:
        """A process has come back without anything that its incarnations below this number had."""
        lost = [name for name in self.suspects | self.strangers | self.view if process_of(name) == process]
        self.abandoned.update([name for name in lost if number_of(name) < below])

    def strange(self, members: Iterable[str]) -> None:
        """These were with somebody who has returned. Whoever was never heard of here is on a side that was
        given up, or a member whose join is still to come. It is looked for, and that is all."""
        self.strangers.update([member for member in members if not self._is_settled(member)])

    def _is_settled(self, member: str) -> bool:
        return self.knows(member) or member in self.closed or member in self.past

    def forget(self, stable: Count) -> list[str]:
        """Whoever is gone for good, with all operations known and all messages stable, is past. Returns who
        that is now."""
        for place in [(origin, seq) for origin, seq in self.closing if stable(origin) >= seq]:
            for span in self.closing.pop(place):
                self.closed.add(*span)
                self._never_known(*span)
            self.spent = Spans([span for span in self.spent if not self.closed.covers(*span)])
        self.strangers = {member for member in self.strangers if not self._is_settled(member)}
        found = [
            member
            for member, final in self.gone.items()
            if member in self.closed and stable(member) >= final.last
        ]
        self.abandoned = {member for member in self.abandoned if member not in self.closed}
        for member in found:
            del self.gone[member]
            self.suspects.discard(member)
            self.addresses.pop(member, None)
            for flushed in self.flushed.values():
                flushed.discard(member)
            self.past.add(*span_of(member))
        if found:
            self.flushed = {q: flushed for q, flushed in self.flushed.items() if q in self.view}
            self._fill({process_of(member) for member in found})
        return found

    def _fill(self, processes: set[str]) -> None:
        """Numbers between those that are past were tried and came to nothing, as far as they are closed."""
        for process in sorted(processes):
            for low, high in list(self.past.below(process, self.past.top(process))):
                if self.closed.covers(process, low, high):
                    self._never_known(process, low, high)

    def _never_known(self, process: str, low: int, high: int) -> None:
        """Of these closed incarnations, whoever was never heard of here was let in by nobody, or on a side
        that was given up, and is past. Had a member let one of them in, that would be known by now: its
        message would be older than what has just become stable."""
        numbers = {number_of(member) for member in self._known if process_of(member) == process}
        for number in sorted(number for number in numbers if low <= number <= high):
            self.past.add(process, low, number - 1)
            low = number + 1
        self.past.add(process, low, high)

    def _join(self, member: str, changes: Changes) -> None:
        if member in self.gone or member in self.past:
            return
        process, number = process_of(member), number_of(member)
        newer = self.knows_later(f"{process}~{number + 1}")
        older = {m for m in self.view if process_of(m) == process and number_of(m) < number}
        self.view.add(member)
        self.strangers.discard(member)
        changes.joined.append(member)
        self._suspect({member} if newer else older, changes)

    def _leave(self, origin: str, seq: int, changes: Changes) -> None:
        self.view.discard(origin)
        if origin == self.me:
            self.leaving = seq
        elif origin not in self.gone:
            self.departing[origin] = seq
            self.closed.add(*span_of(origin))  # this was its last
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
