"""Integers in as few bytes as they need, seven bits to a byte, least significant first.

Signed numbers are folded (0, -1, 1, -2, …) so that small ones stay small.
"""

from thence.core.errors import PeerError

MAX_SEQ = 1 << 43
"""Counters of messages stay below this: a dot fits into 63 bits."""

MOST_BYTES = 10
"""No integer on the wire needs more than 64 bits: a longer one is a lie."""


def put(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def put_signed(out: bytearray, value: int) -> None:
    put(out, value << 1 if value >= 0 else (-value << 1) - 1)


def take_long(data: bytes, at: int, first: int) -> tuple[int, int]:
    """The rest of an integer whose first byte, read already, has its high bit set; and where it ends. The
    caller must see to it that it ends where it may; `IndexError` if the bytes do first."""
    value, shift = first & 0x7F, 7
    for _ in range(MOST_BYTES - 1):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if byte == 0 or value >> 64:
                raise PeerError("an integer that no correct peer writes like that")
            return value, at
        shift += 7
    raise PeerError("an integer of more than 64 bits")


class Reader:
    """Reads from bytes that are not to be trusted; running off their end is the peer's error."""

    __slots__ = ("at", "data", "end")

    def __init__(self, data: bytes, at: int, end: int) -> None:
        self.data = data
        self.at = at
        self.end = end

    def take(self) -> int:
        data, at = self.data, self.at
        if at >= self.end:
            raise PeerError("a packet ends too early")
        byte = data[at]
        self.at = at + 1
        return byte if byte < 0x80 else self._long(byte)

    def _long(self, first: int) -> int:
        try:
            value, self.at = take_long(self.data, self.at, first)
        except IndexError:
            raise PeerError("a packet ends too early") from None
        if self.at > self.end:
            raise PeerError("a packet ends too early")
        return value

    def take_signed(self) -> int:
        folded = self.take()
        return -(folded + 1 >> 1) if folded & 1 else folded >> 1

    def take_bytes(self, count: int) -> bytes:
        if count > self.end - self.at:
            raise PeerError("a packet ends too early")
        taken = self.data[self.at : self.at + count]
        self.at += count
        return taken


def checked_member(index: int, size: int) -> int:
    if index >= size:
        raise PeerError(f"member {index} of {size}")
    return index


def checked_counter(seq: int) -> int:
    if not 0 < seq < MAX_SEQ:
        raise PeerError(f"a counter of {seq}")
    return seq
