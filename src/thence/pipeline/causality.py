"""The main pass: every row once, in a possible order, with what each node knows and holds.

Per node the pass keeps what it *knows* (pasts of all it sent, delivered or got by a state: a vector over
the columns), what it *holds* (a bit per message), and for each column how long a prefix is *complete*:
every message in it that concerns the node is held. A delivery is out of order exactly if the message's
past reaches beyond a complete prefix. Complete prefixes are extended only when a comparison fails, so the
usual delivery costs one sweep over three vectors. What it holds of which programs is `program`'s to know.
"""

from typing import Final, NamedTuple

import numpy as np

from thence.pipeline.columns import Block, Columns
from thence.pipeline.jit import inlined, kernel
from thence.pipeline.program import Holdings, bring, weigh
from thence.pipeline.resolve import RunFacts
from thence.pipeline.rows import DELIVER, I32, I64, INSTALL, RESTART, SEND, STABLE, SUBSCRIBE, U8, UNSUBSCRIBE
from thence.pipeline.schedule import grown
from thence.pipeline.single import UNSENT, holds, is_for

DUPLICATE, NOT_HELD, BROKEN = 4, 8, 16  # further bits of a row's flags
CIRCLE: Final = -1  # instead of a missing message: the row is broken


class Pasts(NamedTuple):
    """What the pass finds out. A message's own entry is not part of its past."""

    past: I32  # messages × columns of the block
    held: U8  # nodes × messages, eight to a byte, at the end
    stateful: I64  # each node's first install or restart
    broken_row: I64
    broken_dot: I64


class Knowledge(NamedTuple):
    """What nodes know while the pass is under way."""

    knows: I32
    complete: I32
    epoch: I64
    size: I32  # entries of the epoch's column so far
    reach: I32  # scratch: the past of a frontier
    inside: U8  # nodes × channels: who is subscribed to what


@inlined
def _hold(held: U8, node: int, dot: int) -> None:
    held[node, dot >> 3] |= np.uint8(1 << (dot & 7))


@inlined
def _add_entry(columns: Columns, block: Block, now: Knowledge, node: int) -> None:
    """The node's own column grows by one. In a shard, whose others may tell of a circle, more may be known of
    it already."""
    now.size[node] += 1
    column = block.local[columns.epoch_column[now.epoch[node]]]
    if column >= 0:
        now.knows[node, column] = max(now.knows[node, column], now.size[node])


@inlined
def _learn(knows: I32, complete: I32, past: I32, node: int, dot: int) -> int:
    """Take in a message's past; positive if that reaches beyond a complete prefix."""
    beyond = np.int32(0)
    for c in range(past.shape[1]):
        value = past[dot, c]
        beyond = max(beyond, np.int32(value - complete[node, c]))
        knows[node, c] = max(knows[node, c], value)
    return int(beyond)


@inlined
def _missing(
    facts: RunFacts, columns: Columns, block: Block, found: Pasts, inside: U8, node: int, message: int,
    complete: I32,
) -> int:  # fmt: skip
    """The smallest of a message's past that the node lacks, -1 if none; extends the complete prefixes."""
    past, held = found.past[message], found.held
    smallest = -1
    for c in range(len(past)):
        begin = columns.entry_start[block.columns[c]]
        size = complete[c]
        while size < past[c]:
            dot = columns.entry_dot[begin + size]
            concerns = dot != message and facts.dot_node[dot] != node  # no message is in its own past
            if concerns and not holds(held, node, dot) and is_for(facts, inside, dot, node):
                smallest = dot if smallest < 0 else min(smallest, dot)
                break
            size += 1
        complete[c] = size
    return int(smallest)


@inlined
def _frontier(
    facts: RunFacts,
    columns: Columns,
    block: Block,
    found: Pasts,
    reach: I32,
    front: int,
    first: int,
    end: int,
) -> None:
    """Fill `reach` with the past of a frontier, broken messages (first to end) aside."""
    reach[:] = 0
    for k in range(facts.front_start[front], facts.front_start[front + 1]):
        dot = facts.front_dot[k]
        broken = False
        for b in range(first, end):
            broken = broken or found.broken_dot[b] == dot
        if broken:
            continue
        for c in range(len(reach)):
            reach[c] = max(reach[c], found.past[dot, c])
        column = block.local[columns.dot_column[dot]]
        if column >= 0:
            reach[column] = max(reach[column], columns.dot_index[dot])


@inlined
def _comes_with(facts: RunFacts, now: Knowledge, node: int, row: int, dot: int) -> bool:
    """Whether a node that gets a state holds this message by it: of channels, if it is subscribed to them."""
    if facts.kind[row] == SUBSCRIBE:
        return bool(facts.dot_channel[dot] == facts.front_channel[facts.dot[row]])
    return bool(facts.dot_channel[dot] < 0 or is_for(facts, now.inside, dot, node))


@inlined
def _forget(facts: RunFacts, held: U8, program: Holdings, node: int, channel: int) -> None:
    """A node that is not subscribed any more holds nothing of the channel but its own."""
    program.top[node] = 0
    program.got[node] = 0
    for dot in range(facts.sent):
        if facts.dot_channel[dot] == channel and facts.dot_node[dot] != node:
            held[node, dot >> 3] &= np.uint8(255 - (1 << (dot & 7)))
        elif holds(held, node, dot):
            bring(program, node, dot)


