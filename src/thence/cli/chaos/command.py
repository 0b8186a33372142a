"""`thence chaos`: storms on real processes, one round after another, each judged by Spark.

What a round is, and when it holds, is in `rounds` and, for groups whose members come and go, in `changing`.
"""

import shutil
import time
from pathlib import Path
from typing import Final

from rich.text import Text

from thence.cli.chaos.changes import LEAST
from thence.cli.chaos.changing import ChangingRound
from thence.cli.chaos.edge import EdgeRound
from thence.cli.chaos.net import why_not
from thence.cli.chaos.open_trees import OpenTreeRound
from thence.cli.chaos.rounds import Round
from thence.cli.console import out
from thence.cli.extras import need
from thence.cli.folders import fresh_folder
from thence.cli.where import Where
from thence.core.errors import ThenceError, UsageError

ROUND_S: Final = 40.0
"""Long enough for every kind of trouble to come about three times, short enough to meet many settings."""

MARK: Final = ".thence-chaos"

MOST_NODES: Final = {"mesh": 9, "tree": 32, "eco-sync-tree": 32, "edge": 32}
"""What one machine can run under load."""


def run(
    minutes: float,
    nodes: int,
    seed: int,
    folder: Path,
    netem: bool,
    keep: bool,
    where: Where,
    spread: str = "mesh",
    changing: bool = False,
    order: str | None = None,
) -> int:
    if spread not in MOST_NODES:
        raise UsageError(f"--spread is {' or '.join(MOST_NODES)}, not {spread!r}")
    if not 2 <= nodes <= MOST_NODES[spread]:
        raise UsageError(f"a trial takes 2 to {MOST_NODES[spread]} nodes, not {nodes}")
    if changing and nodes < LEAST + 1:
        raise UsageError(f"a changing group has at least {LEAST + 1} nodes")
    if order not in (None, "none") or (order and not (changing and spread != "mesh")):
        raise UsageError("--order none is for a tree that is --changing; other orders are drawn")
    if spread == "edge" and (changing or netem):
        raise UsageError("--spread edge has its own changes, and no --netem")
    streamed = order is not None or spread == "eco-sync-tree"
    if minutes <= 0:
        raise UsageError("--minutes must be positive")
    if netem and (reason := why_not()) is not None:
        raise UsageError(f"--netem is not possible: {reason}")
    need("pyspark", "pyarrow")
    folder = folder.absolute()  # nodes are known by their folder, whoever looks for them
    fresh_folder(folder, MARK)
    until = time.monotonic() + 60 * minutes
    seconds = min(ROUND_S, 60 * minutes)
    number = seed
    while number == seed or time.monotonic() < until:
        trial = folder / f"seed-{number}"
        out.print(f"[bold]seed {number}[/]: {nodes} nodes, {seconds:.0f} s of trouble")
        try:
            kind: type[Round] = EdgeRound if spread == "edge" else Round
            if changing:
                kind = OpenTreeRound if streamed else ChangingRound
            kind(number, nodes, seconds, trial, netem, spread).run(where)
        except ThenceError as error:
            out.print(Text(str(error), "red"))
            out.print(f"Seed {number} did not hold. Its data, logs and traces are in {trial}. Once more:")
            again = f"thence chaos --seed {number} --nodes {nodes} --minutes {seconds / 60:g}"
            again += "" if spread == "mesh" else f" --spread {spread}"
            again += " --changing" if changing else ""
            again += " --order none" if order else ""
            again += f" --engine {where.engine}" if where.engine != "spark" else ""
            out.print(f"{again} --netem" if netem else again)
            return 1
        if not keep:
            shutil.rmtree(trial)
        number += 1
    if not keep:
        shutil.rmtree(folder)
    rounds = f"{number - seed} rounds, seeds {seed} to {number - 1}" if number > seed + 1 else f"seed {seed}"
    out.print(f"[green]{rounds}: everything held.[/]")
    return 0
