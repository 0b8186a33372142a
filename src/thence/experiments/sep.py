"""The experiments of chapter 7 of the causal separators document, and its three levels at larger sizes.

Messages travel through the simulator as everywhere; what is measured is the size of every hop's stamp and
of histories. The document's figures with its topologies are missing from its text: what is assumed of them
is told on each page (`sim/topologies.py`). Delays are exponential, of the mean that the document gives.
"""

from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from thence.order.topology import Topology
from thence.sim.run import Run, whole_trace
from thence.sim.scenarios import configure
from thence.sim.stamps import StampMeter, together

TABLE, FIGURES, SMALL, LANS, LEVELS = (
    "sep-table-7-1", "sep-figures", "sep-small-large", "sep-three-lans", "sep-levels",
)  # fmt: skip
EXPERIMENTS: Final = frozenset({TABLE, FIGURES, SMALL, LANS, LEVELS})

TITLES: Final = {
    TABLE: "Timestamps in a network of two LANs",
    FIGURES: "Distributions of histories and timestamps",
    SMALL: "A small group beside a large one",
    LANS: "Three networks with two gateways each",
    LEVELS: "Three levels, up to ten thousand processes",
}
ASSUMED: Final = "Assumed, since the document's figures are missing: "
SAYS: Final = {
    TABLE: "Table 7.1: 10 messages a second of each process, 50 ms under way. "
    + ASSUMED
    + "nodes {p1, p2}, {p3, p4}, {p5, p6}, the first two on a LAN with routers d1 and d2, the third "
    "on another behind d3; groups {p1, p2, p3}, {p3, p4, p5}, {p1, p6}, {p5, p6}; exponential delays without "
    "order; a process writes to each of its groups alike.",
    FIGURES: "Figures 7.2 to 7.4, on the topology of table 7.1: histories at p3, d2, d3, and timestamps.",
    SMALL: "Figure 7.5: a small group behind a gateway to a large one. "
    + ASSUMED
    + "4 and 32 members, and two groups of two between them; 10 messages a second, 50 ms.",
    LANS: "Figures 7.6 and 7.7: every network has two gateways, and both get what leaves it. "
    + ASSUMED
    + "6 processes on each, gateways on one more network, a group on each, one of two between each two.",
    LEVELS: "Departments in organisations on a backbone; 80 % of messages stay in the department, 15 % in "
    "the organisation; 1 to 3 destinations; 10 messages a second of each process, 50 ms under way. The table "
    "has entries by level from the top.",
}

NO_R9: Final = "no R9"
PLACES: Final = {NO_R9: "", "R9 at S2": "d3", "R9 at S1, S2, S3": "d1,d2,d3,r3", "R9 everywhere": None}
"""Which gateways filter; the document's n3 is r3 here."""

DOCUMENT: Final = {
    (6, NO_R9): 3.55, (6, "R9 at S2"): 2.70, (6, "R9 at S1, S2, S3"): 2.10,
    (10, NO_R9): 3.46, (10, "R9 at S2"): 3.09, (10, "R9 at S1, S2, S3"): 2.76,
}  # fmt: skip
"""Table 7.1. A matrix clock has 36 and 100 entries there, a vector clock for each group 10 and 14."""

TOPOLOGY: Final = {6: "table-7-1", 10: "table-7-1-more"}


@dataclass(frozen=True, slots=True)
class SepPoint:
    """One run of a sweep."""

    experiment: str
    topology: str
    rules: str
    where: str = "R9 everywhere"
    delay_ms: float = 50.0
    messages: int = 600
    gateways: int = 1
    seed: int = 1

    @property
    def name(self) -> str:
        where = "".join(letter for letter in self.where.lower() if letter.isalnum())
        return f"{self.topology}-{self.rules.replace(',', '+')}-{where}-{self.delay_ms:g}ms"

    @property
    def cost(self) -> int:
        size = 1
        for part in self.topology.split("x"):
            size *= int(part) if part.isdigit() else 30
        return size * self.messages


