"""From rows to what they mean: which send defines a message, what is from before the trace, and more.

Everything here is static: it follows from the rows alone and does not need happens-before.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from thence.pipeline.assemble import Bools, Said, Table
from thence.pipeline.pack import ranges
from thence.pipeline.rows import I32, I64, INSTALL, RESTART, SEND, START, SUBSCRIBE, U8, UNSUBSCRIBE

# What stands for a sender's previous send where there is no such message.
# KEEP: an install does not change it.
NONE, BEFORE, KEEP = -1, -2, -3
# A tag's state before pasts are known.
OPEN, PASSED, WRONG = 0, 1, 2


class RunFacts(NamedTuple):
    """What the kernels need. Lists are in compressed form: list k is values[start[k]:start[k+1]]."""

    node_start: I64
    kind: U8
    dot: I32  # as in the table; for an install or restart the number of its frontier
    sent: int  # messages below this number have a send row
    dot_node: I32  # a message's origin as node, -1 if that name has no rows
    dot_name: I32
    dot_seq: I64
    before: U8  # messages from before the trace
    def_row: I64  # the send row that defines a message
    def_node: I32
    restricted: U8  # the message names its receivers
    dest_start: I64
    dest_node: I32
    channels: int
    dot_channel: I32  # the channel that a sent message is addressed to, -1 for none
    front_channel: I32  # the channel that a frontier is the state of
    front_start: I64
    front_dot: I32  # sent messages that a frontier stands for, sorted
    front_own: I32  # the node's previous send as the frontier tells it
    seq_before: I64  # each node's counter before its first row
    tag_row: I64
    tag_start: I64
    tag_dot: I32
    tag_state: U8
    evict_start: I64  # evict rows by node
    evict_name: I32
    evict_seq: I64


@dataclass
class ResolvedRun:
    """A run ready to be judged."""

    table: Table
    facts: RunFacts
    front_unsent: list[tuple[int, int]]  # (row, message) of frontier entries without send
    elsewhere: dict[int, tuple[str, int]] = field(default_factory=dict)
    """Messages whose send here is not the first, which is at this node and position of another shard."""

    def label(self, dot: int) -> str:
        return f"{self.table.names[self.facts.dot_name[dot]]}:{self.facts.dot_seq[dot]}"

    def node_of(self, row: int) -> int:
        return int(np.searchsorted(self.table.node_start, row, side="right")) - 1

    def node_name(self, node: int) -> str:
        return self.table.names[int(self.table.nodes[node])]


def starts(lengths: I64) -> I64:
    """Where lists of these lengths begin, and where the last one ends."""
    total = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=total[1:])
    return total


def resolve(table: Table) -> ResolvedRun:
    sent = len(table.sent.seq)
    dot_name = np.concatenate([table.sent.origin, table.unsent.origin]).astype(np.int32)
    unsent = table.unsent.seq
    dot_seq = np.concatenate([table.sent.seq, unsent]) if len(unsent) else table.sent.seq
    node_of_name = np.full(len(table.names), -1, np.int32)
    node_of_name[table.nodes] = np.arange(len(table.nodes), dtype=np.int32)
    def_row = _definitions(table)
    restricted, dest_start, dest_node = _destinations(table, def_row, node_of_name)
    front = _pick(table.deps, np.isin(table.kind[table.deps.row], (INSTALL, RESTART, SUBSCRIBE)))
    tags = _pick(table.deps, table.kind[table.deps.row] == SEND)
    # One without deps has an empty frontier.
    front = _with_empty(front, np.flatnonzero(np.isin(table.kind, (INSTALL, RESTART, SUBSCRIBE))))
    first = _is_first(table, front.row) & (table.kind[front.row] != SUBSCRIBE)
    front_all = table.number(front.origin, front.seq)
    before = _before(table, front, front_all, first, dot_seq)
    dot = table.dot.copy() if len(front.row) or len(table.channel.row) else table.dot
    dot[front.row] = np.arange(len(front.row), dtype=np.int32)
    channels, dot_channel, front_channel = _channels(table, def_row, front.row, dot)
    front_start, front_dot, front_unsent = _frontiers(table, front, front_all, before)
    own, seq_before = _own_entries(table, front, front_all, first, before)
    tag_start, tag_dot, tag_state = _tags(table, tags, before)
    owner = _nodes_of(table, table.evict.row)
    facts = RunFacts(
        node_start=table.node_start, kind=table.kind, dot=dot, sent=sent,
        dot_node=node_of_name[dot_name], dot_name=dot_name, dot_seq=dot_seq, before=before.view(np.uint8),
        def_row=def_row, def_node=_nodes_of(table, def_row).astype(np.int32),
        restricted=np.where(dot_channel >= 0, 1, restricted).astype(np.uint8), dest_start=dest_start,
        dest_node=dest_node, channels=channels, dot_channel=dot_channel, front_channel=front_channel,
        front_start=front_start, front_dot=front_dot, front_own=own, seq_before=seq_before,
        tag_row=tags.row, tag_start=tag_start, tag_dot=tag_dot, tag_state=tag_state,
        evict_start=np.searchsorted(owner, np.arange(len(table.nodes) + 1)),
        evict_name=table.evict.origin.astype(np.int32), evict_seq=table.evict.seq,
    )  # fmt: skip
    return ResolvedRun(table, facts, front_unsent)


def _nodes_of(table: Table, rows: I64) -> I64:
    return np.searchsorted(table.node_start, rows, side="right") - 1


def _definitions(table: Table) -> I64:
    """The send row that defines each message: the one with the smallest (position, node)."""
    rows = np.flatnonzero(table.kind == SEND)
    dots = table.dot[rows]
    defining = np.empty(len(table.sent.seq), np.int64)
    if len(rows) > len(defining):
        # Assignment keeps the last, so the order is turned round; rows are in node order already.
        order = np.lexsort((-rows, -table.pos[rows]))
        rows, dots = rows[order], dots[order]
    defining[dots] = rows
    return defining


def _destinations(table: Table, def_row: I64, node_of_name: I32) -> tuple[U8, I64, I32]:
    sent = len(def_row)
    restricted = np.zeros(sent, np.uint8)
    if not len(table.dest.row):
        return restricted, np.zeros(1, np.int64), np.zeros(0, np.int32)  # nothing asks where they begin
    dots = table.dot[table.dest.row]
    used = (def_row[dots] == table.dest.row) & (table.dest.length > 0)
    restricted[dots[used]] = 1
    begin = starts(table.dest.length)[:-1]
    order = np.flatnonzero(used)[np.argsort(dots[used], kind="stable")]
    length = np.zeros(sent, np.int64)
    length[dots[order]] = table.dest.length[order]
    node = node_of_name[table.dest.origin[ranges(begin[order], table.dest.length[order])]]
    return restricted, starts(length), node


def _channels(table: Table, def_row: I64, front_row: I64, dot: I32) -> tuple[int, I32, I32]:
    """How many channels there are, and those of messages and of states. What an unsubscribe row is about is
    its channel."""
    dot_channel, front_channel = np.full(len(def_row), -1, np.int32), np.full(len(front_row), -1, np.int32)
    rows = table.channel.row
    if not len(rows):
        return 0, dot_channel, front_channel
    found, channel = np.unique(table.channel.origin, return_inverse=True)
    kinds = table.kind[rows]
    sends = np.flatnonzero(kinds == SEND)
    sends = sends[def_row[table.dot[rows[sends]]] == rows[sends]]
    dot_channel[table.dot[rows[sends]]] = channel[sends]
    joins = kinds == SUBSCRIBE
    front_channel[np.searchsorted(front_row, rows[joins])] = channel[joins]
    leaves = kinds == UNSUBSCRIBE
    dot[rows[leaves]] = channel[leaves]
    return len(found), dot_channel, front_channel


def _pick(said: Said, wanted: Bools) -> Said:
    if wanted.all():
        return said
    index = ranges(starts(said.length)[:-1][wanted], said.length[wanted])
    return Said(said.row[wanted], said.length[wanted], said.origin[index], said.seq[index])


def _with_empty(said: Said, rows: I64) -> Said:
    if len(rows) == len(said.row):
        return said
    length = np.zeros(len(rows), np.int64)
    length[np.searchsorted(rows, said.row)] = said.length
    return said._replace(row=rows, length=length)


def _is_first(table: Table, rows: I64) -> Bools:
    """Whether each row is its node's first but for starts."""
    first = np.zeros(len(rows), bool)
    for k, row in enumerate(rows.tolist()):
        begin = int(table.node_start[np.searchsorted(table.node_start, row, side="right") - 1])
        first[k] = row == begin or (table.kind[row - 1] == START and (table.kind[begin:row] == START).all())
    return first


