"""The experiments of section 5.4 of the probabilistic ordering document, with the compiled clocks.

`prob-keys` is figure 3: 500 to 2,000 nodes that receive 200 messages a second together, 100 ms under way, 100
entries, one to eight keys. The others vary one parameter of 1,000 nodes that send every 5 s with four keys:
`prob-rate` the interval (figure 4), `prob-nodes` the nodes (figure 5), `prob-constant-load` the nodes while
they receive as many messages (figure 6). The document bounds its errors by ε_min and ε_max; exact pasts count
them.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import altair as alt

from thence.experiments.clocks import COUNTED, DELIVERIES, ERRORS, HELD, LATE, UNREADY, Traffic, measure
from thence.order.tuning import Load
from thence.pages.charts import Chart, finished
from thence.pages.page import table
from thence.pages.text import significant

KEYS = "prob-keys"
BY_RATE, BY_NODES, CONSTANT = "prob-rate", "prob-nodes", "prob-constant-load"
EXPERIMENTS = frozenset({KEYS, BY_RATE, BY_NODES, CONSTANT})

SIZES = (500, 1000, 1500, 2000)
QUICK_SIZES = (50, 100)
COUNTS = (1, 2, 3, 4, 5, 6, 7, 8)
RATE = 200.0
"""Messages a second of the whole group."""

RECEPTIONS = 10_000_000
QUICK_RECEPTIONS = 100_000
"""Of a point; the document has more than a hundred millions in all."""

NODES, INTERVAL, FOUR = 1000, 5000.0, 4
"""The document's system (5.4.3): nodes, ms between two messages of one, keys."""

INTERVALS = (1000.0, 1500.0, 2000.0, 3000.0, 4000.0, 5000.0, 6000.0, 8000.0, 10_000.0)
AROUND = (250, 500, 750, 1000, 1250, 1500, 1750, 2000)
QUICK_AROUND = 1_000_000
"""Receptions of a point around the document's system: fewer are too few messages of a thousand nodes."""


@dataclass(frozen=True, slots=True)
class Point:
    """One run of a sweep."""

    experiment: str
    size: int
    keys: int
    receptions: int
    interval: float
    """Milliseconds between two messages of one node."""
    entries: int = 100
    seed: int = 1

    @property
    def name(self) -> str:
        return f"{self.size}-{self.keys}" if self.experiment == KEYS else f"{self.size}-{self.interval:g}"

    @property
    def cost(self) -> int:
        return self.receptions * (500 + self.size)


def points(experiment: str, quick: bool) -> list[Point]:
    if experiment == KEYS:
        sizes, receptions = (QUICK_SIZES, QUICK_RECEPTIONS) if quick else (SIZES, RECEPTIONS)
        return [Point(KEYS, size, keys, receptions, _constant(size)) for size in sizes for keys in COUNTS]
    loads = {
        BY_RATE: [(NODES, interval) for interval in INTERVALS],
        BY_NODES: [(size, INTERVAL) for size in AROUND],
        CONSTANT: [(size, _constant(size)) for size in AROUND],
    }
    receptions = QUICK_AROUND if quick else RECEPTIONS
    return [Point(experiment, size, FOUR, receptions, interval) for size, interval in loads[experiment]]


def _constant(size: int) -> float:
    """The interval at which the group sends what the document's does."""
    return 1000 * size / RATE


def run_clocks(point: Point, trace: Path) -> dict[str, Any]:  # noqa: ARG001
    """Run one point. It leaves no trace: its errors are counted as they happen."""
    traffic = Traffic(nodes=point.size, interval=point.interval, seed=point.seed)
    messages = point.receptions // (point.size - 1)
    clocks = measure(traffic, point.entries, point.keys, messages)
    deliveries, errors = int(clocks.counts[DELIVERIES]), int(clocks.counts[ERRORS])
    deviation = (traffic.deviation**2 + traffic.skew**2) ** 0.5
    load = Load(point.size, 1000 / point.interval, traffic.delay, deviation, traffic.skew)
    predicted = load.clock(point.entries, point.keys)
    complete = deliveries == messages * (point.size - 1)
    return {
        **asdict(point),
        "name": point.name,
        "complete": complete,
        "why": "" if complete else f"{deliveries} deliveries of {messages * (point.size - 1)}",
        "deliveries": deliveries,
        "errors": errors,
        "share": errors / deliveries,
        "least": int(clocks.counts[UNREADY]) / deliveries,
        "most": int(clocks.counts[UNREADY] + clocks.counts[COUNTED]) / deliveries,
        "predicted": predicted.errors,
        "late": int(clocks.counts[LATE]),
        "held": int(clocks.counts[HELD]),
    }


