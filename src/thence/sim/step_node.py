"""A durable node of a simulated group whose members were named at its start: it takes the steps that a live
node takes (`replica.steps`), over a simulated disk.

What is left of it while it is down is its disk and its rows. It is built from its log after a crash, and
after a write that failed.
"""

from collections.abc import Callable, Sequence
from typing import Final

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK, pack
from thence.core.errors import StorageError, ThenceError
from thence.core.groups import Place
from thence.core.machine import NEVER, Effect, Packet, Transmit, Wake
from thence.oplog.log import OpLog
from thence.oplog.settings import Settings as LogSettings
from thence.replica.fixed import FixedMachine
from thence.replica.group_parts import Operation
from thence.replica.group_sending import SendQueue
from thence.replica.group_settings import GroupSettings
from thence.replica.idle import Idle
from thence.replica.life_tag import LifeTag
from thence.replica.live import Live
from thence.replica.steps import RUNS, TAKE_MAX, BeginAnew, BeginSync, Refuse, Release, Rows, Steps
from thence.sim.disk import Disk
from thence.trace.recorder import DELIVER, SEND, Recorder

MACHINE = b"simulated"

TOLD_AGAIN: Final = frozenset({SEND, DELIVER})
"""Of these the log tells after a restart what it holds."""

Row = tuple[int, int, tuple[int, ...] | None, int]
"""Kind, dot, context, time."""

Make = Callable[[OpLog, Recorder, int], Live]
"""From a log, a recorder and the time: the replica and what belongs to it."""


class StepTrace:
    """`steps.Trace`, and a recorder in front of another. Rows of a step are written when it is released;
    while the log is told `again`, those that are there are passed over."""

    waiting = False

    def __init__(self, into: Recorder) -> None:
        self._into: Final = into
        self._fresh: list[Row] = []
        self._told: dict[tuple[int, int], int] = {}
        self.again = False

    def record(self, kind: int, dot: int, now: int) -> None:
        self._add(kind, dot, None, now)

    def record_deps(self, kind: int, dot: int, deps: tuple[int, ...], now: int) -> None:
        self._add(kind, dot, deps, now)

    def _add(self, kind: int, dot: int, deps: tuple[int, ...] | None, now: int) -> None:
        told = self._told.get((kind, dot & ORIGIN_MASK), 0)
        if not (self.again and kind in TOLD_AGAIN and dot >> ORIGIN_BITS <= told):
            self._fresh.append((kind, dot, deps, now))

    @property
    def gathered(self) -> int:
        return len(self._fresh)

    def take(self) -> Rows:
        fresh, self._fresh = self._fresh, []
        return [(self, fresh)] if fresh else []

    def write(self, rows: list[Row]) -> None:
        for kind, dot, deps, now in rows:
            if deps is None:
                self._into.record(kind, dot, now)
            else:
                self._into.record_deps(kind, dot, deps, now)
            key = kind, dot & ORIGIN_MASK
            self._told[key] = max(self._told.get(key, 0), dot >> ORIGIN_BITS)

    def take_back(self) -> None:
        self._fresh.clear()

    def write_waiting(self) -> None:
        """Nothing ever waits."""


class Takes(Idle):
    """The application: it takes messages, and tells which when they are certain."""

    reads = True

    def __init__(self) -> None:
        self._fresh: list[Place] = []

    def apply(
        self,
        operation: Operation,
        own: bool,
        tag: LifeTag | None,
        again: bool,
        position: int,
        carried: bool,
    ) -> None:
        del own, tag, again, position, carried
        self._fresh.append(operation.dot)

    def output(self) -> list[Place]:
        fresh, self._fresh = self._fresh, []
        return fresh

    def drop(self) -> None:
        self._fresh.clear()


