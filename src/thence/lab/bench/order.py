"""`bench order`: CPU time of an ordering engine per delivered message.

The simulator runs the load of an experiment once and writes down what one node's engine is asked, in
order: its own sends and the arrivals. Then each engine is asked the same, stamps translated into its
own language, with nothing else in the loop. Loads, from section 8.4 of the tagged causal broadcast
document: experiment 3 keeps the group's total rate constant (contexts stay small), experiment 2 lets
every member send each 10 ms (contexts grow with the group). The baseline is `none` on the same
arrivals: what the loop itself costs. `stable` figures include tags and stability: what the client's
witness does for every message, and the sweeps of its batches.
"""

import gc
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from thence.core.dots import ORIGIN_BITS, ORIGIN_MASK, pack
from thence.core.machine import OrderEffect
from thence.core.message import Message
from thence.experiments.probe import OrdererAround, allocated
from thence.lab.bench.record import Record
from thence.order.engine import Engine, Orderer
from thence.order.engines import ENGINES
from thence.order.graph import GRAPH
from thence.order.window import Window
from thence.sim.run import Run
from thence.sim.settings import SimSettings

SIZES = (16, 64, 128)
INTERVAL_MS = {"3": {16: 125.0, 64: 500.0, 128: 1000.0}, "2": dict.fromkeys(SIZES, 10.0)}
WEIBULL_MEAN = 1.1329
LATENCY_MS = {"3": 31.0 / WEIBULL_MEAN, "2": 10.0 / WEIBULL_MEAN}
"""Baselines for mean latencies of 31 and 10 ms (section 8.1.2)."""
REPEATS = 7


@dataclass(frozen=True, slots=True)
class Asked:
    """What one node's engine was asked: (message, own send?) in order."""

    size: int
    steps: list[tuple[Message, bool]]

    @property
    def mean_context(self) -> float:
        return sum(len(message.context) for message, _ in self.steps) / len(self.steps)


class _Listener(OrdererAround):
    """A graph orderer that writes down what it is asked."""

    def __init__(self, me: int, size: int, steps: list[tuple[Message, bool]]) -> None:
        super().__init__(GRAPH.orderer(me, size))
        self._steps = steps

    def sent(self, message: Message, now: int) -> list[OrderEffect]:
        self._steps.append((message, True))
        return super().sent(message, now)

    def receive(self, message: Message, via: int, now: int) -> list[OrderEffect]:
        self._steps.append((message, False))
        return super().receive(message, via, now)


def listen(experiment: str, size: int, messages: int) -> Asked:
    """Run the experiment's load and listen at the first node."""
    steps: list[tuple[Message, bool]] = []

    def orderer(me: int, of: int) -> Orderer:
        return _Listener(me, of, steps) if me == 0 else GRAPH.orderer(me, of)

    settings = SimSettings(
        nodes=size,
        messages=messages,
        interval_ms=INTERVAL_MS[experiment][size],
        latency_ms=LATENCY_MS[experiment],
        payload_bytes=0,
    )
    outcome = Run(settings, engine=replace(GRAPH, orderer=orderer))()
    if not outcome.complete:
        raise AssertionError(f"the simulated load did not complete: {outcome.why}")
    return Asked(size, steps)


def translate(asked: Asked, engine: Engine) -> Asked:
    """The same steps with the stamps that `engine` would have given."""
    if engine.name == "graph":
        return asked
    if engine.name == "none":
        steps = [(Message(message.dot, (), b""), own) for message, own in asked.steps]
        return Asked(asked.size, steps)
    vectors = _vectors(asked)
    twice = 2 if engine.name == "vector-e2e" else 1
    return Asked(asked.size, [(Message(m.dot, vectors[m.dot] * twice, b""), own) for m, own in asked.steps])


def _vectors(asked: Asked) -> dict[int, tuple[int, ...]]:
    """Every message's past as a vector, from its predecessors' vectors."""
    contexts = {message.dot: message.context for message, _ in asked.steps}
    vectors: dict[int, tuple[int, ...]] = {}
    nothing = (0,) * asked.size
    stack = list(contexts)
    while stack:
        dot = stack[-1]
        todo = [p for p in contexts[dot] if p not in vectors]
        if dot in vectors or not todo:
            stack.pop()
            if dot not in vectors:
                merged = list(map(max, nothing, nothing, *(vectors[p] for p in contexts[dot])))
                merged[dot & ORIGIN_MASK] = dot >> ORIGIN_BITS
                vectors[dot] = tuple(merged)
        else:
            stack.extend(todo)
    return vectors


