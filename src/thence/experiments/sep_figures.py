"""Charts and tables of the causal separators document's experiments."""

from typing import Any, Final

import altair as alt

from thence.experiments.sep import (
    DOCUMENT,
    FIGURES,
    LANS,
    LEVELS,
    NO_R9,
    PLACES,
    SMALL,
    TABLE,
    TOPOLOGY,
    counted,
)
from thence.pages.charts import COLOURS, Chart, finished
from thence.pages.page import table
from thence.pages.text import significant
from thence.sim.stamps import mean, quantile

Result = dict[str, Any]
PALETTE: Final = alt.Scale(range=list(COLOURS))
DASHES: Final = alt.Scale(domain=[*PLACES], range=[[1, 0], [7, 4], [2, 3], [7, 2, 2, 2]])
"""Lines may lie on each other: through the gaps of one the other shows."""
MEASURES: Final = alt.Scale(domain=["mean", "p99"], range=[[1, 0], [5, 4]])
FEW_TICKS: Final = alt.Axis(values=[1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000])
TWO_LINES: Final = "split(replace(datum.label, 'R9 ', 'R9|'), '|')"
"""Labels of places, which a phone has no room for beside each other."""
RULES: Final = {"1-9": "R1–9", "1-10": "R1–10", "1-11": "R1–11"}


def draw(experiment: str, results: list[Result]) -> list[Chart]:
    if experiment == TABLE:
        return [_bars(results, size) for size in TOPOLOGY]
    if experiment == FIGURES:
        few, more = (
            [result for result in results if result["topology"] == topology] for topology in TOPOLOGY.values()
        )
        return [
            *[
                _histogram(f"History sizes at {process}", few, f"history {process}")
                for process in ("p3", "d2", "d3")
            ],
            _histogram("Timestamp sizes, 6 processes", few, "stamps"),
            _histogram("Timestamp sizes, 10 processes", more, "stamps"),
        ]
    if experiment == SMALL:
        chosen = [result for result in results if result["rules"] == "1-10"]
        return [_histogram("Timestamp sizes in G1", chosen, "zone small")]
    if experiment == LANS:
        chosen = [result for result in results if result["rules"] == "1-10"]
        return [
            _histogram("Timestamp sizes in G1", chosen, "zone lan1"),
            _histogram("History sizes at p1", chosen, "history a1"),
        ]
    return [
        _sizes("Entries of a timestamp", results, "entries", "entries"),
        _sizes("Bytes of a timestamp", results, "bytes", "bytes"),
    ]


def _bars(results: list[Result], size: int) -> Chart:
    chosen = [
        result for result in results if result["topology"] == TOPOLOGY[size] and result["delay_ms"] == 50.0
    ]
    rows = [
        {"where": result["where"], "which": RULES[result["rules"]], "entries": result["entries"]}
        for result in chosen
    ]
    rows += [
        {"where": where, "which": "the document", "entries": DOCUMENT[size, where]}
        for where in PLACES
        if (size, where) in DOCUMENT
    ]
    bars = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_bar()
        .encode(
            x=alt.X("where:N", sort=[*PLACES], title=None, axis=alt.Axis(labelAngle=0, labelExpr=TWO_LINES)),
            xOffset=alt.XOffset("which:N", sort=["the document", *RULES.values()]),
            y=alt.Y("entries:Q", title="entries of a timestamp"),
            color=alt.Color("which:N", sort=["the document", *RULES.values()], title=None, scale=PALETTE),
            tooltip=["where:N", "which:N", alt.Tooltip("entries:Q", format=".3~r")],
        )
    )
    return finished(f"Average timestamps, {size} processes", bars, width=520)


def _histogram(title: str, results: list[Result], what: str) -> Chart:
    rows = []
    for result in results:
        counts = counted(result, what)
        total = counts.total() or 1
        last = quantile(counts, 0.995)
        rows += [
            {"size": size, "share": counts[size] / total, "which": result["where"]}
            for size in range(last + 2)  # the line comes down again
        ]
    line = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(strokeWidth=2, interpolate="step")
        .encode(
            x=alt.X("size:Q", title="entries"),
            y=alt.Y("share:Q", title="share", axis=alt.Axis(format="%")),
            color=alt.Color("which:N", sort=[*PLACES], title=None, scale=PALETTE),
            strokeDash=alt.StrokeDash("which:N", scale=DASHES, legend=None),
            tooltip=["which:N", "size:Q", alt.Tooltip("share:Q", format=".2%")],
        )
    )
    return finished(title, line)


