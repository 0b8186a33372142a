"""The load of `bench clocks`: stamps that exact causal delivery gives, the same past for every engine."""

from thence.core.codec import Codec
from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK
from thence.lab.bench.clocks import load, replay, stamped
from thence.order.graph import GRAPH
from thence.order.keys import Keys, numbered
from thence.order.probabilistic import probabilistic
from thence.order.vector import VECTOR


def test_every_engine_delivers_what_it_is_asked() -> None:
    for age in (0, 7):
        asked = load(30, 120, age)
        keys = Keys(9, 2)
        for engine in (GRAPH, VECTOR, probabilistic(9, 2)):
            messages = stamped(asked, engine, keys if engine.entries else None)
            assert replay(asked, engine, messages) > 0
            codec = Codec(asked.size, engine.stamps_are_dots, entries=engine.entries)
            for message in messages:
                assert codec.decode(codec.encode(message)).context == message.context  # type: ignore[union-attr]


def test_contexts_and_vectors_have_the_same_past() -> None:
    asked = load(20, 100, 3)
    vectors: dict[int, tuple[int, ...]] = {}
    for by_graph, by_vector in zip(stamped(asked, GRAPH), stamped(asked, VECTOR), strict=True):
        merged = list(map(max, asked.before, asked.before, *[vectors[dot] for dot in by_graph.context]))
        merged[by_graph.dot & ORIGIN_MASK] = by_graph.dot >> ORIGIN_BITS
        assert by_vector.context == tuple(merged)
        vectors[by_graph.dot] = tuple(merged)


def test_a_clock_with_an_entry_per_member_is_a_vector() -> None:
    asked = load(12, 60, 2)
    keys = Keys(12, 1, numbered(12, 1))
    shared = [message.context for message in stamped(asked, probabilistic(12, 1), keys)]
    assert shared == [message.context for message in stamped(asked, VECTOR)]
