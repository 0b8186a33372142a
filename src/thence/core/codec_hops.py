"""The stamp of an addressed message's hop as bytes: noted hops by zone, in as few bits as the largest needs.

    stamp = zone came sender counter groups, then each group
    group = zone count widths least, then `count` noted hops packed into bits
    noted = sender, counter - least, residual, told

All noted hops of a group are of one zone, so that the zone is written once. `widths` are four: of a sender's
place, of a counter's distance from the least, of the residual and of `told`. Residuals are bit maps, or,
where that is shorter, the places of their members with their number in front.
"""

from collections.abc import Iterable
from itertools import groupby
from typing import Final

from thence.core.errors import PeerError
from thence.core.varint import MAX_SEQ, Reader, put

HEAD: Final = 4
EACH: Final = 5
WIDTH_MAX: Final = 4096
"""Bits of a residual: zones have fewer members."""


class Bits:
    """Numbers of given widths, one behind the other, the first in the lowest bits."""

    __slots__ = ("length", "value")

    def __init__(self) -> None:
        self.value = 0
        self.length = 0

    def put(self, number: int, width: int) -> None:
        self.value |= number << self.length
        self.length += width


def put_hop(out: bytearray, context: tuple[int, ...], seq: int) -> None:  # noqa: ARG001
    for number in context[:HEAD]:
        put(out, number)
    rows = [context[at : at + EACH] for at in range(HEAD, len(context), EACH)]
    groups = [(zone, list(found)) for zone, found in groupby(rows, lambda row: row[0])]
    put(out, len(groups))
    for zone, found in groups:
        put(out, zone)
        put(out, len(found))
        _put_group(out, found)


def _widest(numbers: Iterable[int]) -> int:
    return max([number.bit_length() for number in numbers])


def _put_group(out: bytearray, rows: list[tuple[int, ...]]) -> None:
    least = min([row[2] for row in rows])
    sender, counter = _widest([row[1] for row in rows]), _widest([row[2] - least for row in rows])
    residual, told = _widest([row[3] for row in rows]), _widest([row[4] for row in rows])
    place = max(1, (residual - 1).bit_length())
    most = max([row[3].bit_count() for row in rows])
    number = most.bit_length()
    listed = sum([number + place * row[3].bit_count() for row in rows]) < residual * len(rows)
    put(out, sender)
    put(out, counter)
    put(out, residual << 1 | listed)
    put(out, told)
    put(out, least)
    if listed:
        put(out, number)
    bits = Bits()
    for row in rows:
        bits.put(row[1], sender)
        bits.put(row[2] - least, counter)
        if listed:
            bits.put(row[3].bit_count(), number)
            for each in range(residual):
                if row[3] >> each & 1:
                    bits.put(each, place)
        else:
            bits.put(row[3], residual)
        bits.put(row[4], told)
    length = (bits.length + 7) // 8
    put(out, length)
    out += bits.value.to_bytes(length, "little")


def take_hop(reader: Reader, seq: int, size: int) -> tuple[int, ...]:  # noqa: ARG001
    context = [reader.take() for _ in range(HEAD)]
    if not 0 < context[3] < MAX_SEQ:
        raise PeerError(f"a hop with counter {context[3]}")
    groups = reader.take()
    if groups > reader.end - reader.at:
        raise PeerError(f"{groups} zones in {reader.end - reader.at} bytes")
    for _ in range(groups):
        zone, count = reader.take(), reader.take()
        if count > 8 * (reader.end - reader.at):
            raise PeerError(f"{count} noted hops in {reader.end - reader.at} bytes")
        _take_group(reader, zone, count, context)
    return tuple(context)


def _take_group(reader: Reader, zone: int, count: int, context: list[int]) -> None:
    sender, counter, residual, told, least = (reader.take() for _ in range(5))
    listed, residual = residual & 1, residual >> 1
    number = reader.take() if listed else 0
    if max(sender, counter, residual, told, number) > WIDTH_MAX:
        raise PeerError("a noted hop of too many bits")
    place = max(1, (residual - 1).bit_length())
    data = reader.take_bytes(reader.take())
    bits, length = int.from_bytes(data, "little"), 8 * len(data)
    at = 0

    def take(width: int) -> int:
        nonlocal at
        at += width
        if at > length:
            raise PeerError("a noted hop ends too early")
        return bits >> (at - width) & (1 << width) - 1

    for _ in range(count):
        row = [zone, take(sender), least + take(counter)]
        mask = 0
        if listed:
            for _ in range(take(number)):
                mask |= 1 << take(place)
        else:
            mask = take(residual)
        if not 0 < row[2] < MAX_SEQ:
            raise PeerError(f"a noted hop with counter {row[2]}")
        context += [*row, mask, take(told)]
    if at + 8 <= length or bits >> at:
        raise PeerError("bits too many behind noted hops")