WHICH = {"share": "measured", "predicted": "predicted", "least": "ε_min", "most": "ε_max"}


def draw(experiment: str, results: list[dict[str, Any]]) -> Chart:
    """Errors over what was varied. Of keys a line per size; dashed, what was predicted."""
    by_keys = experiment == KEYS
    varied, title = _VARIED[experiment]
    rows = [
        {"x": result[varied], "nodes": str(result["size"]), "share": result[what], "which": which}
        for result in results
        for what, which in WHICH.items()
        if what in ("share", "predicted") or not by_keys
    ]
    axis = alt.Axis(values=list(COUNTS)) if by_keys else alt.Axis()
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("x:Q", axis=axis, title=title),
        y=alt.Y("share:Q", title="share of deliveries before a cause"),
        color=alt.Color("nodes:N") if by_keys else alt.Color("which:N", sort=list(WHICH.values())),
        tooltip=[
            "nodes:N",
            alt.Tooltip("x:Q", title=title),
            "which:N",
            alt.Tooltip("share:Q", format=",.4~r"),
        ],
    )
    lines = base.mark_line(strokeWidth=2)
    if by_keys:
        lines = lines.encode(strokeDash=alt.StrokeDash("which:N"))
    dots = base.mark_point(filled=True, size=30, opacity=1).encode(detail="which:N")
    return finished(_FIGURE[experiment], lines, dots)


_VARIED = {
    KEYS: ("keys", "keys"),
    BY_RATE: ("interval", "ms between two messages of a node"),
    BY_NODES: ("size", "nodes"),
    CONSTANT: ("size", "nodes"),
}
_FIGURE = {
    KEYS: "Errors by the number of keys",
    BY_RATE: "Errors by the interval",
    BY_NODES: "Errors by the number of nodes",
    CONSTANT: "Errors by the number of nodes, under the same load",
}


def beside(experiment: str, results: list[dict[str, Any]]) -> tuple[str, list[dict[str, str]]]:
    """What the document says beside ours: of figure 3 the best number of keys, of the others how errors
    change from its own system. It prints no rates."""
    rows = _best_keys(results) if experiment == KEYS else _changes(experiment, results)
    numbers = [name for name in rows[0] if name != "the document's" and name != "the document"]
    return table(rows, dict.fromkeys(numbers, "n")), rows


def _best_keys(results: list[dict[str, Any]]) -> list[dict[str, str]]:
    rows = []
    for size in sorted({result["size"] for result in results}):
        least = min((result for result in results if result["size"] == size), key=lambda each: each["share"])
        rows.append(
            {
                "nodes": str(size),
                "best keys": str(least["keys"]),
                "the document's": "4 (in theory 3.5)",
                "errors": significant(least["share"]),
                "ε_min": significant(least["least"]),
                "ε_max": significant(least["most"]),
                "predicted": significant(least["predicted"]),
            }
        )
    return rows


def _changes(experiment: str, results: list[dict[str, Any]]) -> list[dict[str, str]]:
    own = next(
        (each for each in results if (each["size"], each["interval"]) == (NODES, INTERVAL)), results[0]
    )
    return [
        {
            "nodes": str(each["size"]),
            "interval in ms": f"{each['interval']:g}",
            "errors": significant(each["share"]),
            "counted": str(each["errors"]),
            "ε_min": significant(each["least"]),
            "ε_max": significant(each["most"]),
            "predicted": significant(each["predicted"]),
            "× the document's system": significant(each["share"] / own["share"]) if own["share"] else "–",
            "the document": _says(experiment, each["size"], each["interval"]),
        }
        for each in sorted(results, key=lambda each: (each["size"], each["interval"]))
    ]


def _says(experiment: str, size: int, interval: float) -> str:
    """What its text says of this place of its figure."""
    if (size, interval) == (NODES, INTERVAL):
        return "what it was tuned for"
    if experiment == BY_RATE:
        return "increases quickly" if interval < 3000 else "stable" if 4000 <= interval <= 6000 else ""
    if experiment == BY_NODES:
        return "increases quickly" if size > NODES else ""
    return "constant" if size > NODES else "increases as nodes decrease"
