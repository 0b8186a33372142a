"""`thence demo`: what thence does, shown step by step and checked on the way.

A group of sixteen is cut in two for a while and heals, once with each engine, and once with no order
at all as the control. Spark judges the traces. Then one fault of each kind is planted into the good
trace, and Spark must find exactly those.
"""

import shutil
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from thence.cli.console import counting, out, working
from thence.cli.sabotage import plant_all
from thence.core.errors import UsageError
from thence.sim.run import TRACE_FILE, Outcome, simulate
from thence.sim.scenarios import configure
from thence.trace.schema import VERDICTS

if TYPE_CHECKING:
    from thence.pipeline.report import RunReport

SCENARIO = "partition"
MARK = ".thence-demo"


def run(folder: Path, master: str | None) -> int:
    _clear(folder)
    started = time.monotonic()
    tour = Tour(folder, master)
    tour.simulate()
    tour.judge()
    tour.sabotage()
    held = all(passed for _, passed in tour.claims)
    out.print()
    out.print(tour.summary())
    out.print(f"Traces are in {folder}. {time.monotonic() - started:.0f} s.")
    out.print("[green]Everything held.[/]" if held else "[red]Something did not hold: see above.[/]")
    return 0 if held else 1


def _clear(folder: Path) -> None:
    """An earlier demo's folder is replaced; anything else that is not empty is refused."""
    try:
        if folder.exists():
            if any(folder.iterdir()) and not (folder / MARK).exists():
                raise UsageError(f"{folder} holds something else: give --out a folder of its own")
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        (folder / MARK).touch()
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror}") from error


class Tour:
    """The steps, and the claims that they made."""

    def __init__(self, folder: Path, master: str | None) -> None:
        self.folder = folder
        self.master = master
        self.claims: list[tuple[str, bool]] = []

    def claim(self, text: str, held: bool) -> None:
        self.claims.append((text, held))
        out.print(f"  {'[green]✓[/]' if held else '[red]✗[/]'} {text}")

    def simulate(self) -> None:
        out.print("[bold]1. Sixteen members, cut in two for a third of the time, then healed[/]")
        for order in ("graph", "vector", "none"):
            settings = configure(SCENARIO, order=order)
            with counting(f"simulating, order {order}") as watcher:
                outcome = simulate(settings, self.folder / order, watcher)
            self._tell(order, outcome)

    def _tell(self, order: str, outcome: Outcome) -> None:
        lost = outcome.packets.get("cut off", 0)
        waited = f"; {outcome.held:,} waited for their causes" if outcome.held else ""
        stable = " and stable everywhere" if outcome.stables else ""
        self.claim(
            f"order {order}: {outcome.sends:,} messages, {lost:,} packets lost in the cut, yet all "
            f"{outcome.deliveries:,} deliveries made{stable}{waited}",
            outcome.complete,
        )

    def judge(self) -> None:
        out.print("[bold]2. Spark works out from the traces alone what caused what[/]")
        for order in ("graph", "vector"):
            counts = self._judged(self.folder / order).violations
            self.claim(
                f"order {order}: {_list(counts) or 'no violation of any kind'}", not any(counts.values())
            )
        counts = self._judged(self.folder / "none").violations
        alone = sum(counts.values()) == counts["order"]
        self.claim(
            f"no order: {counts['order']:,} effects came before their causes, which the others prevented",
            counts["order"] > 0 and alone,
        )

    def sabotage(self) -> None:
        out.print("[bold]3. One fault of each kind, planted into the graph engine's trace[/]")
        planted = plant_all(self.folder / "graph" / TRACE_FILE, self.folder / "sabotaged")
        judged = self._judged(self.folder / "sabotaged")
        examples = {str(example["kind"]): example for example in judged.examples}
        for verdict in VERDICTS:
            example = examples.get(verdict, {})
            told = ", ".join(f"{key} {value}" for key, value in example.items() if key != "kind")
            found = f"\n      found: {told}" if told else ""
            self.claim(f"{verdict}: {planted[verdict]}{found}", judged.violations[verdict] == 1)

    def _judged(self, trace: Path) -> "RunReport":
        with working("Spark starts and judges"):
            from thence.pipeline.session import session
            from thence.pipeline.verify import verify

            [run] = verify(session(self.master), trace).runs
        return run

    def summary(self) -> Table:
        table = Table("step", "claims", "held", box=None)
        bounds = (0, 3, 6, len(self.claims))
        for step, (low, high) in enumerate(pairwise(bounds), 1):
            claims = self.claims[low:high]
            table.add_row(
                ("simulate", "judge", "find what was planted")[step - 1],
                str(len(claims)),
                str(sum(held for _, held in claims)),
            )
        return table


def _list(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {verdict}" for verdict, count in counts.items() if count)