class StepNode:
    def __init__(
        self,
        me: int,
        names: Sequence[str],
        columns: Recorder,
        make: Make,
        disk: Disk,
        settings: LogSettings,
        appetite: int = TAKE_MAX,
    ) -> None:
        self.me: Final = me
        self.names: Final = names
        self._make_live: Final = make
        self.disk: Final = disk
        self._settings: Final = settings
        self._appetite: Final = appetite
        self.trace: Final = StepTrace(columns)
        self._application: Final = Takes()
        self.steps: Steps[FixedMachine, None] | None = None
        self.boots = 0
        self.forgetful = False
        """It may have forgotten what it sent."""
        self._wake_planned = NEVER
        self.taken: Callable[[int, int], None] = lambda dot, now: None  # noqa: ARG005
        """Is told which message the client has taken."""
        self.regained: Callable[[int], None] = lambda count: None  # noqa: ARG005
        """Is told how many messages it has sent, once it knows."""
        self.wishes: list[tuple[int, bool]] = []
        """Links to open and to close."""
        self.began_anew = False
        """Links are to be dropped."""
        self.failed: ThenceError | None = None
        """The process must end."""
        self.refused = 0

    # Life

    def boot(self, now: int) -> list[Effect]:
        """The process starts. `StorageError`: its disk does not let it."""
        first = not self.boots
        self.boots += 1
        self.trace.take_back()
        self._application.drop()
        self.failed, self.began_anew = None, False
        machine = self._machine(now)
        self.steps = Steps(machine, self._remade, self.trace, SendQueue[None](GroupSettings()), now)
        self.steps.appetite = lambda: self._appetite
        self.steps.tidies = False  # the world says when
        self._wake_planned = NEVER
        return self.run(lambda machine, now: machine.start(first, now), now)

    def _machine(self, now: int) -> FixedMachine:
        log = OpLog.open(self.disk, self._settings, now, power_lost=True)
        log.boot(1, MACHINE, now)
        for name in self.names:
            log.member(name)
        log.sync(now)
        self.trace.again = True
        try:
            live = self._make_live(log, self.trace, now)
            if not self.forgetful:  # else the trace knows more
                live.replica.tell_again(now)
        finally:
            self.trace.again = False
        return FixedMachine(live, log, self.names, self.names[self.me], self._application)

    def _remade(self, now: int) -> FixedMachine:
        machine = self._machine(now)
        machine.resume(now)
        return machine

    def crash(self, power: bool) -> None:
        """The process dies, or the whole machine, which forgets what was not synced."""
        self.steps = None
        if power:
            self.disk.crash(holes=True)
            self.forgetful = self.forgetful or self._settings.sync != "always"

    @property
    def machine(self) -> FixedMachine:
        assert self.steps is not None
        return self.steps.machine

    @property
    def log(self) -> OpLog:
        log = self.machine.log
        assert log is not None
        return log

    @property
    def runs(self) -> bool:
        """Can it write?"""
        return self.steps is not None and self.steps.state in RUNS

    # Inputs: each returns packets and wake-ups

    def run(self, act: Callable[[FixedMachine, int], object], now: int) -> list[Effect]:
        assert self.steps is not None
        self.steps.run(act, now)
        return self._carried_out(now)

    def receive(self, peer: int, packets: Sequence[Packet], now: int) -> list[Effect]:
        assert self.steps is not None
        self.steps.receive(self.names[peer], packets, now)
        return self._carried_out(now)

    def link(self, peer: int, up: bool, now: int) -> list[Effect]:
        assert self.steps is not None
        if up:
            self.steps.link_up(self.names[peer], now)
            return self._carried_out(now)
        return self.run(lambda machine, now: machine.link_down(self.names[peer], now), now)

    def wake(self, now: int) -> list[Effect]:
        assert self.steps is not None
        if now >= self._wake_planned:  # else it was woken for something else
            self._wake_planned = NEVER
        self.steps.wake(now)
        return self._carried_out(now)

    def take(self, now: int) -> list[Effect]:
        return self.run(lambda machine, now: machine.take(TAKE_MAX, now), now)

    def send(self, payload: bytes, now: int) -> list[Effect] | None:
        """None: it was refused, and may be tried again. A call without an answer does not know."""
        assert self.steps is not None
        self.refused = 0
        self.steps.ask([payload], None)
        self.steps.settle(now)
        effects = self._carried_out(now)
        return None if self.refused and self.failed is None else effects

    def probe(self, now: int) -> list[Effect]:
        assert self.steps is not None
        self.steps.probe(now)
        self._wake_planned = NEVER
        return self._carried_out(now)

    def _carried_out(self, now: int) -> list[Effect]:
        steps, packets = self.steps, list[Effect]()
        assert steps is not None
        while steps.effects:
            effect = steps.effects.popleft()
            if isinstance(effect, BeginSync):
                try:
                    effect.log.files.sync(effect.sync.file)
                except StorageError as error:
                    steps.sync_failed(*effect, error, now)
                else:
                    steps.synced(*effect, now)
            elif isinstance(effect, Release):
                index = self.names.index
                packets += [Transmit((index(name),), packet) for name, packet in effect.posts]
                self.wishes += [(index(name), at is not None) for name, at in (effect.links or {}).items()]
                for name, seq in effect.events:
                    self.taken(pack(index(name), seq), now)
            elif isinstance(effect, Refuse):
                self.refused += len(effect.calls)
            elif isinstance(effect, BeginAnew):
                self.began_anew = True
                packets.clear()
            else:
                self.failed = effect.why
        if steps.state in RUNS:
            self._look()
            if steps.wake_at < self._wake_planned:
                self._wake_planned = steps.wake_at
                packets.append(Wake(steps.wake_at))
        return packets

    def _look(self) -> None:
        """Between two steps."""
        machine = self.machine
        if self.forgetful and not machine.live.overlay.recovering and machine.replica.regained():
            self.forgetful = False
            self.regained(self.log.vector[self.me])
