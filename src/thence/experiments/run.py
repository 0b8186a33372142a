"""Running an experiment: sweep, verify, measure, tables, figures, page.

Points are run by a sweep. Every point's trace is then judged, and a violation of any kind fails the
experiment, as does a point that failed; what was measured of the others is shown all the same.
"""

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from thence.core.errors import UsageError
from thence.experiments import edge, prob, sep, sep_figures, tcb, tree, tree_figures
from thence.experiments.documented import TCB, beside
from thence.experiments.figures import FIGURES, draw
from thence.experiments.sweep import Failure, Sweep
from thence.pages.charts import save_all
from thence.pages.page import Page
from thence.pages.page import table as as_html
from thence.pipeline.metrics import BIN_US
from thence.pipeline.metrics.measured import Tables, measure
from thence.pipeline.verify import verify

Watcher = Callable[[str, int, int], None]
"""Is told what is being done, how much of it, and of how much."""


@dataclass(frozen=True, slots=True)
class Experiment:
    name: str
    title: str
    says: str


QUICK = (
    "A quick look: smaller groups, fewer messages and seeds than in the document. Compare how the curves "
    "go, not the numbers."
)

_ALL = (
    Experiment(
        "tcb-1",
        "Experiment 1: graph against double-tagged vectors",
        "Section 8.4.1: what an application pays that keeps clocks of its own on top of a causal middleware.",
    ),
    Experiment(
        "tcb-2",
        "Experiment 2: graph against vectors",
        "Section 8.4.2: a vector per message against its immediate predecessors, every member sending each "
        "10, 100 or 1000 ms.",
    ),
    Experiment(
        "tcb-3",
        "Experiment 3: constant work",
        "Section 8.4.3: the same total load, spread over more and more members.",
    ),
    Experiment(
        "tcb-slow-link",
        "Behind a slow link",
        "Section 8.4.6: the link between two members is ten times slower; these two are observed.",
    ),
    Experiment(
        "tree-stable",
        "Trees, stable",
        "Section 5.3.3: trees, flood and pull while nothing happens, by group, load and payload. "
        + tree.SETTING,
    ),
    Experiment(
        "tree-churn",
        "Trees under churn",
        "Section 5.3.3: every 30 s, 4 % of the nodes are killed and as many join. " + tree.MARKED,
    ),
    Experiment(
        "tree-massive-join",
        "Trees and a massive join",
        "Sections 5.3.3 and 5.4.2: midway, 30 % of the nodes join at once. " + tree.MARKED,
    ),
    Experiment(
        "tree-catastrophe",
        "Trees and a catastrophe",
        "Sections 5.3.3 and 5.4.2: midway, 30 % of the nodes are killed at once. " + tree.MARKED,
    ),
    Experiment(
        "tree-eco",
        "Trees that forget",
        "Section 5.4.2: logs that forget after 15 s against logs that keep everything, under churn. "
        + tree.MARKED,
    ),
    Experiment(
        prob.KEYS,
        "The optimal number of keys",
        "Section 5.4.2, figure 3: clocks of 100 entries, 200 messages a second in all, 100 ms under way.",
    ),
    Experiment(
        prob.BY_RATE,
        "Errors by the interval",
        "Section 5.4.3, figure 4: 1,000 nodes that send every second to every 10 s; 100 entries, four keys.",
    ),
    Experiment(
        prob.BY_NODES,
        "Errors by the number of nodes",
        "Section 5.4.3, figure 5: 250 to 2,000 nodes, each sends every 5 s; 100 entries, four keys.",
    ),
    Experiment(
        prob.CONSTANT,
        "Errors by the number of nodes, under the same load",
        "Section 5.4.3, figure 6: 250 to 2,000 nodes that send 200 messages a second in all; 100 entries, "
        "four keys.",
    ),
    Experiment(
        prob.DETECT,
        "Errors that no alarm told of",
        "Section 4: with 400 deliveries to look back on, each delivery before a cause is doubted when the "
        "cause comes. A billion deliveries, 100 entries.",
    ),
    *[Experiment(name, title, sep.SAYS[name]) for name, title in sep.TITLES.items()],
    Experiment(
        edge.LATENCY, "Edge trees: delay", "Section 7: what the causal barrier costs, by δ. " + edge.SETTING
    ),
    Experiment(
        edge.METADATA, "Edge trees: metadata", "Section 7: bytes by nodes, groups and δ. " + edge.SETTING
    ),
    Experiment(
        edge.FAILURES, "Edge trees: failures", "Section 7: δ consecutive nodes die for good. " + edge.SETTING
    ),
    Experiment(
        edge.MEMBERSHIP,
        "Edge trees: joins and leaves",
        "Section 7: nodes join and leave groups, and the tree, under load. " + edge.SETTING,
    ),
    Experiment(edge.GENUINE, "Edge trees: who sees what", "Section 7: partial replication. " + edge.SETTING),
)
EXPERIMENTS = {experiment.name: experiment for experiment in _ALL}


