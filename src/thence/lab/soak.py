"""`thence soak`: storms for as long as there is time, or so many of them.

Seeds are simulated on all cores, each with one engine after the other, and Spark judges what they left,
up to hundreds of runs at a time, every two minutes or so. The first storm that does not end well, or that
Spark complains about, stops the soak; its trace is kept, and the command that brings it back is printed.
"""

import math
import multiprocessing
import os
import shutil
import signal
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from thence.check.forgotten import Forgotten
from thence.core.errors import UsageError
from thence.lab.findings import read_findings
from thence.local import die_with_parent
from thence.local.console import counting, out
from thence.order.engine import SEPARATOR
from thence.order.engines import ENGINES
from thence.pipeline.where import Where
from thence.sim.edge_run import EDGE, hours, simulate_edge
from thence.sim.groups_run import ORDERS, STORM, group_scenario, simulate_group
from thence.sim.registry import MESH, STEPS, known
from thence.sim.run import simulate
from thence.sim.scenarios import JOINS, ROUTERS, configure
from thence.sim.zones_run import ZONES, simulate_zones
from thence.sim.zones_run import hours as zones_hours
from thence.trace.schema import FORGIVEN

if TYPE_CHECKING:
    from thence.pipeline.report import RunReport

STORMS_PER_BATCH = 300
BATCH_S = 120.0
"""No storm of a batch begins later: of long ones hundreds would take more than the time that there is."""

KNOWN = known(MESH, STEPS)
"""Scenarios whose runs Spark judges by the hundred: those over partial views are not among them."""

Storm = tuple[str, int, str]
"""Scenario, seed, engine."""

Told = tuple[str, float, Forgotten]
"""What went wrong, hours that nodes have lived, what processes have forgotten of what they sent."""


def run(minutes: float, seeds: int | None, scenario: str, start: int, jobs: int | None, where: Where) -> int:
    """`seeds`: so many, however long they take."""
    if minutes <= 0 or (seeds is not None and seeds < 1) or (jobs is not None and jobs < 1):
        raise UsageError("--minutes, --seeds and --jobs must be positive")
    if scenario not in KNOWN:
        raise UsageError(f"unknown scenario {scenario!r}; there is {', '.join(KNOWN)}")
    engines = [*[name for name, engine in ENGINES.items() if engine.witness is not None], SEPARATOR]
    if scenario in (JOINS, ROUTERS, ZONES):
        engines = [SEPARATOR]
    elif scenario in ORDERS:
        engines = list(ORDERS[scenario])
    elif scenario == EDGE:
        engines = ["none"]
    until = time.monotonic() + 60 * minutes if seeds is None else math.inf
    numbers = count(start) if seeds is None else range(start, start + seeds)
    storms = ((scenario, seed, order) for seed in numbers for order in engines)
    done, hours, overtaken = 0, 0.0, 0
    folder = Path(tempfile.mkdtemp(prefix="thence-soak-"))
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(
        jobs or os.cpu_count(), mp_context=spawn, initializer=_belong_to, initargs=(os.getpid(),)
    )
    try:
        with counting("storms judged") as watcher:
            while done == 0 or time.monotonic() < until:
                begins_until = min(until, time.monotonic() + BATCH_S)
                told = _told(pool, storms, folder, begins_until, 2 * (jobs or os.cpu_count() or 1))
                failed, judged, node_hours, late = _batch(told, folder, where)
                overtaken += late
                if failed:
                    out.print(f"[red]{failed}[/]\nThe traces of this batch are in {folder}.")
                    return 1
                shutil.rmtree(folder)
                if not judged:
                    break
                done += judged
                hours += node_hours
                watcher(done, len(engines) * (seeds or 0))
    except KeyboardInterrupt:
        shutil.rmtree(folder, ignore_errors=True)
        out.print(f"{done:,} storms until then: no violation")
        raise
    finally:
        pool.shutdown(cancel_futures=True)
    last = start + (done - 1) // len(engines)
    out.print(
        f"{done:,} storms ({scenario}, seeds {start} to {last}, orders {', '.join(engines)}): all delivered, "
        f"stable and drained, no violation of any {'other ' if overtaken else ''}kind; "
        f"{hours:,.1f} hours of simulated node time"
    )
    if overtaken:
        out.print(f"program: {overtaken:,} operations late that their processes had forgotten before")
    return 0


