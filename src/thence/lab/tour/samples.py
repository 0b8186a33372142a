"""What the nodes said of themselves during the tour, look by look.

Times are microseconds since 1970, steady from the start on, as the nodes' traces have them: both go into the
same figures.
"""

import threading
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from thence.local.probe import NodeProbe, look
from thence.runtime.running import wall_clock
from thence.runtime.status import Status

BARS: Final = "▁▂▃▄▅▆▇█"

now_us: Final = wall_clock()


class Sample(NamedTuple):
    at_us: int
    seen: list[NodeProbe]

    @property
    def statuses(self) -> dict[str, Status]:
        """Of those that answered."""
        return {one.name: one.status for one in self.seen if one.status is not None}


class Sampler(threading.Thread):
    """Looks again and again. A thread, so that the points lie evenly whatever the tour waits for."""

    def __init__(self, folders: Sequence[Path], every_s: float) -> None:
        super().__init__(name="sampler", daemon=True)
        self._folders: Final = list(folders)
        self._every_s: Final = every_s
        self._over: Final = threading.Event()
        self.samples: Final[list[Sample]] = []

    def run(self) -> None:
        due = time.monotonic()
        while not self._over.wait(max(0.0, due - time.monotonic())):
            begun_us = now_us()
            self.samples.append(Sample(begun_us, look(self._folders)))
            due = max(due + self._every_s, time.monotonic())

    def leave(self) -> None:
        self._over.set()
        if self.is_alive():
            self.join()


def lag_of(member: str, statuses: dict[str, Status]) -> int:
    """The most that any node has sent and this member not acknowledged. A node that was started again does
    not know before they have met; it takes everything for missing."""
    return max(
        (
            peer.lag
            for status in statuses.values()
            for peer in status.members
            if peer.name == member and (peer.link != "down" or acknowledged(status, member) >= 0)
        ),
        default=0,
    )


def acknowledged(status: Status, peer: str) -> int:
    """How many of the messages that a node sent since its start this peer has. Less than 0: it lacks some
    from before."""
    [lag] = [member.lag for member in status.members if member.name == peer]
    return status.sent - lag


def sparkline(values: Sequence[int], width: int = 40) -> str:
    """A line of bars, the largest value the highest; of too many values, the largest of each share."""
    if len(values) > width:
        edges = [len(values) * step // width for step in range(width + 1)]
        values = [max(values[low:high]) for low, high in pairwise(edges)]
    top = max(values, default=0) or 1
    return "".join(BARS[min(value * len(BARS) // (top + 1), len(BARS) - 1)] for value in values)
