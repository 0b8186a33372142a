"""The part of happens-before that is still open: exact tags, and what has become stable.

A client's *window* holds the messages that it has seen (taken or sent itself) and that are not stable
yet, in the order in which it saw them. Every message gets a *place*, and its tag says which places are
in its past: all below its `floor`, and above that those whose bit is set in one integer. Concurrency is
short, so that integer is small: it reaches back to the oldest message that its sender had not seen. Then

* `a` happened before `b` iff a's place is below b's and covered by b's tag: one shift, whatever the size
  of the group.
* the past of a new message is the union of its predecessors': one OR for each.
* a *row* per member says in the same form what that member is known to have seen: the past of its newest
  message, or of its newest phantom. A message is causally stable here when every row covers it: whatever
  that member sends that this client has not seen yet follows the row, so it follows the message. One AND
  per member finds everything that is stable, and one sweep for a batch of messages costs each of them
  next to nothing.

The document (algorithms 7, 9 and 11) walks the graph, or a matrix of vectors, on every delivery
instead; section 5.1's definition is the same. Its future work is here as well: `reached` counts the
members that a message is known to have been delivered at (k-stability), and comparing two tags is
faster than comparing two version vectors.

After a partition the two sides' messages are concurrent in large numbers, and bits would grow with the
square of them. When tags need more than `wide` bits in the mean, new ones keep a vector (a dot per
origin) instead. Both forms answer the same questions, and tags of either kind compare with each other.

While a member is away nothing becomes stable. Given an attic, a window keeps only the newest tags in memory
(`order/tags.py`), and finds a bounded number of those that become stable in one sweep.
"""

from array import array
from heapq import heapify, heappop, heapreplace
from typing import ClassVar

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK, STEP
from thence.core.errors import PeerError
from thence.core.machine import NEVER
from thence.core.message import Message
from thence.order.tags import SWEEP_MAX, GraphTag, Tags, TagSpill, as_bits, as_places

__all__ = ["GraphTag", "Past", "Window"]

Past = tuple[int, int]
"""A set of places: all below the first number, and from there on the bits of the second."""


