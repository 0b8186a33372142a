"""The view of one incarnation, as the messages that it delivered make it.

Implements rules 11 to 19 of docs/protocols/membership.md, which mend chapter 6 of the tagged causal broadcast
document. The state changes by delivered messages only, and by what its node suspects of its own accord, which
becomes a message at once; so replaying the log gives the same view, and members that delivered the same set
have the same one.

State. Each incarnation is in a stage (`stages`), and goes from one to another by the table there alone. Kept
beside that, since it is asked all the time, which ones are in some of the stages. `view`: members, suspects
included until they are gone. `suspects`: all that were ever suspected. `gone`: members that left or were
evicted, with the counter of their last message. `departing`: members that have sent their LEAVE, with its
counter, until all have it. `strangers`: companions of a returned process that were never heard of here.
`past`: closed incarnations, and leavers, that are not named one by one any more.

What can still come of an incarnation is said by marks, in whatever stage it is. `closed`: incarnations that
will never be heard of again, neither they nor operations of theirs that are not known here; `closing`: those
that will be closed once all members have the message that says so. `spent`: incarnations that have brought
everything that their process remembers, which may not be all. `abandoned`: missed incarnations whose process
came back without anything that they had.

`flushed`: per member, the suspects that its flushes have named. `addresses`: where the processes of all these
are reached, as far as they said when they joined.

Invariants. A suspect is gone only when every member that is neither suspected nor leaving has flushed *all*
open suspects, not only this one: a flush says what its sender had accepted before, and two suspects may have
relayed each other's messages. An entry of `gone` never changes, until it is past. All messages of an
incarnation that is past were delivered here, and are stable.
"""

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from thence.core.groups import FLUSH, JOIN, LEAVE, Place, Span, incarnation, number_of, process_of, span_of
from thence.members.spans import Spans
from thence.members.stages import (
    DEPARTS,
    GONE,
    INCARNATION,
    INSIDE,
    SUSPECTED,
    IncarnationStage,
    stage_in_state,
)

Count = Callable[[str], int]
"""How many messages of a member were delivered here."""


class Final(NamedTuple):
    """The counter of a departed member's last message, and whether it was made to go."""

    last: int
    evicted: bool


@dataclass(slots=True)
class Changes:
    """What a step did to the view, for the parts that keep rows and pending messages."""

    joined: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    suspected: list[str] = field(default_factory=list)
    evicted: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.joined or self.left or self.suspected or self.evicted)


