"""What happens to the nodes and links of an overlay during a run, and when: a plan made before it starts."""

from dataclasses import dataclass, field

from thence.sim.faults import Crash, Cut, Pause


@dataclass(frozen=True, slots=True)
class Arrive:
    """A node starts, and joins through one that is there."""

    at_us: int
    node: int


@dataclass(frozen=True, slots=True)
class Depart:
    """A node goes for good: politely, or it is killed."""

    at_us: int
    node: int
    polite: bool = False


@dataclass(frozen=True, slots=True)
class Reset:
    """A link breaks; `node` notices at once, the other end when the link has been silent for long."""

    at_us: int
    node: int
    peer: int


Happening = Arrive | Depart | Reset | Cut | Pause | Crash


@dataclass(frozen=True, slots=True)
class OverlayPlan:
    """`size`: all nodes that there ever are. Those that arrive before `sending_us` make up the group that
    sending begins with."""

    size: int
    happenings: tuple[Happening, ...]
    sending_us: int
    """From when on nodes send."""
    until_us: int
    """Until when they do."""
    marks: tuple[int, ...] = field(default=())
    """When something happens that the tree has to recover from, for measurements."""

    @property
    def over_us(self) -> int:
        """From when on nothing happens any more."""
        ends = [
            one.at_us if isinstance(one, Arrive | Depart | Reset) else one.until_us for one in self.happenings
        ]
        return max([self.until_us, *ends])
