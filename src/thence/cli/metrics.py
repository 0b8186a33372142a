"""`thence metrics`: what a trace tells of latency, stability, memory, membership; a table, JSON, a page."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table

from thence.cli.verify import FAILED, OK, WIDTH_PIPED
from thence.core.errors import TraceError, UsageError
from thence.local.console import working
from thence.pages.text import duration, number
from thence.pipeline.where import Where

if TYPE_CHECKING:
    from thence.pipeline.metrics.measured import RunMetrics, Tables

NAMES = {
    "delivery": "send to delivery",
    "broadcast": "send to last delivery",
    "held": "held for causes",
    "stability": "send to stable",
}
COUNTED = ("nodes", "sends", "deliveries", "stables", "holds", "duplicates")
MOST_LINES = 8


def metrics(trace: str, as_json: bool, where: Where, out: Path | None) -> int:
    """Measure a trace, print and write what was found, and return the exit code."""
    settings = where.settings()
    with working("measuring"):
        found = _run(trace, where, settings)
    if isinstance(found, str):
        print(f"thence: {' '.join(found.split())}", file=sys.stderr)
        return FAILED
    report = found.report
    if not report.runs:
        raise TraceError(f"{trace}: holds nothing to measure (no row of a kind that metrics use)")
    if out is not None:
        _write(found, out, trace, where.flags)
    if as_json:
        print(report.to_json())
        return OK
    console = Console(width=None if sys.stdout.isatty() else WIDTH_PIPED, highlight=False)
    for run in report.runs:
        _print(console, run)
    if report.torn:
        console.print(f"torn: {report.torn} (a last line without its newline was passed over)")
    if out is not None:
        console.print(f"{out / 'index.html'}")
    return OK


def _run(trace: str, where: Where, settings: Mapping[str, str]) -> "Tables | str":
    """What was measured, or why Spark or the machine could not do it."""
    from thence.pipeline.files import is_url, trace_files
    from thence.pipeline.metrics.measured import measure
    from thence.pipeline.session import FAILURES, reason, session

    try:
        if not is_url(trace):
            trace_files(Path(trace))  # a wrong path is told before Spark takes its seconds to start
    except OSError as error:
        return f"the machine failed: {error}"
    try:
        spark = session(where.master, where.remote, settings)
    except UsageError as error:
        return str(error)
    try:
        return measure(spark, trace)
    except FAILURES as error:
        return f"Spark or the machine failed: {reason(error)}"


def _write(found: "Tables", out: Path, trace: str, flags: str) -> None:
    """Every table as Parquet, figures as PNG and SVG, and the page."""
    import pyarrow.parquet as pq

    from thence.cli.sim import seeds_told
    from thence.pages.charts import save_all
    from thence.pages.measured import metrics_page

    command = f"thence metrics {trace}{flags} --out {out}"
    rows = {name: table.to_pylist() for name, table in found.tables.items()}
    page = metrics_page(found.report, rows, command, trace)
    page.seed = seeds_told([run.run for run in found.report.runs])
    try:
        (out / "tables").mkdir(parents=True, exist_ok=True)
        for name, table in found.tables.items():
            pq.write_table(table, out / "tables" / f"{name}.parquet")
        save_all(page.charts, out)
        (out / "index.html").write_text(page.html(), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write to {out}: {error.strerror}") from error


def _print(console: Console, run: "RunMetrics") -> None:
    where = " ".join(part for part in (run.run, run.group) if part)
    seconds = (
        (run.until_us - run.from_us) / 1e6 if run.from_us is not None and run.until_us is not None else 0
    )
    counts = ", ".join(f"{getattr(run, kind):,} {kind}" for kind in COUNTED)
    console.print(f"{where + ': ' if where else ''}{counts}, {seconds:,.1f} s")
    if run.distributions:
        console.print(_distributions(run))
    for line in _lines(run):
        console.print(f"  {line}", markup=False)
    for metric, why in run.left_out.items():
        console.print(f"  {metric}: not told ({why})", markup=False, style="dim")


def _distributions(run: "RunMetrics") -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for name in ("", "count", "mean", "p50", "p90", "p99", "max"):
        table.add_column(name, justify="right" if name else "left")
    for measure, found in run.distributions.items():
        show = duration if measure in NAMES else number
        values = (found.mean, found.p50, found.p90, found.p99, found.max)
        name = NAMES.get(measure, "entries of a context")
        table.add_row(name, f"{found.count:,}", *[show(value) for value in values])
    return table


def _lines(run: "RunMetrics") -> list[str]:
    lines = []
    for name, level in run.levels.items():
        lines.append(
            f"{name}: {number(level['mean'])} in the mean, at most {number(level['max'])} "
            f"({level['samples']:,} samples of {level['nodes']} nodes)"
        )
    lines += [f"{name}: {value:,}" for name, value in run.totals.items()]
    if run.bytes_per_delivery is not None:
        metadata = run.metadata_per_delivery
        more = f", of which metadata and repetitions {metadata:,.1f}" if metadata is not None else ""
        lines.append(f"bytes sent per delivery: {run.bytes_per_delivery:,.1f}{more}")
    if run.synchronisations is not None:
        lines.append(_synchronisations(run.synchronisations))
    if run.stabilisation:
        lines.append(_stabilisation(run.stabilisation))
    lines += _some([_change(row) for row in run.changes])
    lines += [
        f"evicted {row['member']}: at {row['survivors']} nodes within {duration(row['took_us'])}"
        for row in run.evictions
    ]
    lines += _some(
        [
            f"{row['node']} caught up after its {row['change']}: {row['late_deliveries']:,} messages from "
            f"before, the last after {duration(row['took_us'])}"
            for row in run.catch_up
            if row["late_deliveries"]
        ]
    )
    heals = [
        f"heal: {row['late_deliveries']:,} late deliveries, the last after {duration(row['took_us'])}"
        for row in run.convergence
    ]
    lines += _some(heals)
    lines += [f"left out: {count:,} ({why})" for why, count in run.doubts.items()]
    return lines


def _some(lines: list[str]) -> list[str]:
    return (
        lines if len(lines) <= MOST_LINES else [*lines[:MOST_LINES], f"… and {len(lines) - MOST_LINES} more"]
    )


def _synchronisations(row: dict[str, Any]) -> str:
    took = f", {duration(row['mean'])} in the mean, at most {duration(row['max'])}" if row["over"] else ""
    return f"synchronisations: {row['count']:,}, {row['over']:,} of them over{took}"


def _stabilisation(rows: list[dict[str, Any]]) -> str:
    healed = sorted(row["healed_us"] for row in rows if row["healed_us"] is not None)
    settled = sorted(row["settled_us"] for row in rows if row["settled_us"] is not None)
    told = f"tree: nodes came or went at {len(rows):,} moments"
    if healed:
        told += f"; one tree again after {duration(healed[len(healed) // 2])} in the median"
        told += f", {duration(healed[-1])} at most"
    if settled:
        told += f"; no change after {duration(settled[-1])}"
    if len(healed) < len(rows):
        told += f"; not one before the next such moment, or the end: {len(rows) - len(healed):,} times"
    return told


def _change(row: dict[str, Any]) -> str:
    until = "stable message" if row["change"] == "evict" else "delivery"
    about = f" of {row['about']}" if row["about"] else ""
    shown = (
        f"next {until} after {duration(row['took_us'])}"
        if row["took_us"] is not None
        else f"no {until} since"
    )
    return f"{row['change']}{about} at {row['node']}: {shown}"
