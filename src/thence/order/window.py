"""The part of happens-before that is still open: exact tags, and what has become stable.

A client's *window* holds the messages that it has seen (taken or sent itself) and that are not stable
yet, in the order in which it saw them. Every message gets a *place*, and its tag keeps the set of
earlier places that are in its past as the bits of one integer. Then

* `a` happened before `b` iff a's place is below b's and its bit is set in b's tag: one shift, whatever
  the size of the group. Everything below the tag's `floor` was stable when b was seen, hence is in its
  past by the definition of stability; bits are kept only from there on.
* the past of a new message is the union of its predecessors' bits: one OR for each.
* `rows[q]` is what member q is known to have seen: the bits of the newest message of q, or of its
  newest phantom. A message is causally stable here when every row has its bit: whatever q sends that
  this client has not seen yet follows that row, so it follows the message. One AND per member finds
  everything that is stable, and a sweep for a batch of deliveries costs each of them next to nothing.

The document (algorithms 7, 9 and 11) walks the graph, or a matrix of vectors, on every delivery
instead; section 5.1's definition is the same. Its future work is here as well: `reached` counts the
members that a message is known to have been delivered at (k-stability), and comparing two tags is
faster than comparing two version vectors.

A member that stays silent holds stability back, and the window grows. Bits would then grow with its
square, so that beyond `wide` places new tags keep a vector (a dot per origin) instead: never more
than an engine that is made of vectors. Both forms answer the same questions, and tags of either kind
compare with each other.
"""

from collections.abc import Iterable
from typing import ClassVar

from thence.core.dots import ORIGIN_MASK, STEP
from thence.core.errors import PeerError
from thence.core.message import Message


class GraphTag:
    """A message's place in happens-before, as one client has seen it.

    Tags of one client compare exactly, for as long as the application keeps them. `context` is what
    the sender wrote, whole.
    """

    __slots__ = ("_bits", "_floor", "_place", "_vector", "context", "dot")

    def __init__(
        self, dot: int, context: tuple[int, ...], place: int, floor: int, bits: int, vector: tuple[int, ...]
    ) -> None:
        self.dot = dot
        self.context = context
        self._place = place
        self._floor = floor
        self._bits = bits  # its own bit included; 0 where `_vector` is used
        self._vector = vector

    def before(self, other: "GraphTag") -> bool:
        """Did this message happen before the other?"""
        place = self._place
        if place >= other._place:
            return False
        if other._vector:
            return self.dot <= other._vector[self.dot & ORIGIN_MASK]
        offset = place - other._floor
        return offset < 0 or other._bits >> offset & 1 == 1

    def after(self, other: "GraphTag") -> bool:
        """Did the other message happen before this one?"""
        return other.before(self)

    def concurrent(self, other: "GraphTag") -> bool:
        """Did neither happen before the other? (No message is concurrent with itself.)"""
        if self._place < other._place:
            return not self.before(other)
        return self._place != other._place and not other.before(self)


