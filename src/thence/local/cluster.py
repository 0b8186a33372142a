"""A local cluster of real processes, one per node, for people (`thence up`) and for trials.

`Cluster` starts, kills, stops and supervises them. It never waits in the background: `watch` looks once, says
what has happened since, and does what is due; the driver of the cluster calls it as often as it likes.

Invariants. A node that this cluster killed or stopped stays down until it is started again; one that died
by itself is started again after a pause that grows, unless it refused to run (exit code 2), which a restart
does not change. No process outlives the one that made the cluster (`spawn.py`).
"""

import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import TimeoutExpired
from types import TracebackType
from typing import Final, Literal, NamedTuple

from thence.core.errors import ThenceError, UsageError
from thence.local.layout import Hold, Layout, need_ports
from thence.local.ports import release
from thence.local.spawn import SpawnedProcess, spawn
from thence.runtime.remote import TIMEOUT_S, Control

NODE: Final = (sys.executable, "-m", "thence.local.node_process")
REFUSED: Final = 2
"""How a node exits that cannot run with these settings, whatever is tried."""
TICK_S: Final = 0.02
KILLED_S: Final = 60.0
"""For the system to end a process that was killed, or to tell of one that has ended."""

State = Literal["down", "running", "waiting", "refused"]
"""`waiting`: it died and will be started again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarts:
    """When a node that died by itself is started again."""

    first_s: float = 0.5
    """Long enough for a person to see that it was gone."""
    most_s: float = 30.0
    """A node that dies again and again must not keep the machine busy."""
    calm_s: float = 10.0
    """A node that ran so long had started well: its next death is a first one."""

    def pause_s(self, before_s: float, ran_s: float) -> float:
        """The pause after a death, given the one before it (0: none) and how long the node ran."""
        if before_s == 0 or ran_s >= self.calm_s:
            return self.first_s
        return min(2 * before_s, self.most_s)


class ClusterEvent(NamedTuple):
    name: str
    what: Literal["started", "died", "refused", "ended"]
    """`ended`: it stopped by itself and in order."""
    text: str


class NodeProcess:
    """One node: its files, and its process while there is one."""

    __slots__ = ("again_at", "code", "command", "folder", "log", "log_start", "name", "pause_s", "process",
                 "started_at", "starts", "state")  # fmt: skip

    def __init__(self, name: str, command: Sequence[str], folder: Path, log: Path) -> None:
        self.name: Final = name
        self.command: Final = tuple(command)
        self.folder: Final = folder
        self.log: Final = log
        self.log_start = 0
        """Where in the log the present process began."""
        self.process: SpawnedProcess | None = None
        self.state: State = "down"
        self.code: int | None = None
        """How it exited the last time."""
        self.starts = 0
        self.started_at = self.again_at = self.pause_s = 0.0

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process else None

    def last_lines(self, count: int = 5) -> list[str]:
        """What the latest process said last."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(self.log_start, self.log.stat().st_size - 65_536))
                return file.read().decode(errors="replace").splitlines()[-count:]
        except OSError:
            return []


