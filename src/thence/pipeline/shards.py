"""A large run, cut by its nodes: a *shard* is judged by a task that has the rows of its own nodes, and of all
others only what they sent and which states they took. So memory falls with the number of shards.

What a shard lacks are the pasts of messages that others sent. They are found in rounds. In the first, each
shard tells of its messages what their senders had sent and delivered themselves (`direct`). In every later
one it works through its rows with the pasts that are known so far, and tells those that turned out to be
larger. When none did, all are exact: pasts grow from below to the smallest ones that agree with all rows,
which is the transitive closure. A run in which every delivery is in causal order needs no round but the
first, since what a sender holds is then the past of what it sends.

Deliveries that wait for each other in a circle have no such pasts. A message on a circle comes to be in its
own past; such a run is judged whole (`columns` has the blocks for it). Where there are `restart` rows a
circle may lead through what a node has forgotten, which pasts do not show. So there a second matrix grows
beside the pasts, in the same rounds: the *lineage* of a message is its past as if no node ever forgot
anything. Rows wait for each other in a circle exactly if some message comes to be in its own lineage: a
node's rows go in order, whatever a restart has made of what it knows.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from thence.pipeline.assemble import Said, Table
from thence.pipeline.columns import Block, Columns
from thence.pipeline.jit import inlined, kernel
from thence.pipeline.pack import COMMON, WHOLE, Chunk, bucket_of, is_common, ranges, unpack
from thence.pipeline.resolve import ResolvedRun, RunFacts, starts
from thence.pipeline.rows import DELIVER, I32, I64, INSTALL, RESTART, SEND, SUBSCRIBE, Lists
from thence.pipeline.widths import narrow, view

ROWS_AT_ONCE: Final = 1 << 14

Packed = tuple[str, memoryview]


class Shard(NamedTuple):
    """Which nodes are judged here: those whose buckets are."""

    number: int
    shards: int
    own: frozenset[int]
    buckets: int

    def has(self, name: str) -> bool:
        return bucket_of(name, self.buckets) in self.own


class Payload(NamedTuple):
    """A packed piece, and the bucket that it is of."""

    bucket: int
    binary: Any


def chunks_of(payloads: Iterable[Payload], shard: Shard | None) -> Iterator[Chunk]:
    """What the shard has to know of these pieces."""
    for bucket, binary in payloads:
        chunk = unpack(binary)
        if shard is not None and bucket in (WHOLE, COMMON):
            chunk = _only(chunk, shard, common=bucket == COMMON)
        if len(chunk.nodes) or len(chunk.lives[0]):
            yield chunk


def _only(chunk: Chunk, shard: Shard, *, common: bool) -> Chunk:
    """Own rows, and of others what has to be known; a common piece repeats own rows, which are elsewhere."""
    own = np.repeat([shard.has(chunk.names[code]) for code in chunk.nodes.tolist()], chunk.counts)
    owner = np.repeat(np.arange(len(chunk.nodes)), chunk.counts)
    keep = ~own if common else own | is_common(chunk.kind, owner)
    tells = keep & (own | (chunk.kind != SEND))  # a tag is judged where its sender is
    owner = owner[keep]
    counts = np.bincount(owner, minlength=len(chunk.nodes))
    there = np.flatnonzero(counts)
    pos = chunk.positions()[keep]
    begins = np.cumsum(counts[there]) - counts[there]
    step = np.diff(pos, prepend=0)
    step[begins] = 0
    place = np.cumsum(keep) - 1
    return Chunk(
        chunk.names, chunk.nodes[there], counts[there], pos[begins], step, chunk.kind[keep],
        chunk.origin[keep], chunk.seq[keep], _kept(chunk.deps, tells, place), _kept(chunk.dest, keep, place),
        _kept(chunk.carries, keep, place), _kept(chunk.channel, keep, place), chunk.lives,
    )  # fmt: skip


def _kept(lists: Lists, keep: Any, place: I64) -> Lists:
    chosen = keep[lists.row]
    index = ranges((np.cumsum(lists.length) - lists.length)[chosen], lists.length[chosen])
    seq = lists.seq[index] if len(lists.seq) else lists.seq
    return Lists(place[lists.row[chosen]], lists.length[chosen], lists.name[index], seq)


def compact(run: ResolvedRun, columns: Columns, shard: Shard) -> tuple[ResolvedRun, Columns] | None:
    """The run with the rows of own nodes alone; messages and columns stay those of the whole run. None if no
    node of it is here."""
    table, facts = run.table, run.facts
    own = np.flatnonzero([shard.has(table.names[code]) for code in table.nodes.tolist()])
    if not len(own):
        return None
    begins, ends = table.node_start[own], table.node_start[own + 1]
    node_start = starts(ends - begins)
    shift = np.full(len(table.nodes), -1, np.int64)
    shift[own] = node_start[:-1] - begins
    is_own = np.zeros(len(table.nodes), bool)
    is_own[own] = True

    def here(rows: I64) -> I64:
        """Where rows of the run are in the shard; -1: they are not."""
        node = np.searchsorted(table.node_start, rows, side="right") - 1
        return np.where(is_own[node], rows + shift[node], -1)

    def kept(column: Any) -> Any:
        return np.concatenate([column[a:b] for a, b in zip(begins.tolist(), ends.tolist(), strict=True)])

    node_here = np.full(len(table.nodes) + 1, -1, np.int32)  # the last place stands for none
    node_here[own] = np.arange(len(own), dtype=np.int32)
    def_row, tag_row = here(facts.def_row), here(facts.tag_row)
    tags = tag_row >= 0
    lengths = np.diff(facts.tag_start)[tags]
    evicts = np.diff(facts.evict_start)[own]
    evict = ranges(facts.evict_start[own], evicts)
    mine = facts._replace(
        node_start=node_start, kind=kept(facts.kind), dot=kept(facts.dot),
        dot_node=node_here[facts.dot_node], def_row=def_row,
        # What others sent counts as sent from the beginning: a row that no node waits for.
        def_node=np.where(def_row < 0, np.int32(0), node_here[facts.def_node]),
        dest_node=node_here[facts.dest_node], seq_before=facts.seq_before[own],
        tag_row=tag_row[tags], tag_start=starts(lengths),
        tag_dot=facts.tag_dot[ranges(facts.tag_start[:-1][tags], lengths)], tag_state=facts.tag_state[tags],
        evict_start=starts(evicts), evict_name=facts.evict_name[evict], evict_seq=facts.evict_seq[evict],
    )  # fmt: skip
    none = Said(*(np.zeros(0, np.int64) for _ in range(4)))
    small = table._replace(
        nodes=table.nodes[own], node_start=node_start, kind=mine.kind, pos=kept(table.pos),
        dot=mine.dot if facts.dot is table.dot else kept(table.dot),
        deps=none, dest=none, evict=none, carries=none, channel=none,
    )  # fmt: skip
    unsent = here(np.array([row for row, _ in run.front_unsent], np.int64)).tolist()
    named = [(row, dot) for row, (_, dot) in zip(unsent, run.front_unsent, strict=True) if row >= 0]
    epochs = np.append(columns.epoch_start[own], columns.epoch_start[-1])
    found = ResolvedRun(small, mine, named, _elsewhere(run, table, mine))
    return found, columns._replace(epoch_start=epochs)


def _elsewhere(run: ResolvedRun, table: Table, mine: RunFacts) -> dict[int, tuple[str, int]]:
    dots = np.unique(mine.dot[mine.kind == SEND])
    first = run.facts.def_row[dots[mine.def_row[dots] < 0]].tolist()
    return {int(run.facts.dot[row]): (run.node_name(run.node_of(row)), int(table.pos[row])) for row in first}


def defined(facts: RunFacts) -> I64:
    """The messages that are first sent here, in the order of their rows."""
    rows = np.flatnonzero(facts.kind == SEND)
    dots = facts.dot[rows]
    first: I64 = dots[facts.def_row[dots] == rows].astype(np.int64)
    return first


def forgets(run: ResolvedRun) -> bool:
    """Whether pasts do not show everything that rows wait for; each shard of a run says the same."""
    return bool((run.table.kind == RESTART).any())


@kernel
def direct(facts: RunFacts, columns: Columns, block: Block, forget: bool, out: I32) -> None:
    """Of each message that is first sent here what its sender sent, delivered or got by a state before, up to
    what it has forgotten since."""
    knows = np.zeros(len(block.columns), np.int32)
    kinds, dots, sent, local = facts.kind, facts.dot, facts.sent, block.local
    dot_column, dot_index = columns.dot_column, columns.dot_index
    told = 0
    for node in range(len(facts.node_start) - 1):
        knows[:] = 0
        epoch, size = columns.epoch_start[node], 0
        for row in range(facts.node_start[node], facts.node_start[node + 1]):
            what, dot = kinds[row], dots[row]
            if what == DELIVER and dot < sent:
                column = local[dot_column[dot]]
                if column >= 0:
                    knows[column] = max(knows[column], dot_index[dot])
            elif what == SEND:
                if facts.def_row[dot] == row:
                    out[told] = knows
                    told += 1
                size += 1
                column = local[columns.epoch_column[epoch]]
                if column >= 0:
                    knows[column] = max(knows[column], size)
            elif what in (INSTALL, RESTART, SUBSCRIBE):
                if what == RESTART:
                    epoch, size = epoch + 1, 0
                    if forget:
                        knows[:] = 0
                for k in range(facts.front_start[dot], facts.front_start[dot + 1]):
                    column = local[dot_column[facts.front_dot[k]]]
                    if column >= 0:
                        knows[column] = max(knows[column], dot_index[facts.front_dot[k]])


@inlined
def _join(columns: Columns, block: Block, lineage: I32, knows: I32, dot: int) -> None:
    for c in range(len(knows)):
        knows[c] = max(knows[c], lineage[dot, c])
    column = block.local[columns.dot_column[dot]]
    if column >= 0:
        knows[column] = max(knows[column], columns.dot_index[dot])


@kernel
def trace_back(facts: RunFacts, columns: Columns, block: Block, stretches: I64, lineage: I32) -> int:
    """Work out the lineages of what is first sent here, from those that are known; how many were others."""
    nodes, width = len(facts.node_start) - 1, len(block.columns)
    knows = np.zeros((nodes, width), np.int32)
    epoch, size = columns.epoch_start[:-1].copy(), np.zeros(nodes, np.int32)
    kinds, dots, sent, changed = facts.kind, facts.dot, facts.sent, 0
    for s in range(0, len(stretches), 3):
        node = stretches[s]
        for row in range(stretches[s + 1], stretches[s + 2]):
            what, dot = kinds[row], dots[row]
            if what == DELIVER and dot < sent:
                _join(columns, block, lineage, knows[node], dot)
            elif what == SEND:
                if facts.def_row[dot] == row:
                    for c in range(width):
                        if lineage[dot, c] != knows[node, c]:
                            lineage[dot] = knows[node]
                            changed += 1
                            break
                size[node] += 1
                column = block.local[columns.epoch_column[epoch[node]]]
                if column >= 0:
                    knows[node, column] = max(knows[node, column], size[node])
            elif what in (INSTALL, RESTART, SUBSCRIBE):
                if what == RESTART:
                    epoch[node] += 1
                    size[node] = 0
                for k in range(facts.front_start[dot], facts.front_start[dot + 1]):
                    _join(columns, block, lineage, knows[node], facts.front_dot[k])
    return changed


class _PastSheet(msgspec.Struct, array_like=True, frozen=True):
    """Pasts of messages in the order of a shard's rows: a node's first as it is, then steps."""

    dots: Packed
    head: Packed
    heads: Packed
    steps: Packed


class _Sheets(msgspec.Struct, array_like=True, frozen=True):
    past: _PastSheet
    lineage: _PastSheet | None


def tell(facts: RunFacts, dots: I64, past: I32, lineage: I32 | None) -> bytes:
    """The pasts of the messages that are first sent here, and their lineages where these are others."""
    told = None if lineage is None else _sheet(facts, dots, lineage)
    return msgspec.msgpack.encode(_Sheets(_sheet(facts, dots, past), told))


def _sheet(facts: RunFacts, dots: I64, past: I32) -> _PastSheet:
    node = facts.def_node[dots]
    head = np.ones(len(dots), bool)
    head[1:] = node[1:] != node[:-1]
    steps = np.diff(past, axis=0, prepend=np.zeros((1, past.shape[1]), np.int32))
    steps[head] = 0
    # A restart takes a node's knowledge back: such a step starts from nothing, as a node's first does.
    back = (steps < 0).any(axis=1)
    head |= back
    steps[back] = 0
    return _PastSheet(
        narrow(dots), narrow(np.flatnonzero(head)), narrow(past[head].reshape(-1)), narrow(steps.reshape(-1))
    )


def learn(told: Sequence[Any], past: I32, lineage: I32 | None) -> None:
    """Write down what shards told; of two that tell of a message the later one is right."""
    for binary in told:
        sheets = msgspec.msgpack.decode(binary, type=_Sheets)
        _copy(sheets.past, past)
        if sheets.lineage is not None and lineage is not None:
            _copy(sheets.lineage, lineage)


def _copy(sheet: _PastSheet, past: I32) -> None:
    width = past.shape[1]
    dots, head = view(sheet.dots).astype(np.int64), view(sheet.head).astype(np.int64)
    heads = view(sheet.heads).astype(np.int32).reshape(len(head), width)
    steps = view(sheet.steps).reshape(len(dots), width)
    is_head = np.full(len(dots), -1, np.int64)
    is_head[head] = np.arange(len(head))
    row = np.zeros(width, np.int32)
    for first in range(0, len(dots), ROWS_AT_ONCE):
        some = slice(first, first + ROWS_AT_ONCE)
        _write(dots[some], is_head[some], heads, steps[some].astype(np.int32), row, past)


@kernel
def _write(dots: I64, is_head: I64, heads: I32, steps: I32, row: I32, past: I32) -> None:
    for k in range(len(dots)):
        if is_head[k] >= 0:
            row[:] = heads[is_head[k]]
        else:
            row += steps[k]
        past[dots[k]] = row


def on_circle(columns: Columns, block: Block, dots: I64, past: I32) -> bool:
    """Whether one of these messages has come to be in its own past, or lineage."""
    column = block.local[columns.dot_column[dots]]
    here = np.flatnonzero(column >= 0)
    return bool((past[dots[here], column[here]] >= columns.dot_index[dots[here]]).any())