def find(name: str) -> Experiment:
    try:
        return EXPERIMENTS[name]
    except KeyError:
        raise UsageError(f"unknown experiment {name!r}; there is {', '.join(EXPERIMENTS)}") from None


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of an experiment."""

    fine: bool
    failures: list[Failure] = field(default_factory=list)
    incomplete: list[tuple[str, str]] = field(default_factory=list)
    """Points whose runs did not deliver everything, and what is missing."""
    judged: bool = True
    """There were traces, and nothing in them may be violated."""


def run(spark: SparkSession, name: str, quick: bool, out: Path, command: str, watcher: Watcher) -> Ran:
    """Do everything that is not done yet; fine if every run completed and nothing was violated."""
    experiment = find(name)
    if quick:
        experiment = replace(experiment, says=f"{experiment.says} {QUICK}")
    points = points_of(name, quick)
    _prepare(out, name, quick)
    sweep = Sweep(points, out, _measure)
    watcher("running points", len(points) - len(sweep.unfinished()), len(points))
    sweep.run(spark)
    watcher("running points", len(points), len(points))
    results, failures = sweep.results(), sweep.failures()
    incomplete = [(result["name"], result["why"]) for result in results if not result["complete"]]
    if not results:
        return Ran(False, failures)
    if name in prob.EXPERIMENTS | edge.EXPERIMENTS:
        return _without_traces(experiment, points, results, failures, incomplete, out, command)
    watcher("judging the traces", 0, 0)
    report = verify(spark, out / "traces")
    watcher("measuring the traces", 0, 0)
    latencies(results, measure(spark, out / "traces"))
    violations = sum(sum(judged.violations.values()) for judged in report.runs)
    fine = report.ok and not incomplete and not failures and len(report.runs) == len(points)
    events = sum(judged.sends + judged.deliveries + judged.stables for judged in report.runs)
    verdict = (
        f"{len(report.runs)} runs, {events:,} events, judged by Spark: "
        f"{violations} violations, {len(incomplete)} incomplete, {len(failures)} failed."
    )
    watcher("drawing", 0, 0)
    page = Page(experiment.title, experiment.says, verdict, fine, command, seed=_seeds(points))
    _write(experiment, results, out, page, _troubles(points, failures, incomplete, command))
    return Ran(fine, failures, incomplete)


def _without_traces(
    experiment: Experiment,
    points: "list[Point]",
    results: list[dict[str, Any]],
    failures: list[Failure],
    incomplete: list[tuple[str, str]],
    out: Path,
    command: str,
) -> Ran:
    """Of runs that count their own errors there is nothing to judge."""
    fine = not incomplete and not failures and len(results) == len(points)
    deliveries = sum(result["deliveries"] for result in results)
    judged = [result for result in results if "errors" in result]
    looked_at = sum(result["deliveries"] for result in judged)
    verdict = (
        f"{len(results)} runs, {deliveries:,} deliveries"
        + (f", of which {looked_at:,} were judged: " if looked_at < deliveries else ": ")
        + f"{sum(result['errors'] for result in judged):,} before a cause, "
        f"{len(incomplete)} incomplete, {len(failures)} failed."
    )
    page = Page(experiment.title, experiment.says, verdict, fine, command, seed=_seeds(points))
    _write(experiment, results, out, page, _troubles(points, failures, incomplete, command))
    return Ran(fine, failures, incomplete, judged=False)


def run_point(name: str, quick: bool, out: Path, chosen: str) -> dict[str, Any]:
    """One point alone, in this process; what goes wrong is raised."""
    points = points_of(name, quick)
    point = next((point for point in points if point.name == chosen), None)
    if point is None:
        raise UsageError(f"{name} has no point {chosen!r}; there is {', '.join(p.name for p in points)}")
    return _measure(point, out / "traces" / point.name)


def points_of(name: str, quick: bool) -> "list[Point]":
    find(name)
    if name in prob.EXPERIMENTS:
        return [*prob.points(name, quick)]
    if name in sep.EXPERIMENTS:
        return [*sep.points(name, quick)]
    if name in edge.EXPERIMENTS:
        return [*edge.points(name, quick)]
    return [*(tree.points(name, quick) if _of_trees(name) else tcb.points(name, quick))]


def repeat(command: str, point: str) -> str:
    """How to run one point of an experiment again."""
    return f"{command} --point {point}"


def _troubles(
    points: "list[Point]", failures: list[Failure], incomplete: list[tuple[str, str]], command: str
) -> list[dict[str, str]]:
    troubles = [
        *[(failure.name, failure.seed, failure.error) for failure in failures],
        *[(name, _seed_of(points, name), why) for name, why in incomplete],
    ]
    return [_trouble(*each, command) for each in troubles]


def _trouble(name: str, seed: int, why: str, command: str) -> dict[str, str]:
    return {"point": name, "seed": str(seed), "why": why, "again": repeat(command, name)}


def _seed_of(points: "list[Point]", name: str) -> int:
    return next(point.seed for point in points if point.name == name)


def _seeds(points: "list[Point]") -> str:
    return ", ".join(str(seed) for seed in sorted({point.seed for point in points}))


def latencies(results: list[dict[str, Any]], measured: Tables) -> None:
    """What the traces tell of each point: how long messages took to each member, and to the last one."""
    runs = {run.run: run for run in measured.report.runs}
    bins: dict[str, dict[int, float]] = {}
    for row in measured.tables["broadcast_by_bin"].to_pylist():
        bins.setdefault(row["run"], {})[row["start_us"] // BIN_US] = row["mean"] / 1e6
    for result in results:
        found = runs[result["name"]].distributions if result["name"] in runs else {}
        broadcast, delivery = found.get("broadcast"), found.get("delivery")
        result["latency_s"] = broadcast.mean / 1e6 if broadcast else 0.0
        result["slowest_s"] = broadcast.max / 1e6 if broadcast else 0.0
        result["delivery_p50_s"] = delivery.p50 / 1e6 if delivery else 0.0
        result["delivery_p99_s"] = delivery.p99 / 1e6 if delivery else 0.0
        for moment in result.get("series", ()):
            second = result["first_second"] + moment["second"]
            moment["latency_s"] = bins.get(result["name"], {}).get(second, 0.0)


def _prepare(out: Path, name: str, quick: bool) -> None:
    """A folder holds one experiment; another one's is not touched."""
    mark = out / "experiment.json"
    now = {"experiment": name, "quick": quick}
    try:
        out.mkdir(parents=True, exist_ok=True)
        if mark.exists():
            before = json.loads(mark.read_text())
            if before != now:
                raise UsageError(f"{out} holds {before}: give --out a folder of its own")
        elif any(out.iterdir()):
            raise UsageError(f"{out} holds something else: give --out a folder of its own")
        mark.write_text(json.dumps(now))
    except OSError as error:
        raise UsageError(f"cannot write to {out}: {error.strerror}") from error
    except json.JSONDecodeError as error:
        raise UsageError(f"{mark} is damaged: remove {out} and start again") from error


