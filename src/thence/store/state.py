"""The store at one replica: its key space, its clock, and what has been applied.

The core knows nothing of nodes. Own operations take effect at once (`begin`, then parts, then `finish`, which
gives the bytes to broadcast) and are told their dot and tag when they come back (`deliver`). Those of others
come through `deliver` in causal order. `stable` says that everything still to come follows from an operation,
causes first.

What an operation saw is in its tag, which the middleware gives. An operation that is being made saw all that
was applied here: nothing is delivered before it has come back.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from msgspec import DecodeError, msgpack

from thence.core.errors import PeerError, UsageError
from thence.core.groups import process_of
from thence.crdt.mark import Cause
from thence.crdt.mark import Mark as Mark
from thence.store.made import is_made
from thence.store.ops import Part
from thence.store.space import Space

FORM: Final = 2
"""Version of an operation's bytes. The first one told what an operation saw, beside its tag."""

COUNT_BITS: Final = 16
"""Of the hybrid clock: milliseconds above, a count below."""


class NamedCause(Cause, Protocol):
    """A tag that names its operation."""

    @property
    def dot(self) -> tuple[str, int]: ...


class StoreState:
    def __init__(self, me: str, remove_wins: bool = False) -> None:
        self.me = me
        """The incarnation as which operations are made."""
        self._process = process_of(me)
        self.space = Space(remove_wins)
        self.time = 0
        """The hybrid clock: above every stamp that was seen."""
        self.order: dict[str, deque[Mark]] = {}
        """By origin, operations that are not stable."""
        self.pending: deque[tuple[bytes, Mark]] = deque()
        """Own operations that have taken effect here and whose dot is not known."""
        self._by_name = False
        """Of some operations no more than their names is known: they came with a state."""
        self.foreign = 0
        """Payloads that are no operations of a store."""

    # Own operations

    def begin(self, now: int) -> Mark:
        """`now`: by the wall clock, in milliseconds."""
        wall = now << COUNT_BITS
        self.time = wall if wall > self.time else self.time + 1
        return Mark(self.time, self._process, None, self.me)

    def finish(self, mark: Mark) -> bytes:
        """The bytes of an operation whose parts have been applied."""
        payload = _encode((FORM, mark.time, self.space.flight[mark]))
        self.pending.append((payload, mark))
        return payload

    # Deliveries

    def deliver(self, origin: str, seq: int, payload: bytes, tag: Cause | None) -> None:
        self.deliver_run(origin, seq, (payload,), tag)

    def deliver_run(self, origin: str, first: int, payloads: Iterable[bytes], tag: Cause | None) -> None:
        """Operations with consecutive counters from `first` on. `tag`: of the message that they came in."""
        order = self.order.get(origin)
        if order is None:
            order = self.order[origin] = deque()
        own, process = origin == self.me, process_of(origin)
        pending, space, read = self.pending, self.space, _DECODER.decode
        for seq, payload in enumerate(payloads, first):
            if own and pending and pending[0][0] == payload:
                mark = pending.popleft()[1]
                mark.tag, mark.seq = tag, seq
                order.append(mark)
                continue
            try:
                form, time, parts = read(payload)
                if form != FORM or not is_made(time, parts):
                    raise ValueError
            except (DecodeError, ValueError):
                try:
                    time, parts = decode(payload)
                except PeerError:  # of another program: nothing here
                    self.foreign += 1
                    continue
            mark = Mark(time, process, tag, origin, seq)
            if time > self.time:
                self.time = time
            try:
                space.apply(mark, parts)
            except (TypeError, ValueError, LookupError):  # no replica makes such a thing
                self.foreign += 1
            order.append(mark)
        if not order:
            del self.order[origin]

    def stable(self, origin: str, seq: int) -> None:
        """Everything that is delivered from now on follows from this."""
        waiting = self.order.get(origin)
        if waiting is None:
            return
        stabilise = self.space.stabilise
        while waiting and waiting[0].seq <= seq:
            stabilise(waiting.popleft())
        if not waiting:
            del self.order[origin]

    def merge(self, had: Mapping[str, int], other: "StoreState") -> list[tuple[str, int]]:
        """Take in another replica's state of the same group: what it has applied and is not here comes now.
        `had`: by origin, what is here. What is stable at either is at both. Returns what came, causes first:
        stamps extend happens-before."""
        lacking = [
            mark for found in other.order.values() for mark in found if mark.seq > had.get(mark.name, 0)
        ]
        lacking.sort(key=lambda mark: mark.at(0))
        if any(mark.tag is None for mark in lacking):
            raise UsageError("of operations that came with a state nothing is known but their names")
        for mark in lacking:
            payload = _encode((FORM, mark.time, other.space.flight[mark]))
            self.deliver_run(mark.name, mark.seq, (payload,), mark.tag)
        return [(mark.name, mark.seq) for mark in lacking]

    def known(self, found: Iterable[NamedCause]) -> None:
        """These are about to be stable for the middleware, and then it has no tags of them any more, while
        operations that did not see them may wait here to be told. Those that are known by name alone get
        their tags."""
        if not self._by_name:
            return
        for tag in found:
            origin, seq = tag.dot
            for mark in self.order.get(origin, ()):
                if mark.seq > seq:
                    break
                if mark.tag is None:
                    mark.tag = tag
        self._by_name = bool(self.order)

    @property
    def unstable(self) -> int:
        return len(self.pending) + sum(map(len, self.order.values()))

    def become(self, me: str) -> None:
        """Own operations are made as this incarnation from now on."""
        if me != self.me:
            self.me = me
            self._process = process_of(me)
            self.pending.clear()

    def installed(self, space: Space, order: dict[str, deque[Mark]]) -> None:
        """Another replica's state, or an earlier one, is in."""
        self.space, self.order = space, order
        self._by_name = bool(order)
        self.pending.clear()


def decode(payload: bytes) -> tuple[int, list[Part]]:
    """Time and parts. `PeerError`: no correct replica sends this."""
    try:
        form, time, parts = _DECODER.decode(payload)
    except (DecodeError, ValueError) as error:
        return _decode_first(payload, error)
    if form != FORM:
        raise PeerError(f"an operation of form {form}: this version reads {FORM}")
    return _made(time, parts)


def _made(time: int, parts: list[Part]) -> tuple[int, list[Part]]:
    if not is_made(time, parts):
        raise PeerError("an operation that no store makes")
    return time, parts


def _decode_first(payload: bytes, error: Exception) -> tuple[int, list[Part]]:
    try:
        form, time, _, parts = _FIRST.decode(payload)
    except (DecodeError, ValueError):
        raise PeerError(f"an operation that cannot be read: {error}") from None
    if form != 1:
        raise PeerError(f"an operation of form {form}: this version reads {FORM}")
    return _made(time, parts)


_encode: Final = msgpack.Encoder().encode
_DECODER: Final = msgpack.Decoder(tuple[int, int, list[list[Any]]])
_FIRST: Final = msgpack.Decoder(tuple[int, int, dict[str, int], list[list[Any]]])