@inlined
def _take_state(
    facts: RunFacts, columns: Columns, block: Block, found: Pasts, program: Holdings, now: Knowledge,
    node: int, row: int,
) -> None:  # fmt: skip
    """An install adds the frontier's past to what the node holds; a restart leaves it nothing else."""
    found.stateful[node] = min(found.stateful[node], row)
    first = int(np.searchsorted(found.broken_row, row))
    end = int(np.searchsorted(found.broken_row, row + 1))
    _frontier(facts, columns, block, found, now.reach, facts.dot[row], first, end)
    if facts.kind[row] == RESTART:
        found.held[node] = 0
        program.top[node] = 0
        program.got[node] = 0
        now.knows[node] = 0
        now.complete[node] = 0
        now.epoch[node] += 1
        now.size[node] = 0
    if facts.kind[row] == SUBSCRIBE:
        now.inside[node, facts.front_channel[facts.dot[row]]] = 1
        now.complete[node] = 0  # what did not concern the node before, does now
    entry_dot, held = columns.entry_dot, found.held
    for c in range(len(now.reach)):
        now.knows[node, c] = max(now.knows[node, c], now.reach[c])
        begin = columns.entry_start[block.columns[c]]
        for k in range(begin, begin + now.reach[c]):
            if _comes_with(facts, now, node, row, entry_dot[k]):
                _hold(held, node, entry_dot[k])
                bring(program, node, entry_dot[k])
    for b in range(first, end):
        if _comes_with(facts, now, node, row, found.broken_dot[b]):
            _hold(held, node, found.broken_dot[b])
            bring(program, node, found.broken_dot[b])
        _add_entry(columns, block, now, node)


@kernel
def causality(
    facts: RunFacts, columns: Columns, block: Block, found: Pasts, program: Holdings, shared: bool,
    stretches: I64, flags: U8, changed: I64,
) -> tuple[I64, I64, I64]:  # fmt: skip
    """Fill in pasts, holdings and flags; rows out of order, with a missing message each, and what `weigh` has
    to say. `shared`: there are other blocks. `changed` counts pasts that were other ones before."""
    nodes, width = len(facts.node_start) - 1, len(block.columns)
    knows, complete = np.zeros((nodes, width), np.int32), np.zeros((nodes, width), np.int32)
    epoch, size = columns.epoch_start[:-1].copy(), np.zeros(nodes, np.int32)
    inside = np.zeros((nodes, facts.channels), np.uint8)
    now = Knowledge(knows, complete, epoch, size, np.zeros(width, np.int32), inside)
    late_row, late_dot, late = np.empty(16, np.int64), np.empty(16, np.int64), 0
    seen, used = np.empty(16, np.int64), 0
    # Taken out of the tuples once: each access to them counts references, which the usual row must not.
    kinds, dots, sent, past, held = facts.kind, facts.dot, facts.sent, found.past, found.held
    owned, local, dot_column, dot_index = block.owned, block.local, columns.dot_column, columns.dot_index
    plain, lanes, places, top = len(program.carrier) == 0, program.lane, program.place, program.top
    for s in range(0, len(stretches), 3):
        node = stretches[s]
        for row in range(stretches[s + 1], stretches[s + 2]):
            what, dot = kinds[row], dots[row]
            if what == DELIVER and dot < sent:
                fresh = not holds(held, node, dot)
                counts = flags[row] & UNSENT == 0
                missing, out_of_order = CIRCLE, False
                if counts and owned[dot] and not fresh:
                    flags[row] |= DUPLICATE
                if flags[row] & BROKEN:
                    _add_entry(columns, block, now, node)
                    out_of_order = counts and fresh and owned[dot] != 0
                else:
                    if _learn(knows, complete, past, node, dot) > 0 and counts and fresh:
                        missing = _missing(facts, columns, block, found, inside, node, dot, complete[node])
                        out_of_order = missing >= 0
                    column = local[dot_column[dot]]
                    if column >= 0:
                        index = dot_index[dot]
                        knows[node, column] = max(knows[node, column], index)
                        if complete[node, column] == index - 1:
                            complete[node, column] = index
                if out_of_order:
                    late_row, late_dot = grown(late_row, late), grown(late_dot, late)
                    late_row[late], late_dot[late] = row, missing
                    late += 1
                lane = lanes[dot]
                if plain and lane >= 0 and top[node, lane] < places[dot]:
                    top[node, lane] = places[
                        dot
                    ]  # the usual row: nothing that it holds of the process is later
                elif not plain or lane >= 0 or not fresh:
                    if counts:
                        seen, used = weigh(program, node, dot, not fresh, shared, row, seen, used)
                    bring(program, node, dot)
                _hold(held, node, dot)
            elif what == SEND:
                if facts.def_row[dot] == row:
                    for c in range(width):
                        if past[dot, c] != knows[node, c]:
                            past[dot] = knows[node]
                            changed[0] += 1
                            break
                _add_entry(columns, block, now, node)
                bring(program, node, dot)
                _hold(held, node, dot)
            elif what == STABLE:
                counts = dot < sent and flags[row] & UNSENT == 0
                if counts and owned[dot] and not holds(held, node, dot):
                    flags[row] |= NOT_HELD
            elif what in (INSTALL, RESTART, SUBSCRIBE):
                _take_state(facts, columns, block, found, program, now, node, row)
            elif what == UNSUBSCRIBE:
                inside[node, dot] = 0
                _forget(facts, held, program, node, dot)
    return late_row[:late], late_dot[:late], seen[:used]