def _before(table: Table, front: Said, dots: I64, first: Bools, dot_seq: I64) -> Bools:
    """Messages without send up to what a node that starts midway names: they are from before the trace."""
    sent = len(table.sent.seq)
    before = np.zeros(len(dot_seq), bool)
    opening = np.repeat(first, front.length) & (dots >= sent) & (front.seq > 0)
    if opening.any():
        known = np.full(len(table.names), -1, np.int64)
        np.maximum.at(known, front.origin[opening], front.seq[opening])
        before[sent:] = table.unsent.seq <= known[table.unsent.origin]
    return before


def _frontiers(table: Table, front: Said, dots: I64, before: Bools) -> tuple[I64, I32, list[tuple[int, int]]]:
    """The sent messages that each frontier stands for; an unsent entry stands for its origin's up to it."""
    begin = starts(front.length)
    sent = len(table.sent.seq)
    plain = (front.seq > 0) & (dots < sent)
    odd = np.flatnonzero((front.seq > 0) & (dots >= sent) & ~before[dots])
    list_of = np.repeat(np.arange(len(front.row)), front.length)
    owner, values = [list_of[plain]], [dots[plain]]
    unsent = []
    for entry in odd.tolist():
        origin = front.origin[entry]
        low, high = table.sent.start[origin], table.sent.start[origin + 1]
        high = low + np.searchsorted(table.sent.seq[low:high], front.seq[entry], side="right")
        values.append(np.arange(low, high))
        owner.append(np.full(high - low, list_of[entry]))
        unsent.append((int(front.row[list_of[entry]]), int(dots[entry])))
    who, what = np.concatenate(owner), np.concatenate(values)
    order = np.lexsort((what, who))
    return starts(np.bincount(who, minlength=len(begin) - 1)), what[order].astype(np.int32), unsent


