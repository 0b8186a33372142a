"""The order of a step: act, take, commit, hold, release. docs/protocols/steps.md has states and invariants.

Sans-IO: inputs come with `now`, and what is to be done stands in `effects`, for a driver or a simulator to
carry out in order. The log and the trace write through the files that they were given.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from itertools import islice
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from thence.core.errors import PeerError, StorageError, ThenceError, UsageError, refused, stopper
from thence.core.machine import NEVER, Wake
from thence.oplog.log import OpLog
from thence.oplog.policy import Sync
from thence.replica.contract import Machine
from thence.replica.group_sending import SendQueue, why_not
from thence.replica.life_tag import Sent

M = TypeVar("M", bound=Machine[Any])
C = TypeVar("C")
"""A call: how its answer finds the caller."""
R = TypeVar("R")

Asks = list[tuple[Sequence[bytes], C]]
Answers = list[tuple[C, Sequence[Sent]]]

TIDY_EVERY_US: Final = 5_000_000
"""How often to look whether the log should be shortened: segments come and go in minutes."""

TAKE_MAX: Final = 1024
"""Messages that a program takes in one step."""


class State(Enum):
    READY = "ready"
    WAITING = "waiting"
    STALLED = "stalled"
    BROKEN = "broken"
    CLOSED = "closed"


RUNS: Final = (State.READY, State.WAITING)

MOVES: Final[Mapping[State, frozenset[State]]] = {
    State.READY: frozenset({State.WAITING, State.STALLED, State.BROKEN, State.CLOSED}),
    State.WAITING: frozenset({State.READY, State.STALLED, State.BROKEN, State.CLOSED}),
    State.STALLED: frozenset({State.READY, State.WAITING, State.BROKEN, State.CLOSED}),
    State.BROKEN: frozenset({State.CLOSED}),
    State.CLOSED: frozenset(),
}


class TraceFile(Protocol):
    def write(self, data: Any) -> None:
        """`StorageError`: it keeps what it was given, and writes that first the next time."""
        ...


Rows = Sequence[tuple[TraceFile, Any]]


class Trace(Protocol):
    """Rows of the step, as the machine records them."""

    @property
    def waiting(self) -> bool:
        """Some could not be written: they go first."""
        ...

    def take(self) -> Rows:
        """Those of the step, which is committed."""
        ...

    def take_back(self) -> None:
        """The step never happened."""
        ...

    def write_waiting(self) -> None: ...


class Release(NamedTuple, Generic[C]):
    """Effect: the outputs of a step may leave, in this order."""

    posts: Sequence[tuple[str, Any]]
    links: Mapping[str, str | None] | None
    events: Sequence[Any]
    answers: Sequence[tuple[C, Sequence[Sent]]]


class Refuse(NamedTuple, Generic[C]):
    """Effect: tell these calls so."""

    calls: Sequence[C]
    error: ThenceError


class BeginSync(NamedTuple):
    """Effect: sync a file of this log, then say `synced` or `sync_failed`."""

    log: OpLog
    sync: Sync


class BeginAnew(NamedTuple):
    """Effect: drop every link; make new ones once the process runs again."""

    why: str


class Stop(NamedTuple):
    """Effect: the process must end."""

    why: ThenceError


Effect = Release[C] | Refuse[C] | BeginSync | BeginAnew | Stop


class Held(NamedTuple, Generic[C]):
    """Outputs of a step, until `log` is durable enough for a position."""

    log: OpLog | None
    position: int
    rows: Rows
    release: Release[C]


class Steps(Generic[M, C]):
    __slots__ = (
        "_asked", "_held", "_log_wake_at", "_make", "_missed_link", "_tidy_at", "_trace", "appetite",
        "effects", "last_asked", "machine", "queue", "state", "taken", "tidies", "wants", "why",
    )  # fmt: skip

    def __init__(
        self, machine: M, make: Callable[[int], M], trace: Trace, queue: SendQueue[C], now: int
    ) -> None:
        """`make` builds the machine from what is on its disk, as `machine` was."""
        self._make: Final = make
        self._trace: Final = trace
        self._asked: list[tuple[Sequence[bytes], C]] = []
        self.last_asked: Sequence[bytes] | None = None
        """Of the broadcasts that are still to be made: to these more can be added."""
        self._held: Final[deque[Held[C]]] = deque()
        self._log_wake_at = NEVER
        self._missed_link = False
        self._tidy_at = now + TIDY_EVERY_US
        self.machine = machine
        self.queue: Final = queue
        """Broadcasts that wait behind what is still to be sent again."""
        self.effects: Final[deque[Effect[C]]] = deque()
        self.state = State.READY
        self.why: ThenceError | None = None
        """Why no step is taken at present."""
        self.appetite: Callable[[], int] = lambda: 0
        """How many messages the program would take now."""
        self.wants: Callable[[C], bool] = lambda call: True  # noqa: ARG005
        """Does the caller still wait? A call that was given up before it was begun is not made."""
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
        for a sync was for the link before it, and is lost with that: over a new one it means nothing."""
        self._missed_link = self._missed_link or self.state is State.STALLED
        for place, held in enumerate(self._held):
            posts = [post for post in held.release.posts if post[0] != peer]
            self._held[place] = held._replace(release=held.release._replace(posts=posts))
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
            raise refused(self.why, self.state is State.STALLED)  # then the step never happened
        return result

    def receive(self, peer: str, packets: Iterable[Any], now: int) -> None:
        """All packets of one read. What came before garbage counts; then `PeerError`."""
        if self._asked:
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
            self._asked.append((payloads, call))
            self.last_asked = payloads
        else:
            self.effects.append(Refuse([call], why))

    @property
    def due(self) -> bool:
        """Are there broadcasts to `settle`?"""
        if not self.queue.held:
            return bool(self._asked)
        return bool(self._asked) or (self.state in RUNS and not self.machine.in_debt)

    def settle(self, now: int) -> None:
        """All broadcasts that were asked for, in one step."""
        if self.state not in RUNS:
            return
        batch = [ask for ask in self._in_turn(now) if self.wants(ask[1])]
        try:
            answers = self._broadcast(batch, now)
        except Exception as error:
            self._failed(error, [call for _, call in batch])
            return
        self._end(now, answers)

    def _close_run(self, now: int) -> None:
        """What was asked for follows from what the program had taken by then, and has the next counters: it
        is sent before anything else happens."""
        if self._asked:
            self.settle(now)

    def _broadcast(self, batch: Asks[C], now: int) -> Answers[C]:
        """All at once, as one run, so that they are one message; one by one if a call cannot be made."""
        machine = self.machine
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
                self.effects.append(Refuse([call], error))
        return answers

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
        if now >= self.queue.wake_at:
            self.settle(now)
        else:
            self._end(now)

    @property
    def wake_at(self) -> int:
        """When `wake` is due."""
        at = min(self.machine.wake_at, self._log_wake_at)
        return min(at, self.queue.wake_at) if self.queue.held else at

    def synced(self, log: OpLog, sync: Sync, now: int) -> None:
        if log is not self.machine.log or self.state not in (*RUNS, State.STALLED):
            return  # of an incarnation that was replaced, or of a machine that was built anew
        try:
            self._log_effects(log, log.synced(sync, now))
            self._release()
        except Exception as error:
            self._failed(error)

    def sync_failed(self, log: OpLog, sync: Sync, error: Exception, now: int) -> None:
        """Forgiven only if the log has become durable otherwise."""
        if log is not self.machine.log or self.state not in (*RUNS, State.STALLED):
            return
        why = error if isinstance(error, StorageError) else StorageError(str(error))
        log.sync_failed(sync, why, now)
        if log.durable < sync.position:
            self.broke(why)

    def probe(self, now: int) -> None:
        """Stalled: does the disk take writes again? Then the machine is built from its log."""
        if self.state is not State.STALLED:
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
        self._move(State.READY)
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
        """The machine must not go on as whom it is: all that it has done counts, what was asked for is
        refused, and after `clear` another one is built from what is on the disk then."""
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
        self._refuse_asked(refused(why))
        self._refuse_held(refused(why, definite=False))
        self._move(State.STALLED)
        self.why = why
        self.effects.append(BeginAnew(str(why)))
        self.probe(now)

    def broke(self, error: Exception) -> None:
        """A sync failed, or a bug was met, here or in the world around: the process must end."""
        if self.state in (State.BROKEN, State.CLOSED):
            return
        why = stopper(error)
        self._move(State.BROKEN)
        self.why = why
        self._trace.take_back()
        self._refuse_held(refused(why, definite=False))
        self._refuse_asked(refused(why))
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
        if late := [call for _, call in self.queue.take()]:
            self.effects.append(Refuse(late, UsageError("not sent: the node was closed")))
        self._refuse_asked(StorageError("the node was closed before this was written"))
        self._move(State.CLOSED)
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
            self.state = State.WAITING if held else State.READY

    def _may_leave(self, held: Held[C]) -> bool:
        """Of a log that was replaced everything: the next incarnation's state has it, and is durable."""
        log = held.log
        return log is None or log is not self.machine.log or log.may_leave(held.position)

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

    def _log_effects(self, log: OpLog, effects: Sequence[Sync | Wake]) -> None:
        for effect in effects:
            if isinstance(effect, Wake):
                self._log_wake_at = min(self._log_wake_at, effect.at)
            else:
                self.effects.append(BeginSync(log, effect))

    # Calls

    def _in_turn(self, now: int) -> list[tuple[Sequence[bytes], C]]:
        """The broadcasts that may be made now. While the machine is in debt, none may."""
        machine, queue = self.machine, self.queue
        asked, self._asked, self.last_asked = self._asked, [], None
        if queue.held and (late := queue.overdue(now)):
            self.effects.append(Refuse(late, UsageError(why_not(machine.waits_for))))
        if not machine.in_debt:
            return [*queue.take(), *asked] if queue.held else asked
        for payloads, call in asked:
            if not queue.add(payloads, call, now):
                self.effects.append(Refuse([call], UsageError(why_not(machine.waits_for, room=False))))
        return []

    def _refuse_asked(self, error: ThenceError) -> None:
        calls = [call for _, call in (*self.queue.take(), *self._asked)]
        self._asked.clear()
        self.last_asked = None
        if calls:
            self.effects.append(Refuse(calls, error))

    def _refuse_held(self, error: ThenceError) -> None:
        calls = [call for held in self._held for call, _ in held.release.answers]
        self._held.clear()
        if calls:
            self.effects.append(Refuse(calls, error))

    # Failures

    def _failed(self, error: Exception, calls: Sequence[C] = ()) -> None:
        """The step that was under way never happened, or is the last one."""
        log = self.machine.log
        stalls = isinstance(error, StorageError) and (log is None or log.broken is None)
        if calls:
            self.effects.append(Refuse(calls, refused(stopper(error), stalls)))
        if not stalls:
            self.broke(error)
            return
        assert isinstance(error, StorageError)
        self._trace.take_back()
        self.machine.drop()
        if self.state is not State.STALLED:  # else a trace could not be written for what a sync let go
            self._move(State.STALLED)
        self.why = error
        for place, held in enumerate(self._held):  # peers get it over the next links
            self._held[place] = held._replace(release=held.release._replace(posts=(), links=None))
        self._refuse_asked(refused(error))
        self.effects.append(BeginAnew(str(error)))

    def _move(self, state: State) -> None:
        assert state in MOVES[self.state], f"{self.state} to {state}"
        self.state = state
