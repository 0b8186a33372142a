"""The page of a verdict: what was judged, what was found, and examples."""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import altair as alt

from thence.pages.charts import COLOURS, Chart, finished
from thence.pages.page import Page, styled, table
from thence.pipeline.report import Report, RunReport
from thence.trace.schema import VERDICTS

MOST_RUNS: Final = 40
"""Bars in a figure; tables have all."""

PLANTED: Final = (
    'A number with a <span class="planted">✓</span> is no failure: these faults were put there for the '
    "verdict to find, and it found them."
)

SAYS = (
    "What happened before what was worked out from the trace alone; the clocks and tags that the protocol "
    "carried were not believed."
)


def verdict_page(report: Report, command: str, trace: str, *, still_open: bool = False) -> Page:
    found = sum(sum(run.violations.values()) for run in report.runs)
    events = sum(run.sends + run.deliveries + run.stables for run in report.runs)
    runs = f"{len(report.runs)} run{'s' if len(report.runs) != 1 else ''}, {events:,} events"
    verdict = f"{runs}: " + ("no violation of any kind." if not found else f"{found:,} violations.")
    if still_open:
        verdict += " The system still ran: what is lost was reported, not judged."
    if report.torn:
        verdict += f" {report.torn} torn last lines were passed over."
    page = Page(f"Verdict on {trace}", SAYS, verdict, report.ok, command)
    page.section("Verdicts", verdicts({_name(run): run for run in report.runs}))
    page.figures("What was judged", _charts(report))
    examples = [(_name(run), example) for run in report.runs for example in run.examples]
    if examples:
        page.section("Examples", _examples(examples))
    return page


def _name(run: RunReport) -> str:
    return " ".join(part for part in (run.run, run.group) if part) or "the run"


def verdicts(
    judged: Mapping[str, RunReport], planted: Mapping[str, Collection[str]] = MappingProxyType({})
) -> str:
    """The table of runs and verdicts. `planted`: by run, the verdicts that are to find something there."""
    rows = [_judged(title, run, planted.get(title, ())) for title, run in judged.items()]
    return styled(rows, "dense") + (f'<p class="lead">{PLANTED}</p>' if planted else "")


def _judged(title: str, run: RunReport, planted: Collection[str]) -> dict[str, tuple[str, str]]:
    counts = {name: (f"{getattr(run, name):,}", "n") for name in ("nodes", "sends", "deliveries", "stables")}
    found = {name: _count(run.violations[name], name in planted) for name in VERDICTS}
    return {"trace": (title, "name"), **counts, **found}


def _count(count: int, planted: bool) -> tuple[str, str]:
    if planted:
        return (f"{count:,} ✓", "n planted") if count else ("0 ✗", "n bad")
    return f"{count:,}", f"n {'bad' if count else 'ok'}"


def _examples(examples: Sequence[tuple[str, dict[str, Any]]]) -> str:
    rows = []
    for run, example in examples:
        rest = {k: v for k, v in example.items() if k not in ("kind", "node", "pos", "message")}
        rows.append(
            {
                "run": run,
                "verdict": str(example["kind"]),
                "node": str(example["node"]),
                "position": str(example.get("pos", "")),
                "message": str(example["message"]),
                "why": ", ".join(_why(key, str(value)) for key, value in rest.items()),
            }
        )
    if len({run for run, _ in examples}) == 1:
        for row in rows:
            del row["run"]
    return table(rows, {"position": "n", "why": "why"})


def _why(key: str, value: str) -> str:
    return value if key == "reason" else f"{key.replace('_', ' ')} {value}"


def _charts(report: Report) -> list[Chart]:
    shown = report.runs[:MOST_RUNS]
    more = f" (the first {MOST_RUNS} runs)" if len(report.runs) > MOST_RUNS else ""
    rows = [
        {"run": _name(run), "kind": kind, "count": getattr(run, kind)}
        for run in shown
        for kind in ("sends", "deliveries", "stables")
    ]
    charts = [_bars(f"Events{more}", "events", rows)]
    found = [
        {"run": _name(run), "kind": verdict, "count": count}
        for run in shown
        for verdict, count in run.violations.items()
        if count
    ]
    return [*charts, _bars(f"Violations{more}", "rows", found)] if found else charts


def _bars(title: str, label: str, rows: list[dict[str, Any]]) -> Chart:
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    colours = [COLOURS[number % len(COLOURS)] for number in range(len(kinds))]
    bars = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_bar()
        .encode(
            x=alt.X("count:Q", title=label, axis=alt.Axis(format=",~s", tickMinStep=1)),
            y=alt.Y("run:N", title=None, sort=None),
            color=alt.Color("kind:N", title=None, scale=alt.Scale(domain=kinds, range=colours)),
            tooltip=["run:N", "kind:N", alt.Tooltip("count:Q", format=",")],
        )
    )
    return finished(title, bars, height=max(60, 18 * len({row["run"] for row in rows})))
