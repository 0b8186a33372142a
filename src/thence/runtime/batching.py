"""Broadcasts that are asked for in one turn of the loop are one step (`replica.steps`).

A lone one is a step at once, and its answer does not wait for the loop. Once a turn has had several, those of
the next are gathered until it is over, since each step costs a write and a packet for each peer.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from thence.replica.steps import Steps
from thence.runtime.outlet import Call, Waited
from thence.runtime.pacing import Clock


class CallBatch:
    __slots__ = ("_asked", "_carry_out", "_clock", "_loop", "_several", "_steps", "turn")

    def __init__(self, steps: Steps[Any, Call], clock: Clock, carry_out: Callable[[int], None]) -> None:
        """`carry_out`: what the steps release."""
        self._steps: Final = steps
        self._clock: Final = clock
        self._carry_out: Final = carry_out
        self._loop: Final = asyncio.get_running_loop()
        self.turn: asyncio.Handle | None = None
        """Of the loop, in which there were broadcasts."""
        self._several = False
        """There were in the last one, so gathering pays."""
        self._asked = 0

    def publish(self, payloads: Sequence[bytes]) -> Waited:
        """Broadcast these."""
        lone = self.turn is None and not self._several
        call: Waited = self._loop.create_future()
        self.gather(payloads, call)
        if lone:
            self.settle()
        elif self._steps.effects:  # a call that is refused is told at once
            self._carry_out(self._clock())
        return call

    def gather(self, payloads: Sequence[bytes], call: Call) -> None:
        """Broadcast these at the end of the turn, with those that are added until then."""
        self._steps.ask(payloads, call)
        self._asked += 1
        if self.turn is None:
            self.turn = self._loop.call_soon(self._turn_over)

    def plan(self) -> None:
        """What is due is broadcast when the turn is over."""
        self.turn = self._loop.call_soon(self._turn_over)

    def settle(self) -> None:
        """What was asked for is broadcast now, not when the turn is over."""
        now = self._clock()
        self._steps.settle(now)
        self._carry_out(now)

    def _turn_over(self) -> None:
        self.turn = None
        self._several, self._asked = self._asked > 1, 0
        if self._steps.calls.last is not None or self._steps.due:
            self.settle()

    def close(self) -> None:
        if self.turn is not None:
            self.turn.cancel()
