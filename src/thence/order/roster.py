"""A window for a group whose members change.

Rows are about *incarnations*, an index each, handed out once and for good. An index gets its place as soon as
its name is known, and is waited for from the delivery of its join to that of its leave, or to the moment when
the survivors have agreed on its last message; before and after that it does not matter what it has seen.

Invariant: the row of a counted member is in the past of every message of that member that was not seen here
yet. A joiner's row begins as the past of its join, which everything that it sends follows from. A row taken
from an acknowledgement counts only once all messages that its sender had sent before it were seen; that is
for the caller to check, which knows counters by name.

Departure from algorithm 13 of the tagged causal broadcast document: no bit strings to shift when a member
goes, and no recursion; a row is not looked at any more, that is all.
"""

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK
from thence.order.window import Past, Window


class Roster(Window):
    __slots__ = ()

    def admit(self, member: int) -> None:
        """`member`, the next free index, has a name; it is not waited for yet."""
        if member != len(self._seen):
            raise ValueError(f"members are admitted in order: {member} after {len(self._seen)}")
        self._seen.append(member)
        self._stable.append(member)
        self._tags.admit(member)
        self._floors.append(0)
        self._bits.append(0)
        self._ignored_rows.add(member)
        if self._vector_rows is not None:
            self._vector_rows = [*map(self._padded, self._vector_rows), tuple(range(member + 1))]

    def enter(self, member: int, dot: int | None = None) -> None:
        """From now on `member` is waited for. `dot`: its join, which was just seen."""
        self._ignored_rows.discard(member)
        if dot is None:
            return
        tag = self._tags.live[dot]
        if self._vector_rows is not None:
            vector = tag._vector or self._as_vector(tag._place - tag._depth, tag._bits)
            self._vector_rows[member] = self._padded(vector)
        elif tag._vector:
            self._floors[member], self._bits[member] = self._as_places(tag._vector)
        else:
            self._floors[member], self._bits[member] = tag._place - tag._depth, tag._bits

    def drop(self, member: int) -> None:
        """`member` delivers nothing more that could matter here: it is not waited for any more."""
        self._ignored_rows.add(member)
        self._pending.pop(member, None)

    def known(self, member: int, newest: tuple[int, ...]) -> None:
        """`member` has seen everything up to these dots, at most one of an origin, and so was all of it here;
        its own messages up to then among them."""
        self._count(member, newest)

    def whole(self, dot: int) -> int:
        """The last message of its origin that ends there or before: a peer that counts half a run errs."""
        holding = self._tags.runs.holding(dot)
        return dot if holding == dot else self._tags.runs.before(holding)

    def row(self, member: int) -> list[int]:
        """The counters that `member` is known to have seen."""
        if self._vector_rows is not None:
            vector = self._vector_rows[member]
        else:
            vector = self._as_vector(self._floors[member], self._bits[member])
        return [dot >> ORIGIN_BITS for dot in vector]

    def stable_up_to(self, member: int) -> int:
        """The counter of the newest message of `member` that was announced as stable."""
        return self._stable[member] >> ORIGIN_BITS

    def reached(self, dot: int) -> int:
        if dot <= self._stable[dot & ORIGIN_MASK]:
            return len(self._seen) - len(self._ignored_rows) + 1
        return super().reached(dot)

    def _padded(self, vector: tuple[int, ...]) -> tuple[int, ...]:
        """A vector from before some members were known, as long as one of today."""
        return vector + tuple(range(len(vector), len(self._seen)))

    def _as_places(self, vector: tuple[int, ...]) -> Past:
        return super()._as_places(self._padded(vector))

    def _past_as_vector(self, dot: int, context: tuple[int, ...]) -> tuple[int, ...]:
        vectors = []
        for p in context:
            before = self._tags.find(self._tags.runs.holding(p))
            if before is not None:
                vector = before._vector or self._as_vector(before._place - before._depth, before._bits)
                vectors.append(self._padded(vector))
        past = list(map(max, self._stable, self._stable, *vectors))
        past[dot & ORIGIN_MASK] = max(past[dot & ORIGIN_MASK], dot)
        return tuple(past)
