"""One run, or one block of its columns, from packed pieces to findings.

A run judged in several blocks cannot count `order`, `program` and `tag` in one place: a row may be flagged by
several blocks; whether a delivery is a duplicate is known only to the block of its message once a state was
installed; and whether a past can be worked out, only to all blocks together. There flagged rows become
marks, and rows that another block must not flag become marks that take back.

A run judged in shards (`shards`) is judged as often as pasts still grow: only what is found when all shards
say that none did holds.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from thence.pipeline import causality, columns, marks, pasts, program, shards, single
from thence.pipeline.assemble import Twice, TwoLives, assemble
from thence.pipeline.causality import BROKEN, Pasts
from thence.pipeline.columns import Columns
from thence.pipeline.findings import EXAMPLES, Finding
from thence.pipeline.outcome import JudgedBlock, Part, tell
from thence.pipeline.plan import Size, blocks_of
from thence.pipeline.resolve import ResolvedRun, resolve
from thence.pipeline.rows import RESTART, SEND, STABLE
from thence.pipeline.schedule import schedule
from thence.pipeline.shards import Payload


class _Ready(NamedTuple):
    """A run before its passes. The columns of a shard are those of the whole run."""

    run: ResolvedRun
    operations: program.ProgramOrder
    chains: Columns | None
    forgets: bool = False


WHOLE_RUN: Final = Part()


def judge(
    payloads: list[Payload], part: Part = WHOLE_RUN, told: Sequence[Any] = (), *, again: bool = False
) -> list[Finding]:
    """Findings of one part of one run, given all pieces that it has to know, which are used up: a large one
    must not be in memory twice. `told`: of a shard, what is known of pasts. `again`: in this round each shard
    tells its own, whether they have changed or not, so that the next one needs no earlier ones."""
    ready = _ready(payloads, part)
    if isinstance(ready, list):
        return ready
    judged = _passes(ready, part, told)
    if judged is None:
        return [Finding("circle")]
    if part.shard is None:
        return list(tell(judged))
    dots = shards.defined(judged.run.facts)
    past, lineage = judged.found.past, judged.lineage
    if shards.on_circle(judged.columns, judged.block, dots, past if lineage is None else lineage):
        return [Finding("circle")]
    found = [] if judged.changed else list(tell(judged))
    if judged.changed or again:
        mine = None if lineage is None else lineage[dots]
        sheets = shards.tell(judged.run.facts, dots, past[dots], mine)
        found.append(Finding("pasts" if judged.changed else "same", payload=sheets))
    return found


def judge_in_blocks(
    payloads: list[Payload], limit: int | None = EXAMPLES, blocks: int | None = None
) -> list[Finding]:
    """Findings of a whole run, one block of its columns after the other: as many as its size takes, or so
    many. What these have to settle is settled. The pieces are used up."""
    ready = _ready(payloads, WHOLE_RUN)
    if isinstance(ready, list):
        return ready
    count = blocks or blocks_of(_size(ready.run), 1)
    found: list[Finding] = []
    for block in range(count):
        judged = _passes(ready, Part(block, count, limit), ())
        assert judged is not None, "only a shard may lack what others wait for"
        found += tell(judged)
        del judged  # before the next one needs its room
    sheets = [one.payload for one in found if one.what == "marks"]
    return [one for one in found if one.what != "marks"] + list(marks.settle(sheets, limit))


def _size(run: ResolvedRun) -> Size:
    sends, restarts = (int((run.table.kind == kind).sum()) for kind in (SEND, RESTART))
    return Size("", "", len(run.table.kind), sends, len(run.table.nodes) + restarts, restarts)


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
    shards.direct(run.facts, chains, block, True, past)
    lineage = np.empty_like(past) if ready.forgets else None
    if lineage is not None:
        shards.direct(run.facts, chains, block, False, lineage)
    return [Finding("pasts", payload=shards.tell(run.facts, dots, past, lineage))]


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
    return [] if small is None else _Ready(small[0], operations, small[1], shards.forgets(run))


def _passes(ready: _Ready, part: Part, told: Sequence[Any]) -> JudgedBlock | None:
    """None if nodes of a shard wait for each other in a circle, which has no columns there."""
    run, operations, chains, forgets = ready
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
    lineage = np.zeros_like(found.past) if forgets else None
    shards.learn(told, found.past, lineage)
    kept = program.program(operations, block.owned, nodes)
    changed, several = np.zeros(1, np.int64), part.blocks > 1
    *late, seen = causality.causality(facts, chains, block, found, kept, several, stretches, flags, changed)
    if lineage is not None:
        changed += shards.trace_back(facts, chains, block, stretches, lineage)
    if (run.table.kind == STABLE).any():
        pasts.judge_stables(facts, chains, block, found, flags)
    tags = pasts.judge_tags(facts, chains, block, found, previous)
    return JudgedBlock(
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
        lineage,
        part,
    )
