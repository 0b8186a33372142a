"""Verdicts that need no happens-before: gaps, unsent messages, lost messages."""

import numpy as np

from thence.pipeline.jit import inlined, kernel
from thence.pipeline.resolve import KEEP, NONE, Facts
from thence.pipeline.rows import DELIVER, I32, I64, INSTALL, RESTART, SEND, STABLE, SUBSCRIBE, U8, UNSUBSCRIBE

UNSENT, GAP = 1, 2  # bits of a row's flags


@inlined
def is_for(facts: Facts, inside: U8, dot: int, node: int) -> bool:
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
def is_void(facts: Facts, dot: int, node: int) -> bool:
    """Whether the node has evicted the message's sender before it."""
    void = False
    for k in range(facts.evict_start[node], facts.evict_start[node + 1]):
        void |= facts.evict_name[k] == facts.dot_name[dot] and facts.dot_seq[dot] > facts.evict_seq[k]
    return void


@inlined
def _is_unsent(facts: Facts, inside: U8, dot: int, node: int) -> bool:
    """Whether a row about this message at this node has nothing to refer to."""
    if dot >= facts.sent:
        return bool(facts.before[dot] == 0)
    return is_void(facts, dot, node) or not is_for(facts, inside, dot, node)


@kernel
def judge_rows(facts: Facts, flags: U8, previous: I32) -> None:
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
def subscribed(facts: Facts) -> U8:
    """Who is subscribed to what at the end."""
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
def count_holders(facts: Facts, held: U8, down: U8) -> I32:
    """For each message how many nodes that are not down hold it at the end."""
    sent = facts.sent
    holders = np.zeros(sent, np.int32)
    for node in range(len(held)):
        if not down[node]:
            for dot in range(sent):
                holders[dot] += holds(held, node, dot)
    return holders


@inlined
def _holder(held: U8, down: U8, apart: U8, node: int, dot: int) -> int:
    """The first node from which this one could still get the message, -1 if there is none."""
    for other in range(len(held)):
        if not down[other] and holds(held, other, dot) and not (len(apart) and apart[node, other]):
            return other
    return -1


@kernel
def find_lost(
    facts: Facts, inside: U8, held: U8, holders: I32, owned: U8, down: U8, left: U8, apart: U8, examples: I64
) -> int:
    """Count lost pairs (message, node); the first ones go to `examples` as (node, message, holder)."""
    count, sent = 0, facts.sent
    for node in range(len(held)):
        if down[node] or left[node]:
            continue
        for dot in range(sent):
            if holds(held, node, dot) or not owned[dot] or holders[dot] == 0:
                continue
            if not is_for(facts, inside, dot, node) or is_void(facts, dot, node):
                continue
            holder = 0  # when nobody was evicted and no example is wanted, nobody asks who it is
            if len(apart) or count < len(examples):
                holder = _holder(held, down, apart, node, dot)
            if holder >= 0:
                if count < len(examples):
                    examples[count, 0], examples[count, 1], examples[count, 2] = node, dot, holder
                count += 1
    return count
