"""What verification says: one object for programs, and the rule for what counts as fine."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from thence.pipeline.findings import EXAMPLES
from thence.pipeline.locate import Suspect
from thence.trace.schema import VERDICTS

UNREADABLE: Final = ("twice", "lives")
"""Findings that are no verdicts: there is nothing to judge then."""


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


class Report(msgspec.Struct, frozen=True, omit_defaults=True):
    """All runs of a trace. `torn` counts last lines, and files, that a killed writer left unfinished; `kinds`
    are those that were passed over where nothing else was found."""

    ok: bool
    torn: int
    runs: list[RunReport]
    kinds: list[str] = []

    def to_json(self) -> str:
        return msgspec.json.encode(self).decode()


def build(found: Iterable[Any], torn: int, kinds: Iterable[str] = (), *, still_open: bool = False) -> Report:
    """The report of settled findings: rows with a run, a group and the fields of a finding."""
    runs: dict[tuple[str, str], list[Any]] = {}
    for row in found:
        runs.setdefault((row["run"], row["group"]), []).append(row)
    reports = [_run_report(run, group, rows) for (run, group), rows in sorted(runs.items())]
    judged = [verdict for verdict in VERDICTS if not (still_open and verdict == "lost")]
    ok = all(report.violations[verdict] == 0 for report in reports for verdict in judged)
    return Report(ok, torn, reports, [] if reports else sorted(set(kinds)))


def suspect(found: Iterable[Any]) -> Suspect | None:
    """The first of what makes the trace unreadable as a whole, if the findings name any."""
    blamed = [
        (row["what"] == "lives", Suspect(row["run"], row["group"], row["node"], row["pos"]))
        for row in found
        if row["what"] in UNREADABLE
    ]
    return min(blamed)[1] if blamed else None


def _run_report(run: str, group: str, rows: list[Any]) -> RunReport:
    totals: dict[str, int] = {"nodes": 0, "sends": 0, "deliveries": 0, "stables": 0}
    violations = dict.fromkeys(VERDICTS, 0)
    examples = []
    for row in rows:
        if row["what"] == "run":
            told = msgspec.json.decode(row["detail"], type=dict[str, int])  # each shard tells of its nodes
            totals = {name: totals[name] + told[name] for name in totals}
        elif row["what"] == "count":
            violations[row["verdict"]] += row["number"]
        elif row["what"] == "example":
            examples.append(row)
    examples.sort(key=_place)
    return RunReport(run, group, **totals, violations=violations, examples=_ten_each(examples))


def _place(row: Any) -> tuple[int, str, int, str, int]:
    """Examples by verdict, then node, position and message: the same ones whichever task found them."""
    origin, _, seq = row["message"].rpartition(":")
    return VERDICTS.index(row["verdict"]), row["node"], row["pos"], origin, int(seq)


def _ten_each(rows: list[Any]) -> list[dict[str, Any]]:
    seen = dict.fromkeys(VERDICTS, 0)
    shown = []
    for row in rows:
        seen[row["verdict"]] += 1
        if seen[row["verdict"]] <= EXAMPLES:
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
