"""The store at one replica: its key space, its clock, and what has been applied.

The core knows nothing of nodes. Own operations take effect at once (`begin`, then parts, then `finish`, which
gives the bytes to broadcast) and are told their dot when they come back (`deliver`). Those of others come
through `deliver` in causal order. `stable` says that everything still to come follows from an operation.

What an operation saw travels with it: for each origin whose operations its replica had applied since its
previous own operation, the newest of them. Operations of one origin are applied in their order, so that every
replica adds up the same vector for each operation, also after a restart and from another replica's snapshot.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import DecodeError, msgpack

from thence.core.errors import PeerError
from thence.core.groups import process_of
from thence.crdt.mark import Mark
from thence.store.ops import Part
from thence.store.space import Space

FORM: Final = 1
"""Version of an operation's bytes."""

UNKNOWN: Final = 1 << 62
"""Counters above this are of own operations whose dot is not known yet."""

COUNT_BITS: Final = 16
"""Of the hybrid clock: milliseconds above, a count below."""


class SeenTag:
    """`crdt.mark.Cause`: a dot, and for each origin the newest operation that was seen."""

    __slots__ = ("handle", "origin", "past", "seq")

    def __init__(self, origin: str, seq: int, past: dict[str, int]) -> None:
        self.handle: object = None
        """As whom the middleware knows an own operation."""
        self.origin = origin
        self.seq = seq
        self.past = past

    def before(self, other: "SeenTag", /) -> bool:
        if self.origin == other.origin:
            return self.seq < other.seq
        return self.seq <= other.past.get(self.origin, 0)


class StoreState:
    def __init__(self, me: str, wall_ms: Callable[[], int], remove_wins: bool = False) -> None:
        self.me = me
        """The incarnation as which operations are made."""
        self._wall_ms: Final = wall_ms
        self.space = Space(remove_wins)
        self.time = 0
        """The hybrid clock: above every stamp that was seen."""
        self.vector: dict[str, int] = {}
        """By origin, the newest operation that was applied."""
        self.contexts: dict[str, dict[str, int]] = {}
        """By origin, what its newest operation saw."""
        self._news: dict[str, None] = {}
        """Origins of which something was applied since the last own operation."""
        self.order: dict[str, deque[tuple[int, Mark]]] = {}
        """By origin, operations that are not stable."""
        self.pending: deque[tuple[bytes, Mark]] = deque()
        """Own operations that have taken effect here and whose dot is not known."""
        self._drafted = 0
        self.foreign = 0
        """Payloads that are no operations of a store."""
        self.on_delivered: Callable[[Sequence[Part]], None] = lambda _: None

    # Own operations

    def begin(self) -> Mark:
        self.time = max(self.time + 1, self._wall_ms() << COUNT_BITS)
        past = self.contexts.get(self.me, {})
        if self._news:
            past = {**past, **{origin: self.vector[origin] for origin in self._news}}
        self._drafted += 1
        return Mark(self.time, process_of(self.me), SeenTag(self.me, UNKNOWN + self._drafted, past))

    def finish(self, mark: Mark, parts: Sequence[Part]) -> bytes:
        """The bytes of an operation whose parts have been applied."""
        seen = {origin: self.vector[origin] for origin in self._news}
        self._news.clear()
        self.contexts[self.me] = tag_of(mark).past
        payload = msgpack.encode((FORM, mark.time, seen, parts))
        self.pending.append((payload, mark))
        return payload

    # Deliveries

    def deliver(self, origin: str, seq: int, payload: bytes) -> None:
        if self.pending and origin == self.me and self.pending[0][0] == payload:
            mark = self.pending.popleft()[1]
            tag_of(mark).seq = seq
        else:
            try:
                time, seen, parts = decode(payload)
            except PeerError:  # of another program: nothing here
                self.foreign += 1
                return
            past = self.contexts.get(origin, {})
            if seen:
                past = {**past, **seen}
            self.contexts[origin] = past
            mark = Mark(time, process_of(origin), SeenTag(origin, seq, past))
            self.time = max(self.time, time)
            try:
                self.space.apply(mark, parts)
            except (TypeError, ValueError, LookupError):  # no replica makes such a thing
                self.foreign += 1
            if origin != self.me:
                self._news[origin] = None
            self.on_delivered(parts)
        self.vector[origin] = seq
        self.order.setdefault(origin, deque()).append((seq, mark))

    def stable(self, origin: str, seq: int) -> None:
        """Everything that is delivered from now on follows from this, and so from what it saw."""
        last = self._strip(origin, seq)
        if last is not None:
            for each, upto in tag_of(last).past.items():
                if each in self.order:
                    self._strip(each, upto)

    def _strip(self, origin: str, seq: int) -> Mark | None:
        waiting, last = self.order.get(origin), None
        while waiting and waiting[0][0] <= seq:
            last = waiting.popleft()[1]
            self.space.stabilise(last)
        if waiting is not None and not waiting:
            del self.order[origin]
        return last

    @property
    def unstable(self) -> int:
        return len(self.pending) + sum(map(len, self.order.values()))

    def become(self, me: str) -> None:
        """Own operations are made as this incarnation from now on."""
        if me != self.me:
            self.me = me
            self.installed()

    def installed(self) -> None:
        """Another replica's state, or an earlier one, is in: the next own operation tells of all of it."""
        self.pending.clear()
        own = self.contexts.get(self.me, {})
        self._news = dict.fromkeys(
            origin for origin, seq in self.vector.items() if origin != self.me and own.get(origin, 0) < seq
        )


def decode(payload: bytes) -> tuple[int, dict[str, int], list[Part]]:
    """Time, what was seen, parts. `PeerError`: no correct replica sends this."""
    try:
        form, time, seen, parts = _DECODER.decode(payload)
    except (DecodeError, ValueError) as error:
        raise PeerError(f"an operation that cannot be read: {error}") from None
    if form != FORM:
        raise PeerError(f"an operation of form {form}: this version reads {FORM}")
    return time, seen, parts


_DECODER: Final = msgpack.Decoder(tuple[int, int, dict[str, int], list[list[Any]]])


def tag_of(mark: Mark) -> SeenTag:
    assert isinstance(mark.tag, SeenTag)
    return mark.tag
