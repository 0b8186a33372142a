"""Stamps of messages as bytes: contexts, vectors, and clocks that members share.

A counter is written as the difference to the message's own: members that send at similar rates have similar
counters, so a dot costs two bytes and not nine. The origins of a context come as gaps between members, or,
when there are many, as a bitmap with the counters packed into as few bits as the largest difference needs,
as are those of a clock that members share.

Whatever no correct peer writes raises `PeerError`.
"""

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK, pack
from thence.core.errors import PeerError
from thence.core.varint import MAX_SEQ, Reader, checked_counter, checked_member, put, put_signed


def put_dots(out: bytearray, dots: tuple[int, ...], seq: int) -> None:
    """A context: sorted by origin; gaps or bitmap, whatever is shorter."""
    by_origin = sorted([(dot & ORIGIN_MASK, dot >> ORIGIN_BITS) for dot in dots])
    bitmap_bytes = by_origin[-1][0] // 8 + 1 if by_origin else 0
    as_bitmap = bitmap_bytes + 1 < len(by_origin)
    put(out, len(by_origin) << 1 | as_bitmap)
    if as_bitmap:
        bitmap = 0
        for origin, _ in by_origin:
            bitmap |= 1 << origin
        put(out, bitmap_bytes)
        out += bitmap.to_bytes(bitmap_bytes, "little")
        _put_packed(out, [counter - seq for _, counter in by_origin])
        return
    previous = -1
    for origin, counter in by_origin:
        put(out, origin - previous - 1)
        put_signed(out, counter - seq)
        previous = origin


def take_dots(reader: Reader, seq: int, size: int) -> tuple[int, ...]:
    head = reader.take()
    count = head >> 1
    if count > size:
        raise PeerError(f"a context of {count} dots in a group of {size}")
    dots = []
    if head & 1:
        bitmap = int.from_bytes(reader.take_bytes(reader.take()), "little")
        if bitmap.bit_count() != count or bitmap >> size:
            raise PeerError("a context whose bitmap names members that are not there")
        for difference in _take_packed(reader, count):
            lowest = bitmap & -bitmap
            dots.append(pack(lowest.bit_length() - 1, checked_counter(seq + difference)))
            bitmap ^= lowest
    else:
        origin = -1
        for _ in range(count):
            origin += reader.take() + 1
            dots.append(pack(checked_member(origin, size), checked_counter(seq + reader.take_signed())))
    dots.sort()
    return tuple(dots)


def _put_packed(out: bytearray, numbers: list[int]) -> None:
    """Many similar numbers: the least, then the others' distance from it, each in as few bits as the
    largest needs."""
    least = min(numbers)
    width = (max(numbers) - least).bit_length()
    packed = 0
    for number in reversed(numbers):
        packed = packed << width | number - least
    put_signed(out, least)
    out.append(width)
    out += packed.to_bytes((width * len(numbers) + 7) // 8, "little")


def _take_packed(reader: Reader, count: int) -> list[int]:
    least, width = reader.take_signed(), reader.take()
    if width > MAX_SEQ.bit_length():
        raise PeerError(f"counters that are {width} bits apart")
    packed = int.from_bytes(reader.take_bytes((width * count + 7) // 8), "little")
    if packed >> width * count:
        raise PeerError("bits too many behind the counters of a context")
    mask = (1 << width) - 1
    return [least + (packed >> width * place & mask) for place in range(count)]


def put_counters(out: bytearray, counters: tuple[int, ...], seq: int) -> None:
    """A vector: a counter per member."""
    put(out, len(counters))
    for counter in counters:
        put_signed(out, counter - seq)


def take_counters(reader: Reader, seq: int, size: int) -> tuple[int, ...]:
    count = reader.take()
    if count > 2 * size:
        raise PeerError(f"a vector of {count} entries in a group of {size}")
    counters = []
    for _ in range(count):
        counter = seq + reader.take_signed()
        if not 0 <= counter < MAX_SEQ:
            raise PeerError(f"a counter of {counter}")
        counters.append(counter)
    return tuple(counters)


def put_clock(out: bytearray, counters: tuple[int, ...], seq: int) -> None:
    """A clock whose entries members share: packed, or, where a few entries are far ahead, as in a vector."""
    head, differences = len(counters) << 1, [counter - seq for counter in counters]
    packed, plain = bytearray(), bytearray()
    put(packed, head | 1)
    _put_packed(packed, differences)
    if len(packed) > len(counters):  # a difference has one byte at least
        put(plain, head)
        for difference in differences:
            put_signed(plain, difference)
        if len(plain) < len(packed):
            packed = plain
    out += packed


def take_clock(reader: Reader, seq: int, entries: int) -> tuple[int, ...]:
    head = reader.take()
    if head >> 1 != entries:
        raise PeerError(f"a clock of {head >> 1} entries, not {entries}")
    if head & 1:
        differences = _take_packed(reader, entries)
    else:
        differences = [reader.take_signed() for _ in range(entries)]
    if seq + min(differences) < 0 or seq + max(differences) >= MAX_SEQ:
        raise PeerError("a clock with a counter that no message has")
    return tuple([seq + difference for difference in differences])


def put_dots_list(out: bytearray, dots: tuple[int, ...]) -> None:
    """Any dots, several of one origin too: those that came early."""
    put(out, len(dots))
    for dot in dots:
        put(out, dot & ORIGIN_MASK)
        put(out, dot >> ORIGIN_BITS)


def take_dots_list(reader: Reader, size: int) -> tuple[int, ...]:
    count = reader.take()
    if count > reader.end - reader.at:
        raise PeerError(f"a list of {count} dots in {reader.end - reader.at} bytes")
    return tuple(
        [pack(checked_member(reader.take(), size), checked_counter(reader.take())) for _ in range(count)]
    )
