"""The experiments of section 8.4 of the tagged causal broadcast document.

Experiment 1 compares the graph with the classical, double-tagged vector, experiment 2 with the vector
tagged at the client, both with every member sending each 10, 100 or 1000 ms. Experiment 3 keeps the
group's total rate constant. All of them with and without stability, 100 messages per member, Weibull
latencies of 10 ms (31 ms in experiment 3) in the mean. The slow-link runs repeat 2 and 3 with a link ten
times slower between the first two members, which are the ones observed.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from thence.experiments.probe import probed
from thence.order.engines import engine as find_engine
from thence.sim.run import Run, trace_file
from thence.sim.settings import SimSettings

SIZES = (4, 8, 16, 32, 64, 128)
QUICK_SIZES = (4, 8, 16)
WEIBULL_MEAN = 1.1329
CONSTANT_WORK_MS = {4: 31.0, 8: 63.0, 16: 125.0, 32: 250.0, 64: 500.0, 128: 1000.0}


@dataclass(frozen=True, slots=True)
class TcbPoint:
    """One run of a sweep."""

    experiment: str
    order: str
    size: int
    interval_ms: float
    latency_ms: float
    stability: bool
    slow_link: bool
    messages: int
    load: str
    """What distinguishes the lines of a figure: the interval, or the experiment that it repeats."""
    seed: int = 1

    @property
    def name(self) -> str:
        stable = "stable" if self.stability else "plain"
        return f"{self.order}-{self.size}-{self.load.replace(' ', '')}-{stable}"

    @property
    def cost(self) -> int:
        """About how long it takes, for giving out the long ones first."""
        return (
            self.size**2
            * self.messages
            * (3 if self.stability else 1)
            * (self.size if "vector" in self.order else 20)
        )


def points(experiment: str, quick: bool) -> list[TcbPoint]:
    sizes, messages = (QUICK_SIZES, 30) if quick else (SIZES, 100)
    baseline = "vector-e2e" if experiment == "tcb-1" else "vector"
    slow = experiment == "tcb-slow-link"
    loads: list[tuple[str, dict[int, float], float]] = []
    if experiment in ("tcb-1", "tcb-2", "tcb-slow-link"):
        intervals = (10.0, 100.0, 1000.0)
        prefix = "exp 2, " if slow else ""
        loads += [(f"{prefix}{i:g} ms", dict.fromkeys(sizes, i), 10.0) for i in intervals]
    if experiment in ("tcb-3", "tcb-slow-link"):
        loads.append(("exp 3" if slow else "constant work", CONSTANT_WORK_MS, 31.0))
    return [
        TcbPoint(experiment, order, size, intervals_of[size], latency, stability, slow, messages, load)
        for load, intervals_of, latency in loads
        for size in sizes
        for stability in (False, True)
        for order in ("graph", baseline)
    ]


def measure(point: TcbPoint, folder: Path) -> dict[str, Any]:
    """Run one point with its trace, and tell what was measured."""
    settings = SimSettings(
        scenario="slow-link" if point.slow_link else "steady",
        order=point.order,
        nodes=point.size,
        messages=point.messages,
        interval_ms=point.interval_ms,
        latency_ms=point.latency_ms / WEIBULL_MEAN,
        stability=point.stability,
        payload_bytes=0,
        seed=point.seed,
    )
    observed = range(2) if point.slow_link else range(0, point.size, max(1, point.size // 2))
    engine, notes = probed(find_engine(point.order), observed, point.messages * (point.size - 1))
    with trace_file(folder).open("wb") as sink:
        outcome = Run(settings, sink, run=point.name, engine=engine)()
    return {
        **asdict(point),
        "name": point.name,
        "complete": outcome.complete,
        "why": outcome.why,
        "deliveries": outcome.deliveries,
        "held": outcome.held,
        "cpu_seconds": outcome.cpu_seconds,
        **notes.summary(),
    }
