"""A world of processes that take the steps of live nodes: virtual time, links, disks, crashes.

Processes have names and nothing else in common; packets travel between names (`sim.air`). A process takes the
steps that a live node takes (`replica.steps`); the world is its links, its disk and its clock. A crash comes
between two steps, or at a point in the middle of one (`Point`). Syncs are made at once, or take a while, in
which other steps are taken (`sync_us`).

What the machines are is for the worlds that are made of this one: `sim.groups`, `sim.edge`.
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Generic, TypeVar

from thence.core.errors import PeerError, StorageError, UsageError
from thence.core.machine import NEVER
from thence.oplog.log import OpLog
from thence.oplog.policy import DiskSync, Policy
from thence.replica.contract import Machine
from thence.replica.step_outputs import BeginAnew, BeginSync, RefuseCalls, Release
from thence.replica.step_states import StepState
from thence.replica.steps import Steps
from thence.sim.air import Air, Airways
from thence.sim.diaries import SimDiary
from thence.sim.disk import Interrupted
from thence.sim.groups_disks import DOWN_US, PROBE_US, Troubles
from thence.sim.shelf import SimShelf
from thence.sim.step_process import Point, StepProcess

STEPS_MAX = 2_000_000
INCARNATIONS_MAX = 40
"""Per process. More than any storm needs: members go to and fro, and would for ever."""
SEGMENT_BYTES = 1 << 14

M = TypeVar("M", bound=Machine[Any])
P = TypeVar("P", bound=StepProcess[Any, Any])


class StepWorld(Airways, Generic[M, P]):
    processes: dict[str, P]

    def __init__(
        self,
        seed: int | str,
        names: list[str],
        air: Air,
        codec: tuple[Callable[[Any], bytes], Callable[[bytes], Any]],
        take_us: int = 0,
        sync: Policy = "always",
        turn_us: int = 0,
        sync_us: int = 0,
    ) -> None:
        """`turn_us`: how long a process that has more to do than one step may waits before the next.
        `sync_us`: how long a sync takes at most. The subclass makes the processes, and then the links
        (`_link`)."""
        super().__init__(seed, air, codec)
        self._sync: Policy = sync
        self.steps = 0
        self.steps_max = STEPS_MAX
        self.names = names
        self.incarnations_max = INCARNATIONS_MAX * len(names)
        self.diaries: dict[str, SimDiary] = {}
        self.liars: set[str] = set()
        """Processes whose packets may be garbage."""
        self._take = Random(f"{seed}/take")
        self._take_us = take_us
        self.turn_us = turn_us
        self.sync_us = sync_us
        self._syncing = Random(f"{seed}/syncing")
        self._cutting = Random(f"{seed}/cutting")
        self._disks = Random(f"{seed}/disks")
        self.troubles = Troubles()
        self._down = Random(f"{seed}/troubles")

    def _shelf(self) -> SimShelf:
        return SimShelf(Random(self._disks.random()), SEGMENT_BYTES, self._sync)

    # What the machines are

    def _make(self, name: str, process: P) -> M:
        """The machine of a process, from its disk."""
        raise NotImplementedError

    def _begins(self, process: P) -> None:
        """A process is started."""

    def _enter(self, name: str, process: P, joins: bool) -> None:
        """The machine was made, and may want to become something."""

    def _look(self, name: str, process: P, node: M) -> None:
        """A step is over, and safe: what has become of the process?"""

    def _wishes(self, name: str, process: P, links: Mapping[str, str | None]) -> None:  # noqa: ARG002
        """Links that a process needs, or does not need any more."""
        for other, where in links.items():
            (process.dismissed.add if where is None else process.dismissed.discard)(other)

    def is_wanted(self, one: str, other: str) -> bool:  # noqa: ARG002
        """Does either keep a link to the other?"""
        return True

    # Processes

    def boot(self, name: str, joins: bool = False) -> None:
        """The process starts, from its disk if there is anything on it. `joins`: it was on its way into the
        group, and goes on."""
        process = self.processes[name]
        if process.steps is not None or process.dead:
            return
        process.waking = NEVER
        process.dismissed.clear()
        try:
            self._begins(process)
            machine = self._make(name, process)
        except StorageError:
            process.trace.crash()
            process.application.take_back()
            self.troubles.full += 1
            self.at(self.now + PROBE_US, lambda: self.boot(name, joins))
            return

        def make(now: int) -> M:  # noqa: ARG001
            return self._make(name, process)

        process.steps = Steps(machine, make, process.trace, process.backlog, self.now)
        self._step(name, lambda node: None)  # noqa: ARG005
        self._enter(name, process, joins)

    def crash(self, name: str, torn: Point | None = None, power: bool = True) -> None:
        """The process stops: now, or in the middle of its next step; `power`: so does its machine, and always
        in the middle of a step."""
        process = self.processes[name]
        if process.steps is None:
            return
        if torn is not None:
            process.torn = torn
            if torn == "acting":
                process.shelf.interrupt()
            return
        process.steps = None
        process.trace.crash()
        process.application.take_back()
        process.backlog.take()
        process.life += 1
        process.torn, process.synced_at = None, 0
        process.shelf.go_on()
        if power:
            process.shelf.lose_power()

    def call(self, name: str, action: Callable[[M], object]) -> None:
        """A call of a process; what makes no sense there is refused."""

        def asked(node: M) -> None:
            try:
                action(node)
            except UsageError:
                self.packets["refused"] += 1

        if self.processes[name].node is not None:
            self._step(name, asked)

    def _settle(self, name: str, life: int) -> None:
        """Broadcasts that had to wait."""
        process = self.processes[name]
        if process.life == life and process.node is not None:
            self._input(name, lambda steps: steps.settle(self.now))

    def _step(self, name: str, action: Callable[[M], object]) -> None:
        self._input(name, lambda steps: steps.run(lambda node, now: action(node), self.now))  # noqa: ARG005

    def _input(self, name: str, act: Callable[[Steps[M, None]], object]) -> None:
        """Something happens to a process that runs."""
        process = self.processes[name]
        if self.now < process.paused:
            life = process.life
            self.at(process.paused, lambda: self._after_pause(name, life, act))
            return
        self.steps += 1
        if self.steps > self.steps_max or len(self.diaries) > self.incarnations_max:
            self.problem = f"no end: {self.steps} steps, {len(self.diaries)} incarnations"
            return
        assert process.steps is not None
        try:
            act(process.steps)
        except Interrupted:
            self.crash(name)
            return
        self._carry_out(name, process, process.steps)

    def _after_pause(self, name: str, life: int, act: Callable[[Steps[M, None]], object]) -> None:
        process = self.processes[name]
        if process.life == life and process.node is not None:
            self._input(name, act)

    def _carry_out(self, name: str, process: P, steps: Steps[M, None]) -> None:
        """What a step has released, in order, and what the process waits for."""
        if process.torn == "written" and steps.runs:
            self.crash(name)
            return
        looked = False
        while steps.effects and process.steps is steps:
            effect = steps.effects.popleft()
            if isinstance(effect, BeginSync):
                self._begin_sync(name, process, steps, effect)
            elif isinstance(effect, Release):
                if process.torn == "synced":
                    self.crash(name)
                    return
                if not looked:
                    looked = True
                    self._look(name, process, steps.machine)
                if effect.links is not None:
                    self._wishes(name, process, effect.links)
                process.application.released(effect.events)
                if not self._send(name, process, effect.posts):
                    return
            elif isinstance(effect, RefuseCalls):
                self.packets["refused"] += len(effect.calls)
            elif isinstance(effect, BeginAnew):
                self._stall(name, process, steps)
            elif isinstance(effect.why, StorageError):
                self.troubles.stopped += 1
                self._goes_down(name, process.joins)
            else:
                self.problem = f"{name}: {effect.why}"
        if process.steps is steps and steps.runs:
            if not looked:
                self._look(name, process, steps.machine)
            self._plan(name, process, steps)

    def _send(self, name: str, process: P, posts: Sequence[tuple[str, Any]]) -> bool:
        """False: the process went down meanwhile."""
        left = len(posts)
        if posts and process.torn in ("told", "sent"):
            left = self._cutting.randrange(len(posts)) if process.torn == "sent" else 0
        for to, packet in posts[:left]:
            self._transmit(name, to, packet)
        if left < len(posts):
            self.crash(name)
        return left == len(posts)

    def _begin_sync(self, name: str, process: P, steps: Steps[M, None], effect: BeginSync) -> None:
        if not self.sync_us:
            self._do_sync(steps, *effect)
            return

        def ends() -> None:
            if process.steps is steps:
                try:
                    self._do_sync(steps, *effect)
                except Interrupted:
                    self.crash(name)
                else:
                    self._carry_out(name, process, steps)

        took = int(self._syncing.random() * self.sync_us)
        process.synced_at = max(process.synced_at, self.now + took)  # one after the other
        self.at(process.synced_at, ends)

    def _do_sync(self, steps: Steps[M, None], log: OpLog, sync: DiskSync) -> None:
        try:
            sync.carry_out(log.files)
        except StorageError as error:
            steps.sync_failed(log, sync, error, self.now)
        else:
            steps.synced(log, sync, self.now)

    def _goes_down(self, name: str, joins: bool) -> None:
        """Its disk has failed it for good; it is started again some time later."""
        self.crash(name)
        self.at(self.now + self._down.randint(*DOWN_US), lambda: self.boot(name, joins))

    def _stall(self, name: str, process: P, steps: Steps[M, None]) -> None:
        """A write failed: links are gone, and the disk is tried again now and then."""
        self.troubles.full += 1
        process.application.take_back()
        process.life += 1
        joins = process.joins

        def probe() -> None:
            if process.steps is not steps or steps.state is not StepState.STALLED:
                return
            process.waking = NEVER
            process.torn = None
            process.shelf.go_on()
            steps.probe(self.now)
            self._carry_out(name, process, steps)
            self._enter(name, process, joins)
            if process.node is None and process.steps is steps:
                self.troubles.full += 1
                self.at(self.now + PROBE_US, probe)

        self.at(self.now + PROBE_US, probe)

    def _plan(self, name: str, process: P, steps: Steps[M, None]) -> None:
        """What the process waits for."""
        node, life = steps.machine, process.life
        if steps.due:
            self.at(self.now, lambda: self._settle(name, life))
        if process.taking is node:
            return  # the step that it began with goes on from here
        if node.waiting:
            self._to_take(name, process)
        wake_at = max(steps.wake_at, self.now + self.turn_us) if self.turn_us else steps.wake_at
        if process.steps is steps and steps.runs and wake_at < process.waking:
            process.waking = wake_at
            self.at(process.waking, lambda: self._wake(name, life))

    def _wake(self, name: str, life: int) -> None:
        process = self.processes[name]
        if process.life == life and process.node is not None and self.now >= process.waking:
            process.waking = NEVER
            self._input(name, lambda steps: steps.wake(self.now))

    def _to_take(self, name: str, process: P) -> None:
        if not self._take_us:
            before, process.taking = process.taking, process.node
            while (node := process.node) is not None and not self.problem and node.waiting:
                self._step(name, lambda node: node.take(1, self.now))
            process.taking = before
            return
        life = process.life

        def take() -> None:
            node = process.node
            if process.life == life and node is not None and node.waiting:
                self._step(name, lambda node: node.take(1, self.now))

        self.at(self.now + int(self._take.random() * self._take_us), take)

    # Links

    def arrive(self, sender: str, receiver: str, packet: Any, data: bytes | None) -> bool:
        good, lies = True, sender in self.liars
        if lies and data is None:
            data = self.encode(packet)

        def receive(steps: Steps[M, None]) -> None:
            nonlocal good
            try:
                steps.receive(sender, [packet] if data is None else map(self.decode, [data]), self.now)
            except PeerError:
                self.packets["lies" if lies else "garbage"] += 1
                good = False

        self._input(receiver, receive)
        return good

    def life(self, name: str) -> int:
        process = self.processes[name]
        return process.life if process.node is not None else -1

    def paused(self, name: str) -> int:
        return self.processes[name].paused

    def is_known(self, name: str) -> bool:
        return name in self.processes

    def told(self, name: str, other: str, up: bool) -> None:
        self._step(
            name, lambda node: node.link_up(other, self.now) if up else node.link_down(other, self.now)
        )

    def up(self) -> list[str]:
        return [name for name, process in self.processes.items() if process.node is not None]
