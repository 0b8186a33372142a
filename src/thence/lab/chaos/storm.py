"""Carries out a plan on a cluster of real processes, and keeps it under load while it does.

A node that comes back has forgotten the faults of its links and its load: both are given to it again once it
is well. A node that dies without being told to, refuses to run, does not come up or does not stop in order
ends the storm; so does one that does not do what it is asked.
"""

import signal
import time
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Final, Literal

from thence.core.errors import ThenceError, UsageError
from thence.lab.chaos import crash_points as doomed
from thence.lab.chaos.plan import OF_NODES, Act, Setup
from thence.local.cluster import Cluster
from thence.runtime.load import MOST_SECONDS, Load
from thence.runtime.remote import Control

TICK_S: Final = 0.01
LOOK_S: Final = 0.1
TRIES: Final = 3
"""An answer may be late where everything else is."""

START_S: Final = 60.0
"""A node that is not well by then will not be: two cores, and all nodes starting at once."""

STOP_S: Final = 20.0
"""The time that a node takes to drain, with room."""

Phase = Literal["down", "starting", "up", "paused", "leaving", "out"]
"""The last two where members go: it leaves, or is not meant to run."""


class StormError(ThenceError):
    """Something happened that no trouble of the plan explains."""


class Storm:
    def __init__(
        self, cluster: Cluster, setup: Setup, acts: Sequence[Act], tell: Callable[[str], None]
    ) -> None:
        self._cluster: Final = cluster
        self._setup: Final = setup
        self._tell: Final = tell
        self._begun = time.monotonic()
        self._phases: dict[str, Phase] = dict.fromkeys(cluster.names, "down")
        self._before_pause: dict[str, Phase] = {}
        self._troubled: set[str] = set()
        """Nodes whose trouble of their own is not over."""
        self._doomed: set[str] = set()
        self._late_at = dict.fromkeys(cluster.names, 0.0)
        self._acts: Final = acts
        self._on: list[Act] = []
        self._applied: dict[str, dict[str, tuple[bool, float]]] = {name: {} for name in cluster.names}
        """By node and peer: is the link cut, and by how much is it slowed."""
        self._planned = 0
        self._todo: list[tuple[float, int, Callable[[], None]]] = []
        self.kills = 0

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._begun

    def start(self) -> None:
        """All nodes, until they are well and under load."""
        for name in self._cluster.names:
            self._start(name)
        self._wait_until_up()

    def run(self, seconds: float) -> None:
        """The whole plan; afterwards all nodes run and all links are whole."""
        self._begun = time.monotonic()
        for act in self._acts:
            self._at(act.at_s, lambda act=act: self._begin(act, seconds))  # type: ignore[misc]
        self._carry_out(seconds)
        self._wait_until_up()

    def calm(self) -> None:
        """No more load."""
        for name, phase in self._phases.items():
            if phase == "up":
                self._ask(name, Control.load, Load(count=0))

    # Plan

    def _carry_out(self, seconds: float) -> None:
        """Everything that is to be done, and at least for so long."""
        while self._todo or self.elapsed_s < seconds:
            while self._todo and self._todo[0][0] <= self.elapsed_s:
                heappop(self._todo)[2]()
            self._look()
            time.sleep(TICK_S)

    def _at(self, at_s: float, happens: Callable[[], None]) -> None:
        self._planned += 1
        heappush(self._todo, (at_s, self._planned, happens))

    def _begin(self, act: Act, seconds: float) -> None:
        """Trouble of nodes waits until they are up, and may so come later than planned; what would come after
        the end does not come at all."""
        now = self.elapsed_s
        if now > seconds:
            return
        if self._must_wait(act):
            self._at(now + LOOK_S, lambda: self._begin(act, seconds))
            return
        if act.kind in OF_NODES:
            self._troubled.update(act.nodes)
        self._tell(f"{now:6.1f} s  {act}")
        late = now - act.at_s
        for number, at in enumerate(act.starts_s):
            happens = self._start if number % 2 == 0 else self._kill
            self._at(late + at, lambda happens=happens: happens(act.nodes[0]))  # type: ignore[misc]
        self._at(late + act.until_s, lambda: self._end(act))
        self._hit(act)

    def _must_wait(self, act: Act) -> bool:
        return act.kind in OF_NODES and any(
            self._phases[name] != "up" or name in self._troubled for name in act.nodes
        )

    @property
    def _undisturbed(self) -> bool:
        """All that are to run are up, and no trouble is under way."""
        return not (self._on or self._troubled) and all(
            phase in ("up", "out") for phase in self._phases.values()
        )

    def _hit(self, act: Act) -> None:
        if act.links:
            self._on.append(act)
            self._adjust_all()
        elif act.kind == "stop":
            self._stop(act.nodes[0])
        elif act.kind == "pause":
            self._pause(act.nodes[0])
        elif act.kind == "kill in step":
            self._doom(act.nodes[0], act.point)
        else:
            for name in act.nodes:
                self._kill(name)

    def _end(self, act: Act) -> None:
        if act.kind in OF_NODES:
            self._troubled.difference_update(act.nodes)
        if act.links:
            self._on.remove(act)
            self._adjust_all()
        elif act.kind == "pause":
            self._resume(act.nodes[0])
        else:
            for name in act.nodes:
                if act.kind == "kill in step":
                    self._bury(name)
                self._start(name)

    # Nodes

    def _start(self, name: str) -> None:
        self._cluster.start(name)
        self._phases[name] = "starting"
        self._late_at[name] = time.monotonic() + START_S

    def _kill(self, name: str) -> None:
        self._look()  # had it died by itself, that would go unnoticed
        self._cluster.kill(name)
        self._phases[name] = "down"
        self.kills += 1

    def _doom(self, name: str, point: str) -> None:
        order = doomed.order(self._cluster.folders[name])
        order.with_suffix(".new").write_text(point)
        self._doomed.add(name)
        order.with_suffix(".new").replace(order)

    def _bury(self, name: str) -> None:
        """It was told to die at its next step. If it has not come to one, it is killed where it is."""
        order = doomed.order(self._cluster.folders[name])
        if order.exists():
            order.unlink(missing_ok=True)
            self._kill(name)
        while self._phases[name] != "down":  # it dies at this moment
            self._look()
            time.sleep(TICK_S)
        self._doomed.discard(name)

    def _pause(self, name: str) -> None:
        self._cluster.pause(name)
        self._before_pause[name] = self._phases[name]
        self._phases[name] = "paused"

    def _resume(self, name: str) -> None:
        self._cluster.resume(name)
        self._phases[name] = self._before_pause[name]  # it may have been caught while it started
        self._late_at[name] = time.monotonic() + START_S
        self._adjust(name)

    def _stop(self, name: str) -> None:
        self._look()
        self._phases[name] = "down"
        code = self._cluster.stop(name, grace_s=STOP_S)[name]
        if code != 0:
            raise StormError(f"{name} did not stop in order: {_how(code)}; {self._said(name)}")

    def _exit_code(self, name: str, patience_s: float) -> int | None:
        """Of one that ends by itself."""
        process, until = self._cluster.nodes[name].process, time.monotonic() + patience_s
        while process is not None and process.poll() is None:
            if time.monotonic() > until:
                raise StormError(f"{name} does not end; {self._said(name)}")
            time.sleep(TICK_S)
        return self._cluster.stop(name, grace_s=STOP_S)[name]

    def _look(self) -> None:
        for event in self._cluster.watch():
            if self._expects(event.name):
                continue
            raise StormError(f"{event.name} {event.text}; {self._said(event.name)}")
        for name, phase in self._phases.items():
            if phase == "starting":
                self._welcome(name)

    def _expects(self, name: str) -> bool:
        """A node has ended: was it to?"""
        if name not in self._doomed or self._cluster.nodes[name].code != -signal.SIGKILL:
            return False
        self._phases[name] = "down"
        self.kills += 1
        return True

    def _welcome(self, name: str) -> None:
        """A node that has come up gets what it should have."""
        trouble: str | None
        try:
            trouble = self._cluster.control(name).health()
        except UsageError as error:
            trouble = str(error)
        if trouble is None:
            self._phases[name] = "up"
            self._applied[name] = {}
            self._adjust(name)
            if self._cluster.layout.sends(name):
                self._ask(name, Control.load, self._load(name))
        elif time.monotonic() > self._late_at[name]:
            raise StormError(f"{name} does not come up: {trouble}; {self._said(name)}")

    def _load(self, name: str) -> Load:
        rate = self._setup.rates[self._cluster.names.index(name)]
        return Load(rate=rate, seconds=MOST_SECONDS, bytes=self._setup.message_bytes)

    def _wait_until_up(self) -> None:
        while any(phase not in ("up", "out") for phase in self._phases.values()):
            self._look()
            time.sleep(TICK_S)

    # Links

    def _adjust_all(self) -> None:
        for name in self._cluster.names:
            self._adjust(name)

    def _adjust(self, name: str) -> None:
        """Make the faults of its links what they should be, if it can hear us."""
        for peer in self._cluster.names:
            if peer == name or self._phases[name] != "up":
                continue
            wanted = self._wanted(name, peer)
            for what, delay_ms in changes(self._applied[name].get(peer, (False, 0.0)), wanted):
                self._ask(name, Control.fault, what, peer, delay_ms)
            self._applied[name][peer] = wanted

    def _wanted(self, name: str, peer: str) -> tuple[bool, float]:
        on = [act for act in self._on if (name, peer) in act.links or (peer, name) in act.links]
        return any(act.kind != "slow" for act in on), max([act.delay_ms for act in on], default=0.0)

    def _ask(self, name: str, what: Callable[..., object], *given: object) -> None:
        """Unless it has died meanwhile, as it was told to: then it is asked again when it is back."""
        for left in reversed(range(TRIES)):
            try:
                what(self._cluster.control(name), *given)
                return
            except ThenceError as error:
                time.sleep(LOOK_S)  # one that is dying closes its sockets first
                self._look()
                if self._phases[name] != "up":
                    return
                if not left:
                    raise StormError(f"{name} does not do as it is told: {error}") from error

    def _said(self, name: str) -> str:
        return f"it said: {' | '.join(self._cluster.nodes[name].last_lines(4)) or 'nothing'}"


def changes(was: tuple[bool, float], wanted: tuple[bool, float]) -> list[tuple[str, float]]:
    """What to ask for so that a link is cut or not, and slowed by so much. A mended one may have lost its
    delay."""
    asked = []
    if was[0] != wanted[0]:
        asked.append(("cut" if wanted[0] else "mend", 0.0))
    if was[1] != wanted[1] or (was[0] and not wanted[0] and wanted[1]):
        asked.append(("slow", wanted[1]))
    return asked


def _how(code: int | None) -> str:
    if code is None:
        return "it did not run"
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"
