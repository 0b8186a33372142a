"""The page of a trace's metrics: distributions, over time, by member and link; and what is not told."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import altair as alt

from thence.pages.charts import COLOURS, Chart, finished
from thence.pages.page import Page, table
from thence.pages.text import duration, number
from thence.pages.timeline import Timeline, TimelinePoint, draw

Row = dict[str, Any]
Rows = Sequence[Row]

DRAWN_RUNS: Final = 4
"""Runs that have figures of their own; of more there is a comparison, and the tables."""
MOST_NODES: Final = 64
"""Of a map of links, and of lines in one figure."""
MEASURES: Final = {
    "delivery": "send to delivery",
    "broadcast": "send to last delivery",
    "held": "held for causes",
    "stability": "send to stable",
    "entries": "entries of a context",
}
SAYS = (
    "Times are those that the nodes wrote down; percentiles are by the nearest rank. What the trace does not "
    "tell is left out, with the reason."
)
UNITS: Final = {"bytes": ("MB", 1e-6), "messages": ("messages", 1.0)}


def metrics_page(report: Any, tables: Mapping[str, Rows], command: str, trace: str) -> Page:
    """Of `pipeline.metrics.measured`: the report, and its tables as rows."""
    runs = report.runs
    deliveries = sum(run.deliveries for run in runs)
    verdict = f"{len(runs)} run{'s' if len(runs) != 1 else ''}, {deliveries:,} deliveries."
    for run in runs[:1] if len(runs) == 1 else ():
        found = run.distributions.get("delivery")
        if found is not None:
            verdict += f" A delivery took {duration(found.p50)} (p50), {duration(found.p99)} (p99),"
            verdict += f" {duration(found.max)} at most."
    page = Page(f"Metrics of {trace}", SAYS, verdict, True, command)
    page.section("Distributions", _distributions(runs))
    if len(runs) > 1:
        page.figures("Runs beside each other", _comparison(runs))
    for run in runs if len(runs) <= DRAWN_RUNS else ():
        mine = {name: _of(rows, run.run, run.group) for name, rows in tables.items()}
        page.figures(_name(run) if len(runs) > 1 else "Over time, by member and by link", _charts(run, mine))
    for run in runs:
        _facts(page, run, named=len(runs) > 1)
    return page


def _name(run: Any) -> str:
    return " ".join(part for part in (run.run, run.group) if part) or "the run"


def _of(rows: Rows, run: str, group: str) -> list[Row]:
    return [row for row in rows if (row["run"], row["group"]) == (run, group)]


def _distributions(runs: Sequence[Any]) -> str:
    rows = []
    for run in runs:
        for measure, found in run.distributions.items():
            show = number if measure == "entries" else duration
            ranks = {name: show(getattr(found, name)) for name in ("mean", "p50", "p90", "p99", "max")}
            scope = {"run": _name(run)} if len(runs) > 1 else {}
            rows.append({**scope, "": MEASURES[measure], "count": f"{found.count:,}", **ranks})
    if not rows:
        return "<p>The trace tells of none.</p>"
    return table(rows, dict.fromkeys(("count", "mean", "p50", "p90", "p99", "max"), "n") | {"": "name"})


def _comparison(runs: Sequence[Any]) -> list[Chart]:
    charts = []
    for measure in ("delivery", "broadcast", "stability"):
        rows = [
            {"run": _name(run), "rank": rank, "ms": getattr(run.distributions[measure], rank) / 1000}
            for run in runs
            if measure in run.distributions
            for rank in ("p50", "p90", "p99")
        ]
        if rows:
            charts.append(_dots(f"{MEASURES[measure]}, by run".capitalize(), rows, "run"))
    return charts


def _dots(title: str, rows: Rows, by: str) -> Chart:
    """Percentiles side by side, on a logarithmic axis."""
    ranks = list(dict.fromkeys(row["rank"] for row in rows))
    colours = alt.Scale(domain=ranks, range=[COLOURS[0], COLOURS[4], COLOURS[1], COLOURS[5]][: len(ranks)])
    least = min((row["ms"] for row in rows if row["ms"] > 0), default=1.0)
    dots = (
        alt.Chart(alt.InlineData(values=[{**row, "ms": max(row["ms"], least)} for row in rows]))
        .mark_point(filled=True, size=40, opacity=1)
        .encode(
            x=alt.X("ms:Q", title="ms", scale=alt.Scale(type="log"), axis=alt.Axis(format=",~r")),
            y=alt.Y(f"{by}:N", title=None, sort=None),
            color=alt.Color("rank:N", title=None, scale=colours),
            tooltip=[f"{by}:N", "rank:N", alt.Tooltip("ms:Q", format=",.4~r")],
        )
    )
    return finished(title, dots, height=max(60, 16 * len({row[by] for row in rows})))


def _charts(run: Any, tables: Mapping[str, Rows]) -> list[Chart]:
    if run.from_us is None:
        return []
    until_s = max((run.until_us - run.from_us) / 1e6, 0.001)
    charts = [
        _over_time(f"{what}, by when it was sent", tables.get(f"{measure}_by_bin", ()), run.from_us, until_s)
        for measure, what in (
            ("delivery", "Send to delivery"),
            ("broadcast", "Send to last delivery"),
            ("stability", "Send to stable"),
        )
    ]
    for measure, what in (
        ("delivery", "Send to delivery"),
        ("stability", "Send to stable"),
        ("held", "Held"),
    ):
        rows = _by_member(tables.get(f"{measure}_by_member", ()))
        charts.append(_dots(f"{what}, by member", rows, "node") if rows else None)
    charts.append(_links(tables.get("delivery_by_link", ())))
    charts += _samples(tables.get("samples", ()), run.from_us, until_s)
    return [chart for chart in charts if chart is not None]


def _over_time(title: str, rows: Rows, from_us: int, until_s: float) -> Chart | None:
    if len(rows) < 2:
        return None
    ranks = {"p50": COLOURS[0], "p90": COLOURS[4], "p99": COLOURS[1]}
    ordered = sorted(rows, key=lambda row: int(row["start_us"]))
    points = [
        TimelinePoint(max(0.0, (row["start_us"] - from_us) / 1e6), rank, max(row[rank], 1) / 1000)
        for rank in ranks
        for row in ordered
    ]
    axis = "seconds since the first row"
    return draw(
        Timeline(title=title, label="ms", points=points, colours=ranks, scale="log", axis=axis), [], until_s
    )


def _by_member(rows: Rows) -> list[Row]:
    ordered = sorted(rows, key=lambda row: natural(row["node"]))[:MOST_NODES]
    ranks = ("p50", "p90", "p99", "max")
    return [{"node": row["node"], "rank": rank, "ms": row[rank] / 1000} for row in ordered for rank in ranks]


def natural(name: str) -> tuple[str, int]:
    """n2 before n10."""
    head = name.rstrip("0123456789")
    return head, int(name[len(head) :] or 0)


def _links(rows: Rows) -> Chart | None:
    names = sorted({row[end] for row in rows for end in ("origin", "node")}, key=natural)
    if not rows or len(names) > MOST_NODES:
        return None
    few = sum(map(len, names)) < 50
    values = [
        {"from": row["origin"], "to": row["node"], "ms": row["p50"] / 1000, "p99": row["p99"] / 1000}
        for row in rows
    ]
    cells = (
        alt.Chart(alt.InlineData(values=values))
        .mark_rect()
        .encode(
            x=alt.X("to:N", sort=names, title="delivered at", axis=alt.Axis(labelAngle=0 if few else -90)),
            y=alt.Y("from:N", sort=names, title="sent by"),
            color=alt.Color("ms:Q", title="p50, ms", scale=alt.Scale(scheme="viridis", type="sqrt")),
            tooltip=[
                "from:N", "to:N", alt.Tooltip("ms:Q", title="p50, ms", format=",.4~r"),
                alt.Tooltip("p99:Q", title="p99, ms", format=",.4~r"),
            ],
        )
    )  # fmt: skip
    return finished("Send to delivery, by link", cells, height=max(120, 12 * len(names)))


def _samples(rows: Rows, from_us: int, until_s: float) -> Iterable[Chart]:
    """What nodes said of themselves: levels as they are, counters as rates."""
    for name in sorted({row["name"] for row in rows}):
        mine = sorted(
            (row for row in rows if row["name"] == name), key=lambda row: (row["node"], row["at_us"])
        )
        nodes = list(dict.fromkeys(row["node"] for row in mine))[:MOST_NODES]
        counts = name.endswith("_total")
        what, unit = name.removesuffix("_total").rpartition("_")[::2]
        label, factor = UNITS.get(unit, (unit, 1.0))
        points = [
            point
            for node in nodes
            for point in _line(node, [row for row in mine if row["node"] == node], counts, factor, from_us)
        ]
        if len(points) < 2:
            continue
        words = what if unit in UNITS else f"{what} {unit}"
        title = f"{words.replace('_', ' ').strip()}, by member".capitalize()
        colours = {node: COLOURS[number % len(COLOURS)] for number, node in enumerate(nodes)}
        label += " a second" if counts else ""
        axis = "seconds since the first row"
        yield draw(Timeline(title=title, label=label, points=points, colours=colours, axis=axis), [], until_s)


def _line(node: str, rows: Rows, counts: bool, factor: float, from_us: int) -> Iterable[TimelinePoint]:
    before: Row | None = None
    for row in rows:
        at_s = max(0.0, (row["at_us"] - from_us) / 1e6)
        if not counts:
            yield TimelinePoint(at_s, node, row["value"] * factor)
        elif before is not None and row["at_us"] > before["at_us"] and row["value"] >= before["value"]:
            seconds = (row["at_us"] - before["at_us"]) / 1e6
            yield TimelinePoint(at_s, node, (row["value"] - before["value"]) * factor / seconds)
        before = row


def _facts(page: Page, run: Any, *, named: bool) -> None:
    of = f" of {_name(run)}" if named else ""
    changes = [
        {"change": row["change"], "node": row["node"], "about": row["about"] or "", "until": _until(row),
         "took": duration(row["took_us"])}
        for row in run.changes
    ]  # fmt: skip
    if changes:
        page.section(f"Membership changes{of}", table(changes, {"took": "n"}))
    behind = [
        {"node": row["node"], "after its": row["change"],
         "messages from before": f"{row['late_deliveries']:,}", "the last after": duration(row["took_us"])}
        for row in run.catch_up
        if row["late_deliveries"]
    ]  # fmt: skip
    if behind:
        page.section(f"Catching up{of}", table(behind, dict.fromkeys(list(behind[0])[2:], "n")))
    heals = [
        {"late deliveries": f"{row['late_deliveries']:,}", "the last after": duration(row["took_us"])}
        for row in run.convergence
    ]
    if heals:
        page.section(f"Convergence after a heal{of}", table(heals, dict.fromkeys(heals[0], "n")))
    trees = [
        {"nodes": str(row["nodes"]), "one tree after": duration(row["healed_us"]),
         "settled after": duration(row["settled_us"]), "changes of links": f"{row['changes']:,}"}
        for row in run.stabilisation
    ]  # fmt: skip
    if trees:
        page.section(f"The tree, after nodes came or went{of}", table(trees, dict.fromkeys(trees[0], "n")))
    left = [{"metric": metric, "why": why} for metric, why in run.left_out.items()]
    doubts = [{"metric": why, "why": f"{count:,} rows"} for why, count in run.doubts.items()]
    if left or doubts:
        page.section(f"Not told{of}", table([*left, *doubts], {"metric": "name", "why": "why"}))


def _until(row: Row) -> str:
    return "next stable message" if row["change"] == "evict" else "next delivery"