def _sizes(title: str, results: list[Result], what: str, unit: str) -> Chart:
    rows = [
        {
            "processes": result["processes"],
            "which": _family(result),
            "measure": measure,
            "size": result[key],
            "topology": result["topology"],
        }
        for result in results
        if result["rules"] == "1-11" and result["where"] != NO_R9
        for measure, key in (("mean", what), ("p99", f"{what}_p99"))
    ]
    log, told = alt.Scale(type="log"), f"{unit}: mean, and p99 (dashed)"
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("processes:Q", scale=log, title="processes", axis=FEW_TICKS),
        y=alt.Y("size:Q", scale=log, title=told, axis=FEW_TICKS),
        color=alt.Color("which:N", title=None, scale=PALETTE),
        strokeDash=alt.StrokeDash("measure:N", scale=MEASURES, legend=None),
        tooltip=["topology:N", "which:N", "measure:N", "processes:Q", alt.Tooltip("size:Q", format=".3~r")],
    )
    return finished(title, base.mark_line(strokeWidth=2), base.mark_point(filled=True, size=30), width=520)


def _family(result: Result) -> str:
    topology = result["topology"]
    if topology.startswith("4x4x"):
        return "departments grow"
    if topology.startswith("100x"):
        return "backbone grows"
    return "bounded"


def beside(experiment: str, results: list[Result]) -> tuple[str, list[dict[str, str]]]:
    if experiment == TABLE:
        rows = _table(results)
    elif experiment == LEVELS:
        rows = [_level(result) for result in results]
    else:
        rows = _local(experiment, results)
    classes = dict.fromkeys(rows[0] if rows else (), "n")
    return table(
        rows, {**classes, "where": "name", "what": "name", "topology": "name", "delays": "name"}
    ), rows


def _table(results: list[Result]) -> list[dict[str, str]]:
    rows = []
    for size, topology in TOPOLOGY.items():
        for where in PLACES:
            row = {"processes": str(size), "where": where}
            said = DOCUMENT.get((size, where))
            row["the document"] = "–" if said is None else f"{said:.2f}"
            for rules, name in RULES.items():
                ours = _find(results, topology, rules, where)
                row[name] = "" if ours is None else f"{ours['entries']:.2f}"
                if rules == "1-10":
                    delays = [_find(results, topology, rules, where, delay) for delay in (10.0, 200.0)]
                    told = [f"{each['entries']:.2f}" for each in delays if each is not None]
                    row["R1–10 at 10 and 200 ms"] = ", ".join(told) or "–"
                if rules == "1-11":
                    row["history, R1–11"] = "" if ours is None else f"{ours['history']:.1f}"
                    row["bytes, R1–11"] = "" if ours is None else f"{ours['bytes']:.1f}"
            rows.append(row)
    return rows


def _find(results: list[Result], topology: str, rules: str, where: str, delay: float = 50.0) -> Result | None:
    wanted = topology, rules, where, delay
    for result in results:
        if (result["topology"], result["rules"], result["where"], result["delay_ms"]) == wanted:
            return result
    return None


def _level(result: Result) -> dict[str, str]:
    shown = {
        "topology": result["topology"],
        "processes": f"{result['processes']:,}",
        "rules": RULES[result["rules"]] if result["where"] != NO_R9 else "no R9",
        "hops": f"{result['hops']:,}",
        "entries": f"{result['entries']:.2f}",
        "p50": str(result["entries_p50"]),
        "p99": str(result["entries_p99"]),
        "bytes": f"{result['bytes']:.1f}",
        "bytes, p50": str(result["bytes_p50"]),
        "bytes, p99": str(result["bytes_p99"]),
    }
    found = [counted(result, f"level {level}") for level in range(4)]
    shown["by level"] = ", ".join(f"{mean(each):.1f}" for each in found if each)
    shown["history"] = f"{result['history']:.1f}"
    return shown


SAID: Final = {
    (SMALL, NO_R9, "zone small"): "32",
    (SMALL, "R9 everywhere", "zone small"): "below 5",
}


def _local(experiment: str, results: list[Result]) -> list[dict[str, str]]:
    kinds = {
        SMALL: ("zone small", "history s1"),
        LANS: ("zone lan1", "history a1"),
        FIGURES: ("stamps", "history p3", "history d2", "history d3"),
    }[experiment]
    return [
        {
            "what": what.replace("zone small", "timestamps in G1").replace("zone lan1", "timestamps in G1"),
            "where": result["where"],
            "rules": RULES[result["rules"]],
            "topology": result["topology"],
            "the document": SAID.get((experiment, result["where"], what), "–"),
            "ours": significant(mean(counted(result, what))),
            "p50": str(quantile(counted(result, what), 0.5)),
            "p99": str(quantile(counted(result, what), 0.99)),
        }
        for result in results
        for what in kinds
    ]
