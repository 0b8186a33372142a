"""The experiments of section 5.4 of the probabilistic ordering document, with the compiled clocks.

`prob-keys` is figure 3: 500 to 2,000 nodes that receive 200 messages a second together, 100 ms under way, 100
entries, one to eight keys. The others vary one parameter of 1,000 nodes that send every 5 s with four keys:
`prob-rate` the interval (figure 4), `prob-nodes` the nodes (figure 5), `prob-constant-load` the nodes while
they receive as many messages (figure 6). The document bounds its errors by ε_min and ε_max; exact pasts count
them. `prob-detect` counts errors that algorithm 5 does not doubt, over a billion deliveries: there must be
none.

Errors come in clusters: what covers a message covers it at all receivers. A point is therefore run with
several seeds, each with keys and delays of its own, and told as their mean with its standard error.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from pathlib import Path
from typing import Any

import altair as alt

from thence.experiments.clocks import (
    COUNTED,
    DELIVERIES,
    DOUBTS,
    ERRORS,
    HELD,
    LATE,
    UNREADY,
    Traffic,
    measure,
)
from thence.order.tuning import Clock, OfferedLoad
from thence.pages.charts import Chart, finished
from thence.pages.page import table
from thence.pages.text import significant

KEYS = "prob-keys"
BY_RATE, BY_NODES, CONSTANT = "prob-rate", "prob-nodes", "prob-constant-load"
DETECT = "prob-detect"
EXPERIMENTS = frozenset({KEYS, BY_RATE, BY_NODES, CONSTANT, DETECT})

SIZES = (500, 1000, 1500, 2000)
QUICK_SIZES = (50, 100)
COUNTS = (1, 2, 3, 4, 5, 6, 7, 8)
RATE = 200.0
"""Messages a second of the whole group."""

RECEPTIONS = 10_000_000
QUICK_RECEPTIONS = 100_000
"""Of a seed, at least; the document has more than a hundred millions in all."""

MESSAGES = 10_000
"""Of a seed, at least: receivers of one message err together, so that more receivers tell little more."""

SEEDS, QUICK_SEEDS = 8, 2
"""Of a point."""

DETECTING = ((200, 1000.0, 4), (200, 500.0, 2), (100, 500.0, 4), (100, 250.0, 1))
"""Nodes, interval and keys, in turn: from twenty to forty messages under way."""

DETECTED, QUICK_DETECTED = 101, 4
"""Runs of `prob-detect`, of ten million receptions each."""

RECENT = 400
"""Deliveries that its nodes remember: for a second and longer."""

NODES, INTERVAL, FOUR = 1000, 5000.0, 4
"""The document's system (5.4.3): nodes, ms between two messages of one, keys."""

INTERVALS = (1000.0, 1500.0, 2000.0, 3000.0, 4000.0, 5000.0, 6000.0, 8000.0, 10_000.0)
AROUND = (250, 500, 750, 1000, 1250, 1500, 1750, 2000)
QUICK_AROUND = 1_000_000
"""Receptions of a point around the document's system: fewer are too few messages of a thousand nodes."""


@dataclass(frozen=True, slots=True)
class ProbPoint:
    """One run of a sweep."""

    experiment: str
    size: int
    keys: int
    receptions: int
    interval: float
    """Milliseconds between two messages of one node."""
    entries: int = 100
    seed: int = 1
    recent: int = 0

    @property
    def name(self) -> str:
        if self.experiment in (KEYS, DETECT):
            return f"{self.size}-{self.keys}-{self.seed}"
        return f"{self.size}-{self.interval:g}-{self.seed}"

    @property
    def cost(self) -> int:
        return self.receptions * (500 + self.size)


def points(experiment: str, quick: bool) -> list[ProbPoint]:
    seeds = range(1, (QUICK_SEEDS if quick else SEEDS) + 1)
    if experiment == DETECT:
        runs, receptions = (QUICK_DETECTED, QUICK_RECEPTIONS) if quick else (DETECTED, RECEPTIONS)
        detecting = [(DETECTING[run % len(DETECTING)], run + 1) for run in range(runs)]
        return [
            ProbPoint(DETECT, size, keys, receptions, interval, seed=seed, recent=RECENT)
            for (size, interval, keys), seed in detecting
        ]
    if experiment == KEYS:
        sizes, receptions = (QUICK_SIZES, QUICK_RECEPTIONS) if quick else (SIZES, RECEPTIONS)
        return [
            ProbPoint(KEYS, size, keys, _receptions(size, receptions), _constant(size), seed=seed)
            for size in sizes
            for keys in COUNTS
            for seed in seeds
        ]
    loads = {
        BY_RATE: [(NODES, interval) for interval in INTERVALS],
        BY_NODES: [(size, INTERVAL) for size in AROUND],
        CONSTANT: [(size, _constant(size)) for size in AROUND],
    }
    return [
        ProbPoint(
            experiment,
            size,
            FOUR,
            QUICK_AROUND if quick else _receptions(size, RECEPTIONS),
            interval,
            seed=seed,
        )
        for size, interval in loads[experiment]
        for seed in seeds
    ]


def _receptions(size: int, least: int) -> int:
    return least if least < RECEPTIONS else max(least, MESSAGES * (size - 1))


def _constant(size: int) -> float:
    """The interval at which the group sends what the document's does."""
    return 1000 * size / RATE


