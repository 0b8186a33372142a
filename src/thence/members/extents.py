"""How far a program has come that takes messages and has no state: over all incarnations of its process."""

from thence.core.groups import ALL, Extent, Place
from thence.members.spans import Spans

NOTHING = Extent({}, (), ())


class Progress:
    """An extent, to be asked."""

    __slots__ = ("carried", "counts", "past")

    def __init__(self, extent: Extent | None) -> None:
        counts, past, carried = extent or NOTHING
        self.counts = counts
        self.past = Spans(past)
        self.carried = set(carried)

    def count(self, origin: str) -> int:
        """How many messages of an incarnation the program has had, with all that was in them."""
        return ALL if origin in self.past else self.counts.get(origin, 0)

    def covers(self, place: Place) -> bool:
        """Has the program had this operation?"""
        origin, seq = place
        if not self.counts and not self.carried and not self.past.version:
            return False
        return seq <= self.count(origin) or place in self.carried
