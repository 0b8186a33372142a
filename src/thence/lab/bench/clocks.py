"""`bench clocks`: what order costs in groups of a thousand members and more.

The load is that of the probabilistic ordering document: 200 messages a second of all members together, each
100 ms under way on average, so that twenty are under way however large the group is. Stamps are those of
exact causal delivery at every sender, so that each engine is asked the same. One member that only receives
is measured: CPU time of its engine per delivery, and of the codec per packet; bytes of a packet without
payload.

Counters of shared entries grow apart with the age of a group: entries have different numbers of members.
Bytes are therefore told by age, in messages that each member has sent before; of live nodes' rumours, which
tell the low bits, they are the same at any age. The baseline is a vector of
eight bytes an entry for bytes, and `none` on the same arrivals for CPU time.
"""

import gc
import time
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from thence.core.codec import Codec
from thence.core.dots import ORIGIN_MASK, pack
from thence.core.message import Message
from thence.core.overlay import Rumour
from thence.core.rumours import short, whole
from thence.lab.bench.record import Record
from thence.order.engine import Engine
from thence.order.graph import GRAPH
from thence.order.keys import Keys
from thence.order.probabilistic import ENTRIES, KEYS, probabilistic
from thence.order.unordered import NONE
from thence.order.vector import VECTOR

SIZES = (1000, 10_000)
QUICK_SIZES = (100,)
AGES = (0, 10, 100, 10_000)
RATE = 0.2
"""Messages a millisecond of the whole group."""
DELAY, DEVIATION = 100.0, 20.0
LONGEST_MS = 400.0
"""A message that is so old is everywhere."""
REPEATS = 5


@dataclass(frozen=True, slots=True)
class Sent:
    """A message and what its sender had delivered: all messages up to a place, and some after that."""

    dot: int
    all_before: int
    some: tuple[int, ...]
    heads: tuple[int, ...]
    """Places of those that no other of them follows."""


@dataclass(frozen=True, slots=True)
class ClockLoad:
    size: int
    before: tuple[int, ...]
    """How many messages each member had sent, which all have delivered."""
    sent: list[Sent]
    arrivals: list[int]
    """Places of messages in the order in which they come to the last member, which sends none."""


def load(size: int, count: int, age: int = 0, seed: int = 1) -> ClockLoad:
    """Let members send, each after what exact causal delivery has given it by then."""
    random = Random(f"{seed}/{size}/{age}")
    before = [max(0, round(random.gauss(age, age**0.5))) for _ in range(size - 1)] + [0]
    counts = list(before)
    sent: list[Sent] = []
    times: list[float] = []
    delays: list[float] = []
    pasts: list[int] = []
    """Sets of places, as bits."""

    def arrival(place: int, member: int) -> float:
        skewed = Random(f"{seed}/{place}/{member}").gauss(delays[place], DEVIATION)
        return times[place] + min(max(0.0, skewed), LONGEST_MS)

    first, now, followed = 0, 0.0, 0
    for _ in range(count):
        now += random.expovariate(RATE)
        sender = random.randrange(size - 1)
        while first < len(sent) and times[first] < now - LONGEST_MS:
            followed |= pasts[first]
            first += 1
        seen, covered, some = (1 << first) - 1, followed, []
        for place in range(first, len(sent)):
            own = sent[place].dot & ORIGIN_MASK == sender
            if own or (arrival(place, sender) <= now and pasts[place] & ~seen == 0):
                seen |= 1 << place
                covered |= pasts[place]
                some.append(place)
        heads = [place for place in range(len(sent)) if (seen & ~covered) >> place & 1]
        counts[sender] += 1
        sent.append(Sent(pack(sender, counts[sender]), first, tuple(some), tuple(heads)))
        pasts.append(seen)
        times.append(now)
        delays.append(random.gauss(DELAY, DEVIATION))
    arrivals = sorted(range(count), key=lambda place: arrival(place, size - 1))
    return ClockLoad(size, tuple(before), sent, arrivals)


def stamped(asked: ClockLoad, engine: Engine, keys: Keys | None = None) -> list[Message]:
    """The messages as `engine` stamps them; `keys`: of clocks that members share."""
    sent = asked.sent
    if engine is NONE:
        return [Message(each.dot, (), b"") for each in sent]
    if engine is GRAPH:
        return [Message(each.dot, tuple(sorted(sent[p].dot for p in each.heads)), b"") for each in sent]

    def entries(dot: int) -> tuple[int, ...]:
        member = dot & ORIGIN_MASK
        return keys[member] if keys else (member,)

    clock = [0] * (keys.entries if keys else asked.size)
    for member, count in enumerate(asked.before):
        for entry in entries(member):
            clock[entry] += count
    counted, found = 0, []
    for each in sent:
        for place in range(counted, each.all_before):
            for entry in entries(sent[place].dot):
                clock[entry] += 1
        counted = each.all_before
        stamp = list(clock)
        for dot in [*[sent[place].dot for place in each.some], each.dot]:
            for entry in entries(dot):
                stamp[entry] += 1
        found.append(Message(each.dot, tuple(stamp), b""))
    return found


