"""The experiments of section 5.4 of the probabilistic ordering document, with the compiled clocks.

`prob-keys` is figure 3: 500 to 2,000 nodes that receive 200 messages a second together, 100 ms under way, 100
entries, one to eight keys. The document bounds its errors from below and above; exact pasts count them.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import altair as alt

from thence.experiments.clocks import DELIVERIES, ERRORS, HELD, LATE, Traffic, measure
from thence.order.tuning import Load
from thence.pages.charts import Chart, finished
from thence.pages.page import table
from thence.pages.text import significant

KEYS = "prob-keys"
EXPERIMENTS = frozenset({KEYS})

SIZES = (500, 1000, 1500, 2000)
QUICK_SIZES = (50, 100)
COUNTS = (1, 2, 3, 4, 5, 6, 7, 8)
RATE = 200.0
"""Messages a second of the whole group."""

RECEPTIONS = 10_000_000
QUICK_RECEPTIONS = 100_000
"""Of a point; the document has more than a hundred millions in all."""


@dataclass(frozen=True, slots=True)
class Point:
    """One run of a sweep."""

    experiment: str
    size: int
    keys: int
    receptions: int
    entries: int = 100
    seed: int = 1

    @property
    def name(self) -> str:
        return f"{self.size}-{self.keys}"

    @property
    def cost(self) -> int:
        return self.receptions * (500 + self.size)


def points(experiment: str, quick: bool) -> list[Point]:
    sizes, receptions = (QUICK_SIZES, QUICK_RECEPTIONS) if quick else (SIZES, RECEPTIONS)
    return [Point(experiment, size, keys, receptions) for size in sizes for keys in COUNTS]


def run_clocks(point: Point, trace: Path) -> dict[str, Any]:  # noqa: ARG001
    """Run one point. It leaves no trace: its errors are counted as they happen."""
    interval = 1000 * point.size / RATE
    traffic = Traffic(nodes=point.size, interval=interval, seed=point.seed)
    messages = point.receptions // (point.size - 1)
    clocks = measure(traffic, point.entries, point.keys, messages)
    deliveries, errors = int(clocks.counts[DELIVERIES]), int(clocks.counts[ERRORS])
    deviation = (traffic.deviation**2 + traffic.skew**2) ** 0.5
    load = Load(point.size, 1000 / interval, traffic.delay, deviation, traffic.skew)
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
        "predicted": predicted.errors,
        "late": int(clocks.counts[LATE]),
        "held": int(clocks.counts[HELD]),
    }


def draw(results: list[dict[str, Any]]) -> Chart:
    """Figure 3: errors over keys, a line per size; dashed, what was predicted."""
    rows = [
        {"keys": result["keys"], "nodes": str(result["size"]), "share": result[what], "which": which}
        for result in results
        for what, which in (("share", "measured"), ("predicted", "predicted"))
    ]
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("keys:Q", axis=alt.Axis(values=list(COUNTS)), title="keys"),
        y=alt.Y("share:Q", title="share of deliveries before a cause"),
        color=alt.Color("nodes:N"),
        tooltip=["nodes:N", "keys:Q", "which:N", alt.Tooltip("share:Q", format=",.4~r")],
    )
    lines = base.mark_line(strokeWidth=2).encode(strokeDash=alt.StrokeDash("which:N"))
    dots = base.mark_point(filled=True, size=30, opacity=1).encode(detail="which:N")
    return finished("Errors by the number of keys", lines, dots)


def beside(results: list[dict[str, Any]]) -> tuple[str, list[dict[str, str]]]:
    """The document's best number of keys beside ours."""
    rows = []
    for size in sorted({result["size"] for result in results}):
        least = min((result for result in results if result["size"] == size), key=lambda each: each["share"])
        rows.append(
            {
                "nodes": str(size),
                "best keys": str(least["keys"]),
                "the document's": "4 (in theory 3.5)",
                "errors": significant(least["share"]),
                "predicted": significant(least["predicted"]),
            }
        )
    return table(rows, {"nodes": "n", "best keys": "n", "errors": "n", "predicted": "n"}), rows
