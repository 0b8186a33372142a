"""Outputs of steps, held until the log may let them go: the base of `steps`.

Invariant: they leave in the order of their steps, the rows of each first.
"""

from collections import deque
from typing import Any, Final, Generic, NamedTuple, TypeVar

from msgspec.structs import replace

from thence.core.errors import StorageError, ThenceError
from thence.oplog.log import OpLog
from thence.replica.contract import Machine
from thence.replica.step_outputs import C, Effect, RefuseCalls, Release, Rows, Trace
from thence.replica.step_states import RUNS, StepState

M = TypeVar("M", bound=Machine[Any])


class Held(NamedTuple, Generic[C]):
    """Outputs of a step, until `log` is durable enough for a position."""

    log: OpLog | None
    position: int
    rows: Rows
    release: Release[C]


class HeldOutputs(Generic[M, C]):
    __slots__ = ("_held", "_trace", "effects", "machine", "state")

    def __init__(self, machine: M, trace: Trace) -> None:
        self._trace: Final = trace
        self._held: Final[deque[Held[C]]] = deque()
        self.machine = machine
        self.effects: Final[deque[Effect[C]]] = deque()
        self.state = StepState.READY

    def _release(self) -> None:
        """All outputs that may leave, in the order of their steps: a segment that is sealed makes later ones
        durable while a sync for earlier ones is under way. `StorageError`: the trace could not be written."""
        held = self._held
        if not held or self._trace.waiting:
            return
        while held and self._may_leave(held[0]):
            first = held.popleft()
            rows = list(first.rows)
            try:
                while rows:
                    file, data = rows.pop(0)
                    file.write(data)
            except StorageError:
                held.appendleft(first._replace(rows=rows))
                raise
            self.effects.append(first.release)
        if self.state in RUNS:
            self.state = StepState.WAITING if held else StepState.READY

    def _may_leave(self, held: Held[C]) -> bool:
        """Of a log that was replaced everything: the next incarnation's state has it, and is durable."""
        log = held.log
        return log is None or log is not self.machine.log or log.may_leave(held.position)

    def _drop_posts(self, peer: str) -> None:
        """What waits for a sync was for the link before the one that comes up, and is lost with that."""
        for place, held in enumerate(self._held):
            posts = [post for post in held.release.posts if post[0] != peer]
            self._held[place] = held._replace(release=replace(held.release, posts=posts))

    def _drop_links(self) -> None:
        """All links begin anew: peers get it over the next ones."""
        for place, held in enumerate(self._held):
            self._held[place] = held._replace(release=replace(held.release, posts=(), links=None))

    def _refuse_held(self, error: ThenceError) -> None:
        calls = [call for held in self._held for call, _ in held.release.answers]
        self._held.clear()
        if calls:
            self.effects.append(RefuseCalls(calls, error))
