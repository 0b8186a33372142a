"""`thence bench store`: what an operation of the store costs, where it is made and where it arrives.

First in one process, without a node: CPU time of a command (`store.make`), of its operation at another
replica (`store.receive`), and memory of a key that is stable, beside a plain dictionary. Then three nodes
under fifty clients (`store_nodes.py`), and a large store that a node restarts with and another joins
(`store_large.py`).
"""

import time
import tracemalloc
from collections.abc import Callable, Iterator
from random import Random
from typing import Final

from thence.lab.bench.record import Record
from thence.lab.bench.store_large import large
from thence.lab.bench.store_nodes import nodes
from thence.runtime.open_store import LocalTag
from thence.store import commands
from thence.store.executor import Executor
from thence.store.state import StoreState

_ = commands
NO_TAG: Final = LocalTag(("", 0), {})
"""Of one origin: counters tell the order."""
VALUE: Final = b"x" * 64
KEYS: Final = 1000
COMMANDS: Final[dict[str, Callable[[int], list[bytes]]]] = {
    "set": lambda n: [b"SET", b"key:%d" % (n % KEYS), VALUE],
    "incr": lambda n: [b"INCR", b"count:%d" % (n % KEYS)],
    "sadd": lambda n: [b"SADD", b"set:%d" % (n % 10), b"e%d" % (n % KEYS)],
    "hset": lambda n: [b"HSET", b"hash:%d" % (n % 10), b"f%d" % (n % KEYS), VALUE],
    "get": lambda n: [b"GET", b"key:%d" % (n % KEYS)],
}


def bench(quick: bool) -> Iterator[Record | str]:
    yield from _alone(5_000 if quick else 50_000)
    yield _memory(10_000 if quick else 100_000)
    yield from nodes(COMMANDS, 8_000 if quick else 80_000)
    yield from large(20_000 if quick else 1_000_000)


def _alone(count: int) -> Iterator[Record]:
    for name, words in COMMANDS.items():
        here, there = StoreState("a"), StoreState("b")
        engine = Executor(here, _clock_us, Random(0))
        client = engine.client()
        asked = [words(number) for number in range(count)]
        plain: dict[bytes, bytes] = {}
        begun = time.process_time()
        for one in asked:
            plain[one[1]] = VALUE
        floor = time.process_time() - begun
        made = []
        begun = time.process_time()
        for number, one in enumerate(asked, 1):
            engine.execute(client, one)
            if engine.outbox:
                payload = engine.outbox.pop()
                here.deliver("a", number, payload, NO_TAG)
                made.append(payload)
                if not number % 64:
                    here.stable("a", number - 32)
        yield Record(
            f"store.make.{name}", 1e6 * (time.process_time() - begun) / count, "us", 1e6 * floor / count
        )
        if made:
            begun = time.process_time()
            for number, payload in enumerate(made, 1):
                there.deliver("a", number, payload, NO_TAG)
                if not number % 64:
                    there.stable("a", number - 32)
            yield Record(f"store.receive.{name}", 1e6 * (time.process_time() - begun) / count, "us")


def _memory(count: int) -> Record:
    """Of a key whose value is stable."""

    def plain() -> object:
        return {b"key:%08d" % number: b"%064d" % number for number in range(count)}

    def stored() -> object:
        state = StoreState("a")
        engine = Executor(state, _clock_us, Random(0))
        client = engine.client()
        for number in range(count):
            engine.execute(client, [b"SET", b"key:%08d" % number, b"x%063d" % number])
            state.deliver("a", number + 1, engine.outbox.pop(), NO_TAG)
            state.stable("a", number + 1)
        return state

    sizes = []
    for make in (stored, plain):
        tracemalloc.start()
        kept = make()
        sizes.append(tracemalloc.get_traced_memory()[0] / count)
        tracemalloc.stop()
        del kept
    return Record("store.memory.key", sizes[0], "bytes", sizes[1])


def _clock_us() -> int:
    return time.time_ns() // 1000
