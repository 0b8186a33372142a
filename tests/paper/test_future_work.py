"""Section 10.1 of the tagged causal broadcast document: what it leaves for later. Costs are counted."""

from random import Random
from typing import Any

import pytest
from support.conformance_replica import Rows
from support.witnesses import Model

from thence.core.dots import pack
from thence.core.machine import Batch, Wake
from thence.core.message import Message
from thence.order.engine import Engine
from thence.order.engines import ENGINES
from thence.order.window import GraphTag, Window
from thence.replica.replica import Replica
from thence.spread.batched import Batched
from thence.spread.mesh import Mesh
from thence.spread.spread import Spread

WITNESSED = [kind for kind in ENGINES.values() if kind.witness is not None]


@pytest.mark.parametrize("kind", WITNESSED, ids=lambda kind: kind.name)
def test_k_stability_is_known_exactly(kind: Engine) -> None:
    """10.1: at how many members a message is known to be delivered, one after the other."""
    model = Model(kind, 5, Random(0))
    m = model.send(0)
    witness = model.clients[0].witness
    counts = [witness.reached(m.dot)]
    for me in range(1, 5):
        model.bring(m, me)
        if me % 2:
            model.bring(model.send(me), 0)
        else:
            model.tell(me)
            model.hear_all()
        counts.append(witness.reached(m.dot))
    assert counts == [1, 2, 3, 4, 5]


def traffic(spread: Spread) -> tuple[list[Message], dict[int, list[Message]], int]:
    """A client that sends and takes at fixed moments: its messages, what went to each peer, packets."""
    replica = Replica(0, 3, ENGINES["graph"], spread, Rows(), stability=False)
    other = ENGINES["graph"].tagger(1, 3)
    sent: list[Message] = []
    streams: dict[int, list[Message]] = {1: [], 2: []}
    packets = 0
    for number in range(40):
        now = number * 2_000
        effects = [*replica.wake(now), *replica.receive(1, other.tag(b""), now)]
        if number % 3 == 0:
            replica.take(now)
        sent.append(replica.submit(b"%d" % number, now).message)
        effects += replica.flush(now)
        if number == 39:
            effects += replica.wake(now + 10_000)
        for effect in effects:
            if isinstance(effect, Wake) or not isinstance(effect.packet, Message | Batch):
                continue
            packets += len(effect.peers)
            batch = effect.packet.messages if isinstance(effect.packet, Batch) else (effect.packet,)
            for peer in effect.peers:
                streams[peer] += batch
    return sent, streams, packets


def test_batching_changes_neither_tags_nor_order() -> None:
    """10.1: tags are made when the client calls, and per peer the order stays: only packets are fewer."""
    plain, batched = traffic(Mesh(0, 3)), traffic(Batched(Mesh(0, 3), 10_000))
    for peer in (1, 2):
        ours, theirs = plain[1][peer], batched[1][peer]
        assert [(m.dot, m.context, m.payload) for m in ours] == [
            (m.dot, m.context, m.payload) for m in theirs
        ]
    assert [(m.dot, m.context) for m in plain[0]] == [(m.dot, m.context) for m in batched[0]]
    assert batched[2] * 4 < plain[2]


class Counted(int):
    """An integer that counts what is done with it."""

    done = 0

    @classmethod
    def counting(cls, name: str) -> None:
        def act(self: int, other: int) -> Any:
            cls.done += 1
            result = getattr(int, name)(self, other)
            return cls(result) if type(result) is int else result

        setattr(cls, name, act)


for operation in ("lt", "le", "gt", "ge", "eq", "sub", "rsub", "rshift", "lshift", "and", "rand"):
    Counted.counting(f"__{operation}__")


def compared(one: tuple[Counted, ...], other: tuple[Counted, ...]) -> bool:
    """Two version vectors, entry by entry: is the one below the other?"""
    return all(a <= b for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("size", [2, 16, 128])
def test_comparing_tags_costs_less_than_comparing_vectors(size: int) -> None:
    """10.1: the document's own comparison is slower than that of two vectors. A tag's takes the same
    handful of steps whatever the size of the group; a vector's takes one for each member."""
    window = Window(0, size)
    context: tuple[int, ...] = ()
    tags = []
    for seq in range(1, 4):
        for origin in range(size):
            message = Message(pack(origin, seq), context, b"")
            tags.append(window.see(message))
            context = (message.dot,)
    assert tags[0].before(tags[-1])

    def counted(tag: GraphTag) -> GraphTag:
        place, floor, bits = Counted(tag._place), Counted(tag._place - tag._depth), Counted(tag._bits)
        return GraphTag(Counted(tag.dot), (), place, place - floor, bits, ())

    Counted.done = 0
    assert counted(tags[0]).before(counted(tags[-1]))
    for_tags = Counted.done
    vectors = [tuple([Counted(seq)] * size) for seq in (1, 3)]
    Counted.done = 0
    assert compared(*vectors)
    assert Counted.done == size
    assert for_tags <= 6
