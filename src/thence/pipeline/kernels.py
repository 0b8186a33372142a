"""Kernels that number rows' messages: the only ones that see rows before they mean anything."""

from typing import Final

from thence.pipeline.jit import inlined, kernel
from thence.pipeline.rows import DELIVER, I32, I64, SEND, STABLE, U8

UNKNOWN: Final = -2  # a row's message before it has a number


@inlined
def find_dot(origin: int, seq: int, start: I64, seqs: I64) -> int:
    """A message's number, -1 if there is none. Counters mostly have no holes: look there first."""
    low, high = start[origin], start[origin + 1]
    if low == high:
        return -1
    guess = low + seq - seqs[low]
    if low <= guess < high and seqs[guess] == seq:
        return int(guess)
    while low < high:
        middle = (low + high) // 2
        if seqs[middle] < seq:
            low = middle + 1
        else:
            high = middle
    return int(low) if low < start[origin + 1] and seqs[low] == seq else -1


@kernel
def find_dots(origin: I64, seq: I64, start: I64, seqs: I64, found: I64) -> None:
    for k in range(len(origin)):
        found[k] = find_dot(origin[k], seq[k], start, seqs)


@kernel
def lay_out(
    counts: I64, target: I64, pos: I64, kind: U8, origin: I64, seq: I64, start: I64, seqs: I64,
    pos_out: I64, kind_out: U8, dot_out: I32,
) -> int:  # fmt: skip
    """Write a chunk's rows to their places with their messages' numbers; how many had no send."""
    row = 0
    missing = 0
    for stretch in range(len(counts)):
        place = target[stretch]
        for _ in range(counts[stretch]):
            what = kind[row]
            dot = -1
            if what in (SEND, DELIVER, STABLE):
                dot = find_dot(origin[row], seq[row], start, seqs)
                if dot < 0:
                    dot = UNKNOWN
                    missing += 1
            pos_out[place] = pos[row]
            kind_out[place] = what
            dot_out[place] = dot
            place += 1
            row += 1
    return missing
