"""Measuring an engine from outside, while it works in the simulator.

A probed engine behaves as the one inside it. At the nodes that are observed it notes what section 8.3 of
the tagged causal broadcast document compares: the size of stamps, the metadata kept in memory (in words
as counted there, and in bytes as this interpreter allocates them), and the CPU time that deliveries and
stability cost.
"""

import sys
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, median
from time import thread_time_ns

from thence.core.codec import PutStamp
from thence.core.codec_stamps import put_counters, put_dots
from thence.core.dots import ORIGIN_BITS
from thence.core.machine import OrderEffect
from thence.core.message import Message
from thence.core.tag import Tag
from thence.order.engine import Engine, Orderer, Tagger, Witness
from thence.order.tags import TagSpill

LOOKS = 20
"""How often memory is looked at during a run."""


def _nanoseconds() -> "array[int]":
    return array("q")


@dataclass(slots=True)
class Notes:
    """What was seen at the observed nodes."""

    entries: "array[int]" = field(default_factory=_nanoseconds)
    stamp_bytes: "array[int]" = field(default_factory=_nanoseconds)
    receive_ns: "array[int]" = field(default_factory=_nanoseconds)
    took_ns: "array[int]" = field(default_factory=_nanoseconds)
    see_ns: "array[int]" = field(default_factory=_nanoseconds)
    stability_ns: int = 0
    stables: int = 0
    words: list[int] = field(default_factory=list)
    allocated: list[int] = field(default_factory=list)

    def summary(self) -> dict[str, float]:
        """Medians; times in microseconds, the clock's own cost taken off."""
        clock = clock_ns()

        def us(samples: Sequence[int]) -> float:
            return max(0.0, median(samples) - clock) / 1000 if samples else 0.0

        return {
            "entries": fmean(self.entries) if self.entries else 0.0,
            "entries_max": max(self.entries, default=0),
            "stamp_bytes": fmean(self.stamp_bytes) if self.stamp_bytes else 0.0,
            "delivery_us": us(self.receive_ns) + us(self.took_ns) + us(self.see_ns),
            "stability_us": self.stability_ns / 1000 / self.stables if self.stables else 0.0,
            "memory_words": float(median(self.words)) if self.words else 0.0,
            "memory_words_max": float(max(self.words, default=0)),
            "memory_bytes": float(median(self.allocated)) if self.allocated else 0.0,
        }


def clock_ns() -> float:
    """What looking at the clock twice costs by itself."""
    samples = []
    for _ in range(2000):
        started = thread_time_ns()
        samples.append(thread_time_ns() - started)
    return median(samples)


