"""`thence experiment`: the documents' experiments."""

import json
import threading
import time
from pathlib import Path

from thence.local.console import counting, out
from thence.pipeline.where import Where


def show_list() -> int:
    from thence.experiments.run import EXPERIMENTS

    for experiment in EXPERIMENTS.values():
        out.print(f"{experiment.name:<18} {experiment.title}")
    return 0


def run(name: str, quick: bool, folder: Path, where: Where, point: str | None = None) -> int:
    from thence.experiments.run import points_of, repeat, run_point
    from thence.experiments.run import run as run_experiment
    from thence.experiments.sweep import Estimate, finished

    points = points_of(name, quick)
    command = f"thence experiment run {name}{' --quick' if quick else ''}{where.flags} --out {folder}"
    if point is not None:
        print(json.dumps(run_point(name, quick, folder, point)))
        return 0
    with counting("Spark starts") as watcher:
        spark = where.spark()
        stop = threading.Event()
        estimate = Estimate(points, finished(folder), time.monotonic())

        def told(what: str, done: int, of: int) -> None:
            watcher(done, of, what)

        def look() -> None:  # points finish inside Spark's workers: count what they leave behind
            while not stop.wait(1.0):
                names = finished(folder)
                if len(names) < len(points):
                    left_s = estimate.left_s(names, time.monotonic())
                    watcher(len(names), len(points), f"running points{about(left_s)}")

        looker = threading.Thread(target=look, daemon=True)
        looker.start()
        try:
            ran = run_experiment(spark, name, quick, folder, command, told)
        finally:
            stop.set()
    for failure in ran.failures:
        out.print(f"{failure.name} (seed {failure.seed}) failed: {failure.error}", markup=False)
        out.print(f"  again: {repeat(command, failure.name)}", markup=False)
    for incomplete, why in ran.incomplete:
        out.print(f"{incomplete} did not complete: {why}", markup=False)
        out.print(f"  again: {repeat(command, incomplete)}", markup=False)
    complete = "all runs complete, no violations" if ran.judged else "all runs complete"
    verdict = complete if ran.fine else "[red]NOT fine[/]"
    smaller = ", at smaller sizes than the document's" if quick else ""
    out.print(f"{folder / 'index.html'}: {verdict}{smaller}", soft_wrap=True)
    return 0 if ran.fine else 1


def about(left_s: float | None) -> str:
    """An estimate in words: it is no better than that."""
    if left_s is None:
        return ""
    if left_s < 90:
        return f", about {max(5, round(left_s / 5) * 5)} s left"
    return f", about {round(left_s / 60)} min left"