class Window:
    """What one client has seen that is not stable, and how far the others are known to have come.

    Invariants. `_tags` holds the window, by place and by dot. Everything seen and not in it is stable.
    Row q is a set of places (all below `_floors[q]`, and from there on `_bits[q]`), or, in a wide window,
    a dot per origin; it never shrinks. `_stable` holds, per origin, the newest dot that was announced as
    stable; per origin stability comes in order. `_announced` has a bit for each place of the window that was
    announced, and stays because an older one was not: a sweep costs what is new.
    """

    __slots__ = (
        "_announced", "_bits", "_floors", "_ignored_rows", "_me", "_pending", "_seen", "_stable", "_tags",
        "_vector_rows", "unfinished",
    )  # fmt: skip

    wide: ClassVar[int] = 4096
    """Mean bits per tag from which on a vector is smaller in any group worth the name."""

    def __init__(self, me: int, size: int) -> None:
        if not 0 <= me < size:
            raise ValueError(f"member {me} of {size}")
        self._me = me
        self._tags = Tags(size)
        self._announced = 0
        self._seen = list(range(size))
        self._stable = array("q", range(size))  # arrays: numbers that change often and are read in sweeps
        self._floors = array("q", [0] * size)
        self._bits = [0] * size
        self._vector_rows: list[tuple[int, ...]] | None = None  # the rows of a wide window
        self._pending: dict[int, list[tuple[int, ...]]] = {}
        self.unfinished = False
        """The last sweep found as much as it was allowed to."""
        self._ignored_rows = {me}  # what these have seen is not waited for (order/roster.py adds and removes)

    def __len__(self) -> int:
        # Not the window's length: what is stable stays in it while something older is not.
        return sum(seen - stable for seen, stable in zip(self._seen, self._stable, strict=True)) // STEP

    @property
    def drained(self) -> bool:
        """Everything seen is stable, and no member spoke of anything that was not seen."""
        return not (len(self._tags) or self._pending)

    def stow_in(self, attic: TagSpill, deep: int) -> None:
        """Keep about `deep` tags in memory, and the older ones in the attic."""
        self._tags.stow_in(attic, deep)

    def see(self, message: Message) -> GraphTag:
        """The client takes a message, or sends one: its tag. Its context was seen before."""
        dot, context = message.dot, message.context
        tags = self._tags
        place = tags.base + tags.stowed + len(tags.young)  # `tags.end`, once per message
        if self._vector_rows is not None:
            tag = GraphTag(
                dot, context, place, place, 0, self._past_as_vector(dot, (*context, message.before))
            )
            self._vector_rows[dot & ORIGIN_MASK] = tag._vector
        else:
            before = tags.live.get(message.before)
            if before is None and tags.stowed:
                before = tags.find(message.before)
            if before is not None and context == (message.before,) and not before._vector:
                floor, bits = before._place - before._depth, before._bits  # as `_union` would say
                if floor < tags.base:
                    floor, bits = tags.base, bits >> (tags.base - floor)
            else:
                floor, bits = self._union(context)
            if before is not None and before._place >= floor and not bits >> (before._place - floor) & 1:
                # Its sender left out its own previous message: what is stable would have holes.
                floor, bits = self._union((*context, message.before))
            bits |= 1 << (place - floor)
            if bits & 1:  # the lowest places are all there: they need no bits
                covered = (bits ^ bits + 1).bit_length() - 1
                floor += covered
                bits >>= covered
            tag = GraphTag(dot, context, place, place - floor, bits, ())
            self._floors[dot & ORIGIN_MASK] = floor
            self._bits[dot & ORIGIN_MASK] = bits
        tags.add(tag)
        if dot - message.before > STEP:
            tags.runs.add(message.before, dot)
        self._seen[dot & ORIGIN_MASK] = dot
        if tags.bits > self.wide * len(tags.young) and self._vector_rows is None:
            self._widen()
        return tag

    def _union(self, context: tuple[int, ...]) -> Past:
        """The past of a message with this context."""
        live, floor, bits = self._tags.live, self._tags.base, 0
        for p in context:
            before = live.get(p) or self._tags.find(self._tags.runs.holding(p))
            if before is None:
                continue  # stable: so is everything that it follows from
            if before._vector:
                other, more = self._as_places(before._vector)
            else:
                other, more = before._place - before._depth, before._bits
            if other > floor:
                bits = bits >> (other - floor) | more
                floor = other
            else:
                bits |= more >> (floor - other)
        return floor, bits

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

    def resume(self, counters: tuple[int, ...]) -> None:
        """After a restart: everything up to these counters had been seen, and was stable."""
        for origin, seq in enumerate(counters):
            dot = seq << ORIGIN_BITS | origin
            self._seen[origin] = self._stable[origin] = self._tags.gone[origin] = dot

    def recall_stable(self, counters: tuple[int, ...]) -> None:
        """After a restart: of what was seen, everything up to these counters had been announced."""
        for origin, seq in enumerate(counters):
            announced = min(self._seen[origin], seq << ORIGIN_BITS | origin)
            self._stable[origin] = max(self._stable[origin], announced)
        self._collect([])
        left = []  # because an older one stays
        for gone, newest in zip(self._tags.gone, self._stable, strict=True):
            while gone < newest:
                gone = self._tags.runs.holding(gone + STEP)
                left.append(self._place_of(gone))
        if left:
            self._announced |= as_bits(left, self._tags.base)

    def tag_of(self, dot: int) -> GraphTag | None:
        """The tag of the message with this operation, which was seen and is not stable."""
        return self._tags.find(self._tags.runs.holding(dot))

    def sweep(self, most: int | None = None) -> list[GraphTag]:
        """What has become stable, in an order that respects causality. `most`: no more than this is found,
        and no more forgotten; `unfinished` says whether there may be more."""
        for member in list(self._pending):
            self._settle(member)
        self.unfinished = False
        if not len(self._tags):
            return []
        most_found = (SWEEP_MAX if self._tags.stowed else NEVER) if most is None else most
        if self._vector_rows is None:
            stable = self._stable_of_places(most_found)
        else:
            stable = self._stable_of_vectors(self._vector_rows, most_found)
        for tag in stable:
            self._stable[tag.dot & ORIGIN_MASK] = tag.dot
        if stable or self._announced & 1:
            dropped = self._collect([tag._place for tag in stable], NEVER if most is None else most)
            self.unfinished = max(len(stable), dropped) >= most_found
        return stable

    def reached(self, dot: int) -> int:
        """At how many members, this one included, a message that was seen is known to be delivered."""
        tag = self._tags.find(dot)
        if tag is None:
            return len(self._seen)
        return 1 + sum(self._covers(q, tag) for q in range(len(self._seen)) if q not in self._ignored_rows)

    def silent(self) -> list[int]:
        """The members that hold the oldest unstable message back."""
        if not len(self._tags):
            return []
        tag = self._tags.at(self._tags.base)
        return [q for q in range(len(self._seen)) if q not in self._ignored_rows and not self._covers(q, tag)]

    def behind(self) -> list[int]:
        """The members that are not known to have seen everything that is not stable."""
        return [q for q in range(len(self._seen)) if q not in self._ignored_rows and not self._covers_all(q)]

    def words(self) -> int:
        """Per message two words for its dot, two per predecessor and two per successor, one for its
        stage, and its bits, or its vector; and the rows."""
        young = self._tags.young
        edges = sum([len(tag.context) for tag in young])
        kept = sum([len(tag._vector) or tag._bits.bit_length() // 64 + 1 for tag in young])
        rows = sum([bits.bit_length() // 64 + 2 for bits in self._bits])
        if self._vector_rows is not None:
            rows = sum(map(len, self._vector_rows))
        return 3 * len(young) + 4 * edges + kept + rows + 2 * len(self._seen)

    def _covers(self, member: int, tag: GraphTag) -> bool:
        if self._vector_rows is not None:
            return self._vector_rows[member][tag.dot & ORIGIN_MASK] >= tag.dot
        floor, bits = self._floors[member], self._bits[member]
        return tag._place < floor or bits >> (tag._place - floor) & 1 == 1

    def _covers_all(self, member: int) -> bool:
        if self._vector_rows is not None:
            row, gone = self._vector_rows[member], self._tags.gone
            return all(seen <= max(row[origin], gone[origin]) for origin, seen in enumerate(self._seen))
        low = max(self._floors[member], self._tags.base)
        left = self._tags.end - low
        return left <= 0 or self._bits[member] >> (low - self._floors[member]) == (1 << left) - 1

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

    def _counts(self, context: tuple[int, ...]) -> bool:
        seen = self._seen
        return all(p <= seen[p & ORIGIN_MASK] for p in context)

    def _count(self, member: int, context: tuple[int, ...]) -> None:
        if self._vector_rows is not None:
            known = self._past_as_vector(self._vector_rows[member][member], context)
            self._vector_rows[member] = tuple(map(max, self._vector_rows[member], known))
            return
        floor, bits = self._floors[member], self._bits[member]
        other, more = self._union(context)
        if other > floor:
            self._floors[member] = other
            self._bits[member] = bits >> (other - floor) | more
        else:
            self._bits[member] = bits | more >> (floor - other)

    def _stable_of_places(self, most: int) -> list[GraphTag]:
        rows = zip(self._floors, self._bits, strict=True)
        others = [row for q, row in enumerate(rows) if q not in self._ignored_rows]
        tags, end = self._tags, self._tags.end
        low, stable = min(others, default=(end, 0))
        if low < tags.base:
            low, stable = tags.base, stable >> (tags.base - low)
        for floor, bits in others:
            if floor <= low:
                stable &= bits >> (low - floor)
            elif floor - low < stable.bit_length():  # else it covers all of them
                stable &= bits << (floor - low) | (1 << (floor - low)) - 1
        low = min(low, end)
        if self._announced:  # some from `base` on were announced already
            stable = (stable << (low - tags.base) | (1 << (low - tags.base)) - 1) & ~self._announced
            low = tags.base
        found = tags.run(tags.base, min(low, tags.base + most))
        return found + tags.many(as_places(low, stable, most - len(found))) if stable else found

    def _stable_of_vectors(self, rows: list[tuple[int, ...]], most: int) -> list[GraphTag]:
        others = [row for q, row in enumerate(rows) if q not in self._ignored_rows]
        reached = list(map(min, self._seen, self._seen, *others))
        oldest = zip(self._stable, reached, strict=True)
        runs = self._tags.runs
        heads = [self._with_place(runs.holding(dot + STEP)) for dot, newest in oldest if dot < newest]
        heapify(heads)
        found: list[GraphTag] = []
        while heads and len(found) < most:
            _, dot, tag = heads[0]
            found.append(tag)
            if dot < reached[dot & ORIGIN_MASK]:
                heapreplace(heads, self._with_place(runs.holding(dot + STEP)))
            else:
                heappop(heads)
        return found

    def _with_place(self, dot: int) -> tuple[int, int, GraphTag]:
        tag = self._tags.find(dot)
        assert tag
        return tag._place, dot, tag

    def _place_of(self, dot: int) -> int:
        return self._with_place(dot)[0]

    def _collect(self, announced: list[int], most: int = NEVER) -> int:
        """Forget what is stable, from the oldest place up to the first that is not, and `most` of it.
        `announced`: the places that have just become so. Returns how many were forgotten."""
        tags = self._tags
        done = tags.drop(self._stable, most)
        self._announced >>= done
        left = [place for place in announced if place >= tags.base]  # because an older one stays
        if left:
            self._announced |= as_bits(left, tags.base)
        if done and self._vector_rows is not None and len(tags) <= self.wide // 2:
            self._narrow(self._vector_rows)
        return done

    def _as_places(self, vector: tuple[int, ...]) -> Past:
        """The places of the window that a vector covers: all below the first that it does not."""
        tags, floor = self._tags, self._tags.end
        for seen, known, gone in zip(self._seen, vector, tags.gone, strict=True):
            if known < seen and gone < seen:
                floor = min(floor, self._place_of(tags.runs.holding(max(known, gone) + STEP)))
        places = []
        for seen, known, gone in zip(self._seen, vector, tags.gone, strict=True):
            dot = min(known, seen)
            while dot > gone and (place := self._place_of(dot)) >= floor:
                places.append(place)
                dot = tags.runs.before(dot)
        return floor, as_bits(places, floor)

    def _as_vector(self, floor: int, bits: int) -> tuple[int, ...]:
        """The newest dot per origin among the stable messages and these places of the window."""
        tags, vector = self._tags, list(self._stable)
        for origin, seen in enumerate(self._seen):
            vector[origin] = max(vector[origin], tags.newest(origin, floor, bits, seen))
        return tuple(vector)

    def _past_as_vector(self, dot: int, context: tuple[int, ...]) -> tuple[int, ...]:
        """The past of a message with this context, and the message itself."""
        vectors = []
        for p in context:
            before = self._tags.find(self._tags.runs.holding(p))
            if before is not None:
                vectors.append(before._vector or self._as_vector(before._place - before._depth, before._bits))
        past = list(map(max, self._stable, self._stable, *vectors))
        past[dot & ORIGIN_MASK] = max(past[dot & ORIGIN_MASK], dot)
        return tuple(past)

    def _widen(self) -> None:
        self._vector_rows = list(map(self._as_vector, self._floors, self._bits))

    def _narrow(self, rows: list[tuple[int, ...]]) -> None:
        for member, row in enumerate(rows):
            self._floors[member], self._bits[member] = self._as_places(row)
        self._vector_rows = None
