"""What blocks of one run must settle between them, as arrays: there may be millions of such rows.

A row may be marked by several blocks, and a block may take back what another one marked (`cancel`). Rows
and messages have the same numbers in every block, so settling is set arithmetic on row numbers. A mark
carries what its example would say: a message too much, one that is lacking, -1 for neither. A mark for
`program` is about one operation of a row, and taken back only for that: it carries the operation's place and
that of the later one which the node holds, as numbers after all messages.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
import numpy as np

from thence.pipeline.findings import EXAMPLES, Finding, detail
from thence.pipeline.resolve import ResolvedRun
from thence.pipeline.rows import I64
from thence.pipeline.widths import narrow, view, widen

Packed = tuple[str, memoryview]


class _MarkSheet(msgspec.Struct, array_like=True, frozen=True):
    """Marks of one verdict from one block. `dots` are what it speaks of, by number, name and counter."""

    verdict: str
    cancel: bool
    names: list[str]
    dots: Packed
    dot_name: Packed
    dot_seq: Packed
    row: Packed
    node: Packed
    pos: Packed
    dot: Packed
    extra: Packed  # shifted by one: 0 is none
    lacking: Packed


class _Marks(NamedTuple):
    row: I64
    node: I64
    pos: I64
    dot: I64
    extra: I64
    lacking: I64


def mark(
    run: ResolvedRun, at: I64, verdict: str, rows: I64, extra: I64, lacking: I64, *, cancel: bool = False
) -> Finding:
    """A finding that carries these marks. `at`: the operations by place."""
    table, facts = run.table, run.facts
    dot = widen(facts.dot[rows])
    spoken = np.zeros(len(facts.dot_seq) + len(at) + 1, bool)  # the last place stands for -1: none
    for numbers in (dot, extra, lacking):
        spoken[numbers] = True
    spoken_of = np.flatnonzero(spoken[:-1])
    dots = np.concatenate([np.arange(len(facts.dot_seq)), at])[spoken_of]
    owner = table.nodes[np.searchsorted(table.node_start, rows, side="right") - 1]
    sheet = _MarkSheet(
        verdict, cancel, table.names,
        narrow(spoken_of), narrow(facts.dot_name[dots]), narrow(facts.dot_seq[dots]),
        narrow(rows), narrow(owner), narrow(table.pos[rows]), narrow(dot),
        narrow(extra + 1), narrow(lacking + 1),
    )  # fmt: skip
    return Finding("marks", payload=msgspec.msgpack.encode(sheet))


def settle(payloads: Iterable[Any], limit: int | None = EXAMPLES) -> Iterator[Finding]:
    """Counts and examples of one run's marks, from all its blocks; `limit`: how many, None: all."""
    sheets = [msgspec.msgpack.decode(payload, type=_MarkSheet) for payload in payloads]
    label: dict[int, str] = {}
    for verdict in sorted({sheet.verdict for sheet in sheets}):
        mine = [sheet for sheet in sheets if sheet.verdict == verdict]
        marks = _joined([sheet for sheet in mine if not sheet.cancel])
        gone = _joined([sheet for sheet in mine if sheet.cancel])
        keep = ~np.isin(_about(verdict, marks), _about(verdict, gone))
        marks = _Marks(*(column[keep] for column in marks))
        order = np.argsort(marks.row, kind="stable")
        starts = np.unique(marks.row[order], return_index=True)[1]
        if not len(starts):
            continue
        yield Finding("count", verdict, number=len(starts))
        for sheet in mine:
            label |= _labels(sheet)
        for at in np.split(order, starts[1:])[:limit]:
            yield _example(mine[0].names, verdict, marks, at, label)


def _about(verdict: str, marks: _Marks) -> I64:
    """What a mark is about and may be taken back for: a row, or one operation of it."""
    return (marks.row << 32) + marks.extra if verdict == "program" else marks.row


def _joined(sheets: list[_MarkSheet]) -> _Marks:
    columns = [
        [widen(view(getattr(sheet, name))) for sheet in sheets] or [np.zeros(0, np.int64)]
        for name in _Marks._fields
    ]
    return _Marks(*(np.concatenate(parts) for parts in columns))


def _labels(sheet: _MarkSheet) -> dict[int, str]:
    parts = (view(part).tolist() for part in (sheet.dots, sheet.dot_name, sheet.dot_seq))
    return {dot: f"{sheet.names[name]}:{seq}" for dot, name, seq in zip(*parts, strict=True)}


def _example(names: list[str], verdict: str, marks: _Marks, at: I64, label: dict[int, str]) -> Finding:
    """One row's example; blocks may lack different messages, the smallest is shown. Of operations it is the
    first that comes too late, with the last that the node holds."""
    first = int(at[0])
    if verdict == "program":
        at = at[marks.extra[at] == marks.extra[at].min()]
        extra, lacking = int(marks.extra[at[0]]) - 1, int(marks.lacking[at].max()) - 1
    else:
        extra, lacking = _smallest(marks.extra[at]), _smallest(marks.lacking[at])
    why = explain(verdict, extra, lacking, label)
    message = label[int(marks.dot[first])]
    node = names[int(marks.node[first])]
    return Finding("example", verdict, node, int(marks.pos[first]), message, detail=why)


def _smallest(told: I64) -> int:
    told = told[told > 0]
    return int(told.min()) - 1 if len(told) else -1


def explain(verdict: str, extra: int, lacking: int, label: Any) -> str:
    """What is wrong with an order, a program or a tag; `label` tells a message's name from its number."""
    if verdict == "order" and lacking < 0:
        return detail(reason="waits in a circle")
    if verdict == "program":
        return detail(operation=label[extra], held=label[lacking])
    told = {"extra": extra, "missing": lacking}
    return detail(**{name: label[dot] for name, dot in told.items() if dot >= 0})
