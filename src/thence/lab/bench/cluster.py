"""`bench cluster`: what live nodes cost over moving the same bytes between bare processes.

Three nodes of a fixed group, each a process (`thence node`), on loopback: 64-byte payloads, sync everysec, no
trace, profile local, loads made inside the nodes (`runtime/load.py`).

* `cluster.idle`: resident memory of a node that has not been asked for anything. Baseline: a process with
  nothing but uvloop and its connections.
* `cluster.always`: elapsed time, the median, of `broadcast` under sync always (`cluster_always.py`).
  Baseline: the same number of bytes, appended and `fdatasync`ed.
* `cluster.cpu`: CPU time of a node's process (all of its threads, system calls, the load generator and its
  metrics among it) per delivery at `STEADY` messages a second from each; own messages count as delivered at
  their sender, warm-up is excluded; all nodes together. Baseline: three bare processes (`cluster_bare.py`)
  that send each other as many messages at the same rate; CPU time per message received, own messages not
  counted.
* `cluster.cpu.saturated`: the same with all nodes sending as fast as it goes.
* `cluster.cpu.changing`, `cluster.cpu.saturated.changing`: both for a group whose members may come and go,
  which `thence up` makes unless told otherwise. Baseline: the fixed group, in the same turns.
* `cluster.saturation`: messages a second that every member delivers then, own ones among them, counted where
  they arrive from others: what was sent and not delivered elsewhere does not count. Baseline: the bare
  processes', counted likewise.
* `cluster.latency.p50`, `.p99`: from the call of `broadcast` in one program to the event in another, between
  three programs with a node inside (`cluster_application.py`), at half of what such programs sustain, which
  is measured first: `cluster.latency.rate`, messages a second of the whole group. Baseline of both: the
  median round trip of a bare echo between two processes at the rate of one of the programs.

* `cluster.events.cpu`: CPU time of such a program per message that `events()` hands out, with all
  sending as fast as it goes; its own sending, and the reading, are in it. Baseline: the bare processes', per
  message received. `cluster.events.cpu.changing`: the same in a group whose members may come and go.
  Baseline: the closed group, in the same turns.
* `cluster.events.writes`, `.changing`: writes to the log per 64 messages then, own and others'.
* `cluster.events.p50`, `.changing`: the median latency at `CALM` messages a second from each. Baselines: the
  bare echo at that rate, and the closed group.

* `cluster.runs.N.writer`, `.receiver`: CPU time per operation of a program that sends N of them in each turn
  of its loop, and of one that takes them (`cluster_runs.py`). Baseline: bare processes that write as many
  bytes in a turn to their files and sockets (`cluster_runs_bare.py`).

Subject and baseline take turns, each figure is the median over the turns. Everything is on one machine, so
the three processes share its cores, with each other and with whatever else runs. Files are made where
temporary files go: `TMPDIR` chooses the disk.
"""

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median, quantiles
from typing import Final, NamedTuple

from thence.core.errors import UsageError
from thence.lab.bench import cluster_application, cluster_bare
from thence.lab.bench.cluster_always import always
from thence.lab.bench.cluster_nodes import NODES, Nodes, Stretch, cpu_us, group_rate, running
from thence.lab.bench.cluster_processes import Told, together
from thence.lab.bench.cluster_runs import runs
from thence.lab.bench.record import Record
from thence.local.layout import Layout, open_layout

STEADY: Final = 2_000.0
"""Messages a second from each node: far from saturation on any machine, and enough to measure CPU time by."""


CALM: Final = 500.0
"""Messages a second from each program: each is a step of its own."""

