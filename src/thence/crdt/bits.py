"""Bits of a string, numbered from the most significant bit of the first byte, and fields of them."""

from collections.abc import Sequence
from typing import Final, NamedTuple

WRAP: Final = 0
SAT: Final = 1
FAIL: Final = 2

GET: Final = 0
SET: Final = 1
INCRBY: Final = 2


class FieldOp(NamedTuple):
    """One operation of BITFIELD."""

    what: int
    signed: bool
    bits: int
    offset: int
    value: int = 0
    overflow: int = WRAP


def get_bit(text: bytes, offset: int) -> int:
    byte = offset >> 3
    return text[byte] >> (7 - (offset & 7)) & 1 if byte < len(text) else 0


def set_bit(text: bytes, offset: int, bit: int) -> bytes:
    byte, mask = offset >> 3, 0x80 >> (offset & 7)
    out = bytearray(text.ljust(byte + 1, b"\0"))
    out[byte] = out[byte] | mask if bit else out[byte] & ~mask
    return bytes(out)


def field(text: bytes, signed: bool, bits: int, offset: int) -> int:
    first, last = offset >> 3, (offset + bits + 7) >> 3
    part = text[first:last].ljust(last - first, b"\0")
    value = int.from_bytes(part, "big") >> ((last << 3) - offset - bits) & ((1 << bits) - 1)
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def put_field(text: bytes, bits: int, offset: int, value: int) -> bytes:
    first, last = offset >> 3, (offset + bits + 7) >> 3
    out = bytearray(text.ljust(last, b"\0"))
    shift = (last << 3) - offset - bits
    mask = ((1 << bits) - 1) << shift
    whole = int.from_bytes(out[first:last], "big") & ~mask | (value << shift & mask)
    out[first:last] = whole.to_bytes(last - first, "big")
    return bytes(out)


def limits(signed: bool, bits: int) -> tuple[int, int]:
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)


def fitted(value: int, signed: bool, bits: int, overflow: int) -> int | None:
    """None: it does not fit, and that fails."""
    low, high = limits(signed, bits)
    if low <= value <= high:
        return value
    if overflow == FAIL:
        return None
    if overflow == SAT:
        return low if value < low else high
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def change(text: bytes, operations: Sequence[Sequence[int]]) -> tuple[bytes, list[int | None]]:
    """The string after these operations, and what each of them answers."""
    answers: list[int | None] = []
    for one in operations:
        what, signed, bits, offset, value, overflow = FieldOp(*one)  # type: ignore[arg-type]  # an int as bool
        before = field(text, signed, bits, offset)
        if what == GET:
            answers.append(before)
            continue
        after = fitted(value if what == SET else before + value, signed, bits, overflow)
        if after is not None:
            text = put_field(text, bits, offset, after)
        answers.append(after if what == INCRBY or after is None else before)
    return text, answers
