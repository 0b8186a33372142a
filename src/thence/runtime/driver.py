"""Runs the steps of one process: an event loop's timers, links and sync thread around `replica.steps`.

Nothing about the protocol or the order of a step is decided here. Inputs come with the clock, effects are
carried out in the order in which they are released. A lone broadcast is a step at once; those of a turn of
the loop that has several are one step.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any, Final, Generic, Protocol, TypeVar

from thence.core.errors import StorageError, ThenceError, UsageError, refused, stopper
from thence.oplog.log import OpLog
from thence.oplog.policy import Sync
from thence.oplog.writer import untried
from thence.replica.contract import Machine
from thence.replica.group_sending import why_not
from thence.replica.life_tag import Sent
from thence.replica.steps import BeginAnew, BeginSync, Refuse, Release, State, Steps, Stop
from thence.runtime.alarm import Alarm
from thence.runtime.home import FORKED, watch
from thence.runtime.pacing import Clock

M = TypeVar("M", bound=Machine[Any])
R = TypeVar("R")


class Call(Protocol):
    """How an answer finds its caller: a future, or less than one."""

    def done(self) -> bool: ...

    def set_result(self, sent: Sequence[Sent], /) -> None: ...

    def set_exception(self, error: Exception, /) -> None: ...


Waited = asyncio.Future[Sequence[Sent]]


PROBE_EVERY_S: Final = 1.0
"""How often a disk that failed is tried again."""

SYNC_AGAIN_S: Final = 0.2
"""How soon a sync that could not be tried is, since no descriptor was left: calls may wait for it."""


class Outlet(Protocol):
    """Links to peers, by name."""

    def send(self, peer: str, packets: Sequence[bytes]) -> None: ...

    def unpack(self, peer: str, data: Sequence[bytes]) -> Iterator[Any]:
        """Packets that came over a link, as the machine understands them. `PeerError`: garbage."""
        ...

    def keep(self, links: Mapping[str, str | None]) -> None:
        """Keep links with these peers, at these addresses; None: not any more."""
        ...

    def begin_anew(self, why: str) -> None:
        """Drop every link, and make none while the process cannot write."""
        ...


class Sink(Protocol):
    """The node and its program."""

    def appetite(self) -> int:
        """How many messages the program would take now."""
        ...

    def tell(self, events: Sequence[Any]) -> None: ...

    def stepped(self, now: int) -> None:
        """Something may have changed."""
        ...


class Driver(Generic[M]):
    def __init__(
        self, steps: Steps[M, Call], outlet: Outlet, sink: Sink, clock: Clock, syncer: Executor
    ) -> None:
        self.steps: Final = steps
        self._outlet: Final = outlet
        self._sink: Final = sink
        self._clock: Final = clock
        self._syncer: Final = syncer
        self._loop: Final = asyncio.get_running_loop()
        self._alarm: Final = Alarm(clock, self._wake)
        self._turn: asyncio.Handle | None = None
        """Of the loop, in which there were broadcasts."""
        self._several = False
        """There were in the last one, so gathering pays."""
        self._asked = 0
        self._probing: asyncio.TimerHandle | None = None
        self._syncs: Final[set[asyncio.Task[None]]] = set()
        self._closing = False
        self._sample: tuple[int, int] | None = None
        """When a message arrived, and how many will have been taken when it is."""
        self.broken: Final[asyncio.Future[ThenceError]] = self._loop.create_future()
        """Done when the process must end, with why."""
        self.on_delivery: Callable[[int], None] = lambda _: None
        self.syncs = 0
        self.sent = 0
        """Own messages that have left: none of a call that was refused."""
        steps.appetite = sink.appetite
        steps.wants = lambda call: not call.done()
        watch(self)

    @property
    def machine(self) -> M:
        return self.steps.machine

    @property
    def trouble(self) -> ThenceError | None:
        """Why nothing is written at present."""
        return self.steps.why

    def forked(self) -> None:
        """This is a copy in another process: it neither writes nor speaks."""
        self.steps.state, self.steps.why = State.BROKEN, StorageError(FORKED)

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
                self.on_delivery(self._clock() - now)
            elif self._sample is None and (waiting := steps.machine.waiting):
                self._sample = now, steps.taken + waiting
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
        self.steps.broke(error)
        self._carry_out(self._clock())

    def begin_again(self, why: StorageError, clear: Callable[[], None]) -> None:
        """The machine must not go on as whom it is: it is built anew, after `clear`."""
        self._step(self.steps.begin_again, why, clear)

    def start(self) -> None:
        """What the machine wanted when it was made."""
        self.run(lambda machine, now: None)  # noqa: ARG005

    take = start
    """The program takes what it has an appetite for."""

    def publish(self, payloads: Sequence[bytes]) -> Waited:
        """Broadcast these."""
        lone = self._turn is None and not self._several
        call: Waited = self._loop.create_future()
        self.gather(payloads, call)
        if lone:
            self.settle()
        elif self.steps.effects:  # a call that is refused is told at once
            self._carry_out(self._clock())
        return call

    def be_ready(self) -> None:
        """All that was asked for is sent, and the next operation has the next counter; or it is said why it
        cannot be sent."""
        steps = self.steps
        if steps.due:
            self.settle()
        if steps.why is not None:
            raise refused(steps.why)
        machine: Machine[Any] = steps.machine
        if machine.in_debt or steps.queue.held:
            raise UsageError(why_not(machine.waits_for))
        if (why := machine.refuses) is not None:
            raise why

    def gather(self, payloads: Sequence[bytes], call: Call) -> None:
        """Broadcast these at the end of the turn, with those that are added until then."""
        self.steps.ask(payloads, call)
        self._asked += 1
        if self._turn is None:
            self._turn = self._loop.call_soon(self._turn_over)

    def settle(self) -> None:
        """What was asked for is broadcast now, not when the turn is over."""
        self._step(self.steps.settle)

    def _turn_over(self) -> None:
        self._turn = None
        self._several, self._asked = self._asked > 1, 0
        if self.steps.last_asked is not None or self.steps.due:
            self._step(self.steps.settle)

    def _wake(self) -> None:
        self._step(self.steps.wake)

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
            self._drain()
            if self._sample is not None:
                self._measure(steps.taken, *self._sample)
            self._sink.stepped(now)
        except Exception as error:
            steps.broke(error)
            self._drain()
        if steps.state is State.STALLED:
            if self._probing is None and not self._closing:
                self._probing = self._loop.call_later(PROBE_EVERY_S, self._probe)
        elif self._turn is None and steps.due and not self._closing:
            self._turn = self._loop.call_soon(self._turn_over)
        at = steps.wake_at
        if at < self._alarm.at and not self._closing and steps.why is None:
            self._alarm.set(at)

    def _drain(self) -> None:
        effects = self.steps.effects
        while effects:
            effect = effects.popleft()
            if type(effect) is Release:
                self._release(effect)
            elif type(effect) is BeginSync:
                self._begin_sync(effect)
            elif type(effect) is Refuse:
                _refuse(effect.calls, effect.error)
            elif type(effect) is Stop:
                if not self.broken.done():
                    self.broken.set_result(effect.why)
            elif type(effect) is BeginAnew:
                self._outlet.begin_anew(effect.why)

    def _release(self, effect: "Release[Call]") -> None:
        steps = self.steps
        why = steps.why if steps.state is State.BROKEN else None
        try:
            if why is None and effect.posts:
                self._send(effect.posts)
            if why is None and effect.links is not None:
                self._outlet.keep(effect.links)
            if why is None and effect.events:
                self._sink.tell(effect.events)
        except Exception as error:
            why = stopper(error)
            steps.broke(error)
        if why is not None:
            _refuse([call for call, _ in effect.answers], refused(why, definite=False))
            return
        for call, sent in effect.answers:
            self.sent += len(sent)
            if not call.done():
                call.set_result(sent)

    def _send(self, posts: Sequence[tuple[str, Any]]) -> None:
        """One write for each peer; a packet that goes to several is encoded once."""
        encode, known = self.steps.machine.encode, dict[int, bytes]()
        by_peer: dict[str, list[bytes]] = {}
        for peer, packet in posts:
            data = known.get(id(packet))
            if data is None:
                data = known[id(packet)] = encode(packet)
            by_peer.setdefault(peer, []).append(data)
        for peer, packets in by_peer.items():
            self._outlet.send(peer, packets)

    def _measure(self, taken: int, at: int, upto: int) -> None:
        if taken >= upto or not self.steps.machine.waiting:
            self._sample = None
            self.on_delivery(self._clock() - at)

    def _probe(self) -> None:
        self._probing = None
        self._step(self.steps.probe)

    def _begin_sync(self, effect: BeginSync) -> None:
        task = self._loop.create_task(self._sync(*effect))
        self._syncs.add(task)
        task.add_done_callback(self._syncs.discard)

    async def _sync(self, log: OpLog, sync: Sync) -> None:
        """In a thread, since it may take as long as it likes."""
        try:
            while not await self._tried(log, sync):
                await asyncio.sleep(SYNC_AGAIN_S)
        except Exception as error:
            self._step(self.steps.sync_failed, log, sync, error)
        else:
            self.syncs += 1
            self._step(self.steps.synced, log, sync)

    async def _tried(self, log: OpLog, sync: Sync) -> bool:
        """A sync that could not even be tried is no lost data."""
        try:
            await self._loop.run_in_executor(self._syncer, log.files.sync, sync.file)
        except ThenceError as error:
            if self._closing or not untried(error):
                raise
            return False
        return True

    async def close(self) -> bool:
        """Everything committed and synced that can be, every call answered; no timer or task is left. Whether
        that went well."""
        self._closing = True
        self._step(self.steps.settle)
        while self._syncs:  # one may ask for another
            await asyncio.wait(list(self._syncs))
        for handle in (self._turn, self._probing):
            if handle is not None:
                handle.cancel()
        self._alarm.close()
        return self._step(self.steps.close)


def _refuse(calls: Iterable[Call], error: Exception) -> None:
    for call in calls:
        if not call.done():
            call.set_exception(error)
