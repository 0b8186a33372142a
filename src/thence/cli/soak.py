"""`thence soak`: storms for as long as there is time, or so many of them.

Seeds are simulated on all cores, each with one engine after the other, and Spark judges what they left,
hundreds of runs at a time. The first storm that does not end well, or that Spark complains about, stops
the soak; its trace is kept, and the command that brings it back is printed.
"""

import math
import multiprocessing
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import count, islice
from pathlib import Path

from thence.cli import leash
from thence.cli.console import counting, out
from thence.cli.where import Where
from thence.core.errors import UsageError
from thence.order.engines import ENGINES
from thence.order.separator import SEPARATOR
from thence.sim.edge_run import EDGE, hours, simulate_edge
from thence.sim.groups_run import ORDERS, STORM, group_scenario, simulate_group
from thence.sim.run import simulate
from thence.sim.scenarios import ROUTERS, SCENARIOS, configure
from thence.trace.schema import FORGIVEN, VERDICTS

STORMS_PER_BATCH = 300

KNOWN = (*SCENARIOS, *ORDERS, EDGE)
"""Scenarios whose runs Spark judges by the hundred: those over partial views are not among them."""

Storm = tuple[str, int, str]
"""Scenario, seed, engine."""


def run(minutes: float, seeds: int | None, scenario: str, start: int, jobs: int | None, where: Where) -> int:
    """`seeds`: so many, however long they take."""
    if minutes <= 0 or (seeds is not None and seeds < 1) or (jobs is not None and jobs < 1):
        raise UsageError("--minutes, --seeds and --jobs must be positive")
    if scenario not in KNOWN:
        raise UsageError(f"unknown scenario {scenario!r}; there is {', '.join(KNOWN)}")
    engines = [*[name for name, engine in ENGINES.items() if engine.witness is not None], SEPARATOR]
    if scenario == ROUTERS:
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
            while (done == 0 or time.monotonic() < until) and (
                batch := list(islice(storms, STORMS_PER_BATCH))
            ):
                failed, node_hours, late = _batch(pool, batch, folder, where)
                overtaken += late
                if failed:
                    out.print(f"[red]{failed}[/]\nThe traces of this batch are in {folder}.")
                    return 1
                done += len(batch)
                hours += node_hours
                watcher(done, len(engines) * (seeds or 0))
                shutil.rmtree(folder)
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
        out.print(f"program: {overtaken:,} operations after later ones, over changing groups (not judged)")
    return 0


def _belong_to(parent: int) -> None:
    """Ctrl-C reaches the whole group of processes, and the parent tells of it; with whom they end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    leash.hold(parent)


def _batch(
    pool: ProcessPoolExecutor, batch: list[Storm], folder: Path, where: Where
) -> tuple[str, float, int]:
    """What went wrong, if anything, how many hours the nodes have lived, and how often program order broke
    where that is forgiven."""
    hours, overtaken = 0.0, 0
    forgiven: set[str] = set()
    folder.mkdir(exist_ok=True)
    for storm, told in zip(batch, pool.map(_storm, batch, _folders(batch, folder)), strict=True):
        why, node_hours, forgives = told
        hours += node_hours
        if why:
            return f"{why}\n{_command(storm)}", hours, overtaken
        if forgives:
            forgiven.add(_run(storm))
    from thence.pipeline.verify import verify

    for judged in verify(where.spark(), folder).runs:
        verdicts = FORGIVEN if judged.run in forgiven else VERDICTS
        if any(judged.violations[verdict] for verdict in verdicts):
            scenario, seed, order = judged.run.rsplit("/", 2)
            return f"{judged.violations}\n{_command((scenario, int(seed), order))}", hours, overtaken
        overtaken += judged.violations["program"]
    return "", hours, overtaken


def _folders(batch: list[Storm], folder: Path) -> Iterator[Path]:
    return (folder / f"{seed}-{order}" for _, seed, order in batch)


def _run(storm: Storm) -> str:
    scenario, seed, order = storm
    return f"{scenario}/{seed}/{order}"


Told = tuple[str, float, bool]
"""What went wrong, hours that nodes have lived, whether program order may break."""


def _storm(storm: Storm, folder: Path) -> Told:
    try:
        return _simulate(storm, folder)
    except Exception as error:  # whatever it is, it must be told of which storm
        return f"{type(error).__name__}: {error}", 0.0, False


def _simulate(storm: Storm, folder: Path) -> Told:
    scenario, seed, order = storm
    given = {"seed": seed, "order": order}
    if scenario == EDGE:
        edge = simulate_edge(given, folder, run=_run(storm))
        return edge.why, hours(edge), False
    if (kind := group_scenario(scenario, given)) is not None:
        group = simulate_group(kind, given, folder, run=_run(storm), rough=scenario == STORM)
        return group.why, group.virtual_ms * group.nodes / 3_600_000, group.forgives
    outcome = simulate(configure(scenario, seed=seed, order=order), folder, run=_run(storm))
    why = "" if outcome.complete else outcome.why
    return why, outcome.virtual_ms * outcome.nodes / 3_600_000, False


def _command(storm: Storm) -> str:
    scenario, seed, order = storm
    return f"thence sim --scenario {scenario} --order {order} --seed {seed} --trace T && thence verify T"
