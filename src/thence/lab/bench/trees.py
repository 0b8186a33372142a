"""`bench trees`: what chapter 5 of the ECO SYNC Tree document measures, over many seeds.

Of each figure the mean over the seeds; of times also the standard deviation and the worst. Baselines: causal
flood over the same views in the same run for latencies, a perfect tree for bytes. Everything is simulated, so
that the same code gives the same figures on any machine; only how long it takes differs.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from statistics import fmean, stdev

from thence.experiments.tree import HEADER_BYTES, LIMITS
from thence.lab.bench.record import Record
from thence.sim.overlay import OverlayOutcome, OverlayRun
from thence.sim.overlay_scenarios import configure

Measure = Callable[[OverlayOutcome], float]


@dataclass(frozen=True, slots=True)
class Case:
    """Runs that differ in their seed only."""

    name: str
    scenario: str
    spread: str
    nodes: int
    messages: int
    limited: bool = False
    ttl_ms: float | None = None

    @property
    def cost(self) -> int:
        return self.nodes**2 * self.messages * (4 if self.spread == "flood" else 1)


def latency(outcome: OverlayOutcome) -> float:
    return outcome.latency_ms


def slowest(outcome: OverlayOutcome) -> float:
    return outcome.slowest_ms


def duplicates(outcome: OverlayOutcome) -> float:
    return 1e4 * outcome.duplicates / outcome.deliveries


def bytes_each(outcome: OverlayOutcome) -> float:
    """On the wire, all layers, for a delivery."""
    return sum(outcome.bytes.values()) / outcome.deliveries


def healed(outcome: OverlayOutcome) -> float:
    return max(outcome.healed_ms) / 1000


def settled(outcome: OverlayOutcome) -> float:
    return max(outcome.settled_ms) / 1000


PERFECT_BYTES = 1024 + HEADER_BYTES


def cases(nodes: int) -> list[Case]:
    half = nodes // 2  # a point costs the square of its size, and churn takes long
    return [
        # A flood takes four times as long as a tree, and varies little.
        Case("stable.flood", "stable", "flood", nodes, 10),
        Case("stable.sync", "stable", "sync-tree", nodes, 20),
        Case("stable.centre", "stable", "sync-tree-centre", nodes, 20),
        Case("churn.flood", "churn", "flood", half, 120, limited=True),
        Case("churn.sync", "churn", "sync-tree", half, 120, limited=True),
        Case("churn.eco", "churn", "eco-sync-tree", half, 120, limited=True, ttl_ms=15_000.0),
        Case("massive-join.sync", "massive-join", "sync-tree", nodes, 40),
        Case("catastrophe.sync", "catastrophe", "sync-tree", nodes, 40),
        Case("root.sync", "root", "sync-tree", 6, 20),
        Case("long-partition.eco", "long-partition", "eco-sync-tree", 20, 60, ttl_ms=5000.0),
    ]


MEASURES: dict[str, dict[str, tuple[Measure, str]]] = {
    "stable": {
        "latency": (latency, "ms"),
        "bytes": (bytes_each, "bytes"),
        "duplicates": (duplicates, "per 10,000"),
    },
    "churn": {"latency": (latency, "ms")},
    "massive-join": {"healed": (healed, "s"), "settled": (settled, "s")},
    "catastrophe": {"healed": (healed, "s"), "settled": (settled, "s")},
    "root": {"slowest": (slowest, "ms")},
    "long-partition": {"healed": (healed, "s")},
}


def run(case: Case, seed: int) -> OverlayOutcome:
    limits = LIMITS if case.limited else {}
    settings = configure(
        case.scenario,
        spread=case.spread,
        nodes=case.nodes,
        messages=case.messages,
        ttl_ms=case.ttl_ms,
        seed=seed,
        **limits,
    )
    outcome = OverlayRun(settings)()
    if not outcome.complete:
        raise AssertionError(f"{case.name}, seed {seed}: {outcome.why}")
    return outcome


def bench(quick: bool) -> Iterator[Record | str]:
    seeds = range(1, 4 if quick else 11)
    wanted = cases(30 if quick else 200)
    found: dict[str, list[OverlayOutcome]] = {}
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        jobs = {
            case: [pool.submit(run, case, seed) for seed in seeds]
            for case in sorted(wanted, key=lambda case: -case.cost)
        }
        for case in wanted:
            yield f"{case.name}, seeds {seeds[0]} to {seeds[-1]}"
            found[case.name] = [job.result() for job in jobs[case]]
            yield from _records(case, found)


def _records(case: Case, found: dict[str, list[OverlayOutcome]]) -> Iterator[Record]:
    outcomes = found[case.name]
    flood = found.get(f"{case.scenario}.flood")
    for label, (measure, unit) in MEASURES[case.scenario].items():
        values = [measure(outcome) for outcome in outcomes]
        baseline = None
        if label == "bytes":
            baseline = float(PERFECT_BYTES)
        elif label == "latency" and flood is not None and flood is not outcomes:
            baseline = fmean([measure(outcome) for outcome in flood])
        name = f"trees.{case.name}.{case.nodes}.{label}"
        yield Record(name, fmean(values), unit, baseline)
        if label not in ("bytes", "duplicates"):
            yield Record(f"{name}.deviation", stdev(values), unit)
            yield Record(f"{name}.worst", max(values), unit, baseline)
