"""Stability by a matrix of vectors: what the vector engine's clients have seen.

Section 5.2 of the tagged causal broadcast document, algorithms 6 and 7. Row q of the matrix is the
vector of the newest message (or phantom) of member q, the own row is what this client has seen; a
message is stable when its counter is at most the minimum of its column. `_lowest[c]` remembers a row
that holds the minimum of column c, so that only a change of that row makes it worth looking again.

Departures from the document: phantoms that are ahead of their sender's messages are remembered instead
of dropped, and the table of messages is keyed by dot in the order in which they were seen, so that
sorting by a counter is sorting by that order. While a member is away nothing becomes stable: given an attic,
only the newest tags are kept in memory, and one sweep brings back a bounded number of the others.
"""

from heapq import heapify, heappop, heapreplace
from marshal import dumps, loads

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK, STEP, pack
from thence.core.errors import InvariantError, PeerError, StorageError
from thence.core.machine import NEVER
from thence.core.message import Message
from thence.order.tags import BLOCK, SWEEP_MAX, TagSpill


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
    """What one client has seen that is not stable, and how far the others are known to have come.

    Invariants. `_stable[c]` is the minimum of column c, `_told[c]` how much of that was announced. The tags
    of all messages from there up to `_seen` are in `_tags`, or, `_stowed` of them, in the attic."""

    __slots__ = (
        "_attic", "_deep", "_full", "_lowest", "_me", "_pending", "_places", "_rows", "_seen", "_stable",
        "_stowed", "_tags", "_told", "_width",
    )  # fmt: skip

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
        self._told = [0] * size
        self._lowest = [me] * size
        self._tags: dict[int, VectorTag] = {}
        self._pending: dict[int, list[tuple[int, ...]]] = {}
        self._attic: TagSpill | None = None
        self._stowed = 0
        self._deep = 0
        self._full = NEVER

    def __len__(self) -> int:
        return sum(self._seen) - sum(self._stable)

    @property
    def drained(self) -> bool:
        return not (self._tags or self._stowed or self._pending)

    def stow_in(self, attic: TagSpill, deep: int) -> None:
        """Keep about `deep` tags in memory, and the older ones in the attic."""
        self._attic = attic
        self._deep = max(1, deep)
        self._full = self._deep + min(self._deep, BLOCK)

    def see(self, message: Message) -> VectorTag:
        """The client takes a message, or sends one: its tag."""
        dot = message.dot
        origin = dot & ORIGIN_MASK
        tag = self._made(dot, message.context, self._places)
        self._places += 1
        self._tags[dot] = tag
        self._seen[origin] = dot >> ORIGIN_BITS
        if origin != self._me:
            self._rows[origin] = tag._vector
            self._look(origin)
        self._look(self._me)
        if len(self._tags) >= self._full:
            self._stow()
        return tag

    def _made(self, dot: int, context: tuple[int, ...], place: int) -> VectorTag:
        vector = context[: self._width]  # whatever comes behind is the middleware's own
        vector += (0,) * (self._width - len(vector))
        return VectorTag(dot, context, vector, place)

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

    def resume(self, counters: tuple[int, ...]) -> None:
        """After a restart: everything up to these counters had been seen, and was stable."""
        known = counters + (0,) * (self._width - len(counters))
        self._seen[:] = known
        self._stable[:] = known
        self._told[:] = known
        self._rows = [self._seen if q == self._me else known for q in range(self._width)]

    def recall_stable(self, counters: tuple[int, ...]) -> None:
        """After a restart: of what was seen, everything up to these counters had been announced."""
        for origin, (seen, known) in enumerate(zip(self._seen, counters, strict=True)):
            told = min(seen, known)
            for seq in range(self._told[origin] + 1, told + 1):
                self._pop(pack(origin, seq))
            self._told[origin] = max(self._told[origin], told)
            self._stable[origin] = max(self._stable[origin], told)
        self._tidy()

    def tag_of(self, dot: int) -> VectorTag | None:
        """The tag of a message that was seen and is not stable."""
        origin, seq = dot & ORIGIN_MASK, dot >> ORIGIN_BITS
        return self._find(dot) if self._told[origin] < seq <= self._seen[origin] else None

    def sweep(self) -> list[VectorTag]:
        """What has become stable, in an order that respects causality."""
        for member in list(self._pending):
            self._settle(member)
        heads = self._heads(self._told, self._stable)
        most = SWEEP_MAX if self._stowed else NEVER
        found: list[VectorTag] = []
        while heads and len(found) < most:
            dot = heads[0][1]
            origin, seq = dot & ORIGIN_MASK, dot >> ORIGIN_BITS
            found.append(self._pop(dot))
            self._told[origin] = seq
            if seq < self._stable[origin]:
                heapreplace(heads, (self._find(dot + STEP).place, dot + STEP))
            else:
                heappop(heads)
        if found:
            self._tidy()
        return found

    def _heads(self, after: list[int], upto: list[int]) -> list[tuple[int, int]]:
        """A heap: of every member that has messages above the one and up to the other, the first of them, by
        place."""
        heads = []
        for origin, (told, last) in enumerate(zip(after, upto, strict=True)):
            if told < last:
                first = pack(origin, told + 1)
                heads.append((self._find(first).place, first))
        heapify(heads)
        return heads

    def _find(self, dot: int) -> VectorTag:
        tag = self._tags.get(dot)
        if tag is not None:
            return tag
        found = self._attic.of(dot) if self._attic else None
        if found is None:
            raise InvariantError(f"the tag of {dot:#x} is lost")
        return self._made(dot, loads(found[1]), found[0])

    def _pop(self, dot: int) -> VectorTag:
        tag = self._tags.pop(dot, None)
        if tag is None:
            tag = self._find(dot)
            self._stowed -= 1
        return tag

    def _tidy(self) -> None:
        """Some tags have gone: what is below the oldest that is left is not needed any more."""
        if self._attic:
            oldest = self._heads(self._told, self._seen)
            self._attic.forget(oldest[0][0] if oldest else self._places)

    def _stow(self) -> None:
        assert self._attic
        old = list(self._tags.values())[: len(self._tags) - self._deep]
        try:
            self._attic.put([(tag.place, tag.dot, dumps(tag.context)) for tag in old])
        except StorageError:
            self._full = len(self._tags) + BLOCK  # they stay here; perhaps there is room later
            return
        for tag in old:
            del self._tags[tag.dot]
        self._stowed += len(old)
        self._full = self._deep + min(self._deep, BLOCK)

    def reached(self, dot: int) -> int:
        """At how many members, this one included, a message that was seen is known to be delivered."""
        origin, seq = dot & ORIGIN_MASK, dot >> ORIGIN_BITS
        return sum(row[origin] >= seq for row in self._rows)

    def behind(self) -> list[int]:
        """The members that are not known to have seen everything that is not stable."""
        return [q for q, row in enumerate(self._rows) if any(map(int.__lt__, row, self._seen))]

    def words(self) -> int:
        """The matrix, two vectors, and per message its dot and its vector."""
        size = self._width
        kept = sum([2 + len(tag.context) for tag in self._tags.values()])
        return size * size + 2 * size + kept

    def silent(self) -> list[int]:
        """The members that hold the oldest unstable message back."""
        for _, dot in self._heads(self._stable, self._seen)[:1]:
            origin, seq = dot & ORIGIN_MASK, dot >> ORIGIN_BITS
            return [q for q, row in enumerate(self._rows) if row[origin] < seq]
        return []

    def _look(self, changed: int) -> None:
        """Row `changed` has grown: the columns whose minimum it held may have become stable further."""
        if changed not in self._lowest:
            return
        for column, row in enumerate(self._lowest):
            if row != changed:
                continue
            entries = [r[column] for r in self._rows]
            least = min(entries)
            self._lowest[column] = entries.index(least)
            self._stable[column] = max(self._stable[column], least)