class Cluster:
    def __init__(
        self,
        layout: Layout,
        *,
        flags: Sequence[str] = (),
        contacts: Sequence[str] | None = None,
        own: Mapping[str, Sequence[str]] | None = None,
        resp: int = 0,
        program: Sequence[str] = NODE,
        restarts: Restarts | None = None,
        clock: Callable[[], float] = time.monotonic,
        answers_s: float = TIMEOUT_S,
    ) -> None:
        """`flags` go to every node besides those that make it a member, `own` to one each. `contacts`:
        the nodes that others of a changing group find it through, by default all. `resp`: where the first
        node answers Redis clients, if `own` says so. `program` is called with the flags of `thence node`.
        Without `restarts`, what dies stays down. `answers_s`: a node that has not answered a request by then
        is taken for one that does not."""
        self.layout: Final = layout
        self._restarts: Final = restarts
        self._clock: Final = clock
        self._answers_s: Final = answers_s
        self._hold: Hold | None = None
        self._resp: Final = resp
        through = layout.names if contacts is None else contacts
        self.nodes: Final = {
            name: NodeProcess(
                name,
                (*program, *_flags(layout, name, through), *flags, *(own or {}).get(name, ())),
                layout.data(name),
                layout.log(name),
            )
            for name in layout.names
        }

    @property
    def names(self) -> tuple[str, ...]:
        return self.layout.names

    @property
    def folders(self) -> dict[str, Path]:
        return {name: node.folder for name, node in self.nodes.items()}

    def control(self, name: str) -> Control:
        """A client of the node's control routes; `UsageError` while it does not run."""
        return Control.of(self._node(name).folder, self._answers_s)

    def start(self, *names: str) -> None:
        """Start these nodes, or all, where they do not run. Does not wait for them: see `ready`."""
        if self._hold is None:
            self._hold = Hold(self.layout.folder)
            try:
                need_ports(self.layout, self._resp)
            except BaseException:
                self._let_go()
                raise
        for node in self._chosen(names):
            if node.process is None:
                self._launch(node)

    def kill(self, name: str) -> None:
        """As `kill -9` does it. It stays down until it is started."""
        node = self._node(name)
        node.state = "down"
        if node.process is not None:
            node.process.kill()
            self._reap(node)

    def pause(self, name: str) -> None:
        """Stop it in the middle of whatever it does, as a machine does that stalls."""
        self._signal(self._node(name), signal.SIGSTOP)

    def resume(self, name: str) -> None:
        self._signal(self._node(name), signal.SIGCONT)

    def restart(self, name: str, grace_s: float = 10.0) -> None:
        """Stop it in order if it runs, and start it."""
        self.stop(name, grace_s=grace_s)
        self._hold = self._hold or Hold(self.layout.folder)
        self._launch(self._node(name))

    def stop(
        self, *names: str, grace_s: float = 10.0, hurry: Callable[[], bool] = lambda: False
    ) -> dict[str, int | None]:
        """Stop these nodes, or all, in order; those that take longer than `grace_s`, or that a person does
        not wait for (`hurry`), are killed. How each exited; None if it did not run."""
        chosen = self._chosen(names)
        for node in chosen:
            node.state = "down"
            self._signal(node, signal.SIGTERM)
            self._signal(node, signal.SIGCONT)  # one that is paused could not hear the first
        codes: dict[str, int | None] = {node.name: None for node in chosen}
        running = [node for node in chosen if node.process is not None]
        until = self._clock() + grace_s
        while any(node.process and node.process.poll() is None for node in running):
            if self._clock() > until or hurry():
                for node in running:
                    self._signal(node, signal.SIGKILL)
                break
            time.sleep(TICK_S)
        for node in running:
            codes[node.name] = self._reap(node)
        if not any(node.process for node in self.nodes.values()):
            self._let_go()
        return codes

    def watch(self) -> list[ClusterEvent]:
        """Look once: what has happened to nodes since, and restarts that were due."""
        events = []
        for node in self.nodes.values():
            if node.process is not None and node.process.poll() is not None:
                events.append(self._fallen(node))
            elif node.state == "waiting" and self._clock() >= node.again_at:
                self._launch(node)
                events.append(ClusterEvent(node.name, "started", f"started again, process {node.pid}"))
        return events

    def ready(self, *names: str, patience_s: float = 30.0) -> None:
        """Wait until these nodes, or all, say that they are well; an error tells which one is not. One that
        has ended is told of at once: others may wait for it, and say nothing but that."""
        until, chosen = self._clock() + patience_s, self._chosen(names)
        for node in chosen:
            while (trouble := self._trouble(node)) is not None:
                if ended := [one for one in chosen if one.process is None or one.process.poll() is not None]:
                    raise _not_ready(ended[0], self._trouble(ended[0]) or "it has ended")
                if self._clock() > until:
                    raise _not_ready(node, trouble)
                time.sleep(TICK_S)

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _node(self, name: str) -> NodeProcess:
        try:
            return self.nodes[name]
        except KeyError:
            raise UsageError(f"there is no node {name}; there is {', '.join(self.names)}") from None

    def _chosen(self, names: Iterable[str]) -> list[NodeProcess]:
        return [self._node(name) for name in names] or list(self.nodes.values())

    def _launch(self, node: NodeProcess) -> None:
        node.folder.mkdir(mode=0o700, exist_ok=True)
        node.log_start = node.log.stat().st_size if node.log.exists() else 0
        node.process = spawn(node.command, node.log)
        node.state = "running"
        node.started_at = self._clock()
        node.starts += 1

    def _trouble(self, node: NodeProcess) -> str | None:
        try:
            return self.control(node.name).health()
        except UsageError as error:
            return str(error)

    def _fallen(self, node: NodeProcess) -> ClusterEvent:
        ran_s = self._clock() - node.started_at
        code = self._reap(node)
        how = f"killed by {_signal_name(-code)}" if code < 0 else f"exit code {code}"
        if code == REFUSED:
            node.state = "refused"
            return ClusterEvent(node.name, "refused", f"refused to run ({how}) and is not started again")
        if code == 0 or self._restarts is None:
            node.state = "down"
            return ClusterEvent(node.name, "ended" if code == 0 else "died", f"ended: {how}")
        node.pause_s = self._restarts.pause_s(node.pause_s, ran_s)
        node.again_at = self._clock() + node.pause_s
        node.state = "waiting"
        return ClusterEvent(node.name, "died", f"died: {how}; starts again in {node.pause_s:g} s")

    def _reap(self, node: NodeProcess) -> int:
        assert node.process is not None
        try:
            node.code = node.process.wait(KILLED_S)
        except TimeoutExpired:
            raise ThenceError(f"process {node.pid} of node {node.name} does not end") from None
        node.process = None
        return node.code

    def _signal(self, node: NodeProcess, number: signal.Signals) -> None:
        if node.process is not None:
            node.process.send_signal(number)  # none is sent to a process that was found dead

    def _let_go(self) -> None:
        if self._hold is not None:
            self._hold.release()
            self._hold = None
            release(self.layout.folder)


def _not_ready(node: NodeProcess, trouble: str) -> ThenceError:
    said = " | ".join(node.last_lines(3))
    return ThenceError(f"node {node.name} is not ready: {trouble}; it said: {said or 'nothing'}")


def _flags(layout: Layout, name: str, contacts: Sequence[str]) -> list[str]:
    return [
        "--name", name, "--cluster", layout.cluster, *layout.group_flags(name, contacts),
        "--data", str(layout.data(name)), "--secret-file", str(layout.secret),
        "--http", str(layout.http(name)),
    ]  # fmt: skip


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
