"""One run, or one block of its columns, from packed pieces to findings.

A run judged in several blocks cannot count `order`, `program` and `tag` in one place: a row may be flagged by
several blocks; whether a delivery is a duplicate is known only to the block of its message once a state was
installed; and whether a past can be worked out, only to all blocks together. There flagged rows become
marks, and rows that another block must not flag become marks that take back.

A run judged in shards (`shards`) is judged as often as pasts still grow: only what is found when all shards
say that none did holds.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from thence.pipeline import causality, columns, lost, marks, pasts, program, shards, single
from thence.pipeline.assemble import Twice, TwoLives, assemble
from thence.pipeline.causality import BROKEN, DUPLICATE, NOT_HELD, Pasts
from thence.pipeline.columns import Block, Columns
from thence.pipeline.findings import EXAMPLES, Finding, Totals, detail
from thence.pipeline.pasts import OVERTAKEN
from thence.pipeline.resolve import Run, resolve
from thence.pipeline.rows import CRASH, DELIVER, I64, LEAVE, SEND, STABLE, U8
from thence.pipeline.schedule import schedule
from thence.pipeline.shards import Payload, Shard
from thence.pipeline.single import GAP, UNSENT


class Judged(NamedTuple):
    """A block of a run after all passes."""

    run: Run
    operations: program.ProgramOrder
    columns: Columns
    block: Block
    found: Pasts
    flags: U8
    late: tuple[I64, I64]
    overtaken: I64  # row, operation, place of the last one held (0: it is held itself)
    tags: tuple[I64, I64, I64]
    changed: int  # messages whose pasts turned out to be other than what was known of them
    part: "Part"


class Part(NamedTuple):
    """Which part of a run is judged: a block of its columns, and of its nodes a shard, or all."""

    block: int = 0
    blocks: int = 1
    limit: int | None = EXAMPLES  # how many of a verdict are told; None: all
    shard: Shard | None = None


class _Ready(NamedTuple):
    """A run before its passes. The columns of a shard are those of the whole run."""

    run: Run
    operations: program.ProgramOrder
    chains: Columns | None


WHOLE_RUN: Final = Part()


def judge(payloads: list[Payload], part: Part = WHOLE_RUN, told: Sequence[Any] = ()) -> list[Finding]:
    """Findings of one part of one run, given all pieces that it has to know, which are used up: a large one
    must not be in memory twice. `told`: of a shard, what is known of pasts."""
    ready = _ready(payloads, part)
    if isinstance(ready, list):
        return ready
    judged = _passes(ready, part, told)
    if judged is None:
        return [Finding("circle")]
    if part.shard is None:
        return list(_findings(judged))
    dots = shards.defined(judged.run.facts)
    past = judged.found.past
    if shards.on_circle(judged.columns, judged.block, dots, past):
        return [Finding("circle")]
    if judged.changed:
        return [Finding("pasts", payload=shards.tell(judged.run.facts, dots, past[dots]))]
    return list(_findings(judged))


def tell_pasts(payloads: list[Payload], part: Part) -> list[Finding]:
    """The first round of a run in shards: what is known of pasts from a shard's rows alone."""
    ready = _ready(payloads, part)
    if isinstance(ready, list):
        return []  # what is wrong is found again, and told then
    run, chains = ready.run, ready.chains
    assert chains is not None
    block = columns.block(chains, part.block, part.blocks)
    dots = shards.defined(run.facts)
    past = np.empty((len(dots), len(block.columns)), np.int32)
    shards.direct(run.facts, chains, block, past)
    return [Finding("pasts", payload=shards.tell(run.facts, dots, past))]


def _ready(payloads: list[Payload], part: Part) -> _Ready | list[Finding]:
    """The part's rows, or what keeps them from being judged."""
    chunks = list(shards.chunks_of(payloads, part.shard))
    payloads.clear()
    table = assemble(chunks) if chunks else None
    if table is None:
        return []
    if isinstance(table, Twice):
        return [Finding("twice", node=table.node, pos=table.pos)]
    if isinstance(table, TwoLives):
        return [Finding("lives", node=table.node)]
    run = resolve(table)
    operations = program.number(run)
    if part.shard is None:
        return _Ready(run, operations, None)
    none = np.zeros(0, np.int64)
    small = shards.compact(run, columns.build(run, none, none), part.shard)
    return [] if small is None else _Ready(small[0], operations, small[1])


