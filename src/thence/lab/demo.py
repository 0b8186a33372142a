"""`thence demo`: what thence does, shown step by step and checked on the way.

A group of real processes works under load while one joins, one is cut off, one killed, one evicted and one
leaves; another group works over a tree; a third is a store, to which Redis clients write through a cut, a
kill and a join. Then everything must be everywhere, and Spark judges the traces. As the control, the
simulator runs a group with no order at all, where effects come before their causes. Last, one fault of each
kind is planted into a good trace, and Spark must find exactly those. What was seen on the way becomes a page.

Invariant: exit code 0 means that every claim held; and however the tour ends, no process is left.
"""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from thence.lab.tour.claims import Claims
from thence.lab.tour.grove import LINKS, NODES, Grove
from thence.lab.tour.live import FLAGS, Live, Story
from thence.lab.tour.pace import Pace
from thence.lab.tour.shop import Shop
from thence.local.cluster import Cluster
from thence.local.console import counting, out, working
from thence.local.extras import need
from thence.local.folders import fresh_folder
from thence.local.layout import open_layout
from thence.pipeline.where import Where
from thence.trace.schema import VERDICTS

if TYPE_CHECKING:
    from thence.pipeline.report import RunReport

SCENARIO: Final = "partition"
MARK: Final = ".thence-demo"
PAGE: Final = "index.html"


def run(folder: Path, where: Where, pace: Pace | None = None) -> int:
    need("pyspark", "pyarrow", "altair", "vl_convert")
    fresh_folder(folder, MARK)
    started = time.monotonic()
    tour = Tour(folder, where, pace or Pace())
    story = tour.live()
    tour.grove()
    tour.shop()
    tour.judge()
    tour.judge_tree()
    tour.control()
    tour.sabotage()
    tour.write_page(story, f"thence demo{where.flags} --out {folder}")
    out.print()
    out.print(tour.claims.summary())
    out.print(
        f"The page: {(folder / PAGE).absolute()}\nTraces are in {folder}. {time.monotonic() - started:.0f} s."
    )
    held = tour.claims.held
    out.print("[green]Everything held.[/]" if held else "[red]Something did not hold: see above.[/]")
    return 0 if held else 1


class Tour:
    """The steps, and what is kept of them."""

    def __init__(self, folder: Path, where: Where, pace: Pace) -> None:
        self.folder: Final = folder
        self.where: Final = where
        self.pace: Final = pace
        self.claims: Final = Claims()
        self.judged: Final[dict[str, RunReport]] = {}
        self.planted: Final[dict[str, tuple[str, ...]]] = {}
        """By judged trace, the verdicts that have to find something in it."""

    def live(self) -> Story:
        trace = (self.folder / "trace").absolute()
        layout = open_layout((self.folder / "cluster").absolute(), self.pace.nodes, changing=True)
        cluster = Cluster(
            layout, flags=(*FLAGS, "--trace", str(trace)), contacts=layout.names[:-1],
            answers_s=self.pace.patience_s,
        )  # fmt: skip
        return Live(cluster, trace, self.pace, self.claims).run()

    def grove(self) -> None:
        """A group over a tree."""
        layout = open_layout((self.folder / "grove").absolute(), NODES, changing=True)
        trace = str((self.folder / "tree").absolute())
        tree = ("--spread", "tree", "--set", f"tree.neighbours={LINKS}", "--trace", trace)
        cluster = Cluster(layout, flags=(*FLAGS, *tree), answers_s=self.pace.patience_s)
        Grove(cluster, self.pace, self.claims).run()

    def shop(self) -> None:
        """A group of stores."""
        Shop((self.folder / "store").absolute(), self.pace, self.claims).run()

    def judge(self) -> None:
        self.claims.step("Spark works out from the trace alone what caused what", "judge")
        run = self._judge("the cluster", self.folder / "trace")
        counts = run.violations
        self.claims.claim(
            f"{run.sends:,} messages, {run.deliveries:,} deliveries: "
            f"{_list(counts) or 'no violation of any kind'}",
            not any(counts.values()) and run.sends > 0,
        )
        self.claims.claim(
            f"nothing was lost on the way of any member, and messages were told stable {run.stables:,} times",
            counts["lost"] == counts["unstable"] == 0 and run.stables > 0,
        )

    def judge_tree(self) -> None:
        tree = self._judge("the tree", self.folder / "tree")
        self.claims.claim(
            f"over the tree {tree.sends:,} messages, {tree.deliveries:,} deliveries: "
            f"{_list(tree.violations) or 'no violation of any kind'}",
            not any(tree.violations.values()) and tree.sends > 0,
        )

    def control(self) -> None:
        from thence.sim.run import simulate
        from thence.sim.scenarios import configure

        self.claims.step("The same with no order at all: sixteen simulated members, cut in two", "control")
        outcomes = {}
        for order in ("graph", "none"):
            with counting(f"simulating, order {order}") as watcher:
                outcomes[order] = simulate(configure(SCENARIO, order=order), self.folder / order, watcher)
        self.claims.claim(
            f"both runs deliver everything; with order, {outcomes['graph'].held:,} deliveries had to wait "
            "for their causes",
            all(outcome.complete for outcome in outcomes.values()),
        )
        counts = self._judge("simulated, no order", self.folder / "none", ("order", "program")).violations
        self.claims.claim(
            f"without order, {counts['order']:,} effects came before their causes, and {counts['program']:,} "
            "operations after later ones of the same process",
            counts["order"] > 0 and sum(counts.values()) == counts["order"] + counts["program"],
        )

    def sabotage(self) -> None:
        from thence.lab.sabotage import plant_all
        from thence.sim.run import TRACE_FILE

        self.claims.step(
            "One fault of each kind, planted into the good simulated trace", "find what was planted"
        )
        planted = plant_all(self.folder / "graph" / TRACE_FILE, self.folder / "sabotaged")
        judged = self._judge("simulated, one fault of each kind", self.folder / "sabotaged", VERDICTS)
        examples = {str(example["kind"]): example for example in judged.examples}
        for verdict in VERDICTS:
            told = [f"{key} {value}" for key, value in examples.get(verdict, {}).items() if key != "kind"]
            self.claims.claim(f"{verdict}: {planted[verdict]}", judged.violations[verdict] == 1)
            if told:
                self.claims.tell(f"found: {', '.join(told)}")

    def write_page(self, story: Story, command: str) -> None:
        with working("figures are drawn"):
            from thence.lab.tour.figures import figures
            from thence.lab.tour.measure import read
            from thence.lab.tour.page import page
            from thence.pages.charts import save_all

            charts = figures(self.where.spark(), read(self.folder / "trace"), story)
            save_all(charts, self.folder)
            made = page(self.claims, charts, self.judged, self.planted, command)
            (self.folder / PAGE).write_text(made, encoding="utf-8")

    def _judge(self, title: str, trace: Path, planted: tuple[str, ...] = ()) -> "RunReport":
        with working("Spark starts and judges" if not self.judged else "Spark judges"):
            from thence.pipeline.verify import verify

            [run] = verify(self.where.spark(), trace).runs
        self.judged[title] = run
        if planted:
            self.planted[title] = planted
        return run


def _list(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {verdict}" for verdict, count in counts.items() if count)
