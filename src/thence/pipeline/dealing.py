"""Kernels that put rows in order by counting: mostly each node's rows come in their order, among others'."""

from typing import Any, Final

import numpy as np

from thence.pipeline.jit import kernel
from thence.pipeline.rows import I32, I64, U8

IN_ORDER: Final = 0
BY_NODE: Final = 1
"""Each node's rows are in order, but not node by node."""
MIXED: Final = 2


@kernel
def survey(scope: I32, rank: I32, node: I32, pos: I64, counts: I64) -> int:
    """Count the rows of each (scope, rank of its node); in which order they are."""
    last = np.full(len(counts), -1, np.int64)
    before, found = -1, IN_ORDER
    for row in range(len(node)):
        key = scope[row] * len(rank) + rank[node[row]]
        if key < before and found == IN_ORDER:
            found = BY_NODE
        if pos[row] < last[key]:
            found = MIXED
        before, last[key] = key, pos[row]
        counts[key] += 1
    return found


@kernel
def deal(
    scope: I32, rank: I32, node: I32, pos: I64, kind: U8, origin: I32, seq: I64, needs_dot: Any, starts: I64,
    place: I32, scope_out: I32, node_out: I32, pos_out: I64, kind_out: U8, origin_out: I32, seq_out: I64,
) -> None:  # fmt: skip
    """Each row to its place: `starts` has the next one of each (scope, rank). Rows that are about no message
    get their node and 0."""
    for row in range(len(node)):
        key = scope[row] * len(rank) + rank[node[row]]
        at = starts[key]
        starts[key] = at + 1
        place[row] = at
        scope_out[at], node_out[at], pos_out[at], kind_out[at] = scope[row], node[row], pos[row], kind[row]
        if needs_dot[kind[row]]:
            origin_out[at], seq_out[at] = origin[row], seq[row]
        else:
            origin_out[at], seq_out[at] = node[row], 0
