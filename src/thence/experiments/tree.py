"""The experiments of chapter 5 of the ECO SYNC Tree document.

SYNC tree, ECO SYNC tree, causal flood and periodic pull over the same views, in the document's scenarios,
with nodes on its grid (10 to 100 ms), each with its share of the document's machines, and a message from
every node each second. Runs are shorter than the document's ten minutes: what is measured per message does
not change with their length, and what happens over time is counted from the moment that something happens.
Only what a newcomer must read grows with the run, unless logs forget.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import Any

from thence.sim.overlay import OverlayOutcome, OverlayRun
from thence.sim.overlay_scenarios import configure
from thence.sim.run import trace_file

SIZES = (50, 100, 200)
QUICK_SIZES = (16, 32)
HEADER_BYTES = 13
"""What a message has on the wire besides its payload, at most of these sizes."""

LIMITS = MappingProxyType({"bandwidth_mbit": 500.0, "handling_us": 80.0})
"""What a node can carry: its share of the document's machines (section 5.2), the same for every spread. The
work per message is an assumption, since the document does not tell: with it a newcomer needs about as long
for its past as the published latencies under churn let one guess."""

SETTING = (
    "Every node sends each second. Latencies are 10 to 100 ms; a node carries 500 Mbit/s each way and spends "
    "80 µs of a core, of which it has 0.36, on a message that arrives: the same for every protocol. Latency "
    "is the time until every node that was there has a message."
)
MARKED = f"{SETTING} Dashed lines mark when nodes come or go."

ALL = ("sync-tree", "sync-tree-centre", "eco-sync-tree", "flood", "pull", "pull-1s")
THEIRS = ("sync-tree", "eco-sync-tree", "flood", "pull", "pull-1s")
"""What the document compares."""
CHURNED = ("sync-tree", "eco-sync-tree", "eco-sync-tree-centre", "flood", "pull", "pull-1s")
"""And what both of our changes together come to."""
TREES = ("sync-tree", "eco-sync-tree")
SCENARIO = {
    "tree-stable": "stable",
    "tree-churn": "churn",
    "tree-massive-join": "massive-join",
    "tree-catastrophe": "catastrophe",
    "tree-eco": "churn",
}
SECONDS = {"stable": 20, "churn": 90, "massive-join": 30, "catastrophe": 30}
"""Three steps of churn; half of the others' time before what happens, and half after it."""


@dataclass(frozen=True, slots=True)
class TreePoint:
    """One run of a sweep."""

    experiment: str
    spread: str
    size: int
    messages: int
    probability: float = 1.0
    payload_bytes: int = 1024
    ttl_ms: float = 15_000.0
    """Of the document's minute, a quarter: its runs are ten minutes long, ours two at most."""
    seed: int = 1

    @property
    def name(self) -> str:
        return f"{self.spread}-{self.size}-p{self.probability:g}-{self.payload_bytes}"

    @property
    def cost(self) -> int:
        """About how long it takes, for giving out the long ones first."""
        return self.size**2 * self.messages * (4 if self.spread == "flood" else 1)


def points(experiment: str, quick: bool) -> list[TreePoint]:
    scenario = SCENARIO[experiment]
    sizes = QUICK_SIZES if quick else SIZES
    messages = max(10, SECONDS[scenario] // (2 if quick else 1))
    spreads = {"tree-eco": TREES, "tree-stable": ALL, "tree-churn": CHURNED}.get(experiment, THEIRS)
    found = [TreePoint(experiment, spread, size, messages) for spread in spreads for size in sizes]
    if experiment == "tree-stable":
        # Neither load nor payload changes with the group, and a point costs the square of its size.
        middle = sizes[len(sizes) // 2]
        found += [
            TreePoint(experiment, s, middle, messages, probability=p) for s in spreads for p in (0.3, 0.6)
        ]
        found += [
            TreePoint(experiment, s, middle, messages, payload_bytes=b) for s in spreads for b in (128, 4096)
        ]
    return found


def measure(point: TreePoint, trace: Path) -> dict[str, Any]:
    """Run it; what came of it."""
    settings = configure(
        SCENARIO[point.experiment],
        spread=point.spread,
        nodes=point.size,
        messages=point.messages,
        probability=point.probability,
        payload_bytes=point.payload_bytes,
        ttl_ms=point.ttl_ms,
        seed=point.seed,
        warmup_ms=15_000.0,
        **LIMITS,
    )
    with trace_file(trace).open("wb") as sink:
        run = OverlayRun(settings, sink, point.name)
        outcome = run()
    return {
        **asdict(point),
        "name": point.name,
        "complete": outcome.complete,
        "why": outcome.why,
        **_numbers(point, run, outcome),
        "first_second": run.plan.sending_us // 1_000_000,
        "marks": [(mark - run.plan.sending_us) / 1e6 for mark in run.plan.marks],
        "series": _series(run),
    }


def _numbers(point: TreePoint, run: OverlayRun, outcome: OverlayOutcome) -> dict[str, Any]:
    perfect = outcome.deliveries * (point.payload_bytes + HEADER_BYTES)
    total = sum(outcome.bytes.values())
    return {
        "sends": outcome.sends,
        "deliveries": outcome.deliveries,
        "resident_s": outcome.resident_ms / 1000,
        "duplicates": outcome.duplicates,
        "duplicates_per_10000": 10_000 * outcome.duplicates / max(1, outcome.deliveries),
        "megabytes": total / 1e6,
        "bytes_per_perfect": total / max(1, perfect),
        "healed_s": fmean(outcome.healed_ms) / 1000 if outcome.healed_ms else 0.0,
        "settled_s": fmean(outcome.settled_ms) / 1000 if outcome.settled_ms else 0.0,
        "syncing_s": run.syncing_us / 1e6,
        "log_megabytes": outcome.log_bytes / 1e6,
        "installs": outcome.installs,
    }


def _series(run: OverlayRun) -> list[dict[str, float]]:
    """By second from the first send on: what the document plots over time, but for latencies, which the trace
    tells."""
    first = run.plan.sending_us // 1_000_000
    last = run.plan.until_us // 1_000_000
    return [
        {
            "second": second - first,
            "duplicates": run.meter.duplicates[second],
            "megabytes": run.meter.bytes_by_second[second] / 1e6,
            "syncs": run.syncs.get(second, 0),
            "sync_s": fmean(run.sync_durations.get(second, [0])) / 1e6,
            "log_megabytes": run.log_bytes.get(second, 0) / 1e6,
        }
        for second in range(first, last)
    ]
