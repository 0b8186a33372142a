"""What a step has for others, kept until it may leave: rows of the trace, packets, wishes, answers.

Invariants. Steps have their consequences in the order in which they were taken; none before the log is as
durable as its policy wants it to be. Rows come first: others must not see an effect that the trace does not
know. What could not be written, or went wrong, stays in front.
"""

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from thence.core.errors import StorageError, ThenceError
from thence.core.machine import LinkEffect
from thence.oplog.log import OpLog
from thence.runtime.asked import Answer, refuse
from thence.runtime.tracing import Rows

P = TypeVar("P", bound=Hashable)
"""How peers are told apart."""

T = TypeVar("T")
"""What becomes of a broadcast."""


class Step(NamedTuple, Generic[P, T]):
    """One step's, once `log` is durable enough for a position."""

    log: OpLog | None
    position: int
    rows: Rows
    packets: dict[P, list[bytes]]
    answers: Sequence[Answer[T]]
    wishes: Sequence[LinkEffect] = ()
    """Links to be opened and closed, after the packets: some of those say why."""


class Consequences(Generic[P, T]):
    __slots__ = ("_log", "_relink", "_send", "_steps")

    def __init__(
        self,
        log: Callable[[], OpLog | None],
        send: Callable[[P, Sequence[bytes]], None],
        relink: Callable[[Sequence[LinkEffect]], None],
    ) -> None:
        """`log`: the one that counts at present."""
        self._log: Final = log
        self._send: Final = send
        self._relink: Final = relink
        self._steps: Final[deque[Step[P, T]]] = deque()

    def __len__(self) -> int:
        return len(self._steps)

    def add(self, step: Step[P, T]) -> None:
        self._steps.append(step)

    def follow(self) -> None:
        """All that may. In order: a segment that was sealed makes later steps durable while a sync for
        earlier ones is still under way. `StorageError`: a trace could not be written; it keeps what it was
        given."""
        steps = self._steps
        while steps and self._is_durable(steps[0]):
            step = steps.popleft()
            if step.rows:
                self._write(step)
            try:
                for peer, packets in step.packets.items():
                    self._send(peer, packets)
                if step.wishes:
                    self._relink(step.wishes)
            except Exception:
                steps.appendleft(step._replace(rows=[], packets={}, wishes=()))
                raise
            for future, became in step.answers:
                if not future.done():
                    future.set_result(became)

    def _write(self, step: Step[P, T]) -> None:
        rest = list(step.rows)
        try:
            while rest:
                trace, data = rest.pop(0)
                trace.write(data)
        except StorageError:
            self._steps.appendleft(step._replace(rows=rest))
            raise

    def _is_durable(self, step: Step[P, T]) -> bool:
        """A log that was replaced never comes back: what was said over it needs it no more."""
        return step.log is None or step.log is not self._log() or step.log.may_leave(step.position)

    def cut_off(self) -> None:
        """Links begin anew: what is committed reaches the others then, and its answers wait for the disk."""
        for place, step in enumerate(self._steps):
            self._steps[place] = step._replace(packets={}, wishes=())

    def refuse(self, error: ThenceError) -> None:
        """There will be none."""
        waiting = [future for step in self._steps for future, _ in step.answers]
        self._steps.clear()
        refuse(waiting, error)
