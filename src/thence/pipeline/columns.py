"""Happens-before as a matrix: one row per message, one column per chain of sends.

A *column* is one node between two restarts. Its *entries* are, in row order, the messages that the node
sent, and those that it came to know at a broken row (see `schedule`) without knowing their past. A node that
knows an entry knows all earlier ones of its column, so a past is a vector of prefix lengths and the union
of pasts is the maximum, exactly. A message can have several entries: sent twice, or known at a broken row.

Columns do not influence each other, so a large run is judged in blocks of columns, each block with all
rows. Columns that share a message go into one block: whether a node holds a message must be known whole.
"""

from typing import NamedTuple

import numpy as np

from thence.pipeline.jit import kernel
from thence.pipeline.resolve import ResolvedRun, RunFacts, starts
from thence.pipeline.rows import I32, I64, RESTART, SEND, U8


class Columns(NamedTuple):
    epoch_start: I64  # epochs of node j: epoch_start[j] ... epoch_start[j+1]
    epoch_column: I32  # the column of an epoch, -1 if it has no entries
    entry_start: I64
    entry_dot: I32
    dot_column: I32  # where the send that defines a message stands
    dot_index: I32  # its place there, from 1
    again_start: I64  # further entries of messages that have several
    again_column: I32
    again_index: I32
    unclear: U8  # messages sent after a broken row of their epoch
    unclear_from: I32  # per column, the first entry that is such a message


class Block(NamedTuple):
    """The columns that one task judges: a column's place in the block, -1 if it is elsewhere."""

    local: I32
    columns: I32
    owned: U8  # messages whose columns are here


@kernel
def _chains(
    facts: RunFacts, broken_row: I64, broken_dot: I64, epoch_start: I64,
    epoch_column: I32, entry_column: I32, entry_dot: I32, dot_column: I32, dot_index: I32, unclear: U8,
) -> int:  # fmt: skip
    """Walk all rows once and write the entries down; the number of columns."""
    columns = entry = broken = 0
    for node in range(len(facts.node_start) - 1):
        epoch, size, whole = epoch_start[node], 0, True
        for row in range(facts.node_start[node], facts.node_start[node + 1]):
            what = facts.kind[row]
            if what == RESTART:
                epoch, size, whole = epoch + 1, 0, True
            more = 1 if what == SEND else 0
            while broken + more < len(broken_row) and broken_row[broken + more] == row:
                more += 1  # only an install or restart can break on several messages
            for _ in range(more):
                if size == 0:
                    epoch_column[epoch] = columns
                    columns += 1
                size += 1
                entry_column[entry] = epoch_column[epoch]
                entry_dot[entry] = facts.dot[row] if what == SEND else broken_dot[broken]
                entry += 1
                broken += what != SEND
                whole &= what == SEND
            if what == SEND and facts.def_row[facts.dot[row]] == row:
                dot_column[facts.dot[row]] = epoch_column[epoch]
                dot_index[facts.dot[row]] = size
                unclear[facts.dot[row]] = not whole
    return columns


def build(run: ResolvedRun, broken_row: I64, broken_dot: I64) -> Columns:
    """The columns of a run; broken rows sorted by row."""
    table = run.table
    restarts = np.searchsorted(np.flatnonzero(table.kind == RESTART), table.node_start)
    epoch_start = restarts + np.arange(len(table.node_start))
    entries = int(np.count_nonzero(table.kind == SEND)) + len(broken_row)
    epoch_column = np.full(int(epoch_start[-1]), -1, np.int32)
    entry_column, entry_dot = np.empty(entries, np.int32), np.empty(entries, np.int32)
    dot_column, dot_index = np.empty(run.facts.sent, np.int32), np.empty(run.facts.sent, np.int32)
    unclear = np.zeros(run.facts.sent, np.uint8)
    count = _chains(
        run.facts, broken_row, broken_dot, epoch_start,
        epoch_column, entry_column, entry_dot, dot_column, dot_index, unclear,
    )  # fmt: skip
    entry_start = np.searchsorted(entry_column, np.arange(count + 1))
    unclear_from = np.full(count, np.iinfo(np.int32).max, np.int32)
    for entry in np.flatnonzero(unclear[entry_dot])[::-1].tolist():
        unclear_from[entry_column[entry]] = entry - entry_start[entry_column[entry]] + 1
    again = _again(run.facts.sent, entry_start, entry_column, entry_dot, dot_column, dot_index)
    return Columns(
        epoch_start,
        epoch_column,
        entry_start,
        entry_dot,
        dot_column,
        dot_index,
        *again,
        unclear,
        unclear_from,
    )


def _again(
    sent: int, entry_start: I64, entry_column: I32, entry_dot: I32, dot_column: I32, dot_index: I32
) -> tuple[I64, I32, I32]:
    if len(entry_dot) == sent:
        return np.zeros(sent + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32)
    index = (np.arange(len(entry_dot)) - entry_start[entry_column] + 1).astype(np.int32)
    further = np.flatnonzero((dot_column[entry_dot] != entry_column) | (dot_index[entry_dot] != index))
    further = further[np.argsort(entry_dot[further], kind="stable")]
    counts = np.bincount(entry_dot[further], minlength=sent)
    return starts(counts), entry_column[further], index[further]


def block(columns: Columns, number: int, blocks: int) -> Block:
    """The columns of one of several blocks."""
    count = len(columns.entry_start) - 1
    leader = list(range(count))

    def find(column: int) -> int:
        while leader[column] != column:
            leader[column] = leader[leader[column]]
            column = leader[column]
        return column

    if blocks > 1:
        for dot in np.flatnonzero(np.diff(columns.again_start)).tolist():
            home = find(int(columns.dot_column[dot]))
            for k in range(columns.again_start[dot], columns.again_start[dot + 1]):
                other = find(int(columns.again_column[k]))
                leader[max(home, other)] = home = min(home, other)
    local = np.full(count, -1, np.int32)
    here = [column for column in range(count) if find(column) % blocks == number]
    local[here] = np.arange(len(here), dtype=np.int32)
    owned = (local[columns.dot_column] >= 0).astype(np.uint8)
    return Block(local, np.array(here, np.int32), owned)
