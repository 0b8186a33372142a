"""What is there of a process of a world of steps (`sim.step_world`), whether or not it runs."""

from typing import Any, Final, Generic, Literal, Protocol, TypeVar, get_args

from thence.core.machine import NEVER
from thence.replica.contract import Machine
from thence.replica.group.settings import GroupSettings
from thence.replica.send_queue import SendQueue
from thence.replica.steps import Steps
from thence.sim.diaries import SimTrace
from thence.sim.shelf import SimShelf

Point = Literal["acting", "written", "synced", "told", "sent"]
"""Of a step, where a crash may come: the machine has acted, and its write is under way; that is written, and
perhaps synced; it is synced, and nothing has left; the program knows, and no packet has left; some packets
have left."""

POINTS: Final[tuple[Point, ...]] = get_args(Point)


class StepApplication(Protocol):
    """What a world asks of the program of a process."""

    def released(self, events: Any) -> None:
        """The step is over, and safe."""
        ...

    def take_back(self) -> None:
        """The step was cut short."""
        ...


M = TypeVar("M", bound=Machine[Any])
A = TypeVar("A", bound=StepApplication)


class StepProcess(Generic[M, A]):
    """What is there of a process, whether or not it runs."""

    __slots__ = (
        "application", "backlog", "dead", "dismissed", "joins", "life", "paused", "shelf", "steps",
        "synced_at", "taking", "torn", "trace", "waking",
    )  # fmt: skip

    def __init__(self, shelf: SimShelf, application: A, settings: GroupSettings) -> None:
        self.application = application
        self.backlog = SendQueue[None](settings)
        """Broadcasts that wait."""
        self.shelf = shelf
        self.steps: Steps[M, None] | None = None
        self.trace = SimTrace()
        self.life = 0
        self.dismissed: set[str] = set()
        """Processes that it keeps no link to."""
        self.dead = False
        """Down for good."""
        self.joins = False
        """It was on its way into the group when its last step was over."""
        self.paused = 0
        """Until then it does nothing, and whatever happens to it waits."""
        self.taking: M | None = None
        """Whose application takes one message after the other, at this moment."""
        self.torn: Point | None = None
        """There the next step that comes to it will be cut short."""
        self.synced_at = 0
        """When the last of its syncs is over."""
        self.waking = NEVER

    @property
    def node(self) -> M | None:
        """What runs, if anything does."""
        return self.steps.machine if self.steps is not None and self.steps.runs else None
