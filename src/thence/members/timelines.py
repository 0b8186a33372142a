"""Under which starts of its process an incarnation has sent what: how a disk that was put back is noticed.

A start has a number unlike any other, and the first message that an incarnation sends under a start names it.
So what is known of an incarnation is a *timeline*: the starts, each with the count at which it began, and the
count up to now. Of one process two timelines are the same up to a point. If both go on from there with
different messages, its disk was put back to an earlier state in between, and counters were given twice.

A timeline begins with the start that the incarnation was installed under, even if its first message was sent
under a later one. So a disk that was put back to before that message still knows how the timeline begins, and
a member that knows that, too, has been with it.

Nothing is said of incarnations whose messages name no start: they were sent before there were any.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from thence.core.groups import ALL, Place, Starts, timeline, told_apart
from thence.members.spans import Spans

PAST_KEPT = 256


class Fork(NamedTuple):
    """Two timelines of one incarnation that go on differently."""

    agreed: int
    """Up to this counter they are the same."""
    behind: bool
    """This one began again from an earlier state: the other had come further by then."""


def fork(mine: Starts, have: int, theirs: Starts, they_have: int) -> Fork | None:
    """Do these timelines, with so many messages each, go on differently?"""
    same = 0
    while same < len(mine) and same < len(theirs) and mine[same] == theirs[same]:
        same += 1
    here, there = same < len(mine), same < len(theirs)
    own = mine[same][0] if here else have
    other = theirs[same][0] if there else they_have
    if not ((here and there) or (there and own > other) or (here and other > own)):
        return None
    if here and there and own == other:
        return Fork(own, mine[same] > theirs[same])
    return Fork(min(own, other), own < other)


def is_in(starts: Starts, count: int, start: int, seq: int) -> bool:
    """Was message `seq` of a timeline with so many messages sent under this start?"""
    ends = [base for base, _ in starts[1:]] + [count]
    return any(base < seq <= end and start == one for (base, one), end in zip(starts, ends, strict=False))


class Timelines:
    """What a member knows of starts. Those of incarnations that are past stay for a while: a disk that is put
    back may speak as one of these."""

    __slots__ = ("branches", "starts", "version")

    def __init__(self, starts: dict[str, Starts], branches: dict[str, int]) -> None:
        self.starts = dict(starts)
        self.branches = dict(branches)
        """Up to which counter operations were carried: of timelines that are not the one here, and beyond the
        last message of one that is. Of what is past, also up to where it was delivered."""
        self.version = len(starts)
        """How often another start was heard of."""

    def began(self, member: str, base: int, start: int) -> None:
        """Message `base + 1` names this start."""
        before = self.starts.get(member, ())
        if not before or before[-1][1] != start:
            self.starts[member] = (*before, (base, start))
            self.version += 1

    def carried(self, place: Place) -> None:
        """An operation has taken effect that was carried. Those of a timeline are carried in order, from the
        first that is not known."""
        if place[0] in self.starts or told_apart(place[0])[1]:
            self.branches[place[0]] = max(place[1], self.branches.get(place[0], 0))

    def ended(self, member: str, count: int) -> None:
        """It is past, with so many messages. Of one that sent none, that is what is known."""
        self.carried((member, count))
        if not count and self.starts:
            self.branches.setdefault(member, 0)

    def forget(self, past: Spans) -> None:
        """Of those that are past the last are kept."""
        named = dict.fromkeys([*self.starts, *[told_apart(name)[0] for name in self.branches]])
        gone = [name for name in named if name in past]
        if len(gone) > PAST_KEPT:
            old = set(gone[: len(gone) - PAST_KEPT])
            self.starts = {name: starts for name, starts in self.starts.items() if name not in old}
            self.branches = {
                name: last for name, last in self.branches.items() if told_apart(name)[0] not in old
            }

    def knows(self, member: str) -> bool:
        """Is it known under which starts what is here of an incarnation was sent, or some of it?"""
        return member in self.starts or any(told_apart(name)[0] == member for name in self.branches)

    def known(self, count: Callable[[str], int]) -> dict[str, int]:
        """Per start how far what is here goes; `count`: of messages of a timeline, see `reach`."""
        names = [timeline(name, start) for name, starts in self.starts.items() for _, start in starts]
        return {name: count(name) for name in dict.fromkeys([*names, *self.branches]) if told_apart(name)[1]}

    def unnamed(self, member: str, sent: int, start: int) -> list[int]:
        """Which starts the next message of an incarnation is to name, that has sent so many, under this start
        (0: under none)."""
        starts = self.starts.get(member)
        before = starts[-1][1] if starts else 0
        named = [before] if before and not sent else []
        return [*named, start] if start and start != before else named

    def reach(self, member: str, start: int, count: int) -> int:
        """Of a timeline with so many messages: how far it goes under one start. Of what is past, carried ones
        included: they are not remembered one by one."""
        starts, whole = self.starts.get(member, ()), count == ALL
        branch = self.branches.get(timeline(member, start), 0) if whole else 0
        for at, (_, number) in enumerate(starts):
            if number == start:
                end = starts[at + 1][0] if at + 1 < len(starts) else count
                return max(branch, min(end, self.branches.get(member) or ALL) if whole else end)
        return branch if starts or whole else count

    def exactly(self, place: Place) -> Place:
        """A message of this timeline, with the start that it was sent under, if that is known."""
        member, seq = place
        if told_apart(member)[1]:
            return place
        start = next((start for base, start in reversed(self.starts.get(member, ())) if base < seq), 0)
        return (timeline(member, start), seq) if start else place

    def traced(self, places: Sequence[Place], count: Callable[[str], int]) -> tuple[Place, ...]:
        """How a trace names operations that are about to be carried: by the dots that they were sent under,
        but for those of whose dot another message, or another operation, is known here."""
        others: dict[str, list[tuple[str, int]]] = {}
        for name, last in self.branches.items():
            others.setdefault(told_apart(name)[0], []).append((name, last))
        found = []
        for origin, seq in places:
            member, start = told_apart(origin)
            twice = start and (
                seq <= count(member)
                or any(name != origin and seq <= last for name, last in others.get(member, ()))
            )
            found.append((origin if twice else member, seq))
        return tuple(found)
