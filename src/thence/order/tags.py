"""Tags of messages that are not stable: the newest in memory, all older ones in the attic.

While a member is away nothing becomes stable, and a node must not grow with everything that is said
meanwhile. Old tags are seldom asked for: when something new follows from an old message directly, when
a program compares, and when the member is back and they become stable at last, one after the other. So a
window that has an attic keeps a bounded number of tags and puts the oldest there, as they are: an exact tag
stays exact.

Invariants. Places are handed out one after the other. The window holds those from `base` on: the first
`stowed` of them are in the attic, the others are `young`, and `live` maps their dots to them. `gone` holds,
per origin, the newest dot that has left the window. Per origin places ascend, and `runs` knows the gaps
between dots.
"""

from array import array
from collections.abc import Iterable, Sequence
from itertools import islice
from marshal import dumps, loads
from typing import Final, Protocol

from msgspec import Struct

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK, pack
from thence.core.errors import InvariantError, StorageError
from thence.core.machine import NEVER
from thence.order.runs import Runs

BLOCK: Final = 128
"""Tags that go to the attic, or are read from it, at a time: below a millisecond."""

SWEEP_MAX: Final = 4096
"""What one sweep finds at most while there are tags in the attic, unless it was told: they come back into
memory."""

SOME: Final = 1024
SOME_BITS: Final = (1 << SOME) - 1
"""Places that are looked at together."""

TAGS_MAX: Final = 32_768
"""Tags to keep in memory: ten seconds of a busy group, and some ten megabytes."""


class GraphTag(Struct, eq=False, gc=False):
    """A message's place in happens-before, as one client has seen it.

    Tags of one client compare exactly, for as long as the application keeps them. `context` is what
    the sender wrote, whole. They are kept by the ten thousand and hold numbers only: the collector of cycles
    need not look at them.
    """

    dot: int
    context: tuple[int, ...]
    _place: int
    _depth: int
    """Down to its floor: small and shared, where a floor would be an object of its own."""
    _bits: int
    """Its own place included; unused where there is a vector."""
    _vector: tuple[int, ...]

    def before(self, other: "GraphTag") -> bool:
        """Did this message happen before the other?"""
        place = self._place
        if place >= other._place:
            return False
        if other._vector:
            return self.dot <= other._vector[self.dot & ORIGIN_MASK]
        floor = other._place - other._depth
        return place < floor or other._bits >> (place - floor) & 1 == 1

    def after(self, other: "GraphTag") -> bool:
        """Did the other message happen before this one?"""
        return other.before(self)

    def concurrent(self, other: "GraphTag") -> bool:
        """Did neither happen before the other? (No message is concurrent with itself.)"""
        if self._place < other._place:
            return not self.before(other)
        return self._place != other._place and not other.before(self)


class TagSpill(Protocol):
    """Somewhere that is large and slow. Whatever is put there ascends in place, and goes in the same order.
    Nothing in it outlives the process."""

    def put(self, rows: Sequence[tuple[int, int, bytes]]) -> None:
        """Places, dots and what belongs to them. `StorageError` if there is no room; then nothing was put."""
        ...

    def of(self, dot: int) -> tuple[int, bytes] | None:
        """Its place, and what belongs to it."""
        ...

    def run(self, first: int, count: int) -> list[tuple[int, bytes]]:
        """Dots, and what belongs to them, at the first `count` places from `first` on."""
        ...

    def forget(self, below: int) -> None:
        """Lower places will not be asked for any more."""
        ...