def _passes(ready: _Ready, part: Part, told: Sequence[Any]) -> Judged | None:
    """None if nodes of a shard wait for each other in a circle, which has no columns there."""
    run, operations, chains = ready
    facts, rows, nodes = run.facts, len(run.table.kind), len(run.table.nodes)
    flags, previous = np.zeros(rows, np.uint8), np.full(len(facts.tag_row), -1, np.int32)
    single.judge_rows(facts, flags, previous)
    stretches, broken_row, broken_dot = schedule(facts)
    if chains is not None and len(broken_row):
        return None
    order = np.lexsort((broken_dot, broken_row))
    broken_row, broken_dot = broken_row[order], broken_dot[order]
    flags[broken_row] |= BROKEN
    if chains is None:
        chains = columns.build(run, broken_row, broken_dot)
    block = columns.block(chains, part.block, part.blocks)
    found = Pasts(
        past=np.zeros((facts.sent, len(block.columns)), np.int32),
        held=np.zeros((nodes, (facts.sent + 7) // 8), np.uint8),
        stateful=np.full(nodes, rows, np.int64),
        broken_row=broken_row,
        broken_dot=broken_dot,
    )
    shards.learn(told, found.past)
    kept = program.program(operations, block.owned, nodes)
    changed, several = np.zeros(1, np.int64), part.blocks > 1
    *late, seen = causality.causality(facts, chains, block, found, kept, several, stretches, flags, changed)
    if (run.table.kind == STABLE).any():
        pasts.judge_stables(facts, chains, block, found, flags)
    tags = pasts.judge_tags(facts, chains, block, found, previous)
    return Judged(
        run,
        operations,
        chains,
        block,
        found,
        flags,
        (late[0], late[1]),
        seen.reshape(-1, 3),
        tags,
        int(changed[0]),
        part,
    )


def _findings(judged: Judged) -> Iterator[Finding]:
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


def _row(judged: Judged, verdict: str, row: int, text: str) -> Finding:
    run = judged.run
    name = run.node_name(run.node_of(row))
    message = run.label(int(run.facts.dot[row]))
    return Finding("example", verdict, name, int(run.table.pos[row]), message, detail=text)


def _rows(judged: Judged, verdict: str, rows: I64, why: Any) -> Iterator[Finding]:
    if len(rows):
        yield Finding("count", verdict, number=len(rows))
        for row in rows[: judged.part.limit].tolist():
            yield _row(judged, verdict, row, why(judged, row))


class _WhyDuplicate:
    """Where the node got the message first: its first send or delivery, else a state."""

    def __init__(self, judged: Judged, rows: I64) -> None:
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

    def __call__(self, judged: Judged, row: int) -> str:
        first = self._first[judged.run.node_of(row), int(judged.run.facts.dot[row])]
        if first == row:
            return detail(reason="it came with a state")
        return detail(first_pos=int(judged.run.table.pos[first]))


class _WhyGap:
    """What is wrong with a counter."""

    def __init__(self, judged: Judged) -> None:
        self._sends = np.flatnonzero(judged.run.facts.kind == SEND)

    def __call__(self, judged: Judged, row: int) -> str:
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


def _why_unsent(judged: Judged, row: int) -> str:
    facts, node = judged.run.facts, judged.run.node_of(row)
    dot = int(facts.dot[row])
    if dot >= facts.sent:
        return detail(reason="no send row")
    evicted = facts.evict_name[facts.evict_start[node] : facts.evict_start[node + 1]]
    inside = single.subscribed(facts)
    if (evicted == facts.dot_name[dot]).any() and single.is_for(facts, inside, dot, node):
        return detail(reason="void here: its sender was evicted")
    return detail(reason="not addressed to the node")


def _unsent(judged: Judged) -> Iterator[Finding]:
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


def _why_unstable(judged: Judged, row: int) -> str:
    if judged.flags[row] & NOT_HELD:
        return detail(reason="the node does not hold it")
    run, facts = judged.run, judged.run.facts
    end = int(facts.node_start[run.node_of(row) + 1])
    later = pasts.overtaken_by(facts, judged.columns, judged.block, judged.found, judged.flags, row, end)
    return detail(
        reason="a later delivery does not have it in its past",
        later=run.label(int(facts.dot[later])), later_pos=int(run.table.pos[later]),
    )  # fmt: skip


def _lost(judged: Judged) -> Iterator[Finding]:
    run, facts, held = judged.run, judged.run.facts, judged.found.held
    nodes = len(held)
    down = (facts.kind[facts.node_start[1:] - 1] == CRASH).astype(np.uint8)
    left = np.zeros(nodes, np.uint8)
    left[[run.node_of(row) for row in np.flatnonzero(facts.kind == LEAVE).tolist()]] = 1
    if judged.part.shard is not None:
        yield lost.tell(run, held, judged.block.owned, down, left)
        return
    holders = single.count_holders(facts, held, down)

    inside, owned, apart = single.subscribed(facts), judged.block.owned, _apart(run)

    def find(examples: I64) -> int:
        return single.find_lost(facts, inside, held, holders, owned, down, left, apart, examples)

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


def _apart(run: Run) -> U8:
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


def _order(judged: Judged, duplicates: I64) -> Iterator[Finding]:
    rows, missing = judged.late
    order = np.argsort(rows)
    yield from _flagged(judged, "order", rows[order], np.full(len(rows), -1, np.int64), missing[order])
    if judged.part.blocks > 1 and len(duplicates):
        owner = np.searchsorted(judged.run.table.node_start, duplicates, side="right") - 1
        yield from _taken_back(judged, "order", duplicates[duplicates > judged.found.stateful[owner]])


def _program(judged: Judged) -> Iterator[Finding]:
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


def _tag(judged: Judged) -> Iterator[Finding]:
    rows, extra, lacking = judged.tags
    unclear = (extra < 0) & (lacking < 0)
    yield from _flagged(judged, "tag", rows[~unclear], extra[~unclear], lacking[~unclear])
    if judged.part.blocks > 1:
        yield from _taken_back(judged, "tag", rows[unclear])


def _flagged(judged: Judged, verdict: str, rows: I64, extra: I64, lacking: I64) -> Iterator[Finding]:
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


def _taken_back(judged: Judged, verdict: str, rows: I64, extra: I64 | None = None) -> Iterator[Finding]:
    if len(rows):
        none = np.full(len(rows), -1, np.int64)
        extra = none if extra is None else extra
        yield marks.mark(judged.run, judged.operations.at, verdict, rows, extra, none, cancel=True)


class _Label:
    """Names of messages, and of the operations numbered after them, made when asked for."""

    def __init__(self, judged: Judged) -> None:
        self._run, self._at = judged.run, judged.operations.at

    def __getitem__(self, number: int) -> str:
        place = number - len(self._run.facts.dot_seq)
        return self._run.label(number if place < 0 else int(self._at[place]))
