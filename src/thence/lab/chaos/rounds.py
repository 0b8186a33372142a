"""One round of a trial: a cluster from its start to the verdict on its trace.

A round has a seed, from which settings, load and plan are drawn. It holds if nothing happened that the plan
does not explain, if everything reached all members and became stable once the trouble was over, if all nodes
stopped in order and left no process behind, none of them grew out of bounds, and Spark finds nothing wrong
with the trace.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from thence.core.errors import ThenceError
from thence.lab.chaos.crash_points import PROGRAM
from thence.lab.chaos.net import Net, draw_weather, far
from thence.lab.chaos.plan import draw_plan, draw_setup
from thence.lab.chaos.quiescence import await_none, complaints, grown, left_over, memories, restless
from thence.lab.chaos.storm import STOP_S, Storm
from thence.lab.findings import read_findings
from thence.local.cluster import Cluster
from thence.local.console import out, working
from thence.local.layout import Layout, open_layout
from thence.local.node import as_arguments
from thence.pipeline.where import Where

if TYPE_CHECKING:
    from thence.pipeline.report import Report

REST_S: Final = 90.0
"""Most that a group may take to come to rest: the longest time between two questions about what is not
stable, several times over, on a machine that has other things to do."""

GROWTH_BYTES: Final = 64 << 20
"""More than windows, inboxes and what is not stable can take with the loads that are drawn."""


def tell(line: str) -> None:
    out.print(f"  {line}", markup=False)


class Round:
    """With a fixed group."""

    storm: type[Storm] = Storm
    rested = "all delivered and stable everywhere"

    def __init__(
        self,
        seed: int,
        nodes: int,
        seconds: float,
        folder: Path,
        netem: bool = False,
        spread: str = "mesh",
    ) -> None:
        setup = draw_setup(seed, nodes, spread)
        layout = self._make(seed, nodes, seconds, folder, netem, str(setup), setup.flags(), PROGRAM)
        self._setup = setup
        self._plan = draw_plan(seed, layout.names, seconds)

    def _make(
        self, seed: int, nodes: int, seconds: float, folder: Path, netem: bool, words: str,
        flags: Mapping[str, object], program: Sequence[str], changing: bool = False,
    ) -> Layout:  # fmt: skip
        """The cluster, not started yet."""
        self._words, self._weather, self._seconds = words, draw_weather(seed), seconds
        self._trace = folder / "trace"
        folder.mkdir()
        layout = self._laid_out(folder, nodes, changing)
        self._net = Net(f"{os.getpid()}", layout.names) if netem else None
        common = {"profile": "local", "allow_faults": True, "insecure": netem, "trace": self._trace}
        arguments = as_arguments({**common, **flags})
        self._cluster = Cluster(far(layout) if netem else layout, flags=arguments, program=program)
        return layout

    def _laid_out(self, folder: Path, nodes: int, changing: bool) -> Layout:
        return open_layout(folder / "data", nodes, changing=changing)

    def run(self, where: Where) -> None:
        """Nothing if all held, else an error that says what did not."""
        tell(self._words)
        if self._net is None:
            self._live()
        else:
            tell(f"between the nodes: {self._weather}")
            self._net.move(self._cluster)
            with self._net.up(self._weather):
                self._live()
        self._judge(where)

    def _live(self) -> None:
        with self._cluster:
            self._storm()
            self._stop()

    def _storm(self) -> None:
        storm = self._new_storm()
        storm.start()
        before = memories(self._cluster)
        storm.run(self._seconds)
        storm.calm()
        took_s = await_none(self._restless, REST_S, tell)
        after = memories(self._cluster)
        tell(
            f"{self.rested} {took_s:.1f} s after the last trouble; {storm.kills} kills; "
            f"up to {max(after.values(), default=0) >> 20} MiB per node"
        )
        if told := grown(before, after, GROWTH_BYTES):
            raise ThenceError(told)

    def _new_storm(self) -> Storm:
        return self.storm(self._cluster, self._setup, self._plan, tell)

    def _restless(self) -> Mapping[str, str]:
        """By node, what keeps it from being at rest."""
        return restless(self._cluster)

    def _stop(self) -> None:
        """Those that run, in order."""
        running = [node.name for node in self._cluster.nodes.values() if node.process is not None]
        codes = self._cluster.stop(*running, grace_s=STOP_S)
        if bad := [f"{name} (exit code {code})" for name, code in codes.items() if code != 0]:
            raise ThenceError(f"did not stop in order: {', '.join(bad)}")
        if pids := left_over(self._cluster.layout.folder):
            raise ThenceError(f"processes were left behind: {', '.join(map(str, pids))}")
        if told := complaints(self._cluster):
            raise ThenceError(f"{len(told)} complaints in the logs: {'; '.join(told[:5])}")

    @property
    def _findings(self) -> Path:
        """All of them: a report has the first ten of each kind, and those may be forgiven."""
        return self._trace.with_name("findings")

    def _forgives(self, violation: Mapping[str, object]) -> bool:  # noqa: ARG002
        """May the trace have it?"""
        return False

    def _report(self, where: Where) -> "Report":
        if where.engine == "local":
            from thence.pipeline import local

            return local.verify(self._trace, findings=self._findings)
        with working("Spark starts and judges"):
            from thence.pipeline.verify import verify

            return verify(where.spark(), self._trace, findings=self._findings)

    def _judge(self, where: Where) -> None:
        report = self._report(where)
        [judged] = report.runs
        counts = {verdict: count for verdict, count in judged.violations.items() if count}
        tell(
            f"{where.engine.capitalize()}: {judged.sends:,} messages, {judged.deliveries:,} deliveries, "
            f"{judged.stables:,} told as stable, {report.torn} torn lines: "
            f"{counts or 'no violation of any kind'}"
        )
        if bad := [found for found in read_findings(self._findings) if not self._forgives(found)]:
            raise ThenceError("; ".join([", ".join(f"{k} {v}" for k, v in e.items()) for e in bad[:5]]))
