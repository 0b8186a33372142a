"""`bench tags`: nanoseconds per comparison of two tags.

The tags are those that the first node of a simulated group hands to its application under the load of
experiment 2. The baseline compares the two messages' version vectors, as tuples of a counter per member,
entry by entry in C (`all(map(le, …))`), which stops at the first entry that decides.
"""

import time
from collections.abc import Iterator
from operator import le
from random import Random

from thence.core.message import Message
from thence.core.tag import Tag
from thence.lab.bench.order import Asked, listen, translate
from thence.lab.bench.record import Record
from thence.order.engines import ENGINES

PAIRS = 20_000
REPEATS = 5

Vector = tuple[int, ...]


def vector_before(one: Vector, other: Vector) -> bool:
    return one != other and all(map(le, one, other))


def tags_of(asked: Asked) -> list[Tag]:
    """The tags at the first node, in the order in which its client saw the messages."""
    engine = ENGINES["graph"]
    assert engine.witness
    orderer, witness = engine.orderer(0, asked.size), engine.witness(0, asked.size)
    tags = []
    for message, own in asked.steps:
        if own:
            orderer.sent(message, 0)
        for seen in [message] if own else orderer.receive(message, 1, 0):
            assert isinstance(seen, Message)
            tags.append(witness.see(seen))
        if len(tags) % 64 == 0:
            witness.sweep()
    return tags


def bench(quick: bool) -> Iterator[Record]:
    for size in (16, 128):
        asked = listen("2", size, 10 if quick else 50)
        vectors = {m.dot: m.context for m, _ in translate(asked, ENGINES["vector"]).steps}
        tags = tags_of(asked)
        random = Random(1)
        near = [random.randrange(len(tags) - size) for _ in range(PAIRS)]
        pairs = [(tags[i], tags[i + random.randrange(size)]) for i in near]
        as_vectors = [(vectors[a.dot], vectors[b.dot]) for a, b in pairs]
        for a, b in pairs:
            if a.before(b) != vector_before(vectors[a.dot], vectors[b.dot]):
                raise AssertionError("tags and vectors disagree")
        best = {"tags": float("inf"), "vectors": float("inf")}
        for _ in range(REPEATS):
            started = time.process_time_ns()
            for one, other in pairs:
                one.before(other)
            best["tags"] = min(best["tags"], (time.process_time_ns() - started) / PAIRS)
            started = time.process_time_ns()
            for left, right in as_vectors:
                vector_before(left, right)
            best["vectors"] = min(best["vectors"], (time.process_time_ns() - started) / PAIRS)
        yield Record(f"tags.before.{size}", best["tags"], "ns", best["vectors"])
