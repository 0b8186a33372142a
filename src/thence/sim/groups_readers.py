"""A simulated program without a state: it reads messages. Everything that it was told, or told that it has
missed, is remembered and compared with what took effect."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from thence.core.errors import InvariantError
from thence.core.groups import ALL, Lost, Place, number_of, process_of
from thence.sim.groups_pasts import NOTHING, Checked, Pasts


@dataclass(slots=True)
class SimReader:
    pasts: Pasts
    """Shared by all: what had taken effect where an operation was sent."""
    told: set[Place] = field(default_factory=set)
    """Its own among them."""
    fresh: set[Place] = field(default_factory=set)
    """Of these, what it was told since the last step was over."""
    before: set[Place] = field(default_factory=set)
    """What had taken effect when its process first joined: not its business."""
    lost: list[Lost] = field(default_factory=list)
    """What it was told that it has missed."""
    begins: bool = True
    """The next state is that of a group in which its process was not before."""
    gaps: int = 0
    """How often it was told so."""
    late: int = 0
    """Operations that came after a return, since it had missed them."""
    checked: Checked = field(default_factory=Checked)

    def begin_anew(self) -> None:
        self.told.clear()
        self.checked = Checked()
        self.lost.clear()
        self.begins = True

    def installed(self, places: Iterable[Place]) -> None:
        if self.begins:
            self.before = set(places)
            self.begins = False

    def hears(self, place: Place, again: bool) -> None:
        """An operation takes effect, or comes late; `again`: it is said that this program has had it, or has
        it to read: if that is not true, it is silent about it in the end."""
        if again:
            return
        if place in self.told:
            raise InvariantError(f"{place} is told twice")
        self._follows(place)
        self.told.add(place)
        self.fresh.add(place)

    def misses(self, lost: tuple[Lost, ...]) -> None:
        self.lost += lost
        self.gaps += 1

    def restarted(
        self, replayed: Iterable[Place], remembers: Callable[[Place], bool], unread: set[Place]
    ) -> list[Place]:
        """Its process was started again from its log, which may have forgotten something. Returns what it is
        to read although it has, and that step was over."""
        twice = sorted((self.told - self.fresh) & unread)
        self.told = {place for place in self.told | set(replayed) if remembers(place) and place not in unread}
        self.checked = Checked()
        self.fresh.clear()
        return twice

    def silent(self, applied: Iterable[Place]) -> list[Place]:
        """What took effect and neither came nor was named as missed."""
        return sorted([place for place in applied if place not in self.told and not self._excused(place)])

    def _follows(self, place: Place) -> None:
        past = self.pasts.get(place, NOTHING)
        for cause in self.checked.lacks(past, self.told):
            if not self._excused(cause):
                raise InvariantError(f"{place} is told before {cause}, which it follows from")
        self.checked.passes(past)

    def _excused(self, place: Place) -> bool:
        if place in self.before:
            return True
        return any(_names(one, place) for one in self.lost)


def _names(lost: Lost, place: Place) -> bool:
    origin, seq = place
    if lost.last < ALL or lost.origin == origin:
        return lost.origin == origin and lost.first <= seq <= lost.last
    return process_of(lost.origin) == process_of(origin) and number_of(lost.origin) > number_of(origin)
