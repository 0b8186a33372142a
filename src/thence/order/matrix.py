"""Stability by a matrix of vectors: what the vector engine's clients have seen.

Section 5.2 of the tagged causal broadcast document, algorithms 6 and 7. Row q of the matrix is the
vector of the newest message (or phantom) of member q, the own row is what this client has seen; a
message is stable when its counter is at most the minimum of its column. `_lowest[c]` remembers a row
that holds the minimum of column c, so that only a change of that row makes it worth looking again.

Departures from the document: phantoms that are ahead of their sender's messages are remembered instead
of dropped, and the table of messages is keyed by dot in the order in which they were seen, so that
sorting by a counter is sorting by that order.
"""

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK, pack
from thence.core.errors import PeerError
from thence.core.message import Message


class VectorTag:
    """A tag that is a vector: a counter per member, the message itself counted."""

    __slots__ = ("_vector", "context", "dot", "place")

    def __init__(self, dot: int, context: tuple[int, ...], vector: tuple[int, ...], place: int) -> None:
        self.dot = dot
        self.context = context
        self.place = place
        self._vector = vector

    def before(self, other: "VectorTag") -> bool:
        dot = self.dot
        return other._vector[dot & ORIGIN_MASK] >= dot >> ORIGIN_BITS and dot != other.dot

    def after(self, other: "VectorTag") -> bool:
        return other.before(self)

    def concurrent(self, other: "VectorTag") -> bool:
        return self.dot != other.dot and not self.before(other) and not other.before(self)


class Matrix:
    """What one client has seen that is not stable, and how far the others are known to have come."""

    __slots__ = (
        "_found",
        "_lowest",
        "_me",
        "_pending",
        "_places",
        "_rows",
        "_seen",
        "_stable",
        "_tags",
        "_width",
    )

    def __init__(self, me: int, size: int) -> None:
        if not 0 <= me < size:
            raise ValueError(f"member {me} of {size}")
        self._me = me
        self._places = 0
        self._width = size
        self._seen = [0] * size
        self._rows: list[tuple[int, ...] | list[int]] = [(0,) * size for _ in range(size)]
        self._rows[me] = self._seen
        self._stable = [0] * size
        self._lowest = [me] * size
        self._tags: dict[int, VectorTag] = {}
        self._found: list[VectorTag] = []
        self._pending: dict[int, list[tuple[int, ...]]] = {}

    def __len__(self) -> int:
        return len(self._tags)

    @property
    def drained(self) -> bool:
        return not (self._tags or self._found or self._pending)

    def see(self, message: Message) -> VectorTag:
        """The client takes a message, or sends one: its tag."""
        dot = message.dot
        origin = dot & ORIGIN_MASK
        vector = message.context[: self._width]  # whatever comes behind is the middleware's own
        vector += (0,) * (self._width - len(vector))
        tag = VectorTag(dot, message.context, vector, self._places)
        self._places += 1
        self._tags[dot] = tag
        self._seen[origin] = dot >> ORIGIN_BITS
        if origin != self._me:
            self._rows[origin] = vector
            self._look(origin)
        self._look(self._me)
        return tag

    def heard(self, member: int, context: tuple[int, ...]) -> None:
        """`member` has seen `context`: a phantom. It counts once its own messages up to there were
        seen; of those that must wait, the first and the newest are kept."""
        if not 0 <= member < self._width or len(context) != self._width or min(context) < 0:
            raise PeerError(f"a phantom of member {member} names members that are not known")
        if context[self._me] > self._seen[self._me]:
            raise PeerError(f"a phantom of member {member} counts messages that were never sent")
        if not self._count(member, context):
            self._settle(member)
            self._pending[member] = [*self._pending.get(member, ())[:1], context]

    def _count(self, member: int, context: tuple[int, ...]) -> bool:
        if context[member] > self._seen[member]:
            return False
        self._rows[member] = tuple(map(max, self._rows[member], context))
        self._look(member)
        return True

    def _settle(self, member: int) -> None:
        """Count what had to wait and need not any more."""
        waiting = [context for context in self._pending.pop(member, ()) if not self._count(member, context)]
        if waiting:
            self._pending[member] = waiting

    def unhear(self) -> None:
        """Forget phantoms that wait: what they speak of may never come. Whoever needs one asks."""
        self._pending.clear()

    def resume(self, counters: tuple[int, ...]) -> None:
        """After a restart: everything up to these counters had been seen, and was stable."""
        known = counters + (0,) * (self._width - len(counters))
        self._seen[:] = known
        self._stable[:] = known
        self._rows = [self._seen if q == self._me else known for q in range(self._width)]

    def recall_stable(self, counters: tuple[int, ...]) -> None:
        """After a restart: of what was seen, everything up to these counters had been announced."""
        for dot in list(self._tags):
            origin, seq = dot & ORIGIN_MASK, dot >> ORIGIN_BITS
            if seq <= counters[origin]:
                del self._tags[dot]
                self._stable[origin] = max(self._stable[origin], seq)
        self._found = [tag for tag in self._found if tag.dot >> ORIGIN_BITS > counters[tag.dot & ORIGIN_MASK]]

    def tag_of(self, dot: int) -> VectorTag | None:
        """The tag of a message that was seen and is not stable."""
        return self._tags.get(dot)

    def sweep(self) -> list[VectorTag]:
        """What has become stable, in an order that respects causality."""
        for member in list(self._pending):
            self._settle(member)
        found, self._found = self._found, []
        return found

    def reached(self, dot: int) -> int:
        """At how many members, this one included, a message that was seen is known to be delivered."""
        origin, seq = dot & ORIGIN_MASK, dot >> ORIGIN_BITS
        return sum(row[origin] >= seq for row in self._rows)

    def behind(self) -> list[int]:
        """The members that are not known to have seen everything that is not stable."""
        open_ = [(dot & ORIGIN_MASK, dot >> ORIGIN_BITS) for dot in self._tags]
        return [q for q, row in enumerate(self._rows) if any(row[origin] < seq for origin, seq in open_)]

    def words(self) -> int:
        """The matrix, two vectors, and per message its dot and its vector."""
        size = self._width
        kept = sum([2 + len(tag.context) for tag in self._tags.values()])
        return size * size + 2 * size + kept

    def silent(self) -> list[int]:
        """The members that hold the oldest unstable message back."""
        for dot in self._tags:
            origin, seq = dot & ORIGIN_MASK, dot >> ORIGIN_BITS
            return [q for q, row in enumerate(self._rows) if row[origin] < seq]
        return []

    def _look(self, changed: int) -> None:
        """Row `changed` has grown: the columns whose minimum it held may have become stable further."""
        if changed not in self._lowest:
            return
        fresh = []
        for column, row in enumerate(self._lowest):
            if row != changed:
                continue
            entries = [r[column] for r in self._rows]
            least = min(entries)
            self._lowest[column] = entries.index(least)
            if least > self._stable[column]:
                fresh += [pack(column, seq) for seq in range(self._stable[column] + 1, least + 1)]
                self._stable[column] = least
        if fresh:
            self._found += sorted([self._tags.pop(dot) for dot in fresh], key=_place)


def _place(tag: VectorTag) -> int:
    return tag.place
