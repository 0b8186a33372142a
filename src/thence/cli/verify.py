"""`thence verify`: the verdicts on a trace, as a table or as JSON."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table

from thence.core.errors import TraceError, UsageError
from thence.local.console import working
from thence.pipeline.where import Where
from thence.trace.schema import VERDICTS

if TYPE_CHECKING:
    from thence.pipeline.report import Report

OK, VIOLATIONS, FAILED = 0, 1, 3
WIDTH_PIPED = 160  # where it is unknown how wide the screen is


def verify(
    trace: str,
    open_: bool,
    as_json: bool,
    where: Where,
    findings: Path | None = None,
    tolerant: bool = False,
    page: Path | None = None,
) -> int:
    """Verify a trace, print what was found, and return the exit code."""
    where.check()
    if findings is not None and findings.exists():
        raise UsageError(f"{findings} exists: --findings takes a folder that does not")
    with working("verifying"):
        report = _run(trace, open_, where, findings, tolerant)
    if isinstance(report, str):
        print(f"thence: {' '.join(report.split())}", file=sys.stderr)
        return FAILED
    if not report.runs:
        seen = f"; it has {', '.join(report.kinds)}" if report.kinds else ""
        raise TraceError(f"{trace}: holds nothing to judge (no row of a kind that counts{seen})")
    if page is not None:
        write_page(report, page, trace, open_, f"{' --tolerate-torn' if tolerant else ''}{where.flags}")
    if as_json:
        print(report.to_json())
    else:
        _print(report, open_)
    return OK if report.ok else VIOLATIONS


def write_page(report: "Report", page: Path, trace: str, open_: bool, flags: str = "") -> None:
    """One HTML file, and its figures beside it."""
    from thence.cli.sim import seeds_told
    from thence.pages.charts import save_all
    from thence.pages.verdicts import verdict_page

    command = f"thence verify {trace}{' --open' if open_ else ''}{flags} --page {page}"
    made = verdict_page(report, command, trace, still_open=open_)
    made.seed = seeds_told([run.run for run in report.runs])
    try:
        save_all(made.charts, page.parent)
        page.write_text(made.html(), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {page}: {error.strerror}") from error


def _run(trace: str, open_: bool, where: Where, findings: Path | None, tolerant: bool) -> "Report | str":
    """The report, or why Spark or the machine could not make one."""
    from thence.pipeline import local
    from thence.pipeline.files import is_url, trace_files

    try:
        if not is_url(trace):
            trace_files(Path(trace))  # a wrong path is told before Spark takes its seconds to start
        if where.engine == "local":
            return local.verify(trace, still_open=open_, findings=findings, tolerant=tolerant)
    except (OSError, MemoryError) as error:
        return f"the machine failed: {error or type(error).__name__}"
    from thence.pipeline.session import FAILURES, reason, session
    from thence.pipeline.verify import verify as verify_on_spark

    settings = where.settings()
    try:
        spark = session(where.master, where.remote, settings)
    except UsageError as error:
        return str(error)
    try:
        return verify_on_spark(spark, trace, still_open=open_, findings=findings, tolerant=tolerant)
    except FAILURES as error:
        return f"Spark or the machine failed: {reason(error)}"


def _print(report: "Report", open_: bool) -> None:
    console = Console(width=None if sys.stdout.isatty() else WIDTH_PIPED)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    scopes = any(run.run or run.group for run in report.runs)
    for name in (*(("run", "group") if scopes else ()), "nodes", "sends", "deliveries", "stables", *VERDICTS):
        table.add_column(name, justify="left" if name in ("run", "group") else "right")
    for run in report.runs:
        counts = [run.nodes, run.sends, run.deliveries, run.stables]
        cells = [f"{count:,}" for count in counts] + [_cell(run.violations[name]) for name in VERDICTS]
        table.add_row(*((run.run, run.group) if scopes else ()), *cells)
    console.print(table)
    for run in report.runs:
        where = "".join(f"{part} " for part in (run.run, run.group) if part)
        for verdict in VERDICTS:
            shown = [example for example in run.examples if example["kind"] == verdict]
            for example in shown:
                console.print(where + _sentence(example), highlight=False, markup=False, soft_wrap=True)
            if (more := run.violations[verdict] - len(shown)) and shown:
                console.print(f"{where}{verdict}: … and {more:,} more", highlight=False, markup=False)
    if report.torn:
        console.print(f"torn: {report.torn} (what a killed writer left unfinished was passed over)")
    if open_:
        console.print("lost is reported, not judged: the system is still running")
    console.print("[green]ok[/green]" if report.ok else "[red]violations found[/red]")


def _cell(count: int) -> str:
    return f"[red]{count:,}[/red]" if count else "0"


def _sentence(example: dict[str, Any]) -> str:
    place = example["node"] + (f" at {example['pos']}" if "pos" in example else "")
    rest = {k: v for k, v in example.items() if k not in ("kind", "node", "pos", "message")}
    why = ", ".join(
        f"{key.replace('_', ' ')} {value}" if key != "reason" else value for key, value in rest.items()
    )
    return f"{example['kind']}: {example['message']} at node {place}" + (f" ({why})" if why else "")
