"""The order of a step: act, take, commit, hold, release. docs/protocols/steps.md has states and invariants.

Sans-IO: inputs come with `now`, and what is to be done stands in `effects`, for a driver or a simulator to
carry out in order. The log and the trace write through the files that they were given.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

from thence.core.errors import PeerError, StorageError, ThenceError, UsageError, refused, stopper
from thence.core.groups import Place
from thence.core.machine import NEVER, Wake
from thence.oplog.log import OpLog
from thence.oplog.policy import DiskSync
from thence.replica.contract import Machine
from thence.replica.held_outputs import Held, HeldOutputs, M
from thence.replica.pending_calls import Answers, PendingCalls
from thence.replica.send_queue import SendQueue, why_not
from thence.replica.step_outputs import (
    BeginAnew,
    BeginSync,
    C,
    RefuseCalls,
    Release,
    Stop,
    Trace,
)
from thence.replica.step_states import LIVES, RUNS, STEP, StepState

R = TypeVar("R")

TIDY_EVERY_US: Final = 5_000_000
"""How often to look whether the log should be shortened: segments come and go in minutes."""

TAKE_MAX: Final = 1024
"""Messages that a program takes in one step."""


class Steps(HeldOutputs[M, C]):
    __slots__ = (
        "_log_wake_at", "_make", "_missed_link", "_tidy_at", "appetite", "calls", "taken", "tidies", "why",
    )  # fmt: skip

    def __init__(
        self, machine: M, make: Callable[[int], M], trace: Trace, queue: SendQueue[C], now: int
    ) -> None:
        """`make` builds the machine from what is on its disk, as `machine` was."""
        super().__init__(machine, trace)
        self._make: Final = make
        self._log_wake_at = NEVER
        self._missed_link = False
        self._tidy_at = now + TIDY_EVERY_US
        self.calls: Final = PendingCalls(queue, self.effects)
        self.why: ThenceError | None = None
        """Why no step is taken at present."""
        self.appetite: Callable[[], int] = lambda: 0
        """How many messages the program would take now."""
        self.tidies = True
        """The log is shortened from time to time."""
        self.taken = 0

    # Inputs

    def run(self, act: Callable[[M, int], object], now: int) -> None:
        """Something happens to the machine."""
        self._close_run(now)
        if self.state not in RUNS:
            return
        try:
            act(self.machine, now)
        except Exception as error:
            self._failed(error)
        else:
            self._end(now)

    @property
    def runs(self) -> bool:
        """It takes steps."""
        return self.state in RUNS

    def link_up(self, peer: str, now: int) -> None:
        """A link that comes up while nothing is written is not greeted: it begins anew after that. What waits
        for a sync means nothing over a new link."""
        self._missed_link = self._missed_link or self.state is StepState.STALLED
        self._drop_posts(peer)
        self.run(lambda machine, now: machine.link_up(peer, now), now)

    def call(self, act: Callable[[M, int], R], now: int) -> R:
        """A person or a program asks something of the machine. `UsageError`: nothing was done."""
        self._close_run(now)
        if self.why is not None:
            raise refused(self.why)
        try:
            result = act(self.machine, now)
        except UsageError:
            raise
        except Exception as error:
            self._failed(error)
            raise refused(stopper(error)) from error
        self._end(now)
        if self.why is not None:
            raise refused(self.why, self.state is StepState.STALLED)  # then the step never happened
        return result

    def receive(self, peer: str, packets: Iterable[Any], now: int) -> None:
        """All packets of one read. What came before garbage counts; then `PeerError`."""
        if self.calls.asked:
            self._close_run(now)
        if self.state not in RUNS:
            return  # the link is about to go down, and all of this comes again
        garbage: PeerError | None = None
        receive = self.machine.receive
        try:
            for packet in packets:
                receive(peer, packet, now)
        except PeerError as error:
            garbage = error
        except Exception as error:
            self._failed(error)
            return
        self._end(now)
        if garbage is not None:
            raise garbage

    def ask(self, payloads: Sequence[bytes], call: C) -> None:
        """Broadcast these in the next `settle`."""
        why = refused(self.why) if self.why is not None else self.machine.refuses
        if why is None:
            self.calls.asked.append((payloads, call))
            self.calls.last = payloads
        else:
            self.effects.append(RefuseCalls([call], why))

    @property
    def due(self) -> bool:
        """Are there broadcasts to `settle`?"""
        calls = self.calls
        if calls.asked or not calls.queue.held:
            return bool(calls.asked)
        return self.state in RUNS and not self.machine.in_debt

    def settle(self, now: int) -> None:
        """All broadcasts that were asked for, in one step."""
        if self.state not in RUNS:
            return
        calls = self.calls
        asked, calls.asked, calls.last = calls.asked, [], None
        if calls.queue.held or self.machine.in_debt:
            asked = calls.in_turn(self.machine, asked, now)
        if len(asked) != 1 or calls.given_up(asked[0][1]):
            asked = [ask for ask in asked if not calls.given_up(ask[1])]
        try:
            answers = calls.broadcast(self.machine, asked, now)
        except Exception as error:
            self._failed(error, [call for _, call in asked])
            return
        self._end(now, answers)

    def next_place(self) -> Place:
        """Of the next operation, where all that was asked for is sent. It is said why it cannot be."""
        if self.why is not None:
            raise refused(self.why)
        machine: Machine[Any] = self.machine
        if machine.in_debt or self.calls.queue.held:
            raise UsageError(why_not(machine.waits_for))
        if machine.refuses is not None:
            raise machine.refuses
        return machine.me, machine.sent + 1

    def _close_run(self, now: int) -> None:
        """What was asked for follows from what the program had taken by then, and has the next counters: it
        is sent before anything else happens."""
        if self.calls.asked:
            self.settle(now)

    def wake(self, now: int) -> None:
        self._close_run(now)
        if self.state not in RUNS:
            return
        machine, log = self.machine, self.machine.log
        try:
            if now >= self._log_wake_at:
                self._log_wake_at = NEVER
                if log is not None:
                    self._log_effects(log, log.wake(now))
            if now >= machine.wake_at:
                machine.wake(now)
        except Exception as error:
            self._failed(error)
            return
        if now >= self.calls.queue.wake_at:
            self.settle(now)
        else:
            self._end(now)

    @property
    def wake_at(self) -> int:
        """When `wake` is due."""
        at = self.machine.wake_at
        if self._log_wake_at < at:
            at = self._log_wake_at
        return min(at, self.calls.queue.wake_at) if self.calls.queue.held else at

    def synced(self, log: OpLog, sync: DiskSync, now: int) -> None:
        self._sync_over(log, lambda: log.synced(sync, now))

    def sync_failed(self, log: OpLog, sync: DiskSync, error: Exception, now: int) -> None:
        """Forgiven only if the log has become durable otherwise: then the next sync begins as ever."""
        why = error if isinstance(error, StorageError) else StorageError(str(error))
        self._sync_over(log, lambda: log.sync_failed(sync, why, now))
        if log is self.machine.log and log.broken is not None:
            self.broke(why)

    def _sync_over(self, log: OpLog, told: Callable[[], Sequence[DiskSync | Wake]]) -> None:
        if log is not self.machine.log or self.state not in LIVES:
            return  # of an incarnation that was replaced, or of a machine that was built anew
        try:
            self._log_effects(log, told())
            self._release()
        except Exception as error:
            self._failed(error)

    def probe(self, now: int) -> None:
        """Stalled: does the disk take writes again? Then the machine is built from its log."""
        if self.state is not StepState.STALLED:
            return
        try:
            self._trace.write_waiting()
            machine = self._make(now)
            if machine.log is not None:
                machine.log.sync(now)  # what was read from it may have been committed and not synced
        except StorageError as error:
            self.why = error
            self._trace.take_back()
            return
        except Exception as error:
            self.broke(error)
            return
        self.machine, self.why = machine, None
        self._log_wake_at = NEVER
        self._move(StepState.READY)
        if self._missed_link:
            self._missed_link = False
            self.effects.append(BeginAnew("links were made while nothing could be written"))
        try:
            self._release()
        except Exception as error:
            self._failed(error)
        else:
            self._end(now)

    def begin_again(self, why: StorageError, clear: Callable[[], None], now: int) -> None:
        """The machine must not go on as the incarnation that it is: all that it has done counts, what was
        asked for is refused, and after `clear` another one is built from what is on the disk then."""
        if self.state not in RUNS:
            return
        try:
            if self.machine.log is not None:
                self.machine.log.sync(now)
            self._release()
            clear()
        except Exception as error:
            self._failed(error)
            return
        self.calls.refuse(refused(why))
        self._refuse_held(refused(why, definite=False))
        self._move(StepState.STALLED)
        self.why = why
        self.effects.append(BeginAnew(str(why)))
        self.probe(now)

    def broke(self, error: Exception) -> None:
        """A sync failed, or a bug was met, here or in the world around: the process must end."""
        if self.state in (StepState.BROKEN, StepState.CLOSED):
            return
        why = stopper(error)
        self._move(StepState.BROKEN)
        self.why = why
        self._trace.take_back()
        self._refuse_held(refused(why, definite=False))
        self.calls.refuse(refused(why))
        self.effects.append(Stop(why))
        self.effects.append(BeginAnew(str(why)))

    def close(self, now: int) -> bool:
        """The end, when no sync is under way. Everything is committed and synced that can be; whether that
        went well."""
        well = self.state in RUNS
        if well:
            log = self.machine.log
            try:
                if log is not None:
                    log.close(now)
                self._release()
            except Exception as error:
                well = False
                self.why = stopper(error)
        unsure = StorageError("the node was closed before it was certain that this is written")
        unsure.definite = False
        self._refuse_held(unsure)
        if late := [call for _, call in self.calls.queue.take()]:
            self.effects.append(RefuseCalls(late, UsageError("not sent: the node was closed")))
        self.calls.refuse(StorageError("the node was closed before this was written"))
        self._move(StepState.CLOSED)
        self.why = self.why or StorageError("this node is closed")
        return well

    # A step's end

    def _end(self, now: int, answers: Answers[C] | None = None) -> None:
        """The machine has acted: write it down, and let it have its consequences once it may."""
        machine, answers = self.machine, answers or []
        try:
            if machine.waiting:
                self.taken += machine.take(self.appetite(), now)
            effects = machine.commit(now)
            log = machine.log
            if effects and log is not None:
                self._log_effects(log, effects)
            rows, output = self._trace.take(), machine.output()
        except Exception as error:
            self._failed(error, [call for call, _ in answers])
            return
        posts, links, events = output
        if posts or events or answers or rows or links is not None:
            release = Release(posts, links, events, answers)
            if rows or self._held or log is None or not log.may_leave(log.tail):
                self._held.append(Held(log, log.tail if log is not None else 0, rows, release))
            else:
                self.effects.append(release)  # as it would from there, at once
        try:
            if self._held:
                self._release()
            if now >= self._tidy_at and self.tidies:
                self._tidy(machine, now)
        except Exception as error:
            self._failed(error)

    def _tidy(self, machine: M, now: int) -> None:
        self._tidy_at = now + TIDY_EVERY_US
        if not machine.untidy(now):
            return
        log = machine.log
        if self._held and log is not None:
            log.sync(now)  # what the log forgets cannot be added to a trace later: rows first
            self._release()
        if not self._held:
            machine.tidy(now)

    def _log_effects(self, log: OpLog, effects: Sequence[DiskSync | Wake]) -> None:
        for effect in effects:
            if isinstance(effect, Wake):
                self._log_wake_at = min(self._log_wake_at, effect.at)
            else:
                self.effects.append(BeginSync(log, effect))

    # Calls

    # Failures

    def _failed(self, error: Exception, calls: Sequence[C] = ()) -> None:
        """The step that was under way never happened, or is the last one."""
        log = self.machine.log
        stalls = isinstance(error, StorageError) and (log is None or log.broken is None)
        if calls:
            self.effects.append(RefuseCalls(calls, refused(stopper(error), stalls)))
        if not stalls:
            self.broke(error)
            return
        assert isinstance(error, StorageError)
        self._trace.take_back()
        self.machine.drop()
        if self.state is not StepState.STALLED:  # else a trace could not be written for what a sync let go
            self._move(StepState.STALLED)
        self.why = error
        self._drop_links()
        self.calls.refuse(refused(error))
        self.effects.append(BeginAnew(str(error)))

    def _move(self, state: StepState) -> None:
        self.state = STEP.move(self.state, state)