def probed(engine: Engine, observed: Iterable[int], arrivals: int) -> tuple[Engine, Notes]:
    """The engine with observers at some nodes, each of which will see about `arrivals` messages."""
    notes, watched = Notes(), frozenset(observed)
    nodes: dict[int, _ObservedNode] = {me: _ObservedNode(notes, max(1, arrivals // LOOKS)) for me in watched}
    put: PutStamp = put_dots if engine.stamps_are_dots else put_counters

    def tagger(me: int, size: int) -> Tagger:
        inner = engine.tagger(me, size)
        return _Tagger(inner, nodes[me], put) if me in watched else inner

    def orderer(me: int, size: int) -> Orderer:
        inner = engine.orderer(me, size)
        return _Orderer(inner, nodes[me]) if me in watched else inner

    def witness(me: int, size: int) -> Witness:
        assert engine.witness
        inner = engine.witness(me, size)
        return _Witness(inner, nodes[me]) if me in watched else inner

    made = replace(engine, tagger=tagger, orderer=orderer, witness=witness if engine.witness else None)
    return made, notes


class _ObservedNode:
    """The parts of one observed node, for looking at their memory together."""

    def __init__(self, notes: Notes, look_every: int) -> None:
        self.notes = notes
        self.parts: list[Tagger | Orderer | Witness] = []
        self._look_every = look_every
        self._arrivals = 0

    def arrived(self) -> None:
        self._arrivals += 1
        if self._arrivals % self._look_every == 0:
            counted = [part.words() for part in self.parts if hasattr(part, "words")]
            self.notes.words.append(sum(counted))
            self.notes.allocated.append(allocated(self.parts))


def allocated(parts: object) -> int:
    """Bytes of all objects reached from `parts`, payloads apart, each counted once."""
    seen: set[int] = set()
    total = 0
    stack = [parts]
    while stack:
        thing = stack.pop()
        if id(thing) in seen or isinstance(thing, type | bytes):
            continue
        seen.add(id(thing))
        total += sys.getsizeof(thing)
        if isinstance(thing, dict):
            stack += thing.keys()
            stack += thing.values()
        elif isinstance(thing, list | tuple | set | frozenset):
            stack += thing
        else:
            for base in type(thing).__mro__:
                names = getattr(base, "__slots__", ())
                stack += [getattr(thing, name) for name in names if hasattr(thing, name)]
    return total


class _Tagger:
    def __init__(self, inner: Tagger, node: _ObservedNode, put: PutStamp) -> None:
        self._inner = inner
        self._notes = node.notes
        self._put = put
        node.parts.append(inner)

    def tag(self, payload: bytes, dest: tuple[int, ...] = ()) -> Message:
        message = self._inner.tag(payload, dest)
        stamp = bytearray()
        self._put(stamp, message.context, message.dot >> ORIGIN_BITS)
        self._notes.entries.append(len(message.context))
        self._notes.stamp_bytes.append(len(stamp))
        return message

    def took(self, message: Message) -> None:
        started = thread_time_ns()
        self._inner.took(message)
        self._notes.took_ns.append(thread_time_ns() - started)

    def recall(self, message: Message) -> None:
        self._inner.recall(message)

    def resume(self, own: int, context: tuple[int, ...]) -> None:
        self._inner.resume(own, context)

    def context(self) -> tuple[int, ...]:
        return self._inner.context()

    def frontier(self) -> tuple[int, ...]:
        return self._inner.frontier()

    def admit(self, member: int) -> None:
        self._inner.admit(member)


class OrdererAround:
    """An orderer around another one, for overriding what is to be observed."""

    def __init__(self, inner: Orderer) -> None:
        self._inner = inner

    @property
    def waiting(self) -> int:
        return self._inner.waiting

    def words(self) -> int:
        return self._inner.words()

    def stamp(self, message: Message) -> Message:
        return self._inner.stamp(message)

    def resume(self, counters: tuple[int, ...]) -> None:
        self._inner.resume(counters)

    def check(self, message: Message) -> None:
        self._inner.check(message)

    def sent(self, message: Message, now: int) -> list[OrderEffect]:
        return self._inner.sent(message, now)

    def receive(self, message: Message, via: int, now: int) -> list[OrderEffect]:
        return self._inner.receive(message, via, now)

    def admit(self, member: int) -> None:
        self._inner.admit(member)


class _Orderer(OrdererAround):
    def __init__(self, inner: Orderer, node: _ObservedNode) -> None:
        super().__init__(inner)
        self._node = node
        node.parts.append(inner)

    def receive(self, message: Message, via: int, now: int) -> list[OrderEffect]:
        started = thread_time_ns()
        released = self._inner.receive(message, via, now)
        spent = thread_time_ns() - started
        # A released message waited, once its last cause was there, for this call and no longer.
        self._node.notes.receive_ns.extend([spent] * len(released))
        self._node.arrived()
        return released


class _Witness:
    def __init__(self, inner: Witness, node: _ObservedNode) -> None:
        self._inner = inner
        self._notes = node.notes
        node.parts.append(inner)

    def __len__(self) -> int:
        return len(self._inner)

    @property
    def drained(self) -> bool:
        return self._inner.drained

    def stow_in(self, attic: TagSpill, deep: int) -> None:
        self._inner.stow_in(attic, deep)

    def see(self, message: Message) -> Tag:
        started = thread_time_ns()
        tag = self._inner.see(message)
        spent = thread_time_ns() - started
        self._notes.see_ns.append(spent)
        self._notes.stability_ns += spent
        return tag

    def heard(self, member: int, context: tuple[int, ...]) -> None:
        started = thread_time_ns()
        self._inner.heard(member, context)
        self._notes.stability_ns += thread_time_ns() - started

    def resume(self, counters: tuple[int, ...]) -> None:
        self._inner.resume(counters)

    def recall_stable(self, counters: tuple[int, ...]) -> None:
        self._inner.recall_stable(counters)

    def tag_of(self, dot: int) -> Tag | None:
        return self._inner.tag_of(dot)

    def sweep(self) -> Sequence[Tag]:
        started = thread_time_ns()
        found = self._inner.sweep()
        self._notes.stability_ns += thread_time_ns() - started
        self._notes.stables += len(found)
        return found

    def reached(self, dot: int) -> int:
        return self._inner.reached(dot)

    def words(self) -> int:
        return self._inner.words()

    def behind(self) -> list[int]:
        return self._inner.behind()

    def silent(self) -> list[int]:
        return self._inner.silent()