def _belong_to(parent: int) -> None:
    """Ctrl-C reaches the whole group of processes, and the parent tells of it; they end with the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent.hold(parent)


def _told(
    pool: Executor, storms: Iterator[Storm], folder: Path, begins_until: float, ahead: int
) -> Iterator[tuple[Storm, Told]]:
    """The storms of a batch, and what is told of each, in their order: one at least, if there is any left.
    `ahead`: how many may be under way or wait for a process."""
    running: deque[tuple[Storm, Future[Told]]] = deque()
    begun = 0
    while True:
        while len(running) < ahead and begun < STORMS_PER_BATCH:
            late = begun and time.monotonic() > begins_until
            if late or (storm := next(storms, None)) is None:
                break
            _, seed, order = storm
            running.append((storm, pool.submit(_storm, storm, folder / f"{seed}-{order}")))
            begun += 1
        if not running:
            return
        storm, future = running.popleft()
        yield storm, future.result()


def _batch(storms: Iterator[tuple[Storm, Told]], folder: Path, where: Where) -> tuple[str, int, float, int]:
    """What went wrong, if anything, how many storms there were, how many hours the nodes have lived, and how
    often an operation came late that its process had forgotten."""
    hours, overtaken, count = 0.0, 0, 0
    losses: dict[str, Forgotten] = {}
    folder.mkdir(exist_ok=True)
    for storm, (why, node_hours, forgotten) in storms:
        hours += node_hours
        count += 1
        if why:
            return f"{why}\n{_command(storm)}", count, hours, overtaken
        losses[_run(storm)] = forgotten
    if not count:
        return "", 0, 0.0, 0
    from thence.pipeline.verify import verify

    findings = folder.with_name(f"{folder.name}-findings")
    try:
        for judged in verify(where.spark(), folder, findings=findings).runs:
            if why := _unforgiven(judged, losses[judged.run], findings):
                scenario, seed, order = judged.run.rsplit("/", 2)
                return f"{why}\n{_command((scenario, int(seed), order))}", count, hours, overtaken
            overtaken += judged.violations["program"]
    finally:
        shutil.rmtree(findings, ignore_errors=True)
    return "", count, hours, overtaken


def _unforgiven(judged: "RunReport", forgotten: Forgotten, findings: Path) -> str:
    """What is wrong with the trace of a storm, but for operations that may come late."""
    if any(judged.violations[verdict] for verdict in FORGIVEN):
        return str(judged.violations)
    if not judged.violations["program"]:
        return ""
    found = [one for one in read_findings(findings, judged.run) if not forgotten.excuses(one)]
    return "; ".join([", ".join(f"{what} {said}" for what, said in one.items()) for one in found[:5]])


def _run(storm: Storm) -> str:
    scenario, seed, order = storm
    return f"{scenario}/{seed}/{order}"


def _storm(storm: Storm, folder: Path) -> Told:
    try:
        return _simulate(storm, folder)
    except Exception as error:  # whatever it is, it must be told of which storm
        return f"{type(error).__name__}: {error}", 0.0, Forgotten()


def _simulate(storm: Storm, folder: Path) -> Told:
    scenario, seed, order = storm
    given = {"seed": seed, "order": order}
    if scenario == EDGE:
        edge = simulate_edge(given, folder, run=_run(storm))
        return edge.why, hours(edge), Forgotten()
    if scenario == ZONES:
        zones = simulate_zones({"seed": seed}, folder, run=_run(storm))
        return zones.why, zones_hours(zones), Forgotten()
    if (kind := group_scenario(scenario, given)) is not None:
        group = simulate_group(kind, given, folder, run=_run(storm), rough=scenario == STORM)
        return group.why, group.virtual_ms * group.nodes / 3_600_000, group.forgotten
    outcome = simulate(configure(scenario, seed=seed, order=order), folder, run=_run(storm))
    why = "" if outcome.complete else outcome.why
    return why, outcome.virtual_ms * outcome.nodes / 3_600_000, Forgotten()


def _command(storm: Storm) -> str:
    scenario, seed, order = storm
    return f"thence sim --scenario {scenario} --order {order} --seed {seed} --trace T && thence verify T"
