"""How far a program has come that takes messages and has no state: over all incarnations of its process.

An operation that was carried may be named after the start that it was sent under (`core.groups.timeline`),
and may have come as itself before, or the other way round. Where a disk was put back, a counter stands for
two operations. So an extent also counts by starts, and what is known by its start is looked up there.
"""

from collections.abc import Callable

from thence.core.groups import ALL, Extent, Place, Starts, timeline, told_apart
from thence.members.spans import Spans

NOTHING = Extent({}, (), ())


class Progress:
    """An extent, to be asked."""

    __slots__ = ("_timed", "carried", "counts", "past")

    def __init__(self, extent: Extent | None) -> None:
        counts, past, carried = extent or NOTHING
        self.counts = counts
        self.past = Spans(past)
        self.carried = set(carried)
        self._timed = {member for member, start in map(told_apart, counts) if start}
        """Incarnations that are counted by starts as well."""

    def count(self, origin: str, starts: Starts = ()) -> int:
        """How many messages of an incarnation the program has had, with all that was in them: of the timeline
        with these starts."""
        if origin in self.past:
            return ALL
        count = self.counts.get(origin, 0)
        if not starts or origin not in self._timed:
            return count
        count = min(count, starts[0][0])
        for (_, start), end in zip(starts, [*[base for base, _ in starts[1:]], ALL], strict=True):
            reach = self.counts.get(timeline(origin, start), 0)
            count = max(count, min(reach, end))
            if reach < end:
                break
        return count

    def covers(self, place: Place, exactly: Callable[[Place], Place] = lambda place: place) -> bool:
        """Has the program had this operation? `exactly`: under which start it was sent, if that is known."""
        origin, seq = place
        if not self.counts and not self.carried and not self.past.version:
            return False
        exact = exactly(place)
        if place in self.carried or exact in self.carried:
            return True
        member, start = told_apart(exact[0])
        if start and member in self._timed:  # though it is past: its disk may have been put back since
            return seq <= self.counts.get(exact[0], 0)
        if origin in self.past:
            return True
        return seq <= self.counts.get(member, 0) or (member, seq) in self.carried
