"""Runs the steps of one process: an event loop's timers, links and sync thread around `replica.steps`.

Nothing about the protocol or the order of a step is decided here. Inputs come with the clock, effects are
carried out in the order in which they are released.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from operator import methodcaller
from typing import Any, Final, Generic, TypeVar

from thence.core.errors import StorageError, ThenceError, refused, stopper
from thence.replica.contract import Machine
from thence.replica.step_outputs import BeginAnew, BeginSync, RefuseCalls, Release, Stop
from thence.replica.step_states import StepState
from thence.replica.steps import Steps
from thence.runtime.alarm import Alarm
from thence.runtime.batching import CallBatch
from thence.runtime.home import FORKED, watch
from thence.runtime.latency import DeliveryLatency
from thence.runtime.outlet import Call, Outlet, Sink, refuse, send_each
from thence.runtime.pacing import Clock
from thence.runtime.syncing import Syncs

M = TypeVar("M", bound=Machine[Any])
R = TypeVar("R")

STALLED: Final = StepState.STALLED
BROKEN: Final = StepState.BROKEN
"""Looked up once: on Python 3.11 a member of an enum costs a call."""

PROBE_EVERY_US: Final = 1_000_000
"""How often a disk that failed is tried again."""


class Driver(Generic[M]):
    def __init__(
        self, steps: Steps[M, Call], outlet: Outlet, sink: Sink, clock: Clock, syncer: Executor
    ) -> None:
        self.steps: Final = steps
        self._outlet: Final = outlet
        self._sink: Final = sink
        self._clock: Final = clock
        self._alarm: Final = Alarm(clock, partial(self._step, steps.wake))
        self._probing: Final = Alarm(clock, partial(self._step, steps.probe))
        self._batch: Final = CallBatch(steps, clock, self._carry_out)
        self.publish: Final = self._batch.publish
        self.gather: Final = self._batch.gather
        self.settle: Final = self._batch.settle
        self.latency: Final = DeliveryLatency(clock)
        self._syncs: Final = Syncs(syncer, self._synced)
        self.broken: Final[asyncio.Future[ThenceError]] = asyncio.get_running_loop().create_future()
        """Done when the process must end, with why."""
        self.sent = 0
        """Own messages that have left: none of a call that was refused."""
        steps.appetite = sink.appetite
        steps.calls.given_up = methodcaller("done")
        watch(self)

    @property
    def machine(self) -> M:
        return self.steps.machine

    @property
    def trouble(self) -> ThenceError | None:
        """Why nothing is written at present."""
        return self.steps.why

    @property
    def syncs(self) -> int:
        """That have succeeded."""
        return self._syncs.count

    def forked(self) -> None:
        """This is a copy in another process: it neither writes nor speaks."""
        self.steps.state, self.steps.why = StepState.BROKEN, StorageError(FORKED)

    # Inputs

    def link_up(self, peer: str) -> None:
        self._step(self.steps.link_up, peer)

    def link_down(self, peer: str) -> None:
        self.run(lambda machine, now: machine.link_down(peer, now))

    def packets(self, peer: str, data: Sequence[bytes], now: int) -> None:
        """All packets of one read. What came before garbage counts; then `PeerError`."""
        steps, before = self.steps, self.steps.taken
        try:
            steps.receive(peer, self._outlet.unpack(peer, data), now)
            if steps.taken > before:
                self.latency.observe(self._clock() - now)
            elif self.latency.sample is None and (waiting := steps.machine.waiting):
                self.latency.sample = now, steps.taken + waiting
        finally:
            self._carry_out(now)

    def run(self, act: Callable[[M, int], object]) -> None:
        """Something happens to the machine."""
        self._step(self.steps.run, act)

    def call(self, act: Callable[[M, int], R]) -> R:
        """A person or a program asks something of it. `UsageError` if that makes no sense."""
        result: R = self._step(self.steps.call, act)
        return result

    def stops(self, error: Exception) -> None:
        """Something went wrong around the steps that is no peer's fault: the process must end."""
        self._step(lambda now: self.steps.broke(error))  # noqa: ARG005

    def begin_again(self, why: StorageError, clear: Callable[[], None]) -> None:
        """The machine must not go on as the incarnation that it is: it is built anew, after `clear`."""
        self._step(self.steps.begin_again, why, clear)

    def take(self) -> None:
        """The program takes what it has an appetite for."""
        self.run(lambda machine, now: None)  # noqa: ARG005

    def start(self) -> None:
        """What the machine wanted when it was made is done."""
        self.take()

    def _step(self, step: Callable[..., R], *words: Any) -> R:
        """With the clock, and all that follows from it."""
        now = self._clock()
        try:
            return step(*words, now)
        finally:
            self._carry_out(now)

    # Effects

    def _carry_out(self, now: int) -> None:
        """All that the steps have released, in order, and what they wait for."""
        steps = self.steps
        try:
            if steps.effects:
                self._drain()
            if self.latency.sample is not None:
                self.latency.look(steps)
            self._sink.stepped(now)
        except Exception as error:
            steps.broke(error)
            self._drain()
        if self._syncs.closing:
            return
        if steps.state is STALLED:
            self._probing.set(now + PROBE_EVERY_US)
        elif (steps.calls.asked or steps.calls.queue.held) and self._batch.turn is None and steps.due:
            self._batch.plan()
        if (at := steps.wake_at) < self._alarm.at and steps.why is None:
            self._alarm.set(at)

    def _drain(self) -> None:
        effects = self.steps.effects
        while effects:
            effect = effects.popleft()
            if type(effect) is Release:
                self._release(effect)
            elif type(effect) is BeginSync:
                self._syncs.begin(effect)
            elif type(effect) is RefuseCalls:
                refuse(effect.calls, effect.error)
            elif type(effect) is Stop:
                if not self.broken.done():
                    self.broken.set_result(effect.why)
            elif type(effect) is BeginAnew:
                self._outlet.begin_anew(effect.why)

    def _release(self, effect: "Release[Call]") -> None:
        steps = self.steps
        why = steps.why if steps.state is BROKEN else None
        try:
            if why is None:
                if effect.posts:
                    send_each(self._outlet, effect.posts, steps.machine.encode)
                if effect.links is not None:
                    self._outlet.keep(effect.links)
                if effect.events:
                    self._sink.tell(effect.events)
        except Exception as error:
            why = stopper(error)
            steps.broke(error)
        if why is not None:
            refuse([call for call, _ in effect.answers], refused(why, definite=False))
            return
        for call, sent in effect.answers:
            self.sent += len(sent)
            if not call.done():
                call.set_result(sent)

    def _synced(self, effect: BeginSync, error: Exception | None) -> None:
        if error is None:
            self._step(self.steps.synced, *effect)
        else:
            self._step(self.steps.sync_failed, *effect, error)

    async def close(self) -> bool:
        """Everything committed and synced that can be, every call answered; no timer or task is left. Whether
        that went well."""
        self._syncs.closing = True
        self.settle()
        await self._syncs.over()
        self._batch.close()
        self._probing.close()
        self._alarm.close()
        return self._step(self.steps.close)
