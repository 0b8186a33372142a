"""Kernels that sort and count whole numbers in linear time: millions of latencies, thousands of keys."""

from typing import Final

import numpy as np

from thence.pipeline.jit import kernel
from thence.pipeline.rows import I64

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
def deal(ordered: I64, keys: I64, order: I64, starts: I64, out: I64) -> None:
    """Each value to its key's heap. `starts` says where heaps begin, and afterwards where they end."""
    for k in range(len(order)):
        key = keys[order[k]]
        out[starts[key]] = ordered[k]
        starts[key] += 1


def heaps(ordered: I64, keys: I64, size: int, order: I64) -> tuple[I64, I64]:
    """Values heap by heap, and where each of the `size` heaps begins. Value k belongs to `keys[order[k]]`."""
    bounds = np.zeros(size + 1, np.int64)
    np.cumsum(np.bincount(keys, minlength=size), out=bounds[1:])
    out = np.empty(len(order), ordered.dtype)
    deal(ordered, slim(keys), order, bounds[:-1].copy(), out)
    return out, bounds


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
def raise_to(out: I64, keys: I64, values: I64) -> None:
    """The largest value of each key, or what was there."""
    for k in range(len(keys)):
        out[keys[k]] = max(out[keys[k]], values[k])
