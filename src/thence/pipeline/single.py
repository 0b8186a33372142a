"""Verdicts that need no happens-before: gaps, unsent messages, lost messages."""

from typing import NamedTuple

import numpy as np

from thence.pipeline.jit import inlined, kernel
from thence.pipeline.pack import ranges
from thence.pipeline.resolve import KEEP, NONE, RunFacts
from thence.pipeline.rows import DELIVER, I32, I64, INSTALL, RESTART, SEND, STABLE, SUBSCRIBE, U8, UNSUBSCRIBE

UNSENT, GAP = 1, 2  # bits of a row's flags


@inlined
def is_for(facts: RunFacts, inside: U8, dot: int, node: int) -> bool:
    """Whether a sent message is addressed to a node; to its sender it always is. `inside`: nodes × channels,
    who is subscribed at the moment."""
    if facts.restricted[dot] == 0 or facts.dot_node[dot] == node:
        return True
    if facts.dot_channel[dot] >= 0:
        return bool(inside[node, facts.dot_channel[dot]] != 0)
    listed = False
    for k in range(facts.dest_start[dot], facts.dest_start[dot + 1]):
        listed |= facts.dest_node[k] == node
    return listed


@inlined
def is_void(facts: RunFacts, dot: int, node: int) -> bool:
    """Whether the node has evicted the message's sender before it."""
    void = False
    for k in range(facts.evict_start[node], facts.evict_start[node + 1]):
        void |= facts.evict_name[k] == facts.dot_name[dot] and facts.dot_seq[dot] > facts.evict_seq[k]
    return void


@inlined
def _is_unsent(facts: RunFacts, inside: U8, dot: int, node: int) -> bool:
    """Whether a row about this message at this node has nothing to refer to."""
    if dot >= facts.sent:
        return bool(facts.before[dot] == 0)
    return is_void(facts, dot, node) or not is_for(facts, inside, dot, node)


@kernel
def judge_rows(facts: RunFacts, flags: U8, previous: I32) -> None:
    """Flag gaps and unsent rows; note for each tag its sender's previous send."""
    # Taken out of the tuple once: each access to it counts references, which the usual row must not.
    kinds, dots, sent, restricted = facts.kind, facts.dot, facts.sent, facts.restricted
    tag_row, tag = facts.tag_row, 0
    inside = np.zeros((len(facts.node_start) - 1, facts.channels), np.uint8)
    for node in range(len(facts.node_start) - 1):
        none_evicted = facts.evict_start[node] == facts.evict_start[node + 1]
        counter = facts.seq_before[node]
        last = NONE
        for row in range(facts.node_start[node], facts.node_start[node + 1]):
            what, dot = kinds[row], dots[row]
            if what in (DELIVER, STABLE):
                plain = none_evicted and dot < sent and restricted[dot] == 0
                if not plain and _is_unsent(facts, inside, dot, node):
                    flags[row] = UNSENT
            elif what == SEND:
                seq = facts.dot_seq[dot]
                if seq != counter + 1 or facts.dot_node[dot] != node or facts.def_row[dot] != row:
                    flags[row] = GAP
                counter = seq
                if tag < len(tag_row) and tag_row[tag] == row:
                    previous[tag] = last
                    tag += 1
                last = dot
            elif what in (INSTALL, RESTART) and facts.front_own[dot] != KEEP:
                last = facts.front_own[dot]
            elif what == SUBSCRIBE:
                inside[node, facts.front_channel[dot]] = 1
            elif what == UNSUBSCRIBE:
                inside[node, dot] = 0


@kernel
def subscribed(facts: RunFacts) -> U8:
    """The subscriptions of nodes at the end."""
    inside = np.zeros((len(facts.node_start) - 1, facts.channels), np.uint8)
    for node in range(len(facts.node_start) - 1):
        for row in range(facts.node_start[node], facts.node_start[node + 1]):
            if facts.kind[row] == SUBSCRIBE:
                inside[node, facts.front_channel[facts.dot[row]]] = 1
            elif facts.kind[row] == UNSUBSCRIBE:
                inside[node, facts.dot[row]] = 0
    return inside


@inlined
def holds(held: U8, node: int, dot: int) -> bool:
    return bool((held[node, dot >> 3] >> (dot & 7)) & 1)


@kernel
def count_holders(facts: RunFacts, held: U8, down: U8, mine: I64) -> I32:
    """For each of these messages how many nodes that are not down hold it at the end."""
    holders = np.zeros(facts.sent, np.int32)
    for node in range(len(held)):
        if not down[node]:
            for dot in mine:
                holders[dot] += holds(held, node, dot)
    return holders


class Concerned(NamedTuple):
    """Which messages may be for which nodes, in order: those that name their receivers by node, the others
    for all. So a system whose messages are for a few is not gone through message by message at each node."""

    any_node: I64
    start: I64  # by node, where its own begin in `dot`
    dot: I64


def concerned(facts: RunFacts, mine: I64) -> Concerned:
    """Of these messages."""
    nodes = len(facts.node_start) - 1
    named = (facts.restricted[mine] != 0) & (facts.dot_channel[mine] < 0)
    some = mine[named]
    if not len(some):
        return Concerned(mine, np.zeros(nodes + 1, np.int64), np.zeros(0, np.int64))
    begin = facts.dest_start[:-1][some]
    length = facts.dest_start[1:][some] - begin
    node = np.concatenate([facts.dest_node[ranges(begin, length)], facts.dot_node[some]])
    dot = np.concatenate([np.repeat(some, length), some])
    pairs = np.unique(np.stack([node[node >= 0], dot[node >= 0]]).astype(np.int64), axis=1)
    return Concerned(mine[~named], np.searchsorted(pairs[0], np.arange(nodes + 1)), pairs[1].copy())


@inlined
def next_of(some: Concerned, node: int, at: int, named: int) -> tuple[int, int, int]:
    """The next message, of two lists in order; and how far both are. -1: there is none."""
    left = some.any_node[at] if at < len(some.any_node) else -1
    right = some.dot[named] if named < some.start[node + 1] else -1
    if left >= 0 and (right < 0 or left < right):
        return left, at + 1, named
    return right, at, named + 1


@inlined
def _holder(held: U8, down: U8, apart: U8, node: int, dot: int) -> int:
    """The first node from which this one could still get the message, -1 if there is none."""
    for other in range(len(held)):
        if not down[other] and holds(held, other, dot) and not (len(apart) and apart[node, other]):
            return other
    return -1


@kernel
def find_lost(
    facts: RunFacts,
    inside: U8,
    held: U8,
    holders: I32,
    mine: Concerned,
    down: U8,
    left: U8,
    apart: U8,
    examples: I64,
) -> int:
    """Count lost pairs (message, node) of these messages, in order; the first ones go to `examples` as (node,
    message, holder)."""
    count = 0
    for node in range(len(held)):
        if down[node] or left[node]:
            continue
        dot, at, named = next_of(mine, node, 0, mine.start[node])
        while dot >= 0:
            this = dot
            dot, at, named = next_of(mine, node, at, named)
            if holds(held, node, this) or holders[this] == 0:
                continue
            if not is_for(facts, inside, this, node) or is_void(facts, this, node):
                continue
            holder = 0  # with no eviction and no example wanted, it does not matter which
            if len(apart) or count < len(examples):
                holder = _holder(held, down, apart, node, this)
            if holder >= 0:
                if count < len(examples):
                    examples[count, 0], examples[count, 1], examples[count, 2] = node, this, holder
                count += 1
    return count
