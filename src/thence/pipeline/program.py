"""Holdings order: which operations a message brings, and where each stands in its process's program.

An operation is named by a message, so it has that message's number. Its *place* puts all operations of the
run in order, process by process and each by incarnation and counter. A node has overtaken an operation if the
largest place that it holds of that process is beyond the operation's.

A block of columns knows what nodes send and deliver, but of a state only its own messages. So where there are
several blocks, each tells which operations it thinks were overtaken, and which ones it knows were held.
"""

from typing import NamedTuple

import numpy as np

from thence.pipeline.jit import inlined
from thence.pipeline.pack import ranges
from thence.pipeline.resolve import ResolvedRun, starts
from thence.pipeline.rows import I32, I64, U8
from thence.pipeline.schedule import grown
from thence.pipeline.single import holds


class ProgramOrder(NamedTuple):
    """Of the whole run."""

    process: I32
    place: I32  # from 1; the same for two in the same place of a program
    at: I64  # an operation with that place
    carrier: U8  # messages that bring others and not themselves; empty if there are none
    carry_start: I64
    carry_dot: I32


class Holdings(NamedTuple):
    """What nodes hold while the pass is under way. `top`: the largest place by node and lane; `got`: a bit
    per node and operation, where a message may bring others than itself."""

    place: I32
    lane: I32  # of an operation's process, -1 if all that is known of it is known to other blocks
    carrier: U8
    carry_start: I64
    carry_dot: I32
    top: I32
    got: U8


def number(run: ResolvedRun) -> ProgramOrder:
    """Put the run's operations in order."""
    table, names, seq = run.table, run.facts.dot_name, run.facts.dot_seq
    carrier, start, carried = _carried(run)
    if table.process is None or table.incarnation is None:
        # Messages are numbered by origin and counter; those without send count only where they are carried.
        own, life = names, np.ones(len(names), np.int64)
        if not len(carrier):
            place = np.arange(1, len(names) + 1, dtype=np.int32)
            return ProgramOrder(own, place, np.arange(-1, len(names)), carrier, start, carried)
    else:
        own, life = table.process[names].astype(np.int32), table.incarnation[names]
    order = np.lexsort((seq, life, own))
    fresh = np.zeros(len(order), bool)
    fresh[:1] = True
    for key in (own[order], life[order], seq[order]):
        fresh[1:] |= key[1:] != key[:-1]
    place = np.empty(len(order), np.int32)
    place[order] = np.cumsum(fresh)
    at = np.concatenate([[-1], order[fresh]])
    return ProgramOrder(own, place, at, carrier, start, carried)


def _carried(run: ResolvedRun) -> tuple[U8, I64, I32]:
    """The operations that messages carry, by message, as their first sends have it."""
    said, facts = run.table.carries, run.facts
    none = np.zeros(0, np.uint8), np.zeros(1, np.int64), np.zeros(0, np.int32)
    if not len(said.row):
        return none
    dots = run.table.dot[said.row]
    used = np.flatnonzero((facts.def_row[dots] == said.row) & (said.length > 0))
    used = used[np.argsort(dots[used], kind="stable")]
    if not len(used):
        return none
    carrier = np.zeros(facts.sent, np.uint8)
    carrier[dots[used]] = 1
    entry = ranges(starts(said.length)[:-1][used], said.length[used])
    carried = run.table.number(said.origin[entry], said.seq[entry])
    owner = np.repeat(dots[used], said.length[used])
    known = (said.seq[entry] > 0) & (facts.before[carried] == 0)
    lengths = np.bincount(owner[known], minlength=facts.sent)
    return carrier, starts(lengths), carried[known].astype(np.int32)


def program(operations: ProgramOrder, owned: U8, nodes: int) -> Holdings:
    """What a block keeps: the processes of which its own messages bring operations."""
    some = np.flatnonzero(owned)
    plain, carried = some, np.zeros(0, np.int64)
    if len(operations.carrier):
        plain = some[operations.carrier[some] == 0]
        begin = operations.carry_start[:-1][some]
        carried = operations.carry_dot[ranges(begin, operations.carry_start[1:][some] - begin)]
    mine = np.unique(operations.process[np.concatenate([plain, carried])])
    lane = np.full(int(operations.process.max(initial=-1)) + 1, -1, np.int32)
    lane[mine] = np.arange(len(mine), dtype=np.int32)
    width = (len(operations.place) + 7) // 8 if len(operations.carrier) else 0
    return Holdings(
        operations.place, lane[operations.process], operations.carrier, operations.carry_start,
        operations.carry_dot, np.zeros((nodes, len(mine)), np.int32), np.zeros((nodes, width), np.uint8),
    )  # fmt: skip


@inlined
def _take(program: Holdings, node: int, operation: int) -> None:
    lane = program.lane[operation]
    if lane >= 0:
        program.top[node, lane] = max(program.top[node, lane], program.place[operation])
    if len(program.carrier):
        program.got[node, operation >> 3] |= np.uint8(1 << (operation & 7))


@inlined
def bring(program: Holdings, node: int, dot: int) -> None:
    """The node holds the message, and thereby what it brings."""
    if len(program.carrier) == 0 or program.carrier[dot] == 0:
        _take(program, node, dot)
    else:
        for k in range(program.carry_start[dot], program.carry_start[dot + 1]):
            _take(program, node, program.carry_dot[k])


@inlined
def _weigh(
    program: Holdings, node: int, operation: int, held: bool, shared: bool, row: int, seen: I64, used: int
) -> tuple[I64, int]:
    """Note an operation that comes too late, with the largest place held; or with 0 that it is held."""
    lane, top = program.lane[operation], 0
    if not held and lane >= 0:
        top = program.top[node, lane]
    if (held and shared) or top > program.place[operation]:
        seen = grown(seen, used)
        seen[used], seen[used + 1], seen[used + 2] = row, operation, top
        used += 3
    return seen, used


@inlined
def weigh(
    program: Holdings, node: int, dot: int, held: bool, shared: bool, row: int, seen: I64, used: int
) -> tuple[I64, int]:
    """Judge a delivery: triples of row, operation and place go to `seen`. `shared`: with other blocks."""
    if len(program.carrier) == 0:
        return _weigh(program, node, dot, held, shared, row, seen, used)
    first, end = program.carry_start[dot], program.carry_start[dot + 1]
    own = program.carrier[dot] == 0
    if own:
        first, end = 0, 1
    for k in range(first, end):
        operation = dot if own else program.carry_dot[k]
        known = held or holds(program.got, node, operation)
        seen, used = _weigh(program, node, operation, known, shared, row, seen, used)
    return seen, used