PARTS: Final = ("always", "nodes", "latency", "events", "runs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    turns: int = 3
    """A median of fewer means little."""
    warm_s: float = 1.0
    """Links fill their windows and code its caches within tenths of it."""
    nodes_s: float = 4.0
    """Collection and syncs happen every second: several of them."""
    bare_s: float = 2.0
    """Nothing happens now and then in a bare program."""
    settle_s: float = 2.0
    """Until a node that has started is idle."""
    syncs: int = 500
    operations: int = 80_000
    """Some seconds at the slowest."""


QUICK: Final = Effort(turns=1, warm_s=0.2, nodes_s=2.0, bare_s=0.3, settle_s=0.2, syncs=30, operations=2_000)


def bench(quick: bool, parts: Sequence[str] = PARTS) -> Iterator[Record | str]:
    """Figures, and between them words about what is being done."""
    effort = QUICK if quick else Effort()
    with tempfile.TemporaryDirectory(prefix="thence-bench-") as name:
        folder = Path(name)
        if "always" in parts:
            yield "syncs"
            # First, while the disk has nothing else to do.
            yield always(folder, effort.syncs)
        if "nodes" in parts:
            yield "starting nodes"
            with (
                running(open_layout(folder / "nodes", NODES)) as nodes,
                running(open_layout(folder / "changing", NODES, changing=True)) as changing,
            ):
                yield from _nodes(Nodes(nodes), Nodes(changing), BareProcesses(folder / "bare"), effort)
        if "latency" in parts:
            yield from _latency(folder, effort)
        if "events" in parts:
            yield from _events(folder, effort)
        if "runs" in parts:
            yield from runs(folder, effort.turns, effort.operations)


class Turn(NamedTuple):
    """What nodes and bare processes did at the same rate, one after the other."""

    fixed: list[Stretch]
    changing: list[Stretch]
    bare: list[Stretch]


def _nodes(fixed: Nodes, changing: Nodes, bare: "BareProcesses", effort: Effort) -> Iterator[Record | str]:
    time.sleep(effort.settle_s)
    idle = fixed.resident_mb()
    steady: list[Turn] = []
    full: list[Turn] = []
    for turn in range(1, effort.turns + 1):
        for rate, measured in ((STEADY, steady), (0.0, full)):
            how = f"{rate:,.0f} messages a second from each" if rate else "as fast as it goes"
            yield f"{how}, turn {turn} of {effort.turns}: nodes"
            ours = fixed.under_load(rate, effort.warm_s, effort.nodes_s)
            theirs = changing.under_load(rate, effort.warm_s, effort.nodes_s)
            yield f"{how}, turn {turn} of {effort.turns}: bare processes"
            measured.append(Turn(ours, theirs, bare.move(rate, effort.warm_s, effort.bare_s)))
    yield Record("cluster.idle", idle, "MB", bare.resident_mb)
    for name, turns in (("cluster.cpu", steady), ("cluster.cpu.saturated", full)):
        own = median(cpu_us(turn.fixed) for turn in turns)
        moved = [
            sum(one.cpu_s for one in turn.bare) / sum(one.delivered for one in turn.bare) for turn in turns
        ]
        yield Record(name, own, "us", 1e6 * median(moved))
        yield Record(f"{name}.changing", median(cpu_us(turn.changing) for turn in turns), "us", own)
    sustained, moved = ([group_rate(turn[which]) for turn in full] for which in (0, 2))
    yield Record("cluster.saturation", median(sustained), "messages/s", median(moved))


class BareProcesses:
    """The bare processes: three that send each other messages, two with an echo between them."""

    def __init__(self, folder: Path) -> None:
        layout = open_layout(folder, NODES)
        self._folder: Final = folder
        self._ports: Final = [layout.address(name).port for name in layout.names]
        self.resident_mb = 0.0
        """Of one of those that were started last, on average."""

    def move(self, rate: float, warm_s: float, seconds: float) -> list[Stretch]:
        ports = ",".join(map(str, self._ports))
        calls = [("move", me, ports, rate, warm_s, seconds) for me in range(NODES)]
        told = self._run(calls, warm_s + seconds)
        self.resident_mb = mean(one["resident_bytes"] / 1e6 for one in told)
        return [Stretch(one["seconds"], one["cpu_s"], one["sent"], one["received"]) for one in told]

    def echo_us(self, rate: float, warm_s: float, seconds: float) -> float:
        """The median round trip."""
        port = self._ports[0]
        told = self._run([("ask", port, rate, warm_s, seconds), ("answer", port)], warm_s + seconds)
        return median_us(told[:1])

    def _run(self, calls: Sequence[Sequence[object]], seconds: float) -> list[Told]:
        return together(cluster_bare.__name__, calls, self._folder / "said", seconds)


def _latency(folder: Path, effort: Effort) -> Iterator[Record | str]:
    layout, bare = open_layout(folder / "programs", NODES), BareProcesses(folder / "echo")
    yield "what programs sustain"
    full = _programs(layout, "full", 0.0, effort.warm_s, effort.nodes_s)
    each = sum(one["delivered"] / one["seconds"] for one in full) / (NODES - 1) / NODES / 2
    middle, late, echo = [], [], []
    for turn in range(1, effort.turns + 1):
        yield f"latency at {each:,.0f} messages a second from each, turn {turn} of {effort.turns}"
        told = _programs(layout, f"turn-{turn}", each, effort.warm_s, effort.nodes_s)
        taken_us = [taken for one in told for taken in one["latencies_us"]]
        cuts = quantiles(taken_us, n=100)
        middle.append(cuts[49])
        late.append(cuts[98])
        echo.append(bare.echo_us(each, effort.warm_s, effort.bare_s))
    yield Record("cluster.latency.rate", NODES * each, "messages/s")
    yield Record("cluster.latency.p50", median(middle), "us", median(echo))
    yield Record("cluster.latency.p99", median(late), "us", median(echo))


def _events(folder: Path, effort: Effort) -> Iterator[Record | str]:
    layout, bare = open_layout(folder / "readers", NODES), BareProcesses(folder / "beside")
    kinds, moved, echo = ("fixed", "changing"), list[list[Stretch]](), list[float]()
    full: dict[str, list[list[Told]]] = {kind: [] for kind in kinds}
    calm: dict[str, list[list[Told]]] = {kind: [] for kind in kinds}
    for turn in range(1, effort.turns + 1):
        for rate, measured in ((0.0, full), (CALM, calm)):
            how = f"{rate:,.0f} messages a second from each" if rate else "as fast as it goes"
            for kind in kinds:
                yield f"programs of a {kind} group, {how}, turn {turn} of {effort.turns}"
                called = f"{kind}-{rate:.0f}-{turn}"
                told = _programs(layout, called, rate, effort.warm_s, effort.nodes_s, kind)
                measured[kind].append(told)
        yield f"bare processes, turn {turn} of {effort.turns}"
        moved.append(bare.move(0.0, effort.warm_s, effort.bare_s))
        echo.append(bare.echo_us(CALM, effort.warm_s, effort.bare_s))
    cpu = {kind: median(map(_cpu_us, full[kind])) for kind in kinds}
    p50 = {kind: median(map(median_us, calm[kind])) for kind in kinds}
    bare_us = median(
        1e6 * sum(one.cpu_s for one in turn) / sum(one.delivered for one in turn) for turn in moved
    )
    yield Record("cluster.events.cpu", cpu["fixed"], "us", bare_us)
    yield Record("cluster.events.cpu.changing", cpu["changing"], "us", cpu["fixed"])
    yield Record("cluster.events.writes", median(map(_writes, full["fixed"])), "writes")
    yield Record("cluster.events.writes.changing", median(map(_writes, full["changing"])), "writes")
    yield Record("cluster.events.p50", p50["fixed"], "us", median(echo))
    yield Record("cluster.events.p50.changing", p50["changing"], "us", p50["fixed"])


def _cpu_us(told: list[Told]) -> float:
    delivered = sum(one["delivered"] for one in told)
    if not delivered:
        seconds = told[0]["seconds"]
        raise UsageError(f"nothing was delivered in {seconds:.1f} s: this machine has too much to do")
    return float(1e6 * sum(one["cpu_s"] for one in told) / delivered)


def _writes(told: list[Told]) -> float:
    """Per 64 messages."""
    messages = sum(one["delivered"] + one["sent"] for one in told)
    return float(64 * sum(one["writes"] for one in told) / messages)


def median_us(told: list[Told]) -> float:
    latencies = [taken for one in told for taken in one["latencies_us"]]
    if not latencies:
        raise UsageError("nothing came back in the time that was measured: this machine has too much to do")
    return float(median(latencies))


def _programs(
    layout: Layout, called: str, rate: float, warm_s: float, seconds: float, kind: str = "fixed"
) -> list[Told]:
    """Three programs with a node inside each, in fresh data folders."""
    folder = layout.folder / called
    folder.mkdir()
    calls = [(name, kind, layout.members, folder / name, rate, warm_s, seconds) for name in layout.names]
    return together(cluster_application.__name__, calls, folder, warm_s + seconds)
