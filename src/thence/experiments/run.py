"""Running an experiment: sweep, verify, tables, figures, page.

Points are Spark tasks. Each leaves its result in a file of its own, so that a run that was interrupted
goes on where it stopped. Every point's trace is then judged, and a violation of any kind fails the
experiment.
"""

import csv
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from thence.core.errors import UsageError
from thence.experiments import tcb, tree, tree_figures
from thence.experiments.documented import TCB, beside
from thence.experiments.figures import FIGURES, draw
from thence.pages.charts import save_all
from thence.pages.page import Page
from thence.pipeline.tasks import run_points
from thence.pipeline.verify import verify

Watcher = Callable[[str, int, int], None]
"""Is told what is being done, how much of it, and of how much."""


@dataclass(frozen=True, slots=True)
class Experiment:
    name: str
    title: str
    says: str


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
)
EXPERIMENTS = {experiment.name: experiment for experiment in _ALL}


def find(name: str) -> Experiment:
    try:
        return EXPERIMENTS[name]
    except KeyError:
        raise UsageError(f"unknown experiment {name!r}; there is {', '.join(EXPERIMENTS)}") from None


def run(spark: SparkSession, name: str, quick: bool, out: Path, command: str, watcher: Watcher) -> bool:
    """Do everything that is not done yet; True if every run completed and nothing was violated."""
    experiment = find(name)
    points: list[Point] = [*(tree.points(name, quick) if _of_trees(name) else tcb.points(name, quick))]
    _prepare(out, name, quick)
    results = _sweep(spark, points, out, watcher)
    watcher("judging the traces", 0, 0)
    report = verify(spark, out / "traces")
    violations = sum(sum(judged.violations.values()) for judged in report.runs)
    incomplete = [result["name"] for result in results if not result["complete"]]
    fine = report.ok and not incomplete and len(report.runs) == len(points)
    events = sum(judged.sends + judged.deliveries + judged.stables for judged in report.runs)
    verdict = (
        f"{len(report.runs)} runs, {events:,} events, judged by Spark: "
        f"{violations} violations, {len(incomplete)} incomplete."
    )
    watcher("drawing", 0, 0)
    _write(experiment, results, out, command, verdict, fine)
    return fine


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
        (out / "points").mkdir(exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write to {out}: {error.strerror}") from error
    except json.JSONDecodeError as error:
        raise UsageError(f"{mark} is damaged: remove {out} and start again") from error


Point = tcb.Point | tree.Point


def _of_trees(name: str) -> bool:
    return name in tree.SCENARIO


def _measure(point: Point, trace: Path) -> dict[str, Any]:
    return tree.measure(point, trace) if isinstance(point, tree.Point) else tcb.measure(point, trace)


def _sweep(spark: SparkSession, points: list[Point], out: Path, watcher: Watcher) -> list[dict[str, Any]]:
    folder = out.resolve()
    todo = [point for point in points if not (folder / "points" / f"{point.name}.json").exists()]
    todo.sort(key=lambda point: -point.cost)

    def work(point: Point) -> dict[str, Any]:
        trace = folder / "traces" / point.name
        shutil.rmtree(trace, ignore_errors=True)
        result = _measure(point, trace)
        partial = folder / "points" / f".{point.name}.json"
        partial.write_text(json.dumps(result))
        partial.replace(folder / "points" / f"{point.name}.json")
        return result

    watcher("running points", len(points) - len(todo), len(points))
    run_points(spark, todo, work)
    watcher("running points", len(points), len(points))
    return [json.loads((folder / "points" / f"{point.name}.json").read_text()) for point in points]


def _write(
    experiment: Experiment, results: list[dict[str, Any]], out: Path, command: str, verdict: str, fine: bool
) -> None:
    if _of_trees(experiment.name):
        charts = [tree_figures.draw(figure, results) for figure in tree_figures.FIGURES[experiment.name]]
        table, rows = tree_figures.beside(experiment.name, results)
        results = [
            {key: value for key, value in result.items() if key not in ("series", "marks")}
            for result in results
        ]
    else:
        charts = [draw(figure, results) for figure in FIGURES]
        table, rows = beside(TCB[experiment.name], results)
    save_all(charts, out)
    _csv(out / "points.csv", results)
    _csv(out / "beside.csv", rows)
    page = Page(experiment.title, experiment.says, verdict, fine, command, seed="0 for every point")
    page.figures("", charts)
    page.section("Beside the document", table)
    (out / "index.html").write_text(page.html(), encoding="utf-8")


def _csv(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        if rows:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
