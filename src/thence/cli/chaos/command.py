"""`thence chaos`: storms on real processes, one round after another, each judged by Spark.

A round has a seed, from which settings, load and plan are drawn. It holds if nothing happened that the plan
does not explain, if everything reached everyone and became stable once the trouble was over, if all nodes
stopped in order and left no process behind, none of them grew out of bounds, and Spark finds nothing wrong
with the trace.
"""

import os
import shutil
import time
from pathlib import Path
from typing import Final

from rich.text import Text

from thence.cli.chaos.doomed import PROGRAM
from thence.cli.chaos.net import Net, draw_weather, far, why_not
from thence.cli.chaos.plan import draw_plan, draw_setup
from thence.cli.chaos.rest import await_rest, complaints, grown, left_over, memories
from thence.cli.chaos.storm import STOP_S, Storm
from thence.cli.cluster import Cluster
from thence.cli.console import out, working
from thence.cli.folders import fresh_folder
from thence.cli.layout import open_layout
from thence.cli.node import as_arguments
from thence.core.errors import ThenceError, UsageError

ROUND_S: Final = 40.0
"""Long enough for every kind of trouble to come about three times, short enough to meet many settings."""

REST_S: Final = 90.0
"""Most that a group may take to come to rest: the longest time between two questions about what is not
stable, several times over, on a machine that has other things to do."""

GROWTH_BYTES: Final = 64 << 20
"""More than windows, inboxes and what is not stable can take with the loads that are drawn."""

MARK: Final = ".thence-chaos"


MOST_NODES: Final = {"mesh": 9, "tree": 32}
"""What one machine can run under load."""


def run(
    minutes: float,
    nodes: int,
    seed: int,
    folder: Path,
    netem: bool,
    keep: bool,
    master: str | None,
    spread: str = "mesh",
) -> int:
    if spread not in MOST_NODES:
        raise UsageError(f"--spread is {' or '.join(MOST_NODES)}, not {spread!r}")
    if not 2 <= nodes <= MOST_NODES[spread]:
        raise UsageError(f"a trial takes 2 to {MOST_NODES[spread]} nodes, not {nodes}")
    if minutes <= 0:
        raise UsageError("--minutes must be positive")
    if netem and (reason := why_not()) is not None:
        raise UsageError(f"--netem is not possible: {reason}")
    folder = folder.absolute()  # nodes are known by their folder, whoever looks for them
    fresh_folder(folder, MARK)
    until = time.monotonic() + 60 * minutes
    seconds = min(ROUND_S, 60 * minutes)
    number = seed
    while number == seed or time.monotonic() < until:
        trial = folder / f"seed-{number}"
        out.print(f"[bold]seed {number}[/]: {nodes} nodes, {seconds:.0f} s of trouble")
        try:
            Round(number, nodes, seconds, trial, netem, spread).run(master)
        except ThenceError as error:
            out.print(Text(str(error), "red"))
            out.print(f"Seed {number} did not hold. Its data, logs and traces are in {trial}. Once more:")
            again = f"thence chaos --seed {number} --nodes {nodes} --minutes {seconds / 60:g}"
            again += "" if spread == "mesh" else f" --spread {spread}"
            out.print(f"{again} --netem" if netem else again)
            return 1
        if not keep:
            shutil.rmtree(trial)
        number += 1
    if not keep:
        shutil.rmtree(folder)
    rounds = f"{number - seed} rounds, seeds {seed} to {number - 1}" if number > seed + 1 else f"seed {seed}"
    out.print(f"[green]{rounds}: everything held.[/]")
    return 0


def _tell(line: str) -> None:
    out.print(f"  {line}", markup=False)


class Round:
    """One cluster, from its start to the verdict on its trace."""

    def __init__(
        self,
        seed: int,
        nodes: int,
        seconds: float,
        folder: Path,
        netem: bool = False,
        spread: str = "mesh",
    ) -> None:
        self._setup: Final = draw_setup(seed, nodes, spread)
        self._weather: Final = draw_weather(seed)
        self._seconds: Final = seconds
        self._trace: Final = folder / "trace"
        folder.mkdir()
        layout = open_layout(folder / "data", nodes)
        self._plan: Final = draw_plan(seed, layout.names, seconds)
        self._net: Final = Net(f"{os.getpid()}", layout.names) if netem else None
        flags = {"profile": "local", "allow_faults": True, "insecure": netem, "trace": self._trace}
        self._cluster: Final = Cluster(
            far(layout) if netem else layout,
            flags=as_arguments({**flags, **self._setup.flags()}),
            program=PROGRAM,
        )

    def run(self, master: str | None) -> None:
        """Nothing if all held, else an error that says what did not."""
        _tell(str(self._setup))
        if self._net is None:
            self._live()
        else:
            _tell(f"between the nodes: {self._weather}")
            self._net.move(self._cluster)
            with self._net.up(self._weather):
                self._live()
        self._judge(master)

    def _live(self) -> None:
        with self._cluster:
            self._storm()
            self._stop()

    def _storm(self) -> None:
        storm = Storm(self._cluster, self._setup, self._plan, _tell)
        storm.start()
        before = memories(self._cluster)
        storm.run(self._seconds)
        storm.calm()
        took_s = await_rest(self._cluster, REST_S, _tell)
        after = memories(self._cluster)
        _tell(
            f"all delivered and stable everywhere {took_s:.1f} s after the last trouble; "
            f"up to {max(after.values(), default=0) >> 20} MiB per node"
        )
        if told := grown(before, after, GROWTH_BYTES):
            raise ThenceError(told)

    def _stop(self) -> None:
        codes = self._cluster.stop(grace_s=STOP_S)
        if bad := [f"{name} (exit code {code})" for name, code in codes.items() if code != 0]:
            raise ThenceError(f"did not stop in order: {', '.join(bad)}")
        if pids := left_over(self._cluster.layout.folder):
            raise ThenceError(f"processes were left behind: {', '.join(map(str, pids))}")
        if told := complaints(self._cluster):
            raise ThenceError(f"{len(told)} complaints in the logs: {'; '.join(told[:5])}")

    def _judge(self, master: str | None) -> None:
        with working("Spark starts and judges"):
            from thence.pipeline.session import session
            from thence.pipeline.verify import verify

            report = verify(session(master), self._trace)
        [judged] = report.runs
        counts = {verdict: count for verdict, count in judged.violations.items() if count}
        _tell(
            f"Spark: {judged.sends:,} messages, {judged.deliveries:,} deliveries, {judged.stables:,} told "
            f"as stable, {report.torn} torn lines: {counts or 'no violation of any kind'}"
        )
        if counts:
            raise ThenceError(
                "; ".join([", ".join(f"{k} {v}" for k, v in e.items()) for e in judged.examples[:5]])
            )