def replay(asked: ClockLoad, engine: Engine, messages: list[Message]) -> float:
    """CPU microseconds per delivery at the last member: order, and its client's clock."""
    me = asked.size - 1
    tagger, orderer = engine.tagger(me, asked.size), engine.orderer(me, asked.size)
    orderer.resume(asked.before)
    took, receive = tagger.took, orderer.receive
    arriving = [messages[place] for place in asked.arrivals]
    deliveries = 0
    gc.collect()
    started = time.process_time_ns()
    for message in arriving:
        for released in receive(message, 1, 0):
            if released.__class__ is Message:
                took(released)
                deliveries += 1
    spent = time.process_time_ns() - started
    if deliveries != len(messages) or orderer.waiting:
        raise AssertionError(f"{engine.name} delivered {deliveries} of {len(messages)}")
    return spent / 1000 / deliveries


def coded(codec: Codec, messages: list[Message]) -> tuple[float, float, float]:
    """Bytes per packet; CPU microseconds to write and to read one."""
    for message in messages:
        message.wire = None
    started = time.process_time_ns()
    packets = [codec.encode(message) for message in messages]
    written = time.process_time_ns()
    for packet in packets:
        codec.decode(packet)
    read = time.process_time_ns()
    each = 1000 * len(messages)
    return sum(map(len, packets)) / len(packets), (written - started) / each, (read - written) / each


def bench(quick: bool) -> Iterator[Record | str]:
    shared = probabilistic(ENTRIES, KEYS)
    keys = Keys(ENTRIES, KEYS)
    for size in QUICK_SIZES if quick else SIZES:
        yield f"{size} members"
        asked = load(size, 200 if quick else 1000)
        told = {engine.name: stamped(asked, engine) for engine in (NONE, GRAPH, VECTOR)}
        told[shared.name] = stamped(asked, shared, keys)
        best = dict.fromkeys(told, float("inf"))
        for _ in range(REPEATS):  # interleaved: a noisy moment hits every engine
            for engine in (NONE, GRAPH, VECTOR, shared):
                best[engine.name] = min(best[engine.name], replay(asked, engine, told[engine.name]))
        for engine in (GRAPH, VECTOR, shared):
            yield Record(f"clocks.cpu.{engine.name}.{size}", best[engine.name], "us", best[NONE.name])
        for age in AGES[:2] if quick else AGES:
            yield from _wire(size, age, 200 if quick else 500, shared, keys)


def _wire(size: int, age: int, count: int, shared: Engine, keys: Keys) -> Iterator[Record]:
    asked = load(size, count, age)
    for engine in (GRAPH, VECTOR, shared):
        codec = Codec(size, engine.stamps_are_dots, entries=engine.entries)
        runs = [coded(codec, stamped(asked, engine, keys if engine is shared else None)) for _ in range(3)]
        name = f"{engine.name}.{size}.{age}"
        yield Record(f"clocks.bytes.{name}", runs[0][0], "bytes", 8.0 * size)
        yield Record(f"clocks.encode.{name}", min(run[1] for run in runs), "us")
        yield Record(f"clocks.decode.{name}", min(run[2] for run in runs), "us")
    yield from _rumours(asked, stamped(asked, shared, keys), f"{size}.{age}")


def _rumours(asked: ClockLoad, messages: list[Message], name: str) -> Iterator[Record]:
    """What live nodes send of new messages. The receiver's clock is that of the message before."""
    codec = Codec(asked.size, stamps_are_dots=False, entries=ENTRIES)
    near = [messages[0], *messages]
    started = time.process_time_ns()
    packets = [codec.encode(short(message)) for message in messages]
    written = time.process_time_ns()
    for packet, before in zip(packets, near, strict=False):
        rumour = codec.decode(packet)
        if not isinstance(rumour, Rumour) or whole(rumour, before.context) is None:
            raise AssertionError("a rumour that is not understood")
    read, each = time.process_time_ns(), 1000 * len(messages)
    yield Record(
        f"clocks.bytes.rumour.{name}", sum(map(len, packets)) / len(packets), "bytes", 8.0 * asked.size
    )
    yield Record(f"clocks.encode.rumour.{name}", (written - started) / each, "us")
    yield Record(f"clocks.decode.rumour.{name}", (read - written) / each, "us")
