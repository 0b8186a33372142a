"""`thence experiment`: the documents' experiments."""

import threading
from pathlib import Path

from thence.cli.console import counting, out
from thence.core.errors import UsageError


def show_list() -> int:
    from thence.experiments.run import EXPERIMENTS

    for experiment in EXPERIMENTS.values():
        out.print(f"{experiment.name:<18} {experiment.title}")
    return 0


def run(name: str, quick: bool, folder: Path, master: str | None) -> int:
    try:
        from thence.experiments.run import find
        from thence.experiments.run import run as run_experiment
        from thence.pipeline.session import session
    except ImportError as error:
        raise UsageError(f"experiments need the laboratory: pip install 'thence[lab]' ({error})") from error
    find(name)
    command = f"thence experiment run {name}{' --quick' if quick else ''} --out {folder}"
    with counting("Spark starts") as watcher:
        spark = session(master)
        stop = threading.Event()
        total = [0]

        def told(what: str, done: int, of: int) -> None:
            total[0] = of or total[0]
            watcher(done, of, what)

        def look() -> None:  # points finish inside Spark's workers: count what they leave behind
            while not stop.wait(1.0):
                done = sum(1 for _ in (folder / "points").glob("[!.]*.json"))
                watcher(done, total[0], "running points" if done < total[0] else None)

        looker = threading.Thread(target=look, daemon=True)
        looker.start()
        try:
            fine = run_experiment(spark, name, quick, folder, command, told)
        finally:
            stop.set()
    out.print(
        f"{folder / 'index.html'}: {'all runs complete, no violations' if fine else '[red]NOT fine[/]'}"
    )
    return 0 if fine else 1
