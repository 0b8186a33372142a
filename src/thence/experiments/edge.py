"""The evaluation of the edge multicast document (its section 7), in virtual time.

Each experiment is a sweep of steady trees (`sim.edge_steady`). They count for themselves and leave no traces:
storms are what traces of edge trees are judged of (`thence soak --scenario edge`). *No gate* is the same tree
without its causal barrier: messages are forwarded by topic as they come, in order per link alone, as in
Gryphon where nothing fails. *Paths* is the document's own scheme for δ = 1, on the same trees and groups;
*paths, FIFO* is that without barriers, which leaves a Δ-neighbourhood: nodes that know the tree around them,
and send past failed ones. *Clique* has no tree: each message goes to all, with a vector clock.
"""

import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import altair as alt

from thence.pages.charts import COLOURS, Chart, finished
from thence.pages.page import table
from thence.pages.text import significant
from thence.sim.edge_clique import SteadyClique
from thence.sim.edge_paths_steady import SteadyPaths
from thence.sim.edge_steady import EdgeLoad, SteadyTree
from thence.sim.edge_weather import MS, SECOND

LATENCY, METADATA, FAILURES = "edge-latency", "edge-metadata", "edge-failures"
MEMBERSHIP, GENUINE = "edge-membership", "edge-genuine"
EXPERIMENTS = frozenset({LATENCY, METADATA, FAILURES, MEMBERSHIP, GENUINE})

SIZES = (15, 60, 250, 1000, 2000)
QUICK_SIZES = (15, 40)
PATHS_SIZE_MAX = 250
"""Nodes of the document's own scheme tell all within four hops what they have, and in a clique each message
goes to all: larger ones take too long."""
ROUND_TRIPS = "round trips of one link, mean"
SUSPECTED_MS = (500, 1000, 2000, 4000)
DELTAS = (1, 2, 3)
BASELINES: tuple[dict[str, bool], ...] = (
    {"paths": True},
    {"paths": True, "barriers": False},
    {"clique": True},
)

SETTING = (
    "Links of 10 to 20 ms, a third as many groups as nodes, of 3 to 5 members that publish every 400 ms. "
    "Points are named by nodes, δ, where the members of groups are, and what they differ in besides."
)


@dataclass(frozen=True, slots=True)
class EdgePoint:
    """One run of a sweep."""

    experiment: str
    load: EdgeLoad
    seed: int = 1

    @property
    def name(self) -> str:
        load = self.load
        where = "local" if load.local else "spread"
        groups = f"-{load.groups}g" if load.groups else ""
        kind = "-paths" if load.paths else "-clique" if load.clique else "" if load.gate else "-no-gate"
        more = ("" if load.barriers else "-fifo") + (f"-{load.suspect_us // MS}ms" if load.silent else "")
        return f"{load.nodes}-{load.delta}-{where}{groups}{kind}{more}"

    @property
    def cost(self) -> int:
        return self.load.nodes * self.load.span_us


def points(experiment: str, quick: bool) -> list[EdgePoint]:
    return [
        EdgePoint(experiment, _shorter(load)) for load in _loads(experiment, QUICK_SIZES if quick else SIZES)
    ]


