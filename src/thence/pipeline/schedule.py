"""An order in which all rows can be worked through, and the rows for which there is none.

A delivery can be worked through once the message's send has been; an install or restart once the sends of
all messages that its frontier stands for have been. Each node's rows go in their own order. When nothing
can move, some nodes wait for each other in a circle; the rows at which they wait are *broken*: they are
worked through all the same, with the messages not yet sent taken to have nothing in their past. Nodes
that merely wait for a circle go on waiting.

The result is a list of stretches (node, from row, to row) and the broken rows with their messages.
"""

from typing import Final, NamedTuple

import numpy as np

from thence.pipeline.jit import inlined, kernel
from thence.pipeline.resolve import RunFacts
from thence.pipeline.rows import DELIVER, I32, I64, INSTALL, RESTART, SEND, SUBSCRIBE

FREE: Final = -1


class WaitingGraph(NamedTuple):
    """What nodes wait for. Waiters of a message form a linked list; nodes that can move stand in a ring."""

    done: I64  # each node's next row
    message: I64  # what a node waits for
    first: I32  # of a message's waiters
    after: I32  # the next waiter for the same message
    ready: I32
    ring: I64  # where the ring begins, how many stand in it


@inlined
def grown(values: I64, used: int) -> I64:
    """The array, with room for at least three more."""
    if used + 3 <= len(values):
        return values
    larger = np.empty(2 * len(values) + 16, np.int64)
    larger[: len(values)] = values
    return larger


@inlined
def _enqueue(state: WaitingGraph, node: int) -> None:
    state.ready[(state.ring[0] + state.ring[1]) % len(state.ready)] = node
    state.ring[1] += 1
    state.message[node] = FREE


@inlined
def _is_sent(facts: RunFacts, state: WaitingGraph, dot: int) -> bool:
    return bool(facts.def_row[dot] < state.done[facts.def_node[dot]])


@inlined
def _awaited(facts: RunFacts, state: WaitingGraph, row: int) -> int:
    """The smallest message that an install or restart waits for."""
    dot = facts.dot[row]
    for k in range(facts.front_start[dot], facts.front_start[dot + 1]):
        if not _is_sent(facts, state, facts.front_dot[k]):
            return int(facts.front_dot[k])
    return FREE


@inlined
def _wake(state: WaitingGraph, dot: int) -> None:
    """The message is sent: nodes that wait for it can move."""
    other = state.first[dot]
    state.first[dot] = FREE
    while other != FREE:
        _enqueue(state, other)
        other = state.after[other]


@inlined
def _advance(facts: RunFacts, state: WaitingGraph, node: int) -> int:
    """Work through a node's rows until it must wait or is done; the row where it stopped."""
    # Taken out of the tuples once: each access to them counts references, which the usual row must not.
    kinds, dots, sent = facts.kind, facts.dot, facts.sent
    def_row, def_node, done = facts.def_row, facts.def_node, state.done
    row, end = done[node], facts.node_start[node + 1]
    while row < end:
        what, dot = kinds[row], dots[row]
        if what == DELIVER:
            awaited = dot if dot < sent and def_row[dot] >= done[def_node[dot]] else FREE
        else:
            awaited = _awaited(facts, state, row) if what in (INSTALL, RESTART, SUBSCRIBE) else FREE
        if awaited != FREE:
            state.message[node] = awaited
            state.after[node] = state.first[awaited]
            state.first[awaited] = node
            break
        row += 1
        done[node] = row
        if what == SEND and def_row[dot] == row - 1:
            _wake(state, dot)
    return int(row)


@inlined
def _circles(facts: RunFacts, state: WaitingGraph, on_circle: I32) -> None:
    """Mark the nodes that wait for each other. Each waits for one send: follow that until it closes."""
    seen = np.zeros(len(state.done), np.int32)
    for begin in range(len(state.done)):
        if state.message[begin] == FREE or seen[begin] != 0:
            continue
        node = begin
        while seen[node] == 0:
            seen[node] = begin + 1
            node = facts.def_node[state.message[node]]
        if seen[node] == begin + 1:
            while on_circle[node] == 0:
                on_circle[node] = 1
                node = facts.def_node[state.message[node]]


@inlined
def _leave_list(state: WaitingGraph, node: int) -> None:
    """Take a node out of the list of those that wait for its message."""
    dot = state.message[node]
    other = state.first[dot]
    if other == node:
        state.first[dot] = state.after[node]
        return
    while state.after[other] != node:
        other = state.after[other]
    state.after[other] = state.after[node]


@kernel
def schedule(facts: RunFacts) -> tuple[I64, I64, I64]:
    """Stretches as (node, from, to), laid end to end; broken rows and their messages, pairwise."""
    nodes = len(facts.node_start) - 1
    state = WaitingGraph(
        facts.node_start[:-1].copy(), np.full(nodes, FREE, np.int64), np.full(facts.sent, FREE, np.int32),
        np.full(nodes, FREE, np.int32), np.arange(nodes).astype(np.int32), np.array([0, nodes]),
    )  # fmt: skip
    stretches, used = np.empty(3 * nodes + 16, np.int64), 0
    rows, dots, broken = np.empty(16, np.int64), np.empty(16, np.int64), 0
    remaining = nodes
    while True:
        while state.ring[1] > 0:
            node = state.ready[state.ring[0]]
            state.ring[0] = (state.ring[0] + 1) % nodes
            state.ring[1] -= 1
            begin = state.done[node]
            end = _advance(facts, state, node)
            remaining -= end == facts.node_start[node + 1]
            if end > begin:
                stretches = grown(stretches, used)
                stretches[used], stretches[used + 1], stretches[used + 2] = node, begin, end
                used += 3
        if remaining == 0:
            return stretches[:used], rows[:broken], dots[:broken]
        on_circle = np.zeros(nodes, np.int32)
        _circles(facts, state, on_circle)
        for node in range(nodes):  # note what is missing before anything moves
            if not on_circle[node]:
                continue
            row = state.done[node]
            what, dot = facts.kind[row], facts.dot[row]
            first, last = (0, 1) if what == DELIVER else (facts.front_start[dot], facts.front_start[dot + 1])
            for k in range(first, last):
                named = dot if what == DELIVER else facts.front_dot[k]
                if not _is_sent(facts, state, named):
                    rows, dots = grown(rows, broken), grown(dots, broken)
                    rows[broken], dots[broken] = row, named
                    broken += 1
        for node in range(nodes):
            if not on_circle[node]:
                continue
            stretches = grown(stretches, used)
            stretches[used], stretches[used + 1] = node, state.done[node]
            stretches[used + 2] = state.done[node] + 1
            used += 3
            state.done[node] += 1
            _leave_list(state, node)
            _enqueue(state, node)
