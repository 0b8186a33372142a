"""Broadcasts that programs have asked for and that are in no step yet (`steps`).

Those of one turn are gathered, and made in one step. While the machine is *in debt* (operations from before a
return are still to be sent again) they wait in a queue, which is bounded and has a time limit.
"""

from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, Final, Generic, TypeVar

from thence.core.errors import ThenceError, UsageError
from thence.replica.contract import Machine
from thence.replica.life_tag import Sent
from thence.replica.send_queue import SendQueue, why_not
from thence.replica.step_outputs import Effect, RefuseCalls

C = TypeVar("C")
"""A call: how its answer finds the caller."""

Asks = list[tuple[Sequence[bytes], C]]
Answers = list[tuple[C, Sequence[Sent]]]


class PendingCalls(Generic[C]):
    __slots__ = ("_effects", "asked", "given_up", "last", "queue")

    def __init__(self, queue: SendQueue[C], effects: deque[Effect[C]]) -> None:
        self._effects: Final = effects
        self.queue: Final = queue
        """Broadcasts that wait behind what is still to be sent again."""
        self.asked: Asks[C] = []
        self.last: Sequence[bytes] | None = None
        """Of those that are asked for: to these more can be added."""
        self.given_up: Callable[[C], bool] = lambda call: False  # noqa: ARG005
        """Does the caller wait no more? A call that was given up before it was begun is not made."""

    def broadcast(self, machine: Machine[Any], batch: Asks[C], now: int) -> Answers[C]:
        """All at once, as one run, so that they are one message; one by one if a call cannot be made."""
        if len(batch) > 1:
            try:
                run = [payload for payloads, _ in batch for payload in payloads]
                sent = iter(machine.broadcast(run, now))
            except UsageError:
                pass  # none was made; it is told whose it is
            else:
                return [(call, list(islice(sent, len(payloads)))) for payloads, call in batch]
        answers: Answers[C] = []
        for payloads, call in batch:
            try:
                answers.append((call, machine.broadcast(payloads, now)))
            except UsageError as error:
                self._effects.append(RefuseCalls([call], error))
        return answers

    def in_turn(self, machine: Machine[Any], asked: Asks[C], now: int) -> Asks[C]:
        """The broadcasts that may be made now. While the machine is in debt, none may."""
        queue = self.queue
        if queue.held and (late := queue.overdue(now)):
            self._effects.append(RefuseCalls(late, UsageError(why_not(machine.waits_for))))
        if not machine.in_debt:
            return [*queue.take(), *asked] if queue.held else asked
        for payloads, call in asked:
            if not queue.add(payloads, call, now):
                self._effects.append(RefuseCalls([call], UsageError(why_not(machine.waits_for, room=False))))
        return []

    def refuse(self, error: ThenceError) -> None:
        calls = [call for _, call in (*self.queue.take(), *self.asked)]
        self.asked.clear()
        self.last = None
        if calls:
            self._effects.append(RefuseCalls(calls, error))
