"""Figures of the tree experiments, and the document's values beside ours."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from thence.pages.charts import Chart, finished
from thence.pages.page import table
from thence.pages.text import significant

Result = dict[str, Any]

COLOURS = {
    "sync-tree": "#0b6e4f", "sync-tree-centre": "#264fa0", "eco-sync-tree": "#2a9d8f",
    "eco-sync-tree-centre": "#7ea3e8", "flood": "#c1440e", "pull": "#7a1f5c", "pull-1s": "#b08bbb",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TreeFigure:
    title: str
    measure: str
    label: str
    over: str = "size"
    """`size`, `probability`, `payload_bytes` (both at the size that they were varied at), or `second`: over
    time, at the largest size."""


USUAL: dict[str, float] = {"probability": 1.0, "payload_bytes": 1024}
AXES = {
    "size": "nodes", "probability": "probability that a node sends, each second",
    "payload_bytes": "bytes of payload", "second": "seconds since the first message",
}  # fmt: skip
OVER_SIZE = (
    TreeFigure("Average broadcast latency", "latency_s", "seconds"),
    TreeFigure("Duplicates", "duplicates_per_10000", "per 10,000 deliveries"),
    TreeFigure("Bytes against a perfect tree", "bytes_per_perfect", "times"),
)
RESIDENTS = TreeFigure("Average broadcast latency, newcomers left out", "resident_s", "seconds")
OVER_TIME = (
    TreeFigure("Latency over time", "latency_s", "seconds, of messages sent then", "second"),
    TreeFigure("Duplicates over time", "duplicates", "per second, all nodes", "second"),
    TreeFigure("Traffic over time", "megabytes", "MB per second, all nodes", "second"),
)
RECOVERY = (
    TreeFigure("Until one tree again", "healed_s", "seconds"),
    TreeFigure("Until the last change", "settled_s", "seconds"),
    TreeFigure("Nodes that synchronise, over time", "syncs", "nodes", "second"),
)
FIGURES: dict[str, tuple[TreeFigure, ...]] = {
    "tree-stable": (
        *OVER_SIZE,
        TreeFigure("Latency, by load", "latency_s", "seconds", "probability"),
        TreeFigure("Latency, by payload", "latency_s", "seconds", "payload_bytes"),
        TreeFigure("Bytes against a perfect tree, by payload", "bytes_per_perfect", "times", "payload_bytes"),
    ),
    "tree-churn": (*OVER_SIZE, RESIDENTS, *OVER_TIME),
    "tree-massive-join": (*OVER_SIZE, *OVER_TIME, *RECOVERY),
    "tree-catastrophe": (*OVER_SIZE, *OVER_TIME, *RECOVERY),
    "tree-eco": (
        TreeFigure("Time spent synchronising", "syncing_s", "seconds, summed over nodes"),
        TreeFigure("Average broadcast latency", "latency_s", "seconds"),
        TreeFigure("Disk use over time", "log_megabytes", "MB, all nodes", "second"),
        TreeFigure("Traffic over time", "megabytes", "MB per second", "second"),
        TreeFigure(
            "Average synchronisation, over time", "sync_s", "seconds, of those that began then", "second"
        ),
        TreeFigure("Latency over time", "latency_s", "seconds, of messages sent then", "second"),
    ),
}
LOGARITHMIC = {"latency_s", "resident_s", "duplicates_per_10000", "duplicates"}


def draw(figure: TreeFigure, results: Sequence[Result]) -> Chart:
    """What happened, and when, is marked by dashed lines."""
    rows = _rows(figure, results)
    names = [name for name in COLOURS if any(row["spread"] == name for row in rows)]
    colours = alt.Scale(domain=names, range=[COLOURS[name] for name in names])
    ticks = alt.Axis() if figure.over == "second" else alt.Axis(values=_values(figure.over, rows))
    scale, axis = _vertical(figure, rows)
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X(f"{figure.over}:Q", title=AXES[figure.over], scale=alt.Scale(zero=False), axis=ticks),
        y=alt.Y(f"{figure.measure}:Q", title=figure.label, scale=scale, axis=axis),
        color=alt.Color("spread:N", scale=colours, title=None),
        tooltip=["spread:N", f"{figure.over}:Q", alt.Tooltip(f"{figure.measure}:Q", format=",.4~r")],
    )
    # Where nothing is forgotten the two trees are the same: dashes let the one below be seen.
    dashes = alt.Scale(domain=names, range=[[4, 4] if "eco" in name else [1, 0] for name in names])
    lines = base.mark_line(strokeWidth=2).encode(
        strokeDash=alt.StrokeDash("spread:N", scale=dashes, title=None)
    )
    layers: list[alt.Chart] = [lines]
    if figure.over == "second":
        longest = max(results, key=lambda result: result["size"])
        marks = [{"second": mark} for mark in longest.get("marks", ())]
        rules = alt.Chart(alt.InlineData(values=marks)).mark_rule(strokeDash=[2, 3], color="#888")
        layers = [rules.encode(x="second:Q"), lines] if marks else layers
    else:
        layers.append(base.mark_point(filled=True, size=30, opacity=1))
    where = f", {_size(figure, results)} nodes" if figure.over != "size" else ""
    return finished(figure.title + where, *layers)


def _values(key: str, rows: Sequence[Result]) -> list[float]:
    return sorted({row[key] for row in rows})


def _vertical(figure: TreeFigure, rows: Sequence[Result]) -> tuple[alt.Scale, alt.Axis]:
    """Logarithmic where a flood or a pull would press the trees to the ground."""
    values = [row[figure.measure] for row in rows if row[figure.measure] > 0]
    if figure.measure not in LOGARITHMIC or not values or max(values) < 20 * min(values):
        return alt.Scale(type="linear", zero=True), alt.Axis()
    steps = (1, 2, 5) if figure.measure.endswith("_s") else (1,)
    powers = [step * 10.0**power for power in range(-2, 7) for step in steps]
    shown = [0.0, *[tick for tick in powers if min(values) / 2 <= tick <= max(values)]]
    return alt.Scale(type="symlog", constant=min(values)), alt.Axis(values=shown, format=",~r")


def _size(figure: TreeFigure, results: Sequence[Result]) -> int:
    """The size of the group that a figure is about."""
    varied = [result for result in results if result.get(figure.over) not in (None, USUAL.get(figure.over))]
    return max(int(result["size"]) for result in varied or results)


def _rows(figure: TreeFigure, results: Sequence[Result]) -> list[dict[str, Any]]:
    fixed = {key: value for key, value in USUAL.items() if key != figure.over}
    if figure.over != "size":
        fixed["size"] = _size(figure, results)
    chosen = [result for result in results if all(result[key] == value for key, value in fixed.items())]
    if figure.measure in ("healed_s", "settled_s"):
        chosen = [result for result in chosen if "tree" in result["spread"]]
    if figure.over != "second":
        return [{key: r[key] for key in ("spread", figure.over, figure.measure)} for r in chosen]
    return [
        {"spread": result["spread"], "second": moment["second"], figure.measure: moment[figure.measure]}
        for result in chosen
        for moment in result["series"]
    ]


@dataclass(frozen=True, slots=True)
class DocumentedValue:
    """A value of the document, or of the results published with it, and which of ours stands beside it."""

    what: str
    spread: str
    size: int
    measure: str
    unit: str
    theirs: str
    why: str


LATENCY = "Their repair waits for seconds; and their root, like ours, is anywhere on the grid."
CHURN = (
    "Mostly the time that newcomers need for the past, which here is that of 90 s at most, there of ten "
    "minutes. Logs that forget keep it short."
)
FLOOD = "The same quantity: the shortest paths of a random overlay on the same grid."
PULL = "Each of theirs takes longer the more it carries; ours is limited by its period."
BYTES = "Published totals, five times as much as printed (they are divided by the number of runs twice)."
TABLE = "Until the last synchronisation. Theirs waits 3 s for a beat that was announced, 5 s for a root."
TREE = "Until the branches are one tree; what comes after are changes for quicker ways, without a break."
DISK = "Only a figure, without numbers: the one grows for ever, the other levels off."

STABILISATION = (("one tree again", "healed_s", TREE), ("last change", "settled_s", TABLE))

DOCUMENTED: dict[str, list[DocumentedValue]] = {
    "tree-stable": [
        DocumentedValue("latency", "sync-tree", 200, "latency_s", "s", "0.425 s", LATENCY),
        DocumentedValue("latency", "flood", 200, "latency_s", "s", "0.179 s", FLOOD),
        DocumentedValue("latency", "pull", 200, "latency_s", "s", "5.42 s", PULL),
        DocumentedValue("bytes / perfect tree's", "sync-tree", 200, "bytes_per_perfect", "×", "1.1 ×", BYTES),
        DocumentedValue("bytes / perfect tree's", "flood", 200, "bytes_per_perfect", "×", "4.4 ×", BYTES),
        DocumentedValue("duplicates per 10⁴", "sync-tree", 200, "duplicates_per_10000", "", "0.04", BYTES),
        DocumentedValue("duplicates per 10⁴", "flood", 200, "duplicates_per_10000", "", "29,900", BYTES),
    ],
    "tree-churn": [
        DocumentedValue("latency", "sync-tree", 200, "latency_s", "s", "2.56 s", CHURN),
        DocumentedValue("latency", "eco-sync-tree", 200, "latency_s", "s", "1.98 s", CHURN),
        DocumentedValue("latency", "flood", 200, "latency_s", "s", "3.07 s", CHURN),
    ],
    "tree-massive-join": [
        DocumentedValue(what, spread, size, measure, "s", f"{theirs} s", why)
        for spread, times in (("sync-tree", (42, 96, 125)), ("eco-sync-tree", (41, 67, 88)))
        for size, theirs in zip((50, 100, 200), times, strict=True)
        for what, measure, why in STABILISATION
    ],
    "tree-catastrophe": [
        DocumentedValue(what, spread, size, measure, "s", f"{theirs} s", why)
        for spread, times in (("sync-tree", (27, 46, 88)), ("eco-sync-tree", (13, 40, 64)))
        for size, theirs in zip((50, 100, 200), times, strict=True)
        for what, measure, why in STABILISATION
    ],
    "tree-eco": [
        DocumentedValue("latency", "sync-tree", 200, "latency_s", "s", "2.56 s", CHURN),
        DocumentedValue("latency", "eco-sync-tree", 200, "latency_s", "s", "1.98 s", CHURN),
        DocumentedValue("logs at the end", "sync-tree", 200, "log_megabytes", "MB", "grows", DISK),
        DocumentedValue("logs at the end", "eco-sync-tree", 200, "log_megabytes", "MB", "levels off", DISK),
    ],
}


CLASSES = {"document": "n", "ours": "n", "why they differ": "why"}


def _shown(entry: DocumentedValue, result: Result) -> str:
    """Bytes against a perfect tree differ in the third place."""
    value = result[entry.measure]
    return f"{value:.3f}" if entry.measure == "bytes_per_perfect" else significant(value)


def beside(experiment: str, results: Sequence[Result]) -> tuple[str, list[dict[str, str]]]:
    """The table with the document's value beside ours, as HTML and as rows."""
    rows = []
    for entry in DOCUMENTED[experiment]:
        ours = [
            result
            for result in results
            if (result["spread"], result["size"]) == (entry.spread, entry.size)
            and (result["probability"], result["payload_bytes"]) == (1.0, 1024)
        ]
        if ours:
            rows.append(
                {
                    "what": entry.what,
                    "spread": entry.spread,
                    "nodes": str(entry.size),
                    "document": entry.theirs,
                    "ours": f"{_shown(entry, ours[0])} {entry.unit}".strip(),
                    "why they differ": entry.why,
                }
            )
    if not rows:
        return "<p>The document gives no number for these sizes.</p>", rows
    return table(rows, CLASSES), rows