class Tags:
    __slots__ = (
        "_attic", "_deep", "_full", "_stowed_upto", "base", "bits", "gone", "live", "runs", "stowed", "young",
    )  # fmt: skip

    def __init__(self, size: int) -> None:
        self.base = 0
        self.stowed = 0
        self.bits = 0
        """How many bits the young tags need."""
        self.young: list[GraphTag] = []
        self.live: dict[int, GraphTag] = {}
        self.runs = Runs()
        self.gone = array("q", range(size))
        self._stowed_upto = array("q", range(size))
        self._attic: TagSpill | None = None
        self._deep = 0
        self._full = NEVER

    def __len__(self) -> int:
        return self.stowed + len(self.young)

    @property
    def end(self) -> int:
        return self.base + self.stowed + len(self.young)

    def admit(self, member: int) -> None:
        self.gone.append(member)
        self._stowed_upto.append(member)

    def stow_in(self, attic: TagSpill, deep: int) -> None:
        """From now on keep about `deep` tags here."""
        self._attic = attic
        self._deep = max(1, deep)
        self._full = self._deep + min(self._deep, BLOCK)

    def add(self, tag: GraphTag) -> None:
        self.young.append(tag)
        self.live[tag.dot] = tag
        self.bits += tag._bits.bit_length()
        if len(self.young) >= self._full:
            self._stow()

    def find(self, dot: int) -> GraphTag | None:
        """The tag of a message that is in the window."""
        tag = self.live.get(dot)
        origin = dot & ORIGIN_MASK
        if tag is None and self.stowed and self.gone[origin] < dot <= self._stowed_upto[origin]:
            assert self._attic
            found = self._attic.of(dot)
            if found is None:
                raise InvariantError(f"the attic lost the tag of {dot:#x}")
            return _unpacked(found[0], dot, found[1])
        return tag

    def at(self, place: int) -> GraphTag:
        young = place - self.base - self.stowed
        return self.young[young] if young >= 0 else self.run(place, place + 1)[0]

    def run(self, first: int, end: int) -> list[GraphTag]:
        """The tags at these places of the window, in order."""
        edge = self.base + self.stowed
        found: list[GraphTag] = []
        if first < edge:
            assert self._attic
            count = min(end, edge) - first
            rows = self._attic.run(first, count)
            if len(rows) != count:
                raise InvariantError(f"the attic holds {len(rows)} of the {count} tags from place {first} on")
            found = [_unpacked(place, dot, data) for place, (dot, data) in enumerate(rows, first)]
            first = edge
        return found + self.young[first - edge : end - edge] if end > edge else found

    def many(self, places: list[int]) -> list[GraphTag]:
        """The tags at these places, which ascend; neighbours are fetched together."""
        found: list[GraphTag] = []
        first = 0
        for index in range(1, len(places) + 1):
            if index == len(places) or places[index] != places[index - 1] + 1:
                found += self.run(places[first], places[index - 1] + 1)
                first = index
        return found

    def newest(self, origin: int, floor: int, bits: int, last: int) -> int:
        """The newest dot of `origin` in a past: at a place of the window below `floor`, or whose bit is set;
        or the newest that has left the window. `last` is the newest of all. A past has no gaps per origin."""
        low, high = self.gone[origin] >> ORIGIN_BITS, last >> ORIGIN_BITS
        while low < high:
            message = self.runs.holding(pack(origin, (low + high + 1) // 2))
            tag = self.find(message)
            assert tag
            if tag._place < floor or bits >> (tag._place - floor) & 1:
                low = message >> ORIGIN_BITS
            else:
                high = self.runs.before(message) >> ORIGIN_BITS
        return pack(origin, low)

    def drop(self, stable: "array[int]", most: int) -> int:
        """Forget what is stable, up to the first that is not, and `most` of it. Returns how many."""
        before, block = self.base, 1
        while self.stowed:
            count = min(block, self.stowed, most - (self.base - before))
            if not count:
                return most
            tags = self.run(self.base, self.base + count)
            done = self._pass(tags, stable)
            self.base += done
            self.stowed -= done
            if done:
                assert self._attic
                self._attic.forget(self.base)
            if done < len(tags):
                return self.base - before
            block = BLOCK
        done = self._pass(islice(self.young, most - (self.base - before)), stable)
        for tag in self.young[:done]:
            del self.live[tag.dot]
            self.bits -= tag._bits.bit_length()
        del self.young[:done]
        self.base += done
        return self.base - before

    def _pass(self, tags: Iterable[GraphTag], stable: "array[int]") -> int:
        """How many of these, from the first on, are stable; they leave the window."""
        done = 0
        for tag in tags:
            if tag.dot > stable[tag.dot & ORIGIN_MASK]:
                break
            self.gone[tag.dot & ORIGIN_MASK] = tag.dot
            self.runs.left(tag.dot)
            done += 1
        return done

    def _stow(self) -> None:
        assert self._attic
        first = self.base + self.stowed
        old = self.young[: len(self.young) - self._deep]
        try:
            self._attic.put([(place, tag.dot, _packed(tag)) for place, tag in enumerate(old, first)])
        except StorageError:
            self._full = len(self.young) + BLOCK  # they stay here; perhaps there is room later
            return
        for tag in old:
            del self.live[tag.dot]
            self.bits -= tag._bits.bit_length()
            self._stowed_upto[tag.dot & ORIGIN_MASK] = tag.dot
        del self.young[: len(old)]
        self.stowed += len(old)
        self._full = self._deep + min(self._deep, BLOCK)


def _packed(tag: GraphTag) -> bytes:
    return dumps((tag.context, tag._place - tag._depth, tag._bits, tag._vector))


def _unpacked(place: int, dot: int, data: bytes) -> GraphTag:
    context, floor, bits, vector = loads(data)
    return GraphTag(dot, context, place, place - floor, bits, vector)


def as_bits(places: list[int], floor: int) -> int:
    """These places, none below the floor, as bits from there on."""
    if not places:
        return 0
    out = bytearray((max(places) - floor) // 8 + 1)
    for place in places:
        out[place - floor >> 3] |= 1 << (place - floor & 7)
    return int.from_bytes(out, "little")


def as_places(floor: int, bits: int, most: int = NEVER) -> list[int]:
    """The places whose bits are set, `most` of them. What it costs is what it finds: a member that was away
    leaves tens of thousands of bits, of which a step looks at few."""
    found: list[int] = []
    while bits and len(found) < most:
        empty = (bits & -bits).bit_length() - 1
        floor, bits = floor + empty, bits >> empty
        some = bin(bits & SOME_BITS)[:1:-1]
        found += [floor + index for index, bit in enumerate(some) if bit == "1"]
        floor, bits = floor + SOME, bits >> SOME
    return found[:most]
