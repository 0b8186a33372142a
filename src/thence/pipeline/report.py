"""What verification says: one object for programs, and the rule for what counts as fine."""

from typing import Any

import msgspec

from thence.trace.schema import VERDICTS


class RunReport(msgspec.Struct, frozen=True):
    """One run and group."""

    run: str
    group: str
    nodes: int
    sends: int
    deliveries: int
    stables: int
    violations: dict[str, int]
    examples: list[dict[str, Any]]


class Report(msgspec.Struct, frozen=True):
    """All runs of a trace. `torn` counts last lines that a killed writer left unfinished."""

    ok: bool
    torn: int
    runs: list[RunReport]

    def to_json(self) -> str:
        return msgspec.json.encode(self).decode()


def build(found: list[Any], torn: int, *, still_open: bool = False) -> Report:
    """The report of settled findings: rows with a run, a group and the fields of a finding."""
    runs: dict[tuple[str, str], list[Any]] = {}
    for row in found:
        runs.setdefault((row["run"], row["group"]), []).append(row)
    reports = [_run_report(run, group, rows) for (run, group), rows in sorted(runs.items())]
    judged = [verdict for verdict in VERDICTS if not (still_open and verdict == "lost")]
    ok = all(report.violations[verdict] == 0 for report in reports for verdict in judged)
    return Report(ok, torn, reports)


def _run_report(run: str, group: str, rows: list[Any]) -> RunReport:
    totals: dict[str, int] = {"nodes": 0, "sends": 0, "deliveries": 0, "stables": 0}
    violations = dict.fromkeys(VERDICTS, 0)
    examples = []
    for row in rows:
        if row["what"] == "run":
            totals = msgspec.json.decode(row["detail"])
        elif row["what"] == "count":
            violations[row["verdict"]] += row["number"]
        elif row["what"] == "example":
            examples.append(row)
    examples.sort(key=_place)
    return RunReport(run, group, **totals, violations=violations, examples=_ten_each(examples))


def _place(row: Any) -> tuple[int, str, int, str, int]:
    """Examples by verdict, then node, position and message: the same ones whoever found them."""
    origin, _, seq = row["message"].rpartition(":")
    return VERDICTS.index(row["verdict"]), row["node"], row["pos"], origin, int(seq)


def _ten_each(rows: list[Any]) -> list[dict[str, Any]]:
    seen = dict.fromkeys(VERDICTS, 0)
    shown = []
    for row in rows:
        seen[row["verdict"]] += 1
        if seen[row["verdict"]] <= 10:
            shown.append(_example(row))
    return shown


def _example(row: Any) -> dict[str, Any]:
    example: dict[str, Any] = {"kind": row["verdict"], "node": row["node"]}
    if row["pos"] >= 0:
        example["pos"] = row["pos"]
    example["message"] = row["message"]
    if row["detail"]:
        example |= msgspec.json.decode(row["detail"])
    return example
