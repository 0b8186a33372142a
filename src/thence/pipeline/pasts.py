"""Verdicts that compare pasts once all are known: stability and tags."""

from typing import Final

import numpy as np

from thence.pipeline.causality import BROKEN, Pasts
from thence.pipeline.columns import Block, Columns
from thence.pipeline.jit import inlined, kernel
from thence.pipeline.resolve import BEFORE, OPEN, PASSED, RunFacts
from thence.pipeline.rows import DELIVER, I32, I64, STABLE, U8
from thence.pipeline.schedule import grown
from thence.pipeline.single import UNSENT

OVERTAKEN: Final = 32  # a bit of a stable row's flags: a later delivery does not have the message in its past
SEVERAL: Final = -2
NONE_YET: Final = -1


@inlined
def reaches(columns: Columns, block: Block, past: I32, dot: int) -> bool:
    """Whether a past holds a message of this block, by whichever entry."""
    if past[block.local[columns.dot_column[dot]]] >= columns.dot_index[dot]:
        return True
    for k in range(columns.again_start[dot], columns.again_start[dot + 1]):
        if past[block.local[columns.again_column[k]]] >= columns.again_index[k]:
            return True
    return False


@inlined
def _overtaken_by(
    facts: RunFacts, columns: Columns, block: Block, found: Pasts, flags: U8, row: int, end: int
) -> int:  # fmt: skip
    """The first delivery after a stable row that contradicts it, -1 if none does."""
    dot = facts.dot[row]
    for later in range(row + 1, end):
        other = facts.dot[later]
        if facts.kind[later] != DELIVER or other >= facts.sent or flags[later] & UNSENT or other == dot:
            continue
        if flags[later] & BROKEN or not reaches(columns, block, found.past[other], dot):
            return later
    return -1


@kernel
def overtaken_by(
    facts: RunFacts, columns: Columns, block: Block, found: Pasts, flags: U8, row: int, end: int
) -> int:  # fmt: skip
    return _overtaken_by(facts, columns, block, found, flags, row, end)


@kernel
def judge_stables(facts: RunFacts, columns: Columns, block: Block, found: Pasts, flags: U8) -> None:
    """From each node's last row backwards, with the smallest past of the deliveries met so far."""
    least = np.empty(len(block.columns), np.int32)
    # Taken out of the tuples once: each access to them counts references, which the usual row must not.
    kinds, dots, sent, past = facts.kind, facts.dot, facts.sent, found.past
    owned, local, dot_column, dot_index = block.owned, block.local, columns.dot_column, columns.dot_index
    again_start = columns.again_start
    for node in range(len(facts.node_start) - 1):
        begin, end = facts.node_start[node], facts.node_start[node + 1]
        while begin < end and facts.kind[begin] != STABLE:
            begin += 1  # what comes before the first stable row matters to none
        if begin == end:
            continue
        least[:] = np.iinfo(np.int32).max
        alone = NONE_YET  # the message of the broken deliveries met so far: each has nothing but itself
        for row in range(end - 1, begin - 1, -1):
            what, dot = kinds[row], dots[row]
            if (what != DELIVER and what != STABLE) or dot >= sent or flags[row] & UNSENT:
                continue
            if what == DELIVER:
                if flags[row] & BROKEN:
                    alone = int(dot) if alone == NONE_YET or alone == dot else SEVERAL  # noqa: SIM109
                    continue
                column = local[dot_column[dot]]
                own = least[column] if column >= 0 else 0
                for c in range(len(least)):
                    least[c] = min(least[c], past[dot, c])
                if column >= 0:
                    least[column] = min(own, dot_index[dot])
            elif owned[dot]:
                if again_start[dot] != again_start[dot + 1]:
                    wrong = _overtaken_by(facts, columns, block, found, flags, row, end) >= 0
                else:
                    wrong = least[local[dot_column[dot]]] < dot_index[dot]
                    wrong = wrong or (alone != NONE_YET and alone != dot)
                if wrong:
                    flags[row] |= OVERTAKEN


@inlined
def _only_in(columns: Columns, block: Block, left: I32, right: I32, aside: int) -> int:
    """The smallest message of a past, one aside, that another past lacks; -1 if none."""
    result = -1
    for c in range(len(left)):
        begin = columns.entry_start[block.columns[c]]
        for k in range(begin + right[c], begin + left[c]):
            dot = columns.entry_dot[k]
            if dot != aside and (result < 0 or dot < result) and not reaches(columns, block, right, dot):
                result = dot
    return int(result)


@inlined
def _add(columns: Columns, block: Block, found: Pasts, total: I32, dot: int) -> None:
    """Join a message and its past to a past."""
    for c in range(len(total)):
        total[c] = max(total[c], found.past[dot, c])
    column = block.local[columns.dot_column[dot]]
    if column >= 0:
        total[column] = max(total[column], columns.dot_index[dot])


@inlined
def _is_unclear(columns: Columns, block: Block, found: Pasts, dot: int) -> bool:
    """Whether a past holds, in this block, a message sent after a broken row of its node."""
    unclear = columns.unclear[dot] != 0
    for c in range(len(block.columns)):
        unclear |= found.past[dot, c] >= columns.unclear_from[block.columns[c]]
    return bool(unclear)


@inlined
def _spell_out(
    facts: RunFacts, columns: Columns, block: Block, found: Pasts, previous: int, tag: int, total: I32
) -> None:
    """What a tag and the sender's previous send amount to."""
    total[:] = 0
    if previous >= 0:
        _add(columns, block, found, total, previous)
    for k in range(facts.tag_start[tag], facts.tag_start[tag + 1]):
        if facts.tag_dot[k] >= 0:
            _add(columns, block, found, total, facts.tag_dot[k])


@inlined
def _unsent_entry(facts: RunFacts, tag: int) -> int:
    """An entry of a tag that no node sent."""
    for k in range(facts.tag_start[tag], facts.tag_start[tag + 1]):
        if facts.tag_dot[k] >= facts.sent:
            return int(facts.tag_dot[k])
    return -1


@kernel
def judge_tags(
    facts: RunFacts, columns: Columns, block: Block, found: Pasts, previous: I32
) -> tuple[I64, I64, I64]:
    """Send rows with a wrong tag, each with a message that it has too much and one that it lacks.

    Both are -1 where a past cannot be worked out: such a row is passed over, whatever other blocks say.
    """
    rows, extra, lacking = np.empty(16, np.int64), np.empty(16, np.int64), np.empty(16, np.int64)
    wrong = 0
    total = np.empty(len(block.columns), np.int32)
    for t in range(len(facts.tag_row)):
        row = facts.tag_row[t]
        dot = facts.dot[row]
        if facts.tag_state[t] == PASSED or previous[t] == BEFORE:
            continue
        too_much, too_little = -1, -1
        if not _is_unclear(columns, block, found, dot):
            if facts.tag_state[t] == OPEN:
                _spell_out(facts, columns, block, found, previous[t], t, total)
                too_little = _only_in(columns, block, found.past[dot], total, dot)
                too_much = _only_in(columns, block, total, found.past[dot], dot)
                if block.owned[dot] and reaches(columns, block, total, dot):
                    too_much = dot  # no message is in its own past
            else:
                too_much = _unsent_entry(facts, t)
            if too_much < 0 and too_little < 0:
                continue
        rows, extra, lacking = grown(rows, wrong), grown(extra, wrong), grown(lacking, wrong)
        rows[wrong], extra[wrong], lacking[wrong] = row, too_much, too_little
        wrong += 1
    return rows[:wrong], extra[:wrong], lacking[:wrong]