def _shorter(load: EdgeLoad) -> EdgeLoad:
    """A large tree has messages enough in less time."""
    return replace(load, span_us=load.span_us // 4) if load.nodes >= 1000 else load


def _loads(experiment: str, sizes: tuple[int, ...]) -> list[EdgeLoad]:
    paths = [nodes for nodes in sizes if nodes <= PATHS_SIZE_MAX]
    if experiment == LATENCY:
        return [
            EdgeLoad(nodes=nodes, delta=1, local=local, **besides)
            for nodes in paths
            for local in (True, False)
            for besides in BASELINES
        ] + [
            EdgeLoad(nodes=nodes, delta=delta, local=local, gate=gate)
            for nodes in sizes
            for local in (True, False)
            for delta, gate in [(1, False), *[(delta, True) for delta in DELTAS]]
        ]
    if experiment == METADATA:
        return [
            EdgeLoad(nodes=nodes, delta=1, groups=groups, **besides)
            for nodes in paths
            for groups in (2, max(3, nodes // 3))
            for besides in BASELINES
        ] + [
            EdgeLoad(nodes=nodes, delta=delta, groups=groups)
            for nodes in sizes
            for delta in (1, 3)
            for groups in (2, max(3, nodes // 3))
        ]
    if experiment == FAILURES:
        silent = EdgeLoad(nodes=sizes[1], delta=1, kills=4, deep=True, silent=True, span_us=20 * SECOND)
        return [
            *[EdgeLoad(nodes=nodes, delta=delta, kills=4) for nodes in sizes[1:] for delta in DELTAS],
            *[replace(silent, delta=delta, suspect_us=ms * MS) for ms in SUSPECTED_MS for delta in DELTAS],
            *[replace(silent, paths=True, suspect_us=ms * MS) for ms in SUSPECTED_MS],
            replace(silent, paths=True, suspect_us=SUSPECTED_MS[0] * MS, barriers=False),
        ]
    if experiment == MEMBERSHIP:
        return [
            EdgeLoad(nodes=nodes, delta=delta, joins=20, leaves=10, newcomers=10, departures=10)
            for nodes in sizes
            for delta in DELTAS
        ]
    return [EdgeLoad(nodes=nodes, delta=1, local=local) for nodes in sizes for local in (True, False)]


def run_tree(point: EdgePoint, trace: Path) -> dict[str, Any]:  # noqa: ARG001
    """Run one point. It leaves no trace."""
    load = replace(point.load, seed=point.seed)
    run = SteadyPaths(load) if load.paths else SteadyClique(load) if load.clique else SteadyTree(load)
    began = time.process_time()
    measured = run()
    measured["cpu_us"] = 1e6 * (time.process_time() - began) / max(1, measured["deliveries"])
    chosen = {key: value for key, value in asdict(point.load).items() if key != "seed"}
    return {"name": point.name, "experiment": point.experiment, "seed": point.seed, **chosen, **measured}


@dataclass(frozen=True, slots=True)
class Curve:
    """A figure: a measurement over the nodes, a line per δ, dashed by something else. `silent`: over the time
    after which silence is suspected, of points where nothing else tells of a failure."""

    title: str
    measure: str
    label: str
    dash: str = "local"
    silent: bool = False


CURVES = {
    LATENCY: (
        Curve("Delivery delay", "delay_ms", "ms, mean"),
        Curve("Delivery delay, p99", "delay_p99_ms", "ms"),
        Curve("CPU time of the simulator per delivery: the smaller, the more throughput", "cpu_us", "µs"),
    ),
    METADATA: (
        Curve("Header of a message, with its share of the packet's", "head_bytes", "bytes", "groups"),
        Curve("Statuses that travel alone, per copy of a message", "statuses_alone", "per copy", "groups"),
        Curve("Entries of a node's log", "log_mean", "entries, mean", "groups"),
    ),
    FAILURES: (
        Curve("From the loss of the parent to the next", "repair_rtt", "round trips, mean"),
        Curve("The longest of these", "repair_max_rtt", "round trips"),
        Curve("Packets outside sessions, per orphan", "control", "packets"),
        Curve(
            "From the death of the parent to the next one, where only silence tells",
            "gap_ms",
            "ms",
            silent=True,
        ),
        Curve(
            "The longest delivery delay between nodes that live, where only silence tells",
            "delay_max_ms",
            "ms",
            silent=True,
        ),
    ),
    MEMBERSHIP: (
        Curve("From asking to being a member", "join_rtt", ROUND_TRIPS),
        Curve("From leaving a group to the last message of it that is sent", "leave_rtt", ROUND_TRIPS),
        Curve("From the first start of a node to being a member", "newcomer_rtt", ROUND_TRIPS),
        Curve("From asking to leave the tree to being gone", "departure_rtt", ROUND_TRIPS),
        Curve("Delivery delay meanwhile", "delay_ms", "ms, mean"),
    ),
    GENUINE: (Curve("Share of nodes that see a message", "seen", "share"),),
}


TREES = ("no gate", *[f"δ = {delta}" for delta in DELTAS], "paths, δ = 1", "paths, FIFO", "clique")
PALETTE = alt.Scale(domain=TREES, range=COLOURS[: len(TREES)])
"""A tree has its colour in all figures of a page."""


def _tree(result: dict[str, Any]) -> str:
    if result["paths"]:
        return "paths, δ = 1" if result["barriers"] else "paths, FIFO"
    if result["clique"]:
        return "clique"
    return f"δ = {result['delta']}" if result["gate"] else "no gate"


def _dash(curve: Curve, result: dict[str, Any]) -> str:
    if curve.dash == "groups":
        return "two groups" if result["groups"] == 2 else "a third of the nodes"
    return "local groups" if result["local"] else "groups all over"


def draw(name: str, results: list[dict[str, Any]]) -> list[Chart]:
    return [_curve(curve, results) for curve in CURVES[name]]


def _curve(curve: Curve, results: list[dict[str, Any]]) -> Chart:
    rows = [
        {
            "nodes": result["suspect_us"] / MS if curve.silent else result["nodes"],
            "value": result[curve.measure],
            "tree": _tree(result),
            "which": _dash(curve, result),
        }
        for result in results
        if result["silent"] == curve.silent and curve.measure in result
    ]
    trees = sorted({row["tree"] for row in rows}, key=TREES.index)
    over = "ms of silence until a node is suspected" if curve.silent else "nodes"
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("nodes:Q", scale=alt.Scale(type="log", base=10), title=over),
        y=alt.Y("value:Q", title=curve.label),
        color=alt.Color("tree:N", title=None, scale=PALETTE, legend=alt.Legend(columns=3, values=trees)),
        tooltip=["tree:N", "which:N", "nodes:Q", alt.Tooltip("value:Q", format=",.4~r")],
    )
    lines = base.mark_line(strokeWidth=2).encode(
        strokeDash=alt.StrokeDash("which:N", title=None, legend=alt.Legend(columns=1))
    )
    dots = base.mark_point(filled=True, size=30, opacity=1).encode(detail="which:N")
    return finished(curve.title, lines, dots)


SAID = {
    LATENCY: "A barrier per message delays little where failures are rare.",
    METADATA: "Metadata do not grow with the number of nodes.",
    FAILURES: "Up to δ consecutive failures are passed by.",
    MEMBERSHIP: "Nodes join and leave while messages flow.",
    GENUINE: "Only nodes between publisher and members take part.",
}


def beside(name: str, results: list[dict[str, Any]]) -> tuple[str, list[dict[str, str]]]:
    """What the document claims, in words, and below it a row per point with what was measured."""
    free = {
        (result["nodes"], result["local"]): result["delay_ms"] for result in results if not result["gate"]
    }
    rows = []
    for result in results:
        row = {"point": result["name"]}
        for curve in CURVES[name]:
            head = curve.title if curve.label in curve.title else f"{curve.title}, {curve.label}"
            row[head] = significant(result[curve.measure]) if curve.measure in result else ""
        without = free.get((result["nodes"], result["local"]))
        if name == LATENCY:
            row["against no gate"] = significant(result["delay_ms"] / without) if without else ""
        if name == GENUINE:
            row["nodes that had no part in it"] = str(result["extra"])
        if name == FAILURES:
            row["deliveries before a cause"] = str(result.get("errors", ""))
        rows.append(row)
    return f"<p>The document: {SAID[name]}</p>{table(rows, {'point': 'name'})}", rows