def points(experiment: str, quick: bool) -> list[SepPoint]:
    messages = 40 if quick else 600
    if experiment == TABLE:
        found = [
            SepPoint(experiment, topology, rules, where, messages=messages)
            for topology in TOPOLOGY.values()
            for where in PLACES
            for rules in ("1-9", "1-10", "1-11")
        ]
        found += [
            SepPoint(experiment, "table-7-1", "1-10", where, delay, messages)
            for where in PLACES
            for delay in (10.0, 200.0)
        ]
        return found
    if experiment == FIGURES:
        return [
            SepPoint(experiment, topology, "1-10", where, messages=messages)
            for topology in TOPOLOGY.values()
            for where in [*PLACES][:3]
        ]
    if experiment in (SMALL, LANS):
        topology = experiment.removeprefix("sep-")
        each = 15 if quick else 60
        return [
            SepPoint(experiment, topology, rules, where, messages=each)
            for where in (NO_R9, "R9 everywhere")
            for rules in ("1-10", "1-11")
        ]
    return levels(quick)


def levels(quick: bool) -> list[SepPoint]:
    if quick:
        return [SepPoint(LEVELS, topology, "1-11", messages=4) for topology in ("2x5x4", "5x5x4", "4x4x8")]
    found = [
        SepPoint(LEVELS, topology, rules, messages=10)
        for topology in ("2x5x10", "10x10", "10x10x10")
        for rules in ("1-10", "1-11")
    ]
    found += [SepPoint(LEVELS, topology, "1-11", messages=10) for topology in ("10x10x10x10", "100x10x10")]
    found += [SepPoint(LEVELS, f"4x4x{size}", "1-11", messages=10) for size in (10, 20, 40, 80)]
    found.append(SepPoint(LEVELS, "2x5x10", "1-11", NO_R9, messages=10))
    return found


def measure(point: SepPoint, trace: Path) -> dict[str, Any]:
    """Run one point with its trace."""
    settings = configure(
        "steady", order="separator", topology=point.topology, gateways=point.gateways, rules=point.rules,
        filters=PLACES[point.where], messages=point.messages, interval_ms=100.0, seed=point.seed,
        latency_ms=point.delay_ms / 50, weibull_scale=51.6, weibull_shape=1.0,  # truncated: a mean of 50
    )  # fmt: skip
    with whole_trace(trace) as sink:
        run = Run(settings, sink, point.name)
        outcome = run()
    assert outcome.stamps is not None
    return {
        **asdict(point),
        "name": point.name,
        "complete": outcome.complete,
        "why": outcome.why,
        "processes": len(run.zones.topology.applications),
        "sends": outcome.sends,
        "deliveries": outcome.deliveries,
        **asdict(outcome.stamps),
        "histograms": histograms(run.meter, run.zones.topology),
    }


def histograms(meter: StampMeter, topology: Topology) -> dict[str, dict[str, int]]:
    """Timestamps of all hops and by level or zone, and histories of some processes: size and how often."""
    found = {"stamps": together(meter.stamps.values())}
    by_level: dict[str, Counter[int]] = {}
    for zone, counts in meter.stamps.items():
        name = topology.zones[zone].name
        level = f"level {name.count('.')}" if name.startswith("z") else f"zone {name}"
        by_level[level] = together([by_level.get(level, Counter()), counts])
    for process in ("p3", "d2", "d3", "a1", "s1"):
        if process in topology.names:
            found[f"history {process}"] = meter.histories[topology.names.index(process)]
    found.update(by_level)
    return {name: {str(size): counts[size] for size in sorted(counts)} for name, counts in found.items()}


def counted(result: dict[str, Any], name: str) -> Counter[int]:
    return Counter({int(size): count for size, count in result["histograms"].get(name, {}).items()})