class GroupView:
    __slots__ = (
        "_departing", "_gone", "_stages", "_strangers", "_suspects", "_view", "abandoned", "addresses",
        "closed", "closing", "departing", "flushed", "gone", "leaving", "me", "past", "spent", "strangers",
        "suspects", "view",
    )  # fmt: skip

    def __init__(
        self,
        me: str,
        view: Set[str] = frozenset(),
        suspects: Set[str] = frozenset(),
        gone: Mapping[str, Final] | None = None,
        departing: Mapping[str, int] | None = None,
        flushed: dict[str, set[str]] | None = None,
        addresses: dict[str, str] | None = None,
        closing: dict[Place, tuple[Span, ...]] | None = None,
        closed: Spans | None = None,
        past: Spans | None = None,
        spent: Spans | None = None,
        strangers: Set[str] = frozenset(),
        abandoned: Set[str] = frozenset(),
    ) -> None:
        """What a state says."""
        self.me = me
        self._stages: dict[str, IncarnationStage] = {}
        """Of incarnations that are neither unknown nor past."""
        self._view, self._suspects, self._strangers = set[str](), set[str](), set[str]()
        self._gone = dict(gone or {})
        self._departing = dict(departing or {})
        self.view: Set[str] = self._view
        self.suspects: Set[str] = self._suspects
        self.strangers: Set[str] = self._strangers
        self.gone: Mapping[str, Final] = self._gone
        self.departing: Mapping[str, int] = self._departing
        self.flushed = {} if flushed is None else flushed
        self.addresses = {} if addresses is None else addresses
        self.closing = {} if closing is None else closing
        self.closed = Spans() if closed is None else closed
        self.past = Spans() if past is None else past
        self.spent = Spans() if spent is None else spent
        self.abandoned = set(abandoned)
        self.leaving = 0
        """The counter of the own leave, if it was sent."""
        for member in sorted({*view, *suspects, *self._gone, *self._departing, *strangers}):
            final = self._gone.get(member)
            stage = stage_in_state(
                member in view,
                member in suspects,
                member in self._departing,
                final.evicted if final is not None else None,
                member in strangers,
            )
            if member == me:  # whatever a contact says, which may lie
                stage = stage_in_state(member in view, False, False, None, False)
            self._enter(member, stage)

    # Stages

    def stage(self, member: str) -> IncarnationStage:
        found = self._stages.get(member)
        if found is not None:
            return found
        return IncarnationStage.PAST if member in self.past else IncarnationStage.UNKNOWN

    def _move(self, member: str, cause: str) -> None:
        self._enter(member, INCARNATION.after(self.stage(member), cause))

    def _enter(self, member: str, stage: IncarnationStage) -> None:
        """The only place where these sets change. Where an entry says more than a name, it is made by what
        brings an incarnation into the stage."""
        for members, stages in ((self._view, INSIDE), (self._suspects, SUSPECTED)):
            (members.add if stage in stages else members.discard)(member)
        (self._strangers.add if stage is IncarnationStage.STRANGER else self._strangers.discard)(member)
        if stage not in DEPARTS:
            self._departing.pop(member, None)
        if stage not in GONE:
            self._gone.pop(member, None)
        if stage in (IncarnationStage.UNKNOWN, IncarnationStage.PAST):
            self._stages.pop(member, None)
        else:
            self._stages[member] = stage

    # Who is what

    @property
    def side(self) -> Set[str]:
        """Members that are not suspected: the ones to work with. A leaver is not on its own side. To be
        looked at, not to be kept: mostly it is the view itself."""
        return self.view if self.suspects.isdisjoint(self.view) else self.view - self.suspects

    @property
    def open(self) -> set[str]:
        """Suspects on whose last message there is no agreement yet."""
        return self.suspects - self.gone.keys()

    @property
    def _known(self) -> Set[str]:
        """All incarnations that this view has to name; `knows` asks the same of one."""
        return self._stages.keys() - self._strangers

    def named(self) -> Set[str]:
        """The same, and strangers."""
        return self._stages.keys()

    def knows(self, member: str) -> bool:
        return member in self._stages and member not in self._strangers

    def is_superseded(self, member: str) -> bool:
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
        """Evicted members and strangers whose process has not come back as a later incarnation. Attempts of
        it that came to nothing do not count, so incarnations that are past tell nothing."""
        newest: dict[str, int] = {}
        for name in self._known:
            newest[process_of(name)] = max(number_of(name), newest.get(process_of(name), 0))
        lost = sorted((self.suspects | self.strangers) - self.abandoned)
        return [m for m in lost if newest.get(process_of(m), 0) <= number_of(m)]

    def unflushed_suspects(self) -> list[str]:
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
        """A message about membership was delivered. `past`: what the sender of a flush need not name."""
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
            # What is past to a joiner was settled by its contact, and suspected here before the join came.
            flushed.update([member for member in self.open if member in unnamed])
            self._suspect(fresh, changes)
        self._complete(count, changes)
        return changes

    def leave_is_stable(self, member: str, count: Count) -> Changes:
        """All members have the leave of a departing one."""
        last = self.departing[member]
        self._move(member, "all have its leave")
        self._gone[member] = Final(last, False)
        changes = Changes()
        self._complete(count, changes)
        return changes

    def abandon(self, process: str, below: int) -> None:
        """A process has come back without anything that its incarnations below this number had."""
        lost = [name for name in self.suspects | self.strangers | self.view if process_of(name) == process]
        self.abandoned.update([name for name in lost if number_of(name) < below])

    def add_strangers(self, members: Iterable[str]) -> None:
        """Companions of a process that has returned. One that was never heard of here is on a side that was
        given up, or a member whose join is still to come: it is looked for, and nothing else follows. This
        member, whose leave is out, does not look for itself: it would stay until its time is over."""
        for member in members:
            if (
                member != self.me
                and self.stage(member) is IncarnationStage.UNKNOWN
                and member not in self.closed
            ):
                self._move(member, "was with one that has returned")

    def forget(self, stable: Count) -> list[str]:
        """A member that is gone for good, with all operations known and all messages stable, is past. Returns
        those that are now."""
        for place in [(origin, seq) for origin, seq in self.closing if stable(origin) >= seq]:
            for span in self.closing.pop(place):
                self.closed.add(*span)
                self._never_known(*span)
            self.spent = Spans([span for span in self.spent if not self.closed.covers(*span)])
        for member in [member for member in self.strangers if member in self.past]:
            self._move(member, "is closed, and no member let it in")
        for member in [member for member in self.strangers if member in self.closed]:
            self._move(member, "is closed")
        found = [
            member
            for member, final in self.gone.items()
            if member in self.closed and stable(member) >= final.last
        ]
        self.abandoned = {member for member in self.abandoned if member not in self.closed}
        for member in found:
            self._move(member, "is closed, and all of it is stable")
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
        """Of these closed incarnations, those that were never heard of here were let in by no member, or on a
        side that was given up, and are past. Had a member let one of them in, that would be known by now: its
        message would be older than what has just become stable."""
        numbers = {number_of(member) for member in self._known if process_of(member) == process}
        for number in sorted(number for number in numbers if low <= number <= high):
            self.past.add(process, low, number - 1)
            low = number + 1
        self.past.add(process, low, high)

    def _join(self, member: str, changes: Changes) -> None:
        if member in self.gone or member in self.past or member in self.departing:
            return
        process, number = process_of(member), number_of(member)
        newer = self.is_superseded(f"{process}~{number + 1}")
        older = {m for m in self.view if process_of(m) == process and number_of(m) < number}
        if member not in self.view:
            self._move(member, "is let in")
        changes.joined.append(member)
        self._suspect({member} if newer else older, changes)

    def _leave(self, origin: str, seq: int, changes: Changes) -> None:
        if origin == self.me:
            if origin in self.view:
                self._move(origin, "is this member, and leaves")
            self.leaving = seq
        elif origin in self.view or origin in self.departing:
            if origin in self.view:
                self._move(origin, "leaves")
            self._departing[origin] = seq
            self.closed.add(*span_of(origin))  # this was its last
            changes.left.append(origin)

    def _suspect(self, members: set[str], changes: Changes) -> None:
        fresh = sorted(members - self.suspects - {self.me})
        for member in fresh:
            self._move(member, "is suspected")
        changes.suspected += fresh

    def _complete(self, count: Count, changes: Changes) -> None:
        waiting = self.open
        others = self.side - {self.me}
        if not waiting or not all(self.flushed.get(q, set()) >= waiting for q in others):
            return
        for member in sorted(waiting):
            self._move(member, "all have flushed it")
            self._gone[member] = Final(count(member), True)
            changes.evicted.append(member)
