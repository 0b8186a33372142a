"""Where rows of a CSV file end, so that one large file can be read by many tasks.

A newline ends a row unless it stands inside quotes, and whether it does can only be told from the beginning
of the file. Most traces hold no quote at all: there any newline will do. Otherwise the file is walked through
once with the states of Python's own reader.
"""

import mmap
from pathlib import Path
from typing import Final

import numpy as np

from thence.pipeline.jit import kernel
from thence.pipeline.rows import I64, U8

BOM: Final = b"\xef\xbb\xbf"
COMMA, QUOTE, LINE, RETURN = b',"\n\r'
FIELD_START, PLAIN, QUOTED, QUOTE_IN_QUOTED = range(4)


def row_ends(path: Path, size: int, step: int) -> list[int]:
    """The first end of a row at or after every `step` bytes, the end of the file aside."""
    if size <= step:
        return []
    targets = np.arange(step, size, step, dtype=np.int64)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data.find(b'"') < 0:
            ends = [data.find(b"\n", target - 1) + 1 for target in targets.tolist()]
        else:
            # A copy in stretches: a kernel must not hold on to the mapping when it is closed.
            ends = _walk(data, len(BOM) if data[: len(BOM)] == BOM else 0, size, targets)
    return sorted({end for end in ends if 0 < end < size})


STRETCH: Final = 16 << 20


def _walk(data: mmap.mmap, begin: int, size: int, targets: I64) -> list[int]:
    ends = np.zeros(len(targets), np.int64)
    state, at = FIELD_START, 0
    for start in range(begin, size, STRETCH):
        stretch = np.frombuffer(data[start : start + STRETCH], np.uint8)
        state, at = find_ends(stretch, start, state, at, targets, ends)
    return ends.tolist()


@kernel
def find_ends(data: U8, base: int, state: int, at: int, targets: I64, ends: I64) -> tuple[int, int]:
    """Write down the row ends behind the targets from number `at` on; the state at the end of the data."""
    for k in range(len(data)):
        byte = data[k]
        if state == QUOTED:
            if byte == QUOTE:
                state = QUOTE_IN_QUOTED
        elif byte in (LINE, RETURN):
            state = FIELD_START
            place = base + k + 1
            while byte == LINE and at < len(targets) and targets[at] <= place:
                ends[at] = place
                at += 1
        elif byte == COMMA:
            state = FIELD_START
        elif byte == QUOTE and state in (FIELD_START, QUOTE_IN_QUOTED):
            state = QUOTED
        else:
            state = PLAIN
    return state, at
