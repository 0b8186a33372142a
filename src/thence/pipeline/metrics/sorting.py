"""Kernels that sort and count whole numbers in linear time: millions of latencies, thousands of keys."""

from typing import Any, Final

import numpy as np

from thence.pipeline.jit import kernel
from thence.pipeline.kernels import find_dot
from thence.pipeline.rows import I32, I64, U8

DIGIT_BITS: Final = 11
DIGITS: Final = 1 << DIGIT_BITS


@kernel
def pass_over(values: I64, index: I64, shift: int, out: I64) -> None:
    """One pass of a radix sort: `index` by a digit of the values that it points to, stably."""
    starts = np.zeros(DIGITS + 1, np.int64)
    for k in range(len(index)):
        starts[((values[index[k]] >> shift) & (DIGITS - 1)) + 1] += 1
    for digit in range(DIGITS):
        starts[digit + 1] += starts[digit]
    for k in range(len(index)):
        digit = (values[index[k]] >> shift) & (DIGITS - 1)
        out[starts[digit]] = index[k]
        starts[digit] += 1


def slim(values: I64) -> I64:
    """In 32 bits if they fit: half of the memory to jump about in."""
    if values.dtype == np.int32 or (len(values) and int(values.max()) >= 1 << 31):
        return values
    return values.astype(np.int32)


def sorted_order(values: I64) -> I64:
    """The places of values from 0 on, smallest value first; equal ones in the order of their places."""
    index = np.arange(len(values), dtype=np.int32)
    other = np.empty_like(index)
    top = int(values.max()) if len(values) else 0
    values = slim(values)
    shift = 0
    while top >> shift:
        pass_over(values, index, shift, other)
        index, other = other, index
        shift += DIGIT_BITS
    return index


@kernel
def deal(values: I64, keys: I64, starts: I64, out: I64) -> None:
    """Each value to its key's heap. `starts` says where heaps begin, and afterwards where they end."""
    for k in range(len(values)):
        key = keys[k]
        out[starts[key]] = values[k]
        starts[key] += 1


@kernel
def count_keys(keys: I64, counts: I64) -> None:
    for k in range(len(keys)):
        counts[keys[k]] += 1


def heaps(values: I64, keys: I64, size: int, *, in_order: bool = True) -> tuple[I64, I64]:
    """Values heap by heap, each sorted, and where each of the `size` heaps begins.

    Dealt first and sorted then: heaps are read and written in their order, and fit into caches one by one.
    `in_order`: else a heap's values stay in the order that they came in.
    """
    bounds = np.zeros(size + 1, np.int64)
    keys = slim(keys)
    count_keys(keys, bounds[1:])
    np.cumsum(bounds, out=bounds)
    out = np.empty(len(values), values.dtype)
    deal(values, keys, bounds[:-1].copy(), out)
    for heap in np.flatnonzero(np.diff(bounds) > 1).tolist() if in_order else ():
        out[bounds[heap] : bounds[heap + 1]].sort()
    return out, bounds


@kernel
def sums_of(values: I64, bounds: I64, sums: Any) -> None:
    """Of each heap."""
    for heap in range(len(sums)):
        total = 0.0
        for k in range(bounds[heap], bounds[heap + 1]):
            total += values[k]
        sums[heap] = total


def counted(values: I64) -> tuple[I64, I64]:
    """Values without repetition, smallest first, and how often each is there."""
    if len(values) and int(values.max()) < 8 * len(values):
        counts = np.bincount(values)
        distinct = np.flatnonzero(counts)
        return distinct, counts[distinct]
    distinct, counts = np.empty(len(values), np.int64), np.empty(len(values), np.int64)
    found = runs_of(np.sort(values), distinct, counts)
    return distinct[:found], counts[:found]


@kernel
def runs_of(values: I64, distinct: I64, counts: I64) -> int:
    """Sorted values without repetition, and how often each is there; how many that are."""
    found = 0
    for k in range(len(values)):
        if found and distinct[found - 1] == values[k]:
            counts[found - 1] += 1
        else:
            distinct[found] = values[k]
            counts[found] = 1
            found += 1
    return found


@kernel
def overview(kind: U8, node: I32, at: I64, kinds: int, table: I64) -> tuple[int, int, int]:
    """Count the rows about messages, those of the first so many kinds, by node and kind. The first time of
    all rows and the last one, -1 without any; and how many of those about messages have none."""
    first, last, untimed = -1, -1, 0
    for row in range(len(kind)):
        about = kind[row] < kinds
        if about:
            table[node[row], kind[row]] += 1
        if at[row] < 0:
            untimed += about
        else:
            first = at[row] if first < 0 else min(first, at[row])
            last = max(last, at[row])
    return first, last, untimed


@kernel
def link_keys(node: I32, number: I32, origin: I64, names: int, out: I64) -> None:
    """Of each row the link that its message came by, the links of one node beside each other."""
    for row in range(len(node)):
        out[row] = node[row] * names + origin[number[row]]


@kernel
def since_send(
    kind: U8, which: int, node: I32, origin: I32, seq: I64, at: I64, start: I64, seqs: I64, sent: I64,
    never: int, out_node: I32, out_number: I32, out_took: I64,
) -> tuple[int, int, int]:  # fmt: skip
    """Of each row of a kind that has a time: its node, its message, and how long after the send it comes.
    How many those are; how many have no send with a time; how many come before it."""
    found = unsent = early = 0
    for row in range(len(kind)):
        if kind[row] != which or at[row] < 0:
            continue
        number = find_dot(origin[row], seq[row], start, seqs)
        if number < 0 or sent[number] >= never:
            unsent += 1
        elif at[row] < sent[number]:
            early += 1
        else:
            out_node[found], out_number[found] = node[row], number
            out_took[found] = at[row] - sent[number]
            found += 1
    return found, unsent, early


@kernel
def raise_to(out: I64, keys: I64, values: I64) -> None:
    """The largest value of each key, or what was there."""
    for k in range(len(keys)):
        out[keys[k]] = max(out[keys[k]], values[k])