def _own_entries(table: Table, front: Said, dots: I64, first: Bools, before: Bools) -> tuple[I32, I64]:
    """Each frontier's own entry as the node's previous send, and counters that nodes start midway with."""
    own = np.full(len(front.row), NONE, np.int32)
    seq_before = np.zeros(len(table.nodes), np.int64)
    owner = _nodes_of(table, front.row)
    begin = starts(front.length)
    for k in range(len(front.row)):
        mine = np.flatnonzero(front.origin[begin[k] : begin[k + 1]] == table.nodes[owner[k]]) + begin[k]
        if not len(mine):
            continue
        entry = mine[np.argmax(front.seq[mine])]
        if front.seq[entry] == 0:
            continue
        if first[k]:
            seq_before[owner[k]] = front.seq[entry]
        if dots[entry] < len(table.sent.seq):
            own[k] = dots[entry]
        elif before[dots[entry]]:
            own[k] = BEFORE
    install = table.kind[front.row] != RESTART
    own[install & ~(first & (own == BEFORE))] = KEEP
    return own, seq_before


def _tags(table: Table, tags: Said, before: Bools) -> tuple[I64, I32, U8]:
    dots = table.number(tags.origin, tags.seq)
    begin = starts(tags.length)
    state = np.full(len(tags.row), OPEN, np.uint8)
    odd = np.flatnonzero((dots >= len(table.sent.seq)) & (tags.seq > 0))
    list_of = np.searchsorted(begin, odd, side="right") - 1
    state[list_of] = WRONG
    state[list_of[before[dots[odd]]]] = PASSED
    dots[tags.seq == 0] = -1
    return begin, dots.astype(np.int32), state