def replay_stable(asked: Asked, engine: Engine) -> float:
    """The same with tags for the application and causal stability."""
    assert engine.witness
    tagger, orderer = engine.tagger(0, asked.size), engine.orderer(0, asked.size)
    witness = engine.witness(0, asked.size)
    batch, unswept, deliveries = max(1, asked.size // 2), 0, 0
    gc.collect()
    started = time.process_time_ns()
    for message, own in asked.steps:
        if own:
            sent = tagger.tag(b"")
            orderer.sent(orderer.stamp(sent), 0)
            witness.see(sent)
        else:
            for released in orderer.receive(message, 1, 0):
                assert isinstance(released, Message)
                tagger.took(released)
                witness.see(released)
                deliveries += 1
                unswept += 1
                if unswept >= batch:
                    unswept = 0
                    witness.sweep()
    return (time.process_time_ns() - started) / 1000 / deliveries


def replay(asked: Asked, engine: Engine) -> float:
    """CPU microseconds per delivery at that node: order and the stamps of its own messages."""
    tagger, orderer = engine.tagger(0, asked.size), engine.orderer(0, asked.size)
    tag, took, receive, sent = tagger.tag, tagger.took, orderer.receive, orderer.sent
    deliveries = 0
    gc.collect()
    started = time.process_time_ns()
    for message, own in asked.steps:
        if own:
            sent(tag(b""), 0)
        else:
            for released in receive(message, 1, 0):
                took(released)  # type: ignore[arg-type]  # these engines release messages only
                deliveries += 1
    spent = time.process_time_ns() - started
    due = sum(not own for _, own in asked.steps)
    if deliveries != due or orderer.waiting:
        raise AssertionError(f"{engine.name} delivered {deliveries} of {due}")
    return spent / 1000 / deliveries


def bench(quick: bool) -> Iterator[Record]:
    messages = 20 if quick else 100
    for experiment in ("3", "2"):
        for size in SIZES:
            asked = listen(experiment, size, messages)
            suffix = f"{size}" if experiment == "3" else f"exp2.{size}"
            yield Record(f"order.context.{suffix}", asked.mean_context, "dots")
            told = {name: translate(asked, engine) for name, engine in ENGINES.items()}
            runs = [(name, f"order.{name}.{suffix}", replay) for name in ENGINES]
            stable = [name for name, engine in ENGINES.items() if engine.witness]
            runs += [(name, f"order.{name}.stable.{suffix}", replay_stable) for name in stable]
            best = dict.fromkeys([label for _, label, _ in runs], float("inf"))
            for _ in range(REPEATS):  # interleaved: a noisy moment hits every engine
                for name, label, how in runs:
                    best[label] = min(best[label], how(told[name], ENGINES[name]))
            for label, value in best.items():
                yield Record(label, value, "us", best[f"order.none.{suffix}"])
    yield from history(10**5 if quick else 10**7)


def history(messages: int) -> Iterator[Record]:
    """Bytes kept by a client and middleware of 16 members after a short and after a long life."""
    size = 16
    parts = [GRAPH.tagger(0, size), GRAPH.orderer(0, size), Window(0, size)]
    tagger, orderer, witness = GRAPH.tagger(0, size), GRAPH.orderer(0, size), Window(0, size)
    last: tuple[int, ...] = ()
    kept = {}
    for number in range(messages):
        origin, seq = 1 + number % (size - 1), 1 + number // (size - 1)
        message = Message(pack(origin, seq), last, b"")
        for released in orderer.receive(message, origin, 0):
            assert isinstance(released, Message)
            tagger.took(released)
            witness.see(released)
        last = (message.dot,)
        if number % 8 == 7:
            witness.sweep()
        if number + 1 in (messages // 100, messages):
            kept[number + 1] = allocated([tagger, orderer, witness])
    for count, size_in_bytes in kept.items():
        yield Record(f"order.graph.history.{count}", size_in_bytes, "bytes", allocated(parts))
