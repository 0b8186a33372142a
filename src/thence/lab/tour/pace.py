"""How the tour goes: how many nodes, how much load, how long each act lasts."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from thence.core.errors import UsageError

LOOK_S: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    nodes: int = 5
    """One is cut off, one killed, one evicted, one joins; and those that are left still are a group."""
    rate: float = 200.0
    """Messages a second of each node: nodes, watcher and screen share a laptop's cores with room to spare."""
    calm_s: float = 3.0
    """Long enough to see what normal looks like."""
    cut_s: float = 5.0
    """The lag must have time to grow; no link needs longer than a second to come back."""
    down_s: float = 2.5
    """The others must be seen to go on."""
    after_s: float = 2.5
    """After a trouble, for the figures to show that it is over."""
    patience_s: float = 30.0
    """What has not happened by then will not: a busy machine takes seconds, not tens of them."""
    look_every_s: float = 0.2
    """Points of the figures; a look costs a node less than a millisecond."""

    def until(self, is_so: Callable[[], bool]) -> bool:
        """Wait for something; whether it has happened in time."""
        until = time.monotonic() + self.patience_s
        while not is_so():
            if time.monotonic() > until:
                return False
            time.sleep(LOOK_S)
        return True

    def __post_init__(self) -> None:
        if self.nodes < 5:
            raise UsageError("the tour needs five nodes: one for each trouble, one to join, one that goes on")