class Window:
    """What one client has seen that is not stable, and how far the others are known to have come.

    Invariants. `_window[i]` has place `_base + i`; `_live` maps its dots to its tags. Everything seen
    and not in the window is stable. `_rows[q]` is a set of places, as bits from `_base` on, or, in a
    wide window, a dot per origin; it never shrinks. `_stable` holds, per origin, the newest dot that
    was announced as stable; per origin stability comes in order.
    """

    __slots__ = (
        "_announced", "_base", "_live", "_me", "_pending", "_rows", "_seen", "_spelled", "_stable", "_window",
    )  # fmt: skip

    wide: ClassVar[int] = 4096
    """Places in the window from which on a vector is smaller than bits in any group worth the name."""

    def __init__(self, me: int, size: int) -> None:
        if not 0 <= me < size:
            raise ValueError(f"member {me} of {size}")
        self._me = me
        self._base = 0
        self._window: list[GraphTag] = []
        self._live: dict[int, GraphTag] = {}
        self._seen = list(range(size))
        self._stable = list(range(size))
        self._announced = 0
        self._rows = [0] * size
        self._spelled: list[tuple[int, ...]] | None = None  # the rows of a wide window
        self._pending: dict[int, list[tuple[int, ...]]] = {}

    def __len__(self) -> int:
        # Not the window's length: what is stable stays in it while something older is not.
        return sum(seen - stable for seen, stable in zip(self._seen, self._stable, strict=True)) // STEP

    @property
    def drained(self) -> bool:
        """Everything seen is stable, and nobody spoke of anything that was not seen."""
        return not (self._window or self._pending)

    def see(self, message: Message) -> GraphTag:
        """The client takes a message, or sends one: its tag. Its context was seen before."""
        dot, context = message.dot, message.context
        base, live = self._base, self._live
        place = base + len(self._window)
        if self._spelled is not None:
            tag = GraphTag(dot, context, place, base, 0, self._past_as_vector(dot, context))
            self._spelled[dot & ORIGIN_MASK] = tag._vector
        else:
            bits = 1 << (place - base)
            for p in context:
                before = live.get(p)
                if before is not None:
                    if before._vector:
                        bits |= self._as_bits(before._vector)
                    else:
                        bits |= before._bits >> (base - before._floor)
            tag = GraphTag(dot, context, place, base, bits, ())
            self._rows[dot & ORIGIN_MASK] = bits
        self._window.append(tag)
        live[dot] = tag
        self._seen[dot & ORIGIN_MASK] = dot
        if self._spelled is None and len(self._window) > self.wide:
            self._widen()
        return tag

    def heard(self, member: int, context: tuple[int, ...]) -> None:
        """`member` has seen everything up to `context`: a phantom. It counts once all of that was
        seen here too. Of those that must wait, the first and the newest are kept: replacing the first
        by ever newer ones could put it off for ever."""
        self._refuse_lies(member, context)
        if self._counts(context):
            self._count(member, context)
        else:
            self._settle(member)
            self._pending[member] = [*self._pending.get(member, ())[:1], context]

    def _refuse_lies(self, member: int, context: tuple[int, ...]) -> None:
        seen = self._seen
        if not 0 <= member < len(seen):
            raise PeerError(f"a phantom of member {member}, who is not known")
        for p in context:
            if p < STEP or p & ORIGIN_MASK >= len(seen):
                raise PeerError(f"a phantom of member {member} names {p:#x}, which cannot be")
            if p & ORIGIN_MASK == self._me and p > seen[self._me]:
                raise PeerError(f"a phantom of member {member} names {p:#x}, which was never sent")

    def sweep(self) -> list[GraphTag]:
        """What has become stable, in an order that respects causality."""
        for member in list(self._pending):
            self._settle(member)
        if not self._window:
            return []
        stable = self._stable_of_bits() if self._spelled is None else self._stable_of_vectors(self._spelled)
        if stable:
            self._collect(stable)
        return stable

    def reached(self, dot: int) -> int:
        """At how many members, this one included, a message that was seen is known to be delivered."""
        tag = self._live.get(dot)
        if tag is None:
            return len(self._rows)
        others = [q for q in range(len(self._rows)) if q != self._me]
        if self._spelled is not None:
            return 1 + sum(self._spelled[q][dot & ORIGIN_MASK] >= dot for q in others)
        offset = tag._place - self._base
        return 1 + sum(self._rows[q] >> offset & 1 for q in others)

    def silent(self) -> list[int]:
        """The members that hold the oldest unstable message back."""
        if not self._window:
            return []
        others = [q for q in range(len(self._rows)) if q != self._me]
        if self._spelled is not None:
            dot = self._window[0].dot
            return [q for q in others if self._spelled[q][dot & ORIGIN_MASK] < dot]
        return [q for q in others if not self._rows[q] & 1]

    def _settle(self, member: int) -> None:
        """Count what had to wait and need not any more."""
        waiting = []
        for context in self._pending.pop(member, ()):
            if self._counts(context):
                self._count(member, context)
            else:
                waiting.append(context)
        if waiting:
            self._pending[member] = waiting

    def _counts(self, context: Iterable[int]) -> bool:
        seen = self._seen
        return all(p <= seen[p & ORIGIN_MASK] for p in context)

    def _count(self, member: int, context: tuple[int, ...]) -> None:
        if self._spelled is not None:
            known = self._past_as_vector(self._spelled[member][member], context)
            self._spelled[member] = tuple(map(max, self._spelled[member], known))
            return
        row = self._rows[member]
        for p in context:
            before = self._live.get(p)
            if before is not None:
                row |= self._bits_of(before)
        self._rows[member] = row

    def _stable_of_bits(self) -> list[GraphTag]:
        stable = (1 << len(self._window)) - 1
        for q, row in enumerate(self._rows):
            if q != self._me:
                stable &= row
        new = stable & ~self._announced
        self._announced = stable
        found = []
        while new:
            lowest = new & -new
            found.append(self._window[lowest.bit_length() - 1])
            new ^= lowest
        return found

    def _stable_of_vectors(self, rows: list[tuple[int, ...]]) -> list[GraphTag]:
        others = [row for q, row in enumerate(rows) if q != self._me]
        reached = list(map(min, self._seen, self._seen, *others))
        found = []
        for origin, newest in enumerate(reached):
            dot = self._stable[origin] + STEP
            while dot <= newest:
                found.append(self._live[dot])
                dot += STEP
        found.sort(key=_place)
        return found

    def _collect(self, stable: list[GraphTag]) -> None:
        """Forget what is stable, from the oldest place up to the first that is not."""
        for tag in stable:
            self._stable[tag.dot & ORIGIN_MASK] = tag.dot
        done = 0
        for tag in self._window:
            if tag.dot > self._stable[tag.dot & ORIGIN_MASK]:
                break
            del self._live[tag.dot]
            done += 1
        if done:
            del self._window[:done]
            self._base += done
            self._announced >>= done
            if self._spelled is None:
                self._rows = [row >> done for row in self._rows]
            elif len(self._window) <= self.wide // 2:
                self._narrow(self._spelled)

    def _bits_of(self, tag: GraphTag) -> int:
        return self._as_bits(tag._vector) if tag._vector else tag._bits >> (self._base - tag._floor)

    def _as_bits(self, vector: tuple[int, ...]) -> int:
        """The places of the window that a vector covers."""
        bits, bit = 0, 1
        for tag in self._window:
            if tag.dot <= vector[tag.dot & ORIGIN_MASK]:
                bits |= bit
            bit <<= 1
        return bits

    def _as_vector(self, bits: int) -> tuple[int, ...]:
        """The newest dot per origin among the stable messages and these places of the window."""
        vector = list(self._stable)
        for tag in self._window:
            if not bits:
                break
            if bits & 1 and tag.dot > vector[tag.dot & ORIGIN_MASK]:
                vector[tag.dot & ORIGIN_MASK] = tag.dot
            bits >>= 1
        return tuple(vector)

    def _past_as_vector(self, dot: int, context: tuple[int, ...]) -> tuple[int, ...]:
        """The past of a message with this context, and the message itself."""
        vectors = []
        for p in context:
            before = self._live.get(p)
            if before is not None:
                vectors.append(before._vector or self._as_vector(self._bits_of(before)))
        past = list(map(max, self._stable, self._stable, *vectors))
        past[dot & ORIGIN_MASK] = max(past[dot & ORIGIN_MASK], dot)
        return tuple(past)

    def _widen(self) -> None:
        self._spelled = [self._as_vector(row) for row in self._rows]

    def _narrow(self, rows: list[tuple[int, ...]]) -> None:
        self._rows = [self._as_bits(row) for row in rows]
        self._announced = self._as_bits(tuple(self._stable))
        self._spelled = None


def _place(tag: GraphTag) -> int:
    return tag._place
