"""`thence chaos`: storms on real processes, one round after another, each judged by Spark.

What a round is, and when it holds, is in `rounds` and, for groups whose members come and go, in `changing`.
"""

import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from rich.text import Text

from thence.core.errors import ThenceError, UsageError
from thence.lab.chaos.changes import LEAST
from thence.lab.chaos.changing import ChangingRound
from thence.lab.chaos.edge import EdgeRound
from thence.lab.chaos.gossip import ChangingGossipRound, GossipRound
from thence.lab.chaos.net import why_not
from thence.lab.chaos.open_trees import OpenTreeRound
from thence.lab.chaos.rounds import Round
from thence.lab.chaos.zones import ZonesRound
from thence.local.console import out
from thence.local.extras import need
from thence.local.folders import fresh_folder
from thence.pipeline.where import Where
from thence.replica.live import PROBABILISTIC
from thence.runtime.zones import read_zones
from thence.spread.overlays import GOSSIP

ROUND_S: Final = 40.0
"""Long enough for every kind of trouble to come about three times, short enough to meet many settings."""

MARK: Final = ".thence-chaos"

ZONES: Final = "zones"
"""Stands for the spread of a topology."""

MOST_NODES: Final = {"mesh": 9, "tree": 32, "eco-sync-tree": 32, "edge": 32, ZONES: 32}
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
    topology: Path | None = None,
) -> int:
    kind: Callable[..., Round] = Round
    if topology is not None:
        if changing or netem or order or spread != "mesh":
            raise UsageError("--topology says who there is and how messages travel, without --netem")
        nodes, spread = len(read_zones(topology)), ZONES
        kind = partial(ZonesRound, file=topology.absolute())
    elif spread not in MOST_NODES or spread == ZONES:
        spreads = " or ".join([name for name in MOST_NODES if name != ZONES])
        raise UsageError(f"--spread is {spreads}, not {spread!r}")
    if not 2 <= nodes <= MOST_NODES[spread]:
        raise UsageError(f"a trial takes 2 to {MOST_NODES[spread]} nodes, not {nodes}")
    if changing and nodes < LEAST + 1:
        raise UsageError(f"a changing group has at least {LEAST + 1} nodes")
    gossips = order == PROBABILISTIC
    if order not in (None, "none", PROBABILISTIC):
        raise UsageError(f"--order is none or {PROBABILISTIC}; other orders are drawn")
    if gossips and spread != "mesh":
        raise UsageError(f"--order {PROBABILISTIC} spreads by {GOSSIP}: it takes no --spread")
    if order == "none" and not (changing and spread != "mesh"):
        raise UsageError("--order none is for a tree that is --changing; other orders are drawn")
    if spread == "edge" and (changing or netem):
        raise UsageError("--spread edge has its own changes, and no --netem")
    if spread == "edge":
        kind = EdgeRound
    elif gossips:
        kind = ChangingGossipRound if changing else GossipRound
    elif changing:
        kind = OpenTreeRound if order is not None or spread == "eco-sync-tree" else ChangingRound
    if minutes <= 0:
        raise UsageError("--minutes must be positive")
    if netem and (reason := why_not()) is not None:
        raise UsageError(f"--netem is not possible: {reason}")
    need("pyspark", "pyarrow")
    folder = folder.absolute()  # nodes are known by their folder
    fresh_folder(folder, MARK)
    until = time.monotonic() + 60 * minutes
    seconds = min(ROUND_S, 60 * minutes)
    number = seed
    while number == seed or time.monotonic() < until:
        trial = folder / f"seed-{number}"
        out.print(f"[bold]seed {number}[/]: {nodes} nodes, {seconds:.0f} s of trouble")
        try:
            kind(number, nodes, seconds, trial, netem, spread).run(where)
        except ThenceError as error:
            out.print(Text(str(error), "red"))
            out.print(f"Seed {number} did not hold. Its data, logs and traces are in {trial}. Once more:")
            again = f"thence chaos --seed {number} --minutes {seconds / 60:g}"
            again += f" --topology {topology}" if topology else f" --nodes {nodes}"
            again += "" if spread in ("mesh", ZONES) else f" --spread {spread}"
            again += " --changing" if changing else ""
            again += f" --order {order}" if order else ""
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
