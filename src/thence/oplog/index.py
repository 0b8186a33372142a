"""The sparse index of one segment: where to start reading, without having read.

Per origin every `spacing`-th message is entered with its counter and place (SYNC Tree, §4.1.4), and of
all records every so-manieth, so that a reader can resume at a position. The first message of an origin in
the segment is always entered: the document reads a file from its beginning for a peer that has nothing of
some origin, here such a peer costs no more than any other.

A sealed segment's index goes into a file of its own, with a checksum over the whole segment:

    index file = magic (8 bytes) version (2) reserved (2) length (4, of the body) body crc32 (4)
    body = seed (4) segment crc32 (4), then varints: size last places origins jumps

It is a cache: missing or damaged, it is made again from the segment.
"""

from bisect import bisect_right
from struct import Struct
from typing import Final
from zlib import crc32

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK
from thence.core.errors import PeerError
from thence.core.varint import Reader, put
from thence.oplog.record import CRC

MAGIC: Final = b"thenceIX"
VERSION: Final = 1
PREFIX: Final = Struct("<8sHHI")
CHECKS: Final = Struct("<II")

PLACE_EVERY: Final = 64
"""Records between two entries by position: a resuming reader passes over 63 records at most."""

Place = tuple[int, int]
"""A record's offset, and the position of the record before it: all that a scan needs to start there."""


class Index:
    __slots__ = ("_since_place", "jumps", "origins", "place_offsets", "place_positions", "spacing")

    def __init__(self, spacing: int) -> None:
        self.spacing = spacing
        self.place_positions: list[int] = []
        self.place_offsets: list[int] = []
        self.origins: dict[int, tuple[list[int], list[Place]]] = {}
        """Origin -> counters in ascending order, and their places."""
        self.jumps: dict[int, int] = {}
        """Origin -> counter up to which a state that was installed here stands in for messages."""
        self._since_place = PLACE_EVERY

    def passed(self, position: int, offset: int) -> None:
        self._since_place += 1
        if self._since_place >= PLACE_EVERY:
            self._since_place = 0
            self.place_positions.append(position)
            self.place_offsets.append(offset)

    def message(self, position: int, dot: int, offset: int, before: int) -> None:
        """The same of a message, of which there are most."""
        if self._since_place + 1 >= PLACE_EVERY:
            self.passed(position, offset)
        else:
            self._since_place += 1
        origin, seq = dot & ORIGIN_MASK, dot >> ORIGIN_BITS
        entries = self.origins.get(origin)
        if entries is None:
            self.origins[origin] = ([seq], [(offset, before)])
        elif seq - entries[0][-1] >= self.spacing:
            entries[0].append(seq)
            entries[1].append((offset, before))

    def jumped(self, jumps: dict[int, int]) -> None:
        for origin, seq in jumps.items():
            self.jumps[origin] = max(seq, self.jumps.get(origin, 0))

    def resume(self, position: int) -> Place | None:
        """Where a reader that has everything up to `position` should start; None: at the beginning."""
        at = bisect_right(self.place_positions, position) - 1
        if at < 0:
            return None
        return self.place_offsets[at], self.place_positions[at] - 1

    def first_missing(self, vector: "tuple[int, ...] | list[int]", end: "tuple[int, ...]") -> Place | None:
        """A place at or before the first message here that is not in `vector`; None if there is none.
        `end` is the log's vector at the end of the segment."""
        known = len(vector)
        found: Place | None = None
        for origin, (seqs, places) in self.origins.items():
            has = vector[origin] if origin < known else 0
            if end[origin] > has:
                place = places[max(bisect_right(seqs, has + 1) - 1, 0)]
                if found is None or place < found:
                    found = place
        return found

    def encode(self, seed: int, segment_crc: int, size: int, last: int) -> bytes:
        body = bytearray(CHECKS.pack(seed, segment_crc))
        put(body, size)
        put(body, last)
        put(body, len(self.place_positions))
        position = offset = 0
        for next_position, next_offset in zip(self.place_positions, self.place_offsets, strict=True):
            put(body, next_position - position)
            put(body, next_offset - offset)
            position, offset = next_position, next_offset
        put(body, len(self.origins))
        for origin, (seqs, places) in sorted(self.origins.items()):
            put(body, origin)
            put(body, len(seqs))
            for seq, place in zip(seqs, places, strict=True):
                put(body, seq)
                put(body, place[0])
                put(body, place[1])
        put(body, len(self.jumps))
        for origin, seq in sorted(self.jumps.items()):
            put(body, origin)
            put(body, seq)
        out = PREFIX.pack(MAGIC, VERSION, 0, len(body)) + body
        return out + CRC.pack(crc32(out))

    @classmethod
    def decode(cls, data: bytes, spacing: int) -> "Sealed | None":
        """What an index file says; None if it is damaged or of a version that this one cannot read."""
        if len(data) < PREFIX.size + CHECKS.size + CRC.size:
            return None
        magic, version, _, length = PREFIX.unpack_from(data)
        end = len(data) - CRC.size
        if magic != MAGIC or version != VERSION or PREFIX.size + length != end:
            return None
        if crc32(data[:end]) != CRC.unpack_from(data, end)[0]:
            return None
        seed, segment_crc = CHECKS.unpack_from(data, PREFIX.size)
        try:
            reader = Reader(data, PREFIX.size + CHECKS.size, end)
            size, last = reader.take(), reader.take()
            index = cls(spacing)
            index._take(reader)
            return Sealed(index, seed, segment_crc, size, last) if reader.at == end else None
        except PeerError:
            return None

    def _take(self, reader: Reader) -> None:
        position = offset = 0
        for _ in range(reader.take()):
            position += reader.take()
            offset += reader.take()
            self.place_positions.append(position)
            self.place_offsets.append(offset)
        for _ in range(reader.take()):
            origin = reader.take()
            seqs: list[int] = []
            places: list[Place] = []
            for _ in range(reader.take()):
                seqs.append(reader.take())
                places.append((reader.take(), reader.take()))
            self.origins[origin] = (seqs, places)
        for _ in range(reader.take()):
            origin = reader.take()
            self.jumps[origin] = reader.take()


class Sealed:
    """A decoded index file."""

    __slots__ = ("crc", "index", "last", "seed", "size")

    def __init__(self, index: Index, seed: int, crc: int, size: int, last: int) -> None:
        self.index = index
        self.seed = seed
        self.crc = crc
        self.size = size
        self.last = last
