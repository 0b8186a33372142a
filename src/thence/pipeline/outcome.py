"""What the passes over one run, or one block of its columns, have found: counts, examples, and what other
parts of the run have to settle with it.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import numpy as np

from thence.pipeline import lost, marks, pasts, program, single
from thence.pipeline.causality import DUPLICATE, NOT_HELD, Pasts
from thence.pipeline.columns import Block, Columns
from thence.pipeline.findings import EXAMPLES, Finding, Totals, detail
from thence.pipeline.pasts import OVERTAKEN
from thence.pipeline.resolve import ResolvedRun
from thence.pipeline.rows import CRASH, DELIVER, I32, I64, LEAVE, SEND, STABLE, U8
from thence.pipeline.shards import Shard
from thence.pipeline.single import GAP, UNSENT


class JudgedBlock(NamedTuple):
    """A block of a run after all passes."""

    run: ResolvedRun
    operations: program.ProgramOrder
    columns: Columns
    block: Block
    found: Pasts
    flags: U8
    late: tuple[I64, I64]
    overtaken: I64  # row, operation, place of the last one held (0: it is held itself)
    tags: tuple[I64, I64, I64]
    changed: int  # messages whose pasts turned out to be other than what was known of them
    lineage: I32 | None
    part: "Part"


class Part(NamedTuple):
    """Which part of a run is judged: a block of its columns, and of its nodes a shard, or all."""

    block: int = 0
    blocks: int = 1
    limit: int | None = EXAMPLES  # how many of a verdict are told; None: all
    shard: Shard | None = None


def tell(judged: JudgedBlock) -> Iterator[Finding]:
    """Everything that was found."""
    if judged.part.block == 0:
        kind = judged.run.table.kind
        totals = Totals(
            len(judged.run.table.nodes), *(int((kind == k).sum()) for k in (SEND, DELIVER, STABLE))
        )
        yield Finding("run", detail=msgspec.json.encode(totals).decode())
        yield from _unsent(judged)
        gaps = np.flatnonzero(judged.flags & GAP)
        yield from _rows(judged, "gap", gaps, _WhyGap(judged) if len(gaps) else None)
    duplicates = np.flatnonzero(judged.flags & DUPLICATE)
    yield from _rows(judged, "duplicate", duplicates, _WhyDuplicate(judged, duplicates[: judged.part.limit]))
    unstable = np.flatnonzero(judged.flags & (NOT_HELD | OVERTAKEN))
    yield from _rows(judged, "unstable", unstable, _why_unstable)
    yield from _lost(judged)
    yield from _order(judged, duplicates)
    yield from _program(judged)
    yield from _tag(judged)


def _row(judged: JudgedBlock, verdict: str, row: int, text: str) -> Finding:
    run = judged.run
    name = run.node_name(run.node_of(row))
    message = run.label(int(run.facts.dot[row]))
    return Finding("example", verdict, name, int(run.table.pos[row]), message, detail=text)


def _rows(judged: JudgedBlock, verdict: str, rows: I64, why: Any) -> Iterator[Finding]:
    if len(rows):
        yield Finding("count", verdict, number=len(rows))
        for row in rows[: judged.part.limit].tolist():
            yield _row(judged, verdict, row, why(judged, row))


class _WhyDuplicate:
    """Where the node got the message first: its first send or delivery, else a state."""

    def __init__(self, judged: JudgedBlock, rows: I64) -> None:
        facts = judged.run.facts
        self._first: dict[tuple[int, int], int] = {}
        if not len(rows):
            return
        asked = np.zeros(len(facts.dot_seq), bool)
        asked[facts.dot[rows]] = True
        got = np.flatnonzero((facts.kind == SEND) | (facts.kind == DELIVER))
        got = got[asked[facts.dot[got]]]
        node = np.searchsorted(facts.node_start, got, side="right") - 1
        for row, holder, dot in zip(got.tolist(), node.tolist(), facts.dot[got].tolist(), strict=True):
            self._first.setdefault((holder, dot), row)

    def __call__(self, judged: JudgedBlock, row: int) -> str:
        first = self._first[judged.run.node_of(row), int(judged.run.facts.dot[row])]
        if first == row:
            return detail(reason="it came with a state")
        return detail(first_pos=int(judged.run.table.pos[first]))


class _WhyGap:
    """What is wrong with a counter."""

    def __init__(self, judged: JudgedBlock) -> None:
        self._sends = np.flatnonzero(judged.run.facts.kind == SEND)

    def __call__(self, judged: JudgedBlock, row: int) -> str:
        run, facts = judged.run, judged.run.facts
        dot, node = int(facts.dot[row]), run.node_of(row)
        if facts.dot_node[dot] != node:
            return detail(reason="the origin is another node")
        if facts.def_row[dot] != row:
            first = int(facts.def_row[dot])
            here = (run.node_name(run.node_of(first)), int(run.table.pos[first]))
            place = here if first >= 0 else run.elsewhere[dot]
            return detail(reason="sent before", first_node=place[0], first_pos=place[1])
        before = int(np.searchsorted(self._sends, row)) - 1
        last = int(facts.seq_before[node])
        if before >= 0 and self._sends[before] >= facts.node_start[node]:
            last = int(facts.dot_seq[facts.dot[self._sends[before]]])
        return detail(reason="a counter was left out", expected=last + 1)


def _why_unsent(judged: JudgedBlock, row: int) -> str:
    facts, node = judged.run.facts, judged.run.node_of(row)
    dot = int(facts.dot[row])
    if dot >= facts.sent:
        return detail(reason="no send row")
    evicted = facts.evict_name[facts.evict_start[node] : facts.evict_start[node + 1]]
    inside = single.subscribed(facts)
    if (evicted == facts.dot_name[dot]).any() and single.is_for(facts, inside, dot, node):
        return detail(reason="void here: its sender was evicted")
    return detail(reason="not addressed to the node")


def _unsent(judged: JudgedBlock) -> Iterator[Finding]:
    rows = np.flatnonzero(judged.flags & UNSENT)
    entries = judged.run.front_unsent
    if len(rows) + len(entries):
        yield Finding("count", "unsent", number=len(rows) + len(entries))
    for row in rows[: judged.part.limit].tolist():
        yield _row(judged, "unsent", row, _why_unsent(judged, row))
    for row, dot in sorted(entries)[: judged.part.limit]:
        run = judged.run
        name, message = run.node_name(run.node_of(row)), run.label(dot)
        text = detail(reason="a frontier names it, but it has no send row")
        yield Finding("example", "unsent", name, int(run.table.pos[row]), message, detail=text)


def _why_unstable(judged: JudgedBlock, row: int) -> str:
    if judged.flags[row] & NOT_HELD:
        return detail(reason="the node does not hold it")
    run, facts = judged.run, judged.run.facts
    end = int(facts.node_start[run.node_of(row) + 1])
    later = pasts.overtaken_by(facts, judged.columns, judged.block, judged.found, judged.flags, row, end)
    return detail(
        reason="a later delivery does not have it in its past",
        later=run.label(int(facts.dot[later])), later_pos=int(run.table.pos[later]),
    )  # fmt: skip


def _lost(judged: JudgedBlock) -> Iterator[Finding]:
    run, facts, held = judged.run, judged.run.facts, judged.found.held
    nodes = len(held)
    down = (facts.kind[facts.node_start[1:] - 1] == CRASH).astype(np.uint8)
    left = np.zeros(nodes, np.uint8)
    left[[run.node_of(row) for row in np.flatnonzero(facts.kind == LEAVE).tolist()]] = 1
    if judged.part.shard is not None:
        yield lost.tell(run, held, judged.block.owned, down, left)
        return
    mine = np.flatnonzero(judged.block.owned)
    holders = single.count_holders(facts, held, down, mine)
    inside, apart, some = single.subscribed(facts), _apart(run), single.concerned(facts, mine)

    def find(examples: I64) -> int:
        return single.find_lost(facts, inside, held, holders, some, down, left, apart, examples)

    examples = np.empty((EXAMPLES if judged.part.limit is None else judged.part.limit, 3), np.int64)
    count = find(examples)
    if judged.part.limit is None and count > len(examples):
        examples = np.empty((count, 3), np.int64)
        find(examples)
    if count:
        yield Finding("count", "lost", number=count)
    for node, dot, holder in examples[:count].tolist():
        text = detail(held_by=run.node_name(holder))
        yield Finding("example", "lost", run.node_name(node), -1, run.label(dot), detail=text)


def _apart(run: ResolvedRun) -> U8:
    """Which nodes need not hear from each other, since one has evicted the other; empty if there are none."""
    facts, nodes = run.facts, len(run.table.nodes)
    if not len(facts.evict_name):
        return np.zeros((0, 0), np.uint8)
    apart = np.zeros((nodes, nodes), np.uint8)
    node_of = {int(name): node for node, name in enumerate(run.table.nodes)}
    for node in range(nodes):
        for name in facts.evict_name[facts.evict_start[node] : facts.evict_start[node + 1]].tolist():
            if name in node_of:
                apart[node, node_of[name]] = apart[node_of[name], node] = 1
    return apart


def _order(judged: JudgedBlock, duplicates: I64) -> Iterator[Finding]:
    rows, missing = judged.late
    order = np.argsort(rows)
    yield from _flagged(judged, "order", rows[order], np.full(len(rows), -1, np.int64), missing[order])
    if judged.part.blocks > 1 and len(duplicates):
        owner = np.searchsorted(judged.run.table.node_start, duplicates, side="right") - 1
        yield from _taken_back(judged, "order", duplicates[duplicates > judged.found.stateful[owner]])


def _program(judged: JudgedBlock) -> Iterator[Finding]:
    """ProgramOrder as numbers after all messages, by their places."""
    row, operation, top = judged.overtaken.T
    base = len(judged.run.facts.dot_seq)
    extra, held = base + judged.operations.place[operation].astype(np.int64), base + top
    late = top > 0
    if judged.part.blocks > 1:
        yield from _flagged(judged, "program", row[late], extra[late], held[late])
        yield from _taken_back(judged, "program", row[~late], extra[~late])
        return
    order = np.lexsort((extra, row))
    first = order[np.unique(row[order], return_index=True)[1]]
    yield from _flagged(judged, "program", row[first], extra[first], held[first])


def _tag(judged: JudgedBlock) -> Iterator[Finding]:
    rows, extra, lacking = judged.tags
    unclear = (extra < 0) & (lacking < 0)
    yield from _flagged(judged, "tag", rows[~unclear], extra[~unclear], lacking[~unclear])
    if judged.part.blocks > 1:
        yield from _taken_back(judged, "tag", rows[unclear])


def _flagged(judged: JudgedBlock, verdict: str, rows: I64, extra: I64, lacking: I64) -> Iterator[Finding]:
    """Counted here if this block sees the whole run, else left to be settled between the blocks."""
    if judged.part.blocks > 1 and len(rows):
        yield marks.mark(judged.run, judged.operations.at, verdict, rows, extra, lacking)
    elif len(rows):
        yield Finding("count", verdict, number=len(rows))
        label = _Label(judged)
        for row, too_much, too_little in zip(
            rows[: judged.part.limit].tolist(), extra, lacking, strict=False
        ):
            yield _row(judged, verdict, row, marks.explain(verdict, too_much, too_little, label))


def _taken_back(judged: JudgedBlock, verdict: str, rows: I64, extra: I64 | None = None) -> Iterator[Finding]:
    if len(rows):
        none = np.full(len(rows), -1, np.int64)
        extra = none if extra is None else extra
        yield marks.mark(judged.run, judged.operations.at, verdict, rows, extra, none, cancel=True)


class _Label:
    """Names of messages, and of the operations numbered after them, made when asked for."""

    def __init__(self, judged: JudgedBlock) -> None:
        self._run, self._at = judged.run, judged.operations.at

    def __getitem__(self, number: int) -> str:
        place = number - len(self._run.facts.dot_seq)
        return self._run.label(number if place < 0 else int(self._at[place]))