Point = tcb.TcbPoint | tree.TreePoint | prob.ProbPoint | sep.SepPoint | edge.EdgePoint


def _of_trees(name: str) -> bool:
    return name in tree.SCENARIO


def _measure(point: Point, trace: Path) -> dict[str, Any]:
    if isinstance(point, prob.ProbPoint):
        return prob.run_clocks(point, trace)
    if isinstance(point, sep.SepPoint):
        return sep.measure(point, trace)
    if isinstance(point, edge.EdgePoint):
        return edge.run_tree(point, trace)
    return tree.measure(point, trace) if isinstance(point, tree.TreePoint) else tcb.measure(point, trace)


def _write(
    experiment: Experiment,
    results: list[dict[str, Any]],
    out: Path,
    page: Page,
    troubles: list[dict[str, str]],
) -> None:
    if _of_trees(experiment.name):
        charts = [tree_figures.draw(figure, results) for figure in tree_figures.FIGURES[experiment.name]]
        table, rows = tree_figures.beside(experiment.name, results)
        results = [
            {key: value for key, value in result.items() if key not in ("series", "marks", "first_second")}
            for result in results
        ]
    elif experiment.name in prob.EXPERIMENTS:
        charts = [prob.draw(experiment.name, results)]
        table, rows = prob.beside(experiment.name, results)
    elif experiment.name in sep.EXPERIMENTS:
        charts = sep_figures.draw(experiment.name, results)
        table, rows = sep_figures.beside(experiment.name, results)
        results = [{key: value for key, value in result.items() if key != "histograms"} for result in results]
    elif experiment.name in edge.EXPERIMENTS:
        charts = edge.draw(experiment.name, results)
        table, rows = edge.beside(experiment.name, results)
    else:
        charts = [draw(figure, results) for figure in FIGURES]
        table, rows = beside(TCB[experiment.name], results)
    save_all(charts, out)
    _csv(out / "points.csv", results)
    _csv(out / "beside.csv", rows)
    if troubles:
        page.section("What did not end well", as_html(troubles, {"point": "name", "seed": "n", "why": "why"}))
    page.figures("", charts)
    page.section("Beside the document", table)
    (out / "index.html").write_text(page.html(), encoding="utf-8")


def _csv(path: Path, rows: list[dict[str, Any]]) -> None:
    """Points of one sweep may measure different things."""
    with path.open("w", newline="", encoding="utf-8") as file:
        if rows:
            writer = csv.DictWriter(file, list(dict.fromkeys(key for row in rows for key in row)))
            writer.writeheader()
            writer.writerows(rows)