def run_clocks(point: ProbPoint, trace: Path) -> dict[str, Any]:  # noqa: ARG001
    """Run one point. It leaves no trace: its errors are counted as they happen."""
    traffic = Traffic(nodes=point.size, interval=point.interval, seed=point.seed)
    messages = point.receptions // (point.size - 1)
    clocks = measure(traffic, point.entries, point.keys, messages, point.recent)
    deliveries, errors = int(clocks.counts[DELIVERIES]), int(clocks.counts[ERRORS])
    why = ""
    if deliveries != messages * (point.size - 1):
        why = f"{deliveries} deliveries of {messages * (point.size - 1)}"
    elif clocks.undoubted:
        why = f"{clocks.undoubted} errors were not doubted"
    return {
        **asdict(point),
        "name": point.name,
        "complete": not why,
        "why": why,
        "deliveries": deliveries,
        "errors": errors,
        "share": errors / deliveries,
        "least": int(clocks.counts[UNREADY]) / deliveries,
        "most": int(clocks.counts[UNREADY] + clocks.counts[COUNTED]) / deliveries,
        "late": int(clocks.counts[LATE]),
        "held": int(clocks.counts[HELD]),
        "doubts": int(clocks.counts[DOUBTS]),
        "undoubted": clocks.undoubted,
    }


def pooled(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for all seeds of a point: counts added, shares averaged, and the standard error of the mean."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for result in results:
        groups.setdefault(tuple([result[what] for what in ("size", "keys", "interval")]), []).append(result)
    found = []
    for each in groups.values():
        count = len(each)
        means = {what: sum(one[what] for one in each) / count for what in ("share", "least", "most")}
        sums = {
            what: sum(one[what] for one in each) for what in ("deliveries", "errors", "doubts", "undoubted")
        }
        squares = sum((one["share"] - means["share"]) ** 2 for one in each)
        error = sqrt(squares / (count - 1) / count) if count > 1 else 0.0
        clock = expected(each[0])
        told = {"predicted": clock.errors, "documented": clock.documented, "seeds": count, "error": error}
        found.append({**each[0], **means, **sums, **told})
    return found


def expected(result: Mapping[str, Any]) -> Clock:
    """What formulas say of a point."""
    traffic = Traffic(nodes=result["size"], interval=result["interval"])
    deviation = (traffic.deviation**2 + traffic.skew**2) ** 0.5
    load = OfferedLoad(traffic.nodes, 1000 / traffic.interval, traffic.delay, deviation, traffic.skew)
    return load.clock(result["entries"], result["keys"])


WHICH = {
    "share": "measured",
    "predicted": "predicted",
    "documented": "the document's formula",
    "least": "ε_min",
    "most": "ε_max",
}


def draw(experiment: str, results: list[dict[str, Any]]) -> Chart:
    """Errors over what was varied. Of keys a line per size; dashed, what was predicted."""
    by_keys = experiment == KEYS
    varied, title = _VARIED[experiment]
    results = pooled(results)
    rows = [
        {"x": result[varied], "nodes": str(result["size"]), "share": result[what], "which": which}
        for result in results
        for what, which in WHICH.items()
        if what in ("share", "predicted", "documented") or not by_keys
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
    DETECT: ("interval", "ms between two messages of a node"),
}
_FIGURE = {
    KEYS: "Errors by the number of keys",
    BY_RATE: "Errors by the interval",
    BY_NODES: "Errors by the number of nodes",
    CONSTANT: "Errors by the number of nodes, under the same load",
    DETECT: "Errors, all of which were doubted",
}


def beside(experiment: str, results: list[dict[str, Any]]) -> tuple[str, list[dict[str, str]]]:
    """What the document says beside ours: of figure 3 the best number of keys, of the others how errors
    change from its own system. It prints no rates."""
    results = pooled(results)
    if experiment == DETECT:
        rows = _detected(results)
    else:
        rows = _by_keys(results) if experiment == KEYS else _changes(experiment, results)
    numbers = [name for name in rows[0] if name != "the document's" and name != "the document"]
    return table(rows, dict.fromkeys(numbers, "n")), rows


def _detected(results: list[dict[str, Any]]) -> list[dict[str, str]]:
    return [
        {
            "nodes": str(each["size"]),
            "interval in ms": f"{each['interval']:g}",
            "keys": str(each["keys"]),
            "runs": str(each["seeds"]),
            "deliveries": f"{each['deliveries']:,}",
            "errors": f"{each['errors']:,}",
            "doubts": f"{each['doubts']:,}",
            "undoubted": str(each["undoubted"]),
        }
        for each in results
    ]


def _by_keys(results: list[dict[str, Any]]) -> list[dict[str, str]]:
    least: dict[int, float] = {}
    for each in results:
        least[each["size"]] = min(each["share"], least.get(each["size"], 1.0))
    return [
        {
            "nodes": str(each["size"]),
            "keys": str(each["keys"]) + (" (best)" if each["share"] == least[each["size"]] else ""),
            "the document's": "best: 4 (in theory 3.5)" if each["keys"] == FOUR else "",
            "errors": significant(each["share"]),
            "± (standard error)": significant(each["error"]),
            "ε_min": significant(each["least"]),
            "ε_max": significant(each["most"]),
            "predicted": significant(each["predicted"]),
            "measured / predicted": significant(each["share"] / each["predicted"]),
            "the formula's": significant(each["documented"]),
        }
        for each in sorted(results, key=lambda each: (each["size"], each["keys"]))
    ]


def _changes(experiment: str, results: list[dict[str, Any]]) -> list[dict[str, str]]:
    own = next(
        (each for each in results if (each["size"], each["interval"]) == (NODES, INTERVAL)), results[0]
    )
    return [
        {
            "nodes": str(each["size"]),
            "interval in ms": f"{each['interval']:g}",
            "errors": significant(each["share"]),
            "± (standard error)": significant(each["error"]),
            "counted": str(each["errors"]),
            "ε_min": significant(each["least"]),
            "ε_max": significant(each["most"]),
            "predicted": significant(each["predicted"]),
            "measured / predicted": significant(each["share"] / each["predicted"]),
            "the formula's": significant(each["documented"]),
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
