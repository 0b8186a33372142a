"""What a simulated process writes to its trace, and when: the diaries of its incarnations."""

from collections.abc import Callable
from typing import Final

from thence.core.groups import Place
from thence.replica.step_outputs import Rows
from thence.trace.recorder import CRASH, DELIVER, EACH_TIME, LEAVE, SEND, SUBSCRIBE, UNSUBSCRIBE

Row = tuple[int, Place | None, tuple[Place, ...] | None, int, tuple[Place, ...]]
"""Kind, message, named messages, time, carried operations."""


class SimDiary:
    """The rows of one incarnation: those of a step are written when its outputs are released. A crash forgets
    the others, and after the restart the log tells them again."""

    writes: Final = True

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.channels: dict[Place, str] = {}
        """By message: the channel that it was sent to."""
        self.dests: dict[Place, tuple[str, ...]] = {}
        """By message: its addressees, if it was not sent to all."""
        self.delivered_bytes = 0
        """What programs had given for the messages that were delivered."""
        self.state_bytes = 0
        """Of the states that came."""
        self._fresh: list[Row] = []
        self._fresh_bytes = self._fresh_state_bytes = 0
        self._known: set[tuple[int, Place | None]] = set()

    @property
    def ended(self) -> bool:
        return (CRASH, None) in self._known

    def is_ahead(self, count: Callable[[str], int]) -> bool:
        told = [about for kind, about, *_ in self.rows if kind in (SEND, DELIVER) and about]
        return any(seq > count(origin) for origin, seq in told)

    def has_row(self, kind: int, about: Place) -> bool:
        return (kind, about) in self._known

    def row(
        self, kind: int, about: Place | None, deps: tuple[Place, ...] | None, now: int,
        carries: tuple[Place, ...] = (), *, channel: str = "", key: int = 0, dest: tuple[str, ...] = (),
        size: int = 0,
    ) -> None:  # fmt: skip
        """`channel`: that a message is sent to, or that the node is a member of from here on or not any more;
        then `key` tells rows apart that say the same, and both stand where a message would. `dest`: its
        addressees. `size`: of what is delivered, or of a state that came, its bytes."""
        if kind in (SUBSCRIBE, UNSUBSCRIBE):
            about = channel, key
        elif channel and about is not None:
            self.channels[about] = channel
        if dest and about is not None:
            self.dests[about] = dest
        if kind not in EACH_TIME:
            if (kind, about) in self._known:
                return
            self._known.add((kind, about))
        self._fresh.append((kind, about, deps, now, carries))
        if kind == DELIVER:
            self._fresh_bytes += size
        else:
            self._fresh_state_bytes += size

    def take(self) -> list[Row]:
        fresh, self._fresh = self._fresh, []
        self.delivered_bytes += self._fresh_bytes
        self.state_bytes += self._fresh_state_bytes
        self._fresh_bytes = self._fresh_state_bytes = 0
        return fresh

    def write(self, rows: list[Row]) -> None:
        self.rows += rows

    def take_back(self) -> None:
        """The step never happened."""
        for kind, about, *_ in self._fresh:
            self._known.discard((kind, about))
        self._fresh.clear()
        self._fresh_bytes = self._fresh_state_bytes = 0

    def crash(self) -> None:
        """What was not written is forgotten."""
        self._fresh.clear()
        self._fresh_bytes = self._fresh_state_bytes = 0
        self._known = {(kind, about) for kind, about, *_ in self.rows if kind not in EACH_TIME}


class SimTrace:
    """`steps.Trace` of a process: all its incarnations'."""

    waiting = False

    def __init__(self) -> None:
        self.diaries: list[SimDiary] = []

    def take(self) -> Rows:
        return [(diary, rows) for diary in self.diaries if (rows := diary.take())]

    def take_back(self) -> None:
        for diary in self.diaries:
            diary.take_back()

    def crash(self) -> None:
        for diary in self.diaries:
            diary.crash()

    def write_waiting(self) -> None:
        """Nothing ever waits."""


def close(diaries: dict[str, SimDiary], running: set[str], now: int) -> None:
    """Say of incarnations that neither run nor have left that they are down. To have left is to have been
    heard by one that runs, or has left: others may have left a side that was given up."""
    heard = {about for name in running for kind, about, *_ in diaries[name].rows if kind == DELIVER}
    left = {}
    for name, diary in diaries.items():
        kinds = [kind for kind, *_ in diary.rows]
        if LEAVE in kinds and CRASH not in kinds:
            left[name] = (name, kinds.count(SEND))
    settled = set() if running else set(left)
    while fresh := {name for name, last in left.items() if last in heard} - settled:
        settled |= fresh
        heard |= {about for name in fresh for kind, about, *_ in diaries[name].rows if kind == DELIVER}
    for name, diary in diaries.items():
        if name not in running | settled and diary.rows and diary.rows[-1][0] != CRASH:
            diary.row(CRASH, None, None, now)
            diary.write(diary.take())
